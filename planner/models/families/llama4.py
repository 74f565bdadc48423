"""Llama 4: chunked attention with rotary positions in three of four layers, full attention without in the fourth."""

from __future__ import annotations

from planner.models.architecture import Layer, Matrix
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.layers import attention, experts, feed_forward, vision
from planner.models.rope import rotary_table


def llama4_text(builder: Builder) -> Parts:
    """Scout and Maverick's language model; experts in every ``interleave_moe_layer_step``-th layer."""
    config = builder.config
    count = config.layers(default=48)
    hidden, (heads, kv_heads, head_dim) = builder.hidden, builder.heads()
    chunk = config.count("attention_chunk_size", default=8192)
    no_rope = config.integers("no_rope_layers")
    interval = config.integer("no_rope_layer_interval", default=4)
    rotated = [bool(no_rope[i]) if i < len(no_rope) else (i + 1) % interval != 0 for i in range(count)]
    step = config.count("interleave_moe_layer_step", default=1)
    inner, dense = config.integer("intermediate_size"), config.integer("intermediate_size_mlp", default=16384)
    expert_count = config.integer("num_local_experts", default=16)
    sparse = [step > 0 and (i + 1) % step == 0 for i in range(count)]

    def block(index: int, path: str) -> tuple[Matrix, ...]:
        path = f"{path}.feed_forward"
        if not sparse[index]:
            return feed_forward.gated(builder, path, hidden, dense)
        return (
            experts.router(expert_count, hidden),
            *experts.routed(builder, path, hidden, inner, expert_count),
            *feed_forward.gated(builder, f"{path}.shared_expert", hidden, inner),
        )

    def build(index: int, path: str) -> Layer:
        pair = attention.projections(builder, f"{path}.self_attn", hidden, heads, kv_heads, head_dim)
        cache = attention.cache(heads, kv_heads, head_dim, chunk=chunk if rotated[index] else 0)
        return Layer(cache, (*pair, *block(index, path)), (norm("norms", hidden, count=2),))

    return Parts(
        builder.stack(list(zip(rotated, sparse, strict=True)), build),
        *builder.ends(),
        final_vectors=(norm("norm", hidden),),
        tables=(rotary_table(config, head_dim),),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=dense,
        experts=expert_count,
        experts_per_token=config.integer("num_experts_per_tok", default=1),
        expert_intermediate=inner,
    )


def llama4(builder: Builder) -> Parts:
    """With the vision tower, which a config may leave to the defaults of its class."""
    parts = llama4_text(builder)
    config = builder.root.section("vision_config") or ConfigReader({}, "config.json: vision_config")
    return parts._replace(towers=(vision.llama4(builder, config, builder.hidden),), multimodal=True)
