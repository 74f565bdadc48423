"""Mamba and its hybrids with attention: Mamba, Mamba-2, Jamba, Bamba, Nemotron-H and 3, Granite 4, Falcon-H1."""

from __future__ import annotations

from planner.models.architecture import Layer, Matrix, NoAttention, RecurrentState, UnknownModel, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.layers import attention, experts, feed_forward, state_space
from planner.models.rope import rotary_table

Mixer = tuple[RecurrentState, list[Matrix], list[Vector]]


def nemotron_h(builder: Builder) -> Parts:
    """Nemotron-H, Nemotron Nano v2 and Nemotron 3: each layer is one of Mamba-2, attention, feed-forward or experts.

    Nemotron 3 Super and Ultra route experts in a narrower latent space. The state is float32 unless the config says
    otherwise: the engine's own default for this class.
    """
    config = builder.config
    pattern = _layer_letters(config)
    drafts = _draft_letters(config)
    hidden, (heads, kv_heads, head_dim) = builder.hidden, builder.heads(_attention_heads(config))
    mamba_heads, mamba_dim = config.integer("mamba_num_heads", default=1), config.integer("mamba_head_dim", default=64)
    state, groups = config.integer("ssm_state_size", default=128), config.integer("n_groups", default=8)
    ssm_dtype = config.text("mamba_ssm_cache_dtype", default="float32")
    if ssm_dtype == "auto":
        ssm_dtype = "float32"
    mlp_bias, bias = config.flag("mlp_bias"), config.flag("use_bias")
    inner_sizes = config.integers("intermediate_size") if isinstance(config.raw("intermediate_size"), list) else ()
    dense = (
        inner_sizes[0]
        if len(inner_sizes) == 1
        else (0 if inner_sizes else config.integer("intermediate_size", default=1))
    )
    expert_count = config.count("n_routed_experts", default=0) if "E" in pattern else 0
    inner = config.integer("moe_intermediate_size", default=1)
    latent = config.count("moe_latent_size", default=0)
    shared = config.count("n_shared_experts", default=0) * config.count(
        "moe_shared_expert_intermediate_size", default=0
    )
    norms = (norm("norm", hidden),)

    def mamba(path: str) -> Layer:
        recurrent, matrices, vectors = state_space.mamba2(
            builder,
            path,
            hidden,
            mamba_heads * mamba_dim,
            mamba_heads,
            mamba_dim,
            state,
            groups,
            config.integer("conv_kernel", default=4, high=1000),
            conv_bias=config.flag("use_conv_bias", default=True),
            bias=bias,
            chunk=config.count("chunk_size", default=0),
            ssm_dtype=ssm_dtype,
        )
        return Layer(recurrent, tuple(matrices), (*norms, *vectors))

    def moe(path: str) -> Layer:
        width = latent or hidden
        matrices = [
            experts.router(expert_count, hidden),
            *experts.routed(builder, path, width, inner, expert_count, gated=False),
        ]
        if shared:
            matrices += feed_forward.plain(builder, f"{path}.shared_experts", hidden, shared, bias=mlp_bias)
        if latent:
            matrices += [
                builder.linear(f"{path}.fc1_latent_proj", latent, hidden, "replicated", bias=mlp_bias),
                builder.linear(f"{path}.fc2_latent_proj", hidden, latent, "replicated", bias=mlp_bias),
            ]
        return Layer(NoAttention(), tuple(matrices), (*norms, experts.correction_bias(expert_count)))

    def build(index: int, path: str) -> Layer:
        path, kind = f"{path}.mixer", (pattern + drafts)[index]
        if kind == "M":
            return mamba(path)
        if kind == "*":
            pair = attention.projections(builder, path, hidden, heads, kv_heads, head_dim)
            return Layer(attention.cache(heads, kv_heads, head_dim), pair, norms)
        if kind == "E" and expert_count:
            return moe(path)
        if kind == "-":
            width = dense or inner_sizes[pattern[: index + 1].count("-") - 1]
            return Layer(NoAttention(), feed_forward.plain(builder, path, hidden, width, bias=mlp_bias), norms)
        raise UnknownModel(f"hybrid_override_pattern has the layer kind {kind!r}", "correct config.json")

    mtp = [build(len(pattern) + i, f"mtp.layers.{i}") for i in range(len(drafts))]
    if mtp:  # the first joins embedding and hidden state, the last has a norm of its own
        joined = builder.plain("eh_proj", hidden, 2 * hidden, "column")
        mtp[0] = mtp[0]._replace(
            matrices=(*mtp[0].matrices, joined), vectors=(*mtp[0].vectors, norm("mtp_norms", hidden, count=2))
        )
        mtp[-1] = mtp[-1]._replace(vectors=(*mtp[-1].vectors, norm("final_layernorm", hidden)))
    kinds = list(enumerate(pattern)) if len(inner_sizes) > 1 else list(pattern)
    return Parts(
        builder.stack(kinds, build),
        *builder.ends(),
        final_vectors=(norm("norm_f", hidden),),
        mtp_layers=tuple(mtp),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=dense or max(inner_sizes, default=0),
        experts=expert_count,
        experts_per_token=config.integer("num_experts_per_tok", default=1) if expert_count else 0,
        expert_intermediate=inner if expert_count else 0,
        extra=(("mamba_ssm_dtype", ssm_dtype),),
    )


def _layer_letters(config: ConfigReader) -> str:
    """One letter per layer: M Mamba-2, * attention, - feed-forward, E experts; newer files spell the kinds out."""
    kinds = config.strings("layers_block_type")
    if kinds and "hybrid_override_pattern" not in config:
        letters = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E"}
        return "".join(letters.get(kind, "?") for kind in kinds[: config.layers(default=min(len(kinds), 1000))])
    return config.text_pattern("hybrid_override_pattern", config.layers())


def _draft_letters(config: ConfigReader) -> str:
    """The same for the layers of multi-token prediction (Nemotron 3 Super and Ultra); empty where there are none."""
    if not config.count("num_nextn_predict_layers", default=0):
        return ""
    kinds = config.strings("mtp_layers_block_type", limit=64)
    if kinds and "mtp_hybrid_override_pattern" not in config:
        letters = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E"}
        return "".join(letters.get(kind, "?") for kind in kinds)
    return config.text("mtp_hybrid_override_pattern")[:64]


def _attention_heads(config: ConfigReader) -> ConfigReader:
    head_dim = config.raw("head_dim", "attention_head_dim")
    return ConfigReader({**config.data, "head_dim": head_dim}, config.where)


def granite_hybrid(builder: Builder) -> Parts:
    """Granite 4 (H): Mamba-2 layers and few attention layers, all with experts and a shared block."""
    config = builder.config
    count = config.layers()
    hidden, (heads, kv_heads, head_dim) = builder.hidden, builder.heads()
    kinds = config.layer_types(count, "layer_types", "layers_block_type")
    if not kinds:
        raise UnknownModel("config.json has no layer_types", "add layer_types to config.json")
    expert_count = config.count("num_local_experts", default=0)
    inner, shared = config.integer("intermediate_size"), config.count("shared_intermediate_size", default=0)
    bias = config.flag("attention_bias")

    def block(path: str) -> tuple[Matrix, ...]:
        matrices: list[Matrix] = []
        if expert_count:
            routed = experts.routed(builder, f"{path}.block_sparse_moe", hidden, inner, expert_count)
            matrices += [experts.router(expert_count, hidden), *routed]
        if shared:
            matrices += feed_forward.gated(
                builder, f"{path}.shared_mlp", hidden, shared, first="input_linear", out="output_linear"
            )
        return tuple(matrices)

    def build(index: int, path: str) -> Layer:
        norms = norm("norms", hidden, count=2)
        if kinds[index] in ("attention", "full_attention"):
            pair = attention.projections(
                builder, f"{path}.self_attn", hidden, heads, kv_heads, head_dim, qkv_bias=bias, out_bias=bias
            )
            return Layer(attention.cache(heads, kv_heads, head_dim), (*pair, *block(path)), (norms,))
        state, matrices, vectors = _named_mamba2(builder, f"{path}.mamba", hidden)
        return Layer(state, (*matrices, *block(path)), (norms, *vectors))

    rotary = config.text("position_embedding_type", default="nope") == "rope"
    return Parts(
        builder.stack(kinds, build),
        *builder.ends(True),
        final_vectors=(norm("norm", hidden),),
        tables=(rotary_table(config, head_dim),) if rotary else (),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=shared or inner,
        experts=expert_count,
        experts_per_token=config.integer("num_experts_per_tok", default=1) if expert_count else 0,
        expert_intermediate=inner if expert_count else 0,
    )


def _named_mamba2(builder: Builder, path: str, hidden: int, inner: int = 0, gated_norm: bool = True) -> Mixer:
    """A Mamba-2 mixer whose sizes are named ``mamba_*`` (Granite, Falcon-H1, Bamba)."""
    config = builder.config
    heads = config.integer("mamba_n_heads", default=128)
    inner = inner or int(config.number("mamba_expand", default=2.0) * hidden)
    head_dim = config.count("mamba_d_head", default=0) if isinstance(config.raw("mamba_d_head"), int) else 0
    return state_space.mamba2(
        builder,
        path,
        hidden,
        inner,
        heads,
        head_dim or max(inner // heads, 1),
        config.integer("mamba_d_state", default=128),
        config.integer("mamba_n_groups", default=1),
        config.integer("mamba_d_conv", default=4, high=1000),
        conv_bias=config.flag("mamba_conv_bias", default=True),
        bias=config.flag("mamba_proj_bias"),
        gated_norm=gated_norm,
        chunk=config.count("mamba_chunk_size", default=256),
    )


def bamba(builder: Builder) -> Parts:
    """Bamba: Mamba-2 layers with feed-forward blocks, attention in ``attn_layer_indices``."""
    config = builder.config
    count = config.layers()
    hidden, (heads, kv_heads, head_dim) = builder.hidden, builder.heads()
    indices = set(config.integers("attn_layer_indices"))
    inner, bias = config.integer("intermediate_size"), config.flag("attention_bias")
    kinds = ["attention" if i in indices else "mamba" for i in range(count)]

    def build(index: int, path: str) -> Layer:
        mlp = feed_forward.gated(builder, f"{path}.feed_forward", hidden, inner, bias=config.flag("mlp_bias"))
        norms = norm("norms", hidden, count=2)
        if kinds[index] == "attention":
            pair = attention.projections(
                builder, f"{path}.self_attn", hidden, heads, kv_heads, head_dim, qkv_bias=bias, out_bias=bias
            )
            return Layer(attention.cache(heads, kv_heads, head_dim), (*pair, *mlp), (norms,))
        state, matrices, vectors = _named_mamba2(builder, f"{path}.mamba", hidden)
        return Layer(state, (*matrices, *mlp), (norms, *vectors))

    return Parts(
        builder.stack(kinds, build),
        *builder.ends(),
        final_vectors=(norm("final_layernorm", hidden),),
        tables=(rotary_table(ConfigReader({"partial_rotary_factor": 0.5, **config.data}, config.where), head_dim),),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=inner,
    )


def falcon_h1(builder: Builder) -> Parts:
    """Falcon-H1: attention and Mamba-2 side by side in every layer, so each keeps a cache and a state."""
    config = builder.config
    count = config.layers()
    hidden, (heads, kv_heads, head_dim) = builder.hidden, builder.heads()
    inner = config.integer("intermediate_size")
    ssm = config.count("mamba_d_ssm", default=0)
    gated_norm = config.flag("mamba_rms_norm")
    bias = config.flag("mlp_bias")

    def build(index: int, path: str) -> Layer:
        pair = attention.projections(builder, f"{path}.self_attn", hidden, heads, kv_heads, head_dim)
        state, matrices, vectors = _named_mamba2(builder, f"{path}.mamba", hidden, ssm, gated_norm)
        mlp = feed_forward.gated(builder, f"{path}.feed_forward", hidden, inner, bias=bias)
        groups = config.integer("mamba_n_groups", default=1)
        width = (
            2 * ssm
            + 2 * groups * config.integer("mamba_d_state", default=256)
            + config.integer("mamba_n_heads", default=128)
        )
        vectors.append(Vector("mup_vector", width, "column", buffer=True))
        return Layer(
            attention.cache(heads, kv_heads, head_dim),
            (*pair, *matrices, *mlp),
            (norm("norms", hidden, count=2), *vectors),
            state,
        )

    return Parts(
        builder.stack((0,) * count, build),
        *builder.ends(),
        final_vectors=(norm("final_layernorm", hidden),),
        tables=(rotary_table(config, head_dim),),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=inner,
    )


def jamba(builder: Builder) -> Parts:
    """Jamba: Mamba-1 with an attention layer every ``attn_layer_period``, experts in every second layer; no positions."""
    config = builder.config
    count = config.layers()
    hidden, (heads, kv_heads, head_dim) = builder.hidden, builder.heads()
    inner, expert_count = config.integer("intermediate_size"), config.integer("num_experts", default=16)
    attention_period = config.integer("attn_layer_period", default=8)
    attention_offset = config.count("attn_layer_offset", default=4)
    expert_period, expert_offset = (
        config.integer("expert_layer_period", default=2),
        config.count("expert_layer_offset", default=1),
    )
    rank = config.raw("mamba_dt_rank")
    rank = rank if isinstance(rank, int) and 0 < rank < 10**6 else -(-hidden // 16)
    kinds = [
        (i % attention_period == attention_offset, expert_count > 1 and i % expert_period == expert_offset)
        for i in range(count)
    ]

    def build(index: int, path: str) -> Layer:
        attends, sparse = kinds[index]
        if sparse:
            routed = experts.routed(builder, f"{path}.feed_forward", hidden, inner, expert_count)
            block: tuple[Matrix, ...] = (experts.router(expert_count, hidden), *routed)
        else:
            block = feed_forward.gated(builder, f"{path}.feed_forward", hidden, inner)
        norms = norm("norms", hidden, count=2)
        if attends:
            pair = attention.projections(builder, f"{path}.self_attn", hidden, heads, kv_heads, head_dim)
            return Layer(attention.cache(heads, kv_heads, head_dim), (*pair, *block), (norms,))
        state, matrices, vectors = state_space.mamba1(
            builder,
            f"{path}.mamba",
            hidden,
            config.integer("mamba_expand", default=2) * hidden,
            config.integer("mamba_d_state", default=16),
            config.integer("mamba_d_conv", default=4, high=1000),
            rank,
            conv_bias=config.flag("mamba_conv_bias", default=True),
            bias=config.flag("mamba_proj_bias"),
        )
        return Layer(state, (*matrices, *block), (norms, *vectors))

    return Parts(
        builder.stack(kinds, build),
        *builder.ends(),
        final_vectors=(norm("final_layernorm", hidden),),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=inner,
        experts=expert_count,
        experts_per_token=config.integer("num_experts_per_tok", default=2),
        expert_intermediate=inner,
    )


def mamba(builder: Builder) -> Parts:
    """Mamba-1 (and Falcon-Mamba): no attention at all."""
    config = builder.config
    hidden = builder.hidden
    inner = config.integer("intermediate_size", default=2 * hidden)
    rank = config.raw("time_step_rank")
    rank = rank if isinstance(rank, int) and 0 < rank < 10**6 else -(-hidden // 16)
    falcon = builder.architecture.startswith("FalconMamba")

    def build(index: int, path: str) -> Layer:
        state, matrices, vectors = state_space.mamba1(
            builder,
            f"{path}.mixer",
            hidden,
            inner,
            config.integer("state_size", default=16),
            config.integer("conv_kernel", default=4, high=1000),
            rank,
            conv_bias=config.flag("use_conv_bias", default=True),
            bias=config.flag("use_bias"),
            norms=False,
        )
        return Layer(state, tuple(matrices), (norm("norm", hidden), *vectors))

    return Parts(
        builder.stack((0,) * config.layers("num_hidden_layers", "n_layer"), build),
        *builder.ends(not falcon),
        final_vectors=(norm("norm_f", hidden),),
        intermediate=inner,
    )


def mamba2(builder: Builder) -> Parts:
    """Mamba-2 alone (Codestral Mamba)."""
    config = builder.config
    hidden = builder.hidden
    inner = int(config.number("expand", default=2.0) * hidden)
    heads = config.integer("num_heads", default=128)

    def build(index: int, path: str) -> Layer:
        state, matrices, vectors = state_space.mamba2(
            builder,
            f"{path}.mixer",
            hidden,
            inner,
            heads,
            config.integer("head_dim", default=64),
            config.integer("state_size", default=128),
            config.integer("n_groups", default=8),
            config.integer("conv_kernel", default=4, high=1000),
            conv_bias=config.flag("use_conv_bias", default=True),
            bias=config.flag("use_bias"),
            chunk=config.count("chunk_size", default=256),
        )
        return Layer(state, tuple(matrices), (norm("norm", hidden), *vectors))

    return Parts(
        builder.stack((0,) * config.layers("num_hidden_layers", "n_layer"), build),
        *builder.ends(),
        final_vectors=(norm("norm_f", hidden),),
        intermediate=inner,
    )
