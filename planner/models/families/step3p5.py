"""Step 3.5 and 3.7 Flash: window and full layers with their own head counts, head-wise gates, routed and shared experts."""

from __future__ import annotations

from planner.models.architecture import Layer, RotaryTable, Tower, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.layers import attention, experts, feed_forward, vision
from planner.models.rope import rope_section, rotary_table


def step3p5(builder: Builder) -> Parts:
    """The language model. Its MTP layers stand behind the decoder's in the config's lists and have a head of their own."""
    config = builder.config
    count = config.layers()
    hidden, head_dim = builder.hidden, config.count("head_dim", default=0)
    heads = config.integer("num_attention_heads", high=100_000)
    kv_heads = config.integer("num_attention_groups", "num_key_value_heads", default=heads, high=100_000)
    head_dim = head_dim or hidden // heads
    other = config.section("attention_other_setting")
    local_heads = config.count("num_sliding_attention_heads", default=0)
    if not local_heads and other is not None:
        local_heads = other.integer("num_attention_heads", default=heads, high=100_000)
    local_heads = local_heads or heads
    drafts = min(config.count("num_nextn_predict_layers", default=0), 16)
    types = config.strings("layer_types") or ("full_attention",) * count
    types = (*types, *config.strings("mtp_layer_types"))
    types = (*types, *("full_attention",) * (count + drafts - len(types)))
    sparse = _sparse(config, count)
    window = config.integer("sliding_window", default=512)
    bias, gated = config.flag("attention_bias"), config.flag("use_head_wise_attn_gate")
    expert_count = config.integer("moe_num_experts", "n_routed_experts", "num_experts", default=288)
    inner, shared = config.integer("moe_intermediate_size"), config.count("share_expert_dim", default=0)
    dense = config.integer("intermediate_size")

    def build(index: int, path: str) -> Layer:
        sliding = types[index] == "sliding_attention"
        own = local_heads if sliding else heads
        matrices = list(
            attention.projections(builder, f"{path}.self_attn", hidden, own, kv_heads, head_dim, qkv_bias=bias)
        )
        if gated:
            matrices.append(builder.linear(f"{path}.self_attn.g_proj", own, hidden, "column"))
        vectors = [norm("norms", hidden, count=2), *attention.head_norms(head_dim)]
        if index < count and sparse[index]:
            matrices.append(experts.router(expert_count, hidden, dtype="float32"))
            matrices += experts.routed(builder, path, hidden, inner, expert_count, name="moe")
            if shared:
                matrices += feed_forward.gated(builder, f"{path}.share_expert", hidden, shared)
            vectors.append(experts.correction_bias(expert_count))
        else:
            matrices += feed_forward.gated(builder, f"{path}.mlp", hidden, dense)
        cache = attention.cache(own, kv_heads, head_dim, window=window if sliding else 0)
        return Layer(cache, tuple(matrices), tuple(vectors))

    mtp = []
    for index in range(count, count + drafts):
        path = f"model.layers.{index}"
        layer = build(index, path)
        more = (
            builder.plain("eh_proj", hidden, 2 * hidden),
            builder.head(f"{path}.transformer.shared_head.output")._replace(name="shared_head"),
        )
        mtp.append(
            layer._replace(
                matrices=(*layer.matrices, *more), vectors=(*layer.vectors, norm("mtp_norms", hidden, count=3))
            )
        )
    return Parts(
        builder.stack(list(zip(types[:count], sparse, strict=True)), build),
        *builder.ends(),
        final_vectors=(norm("norm", hidden),),
        tables=_tables(config, head_dim, types[:count]),
        mtp_layers=tuple(mtp),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=dense,
        experts=expert_count,
        experts_per_token=config.integer("moe_top_k", "num_experts_per_tok", default=8),
        expert_intermediate=inner,
    )


def _sparse(config: ConfigReader, count: int) -> tuple[bool, ...]:
    """Which layers have experts: named one by one, or all from the fourth on."""
    kinds = config.layer_types(count, "mlp_layer_types")
    if kinds:
        return tuple(kind == "sparse" for kind in kinds)
    named = config.raw("moe_layers_enum")
    if isinstance(named, str):
        indices = {int(part) for part in named[:10_000].split(",") if part.strip().isdecimal() and len(part) < 10}
    else:
        indices = set(config.integers("moe_layers_enum"))
    return tuple(index in indices if named is not None else index >= 3 for index in range(count))


def _tables(config: ConfigReader, head_dim: int, types: tuple[str, ...]) -> tuple[RotaryTable, ...]:
    """One table per distinct rotary configuration: newer files state it per kind of layer, older ones in lists."""
    positions = config.integer("max_position_embeddings")
    fractions = config.raw("partial_rotary_factors")
    tables = []
    for kind in sorted(set(types)):
        section = rope_section(config, kind)
        if section is not None and "partial_rotary_factor" in section:
            tables.append(rotary_table(config, head_dim, section=section))
            continue
        fraction = fractions[types.index(kind)] if isinstance(fractions, list) and len(fractions) >= len(types) else 1
        half = isinstance(fraction, (int, float)) and 0 < fraction < 1
        tables.append(RotaryTable(positions, int(head_dim * fraction) if half else head_dim))
    return tuple(tables)


def step3p7(builder: Builder) -> Parts:
    """Step 3.7 Flash: the same with a perception encoder, two strided convolutions and a projection."""
    parts = step3p5(builder)
    config = builder.root.require("vision_config")
    width, depth = (
        config.integer("width", "hidden_size", default=1536),
        config.layers("layers", "num_hidden_layers", default=47),
    )
    heads = config.integer("heads", "num_attention_heads", default=16)
    inner = int(width * min(max(config.number("mlp_ratio", default=8960 / 1536), 0.0), 64.0)) or width
    patch, side = config.integer("patch_size", default=14), config.integer("image_size", default=728)
    names = ("attn.in_proj_weight", "attn.out_proj", "mlp.c_fc", "mlp.c_proj")
    matrices, vectors = vision.blocks(
        builder, "vision_model.transformer.resblocks", depth, width, heads, inner, names=names
    )
    bias = builder.root.flag("projector_bias")
    matrices.append(
        vision.linear(builder, "vit_large_projector", parts.hidden or builder.hidden, 4 * width, "column", bias=bias)
    )
    grid = side // patch
    vectors += [
        Vector("layer_scales", width, count=2 * depth),
        Vector("conv1", 3 * patch * patch * width),
        Vector("vit_downsampler1", 2 * width * (9 * width + 1)),
        Vector("vit_downsampler2", 4 * width * (18 * width + 1)),
        Vector("positional_embedding", grid * grid * width),
    ]
    if config.flag("use_ln_pre", default=True):
        vectors.append(norm("ln_pre", width, bias=True))
    if config.flag("use_ln_post"):
        vectors.append(norm("ln_post", width, bias=True))
    tower = Tower(
        "vision tower",
        tuple(matrices),
        tuple(vectors),
        "all",
        depth,
        width,
        inner,
        max_tokens_per_item=grid * grid // 16,
    )
    return parts._replace(towers=(tower,), multimodal=True)
