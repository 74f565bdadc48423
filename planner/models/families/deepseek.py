"""DeepSeek V1 to V3.2, Kimi K2, GLM-5: latent attention over routed and shared experts, some with a sparse indexer."""

from __future__ import annotations

from planner.models.architecture import Layer, Matrix, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.layers import attention, experts, feed_forward, latent
from planner.models.rope import rope_section, rope_type, rotary_table


class Experts:
    """The feed-forward side of a DeepSeek layer: dense in the first layers, routed and shared experts after."""

    def __init__(self, builder: Builder, module: str = "mlp") -> None:
        config = builder.config
        self.builder, self.module = builder, module
        self.hidden = builder.hidden
        self.dense = config.integer("intermediate_size", "dense_intermediate_size")
        self.count = config.count("n_routed_experts", "num_experts", default=0)
        self.inner = config.integer("moe_intermediate_size", default=self.dense)
        self.shared = config.count("n_shared_experts", "num_shared_experts", default=0)
        self.per_token = config.integer("num_experts_per_tok", default=8)
        self.first_dense = config.count("first_k_dense_replace", default=0)
        self.step = config.integer("moe_layer_freq", default=1)
        self.corrected = config.text("topk_method") == "noaux_tc"

    def sparse(self, index: int) -> bool:
        """Whether layer ``index`` has experts."""
        return bool(self.count) and index >= self.first_dense and index % self.step == 0

    def block(self, index: int, path: str) -> tuple[tuple[Matrix, ...], tuple[Vector, ...]]:
        """The matrices and vectors of layer ``index``."""
        builder, path = self.builder, f"{path}.{self.module}"
        if not self.sparse(index):
            return feed_forward.gated(builder, path, self.hidden, self.dense), ()
        matrices = [
            experts.router(self.count, self.hidden),
            *experts.routed(builder, path, self.hidden, self.inner, self.count),
        ]
        if self.shared:
            matrices += feed_forward.gated(builder, f"{path}.shared_experts", self.hidden, self.inner * self.shared)
        return tuple(matrices), (experts.correction_bias(self.count),) if self.corrected else ()


def deepseek(builder: Builder) -> Parts:
    """DeepSeek V2, V3, R1, V3.1, V3.2, Kimi K2, GLM-5 and 5.x."""
    config = builder.config
    count = config.layers()
    shape, moe = latent.LatentShape.read(config), Experts(builder)
    indexer = None
    has_indexer: tuple[bool, ...] = (False,) * count
    if "index_topk" in config:
        indexer = latent.IndexerShape(config.integer("index_n_heads"), config.integer("index_head_dim"))
        has_indexer = latent.indexer_layers(config, count)
    bias = config.flag("attention_bias")

    def build(index: int, path: str) -> Layer:
        matrices, vectors = latent.projections(builder, f"{path}.self_attn", shape, bias=bias)
        indexed = indexer if index >= count or has_indexer[index] else None
        if indexed:
            more = latent.indexer(builder, f"{path}.self_attn.indexer", shape, indexed)
            matrices, vectors = matrices + more[0], vectors + more[1]
        block, block_vectors = moe.block(index, path)
        cache = latent.cache(shape, indexed.dim if indexed else 0)
        return Layer(cache, (*matrices, *block), (norm("norms", shape.hidden, count=2), *vectors, *block_vectors))

    drafts = min(config.count("num_nextn_predict_layers", default=0), 64)
    mtp = [with_projection(builder, build(count + i, f"model.layers.{count + i}")) for i in range(drafts)]

    kinds = [(moe.sparse(i), has_indexer[i]) for i in range(count)]
    scaled = rope_type(rope_section(config)) not in ("default", "linear")
    table = rotary_table(config, shape.rope)._replace(wide_on_blackwell=scaled)
    extra: tuple[tuple[str, str], ...] = ()
    if indexer:
        extra = (("index_topk", str(config.integer("index_topk"))),)
        if not config.flag("indexer_rope_interleave"):
            table = table._replace(count=2)  # the indexer rotates in its own order and has a table for it
    return Parts(
        builder.stack(kinds, build),
        *builder.ends(),
        final_vectors=(norm("norm", shape.hidden),),
        tables=(table,),
        mtp_layers=tuple(mtp),
        heads=shape.heads,
        kv_heads=1,
        head_dim=shape.kv_rank + shape.rope,
        intermediate=moe.dense,
        experts=moe.count,
        experts_per_token=moe.per_token if moe.count else 0,
        expert_intermediate=moe.inner if moe.count else 0,
        extra=extra,
    )


def mistral4(builder: Builder) -> Parts:
    """Mistral Small 4: DeepSeek's layers. The config states the rotated part of a head as a fraction of the whole head."""
    parts = deepseek(builder)
    rope = builder.config.count("qk_rope_head_dim", default=64)
    return parts._replace(tables=tuple(table._replace(dim=rope) for table in parts.tables))


def with_projection(builder: Builder, layer: Layer) -> Layer:
    """A multi-token-prediction layer: a decoder layer behind norms and a projection of hidden state and embedding."""
    hidden = builder.hidden
    joined = builder.plain("eh_proj", hidden, 2 * hidden)
    return layer._replace(
        matrices=(*layer.matrices, joined), vectors=(*layer.vectors, norm("mtp_norms", hidden, count=3))
    )


def deepseek_v1(builder: Builder) -> Parts:
    """DeepSeek-MoE-16B: ordinary attention, routed and shared experts."""
    config = builder.config
    count = config.layers()
    hidden, (heads, kv_heads, head_dim) = builder.hidden, builder.heads()
    moe = Experts(builder)

    def build(index: int, path: str) -> Layer:
        pair = attention.projections(builder, f"{path}.self_attn", hidden, heads, kv_heads, head_dim)
        block, vectors = moe.block(index, path)
        return Layer(
            attention.cache(heads, kv_heads, head_dim), (*pair, *block), (norm("norms", hidden, count=2), *vectors)
        )

    return Parts(
        builder.stack([moe.sparse(i) for i in range(count)], build),
        *builder.ends(),
        final_vectors=(norm("norm", hidden),),
        tables=(rotary_table(config, head_dim),),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=moe.dense,
        experts=moe.count,
        experts_per_token=moe.per_token,
        expert_intermediate=moe.inner,
    )


def minicpm3(builder: Builder) -> Parts:
    """MiniCPM3: latent projections, but a cache of full keys and values per head."""
    config = builder.config
    count = config.layers()
    shape = latent.LatentShape.read(
        ConfigReader(
            {"v_head_dim": builder.hidden // config.integer("num_attention_heads"), **config.data}, config.where
        )
    )
    inner = config.integer("intermediate_size")
    key_dim = shape.nope + shape.rope

    def build(index: int, path: str) -> Layer:
        queries = shape.heads * key_dim
        matrices = (
            builder.linear(f"{path}.self_attn.q_a_proj", shape.q_rank, shape.hidden, "replicated"),
            builder.linear(f"{path}.self_attn.q_b_proj", queries, shape.q_rank, "column"),
            builder.linear(
                f"{path}.self_attn.kv_a_proj_with_mqa", shape.kv_rank + shape.rope, shape.hidden, "replicated"
            ),
            builder.linear(
                f"{path}.self_attn.kv_b_proj", shape.heads * (shape.nope + shape.value), shape.kv_rank, "column"
            ),
            builder.linear(f"{path}.self_attn.o_proj", shape.hidden, shape.heads * shape.value, "row"),
        )
        vectors = (
            norm("norms", shape.hidden, count=2),
            Vector("q_a_layernorm", shape.q_rank),
            Vector("kv_a_layernorm", shape.kv_rank),
        )
        # The engine pads values to the keys' size: the cache holds heads of nope + rope elements.
        cache = attention.cache(shape.heads, shape.heads, key_dim)
        return Layer(cache, (*matrices, *feed_forward.gated(builder, f"{path}.mlp", shape.hidden, inner)), vectors)

    return Parts(
        builder.stack((0,) * count, build),
        *builder.ends(True),
        final_vectors=(norm("norm", shape.hidden),),
        tables=(rotary_table(config, shape.rope),),
        heads=shape.heads,
        kv_heads=shape.heads,
        head_dim=key_dim,
        intermediate=inner,
    )
