"""LFM2 and LFM2-MoE: gated short convolutions with a few attention layers among them, experts after the first layers."""

from __future__ import annotations

from planner.models.architecture import FullAttention, Layer, Matrix, RecurrentState, StateShape, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.layers import attention, experts, feed_forward
from planner.models.rope import rotary_table


def lfm2(builder: Builder) -> Parts:
    """Both, by ``num_experts``. The embedding is tied unless the file says otherwise."""
    config = builder.config
    count = config.layers()
    hidden, (heads, kv_heads, head_dim) = builder.hidden, builder.heads()
    kinds = config.layer_types(count) or _kinds(config, count)
    width = config.integer("conv_dim", default=hidden)
    taps, bias = config.integer("conv_L_cache", default=3, high=1000), config.flag("conv_bias")
    expert_count = config.count("num_experts", default=0)
    inner = config.integer("moe_intermediate_size", default=1792) if expert_count else 0
    dense = config.integer("intermediate_size") if expert_count else _width(config)
    first_dense = config.count("num_dense_layers", default=2) if expert_count else count
    corrected = config.flag("use_expert_bias", default=True)
    state = RecurrentState("short_conv", (StateShape((taps - 1, width), 1, "conv", "model", 0),))

    def build(index: int, path: str) -> Layer:
        cache: FullAttention | RecurrentState = state
        vectors: list[Vector] = [norm("norms", hidden, count=2)]
        if kinds[index] == "full_attention":
            pair = attention.projections(
                builder, f"{path}.self_attn", hidden, heads, kv_heads, head_dim, out="out_proj"
            )
            matrices: list[Matrix] = [*pair]
            vectors += attention.head_norms(head_dim)
            cache = FullAttention(heads, kv_heads, head_dim, head_dim)
        else:
            matrices = [
                builder.linear(f"{path}.conv.in_proj", 3 * width, hidden, "column", bias=bias, slices=3),
                builder.linear(f"{path}.conv.out_proj", hidden, width, "row", bias=bias),
            ]
            vectors.append(Vector("conv", width * (taps + bias), "column"))
        block = f"{path}.feed_forward"
        if index < first_dense:
            matrices += feed_forward.gated(builder, block, hidden, dense, first="w1", out="w2")
        else:
            matrices.append(experts.router(expert_count, hidden))
            matrices += experts.routed(builder, block, hidden, inner, expert_count)
            if corrected:
                vectors.append(experts.correction_bias(expert_count))
        return Layer(cache, tuple(matrices), tuple(vectors))

    tied = config.flag("tie_word_embeddings", "tie_embedding", default=True)
    return Parts(
        layers=builder.stack([(kind, i < first_dense) for i, kind in enumerate(kinds)], build),
        embedding=builder.embedding(),
        head=None if tied else builder.head(),
        tied=tied,
        final_vectors=(norm("embedding_norm", hidden),),
        tables=(rotary_table(config, head_dim),),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=dense,
        experts=expert_count,
        experts_per_token=config.integer("num_experts_per_tok", default=4) if expert_count else 0,
        expert_intermediate=inner,
    )


def _kinds(config: ConfigReader, count: int) -> tuple[str, ...]:
    """Without ``layer_types``: the layers that ``full_attn_idxs`` names attend; all do where it is missing too."""
    attending = set(config.integers("full_attn_idxs")) if "full_attn_idxs" in config else set(range(count))
    return tuple("full_attention" if index in attending else "conv" for index in range(count))


def _width(config: ConfigReader) -> int:
    """The feed-forward width: two thirds of what the file says, rounded up, unless it says not to adjust."""
    width = config.integer("block_ff_dim", "intermediate_size")
    if not config.flag("block_auto_adjust_ff_dim", default=True):
        return width
    width = int(config.number("block_ffn_dim_multiplier", default=1.0) * int(2 * width / 3))
    step = config.integer("block_multiple_of", default=256)
    return -(-max(width, 1) // step) * step
