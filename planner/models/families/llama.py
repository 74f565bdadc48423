"""Llama and the many models that differ from it in biases, norms, windows or the shape of the feed-forward block."""

from __future__ import annotations

from collections.abc import Sequence

from planner.models.architecture import Layer, NoAttention, UnknownModel, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.layers import attention, feed_forward
from planner.models.rope import rotary_table


def windows(config: ConfigReader, layers: int, *, default: int = 0, off_by_default: bool = False) -> tuple[int, ...]:
    """The sliding window of each layer, 0 where it sees everything.

    A window counts for all layers unless ``layer_types`` names several kinds (vLLM: a model-level window is dropped for
    interleaved models). ``off_by_default``: the window is off unless ``use_sliding_window`` says otherwise (Qwen2).
    """
    stated = "sliding_window" in config.data
    window = config.count("sliding_window", default=0 if stated else default)
    if not config.flag("use_sliding_window", default=not off_by_default):
        window = 0
    kinds = config.layer_types(layers)
    if window and len(set(kinds)) > 1:
        return tuple(window if kind == "sliding_attention" else 0 for kind in kinds)
    return (window,) * layers


def decoder(
    builder: Builder,
    *,
    window_per_layer: Sequence[int] = (),
    qkv_bias: bool = False,
    out_bias: bool = False,
    mlp_bias: bool = False,
    gated: bool = True,
    norms: int = 2,
    norm_bias: bool = False,
    final_norm_bias: bool | None = None,
    head_norms: str = "",
    tied: bool = False,
    head_bias: bool = False,
    intermediate: int = 0,
    rope: bool = True,
    names: tuple[str, str, str, str] = ("q_proj", "o_proj", "gate_proj", "down_proj"),
    blocks: tuple[str, str] = ("self_attn", "mlp"),
    embedding_vectors: tuple[Vector, ...] = (),
) -> Parts:
    """A decoder whose layers are all attention and a feed-forward block.

    ``norms`` of the hidden size per layer; ``head_norms``: ``per_head`` (a weight per element of one head), ``full`` (of
    all query and all key elements) or none; ``names``: query, output, first feed-forward and down projection in the
    checkpoint; ``blocks``: the attention and the feed-forward module.
    """
    config = builder.config
    count = config.layers("num_hidden_layers", "n_layer", "num_layers", "n_layers")
    hidden, (heads, kv_heads, head_dim) = builder.hidden, builder.heads()
    inner = intermediate or config.integer("intermediate_size", "ffn_hidden_size", "n_inner")
    causal = config.flag("is_causal", default=True)
    per_layer = tuple(window_per_layer) or (0,) * count
    vectors = [norm("norms", hidden, bias=norm_bias, count=norms)] if norms else []
    if head_norms == "per_head":
        vectors += attention.head_norms(head_dim)
    elif head_norms == "full":
        vectors += [Vector("q_norm", heads * head_dim, "column"), Vector("k_norm", kv_heads * head_dim, "column_kv")]
    elif head_norms == "per_head_full":  # a weight for every head and element, split over heads (Cohere)
        vectors += [Vector("q_norm", heads * head_dim, "column"), Vector("k_norm", kv_heads * head_dim, "column")]

    def build(index: int, path: str) -> Layer:
        window = per_layer[index]
        qkv, out = attention.projections(
            builder,
            f"{path}.{blocks[0]}",
            hidden,
            heads,
            kv_heads,
            head_dim,
            qkv_bias=qkv_bias,
            out_bias=out_bias,
            first=names[0],
            out=names[1],
        )
        block = feed_forward.gated if gated else feed_forward.plain
        mlp = block(builder, f"{path}.{blocks[1]}", hidden, inner, bias=mlp_bias, first=names[2], out=names[3])
        # an embedding model that looks both ways (is_causal: false) keeps no cache
        cache = attention.cache(heads, kv_heads, head_dim, window=window) if causal else NoAttention()
        return Layer(cache, (qkv, out, *mlp), tuple(vectors))

    is_tied = builder.tied(tied)
    last_bias = norm_bias if final_norm_bias is None else final_norm_bias
    return Parts(
        layers=builder.stack(per_layer, build),
        embedding=builder.embedding(),
        head=None if is_tied else builder.head(bias=head_bias),
        tied=is_tied,
        final_vectors=(norm("norm", hidden, bias=last_bias),),
        tables=(rotary_table(config, head_dim),) if rope else (),
        embedding_vectors=embedding_vectors,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=inner,
        vocab=builder.vocab,
        hidden=hidden,
    )


def llama(builder: Builder) -> Parts:
    """Llama 1 to 3, and models that load as Llama (InternLM3, Yi, SmolLM, Seed-OSS, IQuest-Coder …)."""
    config = builder.config
    count = config.layers()
    bias = config.flag("attention_bias") or config.flag("bias")
    out_bias = config.flag("attention_out_bias", default=bias)
    qkv_bias = config.flag("qkv_bias", default=bias)
    return decoder(
        builder,
        window_per_layer=windows(config, count),
        qkv_bias=qkv_bias,
        out_bias=out_bias,
        mlp_bias=config.flag("mlp_bias"),
    )


def mistral(builder: Builder) -> Parts:
    """Mistral: Llama with a window of 4096 unless the config says null."""
    return decoder(builder, window_per_layer=windows(builder.config, builder.config.layers(), default=4096))


def ministral(builder: Builder) -> Parts:
    """Ministral 3 and the Mistral models whose config class has no default window."""
    return decoder(builder, window_per_layer=windows(builder.config, builder.config.layers()))


def qwen2(builder: Builder) -> Parts:
    """Qwen2 and Qwen2.5: biases on queries, keys and values; the window is off unless asked for."""
    config = builder.config
    count = config.layers()
    return decoder(
        builder,
        window_per_layer=windows(config, count, off_by_default=True),
        qkv_bias=config.flag("qkv_bias", default=True),
    )


def qwen3(builder: Builder) -> Parts:
    """Qwen3: no biases, norms of query and key heads of size 128 unless stated."""
    config = builder.config
    bias = config.flag("attention_bias")
    return decoder(
        _with_head_dim(builder, 128),
        window_per_layer=windows(config, config.layers(), off_by_default=True),
        qkv_bias=bias,
        head_norms="per_head",
    )


def _with_head_dim(builder: Builder, size: int) -> Builder:
    """The same config with ``head_dim`` filled in where the config class has a default that is not hidden / heads."""
    if "head_dim" in builder.config:
        return builder
    filled = ConfigReader({**builder.config.data, "head_dim": size}, builder.config.where)
    return Builder(builder.root, filled, builder.quantization, builder.architecture)


def phi3(builder: Builder) -> Parts:
    """Phi-3, Phi-3.5 and Phi-4: fused projections in the checkpoint, a window in the mini models."""
    config = builder.config
    return decoder(
        builder,
        window_per_layer=windows(config, config.layers()),
        names=("qkv_proj", "o_proj", "gate_up_proj", "down_proj"),
    )


def granite(builder: Builder) -> Parts:
    """Granite dense models, the SWA variant with window layers."""
    config = builder.config
    bias = config.flag("attention_bias")
    per_layer = windows(config, config.layers())
    return decoder(
        builder, window_per_layer=per_layer, qkv_bias=bias, out_bias=bias, mlp_bias=config.flag("mlp_bias"), tied=True
    )


def internlm2(builder: Builder) -> Parts:
    """InternLM2: fused wqkv, w1 and w3, no biases."""
    names, blocks = ("wqkv", "wo", "w1", "w2"), ("attention", "feed_forward")
    return decoder(builder, names=names, blocks=blocks, out_bias=builder.config.flag("bias"))


def baichuan(builder: Builder) -> Parts:
    """Baichuan 1 and 2: a packed W_pack; the 13B models have ALiBi instead of rotary positions."""
    rope = builder.hidden != 5120
    return decoder(builder, names=("W_pack", "o_proj", "gate_proj", "down_proj"), rope=rope)


def qwen1(builder: Builder) -> Parts:
    """Qwen 1: biased c_attn; ``intermediate_size`` counts gate and up together."""
    inner = builder.config.integer("intermediate_size") // 2
    if not inner:
        raise UnknownModel("config.json: intermediate_size is 1", "correct config.json")
    names, blocks = ("c_attn", "c_proj", "w1", "c_proj"), ("attn", "mlp")
    return decoder(builder, qkv_bias=True, intermediate=inner, names=names, blocks=blocks)


def chatglm(builder: Builder) -> Parts:
    """ChatGLM2, ChatGLM3 and GLM-4-9B in their own format: multi-query groups, half of the head rotated."""
    config = builder.config
    data = dict(config.data)
    heads = config.integer("num_attention_heads")
    grouped = config.flag("multi_query_attention")
    data["num_key_value_heads"] = config.integer("multi_query_group_num", default=heads) if grouped else heads
    data["head_dim"] = config.integer("kv_channels", default=max(builder.hidden // heads, 1))
    data["partial_rotary_factor"] = 0.5
    data["max_position_embeddings"] = config.integer("seq_length", default=8192)
    inner = Builder(builder.root, ConfigReader(data, config.where), builder.quantization, builder.architecture)
    bias = config.flag("add_bias_linear")
    return decoder(
        inner,
        qkv_bias=bias or config.flag("add_qkv_bias"),
        out_bias=bias,
        mlp_bias=bias,
        names=("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"),
        blocks=("self_attention", "mlp"),
        final_norm_bias=False,
    )


def glm(builder: Builder) -> Parts:
    """GLM-4-9B in Transformers' format: Llama with biased queries, keys and values, half of each head rotated."""
    config = builder.config
    data = {"partial_rotary_factor": 0.5, **config.data}
    inner = Builder(builder.root, ConfigReader(data, config.where), builder.quantization, builder.architecture)
    return decoder(
        inner, qkv_bias=config.flag("attention_bias"), names=("q_proj", "o_proj", "gate_up_proj", "down_proj")
    )


def glm4(builder: Builder) -> Parts:
    """GLM-4-0414: as GLM, with norms after attention and feed-forward too."""
    config = builder.config
    data = {"partial_rotary_factor": 0.5, **config.data}
    inner = Builder(builder.root, ConfigReader(data, config.where), builder.quantization, builder.architecture)
    names = ("q_proj", "o_proj", "gate_up_proj", "down_proj")
    return decoder(inner, qkv_bias=config.flag("attention_bias"), norms=4, names=names)


def exaone(builder: Builder) -> Parts:
    """EXAONE 3: Llama under other names."""
    config = builder.config
    bias = config.flag("attention_bias") or config.flag("bias")
    return decoder(
        builder,
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=config.flag("mlp_bias"),
        names=("q_proj", "out_proj", "c_fc_0", "c_proj"),
        blocks=("attn.attention", "mlp"),
    )


def exaone4(builder: Builder) -> Parts:
    """EXAONE 4: three window layers to one full layer in the large model, norms after the blocks, norms of heads."""
    config = builder.config
    count = config.layers()
    window, pattern = config.count("sliding_window", default=0), config.raw("sliding_window_pattern")
    kinds = config.layer_types(count)
    if kinds or not window:
        per_layer = windows(config, count)
    elif isinstance(pattern, str) and 0 < len(pattern) <= 100:
        per_layer = tuple(
            window if pattern[i % len(pattern)].upper() == "L" and i + 1 < count else 0 for i in range(count)
        )
    else:
        raise UnknownModel("config.json has a sliding_window and neither layer_types nor a pattern", "add layer_types")
    bias = config.flag("attention_bias") or config.flag("bias")
    return decoder(builder, window_per_layer=per_layer, qkv_bias=bias, out_bias=bias, head_norms="per_head")


def cohere(builder: Builder) -> Parts:
    """Command R, Aya and Command A: one norm per layer for the parallel blocks, tied embeddings."""
    config = builder.config
    count = config.layers()
    per_layer: tuple[int, ...] = (0,) * count
    if builder.architecture == "Cohere2ForCausalLM":
        window = config.integer("sliding_window", default=4096)
        pattern = config.integer("sliding_window_pattern", default=4)
        kinds = config.layer_types(count)
        full = [k != "sliding_attention" for k in kinds] or [(i + 1) % pattern == 0 for i in range(count)]
        per_layer = tuple(0 if is_full else window + 1 for is_full in full)
    norms = "per_head_full" if config.flag("use_qk_norm") else ""
    return decoder(builder, window_per_layer=per_layer, norms=1, head_norms=norms, tied=True)


def olmo(builder: Builder) -> Parts:
    """OLMo 1: norms without weights."""
    bias = builder.config.flag("attention_bias")
    parts = decoder(builder, qkv_bias=bias, out_bias=bias, norms=0)
    return parts._replace(final_vectors=())


def olmo2(builder: Builder) -> Parts:
    """OLMo 2 and 3: norms after the blocks and over all queries and all keys; OLMo 3 has window layers."""
    config = builder.config
    return decoder(builder, window_per_layer=windows(config, config.layers()), head_norms="full")


def stablelm(builder: Builder) -> Parts:
    """StableLM 2: LayerNorm with biases, a quarter of each head rotated."""
    config = builder.config
    data = {"partial_rotary_factor": 0.25, **config.data}
    inner = Builder(builder.root, ConfigReader(data, config.where), builder.quantization, builder.architecture)
    return decoder(inner, qkv_bias=config.flag("use_qkv_bias"), norm_bias=True)


def nemotron(builder: Builder) -> Parts:
    """Nemotron-4 and Minitron: squared ReLU without a gate, LayerNorm with biases."""
    config = builder.config
    bias = config.flag("attention_bias") or config.flag("bias")
    data = {"partial_rotary_factor": 0.5, **config.data}
    inner = Builder(builder.root, ConfigReader(data, config.where), builder.quantization, builder.architecture)
    return decoder(
        inner,
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=config.flag("mlp_bias"),
        gated=False,
        norm_bias=True,
        names=("q_proj", "o_proj", "up_proj", "down_proj"),
    )


def arcee(builder: Builder) -> Parts:
    """AFM: Llama with a squared ReLU and no gate."""
    return decoder(builder, gated=False, names=("q_proj", "o_proj", "up_proj", "down_proj"))


def apertus(builder: Builder) -> Parts:
    """Apertus: xIELU without a gate, norms of heads."""
    names = ("q_proj", "o_proj", "up_proj", "down_proj")
    return decoder(builder, gated=False, head_norms="per_head", names=names)


def hunyuan(builder: Builder) -> Parts:
    """Hunyuan dense models: Llama with norms of query and key heads."""
    config = builder.config
    bias = config.flag("attention_bias") or config.flag("bias")
    norms = "per_head" if config.flag("use_qk_norm") else ""
    return decoder(builder, qkv_bias=bias, out_bias=bias, head_norms=norms, tied=True)


def ernie(builder: Builder) -> Parts:
    """ERNIE 4.5 dense models."""
    config = builder.config
    bias = config.flag("use_bias")
    return decoder(builder, qkv_bias=bias, out_bias=bias, mlp_bias=bias, tied=True)


def minicpm(builder: Builder) -> Parts:
    """MiniCPM 1, 2 and 4: Llama with scaled residuals and tied embeddings."""
    if builder.config.count("num_experts", default=0):
        raise UnknownModel("MiniCPM with experts is not understood", "state the weight bytes with planner/given")
    return decoder(builder, tied=True)


def smollm3(builder: Builder) -> Parts:
    """SmolLM3: Llama, some layers without rotary positions, tied embeddings."""
    return decoder(
        builder, window_per_layer=windows(builder.config, builder.config.layers(), off_by_default=True), tied=True
    )


def mimo(builder: Builder) -> Parts:
    """MiMo-7B: Qwen2 with a multi-token-prediction layer that serving does not load by itself."""
    return decoder(builder, qkv_bias=builder.config.flag("attention_bias", default=True))


def seed_oss(builder: Builder) -> Parts:
    """Seed-OSS: biased queries, keys and values, head size 128."""
    config = builder.config
    return decoder(
        builder,
        qkv_bias=config.flag("attention_bias", default=True),
        out_bias=config.flag("attention_out_bias"),
        mlp_bias=config.flag("mlp_bias"),
    )
