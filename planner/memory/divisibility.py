"""What tensor parallelism must split evenly and cannot: the engine then refuses to start, whatever the memory.

Source: vLLM's checks while it builds a model, reference on vLLM's memory, 4.2 and 8 (heads, KV replication, vocabulary,
quantization groups and blocks).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from planner.engines.config import Parallelism
from planner.models.architecture import Matrix, ModelArchitecture
from planner.record import NamedTuple
from planner.units import round_up


class Indivisible(NamedTuple):
    """``count`` of something that ``by`` ranks cannot share."""

    what: str
    count: int  # type: ignore[assignment]  # the field hides the tuple method
    by: int

    def __str__(self) -> str:
        return f"{self.count:,} {self.what} cannot be divided by {self.by} ranks"


#: From this release on experts of block FP8 may be cut inside a block, whose scales are then refined (fused_moe/oracle/fp8.py).
_BLOCKS_REFINED_SINCE = (0, 29)
#: Elements of the smallest block that they can be refined to.
_SMALLEST_BLOCK = 32


def indivisible(
    model: ModelArchitecture, parallel: Parallelism, version: tuple[int, ...] = _BLOCKS_REFINED_SINCE
) -> Iterator[Indivisible]:
    """Everything that the ranks cannot share, the most basic first; nothing for one rank. ``version`` is vLLM's release."""
    tensor = parallel.tensor
    if tensor <= 1 and parallel.data <= 1:
        return
    if model.heads and model.heads % tensor:
        yield Indivisible("attention heads", model.heads, tensor)
    elif model.kv_heads and not model.is_multi_latent and model.kv_heads % tensor and tensor % model.kv_heads:
        yield Indivisible("KV heads", model.kv_heads, tensor)
    table = model.embedding
    if table is not None and table.shard == "vocab" and round_up(table.n, table.pad) % tensor:
        yield Indivisible("rows of the vocabulary", round_up(table.n, table.pad), tensor)
    seen: set[int] = set()
    for layer in model.layers:
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        for matrix in layer.matrices:
            cut = _cut_groups(model, matrix, parallel) or _cut_blocks(model, matrix, parallel, version)
            if cut is not None:
                yield cut
                return


def _cut_groups(model: ModelArchitecture, matrix: Matrix, parallel: Parallelism) -> Indivisible | None:
    """A row-parallel AWQ matrix whose share of inputs on a rank would cut a group that shares a scale.

    Other formats pad (MXFP4) or repeat the scales that are cut (GPTQ).
    """
    group, split = model.formats[matrix.format].group, parallel.tensor
    if model.quantization != "awq" or matrix.shard != "row" or group <= 1:
        return None
    if not (matrix.k % split or (matrix.k // split) % group):
        return None
    return Indivisible(f"quantization groups of {group} in {matrix.name}", matrix.k // group, split)


def _cut_blocks(
    model: ModelArchitecture, matrix: Matrix, parallel: Parallelism, version: tuple[int, ...]
) -> Indivisible | None:
    """Experts of block FP8 whose scales the split would cut: a rank's share of the intermediate size is no multiple of the
    block, nor, where the release refines blocks, of a smaller one.

    The engine's general kernels refuse; DeepSeek-V4's own do not (it starts with 24 blocks over 16 ranks).
    """
    split, block = parallel.tensor * parallel.data, model.formats[matrix.format].block[0]
    if block <= 1 or matrix.shard != "expert_row" or parallel.expert or model.architecture.startswith("DeepseekV4"):
        return None
    if not (matrix.k % split or (matrix.k // split) % block):
        return None
    refined = gcd(block, matrix.k // split, model.hidden_size) if matrix.k % split == 0 else 0
    if version >= _BLOCKS_REFINED_SINCE and refined >= _SMALLEST_BLOCK:
        return None
    return Indivisible(f"quantization blocks of {block} in the experts' {matrix.name}", matrix.k // block, split)
