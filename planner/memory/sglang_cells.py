"""What one token costs in SGLang's pools, per rank and pipeline stage.

SGLang charges a fixed number of bytes per token over all attention layers ("cell"), rounds the tokens down to pages, and
allocates a buffer per layer. Layers with a sliding window have a pool of their own in some architectures and releases;
recurrent layers hold a state per slot. Source: ``get_cell_size_per_token`` up to 0.5.10, ``pool_configurator.py`` from
0.5.11; reference on SGLang's memory, 5.
"""

from __future__ import annotations

from planner.engines.sglang_config import SGLangConfig
from planner.models.architecture import (
    Attention,
    ChunkedLocal,
    FullAttention,
    LatentAttention,
    ModelArchitecture,
    RecurrentState,
    SlidingWindow,
)
from planner.record import NamedTuple

#: Bytes of one FP8 token in the sparse kernels: 512 values, 4 scales of 4 bytes, 64 rotary elements of 2 bytes.
_PACKED_LATENT = 656
_ELEMENT = {"float32": 4, "bfloat16": 2, "float16": 2, "bf16": 2, "half": 2, "auto": 2}
#: Algorithms whose drafts write a block of tokens at once, and what their public drafts look like: five layers with eight KV
#: heads of 128 and a feed-forward of three times the target's width.
BLOCK_DRAFTS = ("dflash", "dspark")
BLOCK_DRAFT_LAYERS, BLOCK_DRAFT_HEADS, BLOCK_DRAFT_DIM = 5, 8, 128
_FOUR_BITS = ("fp4_e2m1", "nvfp4", "fp4_mx_block16")


class Cells(NamedTuple):
    """Bytes per token of one rank on one pipeline stage.

    ``full``: what the engine charges per token of the full-attention pool; ``stored``: what its buffers take;
    ``window``: per token of the window pool (0: there is none). ``draft``: what speculative decoding adds per token of the
    full pool. ``state``: bytes of one state slot. ``latent``: the cache is one buffer, not one each for keys and values.
    ``apart``: the part of ``stored`` in buffers that the log prints apart from keys and values.
    """

    full: int
    stored: int
    window: int
    full_layers: int
    window_layers: int
    window_size: int
    draft: int
    state: int
    state_layers: int
    latent: bool
    row: int
    notes: tuple[str, ...] = ()
    apart: int = 0


def attention_ranks(config: SGLangConfig) -> int:
    """Ranks that share the heads of one attention layer."""
    return max(1, config.parallel.tensor // (config.attention_data * config.attention_context))


def head_ranks(config: SGLangConfig) -> int:
    """Ranks that share the KV heads of one attention layer: from 0.5.18 the ranks of a decode context group hold the same heads
    (``ModelConfig.get_num_kv_heads``), for every one keeps its own part of the tokens."""
    ranks = attention_ranks(config)
    return max(1, ranks // config.parallel.context) if config.version >= (0, 5, 18) else ranks


def cells(
    model: ModelArchitecture, config: SGLangConfig, stage: range, draft: ModelArchitecture | None = None
) -> Cells:
    """Bytes per token and per state slot of the layers in ``stage``; ``draft``: the draft model, where it is known."""
    ranks = attention_ranks(config)
    full = stored = apart = window = state = full_layers = window_layers = state_layers = 0
    size = row = 0
    latent = False
    sparse = any(isinstance(x.attention, LatentAttention) and x.attention.indexer_dim for x in model.layers)
    for attention, count, beside in _distinct(model, stage):
        for recurrent in (attention, beside):
            # A convolution beside another layer (Qwen4-Exp's n-grams) has a small pool that is charged to nothing.
            if recurrent is beside and beside is not None and beside.kind == "short_conv":
                continue
            if isinstance(recurrent, RecurrentState):
                state += count * state_bytes(recurrent, config, ranks)
                state_layers += count
        if isinstance(attention, LatentAttention):
            charged, kept = latent_bytes(attention, config, sparse)
            full, stored, latent = full + count * charged, stored + count * kept, True
            full_layers, row = full_layers + count, max(row, kept)
        elif isinstance(attention, (SlidingWindow, ChunkedLocal)) and config.window_pool:
            window += count * head_bytes(attention, config, ranks)
            window_layers += count
            reach = attention.window if isinstance(attention, SlidingWindow) else attention.chunk
            size = max(size, reach)
        elif isinstance(attention, (FullAttention, SlidingWindow, ChunkedLocal)):
            each = head_bytes(attention, config, head_ranks(config))
            if isinstance(attention, FullAttention) and attention.indexer_dim:
                each += index_bytes(attention, config)
                apart += count * index_bytes(attention, config)
            full, stored = full + count * each, stored + count * each
            full_layers, row = full_layers + count, max(row, each)
    drafted, notes = _draft(model, config, full, full_layers, window_layers, draft)
    return Cells(
        full,
        stored,
        window,
        full_layers,
        window_layers,
        size,
        drafted,
        state,
        state_layers,
        latent,
        row or window,
        notes,
        apart,
    )


def head_bytes(attention: FullAttention | SlidingWindow | ChunkedLocal, config: SGLangConfig, ranks: int) -> int:
    """Keys and values of one token in one layer; heads are replicated where there are fewer than ranks."""
    heads = max(1, attention.kv_heads // ranks)
    value = attention.v_head_dim if config.version >= (0, 5, 7) else attention.head_dim
    return element_bytes(heads * (attention.head_dim + value), config.kv_cache_dtype.value)


def element_bytes(elements: int, dtype: str) -> int:
    """Bytes of a number of cache elements with the scales beside them."""
    if dtype in _FOUR_BITS:
        return elements // 2 + elements // 16
    if dtype == "mxfp8":
        return elements + elements // 32
    if dtype.startswith(("fp8", "float8")):
        return elements
    return elements * _ELEMENT.get(dtype, 2)


def latent_bytes(attention: LatentAttention, config: SGLangConfig, sparse: bool) -> tuple[int, int]:
    """(charged, stored) bytes of one token in one MLA layer, the same on every tensor rank. The indexer's keys are FP8 with
    a scale per 128; up to 0.5.17 every layer of a sparse model is charged for one, and FP8 rows without their scales. From
    0.5.22 each rank of a decode context group keeps the indexer's keys of all tokens."""
    dtype = config.kv_cache_dtype.value
    plain = element_bytes(attention.kv_lora_rank + attention.rope_dim, dtype)
    indexer = pooled = 0
    if sparse and config.version >= (0, 5, 4) and (attention.indexer_dim or config.version < (0, 5, 18)):
        dim = attention.indexer_dim or 128
        pooled = indexer = dim + dim // 128 * 4
        if attention.index_ratio > 1:  # GLM-5.3-Flash: what is charged follows what is kept from 0.5.22
            pooled = -(-indexer // attention.index_ratio)
            indexer = pooled if config.version >= (0, 5, 22) else indexer
    if config.version >= (0, 5, 22):
        indexer, pooled = indexer * config.parallel.context, pooled * config.parallel.context
    if not sparse or config.raw_sparse_rows or not dtype.startswith("fp8"):
        return plain + indexer, plain + pooled
    charged = _PACKED_LATENT if config.version >= (0, 5, 18) else plain
    return charged + indexer, _PACKED_LATENT + pooled


def index_bytes(attention: FullAttention, config: SGLangConfig) -> int:
    """Bytes that the indexer of one layer with keys and values of its own keeps per token, the same on every rank.

    MiniMax-M3 has a key per token (``MiniMaxSparseKVPool``), Qwen4-Exp one per ``index_ratio`` tokens
    (``qsa_bytes_per_token``); the ring of the unfinished group belongs to the request.
    """
    size = 1 if config.index_dtype.startswith(("fp8", "float8")) else _ELEMENT.get(config.index_dtype, 2)
    return attention.indexer_dim * size // max(1, attention.index_ratio)


def state_bytes(state: RecurrentState, config: SGLangConfig, ranks: int) -> int:
    """Bytes of one state slot in one recurrent layer on one rank (``mamba_cache_per_req``)."""
    total = 0
    for shape in state.states:
        dims = list(shape.shape)
        if shape.shard_dim >= 0:
            whole = dims[shape.shard_dim]
            if shape.role == "conv" and state.groups and state.groups % ranks:
                # Groups are copied so that every rank has the ones that its heads need.
                whole += 2 * (ranks - state.groups) * state.group_state
            dims[shape.shard_dim] = -(-whole // ranks)
        elements = 1
        for dim in dims:
            elements *= dim
        dtype = config.conv_dtype if shape.role == "conv" else config.state_dtype
        total += elements * _ELEMENT.get(dtype, 4)
    return total


def _distinct(model: ModelArchitecture, stage: range) -> list[tuple[Attention, int, RecurrentState | None]]:
    """The attention of the stage's layers with the number of layers that share it."""
    counts: dict[int, list[int]] = {}
    for index in stage:
        entry = counts.setdefault(id(model.layers[index]), [0, index])
        entry[0] += 1
    return [(model.layers[i].attention, count, model.layers[i].state) for count, i in counts.values()]


def _draft(
    model: ModelArchitecture,
    config: SGLangConfig,
    full: int,
    layers: int,
    windows: int,
    draft: ModelArchitecture | None,
) -> tuple[int, tuple[str, ...]]:
    """Bytes that a draft's cache adds to every token where it is charged, and what is not known of it.

    EAGLE drafts and models of their own are charged by their number of layers with the target's bytes per layer: from 0.5.14,
    where the target has a pool for windows from 0.5.15. Block drafts (DFLASH, DSPARK) are charged so from 0.5.11 to 0.5.17,
    where the target has no pool for windows, and with bytes of their own from 0.5.18.
    """
    method = config.speculative_method
    if not method or method == "ngram" or not layers:
        return 0, ()
    if method in BLOCK_DRAFTS:
        return _block_draft(config, full, layers, windows, draft)
    if config.version < ((0, 5, 15) if windows else (0, 5, 14)):
        return 0, ()
    if draft is not None and config.speculative_model:
        return full * draft.num_layers // layers, ()
    drafted = len(model.mtp_layers) if not config.speculative_model and model.mtp_layers else 1
    note = ("the draft model is not known: the cache of one layer is assumed",) if method == "standalone" else ()
    return full * drafted // layers, note


def _block_draft(
    config: SGLangConfig, full: int, layers: int, windows: int, draft: ModelArchitecture | None
) -> tuple[int, tuple[str, ...]]:
    if config.version < (0, 5, 11) or (windows and config.version < (0, 5, 18)):
        return 0, ()
    drafted = draft.num_layers if draft is not None else BLOCK_DRAFT_LAYERS
    note = () if draft is not None else (f"the draft model is not known: the cache of {drafted} layers is assumed",)
    # A block draft keeps every token on every rank of a decode context group.
    copies = config.parallel.context if config.version >= (0, 5, 17) else 1
    if config.version < (0, 5, 18):
        return -(-full * (layers + drafted * copies) // layers) - full, note
    ranks = attention_ranks(config)
    if draft is None:
        each = element_bytes(max(1, BLOCK_DRAFT_HEADS // ranks) * 2 * BLOCK_DRAFT_DIM, config.kv_cache_dtype.value)
        return drafted * each * copies, note
    own = 0
    for layer in draft.layers:
        if isinstance(layer.attention, (FullAttention, SlidingWindow, ChunkedLocal)):
            own += head_bytes(layer.attention, config, ranks)
    return own * copies, note
