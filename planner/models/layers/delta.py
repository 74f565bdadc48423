"""Gated delta rule layers (Qwen3-Next, Qwen3.5): a matrix state per value head instead of a cache that grows."""

from __future__ import annotations

from planner.models.architecture import Matrix, RecurrentState, StateShape, Vector
from planner.models.builder import Builder
from planner.models.config_reader import ConfigReader


def gated_delta_net(
    builder: Builder, path: str, config: ConfigReader, hidden: int, *, state_dtype: str = "model"
) -> tuple[RecurrentState, list[Matrix], list[Vector]]:
    """State, matrices and vectors of one layer. Sizes are named ``linear_*`` in the config."""
    key_heads, value_heads = config.integer("linear_num_key_heads"), config.integer("linear_num_value_heads")
    key_dim, value_dim = config.integer("linear_key_head_dim"), config.integer("linear_value_head_dim")
    kernel = config.integer("linear_conv_kernel_dim", default=4, high=1000)
    keys, values = key_heads * key_dim, value_heads * value_dim
    convolved = 2 * keys + values
    matrices = [
        builder.linear(f"{path}.in_proj_qkv", 2 * keys + 2 * values, hidden, "column", slices=4)._replace(
            name="in_proj_qkvz"
        ),
        builder.linear(f"{path}.in_proj_b", 2 * value_heads, hidden, "column", slices=2)._replace(name="in_proj_ba"),
        builder.linear(f"{path}.out_proj", hidden, values, "row"),
    ]
    vectors = [
        Vector("conv1d", convolved * kernel, "column"),
        Vector("dt_bias", value_heads, "column"),
        Vector("A_log", value_heads, "column", "float32"),
        Vector("norm", value_dim),
    ]
    state = RecurrentState(
        "gdn",
        (
            StateShape((kernel - 1, convolved), 1, "conv", "model", 0),
            StateShape((value_heads, value_dim, key_dim), 0, "ssm", state_dtype),
        ),
    )
    return state, matrices, vectors
