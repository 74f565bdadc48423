"""Encoders for embeddings, classification and reranking: BERT, RoBERTa, ModernBERT, Nomic. They keep no cache."""

from __future__ import annotations

from planner.models.architecture import Layer, NoAttention, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.layers import attention, feed_forward
from planner.models.rope import rotary_table


def encoder(
    builder: Builder,
    *,
    bias: bool,
    gated: bool,
    norm_bias: bool,
    norms: int = 2,
    positions: int = 0,
    types: int = 0,
    pooler: bool = False,
    final_norm: bool = False,
) -> Parts:
    """A stack of bidirectional layers; ``positions`` and ``types`` are learned embeddings beside the words'."""
    config = builder.config
    count = config.layers("num_hidden_layers", "n_layer")
    hidden, (heads, kv_heads, head_dim) = builder.hidden, builder.heads()
    inner = config.integer("intermediate_size", "n_inner")

    def build(index: int, path: str) -> Layer:
        pair = attention.projections(
            builder,
            f"{path}.attention.self",
            hidden,
            heads,
            kv_heads,
            head_dim,
            qkv_bias=bias,
            out_bias=bias,
            first="query",
            out="dense",
        )
        block = feed_forward.gated if gated else feed_forward.plain
        mlp = block(builder, f"{path}.mlp", hidden, inner, bias=bias)
        return Layer(NoAttention(), (*pair, *mlp), (norm("norms", hidden, bias=norm_bias, count=norms),))

    vectors = [norm("embedding_norm", hidden, bias=norm_bias)]
    if positions:
        vectors.append(Vector("position_embeddings", positions * hidden))
    if types:
        vectors.append(Vector("token_type_embeddings", types * hidden))
    final = []
    if final_norm:
        final.append(norm("final_norm", hidden, bias=norm_bias))
    if pooler:
        final.append(Vector("pooler", hidden * hidden + hidden))
    labels = config.count("num_labels", default=0)
    if builder.architecture.endswith("ForSequenceClassification"):
        final.append(Vector("classifier", max(labels, 1) * (hidden + 1)))
    return Parts(
        layers=builder.stack((0,) * count, build, prefix="encoder.layer"),
        embedding=builder.embedding(),
        head=None,
        tied=True,
        final_vectors=tuple(final),
        embedding_vectors=tuple(vectors),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=inner,
        pooling=True,
    )


def bert(builder: Builder) -> Parts:
    """BERT, RoBERTa and XLM-RoBERTa."""
    config = builder.config
    return encoder(
        builder,
        bias=True,
        gated=False,
        norm_bias=True,
        positions=config.integer("max_position_embeddings", default=512),
        types=config.count("type_vocab_size", default=2),
        # the checkpoints of embedding models have one too, which the engine does not build
        pooler=builder.architecture == "BertForSequenceClassification",
    )


def nomic_bert(builder: Builder) -> Parts:
    """Nomic's BERT with rotary positions and gated feed-forward blocks, without biases."""
    config = builder.config
    bias = config.flag("qkv_proj_bias")
    parts = encoder(builder, bias=bias, gated=True, norm_bias=True, types=config.count("type_vocab_size", default=2))
    return parts._replace(tables=(rotary_table(config, parts.head_dim),))


def modernbert(builder: Builder) -> Parts:
    """ModernBERT: rotary positions, gated blocks, norms before them (the first layer's is missing)."""
    config = builder.config
    parts = encoder(
        builder, bias=config.flag("attention_bias"), gated=True, norm_bias=config.flag("norm_bias"), final_norm=True
    )
    local = ConfigReader({"rope_type": "default"}, "local rope")
    tables = (rotary_table(config, parts.head_dim), rotary_table(config, parts.head_dim, section=local))
    return parts._replace(tables=tables)
