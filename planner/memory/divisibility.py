"""What tensor parallelism must split evenly and cannot: the engine then refuses to start, whatever the memory.

Source: vLLM's checks while it builds a model, reference on vLLM's memory, 4.2 and 8 (heads, KV replication, vocabulary,
quantization groups and blocks).
"""

from __future__ import annotations

from collections.abc import Iterator

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


def indivisible(model: ModelArchitecture, parallel: Parallelism) -> Iterator[Indivisible]:
    """Everything that the ranks cannot share, the most basic first; nothing for one rank."""
    tensor = parallel.tensor
    if tensor <= 1:
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
            cut = _cut_blocks(model, matrix, parallel)
            if cut is not None:
                yield cut
                return


def _cut_blocks(model: ModelArchitecture, matrix: Matrix, parallel: Parallelism) -> Indivisible | None:
    """A row-parallel AWQ matrix whose share of inputs on a rank would cut a group that shares a scale.

    Other formats pad (MXFP4) or repeat the scales that are cut (GPTQ). Block FP8 refuses too, but layers may opt out of that
    check (DeepSeek-V4-Pro starts with 24 blocks over 16 ranks), so that it is no ground for a verdict.
    """
    group, split = model.formats[matrix.format].group, parallel.tensor
    if model.quantization != "awq" or matrix.shard != "row" or group <= 1:
        return None
    if not (matrix.k % split or (matrix.k // split) % group):
        return None
    return Indivisible(f"quantization groups of {group} in {matrix.name}", matrix.k // group, split)
