"""Decoders whose layers differ in more than their window: DeciLM (Nemotron Super/Ultra), Laguna, OLMo Hybrid, ERNIE 4.5 MoE."""

from __future__ import annotations

from typing import Any

from planner.models.architecture import Layer, Matrix, NoAttention, UnknownModel, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.families.mixtral import moe_decoder, sparse_layers
from planner.models.layers import attention, delta, experts, feed_forward
from planner.models.rope import rope_section, rotary_table


def decilm(builder: Builder) -> Parts:
    """Llama-Nemotron Super and Ultra: ``block_configs`` leaves out attention or feed-forward blocks, layer by layer."""
    config = builder.config
    count = config.layers()
    hidden, heads = builder.hidden, config.integer("num_attention_heads", high=100_000)
    head_dim = config.count("head_dim", default=0) or hidden // heads
    bias = config.flag("attention_bias") or config.flag("bias")
    blocks = config.raw("block_configs")
    if not isinstance(blocks, list) or len(blocks) < count:
        raise UnknownModel("config.json has no block_configs for every layer", "correct config.json")
    kinds = [_deci_block(block, hidden, heads) for block in blocks[:count]]

    def build(index: int, path: str) -> Layer:
        kv_heads, inner = kinds[index]
        matrices: list[Matrix] = []
        if kv_heads:
            matrices += attention.projections(
                builder, f"{path}.self_attn", hidden, heads, kv_heads, head_dim, qkv_bias=bias, out_bias=bias
            )
        if inner:
            matrices += feed_forward.gated(builder, f"{path}.mlp", hidden, inner, bias=config.flag("mlp_bias"))
        norms = (1 if kv_heads else 0) + (1 if inner else 0)
        cache = attention.cache(heads, kv_heads, head_dim) if kv_heads else NoAttention()
        return Layer(cache, tuple(matrices), (norm("norms", hidden, count=norms),) if norms else ())

    return Parts(
        builder.stack(kinds, build),
        *builder.ends(),
        final_vectors=(norm("norm", hidden),),
        tables=(rotary_table(config, head_dim),),
        heads=heads,
        kv_heads=max(kv for kv, _ in kinds),
        head_dim=head_dim,
        intermediate=max(inner for _, inner in kinds),
    )


def _deci_block(block: Any, hidden: int, heads: int) -> tuple[int, int]:
    """(key-value heads, intermediate size) of one block, 0 for what is left out."""
    reader = ConfigReader(block, "config.json: block_configs")
    attends, forward = reader.require("attention"), reader.require("ffn")
    for part in (attends, forward):
        if part.flag("replace_with_linear"):
            raise UnknownModel("a block replaced by a linear layer is not understood", "name another model")
    kv_heads = 0
    if not attends.flag("no_op"):
        group = attends.integer("n_heads_in_group", high=heads)
        if heads % group:
            raise UnknownModel(f"config.json: {heads} heads in groups of {group}", "correct config.json")
        kv_heads = heads // group
    inner = 0
    if not forward.flag("no_op"):
        multiple = forward.number("ffn_mult", default=0.0)
        if multiple > 0:
            inner = -(-int(2 * min(multiple, 1000.0) * hidden / 3) // 256) * 256
        else:
            inner = forward.integer("intermediate_size")
    return kv_heads, inner


def laguna(builder: Builder) -> Parts:
    """Laguna: full and window layers with their own head counts, gated outputs, routed and shared experts."""
    config = builder.config
    count = config.layers()
    hidden, (heads, kv_heads, head_dim) = builder.hidden, builder.heads()
    per_layer = config.integers("num_attention_heads_per_layer", low=1) or (heads,) * count
    types = config.layer_types(count) or ("full_attention",) * count
    blocks = config.layer_types(count, "mlp_layer_types")
    sparse = [kind == "sparse" for kind in blocks] if blocks else list(sparse_layers(config))
    if len(per_layer) < count:
        raise UnknownModel(
            f"num_attention_heads_per_layer names {len(per_layer)} of {count} layers", "correct config.json"
        )
    window, bias = config.integer("sliding_window", default=512), config.flag("attention_bias")
    expert_count, inner = config.integer("num_experts"), config.integer("moe_intermediate_size")
    shared = config.count("shared_expert_intermediate_size", default=0)
    dense = config.integer("intermediate_size")
    gating = config.raw("gating")

    def build(index: int, path: str) -> Layer:
        own = per_layer[index]
        matrices = list(
            attention.projections(
                builder, f"{path}.self_attn", hidden, own, kv_heads, head_dim, qkv_bias=bias, out_bias=bias
            )
        )
        if gating:
            width = own if gating is True or gating == "per-head" else own * head_dim
            matrices.append(builder.linear(f"{path}.self_attn.g_proj", width, hidden, "column"))
        vectors = [norm("norms", hidden, count=2), *attention.head_norms(head_dim)]
        if sparse[index]:
            matrices += [
                experts.router(expert_count, hidden),
                *experts.routed(builder, f"{path}.mlp", hidden, inner, expert_count),
            ]
            if shared:
                matrices += feed_forward.gated(builder, f"{path}.mlp.shared_expert", hidden, shared)
            vectors.append(experts.correction_bias(expert_count))
        else:
            matrices += feed_forward.gated(builder, f"{path}.mlp", hidden, dense)
        cache = attention.cache(own, kv_heads, head_dim, window=window if types[index] == "sliding_attention" else 0)
        return Layer(cache, tuple(matrices), tuple(vectors))

    tables = tuple(rotary_table(config, head_dim, section=rope_section(config, kind)) for kind in sorted(set(types)))
    return Parts(
        builder.stack(list(zip(per_layer[:count], types, sparse, strict=True)), build),
        *builder.ends(),
        final_vectors=(norm("norm", hidden),),
        tables=tables,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=dense,
        experts=expert_count,
        experts_per_token=config.integer("num_experts_per_tok", default=8),
        expert_intermediate=inner,
    )


def olmo_hybrid(builder: Builder) -> Parts:
    """OLMo Hybrid: gated-delta layers to one full-attention layer, norms over all queries and all keys."""
    config = builder.config
    count = config.layers()
    hidden, (heads, kv_heads, head_dim) = builder.hidden, builder.heads()
    kinds = config.layer_types(count)
    if not kinds:
        raise UnknownModel("config.json has no layer_types", "add layer_types to config.json")
    inner = config.integer("intermediate_size")

    def build(index: int, path: str) -> Layer:
        mlp = feed_forward.gated(builder, f"{path}.mlp", hidden, inner)
        norms = norm("norms", hidden, count=2)
        if kinds[index] == "full_attention":
            pair = attention.projections(builder, f"{path}.self_attn", hidden, heads, kv_heads, head_dim)
            vectors = (norms, Vector("q_norm", hidden), Vector("k_norm", kv_heads * head_dim))
            return Layer(attention.cache(heads, kv_heads, head_dim), (*pair, *mlp), vectors)
        state, matrices, more = delta.gated_delta_net(builder, f"{path}.linear_attn", config, hidden)
        more = [v._replace(dtype="model") for v in more]
        return Layer(state, (*matrices, *mlp), (norms, *more))

    return Parts(
        builder.stack(kinds, build),
        *builder.ends(),
        final_vectors=(norm("norm", hidden),),
        tables=(rotary_table(config, head_dim),) if rope_section(config) is not None else (),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=inner,
    )


def ernie_moe(builder: Builder) -> Parts:
    """ERNIE 4.5 MoE: experts from ``moe_layer_start_index`` on, at every ``moe_layer_interval``-th layer."""
    config = builder.config
    count = config.layers()
    hidden = builder.hidden
    expert_count, inner = config.integer("moe_num_experts"), config.integer("moe_intermediate_size")
    shared = config.count("moe_num_shared_experts", default=0)
    first, last = (
        config.count("moe_layer_start_index", default=0),
        config.count("moe_layer_end_index", default=count - 1),
    )
    step, dense = config.integer("moe_layer_interval", default=1), config.integer("intermediate_size")
    bias = config.flag("use_bias")
    sparse = [first <= i <= last and (i + 1) % step == 0 for i in range(count)]

    def block(index: int, path: str) -> tuple[tuple[Matrix, ...], tuple[Vector, ...]]:
        if not sparse[index]:
            return feed_forward.gated(builder, f"{path}.mlp", hidden, dense, bias=bias), ()
        matrices = [
            experts.router(expert_count, hidden, dtype="float32"),
            *experts.routed(builder, f"{path}.mlp", hidden, inner, expert_count),
        ]
        if shared:
            matrices += feed_forward.gated(builder, f"{path}.mlp.shared_experts", hidden, inner * shared, bias=bias)
        return tuple(matrices), (experts.correction_bias(expert_count),)

    kinds = ["sparse" if s else "dense" for s in sparse]
    parts = moe_decoder(builder, block, block_kinds=kinds, qkv_bias=bias, tied=True)
    return parts._replace(
        experts=expert_count, experts_per_token=config.integer("moe_k", default=6), expert_intermediate=inner
    )


def mellum(builder: Builder) -> Parts:
    """Mellum 2: window and full layers, routed experts only, norms of heads."""
    config = builder.config
    count = config.layers()
    hidden = builder.hidden
    expert_count, inner = config.integer("num_local_experts", "num_experts"), config.integer("moe_intermediate_size")
    window, dense = config.count("sliding_window", default=0), config.integer("intermediate_size")
    types = config.layer_types(count)
    per_layer = [window if kind == "sliding_attention" else 0 for kind in types] or [0] * count
    blocks = config.layer_types(count, "mlp_layer_types")
    sparse = [kind == "sparse" for kind in blocks] or [True] * count

    def block(index: int, path: str) -> tuple[tuple[Matrix, ...], tuple[Vector, ...]]:
        if not sparse[index]:
            return feed_forward.gated(builder, f"{path}.mlp", hidden, dense), ()
        routed = experts.routed(builder, f"{path}.mlp", hidden, inner, expert_count)
        return (experts.router(expert_count, hidden), *routed), ()

    parts = moe_decoder(
        builder,
        block,
        block_kinds=["sparse" if s else "dense" for s in sparse],
        window_per_layer=per_layer,
        qkv_bias=config.flag("attention_bias"),
        head_norms="per_head",
    )
    return parts._replace(
        experts=expert_count,
        experts_per_token=config.integer("num_experts_per_tok", default=8),
        expert_intermediate=inner,
    )
