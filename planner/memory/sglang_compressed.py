"""The pools of DeepSeek-V4 in SGLang: windows, keys compressed 4 and 128 times, an indexer, and the compressors' state.

Source: ``DSV4PoolConfigurator`` of 0.5.12 to 0.5.23. All pools hang on one number of tokens.
"""

from __future__ import annotations

from planner.engines.sglang_config import SGLangConfig
from planner.models.architecture import LatentAttention, ModelArchitecture
from planner.record import NamedTuple

_STATE = 4  # bytes of an element of the compressors' state
_SCALES = 8  # bytes of scales beside a packed latent


class CompressedCells(NamedTuple):
    """``full``: bytes per token of the whole; ``window``: bytes per token of the window pool that ``full`` does not hold
    (it has a size of its own then, ``window_tokens``); ``fixed``: bytes by requests."""

    full: float
    window: float
    window_tokens: int
    fixed: int
    ratio: float


def compressed_cells(model: ModelArchitecture, config: SGLangConfig, stage: range, requests: int) -> CompressedCells:
    """Bytes per token of the layers in ``stage`` on one rank (they are whole on every tensor rank).

    ``requests``: running requests of one rank, which the compressors' state grows with from 0.5.15 on.
    """
    layers = [a for i in stage if isinstance(a := model.layers[i].attention, LatentAttention)]
    if not layers:
        return CompressedCells(0.0, 0.0, 0, 0, 0.0)
    version = config.version
    first = layers[0]
    head = first.kv_lora_rank + first.rope_dim
    row = first.kv_lora_rank + 2 * first.rope_dim + _SCALES
    four = [a for a in layers if a.compress_ratio == 4]
    many = sum(1 for a in layers if a.compress_ratio == 128)
    dim = max((a.indexer_dim for a in four), default=0)
    speculative = bool(config.speculative_method)
    page = config.block_size.value if config.block_size else 256
    rings = (16, 256) if speculative else (8, 128)
    window = first.window or 128
    span = page if version >= (0, 5, 16) else window
    state_of_four = rings[0] / span * 4 * (head + dim) * _STATE * len(four)
    # Early releases count the entries of compress_ratios, which has one for the MTP layer too.
    counted = len(layers) + (max(1, len(model.mtp_layers)) if version < (0, 5, 14) else 0)
    whole, quarter, few = (_row(row, page // ratio, version) for ratio in (1, 4, 128))
    per_window = whole * counted + state_of_four
    compressed = quarter / 4 * len(four) + few / 128 * many + (dim + dim // 128 * 4) / 4 * len(four)
    fixed = 0
    if version >= (0, 5, 15):
        rows = -(-((requests + 2) * rings[1] + 1) // 128) * 128
        fixed = rows * 2 * head * _STATE * many
    else:
        per_window += rings[1] / window * 2 * head * _STATE * many
    inflation = (counted + 1) / counted if speculative else 1.0
    # DeepSeek-V4 has its ratio set for it, so that only its successor is sized by requests.
    capped = version >= (0, 5, 21) and not config.window_ratio_given and model.model_type == "deepseek_v41"
    if capped and config.requests_given is not None and (config.chunk > 0 or config.role == "decode"):
        tokens = window_cap(config, window, page) + _tails(config) * (window + page)
        tokens = -(-tokens // page) * page
        return CompressedCells(compressed * inflation, per_window * inflation, tokens, fixed, 0.0)
    ratio = config.window_ratio
    return CompressedCells((ratio * per_window + compressed) * inflation, 0.0, 0, fixed, ratio)


def _row(row: int, page: int, version: tuple[int, ...]) -> float:
    """Bytes of one packed latent with its share of the page's end: pages are whole multiples of the values' bytes, which is
    charged from 0.5.21 on."""
    if version < (0, 5, 21) or page <= 0:
        return float(row)
    values = row - _SCALES
    return -(-page * row // values) * values / page


def _tails(config: SGLangConfig) -> int:
    """Prefixes whose windows stay addressable for reuse."""
    if not config.prefix_caching.value or config.requests_given is None:
        return 0
    return 4 * max(1, config.requests_given // config.attention_data)


def window_cap(config: SGLangConfig, window: int, page: int, eviction: int = 128) -> int:
    """Tokens of the window pool that the requests can hold at worst (``compute_swa_request_cap``)."""
    drafted = config.draft_tokens or 1
    overlap = config.async_scheduling.value
    allocation = page
    if config.speculative_method:
        allocation = (2 if overlap else 1) * max(page, config.draft_steps * max(1, config.draft_topk), drafted)
    each = window + eviction * drafted + page + allocation
    requests = max(1, (config.requests_given or 1) // config.attention_data)
    if config.role == "decode":
        return each * requests
    return each * requests + (2 if overlap else 1) * max(config.chunk, 0) + page
