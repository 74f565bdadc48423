"""Mixtures of experts: routed experts as the engine stacks them, the router, and shared experts."""

from __future__ import annotations

from planner.models.architecture import Matrix, Vector
from planner.models.builder import Builder


def routed(
    builder: Builder,
    path: str,
    hidden: int,
    intermediate: int,
    experts: int,
    *,
    gated: bool = True,
    bias: bool = False,
    name: str = "experts",
) -> tuple[Matrix, Matrix]:
    """The stacked projections of all routed experts: w13 (gate and up) and w2 (down)."""
    form = builder.quantization.experts(f"{path}.{name}")
    width = 2 * intermediate if gated else intermediate
    return (
        Matrix("w13", width, hidden, "expert_column", form, bias=bias, experts=experts, slices=2 if gated else 1),
        Matrix("w2", hidden, intermediate, "expert_row", form, bias=bias, experts=experts),
    )


def router(experts: int, hidden: int, *, bias: bool = False, dtype: str = "plain") -> Matrix:
    """The gate that picks experts: whole on every rank, never quantized."""
    return Matrix("router", experts, hidden, "replicated", dtype, bias=bias)


def correction_bias(experts: int, dtype: str = "float32") -> Vector:
    """The score correction of auxiliary-loss-free routing."""
    return Vector("e_score_correction_bias", experts, dtype=dtype)
