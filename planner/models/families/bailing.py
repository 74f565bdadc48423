"""Ling and Ring up to 2.0 (Bailing MoE): grouped attention, a dense beginning, routed and shared experts."""

from __future__ import annotations

from planner.models.architecture import Layer, Matrix, UnknownModel, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.layers import attention, experts, feed_forward
from planner.models.rope import rotary_table


def bailing_moe(builder: Builder) -> Parts:
    """Ling-lite to Ling-1T and their Ring siblings. The newer hybrids (``layer_group_size``) are another class."""
    config = builder.config
    count = config.layers()
    hidden, (heads, kv_heads, head_dim) = builder.hidden, builder.heads()
    if config.integer("layer_group_size", default=1) > 1:
        raise UnknownModel("linear attention in a Bailing model is not understood", "correct config.json")
    bias = config.flag("use_bias")
    qkv_bias = bias or config.flag("use_qkv_bias")
    normed = config.flag("use_qk_norm")
    expert_count, inner = config.integer("num_experts"), config.integer("moe_intermediate_size")
    dense, shared = config.integer("intermediate_size"), config.count("num_shared_experts", default=0)
    shared_inner = shared * config.integer("moe_shared_expert_intermediate_size", default=inner)
    first_dense = config.count("first_k_dense_replace", default=0)
    corrected = config.flag("moe_router_enable_expert_bias")
    router_dtype = "float32" if config.text("router_dtype") == "fp32" else "plain"

    def build(index: int, path: str) -> Layer:
        pair = attention.projections(
            builder,
            f"{path}.attention",
            hidden,
            heads,
            kv_heads,
            head_dim,
            qkv_bias=qkv_bias,
            out_bias=bias,
            first="query_key_value",
            out="dense",
        )
        matrices: list[Matrix] = [*pair]
        vectors: list[Vector] = [norm("norms", hidden, count=2)]
        if normed:
            vectors += attention.head_norms(head_dim)
        if index < count and index < first_dense:
            matrices += feed_forward.gated(builder, f"{path}.mlp", hidden, dense, bias=bias)
            return Layer(attention.cache(heads, kv_heads, head_dim), tuple(matrices), tuple(vectors))
        matrices.append(experts.router(expert_count, hidden, dtype=router_dtype))
        matrices += experts.routed(builder, f"{path}.mlp", hidden, inner, expert_count)
        if shared:
            matrices += feed_forward.gated(builder, f"{path}.mlp.shared_experts", hidden, shared_inner, bias=bias)
        if corrected:
            vectors.append(experts.correction_bias(expert_count))
        return Layer(attention.cache(heads, kv_heads, head_dim), tuple(matrices), tuple(vectors))

    return Parts(
        builder.stack([i < first_dense for i in range(count)], build),
        *builder.ends(),
        final_vectors=(norm("norm", hidden),),
        tables=(rotary_table(config, head_dim),),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=dense,
        experts=expert_count,
        experts_per_token=config.integer("num_experts_per_tok", default=8),
        expert_intermediate=inner,
    )
