"""Gemma 3n and Gemma 4: layers that read another layer's cache, per-layer embeddings, two head shapes, experts."""

from __future__ import annotations

from planner.models.architecture import Layer, Matrix, RotaryTable, Tower, UnknownModel, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.families.gemma import filled
from planner.models.layers import attention, experts, feed_forward, vision
from planner.models.rope import rope_section, rope_type, rotary_table

#: Engines before this version hold key and value projections in layers that read another layer's cache, unused.
QUERY_ONLY_SINCE = (0, 30)


def donors(kinds: tuple[str, ...], shared: int) -> tuple[int | None, ...]:
    """For each layer the layer whose cache it reads, None where it has its own.

    The last ``shared`` layers read the last layer of their own kind before them. Raises UnknownModel where there is none.
    """
    first = len(kinds) - shared
    if not 0 <= first <= len(kinds):
        raise UnknownModel(f"{shared} of {len(kinds)} layers share caches", "correct num_kv_shared_layers")
    last = {kind: i for i, kind in enumerate(kinds[:first])}
    found: list[int | None] = [None] * first
    for kind in kinds[first:]:
        if kind not in last:
            raise UnknownModel(
                f"no layer of kind {kind} has a cache that later layers could read", "correct layer_types"
            )
        found.append(last[kind])
    return tuple(found)


def query_projections(
    builder: Builder, path: str, hidden: int, heads: int, kv_heads: int, head_dim: int, *, bias: bool, own_cache: bool
) -> tuple[Matrix, ...]:
    """Fused projections; a layer without a cache of its own needs queries only."""
    qkv, out = attention.projections(
        builder, f"{path}.self_attn", hidden, heads, kv_heads, head_dim, qkv_bias=bias, out_bias=bias
    )
    if own_cache:
        return qkv, out
    query = Matrix("q_proj", heads * head_dim, hidden, "column", qkv.format, bias=bias)
    spare = Matrix("kv_proj", 2 * kv_heads * head_dim, hidden, "grouped", qkv.format, bias=bias, until=QUERY_ONLY_SINCE)
    return query, spare._replace(kv_heads=kv_heads, head_dim=2 * head_dim), out


def per_layer_embedding(builder: Builder, layers: int, width: int, hidden: int, vocab: int) -> Tower:
    """The second embedding, of ``width`` elements for every layer, with its projection."""
    total = layers * width
    matrices = (
        Matrix("embed_tokens_per_layer", vocab, total, "vocab", "plain"),
        builder.linear("model.per_layer_model_projection", total, hidden, "column"),
    )
    return Tower("per-layer embedding", matrices, (Vector("per_layer_projection_norm", width),))


def gemma3n_text(builder: Builder) -> Parts:
    """Gemma 3n's language model: AltUp streams, LAuReL blocks, per-layer embeddings, shared caches."""
    inner = filled(
        builder,
        head_dim=256,
        num_attention_heads=8,
        num_key_value_heads=2,
        sliding_window=512,
        max_position_embeddings=32768,
        vocab_size=262400,
        hidden_size=2048,
        num_hidden_layers=35,
    )
    config = inner.config
    count = config.layers()
    hidden, (heads, kv_heads, head_dim) = inner.hidden, inner.heads()
    sizes = _sizes(config, count)
    kinds = config.layer_types(count) or tuple(
        "full_attention" if (i + 1) % 5 == 0 else "sliding_attention" for i in range(count)
    )
    shared = config.count("num_kv_shared_layers", default=15)
    donor = donors(kinds, shared)
    window, rank = config.integer("sliding_window"), config.integer("laurel_rank", default=64)
    streams = config.integer("altup_num_inputs", default=4, high=64)
    width = config.integer("hidden_size_per_layer_input", default=256)
    bias = config.flag("attention_bias")

    def build(index: int, path: str) -> Layer:
        own = donor[index] is None
        matrices = (
            *query_projections(inner, path, hidden, heads, kv_heads, head_dim, bias=bias, own_cache=own),
            *feed_forward.gated(inner, f"{path}.mlp", hidden, sizes[index]),
            inner.linear(f"{path}.altup.correction_coefs", streams, streams, "replicated"),
            inner.linear(f"{path}.altup.prediction_coefs", streams * streams, streams, "replicated"),
            inner.linear(f"{path}.altup.modality_router", streams, hidden, "replicated"),
            inner.linear(f"{path}.laurel.linear_left", rank, hidden, "column"),
            inner.linear(f"{path}.laurel.linear_right", hidden, rank, "row"),
            inner.linear(f"{path}.per_layer_input_gate", width, hidden, "replicated"),
            inner.linear(f"{path}.per_layer_projection", hidden, width, "replicated"),
        )
        vectors = [
            norm("norms", hidden, count=7),
            Vector("correct_output_scale", hidden, dtype="float32"),
            Vector("q_norm", head_dim),
        ]
        vectors.append(Vector("k_norm", head_dim) if own else Vector("k_norm", head_dim, until=QUERY_ONLY_SINCE))
        sliding = kinds[index] == "sliding_attention"
        cache = attention.cache(heads, kv_heads, head_dim, window=window if sliding else 0, donor=donor[index])
        return Layer(cache, matrices, tuple(vectors))

    streams_tower = Tower(
        "AltUp projections",
        (inner.linear("model.altup_projections", hidden, hidden, "column")._replace(count=2 * (streams - 1)),),
    )
    vocab = config.integer("vocab_size_per_layer_input", default=262144)
    local = rotary_table(config, head_dim, section=ConfigReader({"rope_type": "default"}, "rope_local_base_freq"))
    return Parts(
        layers=inner.stack(list(zip(kinds, donor, sizes, strict=True)), build),
        embedding=inner.embedding(),
        head=None,
        tied=True,
        final_vectors=(norm("norm", hidden),),
        tables=(rotary_table(config, head_dim), local),
        towers=(per_layer_embedding(inner, count, width, hidden, vocab), streams_tower),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=max(sizes),
        vocab=config.integer("vocab_size"),
        hidden=hidden,
    )


def _sizes(config: ConfigReader, count: int) -> tuple[int, ...]:
    if isinstance(config.raw("intermediate_size"), list):
        sizes = config.integers("intermediate_size", low=1)
        if len(sizes) < count:
            raise UnknownModel(f"intermediate_size has {len(sizes)} of {count} layers", "correct config.json")
        return sizes[:count]
    return (config.integer("intermediate_size", default=16384),) * count


def gemma4_text(builder: Builder) -> Parts:
    """Gemma 4's language model: window layers and full layers differ in head size and key-value heads."""
    inner = filled(builder, head_dim=256, global_head_dim=512, sliding_window=512, max_position_embeddings=131072)
    config = inner.config
    count = config.layers()
    hidden, (heads, kv_heads, head_dim) = inner.hidden, inner.heads()
    wide_dim = config.integer("global_head_dim")
    equal = config.flag("attention_k_eq_v")
    wide_heads = config.count("num_global_key_value_heads", default=0) if equal else 0
    wide_heads = wide_heads or kv_heads
    kinds = config.layer_types(count) or tuple(
        "full_attention" if (i + 1) % 6 == 0 else "sliding_attention" for i in range(count)
    )
    donor = donors(kinds, config.count("num_kv_shared_layers", default=0))
    dense, double = config.integer("intermediate_size"), config.flag("use_double_wide_mlp")
    expert_count = config.count("num_experts", default=0)
    expert_size = config.integer("moe_intermediate_size", "expert_intermediate_size", default=1) if expert_count else 0
    width = config.count("hidden_size_per_layer_input", default=0)
    window, bias = config.integer("sliding_window"), config.flag("attention_bias")

    def build(index: int, path: str) -> Layer:
        own, sliding = donor[index] is None, kinds[index] == "sliding_attention"
        size, groups = (head_dim, kv_heads) if sliding else (wide_dim, wide_heads)
        mlp = dense * (2 if double and not own else 1)
        matrices = [
            *query_projections(inner, path, hidden, heads, groups, size, bias=bias, own_cache=own),
            *feed_forward.gated(inner, f"{path}.mlp", hidden, mlp),
        ]
        vectors = [norm("norms", hidden, count=4), Vector("q_norm", size)]
        vectors.append(Vector("k_norm", size) if own else Vector("k_norm", size, until=QUERY_ONLY_SINCE))
        if expert_count:
            matrices += [
                experts.router(expert_count, hidden),
                *experts.routed(inner, path, hidden, expert_size, expert_count),
            ]
            vectors += [norm("expert_norms", hidden, count=3), Vector("router_scale", hidden + expert_count)]
        if width:
            matrices += [
                inner.linear(f"{path}.per_layer_input_gate", width, hidden, "replicated"),
                inner.linear(f"{path}.per_layer_projection", hidden, width, "replicated"),
            ]
            vectors.append(norm("post_per_layer_input_norm", hidden))
        cache = attention.cache(heads, groups, size, window=window if sliding else 0, donor=donor[index])
        return Layer(cache, tuple(matrices), tuple(vectors))

    towers: tuple[Tower, ...] = ()
    if width:
        vocab = config.integer("vocab_size_per_layer_input", default=262144)
        towers = (per_layer_embedding(inner, count, width, hidden, vocab),)
    tied = inner.tied(True)
    return Parts(
        layers=inner.stack(list(zip(kinds, donor, strict=True)), build),
        embedding=inner.embedding(),
        head=None if tied else inner.head(),
        tied=tied,
        final_vectors=(norm("norm", hidden),),
        tables=(_table(config, head_dim, "sliding_attention"), _table(config, wide_dim, "full_attention")),
        towers=towers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=dense,
        experts=expert_count,
        experts_per_token=config.integer("top_k_experts", "num_experts_per_tok", default=8) if expert_count else 0,
        expert_intermediate=expert_size,
    )


def _table(config: ConfigReader, head_dim: int, kind: str) -> RotaryTable:
    section = rope_section(config, kind)
    table = rotary_table(config, head_dim, section=section) if section else rotary_table(config, head_dim)
    # The proportional type keeps a column for every element, those that don't rotate too.
    return table._replace(dim=head_dim) if rope_type(section) == "proportional" else table


def gemma4(builder: Builder) -> Parts:
    """Gemma 4 with its vision tower, and the audio tower of the small models. Both are whole on every rank."""
    parts = gemma4_text(builder)
    root, hidden = builder.root, builder.hidden
    towers = list(parts.towers)
    pictures = root.section("vision_config")
    if pictures is not None:
        tower = vision.gemma4(builder, pictures, hidden)
        tokens = root.integer("vision_soft_tokens_per_image", default=280)
        # per-layer inputs of a batch, kept for graphs
        width = len(parts.layers) * builder.config.count("hidden_size_per_layer_input", default=0)
        towers.append(tower._replace(max_tokens_per_item=tokens, batch_width=width))
    sounds = root.section("audio_config")
    if sounds is not None:
        towers.append(gemma4_audio(sounds, hidden))
    return parts._replace(towers=tuple(towers), multimodal=len(towers) > len(parts.towers))


def gemma4_unified(builder: Builder) -> Parts:
    """Gemma 4 without encoders (12B): pixel patches and sound frames are projected straight into the decoder's width."""
    parts = gemma4_text(builder)
    root, hidden = builder.root, builder.hidden
    pictures, sounds = root.section("vision_config"), root.section("audio_config")
    towers = list(parts.towers)
    if pictures is not None:
        side = pictures.integer("patch_size", default=16) * pictures.integer("pooling_kernel_size", default=3)
        width, inputs = pictures.integer("mm_embed_dim", default=3840), 3 * side * side
        out = pictures.integer("output_proj_dims", default=width)
        matrices = (
            Matrix("patch_dense", width, inputs, "column", "plain", bias=True),
            Matrix("embed_vision", hidden, out, "replicated", "plain"),
        )
        vectors = (
            norm("patch_ln1", inputs, bias=True),
            norm("patch_ln2_and_pos_norm", width, bias=True, count=2),
            Vector("pos_embedding", 2 * pictures.integer("mm_posemb_size", default=1120) * width),
        )
        tokens = root.integer("vision_soft_tokens_per_image", default=280)
        towers.append(Tower("vision embedder", matrices, vectors, hidden=width, max_tokens_per_item=tokens))
    if sounds is not None:
        frame = sounds.integer("audio_embed_dim", default=640)
        towers.append(Tower("audio embedder", (Matrix("embed_audio", hidden, frame, "replicated", "plain"),)))
    return parts._replace(towers=tuple(towers), multimodal=pictures is not None or sounds is not None)


def gemma4_audio(config: ConfigReader, text_hidden: int) -> Tower:
    """The conformer of the small models: two half-step feed-forward blocks, chunked attention, a light convolution."""
    hidden, depth = config.integer("hidden_size", default=1024), config.layers(default=12)
    kernel = config.integer("conv_kernel_size", default=5, high=1000)
    out = config.integer("output_proj_dims", default=1536)
    channels = config.integers("subsampling_conv_channels", low=1) or (128, 32)
    first, second = channels[0], channels[-1]
    heads = config.integer("num_attention_heads", default=8)
    per_layer = 16 * hidden * hidden + 4 * hidden * hidden + hidden * hidden + 3 * hidden * hidden + kernel * hidden
    matrices = (
        Matrix("conformer", per_layer, 1, "replicated", "plain", depth),
        Matrix("subsample_input_proj", hidden, second * 32, "replicated", "plain"),
        Matrix("output_proj", out, hidden, "replicated", "plain", bias=True),
        Matrix("embed_audio", text_hidden, out, "replicated", "plain"),
    )
    vectors = (
        Vector("norms", hidden, count=11 * depth),
        Vector("per_dim_scale", max(hidden // heads, 1), count=depth),
        Vector("subsample_conv", first * 9 + first + second * first * 9 + second),
    )
    return Tower("audio tower", matrices, vectors, layers=depth, hidden=hidden, intermediate=4 * hidden)
