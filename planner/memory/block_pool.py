"""Engines that keep one pool of equal blocks over all attention layers and measure their peak before they size it (TGI,
TensorRT-LLM): what a token costs, and the budget around it."""

from __future__ import annotations

import math

from planner.accelerators.accelerator import Accelerator
from planner.engines.config import EffectiveConfig, Parallelism
from planner.estimate import Estimate, exactly
from planner.memory.activations import phases
from planner.memory.budget import Capacity, Input, KVGroup, KVPlan, MemoryBudget, RankBudget, Term
from planner.memory.coefficients import Spread
from planner.memory.weights import rank_weights, stage_layers
from planner.models.architecture import (
    ChunkedLocal,
    FullAttention,
    LatentAttention,
    ModelArchitecture,
    RecurrentState,
    SlidingWindow,
)
from planner.units import GIB, ceil_div, format_bytes

#: The weight model's layouts that are taken for engines whose kernels are not followed in detail.
_LAYOUT = (0, 19, 0)
_CONTEXT: Spread = (0.3, 0.6, 1.2)
_COMMUNICATORS: Spread = (0.1, 0.8, 2.4)
#: Peak of the warm-up over the tensor sizes of one layer and of its experts; nobody has published logs that say more.
_FORWARD: Spread = (0.6, 1.5, 4.0)
_EXPERTS: Spread = (0.2, 1.0, 3.0)
#: Bytes of the sampler per row and vocabulary entry.
_LOGITS: Spread = (4.0, 10.0, 24.0)
_GRAPHS: Spread = (0.05, 0.5, 2.5)
#: What a weight loader may do that the weight model does not know.
_WEIGHTS: Spread = (0.98, 1.0, 1.05)


def token_bytes(model: ModelArchitecture, tensor: int, dtype: str, stage: range) -> tuple[int, int, str]:
    """(bytes per token over the stage's layers, layers, what is not known) on one rank."""
    total = layers = 0
    unknown = ""
    for index in stage:
        layer = model.layers[index]
        attention = layer.attention
        if isinstance(attention, LatentAttention):
            total += _elements(attention.kv_lora_rank + attention.rope_dim, dtype)
            layers += 1
            if attention.indexer_dim or attention.window:
                unknown = "the cache of sparse or compressed latent attention is not known for this engine"
        elif isinstance(attention, (FullAttention, SlidingWindow, ChunkedLocal)):
            heads = max(1, attention.kv_heads // tensor)
            total += _elements(heads * (attention.head_dim + attention.v_head_dim), dtype)
            layers += 1
        if isinstance(attention, RecurrentState) or layer.state is not None:
            unknown = "the state of recurrent layers is not known for this engine"
    return total, layers, unknown


def _elements(count: int, dtype: str) -> int:
    if dtype.startswith(("fp8", "float8", "int8")):
        return count
    if dtype.startswith(("nvfp4", "fp4")):
        return count // 2 + count // 16
    return 2 * count


def fixed_terms(
    model: ModelArchitecture,
    config: EffectiveConfig,
    accelerator: Accelerator,
    stage: int,
    local: ModelArchitecture | None = None,
    *,
    rows: tuple[int, int, int] | None = None,
) -> dict[str, Term]:
    """Device, baseline, weights, peak of the warm-up, and graphs of one rank.

    ``local``: the model with the shapes that one rank holds, where its split is not that of the weight model; ``rows``:
    rows of logits in the warm-up at each bound (None: up to the sequences that may run).
    """
    parallel = config.parallel
    ranks = parallel.world
    baseline = [low + (more if ranks > 1 else 0.0) for low, more in zip(_CONTEXT, _COMMUNICATORS, strict=True)]
    weights = rank_weights(
        local or model,
        Parallelism(pipeline=parallel.pipeline) if local else parallel,
        0,
        stage,
        engine_version=_LAYOUT,
        dtype=config.dtype.value,
        accelerator=accelerator,
        quantization=config.quantization,
        max_model_len=config.max_model_len.value,
    )
    size = weights.bytes.expected
    spread = Estimate(int(size * _WEIGHTS[0]), size, int(size * _WEIGHTS[2]), "derived")
    sizes = phases(model, config)
    if rows is None:
        most = min(config.max_num_seqs.value, config.max_num_batched_tokens.value, 2048)
        rows = (most, most, most)
    entries = [count * model.vocab_size for count in rows]
    peaks = [
        (_FORWARD[i] * sizes.forward + _EXPERTS[i] * sizes.experts + _LOGITS[i] * entries[i]) / GIB for i in range(3)
    ]
    tokens = config.max_num_batched_tokens
    return {
        "device": Term(
            "device",
            accelerator.memory,
            "memory that the driver reports",
            (Input("accelerator", accelerator.name, accelerator.source or "accelerator catalog"),),
        ),
        "baseline": Term("baseline", _gib(baseline), "context and communicators, before the engine loads anything"),
        "weights": weights._replace(bytes=spread),
        "activations": Term(
            "activations",
            _gib(peaks)._replace(basis="assumed"),
            "forward + experts + logits of the warm-up",
            (
                Input("tokens", f"{tokens.value:,}", str(tokens.provenance)),
                Input("rows of logits", f"{rows[1]:,}", "requests of the warm-up"),
            ),
            (("batched tokens", f"{format_bytes(sizes.forward / max(tokens.value, 1))} per token"),),
        ),
        "non_torch": Term("non_torch", _gib([0.02, 0.2, 0.8]), "growth outside the allocator"),
        "graphs": Term(
            "graphs",
            _gib(list(_GRAPHS)) if config.capture_sizes else exactly(0),
            "captured after the cache",
            counted=False,
        ),
    }


def difference(whole: Estimate, parts: list[Estimate]) -> Estimate:
    """What is left; bounds are combined as independent errors, whose widths add in squares."""
    expected = whole.expected - sum(part.expected for part in parts)
    down = math.hypot(whole.expected - whole.low, *(part.high - part.expected for part in parts))
    up = math.hypot(whole.high - whole.expected, *(part.expected - part.low for part in parts))
    return Estimate(int(expected - down), expected, int(expected + up), "assumed")


def pooled(
    model: ModelArchitecture,
    config: EffectiveConfig,
    stages: list[dict[str, Term]],
    *,
    gpus_per_pod: int | None,
    notes: tuple[str, ...] = (),
    most_tokens: int | None = None,
    attention_ranks: int | None = None,
) -> MemoryBudget:
    """The budget of one engine copy whose ``stages`` (terms with ``kv_available``) share one pool each.

    ``most_tokens``: a limit on the tokens that somebody set; ``attention_ranks``: ranks that share the heads (None: the
    tensor size). Models whose cache is not known here have no capacity and the
    verdict ``unknown``.
    """
    parallel = config.parallel
    page = config.block_size.value if config.block_size else 1
    length = max(1, config.max_model_len.value)
    layers = stage_layers(model.num_layers, parallel.pipeline, _LAYOUT)
    found = [
        token_bytes(model, attention_ranks or parallel.tensor, config.kv_cache_dtype.value, stage) for stage in layers
    ]
    reasons = tuple(dict.fromkeys(reason for _, _, reason in found if reason))
    plans: list[KVPlan | None] = [None] * len(stages)
    tokens: Estimate | None = None
    if not reasons:
        plans = [_plan(cell, count, page, length) for cell, count, _ in found]
        tokens = _tokens(
            [term["kv_available"].bytes for term in stages], [cell for cell, _, _ in found], page, most_tokens
        )
    blocks = None if tokens is None else _scaled(tokens, page)
    ranks = []
    width = parallel.tensor * parallel.prefill_context
    per_pod = gpus_per_pod or parallel.world * parallel.data_local
    for copy in range(min(parallel.data, 256)):
        for index, terms in enumerate(stages):
            for tensor_rank in range(width):
                rank = copy * parallel.world + index * width + tensor_rank
                ranks.append(
                    RankBudget(
                        rank,
                        rank // per_pod,
                        rank % per_pod,
                        tensor_rank % parallel.tensor,
                        index,
                        terms,
                        plans[index],
                        blocks,
                    )
                )
    capacity = fitted = None
    if tokens is not None and blocks is not None:
        most = max(length, config.derived_max_model_len)
        lengths = (length, length, length)
        if config.max_model_len_auto:
            lengths = (min(length, tokens.low), min(length, tokens.expected), min(length, tokens.high))
            fitted = Estimate(*lengths, tokens.basis)
        capacity = Capacity(
            tokens,
            (
                tokens.low / max(1, lengths[0]),
                tokens.expected / max(1, lengths[1]),
                tokens.high / max(1, lengths[2]),
            ),
            Estimate(min(tokens.low, most), min(tokens.expected, most), min(tokens.high, most), tokens.basis),
            blocks,
            max(cell for cell, _, _ in found) * length,
        )
    tightest = min(range(len(stages)), key=lambda i: stages[i]["kv_available"].bytes.expected)
    verdict = "unknown" if reasons else _verdict(tokens, page)
    return MemoryBudget(tuple(ranks), capacity, verdict, tightest * width, (*notes, *reasons), fitted)


def _plan(cell: int, layers: int, page: int, length: int) -> KVPlan:
    row = cell // max(layers, 1)
    group = KVGroup("full", layers, page, row * page, ceil_div(length, page), pages=((row * page, layers),))
    return KVPlan(
        page, max(1, cell * page), row * page, float(cell), (group,) if layers else (), ceil_div(length, page)
    )


def _tokens(available: list[Estimate], cells: list[int], page: int, most: int | None) -> Estimate:
    bounds = []
    for bound in ("low", "expected", "high"):
        each = [
            max(0, getattr(size, bound)) // (cell * page) * page
            for size, cell in zip(available, cells, strict=True)
            if cell
        ]
        value = min(each, default=0)
        bounds.append(min(value, most) if most else value)
    return Estimate(bounds[0], bounds[1], bounds[2], available[0].basis)


def _scaled(tokens: Estimate, page: int) -> Estimate:
    return Estimate(tokens.low // page, tokens.expected // page, tokens.high // page, tokens.basis)


def _verdict(tokens: Estimate | None, page: int) -> str:
    if tokens is None:
        return "unknown"
    if tokens.low >= page:
        return "fits"
    return "may-not-fit" if tokens.high >= page else "does-not-fit"


def _gib(bounds: list[float]) -> Estimate:
    return Estimate(int(bounds[0] * GIB), int(bounds[1] * GIB), int(bounds[2] * GIB), "measured")
