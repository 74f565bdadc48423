"""Weight bytes of one rank, as the engine's "Model loading took" counts them.

Everything that loading leaves alive is counted: parameters after repacking, quantization scales, rotary tables, absorbed
MLA matrices, LoRA slots. The KV cache, workspaces and graphs are other terms.
"""

from __future__ import annotations

from planner.accelerators.accelerator import Accelerator
from planner.engines.config import Parallelism
from planner.estimate import Estimate
from planner.memory.budget import Input, Term
from planner.memory.formats import ExpertShape, Kernel, expert_bytes, linear_bytes
from planner.models.architecture import (
    Format,
    FullAttention,
    LatentAttention,
    Layer,
    Matrix,
    ModelArchitecture,
    RotaryTable,
    SlidingWindow,
    Tower,
    Vector,
)
from planner.record import NamedTuple
from planner.units import GIB, ceil_div, format_bytes, round_up

#: Bytes of top-k scratch that each sparse indexer allocates while loading, in newer versions (golden data of 0.32.0).
INDEXER_BUFFER = 8_400_900
INDEXER_BUFFER_SINCE = (0, 30)
#: The first release whose wheel brings Triton's MXFP4 kernels along (``third_party/triton_kernels``).
TRITON_KERNELS_SHIPPED = (0, 13)
#: DeepSeek-V4 keeps a batch's residual streams for its draft layers; up to 0.26 whether there are any or not.
_DRAFTS_ALONE_SINCE = (0, 27)
#: A workspace of FlashInfer's latent attention that some starts allocate while loading, others before.
LATENT_WORKSPACE = 128 * 2**20
#: Differences between the weight files and the arithmetic that repacking explains, and those that only other files do.
_REPACKED, _OTHER_FILES = 0.015, 0.5
_ELEMENT = {
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "float8_e4m3fn": 1,
    "int32": 4,
    "int64": 8,
    "int8": 1,
    "uint8": 1,
}


def stage_layers(
    num_layers: int, pp: int, version: tuple[int, ...], partition: tuple[int, ...] | None = None
) -> list[range]:
    """The decoder layers of each pipeline stage.

    ``partition`` is VLLM_PP_LAYER_PARTITION. Up to 0.7.3 the last stage takes the whole remainder; from 0.8.0 the stages
    before the last take one layer more each, counted backwards (vLLM distributed/utils.py, get_pp_indices). Raises
    ValueError where a partition does not fit.
    """
    if partition:
        if len(partition) != pp or sum(partition) != num_layers or min(partition) < 0:
            raise ValueError(f"the partition {partition} does not split {num_layers} layers over {pp} stages")
        sizes = list(partition)
    else:
        sizes = [num_layers // pp] * pp
        remainder = num_layers % pp
        if version < (0, 8):
            sizes[-1] += remainder
        else:
            for back in range(2, remainder + 2):
                sizes[-back] += 1
    stages, start = [], 0
    for size in sizes:
        stages.append(range(start, start + size))
        start += size
    return stages


class Rank(NamedTuple):
    """Where a rank stands: tensor size and rank, the group that shares experts, its size, and whether experts stay whole."""

    tensor: int
    tensor_rank: int
    expert_group: int
    expert_rank: int
    whole_experts: bool
    redundant: int


def rank_weights(
    model: ModelArchitecture,
    parallel: Parallelism,
    tensor_rank: int,
    pipeline_rank: int,
    *,
    engine_version: tuple[int, ...],
    dtype: str,
    accelerator: Accelerator | None = None,
    lora: tuple[int, int] | None = None,
    eplb_redundant: int = 0,
    quantization: str | None = None,
    expert_rank: int = 0,
    max_model_len: int = 0,
    cpu_offload_gib: float = 0,
    partition: tuple[int, ...] | None = None,
    max_num_batched_tokens: int = 0,
    mtp: bool = False,
    towers: bool = True,
    whole_towers: bool = False,
) -> Term:
    """Bytes of weights on one rank.

    ``dtype`` is the engine's (``bfloat16`` …); ``lora`` is (max_loras, max_lora_rank); ``quantization`` an online method
    (``fp8``, ``bitsandbytes``) applied to a 16-bit checkpoint; ``expert_rank`` the rank inside the expert group;
    ``eplb_redundant`` extra experts, with the transfer buffer of one layer that balancing needs; ``max_num_batched_tokens``
    sizes the choices of sparse indexers and buffers of multimodal inputs (0: 8192); ``mtp``: the checkpoint's own draft
    layers are loaded too, on the last stage; ``towers``: vision and audio encoders are loaded, ``whole_towers``: unsplit
    (``--mm-encoder-tp-mode data``).
    Raises ValueError for a pipeline rank or partition that does not exist.
    """
    stages = stage_layers(model.num_layers, parallel.pipeline, engine_version, partition)
    if not 0 <= pipeline_rank < len(stages):
        raise ValueError(f"pipeline rank {pipeline_rank} of {parallel.pipeline}")
    kernel = Kernel(
        engine_version,
        accelerator.capability if accelerator else None,
        _ELEMENT.get(dtype, 2),
        rocm=bool(accelerator and accelerator.vendor == "amd"),
    )
    group = parallel.tensor * parallel.data * parallel.prefill_context
    rank = Rank(parallel.tensor, tensor_rank, group, expert_rank, parallel.expert, eplb_redundant)
    formats = stored_formats(model, quantization)
    first, last = pipeline_rank == 0, pipeline_rank == parallel.pipeline - 1

    parts: list[tuple[str, int]] = []
    layers = _layers_bytes(model, stages[pipeline_rank], formats, kernel, rank)
    spared = 0
    if engine_version < TRITON_KERNELS_SHIPPED and kernel.hopper:
        # Marlin pads more than Triton's kernels, which some images had and the wheel did not.
        with_marlin = _layers_bytes(model, stages[pipeline_rank], formats, kernel._replace(triton=False), rank)
        spared, layers = with_marlin - layers, with_marlin
    parts.append((f"{len(stages[pipeline_rank])} layers", layers))
    if first or model.embedding_everywhere or (last and model.tied_embeddings):
        parts.append(("embedding", _matrix_bytes(model.embedding, formats, kernel, rank) if model.embedding else 0))
    if first:
        parts.append(("positions", sum(_vector_bytes(v, kernel, rank, model) for v in model.embedding_vectors)))
    if last or model.head_everywhere:
        parts.append(("head", _matrix_bytes(model.head, formats, kernel, rank) if model.head else 0))
    if last:
        parts.append(("final norm", sum(_vector_bytes(v, kernel, rank, model) for v in model.final_vectors)))
    for tower in model.towers:
        if not towers and tower.layers:
            continue
        if (tower.stage == "first" and first) or (tower.stage == "last" and last) or tower.stage == "all":
            split = rank._replace(tensor=1) if whole_towers and tower.layers else rank
            parts.append((tower.name, _tower_bytes(tower, model, formats, kernel, split)))
    if mtp and last:
        drafts = sum(_layer_bytes(layer, model, formats, kernel, rank) for layer in model.mtp_layers)
        parts.append((f"{len(model.mtp_layers)} draft layers", drafts))
    deviation = _file_deviation(model, formats, kernel)
    correction = int(deviation * sum(size for _, size in parts))
    if stages[pipeline_rank]:
        tables = sum(_table_bytes(table, kernel) for table in model.rotary_tables)
        parts.append(("rotary tables", tables))
    width = sum(tower.batch_width for tower in model.towers) if towers else 0
    if width:
        parts.append(("inputs beside the embeddings", (max_num_batched_tokens or 8192) * width * kernel.element))
    facts, rows = dict(model.extra), max_num_batched_tokens or 8192
    top_tokens, streams = facts.get("index_topk", ""), facts.get("streams", "")
    if top_tokens.isdecimal():
        parts.append(("indexer choices", 4 * rows * int(top_tokens)))
    kept = model.architecture.startswith("DeepseekV4") and (mtp or engine_version < _DRAFTS_ALONE_SINCE)
    if kept and last and streams.isdecimal():
        size = rows * int(streams) * model.hidden_size * kernel.element
        parts.append(("residual streams for drafts", size))
    if eplb_redundant and parallel.expert:
        parts.append(("balancing buffer", balancing_buffer(model, stages[pipeline_rank], formats, kernel, rank)))
    if lora:
        parts.append(("LoRA slots", lora_bytes(model, stages[pipeline_rank], lora, rank, first, last)))
    loaded = sum(size for _, size in parts)
    if correction:
        parts.append((f"{deviation:+.1%} by the size of the weight files", correction))
    computed, total = (max(size - int(cpu_offload_gib * GIB), 0) for size in (loaded, loaded + correction))
    sure = not (model.quantization or quantization or cpu_offload_gib)
    low, high = min(computed, total), max(computed, total)
    if not sure:  # repacking differs between kernels by what is not known here
        low, high = low - low // 400 - spared, high + high // 200
    if model.is_multi_latent:
        high += LATENT_WORKSPACE
    return Term(
        "weights",
        Estimate(low, total, high, "exact" if sure else "derived"),
        formula=" + ".join(f"{name} {format_bytes(size)}" for name, size in parts if size),
        inputs=(
            Input("tensor parallel", str(parallel.tensor), "engine"),
            Input("pipeline stage", f"{pipeline_rank + 1} of {parallel.pipeline}", "engine"),
            Input("format", quantization or model.quantization or dtype, "checkpoint"),
            *([Input("weight files", format_bytes(model.checkpoint_bytes), "checkpoint")] if deviation else []),
        ),
        grows_with=(("precision", f"{format_bytes(total // max(kernel.element, 1))} per byte of an element"),)
        if not model.quantization
        else (),
    )


def _file_deviation(model: ModelArchitecture, formats: dict[str, Format], kernel: Kernel) -> float:
    """By which part the weight files of a quantized checkpoint are larger (or, negative, smaller) than what its config
    describes; 0 for less than repacking explains, where nobody measured the files, and for other files than these.

    Some configs leave out which modules stay at 16 bits, or how deep a scheme goes. Draft layers may be in the files.
    """
    if not model.checkpoint_bytes or not model.quantization or formats is not model.formats:
        return 0.0
    plain = Rank(1, 0, 1, 0, False, 0)
    kernel = Kernel(kernel.version, None, kernel.element)
    size = _layers_bytes(model, range(model.num_layers), formats, kernel, plain)
    size += sum(_matrix_bytes(m, formats, kernel, plain) for m in (model.embedding, model.head) if m is not None)
    size += sum(_tower_bytes(tower, model, formats, kernel, plain) for tower in model.towers)
    drafts = sum(_layer_bytes(layer, model, formats, kernel, plain) for layer in model.mtp_layers)
    deviations = [model.checkpoint_bytes / described - 1 for described in {size, size + drafts} if described]
    nearest = min(deviations, key=abs, default=0.0)
    return nearest if _REPACKED < abs(nearest) < _OTHER_FILES else 0.0


def _layers_bytes(
    model: ModelArchitecture, stage: range, formats: dict[str, Format], kernel: Kernel, rank: Rank
) -> int:
    counts: dict[int, list[int]] = {}
    for index in stage:
        entry = counts.setdefault(id(model.layers[index]), [0, index])
        entry[0] += 1
    return sum(
        count * _layer_bytes(model.layers[index], model, formats, kernel, rank) for count, index in counts.values()
    )


def _layer_bytes(layer: Layer, model: ModelArchitecture, formats: dict[str, Format], kernel: Kernel, rank: Rank) -> int:
    size = sum(_vector_bytes(v, kernel, rank, model) for v in layer.vectors)
    w13: Matrix | None = None
    for matrix in layer.matrices:
        if matrix.shard == "expert_column":
            w13 = matrix
        elif matrix.shard == "expert_row" and w13 is not None:
            size += _experts_bytes(w13, matrix, formats, kernel, rank)
        else:
            size += _matrix_bytes(matrix, formats, kernel, rank)
    attention = layer.attention
    if isinstance(attention, LatentAttention):
        if not attention.window:
            size += _absorbed_bytes(layer, attention, rank)
        if attention.indexer_dim and kernel.version >= INDEXER_BUFFER_SINCE and not attention.window:
            size += INDEXER_BUFFER
    elif isinstance(attention, (FullAttention, SlidingWindow)):
        size += 16  # scales of query, key, value and probabilities
    return size


def _experts_bytes(w13: Matrix, w2: Matrix, formats: dict[str, Format], kernel: Kernel, rank: Rank) -> int:
    """Routed experts: whole ones under expert parallelism, slices of all of them without."""
    count, inner = w13.experts, w2.k
    if rank.whole_experts:
        share, more = divmod(count + rank.redundant, rank.expert_group)
        count = share + (1 if rank.expert_rank < more else 0)
    else:
        inner = max(ceil_div(inner, rank.expert_group), w13.least)
    return expert_bytes(formats[w13.format], ExpertShape(count, w13.k, inner, w13.slices, w13.bias), kernel)


def balancing_buffer(
    model: ModelArchitecture, stage: range, formats: dict[str, Format], kernel: Kernel, rank: Rank
) -> int:
    """Bytes of the buffer that moving experts between ranks needs: it is made like the experts of the stage's first layer that
    has any, as they lie after loading (vLLM, ``EplbState.add_model``, ``get_expert_weights`` of 0.19.1 and 0.24.0)."""
    for index in stage:
        pair = [matrix for matrix in model.layers[index].matrices if matrix.experts]
        if len(pair) == 2:
            return _experts_bytes(pair[0], pair[1], formats, kernel, rank)
    return 0


def _absorbed_bytes(layer: Layer, attention: LatentAttention, rank: Rank) -> int:
    """The two 16-bit matrices that absorb kv_b_proj; views of it where it is not quantized (vLLM, mla_attention.py)."""
    for matrix in layer.matrices:
        if matrix.name == "kv_b_proj":
            quantized = matrix.format not in ("model", "plain")
            heads = ceil_div(attention.heads, rank.tensor)
            return 2 * heads * (attention.nope_dim + attention.v_head_dim) * attention.kv_lora_rank if quantized else 0
    return 0


def _matrix_bytes(matrix: Matrix, formats: dict[str, Format], kernel: Kernel, rank: Rank) -> int:
    if matrix.shard == "host" or (matrix.until and kernel.version >= matrix.until):
        return 0
    n, k, biases = local_shape(matrix, rank)
    size = linear_bytes(formats[matrix.format], n, k, kernel, matrix.slices)
    return matrix.count * (size + (biases * kernel.element if matrix.bias else 0))


def local_shape(matrix: Matrix, rank: Rank) -> tuple[int, int, int]:
    """(outputs, inputs, bias elements) of a matrix on one rank; experts are not for this."""
    n, k, shard, tensor = matrix.n, matrix.k, matrix.shard, rank.tensor
    if shard == "column":
        n = ceil_div(n, tensor)
    elif shard == "row":
        return n, ceil_div(k, tensor), n
    elif shard == "qkv":
        heads, kv_heads = ceil_div(matrix.heads, tensor), max(1, ceil_div(matrix.kv_heads, tensor))
        n = heads * matrix.head_dim + kv_heads * (matrix.head_dim + (matrix.v_head_dim or matrix.head_dim))
    elif shard == "grouped":
        shared = matrix.kv_heads * matrix.head_dim
        n = ceil_div(n - shared, tensor) + max(1, ceil_div(matrix.kv_heads, tensor)) * matrix.head_dim
    elif shard == "vocab":
        n = ceil_div(round_up(n, matrix.pad), tensor)
    return n, k, n


def _vector_bytes(vector: Vector, kernel: Kernel, rank: Rank, model: ModelArchitecture) -> int:
    n = vector.n
    if vector.until and kernel.version >= vector.until:
        return 0
    if vector.shard == "column":
        n = ceil_div(n, rank.tensor)
    elif vector.shard == "column_kv":
        n = ceil_div(n, min(rank.tensor, max(model.kv_heads, 1)))
    elif vector.shard == "sink_heads":
        n = round_up(ceil_div(n, rank.tensor), 64)
    return n * vector.count * (kernel.element if vector.dtype == "model" else _ELEMENT.get(vector.dtype, 2))


def _tower_bytes(tower: Tower, model: ModelArchitecture, formats: dict[str, Format], kernel: Kernel, rank: Rank) -> int:
    if any(matrix.heads % rank.tensor for matrix in tower.matrices if matrix.shard == "qkv"):
        rank = rank._replace(tensor=1)  # heads that don't divide: every rank holds the whole tower
    size = sum(_matrix_bytes(m, formats, kernel, rank) for m in tower.matrices)
    size += sum(_vector_bytes(v, kernel, rank, model) for v in tower.vectors)
    return size + sum(_table_bytes(table, kernel) for table in tower.tables) + tower.buffer_bytes


def _table_bytes(table: RotaryTable, kernel: Kernel) -> int:
    positions = table.positions if kernel.version >= table.since else table.positions_before
    wide = table.dtype == "float32" or (table.wide_on_blackwell and kernel.blackwell)
    return positions * table.dim * table.count * (4 if wide else kernel.element)


def stored_formats(model: ModelArchitecture, quantization: str | None) -> dict[str, Format]:
    """Storage after loading: the checkpoint's, or what the engine makes of a 16-bit one while it loads it (``--quantization``):
    linear layers and experts only."""
    formats, method = model.formats, quantization or ""
    if model.quantization:
        return formats
    if method.startswith(("fp8", "ptpc_fp8")):
        return {**formats, "model": Format("fp8_channel" if method.startswith("ptpc") else "fp8_tensor")}
    if method == "bitsandbytes":
        return {**formats, "model": Format("bnb_nf4", group=64, bits=4)}
    if method == "experts_int8":
        return {**formats, "model": Format("int8")}
    return formats


def lora_bytes(
    model: ModelArchitecture, stage: range, lora: tuple[int, int], rank: Rank, first: bool, last: bool
) -> int:
    """Bytes of the adapter slots of (max_loras, max_lora_rank): A and B of every linear layer at 16 bits.

    A is whole per fused part on column-split layers and split on row-split ones, B the other way round; embedding and head
    keep theirs unsplit (vLLM lora/layers).
    """
    slots, width = lora
    sizes: dict[int, int] = {}
    total = 0
    for index in stage:
        layer = model.layers[index]
        size = sizes.get(id(layer))
        if size is None:
            size = sizes[id(layer)] = sum(_adapter_elements(matrix, rank) for matrix in layer.matrices)
        total += size
    for held, matrix in ((first, model.embedding), (last, model.head or model.embedding)):
        if held and matrix is not None:
            total += matrix.n + matrix.k
    return 2 * slots * width * total


def _adapter_elements(matrix: Matrix, rank: Rank) -> int:
    """Elements of A and B per rank of the adapter; nothing for what adapters leave alone."""
    if matrix.format == "plain" or matrix.format == "float32":
        return 0
    if matrix.shard in ("expert_column", "expert_row"):
        n, k, count = matrix.n, matrix.k, matrix.experts
        if rank.whole_experts:
            count = ceil_div(count + rank.redundant, rank.expert_group)
        elif matrix.shard == "expert_column":
            n = ceil_div(n, rank.expert_group)
        else:
            k = ceil_div(k, rank.expert_group)
        return count * (matrix.slices * k + n)
    n, k, _ = local_shape(matrix, rank)
    return matrix.count * (matrix.slices * k + n)
