"""ERNIE 4.5 VL: experts for text and, beside them, experts for images; a tower with a resampler over space and time."""

from __future__ import annotations

from planner.models.architecture import Matrix, Tower, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.families.mixtral import moe_decoder
from planner.models.layers import experts, feed_forward, vision


def ernie_vl_moe(builder: Builder) -> Parts:
    """Both kinds of experts have the same number; the shared ones have the width of those for text."""
    config = builder.config
    count, hidden = config.layers(), builder.hidden
    numbers, inners = _pair(config, "moe_num_experts", 64), _pair(config, "moe_intermediate_size", 1536)
    starts = _pair(config, "moe_layer_start_index", 1)
    ends = _pair(config, "moe_layer_end_index", count - 1)
    step, dense = config.integer("moe_layer_interval", default=1), config.integer("intermediate_size")
    shared = config.count("moe_num_shared_experts", default=0)
    bias = config.flag("use_bias")
    kinds = [
        tuple((i + 1) % step == 0 and start <= i <= end for start, end in zip(starts, ends, strict=True))
        for i in range(count)
    ]

    def block(index: int, path: str) -> tuple[tuple[Matrix, ...], tuple[Vector, ...]]:
        if not any(kinds[index]):
            return feed_forward.gated(builder, f"{path}.mlp", hidden, dense, bias=bias), ()
        matrices: list[Matrix] = []
        for sparse, number, inner in zip(kinds[index], numbers, inners, strict=True):
            if sparse:
                matrices.append(experts.router(number, hidden, dtype="float32"))
                matrices += experts.routed(builder, f"{path}.mlp", hidden, inner, number)
            else:
                matrices += feed_forward.gated(builder, f"{path}.mlp", hidden, dense, bias=bias)
        if shared:
            width = inners[0] * shared
            matrices += feed_forward.gated(builder, f"{path}.mlp.shared_experts", hidden, width, bias=bias)
        return tuple(matrices), (experts.correction_bias(sum(numbers)),)

    parts = moe_decoder(builder, block, block_kinds=[str(kind) for kind in kinds], qkv_bias=bias, tied=True)
    return parts._replace(
        experts=max(numbers),
        experts_per_token=config.integer("moe_k", default=6),
        expert_intermediate=inners[0],
        towers=(_tower(builder),),
        multimodal=True,
    )


def _pair(config: ConfigReader, name: str, default: int) -> tuple[int, int]:
    """A value for text and one for images; one number is meant for both."""
    value = config.raw(name)
    if isinstance(value, (list, tuple)):
        values = config.integers(name)
        return (values[0], values[-1]) if values else (default, default)
    number = config.count(name, default=default)
    return number, number


def _tower(builder: Builder) -> Tower:
    """The vision transformer and the resampler, whose linear layers the engine splits over ranks."""
    config = builder.root.require("vision_config")
    width, depth = config.integer("hidden_size", "embed_dim", default=1280), config.layers("depth", default=32)
    heads = config.integer("num_heads", default=16)
    inner = config.integer("intermediate_size", default=int(width * config.number("mlp_ratio", default=4.0)))
    matrices, vectors = vision.blocks(builder, "vision_model.blocks", depth, width, heads, inner)
    settings = builder.config
    space = width * settings.integer("spatial_conv_size", default=2, high=64) ** 2
    path = "model.resampler_model"
    linears = [("spatial_linear.0", space, space), ("spatial_linear.2", space, space)]
    norms = 1
    if settings.flag("use_temporal_conv", default=True):
        time = space * settings.integer("temporal_conv_size", default=2, high=64)
        linears += [("temporal_linear.0", space, time), ("temporal_linear.2", space, space)]
        norms = 2
    linears.append(("mlp", builder.hidden, space))
    matrices += [vision.linear(builder, f"{path}.{name}", n, k, "column") for name, n, k in linears]
    patch = config.integer("patch_size", default=14)
    vectors += [
        Vector("patch_embed", width * config.integer("in_channels", "in_chans", default=3) * patch * patch),
        norm("ln", width, bias=True),
        norm("resampler_norms", space, bias=True, count=norms),
        norm("after_norm", builder.hidden),
    ]
    return Tower("vision tower", tuple(matrices), tuple(vectors), "all", depth, width, inner)
