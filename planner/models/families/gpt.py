"""The older decoders: LayerNorm with biases, feed-forward blocks without a gate, learned or rotary positions."""

from __future__ import annotations

from planner.models.architecture import Layer, Matrix, UnknownModel, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.families.llama import decoder, windows
from planner.models.layers import attention, feed_forward
from planner.models.rope import rotary_table

_PLAIN = ("q_proj", "o_proj", "fc1", "fc2")


def _filled(builder: Builder, **defaults: object) -> Builder:
    config = ConfigReader(
        {**defaults, **{k: v for k, v in builder.config.data.items() if v is not None}}, builder.config.where
    )
    return Builder(builder.root, config, builder.quantization, builder.architecture)


def gpt2(builder: Builder) -> Parts:
    """GPT-2: learned positions, biases everywhere, tied embeddings."""
    config = builder.config
    inner = config.integer("n_inner", default=4 * builder.hidden)
    positions = config.integer("n_positions", "max_position_embeddings", default=1024)
    return decoder(
        builder,
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        gated=False,
        norm_bias=True,
        intermediate=inner,
        rope=False,
        tied=True,
        names=("c_attn", "c_proj", "c_fc", "c_proj"),
        blocks=("attn", "mlp"),
        embedding_vectors=(Vector("wpe", positions * builder.hidden),),
    )


def gpt_bigcode(builder: Builder) -> Parts:
    """StarCoder 1 and SantaCoder: GPT-2 with one key-value head."""
    config = builder.config
    kv_heads = 1 if config.flag("multi_query", default=True) else config.integer("n_head", "num_attention_heads")
    return gpt2(_filled(builder, num_key_value_heads=kv_heads))


def gpt_neox(builder: Builder) -> Parts:
    """GPT-NeoX and Pythia: biases everywhere, a part of each head rotated."""
    return decoder(
        _filled(builder, rotary_pct=0.25),
        qkv_bias=builder.config.flag("attention_bias", default=True),
        out_bias=builder.config.flag("attention_bias", default=True),
        mlp_bias=True,
        gated=False,
        norm_bias=True,
        names=("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"),
        blocks=("attention", "mlp"),
    )


def gpt_j(builder: Builder) -> Parts:
    """GPT-J: one norm per layer, a biased head."""
    config = builder.config
    heads = config.integer("n_head", "num_attention_heads")
    head_dim = max(builder.hidden // heads, 1)
    parts = decoder(
        builder,
        mlp_bias=True,
        gated=False,
        norms=1,
        norm_bias=True,
        head_bias=True,
        intermediate=config.integer("n_inner", default=4 * builder.hidden),
        rope=False,
        names=("q_proj", "out_proj", "fc_in", "fc_out"),
        blocks=("attn", "mlp"),
    )
    rotated = config.integer("rotary_dim", default=head_dim)
    positions = config.integer("n_positions", "max_position_embeddings", default=2048)
    table = rotary_table(config, head_dim, positions=positions)._replace(dim=rotated)
    return parts._replace(tables=(table,), tied=False)


def opt(builder: Builder) -> Parts:
    """OPT: learned positions with an offset of 2, projections around the stack in the 350M model."""
    config = builder.config
    hidden = builder.hidden
    width = config.integer("word_embed_proj_dim", default=hidden)
    bias = config.flag("enable_bias", default=True)
    affine = config.flag("layer_norm_elementwise_affine", default=True)
    positions = config.integer("max_position_embeddings", default=2048) + 2
    extra = [Vector("embed_positions", positions * hidden)]
    final = []
    if width != hidden:
        extra.append(Vector("project_in", width * hidden))
        final.append(Vector("project_out", width * hidden))
    if config.flag("do_layer_norm_before", default=True) and not config.flag("_remove_final_layer_norm"):
        final.append(norm("final_layer_norm", hidden, bias=affine))
    parts = decoder(
        builder,
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=bias,
        gated=False,
        norm_bias=affine,
        intermediate=config.integer("ffn_dim", "intermediate_size"),
        rope=False,
        tied=True,
        names=("q_proj", "out_proj", "fc1", "fc2"),
        blocks=("self_attn", ""),
        embedding_vectors=tuple(extra),
    )
    head = parts.head and parts.head._replace(k=width)
    return parts._replace(embedding=builder.embedding(width=width), head=head, final_vectors=tuple(final))


def bloom(builder: Builder) -> Parts:
    """BLOOM: ALiBi, a norm after the embedding, tied embeddings."""
    hidden = builder.hidden
    return decoder(
        builder,
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        gated=False,
        norm_bias=True,
        intermediate=4 * hidden,
        rope=False,
        tied=True,
        names=("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"),
        blocks=("self_attention", "mlp"),
        embedding_vectors=(norm("word_embeddings_layernorm", hidden, bias=True),),
    )


def falcon(builder: Builder) -> Parts:
    """Falcon 7B, 40B and 180B: multi-query or grouped attention, parallel blocks, tied embeddings."""
    config = builder.config
    heads = config.integer("num_attention_heads", "n_head")
    new = config.flag("new_decoder_architecture")
    kv_heads = heads
    if new:
        kv_heads = config.integer("num_kv_heads", "n_head_kv", default=heads)
    elif config.flag("multi_query", default=True):
        kv_heads = 1
    parallel = config.flag("parallel_attn", default=True)
    norms = config.integer("num_ln_in_parallel_attn", default=2) if new else (1 if parallel else 2)
    bias = config.flag("bias")
    return decoder(
        _filled(builder, **{}) if kv_heads == heads else _filled_with(builder, num_key_value_heads=kv_heads),
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=bias,
        gated=False,
        norms=norms,
        norm_bias=True,
        intermediate=config.integer("ffn_hidden_size", default=4 * builder.hidden),
        rope=not config.flag("alibi"),
        tied=True,
        names=("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"),
        blocks=("self_attention", "mlp"),
    )


def _filled_with(builder: Builder, **values: object) -> Builder:
    config = ConfigReader({**builder.config.data, **values}, builder.config.where)
    return Builder(builder.root, config, builder.quantization, builder.architecture)


def phi(builder: Builder) -> Parts:
    """Phi-1, 1.5 and 2: one norm for parallel blocks, biases everywhere, the head's too."""
    return decoder(
        _filled(builder, partial_rotary_factor=0.5),
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        gated=False,
        norms=1,
        norm_bias=True,
        head_bias=True,
        intermediate=builder.config.integer("intermediate_size", "n_inner", default=4 * builder.hidden),
        names=("q_proj", "dense", "fc1", "fc2"),
    )


def starcoder2(builder: Builder) -> Parts:
    """StarCoder2: biases everywhere, grouped queries, a window of 4096, tied embeddings."""
    config = builder.config
    bias = config.flag("use_bias", default=True)
    return decoder(
        builder,
        window_per_layer=windows(config, config.layers()),
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=bias,
        gated=False,
        norm_bias=True,
        tied=True,
        names=("q_proj", "o_proj", "c_fc", "c_proj"),
    )


def phi3_small(builder: Builder) -> Parts:
    """Phi-3-small: block-sparse attention over a cache that keeps everything, gated GEGLU, biases everywhere."""
    config = builder.config
    return decoder(
        builder,
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        norm_bias=True,
        intermediate=config.integer("ff_intermediate_size", "intermediate_size"),
        tied=True,
        names=("query_key_value", "dense", "up_proj", "down_proj"),
    )


def mpt(builder: Builder) -> Parts:
    """MPT: ALiBi, norms without biases, tied embeddings."""
    config = builder.config
    hidden, heads = config.integer("d_model"), config.integer("n_heads")
    if hidden % heads:
        raise UnknownModel(f"config.json: {hidden} is no multiple of {heads} heads", "correct config.json")
    settings = config.section("attn_config")
    kv_heads = settings.integer("kv_n_heads", default=heads) if settings else heads
    bias = not config.flag("no_bias", default=True)
    ratio = config.integer("expansion_ratio", default=4)
    head_dim = hidden // heads

    def build(index: int, path: str) -> Layer:
        pair = attention.projections(
            builder,
            f"{path}.attn",
            hidden,
            heads,
            kv_heads,
            head_dim,
            qkv_bias=bias,
            out_bias=bias,
            first="Wqkv",
            out="out_proj",
        )
        mlp = feed_forward.plain(builder, f"{path}.ffn", hidden, ratio * hidden, bias=bias)
        return Layer(
            attention.cache(heads, kv_heads, head_dim), (*pair, *mlp), (norm("norms", hidden, bias=bias, count=2),)
        )

    embedding = Matrix("wte", builder.vocab, hidden, "vocab", "plain")
    return Parts(
        layers=builder.stack((0,) * config.layers("n_layers"), build),
        embedding=embedding,
        head=None,
        tied=True,
        final_vectors=(norm("norm_f", hidden, bias=bias),),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=ratio * hidden,
    )
