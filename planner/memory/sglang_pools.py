"""From a number of bytes to SGLang's pools: tokens, window tokens, state slots and running requests.

Source: ``profile_max_num_token`` up to 0.5.10 and ``_profile_available_bytes``, ``handle_max_mamba_cache``,
``pool_configurator.py`` and ``resolve_max_num_reqs`` after; reference on SGLang's memory, 5 and 6.
"""

from __future__ import annotations

from planner.engines.sglang_config import SGLangConfig
from planner.memory.sglang_cells import Cells
from planner.memory.sglang_compressed import CompressedCells, window_cap
from planner.record import NamedTuple

#: A pipeline stage without attention never decides.
NO_LIMIT = 1 << 48


class Pools(NamedTuple):
    """What a budget becomes. Bytes are those of the buffers; ``full_bytes`` is the pool that the engine prints as KV cache.

    ``requests``: running requests that the scheduler of one rank allows.
    """

    tokens: int
    window_tokens: int
    slots: int
    full_bytes: int
    window_bytes: int
    state_bytes: int
    requests: int


def solve(budget: int, cells: Cells, config: SGLangConfig, compressed: CompressedCells | None = None) -> Pools:
    """The pools of one rank that ``budget`` bytes give (0 tokens where it gives none)."""
    page = config.block_size.value if config.block_size else 1
    if config.kv_disabled:
        return Pools(0, 0, 0, 0, 0, 0, requests(0, 0, config))
    if compressed is not None:
        return _compressed(budget, compressed, config, page)
    slots = states = 0
    if cells.state:
        slots, states = state_slots(budget, cells.state, config)
        budget -= states
    tokens = _tokens(budget, cells, config, page) if budget > 0 else 0
    tokens += _headroom(tokens, slots, cells, config) if tokens > 0 else 0
    if config.max_total_tokens:
        tokens = min(tokens, config.max_total_tokens)
    tokens = tokens // page * page
    return _pools(tokens, slots, states, cells, config, page)


def given(full_bytes: int, cells: Cells, config: SGLangConfig, compressed: CompressedCells | None = None) -> Pools:
    """The pools where the full-attention buffers are known to take ``full_bytes``: what a log prints."""
    page = config.block_size.value if config.block_size else 1
    if compressed is not None:
        return _compressed(full_bytes + compressed.fixed, compressed, config, page)
    row = cells.stored - cells.apart or cells.window
    if not row:
        return Pools(0, 0, 0, 0, 0, 0, requests(0, 0, config))
    # Buffers have a page of rows beyond the tokens.
    tokens = max(0, int(full_bytes // row) - page) // page * page
    if config.max_total_tokens:
        tokens = min(tokens, config.max_total_tokens // page * page)
    return _pools(tokens, 0, 0, cells, config, page)


def refusal(pools: Pools, cells: Cells, config: SGLangConfig) -> str:
    """Why the engine does not start with pools that are there, but serve no request; empty where it does. Source:
    ``resolve_max_num_reqs`` (0.5.13 on) and ``_validate_swa_pool`` of ``pool_configurator.py`` (0.5.16 on)."""
    page = config.block_size.value if config.block_size else 1
    if config.kv_disabled:
        return ""
    if cells.state and config.version >= (0, 5, 13) and pools.slots < config.slots_per_request:
        return (
            f"the pool of recurrent states has room for {pools.slots} slots and one request takes {config.slots_per_request}: "
            "raise --max-mamba-cache-size or --mamba-full-memory-ratio"
        )
    floor = cells.window_size + page
    windows = cells.window_layers and cells.full_layers and cells.window_size > 0
    if windows and config.version >= (0, 5, 16) and pools.tokens > 0 and pools.window_tokens <= floor:
        return (
            f"the pool of sliding windows holds {pools.window_tokens:,} tokens and one request takes more than {floor:,} "
            "(window and page): raise --swa-full-tokens-ratio"
        )
    return ""


def _pools(tokens: int, slots: int, states: int, cells: Cells, config: SGLangConfig, page: int) -> Pools:
    if cells.full_layers == 0 and cells.window_layers:
        return Pools(tokens, tokens, slots, 0, tokens * cells.window, states, requests(tokens, slots, config))
    windowed = 0
    if cells.window_layers:
        windowed = _fixed_window(cells, config, page) or int(tokens * config.window_ratio) // page * page
    return Pools(
        tokens,
        windowed,
        slots,
        tokens * cells.stored,
        windowed * cells.window,
        states,
        requests(tokens, slots, config),
    )


def _tokens(budget: int, cells: Cells, config: SGLangConfig, page: int) -> int:
    """Tokens of the full pool (of the window pool where all layers have windows)."""
    if not cells.window_layers:
        cell = cells.full + cells.draft
        return budget // cell if cell else NO_LIMIT
    if cells.full_layers == 0:
        return budget // cells.window
    fixed = _fixed_window(cells, config, page)
    if fixed:
        return max(0, budget - fixed * cells.window) // (cells.full + cells.draft)
    share = cells.full + cells.draft + config.window_ratio * cells.window
    if config.version < (0, 5, 9):
        return _tokens_by_layers(budget, cells, config)
    if config.version < (0, 5, 10):
        whole = cells.full + cells.window
        return int(budget // whole * whole / share)
    return int(budget // share)


def _tokens_by_layers(budget: int, cells: Cells, config: SGLangConfig) -> int:
    """Up to 0.5.8 tokens are split by layers as if all had the same heads; windows with others (MiMo-V2) are charged on top
    of all layers, in 0.5.7 of the full-attention ones (``get_cell_size_per_token``, ``set_num_tokens_hybrid_swa``)."""
    layers = cells.full_layers + cells.window_layers
    each = cells.full // cells.full_layers
    cell = each * layers
    if cells.window != each * cells.window_layers:
        cell = cells.window + (cells.full if config.version >= (0, 5, 7) and config.version < (0, 5, 8) else cell)
    return int(budget // cell * layers / (config.window_ratio * cells.window_layers + cells.full_layers))


def _fixed_window(cells: Cells, config: SGLangConfig, page: int) -> int:
    """Tokens of a window pool that follows from the requests instead of the ratio; 0 where it does not."""
    applies = (
        config.version >= (0, 5, 14)
        and config.requests_given is not None
        and not config.prefix_caching.value
        and (config.chunk > 0 or config.role == "decode")
        and cells.window_size > 0
    )
    if not applies:
        return 0
    return -(-window_cap(config, cells.window_size, page) // page) * page


def state_slots(budget: int, per_slot: int, config: SGLangConfig) -> tuple[int, int]:
    """(slots, bytes) of the recurrent state that ``budget`` bytes of all pools give."""
    version = config.version
    drafted = config.draft_tokens
    running = max(1, (config.requests_given or 48) // config.attention_data)
    per_request = config.slots_per_request
    stated = None if config.state_slots is None else max(1, config.state_slots // config.attention_data)
    if version < (0, 5, 4):
        slots = stated or 512
        return slots, slots * per_slot
    radix_off = not config.prefix_caching.value
    share = config.state_ratio / (1 + config.state_ratio)
    if version < (0, 5, 7):
        each = per_slot * (1 + drafted)
        if radix_off:
            slots = stated or config.requests_given or 512
        else:
            slots = int(budget * share // each)
        return max(0, slots), max(0, slots) * each
    fixed = stated
    if fixed is None and radix_off and config.requests_given is not None:
        fixed = running
    if version < (0, 5, 13):
        intermediate = per_slot * running * drafted
        slots = fixed if fixed is not None else int((budget - intermediate) * share // per_slot)
        return max(0, slots), max(0, slots) * per_slot + intermediate
    padding = 1 if version >= (0, 5, 17) else 0
    keeps = drafted if not (config.role == "prefill" and version >= (0, 5, 17)) else 0
    if fixed is not None:
        capped = min(running, fixed // per_request) if stated is not None else fixed
        return fixed, (fixed + padding) * per_slot + per_slot * (capped + padding) * keeps
    room = budget * share - padding * per_slot * (1 + keeps)
    slots = max(0, int(room // (per_slot * (1 + keeps / per_request))))
    capped = min(running, slots // per_request)
    return slots, (slots + padding) * per_slot + per_slot * (capped + padding) * keeps


def requests(tokens: int, slots: int, config: SGLangConfig) -> int:
    """Running requests that one rank's scheduler allows for a pool of ``tokens``."""
    version, length = config.version, max(1, config.max_model_len.value)
    estimate = max(min(int(tokens / length * 512), 4096), 2048)
    stated = config.requests_given
    if stated is None:
        found = min(estimate, tokens // 2) if version >= (0, 5, 10) else estimate
    else:
        each = max(1, stated // config.attention_data)
        if version >= (0, 5, 14):
            found = min(each, tokens // 2)
        else:
            found = min(each, estimate) if version >= (0, 5, 10) else each
    if slots:
        found = min(found, slots // config.slots_per_request)
    return max(0, found)


def _headroom(tokens: int, slots: int, cells: Cells, config: SGLangConfig) -> int:
    """Tokens that drafts get on top of what was profiled (up to 0.5.6), by the undivided number of requests."""
    if config.version >= (0, 5, 7) or config.speculative_method in ("", "ngram"):
        return 0
    running = config.requests_given or max(min(int(tokens / max(1, config.max_model_len.value) * 512), 4096), 2048)
    if cells.state and slots:
        running = min(running, slots // config.slots_per_request)
    return running * config.draft_steps * config.draft_topk + running * config.draft_tokens + 100


def _compressed(budget: int, cells: CompressedCells, config: SGLangConfig, page: int) -> Pools:
    rest = budget - cells.fixed - int(cells.window_tokens * cells.window)
    tokens = int(max(0, rest) / cells.full) if cells.full else 0
    if config.max_total_tokens:
        tokens = min(tokens, config.max_total_tokens)
    tokens = tokens // page * page
    windowed = cells.window_tokens or int(tokens * cells.ratio) // page * page
    return Pools(
        tokens,
        windowed,
        0,
        int(tokens * cells.full) + int(cells.window_tokens * cells.window),
        0,
        cells.fixed,
        requests(tokens, 0, config),
    )
