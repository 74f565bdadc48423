"""Attention with keys and values per head (MHA, GQA, MQA): its projections as the engine fuses them, and its cache."""

from __future__ import annotations

from planner.models.architecture import ChunkedLocal, FullAttention, Matrix, SlidingWindow, Vector
from planner.models.builder import Builder


def projections(
    builder: Builder,
    path: str,
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    *,
    v_head_dim: int = 0,
    qkv_bias: bool = False,
    out_bias: bool = False,
    query_gate: bool = False,
    first: str = "q_proj",
    out: str = "o_proj",
    out_width: int = 0,
) -> tuple[Matrix, Matrix]:
    """The fused query-key-value projection and the output projection.

    ``query_gate``: the query projection carries an output gate of the same width (Qwen3-Next). ``first`` and ``out`` are
    the checkpoint's names of the first fused part and of the output projection.
    """
    value_dim = v_head_dim or head_dim
    queries = heads * (2 if query_gate else 1)
    n = queries * head_dim + kv_heads * (head_dim + value_dim)
    qkv = Matrix(
        "qkv_proj",
        n,
        hidden,
        "qkv",
        builder.quantization.linear(f"{path}.{first}"),
        bias=qkv_bias,
        heads=queries,
        kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=value_dim,
        slices=3,
    )
    return qkv, builder.linear(f"{path}.{out}", out_width or hidden, heads * value_dim, "row", bias=out_bias)


def head_norms(head_dim: int, kv_head_dim: int = 0) -> tuple[Vector, Vector]:
    """RMSNorms of queries and keys, one weight per element of a head."""
    return Vector("q_norm", head_dim), Vector("k_norm", kv_head_dim or head_dim)


def cache(
    heads: int,
    kv_heads: int,
    head_dim: int,
    *,
    v_head_dim: int = 0,
    window: int = 0,
    chunk: int = 0,
    donor: int | None = None,
    sinks: bool = False,
) -> FullAttention | SlidingWindow | ChunkedLocal:
    """What a layer caches: everything, the last ``window`` tokens, or chunks of ``chunk`` tokens."""
    value_dim = v_head_dim or head_dim
    if chunk:
        return ChunkedLocal(heads, kv_heads, head_dim, value_dim, chunk)
    if window:
        return SlidingWindow(heads, kv_heads, head_dim, value_dim, window, donor, sinks)
    return FullAttention(heads, kv_heads, head_dim, value_dim, donor, sinks)
