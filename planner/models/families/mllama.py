"""Llama 3.2 Vision: layers that attend to the picture between layers that attend to the text."""

from __future__ import annotations

from planner.models.architecture import CrossAttention, Layer, Matrix, Tower, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.layers import attention, feed_forward, vision
from planner.models.rope import rotary_table


def mllama(builder: Builder) -> Parts:
    """Llama-3.2-11B and 90B Vision. The embedding has eight rows more than the head, for image tokens."""
    config = builder.config
    count = config.layers()
    hidden, (heads, kv_heads, head_dim) = builder.hidden, builder.heads()
    inner = config.integer("intermediate_size")
    crossing = set(config.integers("cross_attention_layers"))
    kinds = [i in crossing for i in range(count)]

    def build(index: int, path: str) -> Layer:
        mlp = feed_forward.gated(builder, f"{path}.mlp", hidden, inner)
        norms = norm("norms", hidden, count=2)
        module = "cross_attn" if kinds[index] else "self_attn"
        pair = attention.projections(builder, f"{path}.{module}", hidden, heads, kv_heads, head_dim)
        if kinds[index]:
            vectors = (norms, *attention.head_norms(head_dim), Vector("gates", 2))
            return Layer(CrossAttention(heads, kv_heads, head_dim, head_dim), (*pair, *mlp), vectors)
        return Layer(attention.cache(heads, kv_heads, head_dim), (*pair, *mlp), (norms,))

    pictures = builder.root.require("vision_config")
    tower, tokens = _tower(builder, pictures, hidden)
    return Parts(
        layers=builder.stack(kinds, build),
        embedding=builder.embedding(builder.vocab + 8),
        head=builder.head(),
        tied=False,
        final_vectors=(norm("norm", hidden),),
        tables=(rotary_table(config, head_dim),),
        towers=(tower,),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=inner,
        multimodal=True,
        encoder_decoder=True,
        extra=(("encoder_tokens", str(tokens)),),
    )


def _tower(builder: Builder, config: ConfigReader, text_hidden: int) -> tuple[Tower, int]:
    """The vision tower, and the picture tokens that cross attention caches: patches of all tiles."""
    hidden = config.integer("hidden_size", default=1280)
    inner = config.integer("intermediate_size", default=5120)
    depth, world = config.layers(default=32), config.layers("num_global_layers", default=8)
    heads = config.integer("attention_heads", "num_attention_heads", default=16)
    patch, side = config.integer("patch_size", default=14), config.integer("image_size", default=560)
    tiles = config.integer("max_num_tiles", default=4, high=1000)
    ratios = config.integer("max_aspect_ratio_id", default=8, high=1000) + 1
    out = config.integer("vision_output_dim", default=7680)
    patches = (side // patch) ** 2 + 1
    names = ("self_attn.qkv_proj", "self_attn.o_proj", "mlp.fc1", "mlp.fc2")
    matrices, vectors = vision.blocks(
        builder,
        "vision_model.transformer.layers",
        depth + world,
        hidden,
        heads,
        inner,
        qkv_bias=False,
        out_bias=False,
        names=names,
    )
    matrices.append(Matrix("multi_modal_projector", text_hidden, out, "replicated", "plain", bias=True))
    vectors += [
        Vector("patch_embedding", hidden * 3 * patch * patch),
        Vector("class_embedding", hidden),
        Vector("gated_positional_embedding", patches * hidden + ratios * tiles * patches * hidden + 1),
        Vector("tile_positional_embeddings", ratios * tiles * hidden + 1, count=2),
        norm("layernorm_pre_and_post", hidden, bias=True, count=2),
        Vector("gates", 2 * world),
    ]
    return Tower("vision tower", tuple(matrices), tuple(vectors), "all", depth, hidden, inner), patches * tiles
