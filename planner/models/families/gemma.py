"""Gemma 1, 2 and 3: heads wider than hidden / heads, norms around both blocks, window layers, tied embeddings."""

from __future__ import annotations

from planner.models.builder import Builder, Parts
from planner.models.config_reader import ConfigReader
from planner.models.families.llama import decoder
from planner.models.rope import rotary_table


def filled(builder: Builder, **defaults: object) -> Builder:
    """The config with the defaults of its config class where the file leaves keys out, as published files do."""
    data = {**defaults, **{k: v for k, v in builder.config.data.items() if v is not None}}
    return Builder(builder.root, ConfigReader(data, builder.config.where), builder.quantization, builder.architecture)


def gemma(builder: Builder) -> Parts:
    """Gemma 1: heads of 256."""
    inner = filled(builder, head_dim=256, num_hidden_layers=28)
    bias = builder.config.flag("attention_bias")
    return decoder(inner, qkv_bias=bias, out_bias=bias, tied=True)


def gemma2(builder: Builder) -> Parts:
    """Gemma 2: every other layer sees a window, beginning with the first."""
    inner = filled(builder, head_dim=256, sliding_window=4096)
    config = inner.config
    count = config.layers()
    kinds = config.layer_types(count) or tuple(("sliding_attention", "full_attention")[i % 2] for i in range(count))
    window = config.integer("sliding_window")
    per_layer = tuple(window if kind == "sliding_attention" else 0 for kind in kinds)
    bias = config.flag("attention_bias")
    return decoder(inner, window_per_layer=per_layer, qkv_bias=bias, out_bias=bias, norms=4, tied=True)


def gemma3_text(builder: Builder) -> Parts:
    """Gemma 3's language model: five window layers to one full layer, two rotary tables, norms of heads."""
    inner = filled(
        builder,
        vocab_size=262208,
        hidden_size=2304,
        intermediate_size=9216,
        num_hidden_layers=26,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=256,
        max_position_embeddings=131072,
        sliding_window=4096,
    )
    config = inner.config
    count = config.layers()
    pattern = config.integer("sliding_window_pattern", "_sliding_window_pattern", default=6)
    kinds = config.layer_types(count) or tuple(
        "full_attention" if (i + 1) % pattern == 0 else "sliding_attention" for i in range(count)
    )
    window = config.integer("sliding_window")
    per_layer = tuple(window if kind == "sliding_attention" else 0 for kind in kinds)
    bias = config.flag("attention_bias")
    parts = decoder(
        inner, window_per_layer=per_layer, qkv_bias=bias, out_bias=bias, norms=4, head_norms="per_head", tied=True
    )
    local = rotary_table(config, parts.head_dim, section=ConfigReader({"rope_type": "default"}, "rope_local_base_freq"))
    return parts._replace(tables=(*parts.tables, local))
