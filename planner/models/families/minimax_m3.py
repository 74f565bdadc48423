"""MiniMax-M3: grouped attention that picks blocks of the context with an indexer, routed and shared experts."""

from __future__ import annotations

from planner.models.architecture import FullAttention, Layer, Matrix, Tower, UnknownModel, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.layers import attention, experts, feed_forward, vision
from planner.models.rope import rotary_table


def minimax_m3_text(builder: Builder) -> Parts:
    """The language model. Sparse layers keep one index key per token beside keys and values; MTP layers are sparse too."""
    config = builder.config
    count = config.layers()
    hidden, (heads, kv_heads, head_dim) = builder.hidden, builder.heads()
    indexer = config.section("sparse_attention_config")
    sparse = _layers(indexer, "sparse_attention_freq", count, False)
    routed = _layers(config, "moe_layer_freq", count, True)
    index_heads = indexer.integer("sparse_num_index_heads", default=kv_heads) if indexer else 0
    index_dim = indexer.integer("sparse_index_dim", default=128) if indexer else 0
    if indexer is not None and (index_heads != kv_heads or index_dim != head_dim):
        raise UnknownModel(
            f"{index_heads} index heads of size {index_dim} beside {kv_heads} key-value heads of size {head_dim}",
            "correct config.json",
        )
    expert_count = config.integer("num_local_experts", "num_experts")
    inner, dense = config.integer("intermediate_size"), config.integer("dense_intermediate_size")
    shared = config.count("n_shared_experts", default=0)
    corrected = config.flag("use_routing_bias")

    def build(index: int, path: str) -> Layer:
        draft = index >= count
        qkv, out = attention.projections(builder, f"{path}.self_attn", hidden, heads, kv_heads, head_dim)
        matrices: list[Matrix] = [qkv, out]
        vectors = [norm("norms", hidden, count=2), *attention.head_norms(head_dim)]
        cache = FullAttention(heads, kv_heads, head_dim, head_dim)
        if draft or sparse[index]:
            # index queries are fused into the projection and split as keys are; the one index key is on every rank
            matrices[0] = qkv._replace(n=qkv.n + index_heads * index_dim, v_head_dim=head_dim + index_dim, slices=5)
            matrices.append(
                Matrix(
                    "index_k_proj",
                    index_dim,
                    hidden,
                    "replicated",
                    builder.quantization.linear(f"{path}.self_attn.q_proj"),
                )
            )
            vectors += [Vector("index_q_norm", index_dim), Vector("index_k_norm", index_dim)]
            cache = cache._replace(indexer_dim=index_dim)
        if draft or routed[index]:
            moe = f"{path}.block_sparse_moe"
            matrices.append(experts.router(expert_count, hidden, dtype="float32"))
            matrices += experts.routed(builder, moe, hidden, inner, expert_count)
            if shared:
                matrices += feed_forward.gated(builder, f"{moe}.shared_experts", hidden, inner * shared)
            if corrected:
                vectors.append(experts.correction_bias(expert_count))
        else:
            matrices += feed_forward.gated(builder, f"{path}.mlp", hidden, dense)
        return Layer(cache, tuple(matrices), tuple(vectors))

    drafts = min(config.count("num_mtp_modules", default=0), 64) if indexer is not None else 0
    mtp = []
    for index in range(drafts):
        path = f"mtp.layers.{index}"
        layer = build(count + index, f"{path}.transformer_layer")
        joined = builder.linear(f"{path}.eh_proj", hidden, 2 * hidden, "replicated")
        mtp.append(
            layer._replace(
                matrices=(*layer.matrices, joined), vectors=(*layer.vectors, norm("mtp_norms", hidden, count=3))
            )
        )
    return Parts(
        builder.stack(list(zip(sparse, routed, strict=True)), build),
        *builder.ends(),
        final_vectors=(norm("norm", hidden),),
        tables=(rotary_table(config, head_dim),),
        mtp_layers=tuple(mtp),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=dense,
        experts=expert_count,
        experts_per_token=config.integer("num_experts_per_tok", default=4),
        expert_intermediate=inner,
    )


def _layers(config: ConfigReader | None, name: str, count: int, default: bool) -> tuple[bool, ...]:
    """A list that says for each layer whether it is meant; raises UnknownModel where it is too short."""
    values = config.integers(name) if config is not None and name in config else ()
    if not values:
        return (default,) * count
    if len(values) < count:
        raise UnknownModel(f"{name} names {len(values)} of {count} layers", "correct config.json")
    return tuple(value != 0 for value in values[:count])


def minimax_m3(builder: Builder) -> Parts:
    """The same with its vision tower: CLIP's layers over patches in space and time, a projector and a patch merger."""
    parts = minimax_m3_text(builder)
    root = builder.root
    config = root.require("vision_config")
    width, depth = config.integer("hidden_size", default=1280), config.layers(default=32)
    heads, inner = config.integer("num_attention_heads", default=16), config.integer("intermediate_size", default=5120)
    names = ("self_attn.q_proj", "self_attn.out_proj", "mlp.fc1", "mlp.fc2")
    path = "vision_tower.vision_model.encoder.layers"
    matrices, vectors = vision.blocks(builder, path, depth, width, heads, inner, names=names)
    merging = config.section("img_token_compression_config") or root.section("img_token_compression_config")
    merge = merging.integer("spatial_merge_size", default=2, high=64) if merging else 2
    frames = merging.integer("temporal_patch_size", default=2, high=64) if merging else 2
    hidden = builder.hidden
    middle = root.count("projector_hidden_size", default=0) or hidden
    bias = root.flag("multimodal_projector_bias", default=True)
    matrices += [
        vision.linear(builder, "multi_modal_projector.linear_1", middle, width, "column", bias=bias),
        vision.linear(builder, "multi_modal_projector.linear_2", hidden, middle, "row", bias=bias),
        vision.linear(builder, "patch_merge_mlp.linear_1", middle, hidden * merge * merge, "column"),
        vision.linear(builder, "patch_merge_mlp.linear_2", hidden, middle, "row"),
    ]
    patch = config.integer("patch_size", default=14)
    vectors += [
        Vector("patch_embedding", width * 3 * frames * patch * patch),
        norm("pre_layrnorm", width, bias=True),
    ]
    tower = Tower("vision tower", tuple(matrices), tuple(vectors), "all", depth, width, inner)
    return parts._replace(towers=(tower,), multimodal=True)
