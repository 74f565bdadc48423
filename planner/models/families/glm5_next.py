"""GLM-5.3-Flash (Glm5Next): three delta-attention layers to one latent-attention layer whose indexer pools its keys."""

from __future__ import annotations

from planner.models.architecture import LatentAttention, Layer, Matrix, RecurrentState, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.families.deepseek import with_projection
from planner.models.families.kimi import delta_attention
from planner.models.layers import experts, feed_forward, latent, vision

#: how the layers of latent attention are called
INDEXED = ("full_attention", "indexed_attention")


def glm5_next_text(builder: Builder) -> Parts:
    """The language model. Attention stays at 16 bits whatever the checkpoint's quantization: the engine widens it."""
    config = builder.config
    count = config.layers()
    hidden, shape = builder.hidden, latent.LatentShape.read(config)
    settings = _linear(config)
    kinds = config.layer_types(count) or tuple(
        "indexed_attention" if i % 4 == 3 else "linear_attention" for i in range(count)
    )
    sparse = _sparse(config, count)
    index_heads, index_dim = config.integer("index_n_heads", default=32), config.integer("index_head_dim", default=128)
    pool = config.integer("index_kpool", default=16, high=1024)
    streams = config.integer("hc_mult", default=4, high=64) if config.flag("mhc", default=True) else 0
    expert_count, inner = config.integer("n_routed_experts"), config.integer("moe_intermediate_size")
    dense, shared = config.integer("intermediate_size"), config.count("n_shared_experts", default=0)
    corrected = config.text("topk_method", default="noaux_tc") == "noaux_tc"
    cache = latent.cache(shape, index_dim)._replace(index_ratio=pool)

    def indexed(path: str) -> tuple[list[Matrix], list[Vector]]:
        matrices, vectors = latent.projections(builder, f"{path}.self_attn", shape)
        more, own = latent.indexer(
            builder, f"{path}.self_attn.indexer", shape, latent.IndexerShape(index_heads, index_dim)
        )
        pooling = [Vector("index_kpool_ape", pool * index_dim, dtype="float32")]
        return [*matrices, *more, builder.plain("index_kpool_gate", index_dim, hidden)], [*vectors, *own, *pooling]

    def build(index: int, path: str) -> Layer:
        attention: LatentAttention | RecurrentState = cache
        if index >= count or kinds[index] in INDEXED:
            matrices, vectors = indexed(path)
        else:
            attention, matrices, vectors = delta_attention(builder, f"{path}.self_attn", settings, hidden)
        matrices = [m._replace(format="plain") for m in matrices]
        vectors.append(norm("norms", hidden, count=2))
        if streams and index < count:
            mix = (2 + streams) * streams
            vectors += [
                Vector("hc_fn", mix * streams * hidden, dtype="float32", count=2),
                Vector("hc_base_scale", mix + 3, dtype="float32", count=2),
            ]
        if index < count and not sparse[index]:
            return Layer(
                attention, (*matrices, *feed_forward.gated(builder, f"{path}.mlp", hidden, dense)), tuple(vectors)
            )
        matrices += [
            experts.router(expert_count, hidden),
            *experts.routed(builder, f"{path}.mlp", hidden, inner, expert_count),
        ]
        if shared:
            matrices += feed_forward.gated(builder, f"{path}.mlp.shared_experts", hidden, inner * shared)
        if corrected:
            vectors.append(experts.correction_bias(expert_count))
        return Layer(attention, tuple(matrices), tuple(vectors))

    drafts = min(config.count("num_nextn_predict_layers", default=0), 64)
    mtp = tuple(with_projection(builder, build(count + i, f"model.layers.{count + i}")) for i in range(drafts))
    return Parts(
        builder.stack(list(zip(kinds, sparse, strict=True)), build),
        *builder.ends(),
        final_vectors=(norm("norm", hidden),),
        mtp_layers=mtp,
        heads=shape.heads,
        kv_heads=1,
        head_dim=shape.kv_rank + shape.rope,
        intermediate=dense,
        experts=expert_count,
        experts_per_token=config.integer("num_experts_per_tok", default=8),
        expert_intermediate=inner,
        extra=(
            ("index_topk", str(config.integer("index_topk", default=2048))),
            *([("streams", str(streams))] if streams else []),
        ),
    )


def _linear(config: ConfigReader) -> ConfigReader:
    """The sizes of the delta layers: a section of their own, or fields of the text config."""
    section = config.section("linear_attn_config")
    given = dict(section.data) if section else {}
    fields = {
        "num_heads": config.integer("linear_num_heads", default=64),
        "head_dim": config.integer("linear_head_dim", default=128),
        "short_conv_kernel_size": config.integer("linear_conv_kernel_dim", default=4),
    }
    return ConfigReader({**fields, **given}, config.where)


def _sparse(config: ConfigReader, count: int) -> tuple[bool, ...]:
    """Which layers have experts: all but the first three unless the config says otherwise."""
    names = config.strings("mlp_layer_types")
    if len(names) >= count:
        return tuple(name != "dense" for name in names[:count])
    first = config.count("first_k_dense_replace", default=3)
    return tuple(index >= first for index in range(count))


def glm5_next(builder: Builder) -> Parts:
    """The same with its vision tower."""
    parts = glm5_next_text(builder)
    config = builder.root.require("vision_config")
    middle = config.integer("projection_intermediate_size", default=10240)
    positions = builder.config.integer("max_position_embeddings")
    return parts._replace(towers=(vision.glm_next(builder, config, middle, positions),), multimodal=True)
