"""Qwen3-Next, Qwen3.5 and 3.6: three gated-delta layers to one gated full-attention layer."""

from __future__ import annotations

from planner.models.architecture import Layer, Matrix, RotaryTable
from planner.models.builder import Builder, Parts, norm
from planner.models.families.deepseek import with_projection
from planner.models.families.mixtral import sparse_layers
from planner.models.layers import attention, delta, experts, feed_forward, vision
from planner.models.rope import rope_section, rotary_table


def hybrid(builder: Builder) -> Parts:
    """The language model, dense or with experts. The state's dtype is the config's where it states one (Qwen3.5)."""
    config = builder.config
    count = config.layers()
    hidden, (heads, kv_heads, head_dim) = builder.hidden, builder.heads()
    interval = config.integer("full_attention_interval", default=4)
    kinds = config.layer_types(count) or tuple(
        "full_attention" if (i + 1) % interval == 0 else "linear_attention" for i in range(count)
    )
    expert_count = config.count("num_experts", default=0)
    inner = config.integer("moe_intermediate_size", default=1) if expert_count else 0
    shared = config.count("shared_expert_intermediate_size", default=0)
    dense = config.count("intermediate_size", default=0)
    sparse = sparse_layers(config) if expert_count else (False,) * count
    gate = config.flag("attn_output_gate", default=True)
    state_dtype = config.text("mamba_ssm_dtype", default="model")
    bias = config.flag("attention_bias") or config.flag("qkv_bias")

    def block(index: int, path: str) -> tuple[Matrix, ...]:
        if not (expert_count if index >= count else sparse[index]):
            return feed_forward.gated(builder, f"{path}.mlp", hidden, dense)
        matrices = [
            experts.router(expert_count, hidden),
            *experts.routed(builder, f"{path}.mlp", hidden, inner, expert_count),
        ]
        if shared:
            matrices += feed_forward.gated(builder, f"{path}.mlp.shared_expert", hidden, shared)
            matrices.append(builder.plain("shared_expert_gate", 1, hidden))
        return tuple(matrices)

    def build(index: int, path: str) -> Layer:
        norms = norm("norms", hidden, count=2)
        if index >= count or kinds[index] == "full_attention":
            pair = attention.projections(
                builder, f"{path}.self_attn", hidden, heads, kv_heads, head_dim, qkv_bias=bias, query_gate=gate
            )
            cache = attention.cache(heads, kv_heads, head_dim)
            return Layer(cache, (*pair, *block(index, path)), (norms, *attention.head_norms(head_dim)))
        state, matrices, vectors = delta.gated_delta_net(
            builder, f"{path}.linear_attn", config, hidden, state_dtype=state_dtype
        )
        return Layer(state, (*matrices, *block(index, path)), (norms, *vectors))

    if not expert_count and not dense:
        dense = config.integer("intermediate_size")
    drafts = min(config.count("mtp_num_hidden_layers", default=1 if "next" in config.text("model_type") else 0), 64)
    mtp = [with_projection(builder, build(count + i, f"mtp.layers.{i}")) for i in range(drafts)]
    table = rotary_table(config, head_dim)
    return Parts(
        builder.stack(list(zip(kinds, sparse, strict=True)), build),
        *builder.ends(),
        final_vectors=(norm("norm", hidden),),
        tables=(table,),
        mtp_layers=tuple(mtp),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=dense,
        experts=expert_count,
        experts_per_token=config.integer("num_experts_per_tok", default=1) if expert_count else 0,
        expert_intermediate=inner,
        extra=(("mamba_ssm_dtype", state_dtype),) if state_dtype != "model" else (),
    )


def with_vision(builder: Builder) -> Parts:
    """Qwen3.5 and 3.6 with their vision tower. Newer engines make the rotary table only as long as the context."""
    parts = hybrid(builder)
    tower = vision.qwen3_vl(builder, builder.root.require("vision_config"))
    return parts._replace(towers=(tower,), multimodal=True, tables=shortened(builder, parts.tables))


def shortened(builder: Builder, tables: tuple[RotaryTable, ...]) -> tuple[RotaryTable, ...]:
    """Tables of multimodal positions: four times the context up to some version, the context alone since."""
    section = rope_section(builder.config)
    if section is None or "mrope_section" not in section:
        return tables
    return tuple(t._replace(positions=t.positions // 4, positions_before=t.positions, since=(0, 30)) for t in tables)
