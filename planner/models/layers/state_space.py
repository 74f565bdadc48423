"""State-space mixers (Mamba 1 and 2): a state of fixed size per sequence instead of a cache that grows."""

from __future__ import annotations

from planner.models.architecture import Matrix, RecurrentState, StateShape, Vector
from planner.models.builder import Builder


def mamba2(
    builder: Builder,
    path: str,
    hidden: int,
    inner: int,
    heads: int,
    head_dim: int,
    state: int,
    groups: int,
    kernel: int,
    *,
    conv_bias: bool = True,
    bias: bool = False,
    gated_norm: bool = True,
    chunk: int = 0,
    ssm_dtype: str = "model",
) -> tuple[RecurrentState, list[Matrix], list[Vector]]:
    """State, matrices and vectors of one Mamba-2 mixer.

    The engine gives every rank at least one of the ``groups`` of input and output maps, whose ``state`` columns it
    copies where tensor parallelism does not divide them (vLLM layers/mamba/mamba_mixer2.py).
    """
    convolved = inner + 2 * groups * state
    first = builder.linear(f"{path}.in_proj", inner + convolved + heads, hidden, "grouped", bias=bias, slices=5)
    matrices = [
        first._replace(kv_heads=groups, head_dim=2 * state),
        builder.plain("conv1d", convolved, kernel, "grouped", bias=conv_bias)._replace(
            kv_heads=groups, head_dim=2 * state
        ),
        builder.linear(f"{path}.out_proj", hidden, inner, "row", bias=bias),
    ]
    vectors = [
        Vector("A", heads, "column", "float32"),
        Vector("D", heads, "column"),
        Vector("dt_bias", heads, "column"),
    ]
    if gated_norm:
        vectors.append(Vector("norm", inner, "column"))
    states = (
        StateShape((convolved, kernel - 1), 0, "conv", "model", 1),
        StateShape((heads, head_dim, state), 0, "ssm", ssm_dtype),
    )
    return RecurrentState("mamba2", states, chunk, groups, state), matrices, vectors


def mamba1(
    builder: Builder,
    path: str,
    hidden: int,
    inner: int,
    state: int,
    kernel: int,
    time_step_rank: int,
    *,
    conv_bias: bool = True,
    bias: bool = False,
    norms: bool = True,
) -> tuple[RecurrentState, list[Matrix], list[Vector]]:
    """State, matrices and vectors of one Mamba-1 mixer, none of them quantized (vLLM layers/mamba/mamba_mixer.py)."""
    matrices = [
        builder.plain("conv1d", inner, kernel, "column", bias=conv_bias),
        builder.plain("in_proj", 2 * inner, hidden, "column", bias=bias),
        builder.plain("x_proj", time_step_rank + 2 * state, inner, "row"),
        builder.plain("dt_proj", inner, time_step_rank, "column", bias=True),
        builder.plain("out_proj", hidden, inner, "row", bias=bias),
    ]
    vectors = [Vector("A", inner * state, "column", "float32"), Vector("D", inner, "column")]
    if norms:
        vectors.append(Vector("norms", time_step_rank + 2 * state))
    states = (StateShape((inner, kernel - 1), 0, "conv", "model", 1), StateShape((inner, state), 0, "ssm"))
    return RecurrentState("mamba1", states), matrices, vectors
