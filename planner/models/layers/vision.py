"""Vision towers with their projectors. A tower's layers are alike, so its matrices carry a count.

Towers are split over tensor ranks like the decoder (``mm_encoder_tp_mode=weights``); patch and position embeddings and
norms are whole on every rank.
"""

from __future__ import annotations

from planner.models.architecture import Matrix, RotaryTable, Tower, UnknownModel, Vector
from planner.models.builder import Builder, norm
from planner.models.config_reader import ConfigReader


def blocks(
    builder: Builder,
    path: str,
    depth: int,
    hidden: int,
    heads: int,
    intermediate: int,
    *,
    gated: bool = False,
    qkv_bias: bool = True,
    out_bias: bool = True,
    mlp_bias: bool = True,
    norms: int = 2,
    norm_bias: bool = True,
    head_dim: int = 0,
    kv_heads: int = 0,
    names: tuple[str, str, str, str] = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"),
) -> tuple[list[Matrix], list[Vector]]:
    """``depth`` transformer blocks. Raises UnknownModel where the heads don't divide the width."""
    if not head_dim:
        if hidden % heads:
            raise UnknownModel(
                f"the vision tower's width {hidden} is no multiple of {heads} heads", "correct config.json"
            )
        head_dim = hidden // heads
    kv_heads = kv_heads or heads
    form = builder.quantization.tower
    width = (heads + 2 * kv_heads) * head_dim
    up = 2 * intermediate if gated else intermediate
    matrices = [
        Matrix(
            "qkv",
            width,
            hidden,
            "qkv",
            form(f"{path}.0.{names[0]}"),
            depth,
            qkv_bias,
            heads,
            kv_heads,
            head_dim,
            slices=3,
        ),
        Matrix("proj", hidden, heads * head_dim, "row", form(f"{path}.0.{names[1]}"), depth, out_bias),
        Matrix("up", up, hidden, "column", form(f"{path}.0.{names[2]}"), depth, mlp_bias, slices=2 if gated else 1),
        Matrix("down", hidden, intermediate, "row", form(f"{path}.0.{names[3]}"), depth, mlp_bias),
    ]
    return matrices, [norm("norms", hidden, bias=norm_bias, count=norms * depth)]


def linear(builder: Builder, path: str, n: int, k: int, shard: str, *, bias: bool = True, count: int = 1) -> Matrix:
    """A projector's linear layer."""
    return Matrix(path.rsplit(".", 1)[-1], n, k, shard, builder.quantization.tower(path), count, bias)


def siglip(builder: Builder, config: ConfigReader, path: str = "vision_tower.vision_model") -> Tower:
    """SigLIP: convolution patches, learned positions, LayerNorm."""
    hidden = config.integer("hidden_size", default=768)
    inner, depth = config.integer("intermediate_size", default=3072), config.layers(default=12)
    heads = config.integer("num_attention_heads", default=12)
    patch, side = config.integer("patch_size", default=16), config.integer("image_size", default=224)
    patches = (side // patch) ** 2
    names = ("self_attn.q_proj", "self_attn.out_proj", "mlp.fc1", "mlp.fc2")
    matrices, vectors = blocks(builder, f"{path}.encoder.layers", depth, hidden, heads, inner, names=names)
    channels = config.integer("num_channels", default=3)
    vectors += [
        Vector("patch_embedding", hidden * (channels * patch * patch + 1)),
        Vector("position_embedding", patches * hidden),
        norm("post_layernorm", hidden, bias=True),
    ]
    return Tower(
        "vision tower",
        tuple(matrices),
        tuple(vectors),
        layers=depth,
        hidden=hidden,
        intermediate=inner,
        max_tokens_per_item=patches,
        buffer_bytes=8 * patches,  # position ids
    )


def clip(builder: Builder, config: ConfigReader, path: str = "vision_tower.vision_model", layers: int = 0) -> Tower:
    """CLIP: as SigLIP with a class token and a norm in front; ``layers`` of the blocks where not all are loaded."""
    hidden = config.integer("hidden_size", default=1024)
    inner, depth = config.integer("intermediate_size", default=4096), config.layers(default=24)
    heads = config.integer("num_attention_heads", default=16)
    patch, side = config.integer("patch_size", default=14), config.integer("image_size", default=336)
    patches = (side // patch) ** 2 + 1
    depth = layers or depth
    names = ("self_attn.q_proj", "self_attn.out_proj", "mlp.fc1", "mlp.fc2")
    matrices, vectors = blocks(builder, f"{path}.encoder.layers", depth, hidden, heads, inner, names=names)
    vectors += [
        Vector("patch_embedding", hidden * 3 * patch * patch),
        Vector("class_embedding", hidden),
        Vector("position_embedding", patches * hidden),
        norm("pre_layrnorm", hidden, bias=True),
    ]
    return Tower(
        "vision tower",
        tuple(matrices),
        tuple(vectors),
        layers=depth,
        hidden=hidden,
        intermediate=inner,
        max_tokens_per_item=patches,
        buffer_bytes=8 * patches,  # position ids
    )


def qwen2_vl(builder: Builder, config: ConfigReader, path: str = "visual") -> Tower:
    """Qwen2-VL: 3-D patches without bias, LayerNorm, a merger of 2×2 patches."""
    hidden = config.integer("embed_dim", default=1280)
    depth, heads = config.layers("depth", default=32), config.integer("num_heads", default=16)
    inner = int(hidden * config.number("mlp_ratio", default=4.0))
    out = config.integer("hidden_size", default=3584)
    merge = config.integer("spatial_merge_size", default=2) ** 2 * hidden
    matrices, vectors = blocks(builder, f"{path}.blocks", depth, hidden, heads, inner)
    matrices += [
        linear(builder, f"{path}.merger.mlp.0", merge, merge, "column"),
        linear(builder, f"{path}.merger.mlp.2", out, merge, "row"),
    ]
    vectors += [
        Vector("patch_embed", hidden * _patch_inputs(config)),
        norm("merger.ln_q", hidden, bias=True),
    ]
    table = RotaryTable(8192, hidden // heads // 2)
    return Tower("vision tower", tuple(matrices), tuple(vectors), "all", depth, hidden, inner, tables=(table,))


def _patch_inputs(config: ConfigReader) -> int:
    channels = config.integer("in_channels", "in_chans", default=3)
    return channels * config.integer("temporal_patch_size", default=2) * config.integer("patch_size", default=14) ** 2


def qwen2_5_vl(builder: Builder, config: ConfigReader, path: str = "visual") -> Tower:
    """Qwen2.5-VL: RMSNorm and gated feed-forward blocks."""
    hidden = config.integer("hidden_size", default=1280)
    depth, heads = config.layers("depth", default=32), config.integer("num_heads", default=16)
    inner = config.integer("intermediate_size", default=3420)
    out = config.integer("out_hidden_size", default=3584)
    merge = config.integer("spatial_merge_size", default=2) ** 2 * hidden
    names = ("attn.qkv", "attn.proj", "mlp.gate_proj", "mlp.down_proj")
    matrices, vectors = blocks(
        builder, f"{path}.blocks", depth, hidden, heads, inner, gated=True, norm_bias=False, names=names
    )
    matrices += [
        linear(builder, f"{path}.merger.mlp.0", merge, merge, "column"),
        linear(builder, f"{path}.merger.mlp.2", out, merge, "row"),
    ]
    vectors += [
        Vector("patch_embed", hidden * _patch_inputs(config)),
        norm("merger.ln_q", hidden),
    ]
    table = RotaryTable(8192, hidden // heads // 2)
    return Tower("vision tower", tuple(matrices), tuple(vectors), "all", depth, hidden, inner, tables=(table,))


def qwen3_vl(builder: Builder, config: ConfigReader, path: str = "visual") -> Tower:
    """Qwen3-VL and Qwen3.5: learned positions, and mergers for the layers that feed the decoder directly (deepstack)."""
    hidden = config.integer("hidden_size", default=1152)
    depth, heads = config.layers("depth", default=27), config.integer("num_heads", default=16)
    inner = config.integer("intermediate_size", default=4304)
    out = config.integer("out_hidden_size", default=3584)
    merge = config.integer("spatial_merge_size", default=2) ** 2 * hidden
    deep = len(config.integers("deepstack_visual_indexes")) if "deepstack_visual_indexes" in config.data else 0
    if "deepstack_visual_indexes" not in config.data and config.text("model_type").startswith("qwen3_vl"):
        deep = 3
    names = ("attn.qkv", "attn.proj", "mlp.linear_fc1", "mlp.linear_fc2")
    matrices, vectors = blocks(builder, f"{path}.blocks", depth, hidden, heads, inner, names=names)
    matrices += [
        linear(builder, f"{path}.merger.linear_fc1", merge, merge, "column", count=1 + deep),
        linear(builder, f"{path}.merger.linear_fc2", out, merge, "row", count=1 + deep),
    ]
    patch = ConfigReader({"patch_size": 16, **config.data}, config.where)
    vectors += [
        Vector("patch_embed", hidden * (_patch_inputs(patch) + 1)),
        Vector("pos_embed", config.integer("num_position_embeddings", default=2304) * hidden),
        norm("merger.norm", hidden, bias=True),
    ]
    if deep:
        vectors.append(norm("deepstack.norm", merge, bias=True, count=deep))
    table = RotaryTable(8192, hidden // heads // 2)
    sizes = (depth, hidden, inner)
    return Tower(
        "vision tower", tuple(matrices), tuple(vectors), "all", *sizes, tables=(table,), batch_width=deep * out
    )


def llama4(builder: Builder, config: ConfigReader, text_hidden: int) -> Tower:
    """Llama 4: unfolded patches, a class token, complex rotary positions, a pixel-shuffle adapter."""
    hidden = config.integer("hidden_size", default=768)
    inner, depth = config.integer("intermediate_size", default=5632), config.layers(default=34)
    heads = config.integer("num_attention_heads", default=16)
    patch, side = config.integer("patch_size", default=14), config.integer("image_size", default=448)
    patches = (side // patch) ** 2 + 1
    out = config.integer("vision_output_dim", default=7680)
    middle = config.integer("projector_input_dim", default=4096)
    project = config.integer("projector_output_dim", default=4096)
    names = ("self_attn.q_proj", "self_attn.o_proj", "mlp.fc1", "mlp.fc2")
    path = "vision_model.model.layers"
    matrices, vectors = blocks(builder, path, depth, hidden, heads, inner, names=names)
    matrices += [
        linear(builder, "vision_model.patch_embedding.linear", hidden, 3 * patch * patch, "column", bias=False),
        linear(builder, "vision_model.vision_adapter.mlp.fc1", middle, inner, "column", bias=False),
        linear(builder, "vision_model.vision_adapter.mlp.fc2", project, middle, "row", bias=False),
        linear(builder, "multi_modal_projector.linear_1", text_hidden, out, "column", bias=False),
    ]
    vectors += [
        Vector("class_embedding", hidden),
        Vector("positional_embedding", patches * hidden),
        norm("layernorm_pre_and_post", hidden, bias=True, count=2),
    ]
    table = RotaryTable(patches, hidden // heads, "float32")
    return Tower("vision tower", tuple(matrices), tuple(vectors), "all", depth, hidden, inner, tables=(table,))


def gemma4(builder: Builder, config: ConfigReader, text_hidden: int) -> Tower:
    """Gemma 4: two-dimensional position tables, norms around both blocks, gated; whole on every rank (Transformers' own)."""
    hidden = config.integer("hidden_size", default=768)
    inner, depth = config.integer("intermediate_size", default=3072), config.layers(default=16)
    heads = config.integer("num_attention_heads", default=12)
    kv_heads = config.integer("num_key_value_heads", default=heads)
    head_dim = config.integer("head_dim", default=max(hidden // heads, 1))
    patch = config.integer("patch_size", default=16)
    width = (heads + 2 * kv_heads) * head_dim
    bias = config.flag("attention_bias")
    matrices = (
        Matrix("qkv", width, hidden, "replicated", "plain", depth, bias),
        Matrix("o_proj", hidden, heads * head_dim, "replicated", "plain", depth, bias),
        Matrix("gate_up", 2 * inner, hidden, "replicated", "plain", depth),
        Matrix("down", hidden, inner, "replicated", "plain", depth),
        Matrix("patch_embedder", hidden, 3 * patch * patch, "replicated", "plain"),
        Matrix("embed_vision", text_hidden, hidden, "replicated", "plain"),
    )
    vectors = [
        norm("norms", hidden, count=4 * depth),
        norm("head_norms", head_dim, count=2 * depth),
        Vector("position_embedding_table", 2 * config.integer("position_embedding_size", default=10240) * hidden),
    ]
    if config.flag("standardize"):
        vectors.append(Vector("standardize", 2 * hidden, buffer=True))
    return Tower("vision tower", matrices, tuple(vectors), "all", depth, hidden, inner)


def moonvit(builder: Builder, config: ConfigReader, text_hidden: int) -> Tower:
    """MoonViT of Kimi K2.5 and K3: interpolated positions, 2×2 patches merged by a projector that every rank holds whole."""
    hidden = config.integer("vt_hidden_size", "hidden_size", default=1152)
    inner = config.integer("vt_intermediate_size", "intermediate_size", default=4304)
    depth = config.layers("vt_num_hidden_layers", "num_hidden_layers", default=27)
    heads = config.integer("vt_num_attention_heads", "num_attention_heads", default=16)
    width = config.integer("qkv_hidden_size", default=hidden)
    third = config.text("mm_projector_type") == "patchmergerv2"
    bias = not third
    norm_bias = config.text("norm_type", default="layernorm") != "rmsnorm"
    if width % heads:
        raise UnknownModel(f"the vision tower's width {width} is no multiple of {heads} heads", "correct config.json")
    names = ("wqkv", "wo", "mlp.fc0", "mlp.fc1")
    matrices, vectors = blocks(
        builder,
        "vision_tower.encoder.blocks",
        depth,
        hidden,
        heads,
        inner,
        qkv_bias=config.flag("attn_bias", default=bias),
        out_bias=config.flag("attn_bias", default=bias),
        mlp_bias=config.flag("linear_bias", default=bias),
        norm_bias=norm_bias,
        head_dim=width // heads,
        names=names,
    )
    kernel = config.integers("merge_kernel_size", low=1, limit=2) or (2, 2)
    merged = hidden * kernel[0] * kernel[-1]
    patch = config.integer("patch_size", default=14)
    patch_bias = config.flag("patch_embed_proj_bias", default=True)
    matrices += [
        linear(builder, "mm_projector.linear_1", merged, merged, "replicated", bias=bias),
        linear(builder, "mm_projector.linear_2", text_hidden, merged, "replicated", bias=bias),
    ]
    height = config.integer("init_pos_emb_height", default=64, high=10_000)
    vectors += [
        Vector("patch_embed", hidden * (3 * patch * patch + (1 if patch_bias else 0))),
        Vector("pos_emb", height * config.integer("init_pos_emb_width", default=64, high=10_000) * hidden),
        norm("final_layernorm", hidden, bias=norm_bias),
        norm("projector_norm", text_hidden) if third else norm("projector_norm", hidden, bias=True),
    ]
    return Tower("vision tower", tuple(matrices), tuple(vectors), "all", depth, hidden, inner)


def pixtral(builder: Builder, config: ConfigReader) -> Tower:
    """Pixtral: rotary positions in two dimensions, RMSNorm, gated blocks without biases."""
    hidden = config.integer("hidden_size", default=1024)
    inner, depth = config.integer("intermediate_size", default=4096), config.layers(default=24)
    heads = config.integer("num_attention_heads", default=16)
    patch, side = config.integer("patch_size", default=16), config.integer("image_size", default=1024)
    names = ("attention.q_proj", "attention.o_proj", "feed_forward.gate_proj", "feed_forward.down_proj")
    matrices, vectors = blocks(
        builder,
        "vision_tower.transformer.layers",
        depth,
        hidden,
        heads,
        inner,
        gated=True,
        qkv_bias=False,
        out_bias=False,
        mlp_bias=False,
        norm_bias=False,
        names=names,
    )
    vectors += [Vector("patch_conv", hidden * 3 * patch * patch), norm("ln_pre", hidden)]
    table = RotaryTable((side // patch) ** 2, hidden // heads, "float32")
    return Tower("vision tower", tuple(matrices), tuple(vectors), "all", depth, hidden, inner, tables=(table,))


def intern_vit(builder: Builder, config: ConfigReader, layers: int) -> Tower:
    """InternViT: layer scales, learned positions, biases; only the first ``layers`` are loaded."""
    hidden = config.integer("hidden_size", default=1024)
    inner, heads = config.integer("intermediate_size", default=4096), config.integer("num_attention_heads", default=16)
    patch, side = config.integer("patch_size", default=14), config.integer("image_size", default=448)
    patches = (side // patch) ** 2 + 1
    layer_norm = config.text("norm_type", default="layer_norm") == "layer_norm"
    names = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
    matrices, vectors = blocks(
        builder,
        "vision_model.encoder.layers",
        layers,
        hidden,
        heads,
        inner,
        qkv_bias=config.flag("qkv_bias", default=True),
        norm_bias=layer_norm,
        names=names,
    )
    if config.flag("qk_normalization"):
        vectors.append(norm("qk_norm", hidden, count=2 * layers))
    vectors += [
        Vector("layer_scales", 2 * hidden, count=layers),
        Vector("patch_embedding", hidden * (3 * patch * patch + 1)),
        Vector("class_embedding", hidden),
        Vector("position_embedding", patches * hidden),
    ]
    tokens = (patches - 1) // 4
    return Tower(
        "vision tower", tuple(matrices), tuple(vectors), "all", layers, hidden, inner, max_tokens_per_item=tokens
    )


def glm4v(builder: Builder, config: ConfigReader) -> Tower:
    """GLM-4.1V and 4.5V: gated blocks, a convolution that halves both sides, a gated merger."""
    hidden = config.integer("hidden_size", default=1536)
    depth, heads = config.layers("depth", default=24), config.integer("num_heads", default=12)
    out, context = config.integer("out_hidden_size", default=4096), config.integer("intermediate_size", default=13696)
    patch, side = config.integer("patch_size", default=14), config.integer("image_size", default=336)
    merge = config.integer("spatial_merge_size", default=2, high=64)
    names = ("attn.qkv", "attn.proj", "mlp.gate_proj", "mlp.down_proj")
    matrices, vectors = blocks(
        builder,
        "visual.blocks",
        depth,
        hidden,
        heads,
        out,
        gated=True,
        qkv_bias=False,
        out_bias=False,
        mlp_bias=False,
        norm_bias=False,
        names=names,
    )
    matrices += [
        linear(builder, "visual.merger.proj", out, out, "column", bias=False),
        linear(builder, "visual.merger.gate_proj", 2 * context, out, "column", bias=False),
        linear(builder, "visual.merger.down_proj", out, context, "row", bias=False),
    ]
    vectors += [
        Vector("patch_embed", hidden * (_patch_inputs(config) + 1)),
        Vector("position_embedding", (side // patch) ** 2 * hidden),
        Vector("downsample", out * (hidden * merge * merge + 1)),
        norm("post_norms", hidden, count=2),
        norm("merger_norm", out, bias=True),
    ]
    table = RotaryTable(8192, hidden // heads // 2)
    return Tower("vision tower", tuple(matrices), tuple(vectors), "all", depth, hidden, out, tables=(table,))


def glm_next(builder: Builder, config: ConfigReader, middle: int, positions: int) -> Tower:
    """GLM-OCR and GLM-5.3-Flash: gated blocks with biases, norms of heads, a strided convolution and a gated merger of
    width ``middle``; ``positions``: rows of the rotary table."""
    width, depth = config.integer("hidden_size", default=1024), config.layers("depth", default=24)
    heads, inner = config.integer("num_heads", default=16), config.integer("intermediate_size", default=4096)
    out = config.integer("out_hidden_size", default=1536)
    patch, frames = config.integer("patch_size", default=14), config.integer("temporal_patch_size", default=2)
    merge = config.integer("spatial_merge_size", default=2, high=64)
    names = ("attn.qkv", "attn.proj", "mlp.gate_proj", "mlp.down_proj")
    matrices, vectors = blocks(
        builder, "visual.blocks", depth, width, heads, inner, gated=True, norm_bias=False, names=names
    )
    merger = "visual.merger"
    matrices += [
        linear(builder, f"{merger}.proj", out, out, "column", bias=False),
        linear(builder, f"{merger}.gate_proj", 2 * middle, out, "column", bias=False)._replace(slices=2),
        linear(builder, f"{merger}.down_proj", out, middle, "row", bias=False),
    ]
    vectors += [
        norm("head_norms", max(width // heads, 1), count=2 * depth),
        Vector("patch_embed", width * (3 * frames * patch * patch + 1)),
        Vector("downsample", out * (width * merge * merge + 1)),
        norm("post_layernorm", width),
        norm("post_projection_norm", out, bias=True),
    ]
    table = RotaryTable(positions, max(width // heads // 2, 1))
    return Tower("vision tower", tuple(matrices), tuple(vectors), "all", depth, width, inner, tables=(table,))


def dots(builder: Builder, config: ConfigReader) -> Tower:
    """dots.ocr: gated blocks without biases, a merger of 2×2 patches."""
    width, depth = config.integer("embed_dim", default=1536), config.layers(default=42)
    heads, inner = config.integer("num_attention_heads", default=12), config.integer("intermediate_size", default=4224)
    bias, out = config.flag("use_bias"), config.integer("hidden_size", default=1536)
    merge = config.integer("spatial_merge_size", default=2, high=64) ** 2 * width
    patch, channels = config.integer("patch_size", default=14), config.integer("num_channels", default=3)
    names = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
    matrices, vectors = blocks(
        builder,
        "vision_tower.blocks",
        depth,
        width,
        heads,
        inner,
        gated=True,
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=bias,
        norm_bias=False,
        names=names,
    )
    matrices += [
        linear(builder, "vision_tower.merger.mlp.0", merge, merge, "column"),
        linear(builder, "vision_tower.merger.mlp.2", out, merge, "row"),
    ]
    vectors += [
        Vector("patch_embed", width * (channels * patch * patch + 1)),
        norm("patch_norm", width),
        norm("merger.ln_q", width, bias=True),
    ]
    if config.flag("post_norm", default=True):
        vectors.append(norm("post_trunk_norm", width))
    return Tower("vision tower", tuple(matrices), tuple(vectors), "all", depth, width, inner)
