"""The single tensors behind the weights of one rank: what the allocator makes of their sizes, and which of them an offloading
scheme moves to the host.

``weights`` sums bytes; here each tensor counts, since rounding and offloading go tensor by tensor.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.accelerators.accelerator import Accelerator
from planner.engines.config import EffectiveConfig
from planner.memory.formats import ExpertShape, Kernel, expert_bytes, linear_bytes, padded_expert
from planner.memory.weights import Rank, local_shape
from planner.models.architecture import Format, Layer, Matrix, ModelArchitecture
from planner.record import NamedTuple
from planner.units import GIB, MIB, ceil_div, round_up

#: PyTorch's caching allocator: requests from this size on get segments of their own, in multiples of ``_SEGMENT``, whose rest
#: stays with the tensor unless it is larger than ``_SPLIT``. Source: c10/cuda/CUDACachingAllocator.cpp.
_OWN_SEGMENT = 10 * MIB
_SEGMENT = 2 * MIB
_SPLIT = MIB
_ELEMENT_BYTES = {"float32": 4, "int32": 4, "float8_e4m3fn": 1}
_HALF_BYTE = ("nvfp4", "nvfp4_a16", "mxfp4", "bnb_nf4")


class Tensor(NamedTuple):
    """``count`` tensors of ``size`` bytes each, on one rank."""

    size: int
    count: int = 1  # type: ignore[assignment]  # the field hides the tuple method


class Holder(NamedTuple):
    """What sizes hang on: the rank, the kernels and the storage formats of a model."""

    rank: Rank
    kernel: Kernel
    formats: dict[str, Format]


def holder(model: ModelArchitecture, config: EffectiveConfig, accelerator: Accelerator | None) -> Holder:
    """How a rank of this start holds its tensors."""
    parallel = config.parallel
    group = parallel.tensor * parallel.data * parallel.prefill_context
    return Holder(
        Rank(parallel.tensor, 0, group, 0, parallel.expert, config.eplb_redundant),
        Kernel(
            config.version,
            accelerator.capability if accelerator else None,
            _ELEMENT_BYTES.get(config.dtype.value, 2),
            rocm=accelerator is not None and accelerator.vendor == "amd",
        ),
        model.formats,
    )


def layer_tensors(layer: Layer, how: Holder) -> Iterator[Tensor]:
    """The large tensors of a layer in the order of its modules; scales follow their values. Vectors are left out."""
    w13: Matrix | None = None
    for matrix in layer.matrices:
        if matrix.shard == "expert_column":
            w13 = matrix
        elif matrix.shard == "expert_row" and w13 is not None:
            yield from _expert_tensors(w13, matrix, how)
        elif not (matrix.until and how.kernel.version >= matrix.until):
            yield from matrix_tensors(matrix, how)


def matrix_tensors(matrix: Matrix, how: Holder) -> Iterator[Tensor]:
    """Values of a matrix, then its scales and the rest."""
    n, k, _ = local_shape(matrix, how.rank)
    form = how.formats[matrix.format]
    values = _value_bytes(form, n * k, how.kernel)
    yield Tensor(values, matrix.count)
    rest = linear_bytes(form, n, k, how.kernel, matrix.slices) - values
    if rest > 0:
        yield Tensor(rest, matrix.count)


def _expert_tensors(w13: Matrix, w2: Matrix, how: Holder) -> Iterator[Tensor]:
    experts, inner, rank = w13.experts, w2.k, how.rank
    if rank.whole_experts:
        experts = ceil_div(experts + rank.redundant, rank.expert_group)
    else:
        inner = max(ceil_div(inner, rank.expert_group), w13.least)
    form = how.formats[w13.format]
    shape = ExpertShape(experts, w13.k, inner, w13.slices, w13.bias)
    hidden, inner = padded_expert(form, shape, how.kernel)
    first = _value_bytes(form, experts * w13.slices * inner * hidden, how.kernel)
    second = _value_bytes(form, experts * inner * hidden, how.kernel)
    yield Tensor(first)
    yield Tensor(second)
    rest = expert_bytes(form, shape, how.kernel) - first - second
    if rest > 0:
        yield Tensor(rest // 2, 2)


def _value_bytes(form: Format, elements: int, kernel: Kernel) -> int:
    """Bytes of the values alone, without scales."""
    name = form.name
    if name == "model":
        return elements * kernel.element
    if name in ("bfloat16", "float16"):
        return elements * 2
    if name == "float32":
        return elements * 4
    if name in _HALF_BYTE:
        return elements // 2
    if form.bits:
        return int(elements * form.bits) // 8
    return elements


def allocator_rest(
    model: ModelArchitecture, stage: range, first: bool, last: bool, how: Holder, towers: bool = True
) -> int:
    """Bytes that the allocator holds beyond the tensors of a stage, because it does not split what is left of a segment.

    The engine's "Model loading took" counts them with the weights, as its first reading of the memory does.
    """
    rests: dict[int, int] = {}
    total = 0
    for index in stage:
        layer = model.layers[index]
        rest = rests.get(id(layer))
        if rest is None:
            rest = rests[id(layer)] = sum(_rest(tensor) for tensor in layer_tensors(layer, how))
        total += rest
    outside = [model.embedding if first or (last and model.tied_embeddings) else None, model.head if last else None]
    for matrix in outside:
        if matrix is not None:
            total += sum(_rest(tensor) for tensor in matrix_tensors(matrix, how))
    if towers and first:
        for tower in model.towers:
            total += sum(_rest(tensor) for matrix in tower.matrices for tensor in matrix_tensors(matrix, how))
    return total


def _rest(tensor: Tensor) -> int:
    if tensor.size < _OWN_SEGMENT:
        return 0
    left = round_up(tensor.size, _SEGMENT) - tensor.size
    return left * tensor.count if left <= _SPLIT else 0


def offloaded_bytes(model: ModelArchitecture, stage: range, how: Holder, gib: float) -> int:
    """Bytes that ``--cpu-offload-gb`` moves to the host: whole tensors of the layers in their order until it is reached.

    The last tensor is moved whole, so that more than was asked for can go. Embedding and head stay. Source: vLLM
    ``model_executor/offloader/uva.py`` (earlier ``maybe_offload_to_cpu``).
    """
    wanted = int(gib * GIB)
    moved = 0
    tensors: dict[int, tuple[Tensor, ...]] = {}
    for index in stage:
        layer = model.layers[index]
        if id(layer) not in tensors:
            tensors[id(layer)] = tuple(layer_tensors(layer, how))
        for tensor in tensors[id(layer)]:
            for _ in range(min(tensor.count, 64)):
                if moved >= wanted:
                    return moved
                moved += tensor.size
    return moved


def offloaded_groups(
    model: ModelArchitecture, stage: range, how: Holder, groups: tuple[int, int, int]
) -> tuple[int, int]:
    """(bytes on the host, bytes of the buffers on the GPU) of the prefetching scheme.

    The last layers of each group live on the host; buffers hold ``ahead`` layers of each kind. Source: vLLM
    ``model_executor/offloader/prefetch.py``.
    """
    size, inside, ahead = groups
    sizes: dict[int, int] = {}
    moved = 0
    for place, index in enumerate(stage):
        if place % size < size - inside:
            continue
        layer = model.layers[index]
        if id(layer) not in sizes:
            sizes[id(layer)] = sum(tensor.size * tensor.count for tensor in layer_tensors(layer, how))
        moved += sizes[id(layer)]
    return moved, min(sum(sizes.values()) * ahead, moved)
