"""Mixtures of experts over ordinary attention: Mixtral, Qwen MoE, gpt-oss, PhiMoE, Granite MoE, OLMoE, DBRX, GLM-4.5 …"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.models.architecture import Layer, Matrix, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.families.llama import windows
from planner.models.layers import attention, experts, feed_forward
from planner.models.rope import rotary_table

Block = Callable[[int, str], tuple[tuple[Matrix, ...], tuple[Vector, ...]]]


def moe_decoder(
    builder: Builder,
    block: Block,
    *,
    block_kinds: Sequence[str] = (),
    window_per_layer: Sequence[int] = (),
    qkv_bias: bool = False,
    out_bias: bool = False,
    head_norms: str = "",
    norms: int = 2,
    norm_bias: bool = False,
    sinks: bool = False,
    tied: bool = False,
    count: int = 0,
) -> Parts:
    """Layers of attention and what ``block(index, path)`` returns; ``block_kinds`` tells different blocks apart."""
    config = builder.config
    count = count or config.layers("num_hidden_layers", "n_layer", "num_layers")
    hidden, (heads, kv_heads, head_dim) = builder.hidden, builder.heads()
    per_layer = tuple(window_per_layer) or (0,) * count
    vectors = [norm("norms", hidden, bias=norm_bias, count=norms)]
    if head_norms == "per_head":
        vectors += attention.head_norms(head_dim)
    elif head_norms == "full":
        vectors += [Vector("q_norm", heads * head_dim, "column"), Vector("k_norm", kv_heads * head_dim, "column_kv")]
    if sinks:
        vectors.append(Vector("sinks", heads, "column"))

    def build(index: int, path: str) -> Layer:
        pair = attention.projections(
            builder, f"{path}.self_attn", hidden, heads, kv_heads, head_dim, qkv_bias=qkv_bias, out_bias=out_bias
        )
        matrices, more = block(index, path)
        cache = attention.cache(heads, kv_heads, head_dim, window=per_layer[index], sinks=sinks)
        return Layer(cache, (*pair, *matrices), (*vectors, *more))

    kinds = list(zip(per_layer, block_kinds or ("",) * count, strict=True))
    is_tied = builder.tied(tied)
    return Parts(
        layers=builder.stack(kinds, build),
        embedding=builder.embedding(),
        head=None if is_tied else builder.head(),
        tied=is_tied,
        final_vectors=(norm("norm", hidden, bias=norm_bias),),
        tables=(rotary_table(config, head_dim),),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=config.count("intermediate_size", default=0),
    )


def mixtral(builder: Builder) -> Parts:
    """Mixtral: every layer has experts and nothing else."""
    config = builder.config
    hidden, inner = builder.hidden, config.integer("intermediate_size")
    count = config.integer("num_local_experts")

    def block(index: int, path: str) -> tuple[tuple[Matrix, ...], tuple[Vector, ...]]:
        routed = experts.routed(builder, f"{path}.block_sparse_moe", hidden, inner, count)
        return (experts.router(count, hidden), *routed), ()

    parts = moe_decoder(builder, block, window_per_layer=windows(config, config.layers()))
    return parts._replace(
        experts=count, experts_per_token=config.integer("num_experts_per_tok", default=2), expert_intermediate=inner
    )


def phimoe(builder: Builder) -> Parts:
    """Phi-3.5-MoE: Mixtral with biases in attention, LayerNorm and a biased head."""
    config = builder.config
    hidden, inner = builder.hidden, config.integer("intermediate_size")
    count = config.integer("num_local_experts", default=16)
    bias = config.flag("attention_bias")

    def block(index: int, path: str) -> tuple[tuple[Matrix, ...], tuple[Vector, ...]]:
        routed = experts.routed(builder, f"{path}.block_sparse_moe", hidden, inner, count)
        return (experts.router(count, hidden), *routed), ()

    parts = moe_decoder(
        builder,
        block,
        window_per_layer=windows(config, config.layers()),
        qkv_bias=bias,
        out_bias=bias,
        norm_bias=True,
    )
    return parts._replace(
        head=builder.head(bias=config.flag("lm_head_bias")),
        experts=count,
        experts_per_token=config.integer("num_experts_per_tok", default=2),
        expert_intermediate=inner,
    )


def qwen2_moe(builder: Builder) -> Parts:
    """Qwen1.5-MoE and Qwen2-57B-A14B: routed experts, a gated shared expert, biased queries, keys and values."""
    config = builder.config
    hidden = builder.hidden
    count, inner = config.integer("num_experts"), config.integer("moe_intermediate_size")
    shared = config.count("shared_expert_intermediate_size", default=0)
    dense = config.integer("intermediate_size", default=inner)
    sparse = sparse_layers(config)

    def block(index: int, path: str) -> tuple[tuple[Matrix, ...], tuple[Vector, ...]]:
        if not sparse[index]:
            return feed_forward.gated(builder, f"{path}.mlp", hidden, dense), ()
        matrices = [experts.router(count, hidden), *experts.routed(builder, f"{path}.mlp", hidden, inner, count)]
        if shared:
            matrices += feed_forward.gated(builder, f"{path}.mlp.shared_expert", hidden, shared)
            matrices.append(builder.plain("shared_expert_gate", 1, hidden))
        return tuple(matrices), ()

    parts = moe_decoder(
        builder,
        block,
        block_kinds=["sparse" if s else "dense" for s in sparse],
        window_per_layer=windows(config, config.layers(), off_by_default=True),
        qkv_bias=config.flag("qkv_bias", default=True),
    )
    return parts._replace(
        experts=count, experts_per_token=config.integer("num_experts_per_tok", default=4), expert_intermediate=inner
    )


def sparse_layers(config: ConfigReader) -> tuple[bool, ...]:
    """Which layers have experts: those at multiples of ``decoder_sparse_step`` that ``mlp_only_layers`` does not name."""
    step = config.integer("decoder_sparse_step", default=1)
    dense = set(config.integers("mlp_only_layers"))
    return tuple(i not in dense and (i + 1) % step == 0 for i in range(config.layers()))


def qwen3_moe(builder: Builder) -> Parts:
    """Qwen3-30B-A3B, 235B-A22B, Coder-480B: routed experts only, norms of heads."""
    config = builder.config
    hidden = builder.hidden
    count, inner = config.integer("num_experts"), config.integer("moe_intermediate_size")
    dense = config.integer("intermediate_size", default=inner)
    sparse = sparse_layers(config)

    def block(index: int, path: str) -> tuple[tuple[Matrix, ...], tuple[Vector, ...]]:
        if not sparse[index]:
            return feed_forward.gated(builder, f"{path}.mlp", hidden, dense), ()
        return (experts.router(count, hidden), *experts.routed(builder, f"{path}.mlp", hidden, inner, count)), ()

    bias = config.flag("attention_bias")
    parts = moe_decoder(
        builder,
        block,
        block_kinds=["sparse" if s else "dense" for s in sparse],
        window_per_layer=windows(config, config.layers(), off_by_default=True),
        qkv_bias=bias,
        head_norms="per_head",
    )
    return parts._replace(
        experts=count, experts_per_token=config.integer("num_experts_per_tok", default=8), expert_intermediate=inner
    )


def gpt_oss(builder: Builder) -> Parts:
    """gpt-oss: biases everywhere, sinks per head, every other layer a window, experts in MXFP4."""
    config = builder.config
    hidden, inner = builder.hidden, config.integer("intermediate_size")
    count = config.integer("num_local_experts", "num_experts")
    layers = config.layers()
    window = config.integer("sliding_window", default=128)
    kinds = config.layer_types(layers) or tuple(("sliding_attention", "full_attention")[i % 2] for i in range(layers))

    def block(index: int, path: str) -> tuple[tuple[Matrix, ...], tuple[Vector, ...]]:
        routed = experts.routed(builder, f"{path}.mlp", hidden, inner, count, bias=True)
        return (experts.router(count, hidden, bias=True), *routed), ()

    parts = moe_decoder(
        builder,
        block,
        window_per_layer=[window if kind == "sliding_attention" else 0 for kind in kinds],
        qkv_bias=True,
        out_bias=True,
        sinks=True,
    )
    return parts._replace(
        tables=tuple(table._replace(dtype="float32") for table in parts.tables),
        experts=count,
        experts_per_token=config.integer("num_experts_per_tok", "experts_per_token", default=4),
        expert_intermediate=inner,
    )


def granite_moe(builder: Builder) -> Parts:
    """Granite 3 MoE, with a shared expert in the Shared variant; tied embeddings."""
    config = builder.config
    hidden, inner = builder.hidden, config.integer("intermediate_size")
    count = config.integer("num_local_experts")
    shared = config.count("shared_intermediate_size", default=0)

    def block(index: int, path: str) -> tuple[tuple[Matrix, ...], tuple[Vector, ...]]:
        matrices = [
            experts.router(count, hidden),
            *experts.routed(builder, f"{path}.block_sparse_moe", hidden, inner, count),
        ]
        if shared:
            matrices += feed_forward.gated(
                builder, f"{path}.shared_mlp", hidden, shared, first="input_linear", out="output_linear"
            )
        return tuple(matrices), ()

    bias = config.flag("attention_bias")
    parts = moe_decoder(builder, block, qkv_bias=bias, out_bias=bias, tied=True)
    return parts._replace(
        experts=count, experts_per_token=config.integer("num_experts_per_tok", default=8), expert_intermediate=inner
    )


def olmoe(builder: Builder) -> Parts:
    """OLMoE: norms over all queries and all keys."""
    config = builder.config
    hidden, inner, count = builder.hidden, config.integer("intermediate_size"), config.integer("num_experts")

    def block(index: int, path: str) -> tuple[tuple[Matrix, ...], tuple[Vector, ...]]:
        return (experts.router(count, hidden), *experts.routed(builder, f"{path}.mlp", hidden, inner, count)), ()

    parts = moe_decoder(builder, block, head_norms="full")
    return parts._replace(
        experts=count, experts_per_token=config.integer("num_experts_per_tok", default=8), expert_intermediate=inner
    )


def glm4_moe(builder: Builder) -> Parts:
    """GLM-4.5, 4.6 and 4.7 (and Solar Open): first layers dense, then routed and shared experts."""
    config = builder.config
    hidden = builder.hidden
    layers = config.layers()
    count, inner = config.integer("n_routed_experts", "num_experts"), config.integer("moe_intermediate_size")
    shared = config.count("n_shared_experts", "num_shared_experts", default=1)
    dense_first = config.count("first_k_dense_replace", default=1)
    dense = config.integer("intermediate_size", default=inner)

    def block(index: int, path: str) -> tuple[tuple[Matrix, ...], tuple[Vector, ...]]:
        if index < dense_first:
            return feed_forward.gated(builder, f"{path}.mlp", hidden, dense), ()
        matrices = [
            experts.router(count, hidden, dtype="float32"),
            *experts.routed(builder, f"{path}.mlp", hidden, inner, count),
        ]
        if shared:
            matrices += feed_forward.gated(builder, f"{path}.mlp.shared_experts", hidden, inner * shared)
        return tuple(matrices), (experts.correction_bias(count),)

    data = {"partial_rotary_factor": 0.5, **config.data}
    inner_builder = Builder(builder.root, ConfigReader(data, config.where), builder.quantization, builder.architecture)
    parts = moe_decoder(
        inner_builder,
        block,
        block_kinds=["dense" if i < dense_first else "sparse" for i in range(layers)],
        qkv_bias=config.flag("attention_bias"),
        head_norms="per_head" if config.flag("use_qk_norm") else "",
    )
    return parts._replace(
        experts=count, experts_per_token=config.integer("num_experts_per_tok", default=8), expert_intermediate=inner
    )


def minimax_m2(builder: Builder) -> Parts:
    """MiniMax-M2: norms over all queries and all keys, routed experts only, a part of each head rotated."""
    config = builder.config
    hidden, inner = builder.hidden, config.integer("intermediate_size")
    count = config.integer("num_local_experts")
    _, _, head_dim = builder.heads()

    def block(index: int, path: str) -> tuple[tuple[Matrix, ...], tuple[Vector, ...]]:
        routed = experts.routed(builder, f"{path}.block_sparse_moe", hidden, inner, count)
        return (experts.router(count, hidden, dtype="float32"), *routed), (experts.correction_bias(count),)

    parts = moe_decoder(builder, block, head_norms="full" if config.flag("use_qk_norm", default=True) else "")
    rotated = config.integer("rotary_dim", default=head_dim)
    return parts._replace(
        tables=tuple(table._replace(dim=rotated) for table in parts.tables),
        experts=count,
        experts_per_token=config.integer("num_experts_per_tok", default=8),
        expert_intermediate=inner,
    )
