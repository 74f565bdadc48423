"""Kimi K2.5 (DeepSeek-V3 with MoonViT), Kimi Linear and Kimi K3 (delta attention, latent attention without positions)."""

from __future__ import annotations

from planner.models.architecture import Layer, Matrix, RecurrentState, StateShape, UnknownModel, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.families.deepseek import deepseek
from planner.models.layers import experts, feed_forward, latent, vision


def kimi_k25(builder: Builder) -> Parts:
    """Kimi K2.5 and later K2 models with vision."""
    parts = deepseek(builder)
    tower = vision.moonvit(builder, builder.root.require("vision_config"), builder.hidden)
    return parts._replace(towers=(tower,), multimodal=True)


def delta_attention(
    builder: Builder, path: str, settings: ConfigReader, hidden: int
) -> tuple[RecurrentState, list[Matrix], list[Vector]]:
    """Kimi delta attention: as the gated delta rule, with a decay for every element of a key.

    The low-rank decay projection is whole on every rank; with ``use_full_rank_gate`` the output gate is a projection of
    full width, else a low-rank pair.
    """
    heads, head_dim = settings.integer("num_heads"), settings.integer("head_dim")
    kernel = settings.integer("short_conv_kernel_size", default=4, high=1000)
    width = heads * head_dim
    full_gate = settings.flag("use_full_rank_gate")
    low_rank = head_dim if full_gate else 2 * head_dim
    form = builder.quantization.linear(f"{path}.q_proj")
    matrices = [
        Matrix(
            "in_proj_qkvgfab",
            (4 if full_gate else 3) * width + heads + low_rank,
            hidden,
            "grouped",
            form,
            kv_heads=1,
            head_dim=low_rank,
            slices=6,
        ),
        builder.linear(f"{path}.f_b_proj", width, head_dim, "column"),
        builder.linear(f"{path}.o_proj", hidden, width, "row"),
    ]
    if not full_gate:
        matrices.append(builder.linear(f"{path}.g_b_proj", width, head_dim, "column"))
    vectors = [
        Vector("conv1d", 3 * width * kernel, "column", "float32"),
        Vector("dt_bias", width, "column", "float32"),
        Vector("A_log", heads, "column", "float32"),
        Vector("o_norm", head_dim),
    ]
    states = (
        StateShape((kernel - 1, 3 * width), 1, "conv", "model", 0),
        StateShape((heads, head_dim, head_dim), 0, "ssm", "float32"),
    )
    return RecurrentState("kda", states), matrices, vectors


def kimi_linear(builder: Builder) -> Parts:
    """The language model of Kimi Linear and Kimi K3. K3 routes experts in a narrower space and gates latent attention."""
    config = builder.config
    count = config.layers()
    hidden = builder.hidden
    settings = config.require("linear_attn_config")
    recurrent = set(settings.integers("kda_layers"))
    shape = latent.LatentShape.read(config)
    gated, no_rope = config.flag("mla_use_output_gate"), config.flag("mla_use_nope", default=True)
    if not no_rope:
        raise UnknownModel("Kimi's latent attention with rotary positions is not understood", "correct config.json")
    expert_count, inner = config.integer("num_experts"), config.integer("moe_intermediate_size")
    per_token = config.integer("num_experts_per_token", "num_experts_per_tok", default=8)
    shared = config.count("num_shared_experts", default=0)
    narrow = config.count("routed_expert_hidden_size", default=0)
    first_dense, step = config.count("first_k_dense_replace", default=0), config.integer("moe_layer_freq", default=1)
    dense = config.integer("intermediate_size")
    residual = config.count("attn_res_block_size", default=0)
    least = config.integer("min_moe_intermediate_per_partition", default=256) if narrow else 0
    sparse = [i >= first_dense and i % step == 0 for i in range(count)]
    kinds = [("kda" if i + 1 in recurrent else "mla", sparse[i]) for i in range(count)]

    def block(index: int, path: str) -> tuple[list[Matrix], list[Vector]]:
        if not sparse[index]:
            return list(feed_forward.gated(builder, f"{path}.mlp", hidden, dense)), []
        path = f"{path}.block_sparse_moe"
        routed = experts.routed(builder, path, narrow or hidden, inner, expert_count)
        matrices = [experts.router(expert_count, hidden), *(m._replace(least=least) for m in routed)]
        vectors = [experts.correction_bias(expert_count)]
        if shared:
            matrices += feed_forward.gated(builder, f"{path}.shared_experts", hidden, inner * shared)
        if narrow:
            matrices += [
                builder.plain("routed_expert_down_proj", narrow, hidden),
                builder.plain("routed_expert_up_proj", hidden, narrow),
            ]
            if config.flag("latent_moe_use_norm"):
                vectors.append(Vector("routed_expert_norm", narrow))
        return matrices, vectors

    def build(index: int, path: str) -> Layer:
        more, vectors = block(index, path)
        vectors = [norm("norms", hidden, count=6 if residual else 2), *vectors]
        if kinds[index][0] == "kda":
            state, matrices, own = delta_attention(builder, f"{path}.self_attn", settings, hidden)
            return Layer(state, (*matrices, *more), (*vectors, *own))
        matrices, own = latent.projections(builder, f"{path}.self_attn", shape)
        if gated:
            matrices.append(builder.linear(f"{path}.self_attn.g_proj", shape.heads * shape.value, hidden, "column"))
        return Layer(latent.cache(shape), (*matrices, *more), (*vectors, *own))

    return Parts(
        builder.stack(kinds, build),
        *builder.ends(),
        final_vectors=(norm("norm", hidden, count=3 if residual else 1),),
        heads=shape.heads,
        kv_heads=1,
        head_dim=shape.kv_rank + shape.rope,
        intermediate=dense,
        experts=expert_count,
        experts_per_token=per_token,
        expert_intermediate=inner,
    )


def kimi_k3(builder: Builder) -> Parts:
    """Kimi K3 with MoonViT."""
    parts = kimi_linear(builder)
    tower = vision.moonvit(builder, builder.root.require("vision_config"), builder.hidden)
    return parts._replace(towers=(tower,), multimodal=True)
