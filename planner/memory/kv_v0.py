"""The cache of the V0 engine (0.6 to 0.10): one block table in which every attention layer keeps every token."""

from __future__ import annotations

from planner.engines.config import EffectiveConfig
from planner.memory.budget import KVGroup, KVPlan
from planner.memory.kv_block_size import kernel_for
from planner.memory.kv_layers import distinct_attentions, user_block
from planner.memory.kv_specs import element_bytes, local_heads, token_head_bytes
from planner.models.architecture import (
    ChunkedLocal,
    CrossAttention,
    FullAttention,
    LatentAttention,
    ModelArchitecture,
    NoAttention,
    RecurrentState,
    SlidingWindow,
)

#: what MLA models cached per head before 0.7.1: keys and values padded to this many elements
_EXPANDED_HEAD = 256


def v0_plan(
    model: ModelArchitecture, config: EffectiveConfig, stage: range, capability: tuple[int, int] | None
) -> KVPlan:
    """The layout of one pipeline stage. Windows keep every token here too, and recurrent state stands outside. Up to
    0.7.0 MLA is cached as keys and values of 256 elements per head. Source: vLLM ``worker/cache_engine.py``."""
    dtype = config.dtype.value if config.kv_cache_dtype.value == "auto" else config.kv_cache_dtype.value
    block = user_block(config.block_size) or kernel_for(model, dtype, capability, config.version).preferred
    pages: dict[int, int] = {}
    notes: list[str] = []
    indices, attentions = distinct_attentions(model)
    for attention, where in zip(attentions, indices, strict=True):
        count = sum(1 for index in where if index in stage)
        if isinstance(attention, RecurrentState):
            notes = ["the recurrent state stands outside the KV cache in the V0 engine and is not counted here"]
        elif count and not isinstance(attention, NoAttention) and getattr(attention, "kv_donor", None) is None:
            page = block * _token_bytes(attention, dtype, config)
            pages[page] = pages.get(page, 0) + count
    if not pages:
        return KVPlan(block, 0, 0, 0.0, (), 0, tuple(notes))
    total = sum(page * count for page, count in pages.items())
    group = KVGroup(
        kind="full",
        layers=sum(pages.values()),
        block_size=block,
        page_bytes=next(iter(pages)) if len(pages) == 1 else total,
        blocks_per_request=-(-config.max_model_len.value // block),
        pages=tuple(pages.items()),
    )
    return KVPlan(block, total, max(pages), total / block, (group,), group.blocks_per_request, tuple(notes))


def _token_bytes(
    attention: FullAttention | SlidingWindow | ChunkedLocal | CrossAttention | LatentAttention,
    dtype: str,
    config: EffectiveConfig,
) -> int:
    """Bytes of one token in one layer on one rank."""
    if isinstance(attention, LatentAttention):
        if config.version < (0, 7, 1):
            heads = local_heads(attention.heads, config.parallel.tensor)
            return heads * 2 * _EXPANDED_HEAD * element_bytes(dtype)
        return (attention.kv_lora_rank + attention.rope_dim) * element_bytes(dtype)
    heads = local_heads(attention.kv_heads, config.parallel.tensor)
    return heads * token_head_bytes(dtype, attention.head_dim, attention.head_dim)
