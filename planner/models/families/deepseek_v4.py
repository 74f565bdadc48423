"""DeepSeek-V4: a window of latents beside compressed latents, an indexer where compression is 4, several residual streams."""

from __future__ import annotations

from planner.models.architecture import LatentAttention, Layer, Matrix, RotaryTable, UnknownModel, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.layers import experts, feed_forward
from planner.models.rope import rope_section


def deepseek_v4(builder: Builder) -> Parts:
    """Flash and Pro; experts in MXFP4 (``expert_dtype`` fp4), block FP8 or, in ModelOpt's files, NVFP4."""
    config = builder.config
    count = config.layers()
    hidden, heads = builder.hidden, config.integer("num_attention_heads", high=100_000)
    head_dim, rope = config.integer("head_dim"), config.integer("qk_rope_head_dim")
    q_rank, o_rank, groups = config.integer("q_lora_rank"), config.integer("o_lora_rank"), config.integer("o_groups")
    if heads * head_dim % groups or rope >= head_dim:
        raise UnknownModel(
            f"config.json: {heads} heads of {head_dim} over {groups} output groups", "correct config.json"
        )
    ratios = config.integers("compress_ratios")
    if len(ratios) < count:
        raise UnknownModel(f"compress_ratios names {len(ratios)} of {count} layers", "correct config.json")
    index_heads, index_dim = config.integer("index_n_heads"), config.integer("index_head_dim")
    streams = config.integer("hc_mult", default=4, high=64)
    hashed = config.count("num_hash_layers", default=0)
    expert_count, inner = config.integer("n_routed_experts"), config.integer("moe_intermediate_size")
    shared, per_token = config.count("n_shared_experts", default=0), config.integer("num_experts_per_tok", default=6)
    window = config.integer("sliding_window", default=128)
    corrected = config.text("topk_method") == "noaux_tc"
    quantization = builder.quantization
    if quantization.method == "fp8" and config.text("expert_dtype", default="fp4") == "fp4":
        quantization.store_experts_as_mxfp4()

    def compressor(ratio: int, dim: int) -> tuple[Matrix, list[Vector]]:
        factor = 2 if ratio == 4 else 1
        matrix = builder.plain("compressor", 2 * factor * dim, hidden)
        return matrix, [Vector("ape", ratio * factor * dim, dtype="float32"), Vector("compressor_norm", dim)]

    def build(index: int, path: str) -> Layer:
        attn, ffn, ratio = f"{path}.attn", f"{path}.ffn", ratios[index] if index < len(ratios) else 0
        first = builder.linear(f"{attn}.wq_a", q_rank + head_dim, hidden, "replicated", slices=2)
        matrices = [
            first._replace(name="fused_wqa_wkv"),
            builder.linear(f"{attn}.wq_b", heads * head_dim, q_rank, "column"),
            builder.linear(f"{attn}.wo_a", groups * o_rank, heads * head_dim // groups, "column"),
            builder.linear(f"{attn}.wo_b", hidden, groups * o_rank, "row"),
        ]
        mix = (2 + streams) * streams
        vectors = [
            norm("norms", hidden, count=2),
            Vector("q_norm", q_rank),
            Vector("kv_norm", head_dim),
            Vector("attn_sink", heads, "sink_heads", "float32"),
            Vector("hc_fn", mix * streams * hidden, dtype="float32", count=2),
            Vector("hc_base_scale", mix + 3, dtype="float32", count=2),
        ]
        if ratio > 1:
            matrix, more = compressor(ratio, head_dim)
            matrices.append(matrix)
            vectors += more
        if ratio == 4:
            matrix, more = compressor(ratio, index_dim)
            matrices += [
                matrix,
                builder.linear(f"{attn}.indexer.wq_b", index_heads * index_dim, q_rank, "replicated"),
                builder.plain("indexer.weights_proj", index_heads, hidden),
            ]
            vectors += more
        matrices += [
            experts.router(expert_count, hidden),
            *experts.routed(builder, ffn, hidden, inner, expert_count),
        ]
        if shared:
            matrices += feed_forward.gated(
                builder, f"{ffn}.shared_experts", hidden, inner * shared, first="w1", out="w2"
            )
        if index < hashed:
            vectors.append(Vector("tid2eid", builder.vocab * per_token, dtype="int32"))
        elif corrected:
            vectors.append(experts.correction_bias(expert_count))
        cache = LatentAttention(
            heads,
            head_dim - rope,
            rope,
            head_dim - rope,
            head_dim,
            q_rank,
            index_dim if ratio == 4 else 0,
            window,
            ratio if ratio > 1 else 0,
        )
        return Layer(cache, tuple(matrices), tuple(vectors))

    def draft(index: int) -> Layer:
        """A draft layer: embedding and hidden state go through projections of their own before they are added."""
        path = f"model.layers.{count + index}"
        layer = build(count + index, path)
        joined = [builder.linear(f"{path}.{name}", hidden, hidden, "replicated") for name in ("e_proj", "h_proj")]
        return layer._replace(
            matrices=(*layer.matrices, *joined), vectors=(*layer.vectors, norm("mtp_norms", hidden, count=3), mixer)
        )

    tied = builder.tied()
    mixer = Vector("hc_head", streams * streams * hidden + streams + 1, dtype="float32")
    final = (norm("norm", hidden), mixer)
    drafts = min(config.count("num_nextn_predict_layers", default=0), 64)
    section = rope_section(config)
    original = section.integer("original_max_position_embeddings", default=1) if section else 0
    factor = section.number("factor", default=1.0) if section else 1.0
    positions = int(original * max(factor, 0.0)) if original > 1 else config.integer("max_position_embeddings")
    kinds = [(ratio, i < hashed) for i, ratio in enumerate(ratios[:count])]
    return Parts(
        layers=builder.stack(kinds, build),
        embedding=builder.embedding(),
        head=None if tied else builder.head("head"),
        tied=tied,
        final_vectors=final,
        # Layers without compression rotate with another base: a table of their own.
        mtp_layers=tuple(draft(index) for index in range(drafts)),
        tables=(RotaryTable(positions, rope, "float32", len({ratio > 1 for ratio, _ in kinds})),),
        heads=heads,
        kv_heads=1,
        head_dim=head_dim,
        intermediate=inner,
        experts=expert_count,
        experts_per_token=per_token,
        expert_intermediate=inner,
        extra=(("index_topk", str(config.integer("index_topk", default=512))), ("streams", str(streams))),
    )
