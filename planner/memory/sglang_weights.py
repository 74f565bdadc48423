"""Weight bytes of one SGLang rank: the weight model of ``planner.memory.weights`` with SGLang's ways to split.

Attention, feed-forward and experts are split over groups of their own: data-parallel attention splits attention over
``tensor / attention_data`` ranks and keeps the embedding whole, experts are spread over ``expert_ranks`` and split over
the rest. Source: reference on SGLang's memory, 7; ``layers/dp_attention.py`` and the model classes.
"""

from __future__ import annotations

from planner.accelerators.accelerator import Accelerator
from planner.engines.config import Parallelism
from planner.engines.sglang_config import SGLangConfig
from planner.estimate import Estimate
from planner.memory.budget import Input, Term
from planner.memory.sglang_allocator import Segments
from planner.memory.sglang_cells import (
    BLOCK_DRAFT_DIM,
    BLOCK_DRAFT_HEADS,
    BLOCK_DRAFT_LAYERS,
    BLOCK_DRAFTS,
    attention_ranks,
)
from planner.memory.sglang_formats import as_kept, leftover_scales, unpacks
from planner.memory.weights import Rank, local_shape, rank_weights, stage_layers
from planner.models.architecture import LatentAttention, Layer, Matrix, ModelArchitecture, RotaryTable, Tower, Vector
from planner.record import NamedTuple, replace
from planner.units import GIB, ceil_div, format_bytes

#: Releases of the weight model whose layouts are SGLang's too: those before kernels of later releases allocate with weights.
_LAYOUT = (0, 29, 0)
#: Names of feed-forward layers; everything else beside experts belongs to attention.
_FEED_FORWARD = frozenset(
    (
        "gate_up_proj",
        "down_proj",
        "up_proj",
        "gate_proj",
        "fc1",
        "fc2",
        "c_fc",
        "w1",
        "w2",
        "dense_h_to_4h",
        "dense_4h_to_h",
    )
)
#: GiB that loading takes beside the tensors' segments: handles of libraries, and temporaries that stay referenced.
_LOADING = (0.0, 0.0, 0.14)
#: Tensors of one kind in a layer beyond which they are not told apart.
_MOST_ALIKE = 1024
_BYTES = {"model": 2.0, "plain": 2.0, "bfloat16": 2.0, "float16": 2.0, "float32": 4.0}


class Groups(NamedTuple):
    """Ranks over which each kind of layer is split; ``expert_ranks`` share whole experts, which are split over
    ``expert_tensor`` ranks each."""

    attention: int
    dense: int
    shared: int
    expert_ranks: int
    expert_tensor: int
    redundant: int
    embedding: int
    head: int


def weights(model: ModelArchitecture, config: SGLangConfig, stage: int, accelerator: Accelerator | None) -> Term:
    """Bytes that loading the model leaves in use on one rank of a pipeline stage, as "Load weight end" counts them."""
    kept = _kept(model, groups(config), config.host_tables, unpacks(model, accelerator))
    local = replace(kept.local, rotary_tables=_tables(kept.local, config, accelerator))
    layers = stage_layers(model.num_layers, config.parallel.pipeline, (1,))[stage]
    term = rank_weights(
        local,
        Parallelism(tensor=1, pipeline=config.parallel.pipeline),
        0,
        stage,
        engine_version=_LAYOUT,
        dtype=config.dtype.value,
        accelerator=accelerator,
        lora=config.lora,
        quantization=config.quantization,
        max_model_len=config.max_model_len.value,
        cpu_offload_gib=config.cpu_offload_gib,
        towers=config.multimodal_profiled,
    )
    size = term.bytes
    slack = 0
    if not config.cpu_offload_gib:
        if layers not in kept.spare:
            kept.spare[layers] = segments(kept.local, layers)
        slack = kept.spare[layers]
    stale = leftover_scales(local, layers, config, accelerator)
    bounds = (size.low + stale, size.expected + slack + stale, size.high + slack + stale)
    low, expected, high = (int(part + extra * GIB) for part, extra in zip(bounds, _LOADING, strict=True))
    parallel = config.parallel
    split_words = f"tensor {parallel.tensor}, attention data {config.attention_data}, expert {config.expert_ranks}"
    return term._replace(
        bytes=Estimate(low, expected, high, "derived"),
        formula=f"{term.formula} + allocator segments {format_bytes(slack + _LOADING[1] * GIB)}"
        + (f" + scales beside their repacked copies {format_bytes(stale)}" if stale else ""),
        inputs=(Input("parallel", split_words, "flags"), *term.inputs[1:]),
    )


class _Kept(NamedTuple):
    """``model`` as a rank holds it (``local``), and the allocator's rest of its stages as far as somebody asked."""

    model: ModelArchitecture
    local: ModelArchitecture
    spare: dict[range, int]


#: By the identity of the model, since devices of many sizes are tried for one start.
_KEPT: dict[tuple[int, Groups, bool, bool], _Kept] = {}
_MOST_KEPT = 64


def _kept(model: ModelArchitecture, groups: Groups, host_tables: bool, unpacked: bool) -> _Kept:
    key = (id(model), groups, host_tables, unpacked)
    found = _KEPT.get(key)
    if found is None or found.model is not model:
        if len(_KEPT) >= _MOST_KEPT:
            _KEPT.clear()
        local = split(model, groups, host_tables)
        found = _KEPT[key] = _Kept(model, as_kept(local) if unpacked else local, {})
    return found


def _tables(model: ModelArchitecture, config: SGLangConfig, accelerator: Accelerator | None) -> tuple[RotaryTable, ...]:
    """Rotary tables as SGLang has them: 32 bits on CUDA and, from 0.5.22, on ROCm (``RotaryEmbedding.__init__``); those of
    multimodal positions not enlarged, and Gemma-3's by its positions without their scaling (``Gemma3Attention``)."""
    wide = accelerator is None or accelerator.vendor == "nvidia" or config.version >= (0, 5, 22)
    unscaled = model.architecture.startswith("Gemma3F")
    found = []
    for table in model.rotary_tables:
        positions = table.positions // max(1, table.enlarged)
        if unscaled:
            positions = min(other.positions for other in model.rotary_tables)
        dtype = "float32" if wide and table.dtype == "model" else table.dtype
        found.append(table._replace(positions=positions, dtype=dtype, enlarged=1))
    return tuple(found)


def segments(model: ModelArchitecture, stage: range) -> int:
    """Bytes that the allocator rounds the weights of a stage up by: "mem usage" is a difference of free device memory, so
    that it counts whole segments. ``model`` has local shapes."""
    held = Segments()
    if model.embedding is not None and stage and stage[0] == 0:
        held.take(_sizes(model.embedding, model))
    sizes: dict[int, list[int]] = {}
    for index in stage:
        layer = model.layers[index]
        found = sizes.get(id(layer))
        if found is None:
            found = [size for matrix in layer.matrices for size in _sizes(matrix, model)]
            found += [2 * vector.n for vector in layer.vectors for _ in range(vector.count)]
            sizes[id(layer)] = found
        held.take(found)
    if model.head is not None and stage and stage[-1] == model.num_layers - 1:
        held.take(_sizes(model.head, model))
    for tower in model.towers:
        for matrix in tower.matrices:
            held.take(_sizes(matrix, model))
        held.take(2 * vector.n for vector in tower.vectors for _ in range(vector.count))
    return held.spare


def _sizes(matrix: Matrix, model: ModelArchitecture) -> list[int]:
    """Bytes of the tensors of a matrix, without scales."""
    if matrix.shard == "host":
        return []
    form = model.formats.get(matrix.format)
    name = form.name if form else matrix.format
    element = _BYTES.get(name) or (form.bits / 8 if form and form.bits else 0.5 if "4" in name else 1.0)
    size = int(matrix.n * matrix.k * element) * max(1, matrix.experts)
    return [size, *([2 * matrix.n] if matrix.bias else [])] * min(matrix.count, _MOST_ALIKE)


def draft_weights(
    model: ModelArchitecture, config: SGLangConfig, accelerator: Accelerator | None, draft: ModelArchitecture | None
) -> Term | None:
    """Bytes of the draft model on one rank; None without one. An unknown draft is taken for one layer of the model with an
    output head of 32k entries (EAGLE-3), which public logs bear out within a factor of three."""
    if config.speculative_method in ("", "ngram"):
        return None
    if draft is not None:
        return weights(draft, replace(config, speculative_method="", lora=None), 0, accelerator)._replace(name="draft")
    if config.speculative_method in BLOCK_DRAFTS:
        return _block_draft(model, config)
    own = not config.speculative_model and model.mtp_layers
    layers = model.mtp_layers if own else model.layers[:1]
    hidden = model.hidden_size
    small = replace(
        model,
        layers=tuple(layers),
        embedding=None,
        head=None,
        tied_embeddings=False,
        towers=(),
        mtp_layers=(),
        embedding_vectors=(),
        rotary_tables=model.rotary_tables,
    )
    single = replace(config, parallel=config.parallel._replace(pipeline=1), lora=None, cpu_offload_gib=0.0)
    body = weights(small, single, 0, accelerator).bytes
    extra = 2 * hidden * (2 * hidden if own else 3 * hidden + 32_000) // (1 if own else config.parallel.tensor)
    expected = body.expected + extra
    spread = (0.9, 1.3) if own else (0.3, 3.0)
    source = "the checkpoint's own MTP layers" if own else "the draft is not known: one layer of the model is assumed"
    return Term(
        "draft",
        Estimate(int(expected * spread[0]), expected, int(expected * spread[1]), "derived" if own else "assumed"),
        "draft layers + projection" + ("" if own else " + head"),
        (Input("draft", config.speculative_model or "MTP", source),),
    )


def _block_draft(model: ModelArchitecture, config: SGLangConfig) -> Term:
    """A draft that writes blocks of tokens (DFLASH): layers like those of public drafts, and a projection of as many hidden
    states of the target; embedding and head are the target's. Public drafts: 0.4 to 2 billion parameters, 16 bits."""
    hidden, heads = model.hidden_size, 4 * BLOCK_DRAFT_HEADS
    attention = hidden * BLOCK_DRAFT_DIM * (2 * heads + 2 * BLOCK_DRAFT_HEADS)
    elements = BLOCK_DRAFT_LAYERS * (attention + 9 * hidden * hidden + hidden * hidden)
    size = 2 * elements // config.parallel.tensor
    return Term(
        "draft",
        Estimate(size // 2, size, 5 * size // 2, "assumed"),
        "layers + projection of the target's hidden states",
        (Input("draft", config.speculative_model, "not known: five layers of the target's width are assumed"),),
    )


def groups(config: SGLangConfig) -> Groups:
    """How many ranks share each kind of layer."""
    tensor = config.parallel.tensor
    attention = attention_ranks(config)
    dense = config.dense_tensor or tensor
    experts = min(config.expert_ranks, tensor)
    return Groups(
        attention=attention,
        dense=min(dense, tensor),
        shared=1 if config.shared_replicated else tensor,
        expert_ranks=experts,
        expert_tensor=max(1, tensor // experts),
        redundant=config.redundant_experts if experts > 1 else 0,
        embedding=1 if config.attention_data > 1 else tensor,
        head=attention if config.head_data else tensor,
    )


def split(model: ModelArchitecture, groups: Groups, host_tables: bool = True) -> ModelArchitecture:
    """The model as one rank holds it: every matrix with its local shape, none left to split. ``host_tables``: tables that
    may stay in the host's memory do; else ranks divide them like a vocabulary."""
    done: dict[int, Layer] = {}

    def local(layer: Layer) -> Layer:
        found = done.get(id(layer))
        if found is None:
            found = done[id(layer)] = _layer(layer, groups, model, host_tables)
        return found

    return replace(
        model,
        layers=tuple(local(layer) for layer in model.layers),
        mtp_layers=tuple(local(layer) for layer in model.mtp_layers),
        embedding=_matrix(model.embedding, groups.embedding) if model.embedding else None,
        head=_matrix(model.head, groups.head) if model.head else None,
        towers=tuple(_tower(tower, groups.attention, model) for tower in model.towers),
        extra=tuple(pair for pair in model.extra if pair[0] != "index_topk"),
    )


def _layer(layer: Layer, groups: Groups, model: ModelArchitecture, host_tables: bool) -> Layer:
    routed = any(matrix.experts for matrix in layer.matrices)
    matrices = []
    for matrix in layer.matrices:
        if matrix.shard == "host":
            table = matrix if host_tables else _matrix(matrix._replace(shard="vocab"), groups.embedding)
            matrices.append(table)
        elif matrix.shard in ("expert_column", "expert_row"):
            matrices.append(_experts(matrix, groups))
        elif matrix.name in _FEED_FORWARD:
            matrices.append(_matrix(matrix, groups.shared if routed else groups.dense))
        else:
            matrices.append(_matrix(matrix, groups.attention))
    attention = layer.attention
    if isinstance(attention, LatentAttention):
        attention = attention._replace(heads=ceil_div(attention.heads, groups.attention))
    vectors = tuple(_vector(vector, groups.attention, model) for vector in layer.vectors)
    return layer._replace(attention=attention, matrices=tuple(matrices), vectors=vectors)


def _matrix(matrix: Matrix, ranks: int) -> Matrix:
    if matrix.shard == "replicated" or ranks <= 1:
        # The padding of a vocabulary does not hang on the number of ranks.
        n, k, _ = local_shape(matrix, _rank(1))
        return matrix._replace(n=n, k=k, shard="replicated")
    n, k, _ = local_shape(matrix, _rank(ranks))
    return matrix._replace(n=n, k=k, shard="replicated")


def _experts(matrix: Matrix, groups: Groups) -> Matrix:
    count = ceil_div(matrix.experts + groups.redundant, groups.expert_ranks)
    if matrix.shard == "expert_column":
        width = max(ceil_div(matrix.n, groups.expert_tensor), matrix.slices * matrix.least)
        return matrix._replace(n=width, experts=count)
    return matrix._replace(k=max(ceil_div(matrix.k, groups.expert_tensor), matrix.least), experts=count)


def _vector(vector: Vector, ranks: int, model: ModelArchitecture) -> Vector:
    if vector.shard == "replicated" or ranks <= 1:
        return vector
    if vector.shard == "column_kv":
        return vector._replace(n=ceil_div(vector.n, min(ranks, max(model.kv_heads, 1))), shard="replicated")
    return vector._replace(n=ceil_div(vector.n, ranks), shard="replicated")


def _tower(tower: Tower, ranks: int, model: ModelArchitecture) -> Tower:
    if any(matrix.heads % ranks for matrix in tower.matrices if matrix.shard == "qkv"):
        ranks = 1
    return tower._replace(
        batch_width=0,  # vLLM's buffers for what goes into the decoder beside the embeddings
        matrices=tuple(_matrix(matrix, ranks) for matrix in tower.matrices),
        vectors=tuple(_vector(vector, ranks, model) for vector in tower.vectors),
    )


def _rank(ranks: int) -> Rank:
    return Rank(ranks, 0, ranks, 0, False, 0)
