"""Feed-forward blocks that every token passes."""

from __future__ import annotations

from planner.models.architecture import Matrix
from planner.models.builder import Builder


def gated(
    builder: Builder,
    path: str,
    hidden: int,
    intermediate: int,
    *,
    bias: bool = False,
    first: str = "gate_proj",
    out: str = "down_proj",
    replicated: bool = False,
) -> tuple[Matrix, Matrix]:
    """SwiGLU and its kin: gate and up fused into one projection, then down."""
    column, row = ("replicated", "replicated") if replicated else ("column", "row")
    gate_up = builder.linear(f"{path}.{first}", 2 * intermediate, hidden, column, bias=bias, slices=2)
    return gate_up._replace(name="gate_up_proj"), builder.linear(f"{path}.{out}", hidden, intermediate, row, bias=bias)


def plain(
    builder: Builder,
    path: str,
    hidden: int,
    intermediate: int,
    *,
    bias: bool = False,
    first: str = "up_proj",
    out: str = "down_proj",
    replicated: bool = False,
) -> tuple[Matrix, Matrix]:
    """Two projections with an activation between them."""
    column, row = ("replicated", "replicated") if replicated else ("column", "row")
    return (
        builder.linear(f"{path}.{first}", intermediate, hidden, column, bias=bias),
        builder.linear(f"{path}.{out}", hidden, intermediate, row, bias=bias),
    )
