"""MiMo-V2: keys wider than values, window layers with their own heads and sinks, experts from the second layer on."""

from __future__ import annotations

from planner.models.architecture import Layer, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.layers import attention, experts, feed_forward
from planner.models.rope import rotary_table


def mimo_v2(builder: Builder) -> Parts:
    """MiMo-V2-Flash and its larger kin."""
    config = builder.config
    count = config.layers()
    hidden = builder.hidden
    full = _heads(config, "")
    local = _heads(config, "swa_", full)
    pattern = config.integers("hybrid_layer_pattern") or (0,) * count
    windowed = [bool(pattern[i]) if i < len(pattern) else False for i in range(count)]
    frequency = config.raw("moe_layer_freq")
    step = config.integers("moe_layer_freq") if isinstance(frequency, list) else ()
    expert_count = config.count("n_routed_experts", default=0)
    sparse = [bool(expert_count) and (bool(step[i]) if i < len(step) else True) for i in range(count)]
    inner, dense = config.integer("moe_intermediate_size", default=1), config.integer("intermediate_size")
    window = config.integer("sliding_window_size", "sliding_window", default=128)
    bias = config.flag("attention_bias")
    sinks = (config.flag("add_full_attention_sink_bias"), config.flag("add_swa_attention_sink_bias"))
    router_dtype = config.text("moe_router_dtype", default="float32")

    def build(index: int, path: str) -> Layer:
        is_local = windowed[index]
        heads, kv_heads, head_dim, v_head_dim = local if is_local else full
        pair = attention.projections(
            builder, f"{path}.self_attn", hidden, heads, kv_heads, head_dim, v_head_dim=v_head_dim, qkv_bias=bias
        )
        vectors = [norm("norms", hidden, count=2)]
        if sinks[is_local]:
            vectors.append(Vector("attention_sink_bias", heads, "column"))
        matrices = list(pair)
        if sparse[index]:
            matrices.append(experts.router(expert_count, hidden, dtype=router_dtype))
            matrices += experts.routed(builder, f"{path}.mlp", hidden, inner, expert_count)
            vectors.append(experts.correction_bias(expert_count))
        else:
            matrices += feed_forward.gated(builder, f"{path}.mlp", hidden, dense)
        cache = attention.cache(
            heads, kv_heads, head_dim, v_head_dim=v_head_dim, window=window if is_local else 0, sinks=sinks[is_local]
        )
        return Layer(cache, tuple(matrices), tuple(vectors))

    table = rotary_table(config, full[2])
    return Parts(
        builder.stack(list(zip(windowed, sparse, strict=True)), build),
        *builder.ends(),
        final_vectors=(norm("norm", hidden),),
        tables=(table, rotary_table(config, local[2])) if any(windowed) else (table,),
        heads=full[0],
        kv_heads=full[1],
        head_dim=full[2],
        intermediate=dense,
        experts=expert_count,
        experts_per_token=config.integer("num_experts_per_tok", default=8) if expert_count else 0,
        expert_intermediate=inner if expert_count else 0,
    )


def _heads(
    config: ConfigReader, prefix: str, default: tuple[int, int, int, int] | None = None
) -> tuple[int, int, int, int]:
    """(query heads, key-value heads, key size, value size) of the full or the window (``swa_``) layers."""
    known = default or (None, None, None, None)
    heads = config.integer(f"{prefix}num_attention_heads", default=known[0], high=100_000)
    kv_heads = config.integer(f"{prefix}num_key_value_heads", default=known[1] or heads, high=100_000)
    head_dim = config.integer(f"{prefix}head_dim", default=known[2])
    return heads, kv_heads, head_dim, config.integer(f"{prefix}v_head_dim", default=known[3] or head_dim)
