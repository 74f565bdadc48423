"""Attention kinds straight from a ``config.json``, for tests that must not depend on how whole models are read.

Independent of ``planner.models``: the golden test compares the two where both know a model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from planner.models.architecture import (
    Attention,
    ChunkedLocal,
    FullAttention,
    LatentAttention,
    Layer,
    ModelArchitecture,
    NoAttention,
    RecurrentState,
    SlidingWindow,
    StateShape,
)


class ParallelLayer(NamedTuple):
    """A layer that runs attention and a recurrent state side by side (Falcon-H1)."""

    attention: Attention
    matrices: tuple[Any, ...] = ()
    vectors: tuple[Any, ...] = ()
    state: RecurrentState | None = None


def of_config(config: dict[str, Any], name: str = "") -> ModelArchitecture:
    """The architecture with its layers' attention and nothing else."""
    text = config.get("text_config") or config
    architecture = (config.get("architectures") or [""])[0]
    layers = _layers(text, architecture)
    heads = text.get("num_attention_heads", 0)
    hint = _cache_hint(config)
    return ModelArchitecture(
        id=name,
        architecture=architecture,
        model_type=config.get("model_type", ""),
        dtype=str(text.get("torch_dtype") or text.get("dtype") or config.get("torch_dtype") or config.get("dtype")),
        hidden_size=text.get("hidden_size", 0),
        vocab_size=text.get("vocab_size", 0),
        layers=tuple(layers),
        embedding=None,
        head=None,
        tied_embeddings=False,
        formats={},
        heads=heads,
        kv_cache_dtype_hint=hint,
        multimodal="vision_config" in config,
    )


def _cache_hint(config: dict[str, Any]) -> str | None:
    quant = config.get("quantization_config") or (config.get("text_config") or {}).get("quantization_config") or {}
    exported = (config.get("_hf_quant_config") or {}).get("quantization") or {}
    algorithm = str(quant.get("kv_cache_quant_algo") or exported.get("kv_cache_quant_algo") or "")
    scheme = quant.get("kv_cache_scheme")
    if algorithm == "FP8" or (isinstance(scheme, dict) and scheme.get("num_bits") == 8):
        return "fp8"
    return None


def _layers(text: dict[str, Any], architecture: str) -> list[Any]:
    count = text.get("num_hidden_layers", 0)
    if architecture.startswith("FalconH1"):
        full = _full(text)
        state = _mamba2(text, text["mamba_d_ssm"], text["mamba_n_heads"], text["mamba_d_head"], text["mamba_d_state"])
        return [ParallelLayer(full, state=state)] * count
    if text.get("compress_ratios"):
        made = {ratio: _deepseek_v4(text, ratio) for ratio in set(text["compress_ratios"])}
        return [Layer(made[ratio], ()) for ratio in text["compress_ratios"][:count]]
    kinds = _kinds(text, architecture, count)
    made_layers = {kind: Layer(kind, ()) for kind in set(kinds)}
    return [made_layers[kind] for kind in kinds]


def _kinds(text: dict[str, Any], architecture: str, count: int) -> list[Attention]:
    if architecture.startswith("KimiK3"):
        linear = text["linear_attn_config"]
        full = set(linear["full_attn_layers"])
        return [_latent(text, 0) if i + 1 in full else _kda(linear) for i in range(count)]
    if text.get("kv_lora_rank"):
        indexer = text.get("index_head_dim") or 0
        kinds = text.get("indexer_types")
        own = [kinds is None or kinds[i] == "full" for i in range(count)]
        return [_latent(text, indexer if own[i] else 0) for i in range(count)]
    if architecture.startswith("NemotronH"):
        heads, dim = text["mamba_num_heads"], text["mamba_head_dim"]
        state = _mamba2(text, heads * dim, heads, dim, text["ssm_state_size"], "float32")
        table: dict[str, Attention] = {"M": state, "*": _full(text)}
        return [table.get(kind, NoAttention()) for kind in text["hybrid_override_pattern"]]
    if architecture.startswith("GraniteMoeHybrid"):
        heads, dim = text["mamba_n_heads"], text["mamba_d_head"]
        state = _mamba2(text, heads * dim, heads, dim, text["mamba_d_state"])
        return [state if kind == "mamba" else _full(text) for kind in text["layer_types"]]
    if architecture.startswith("Jamba"):
        period, offset = text["attn_layer_period"], text["attn_layer_offset"]
        inner = text["mamba_expand"] * text["hidden_size"]
        mamba = RecurrentState(
            "mamba1",
            (
                StateShape((text["mamba_d_conv"] - 1, inner), 1, "conv"),
                StateShape((inner, text["mamba_d_state"]), 0, "ssm"),
            ),
        )
        return [_full(text) if i % period == offset else mamba for i in range(count)]
    if architecture.startswith(("Qwen3Next", "Qwen3_5")):
        every = text.get("full_attention_interval", 4)
        types = text.get("layer_types") or ["full_attention" if (i + 1) % every == 0 else "" for i in range(count)]
        state = _gated_delta(text, "float32" if text.get("mamba_ssm_dtype") == "float32" else "model")
        return [_full(text) if kind == "full_attention" else state for kind in types]
    return _windowed_kinds(text, architecture, count)


def _windowed_kinds(text: dict[str, Any], architecture: str, count: int) -> list[Attention]:
    heads = text["num_attention_heads"]
    kv = text.get("num_key_value_heads") or heads
    dim = text.get("head_dim") or text["hidden_size"] // heads
    value = text.get("v_head_dim") or dim
    full = FullAttention(heads, kv, dim, value)
    window = text.get("sliding_window") or text.get("sliding_window_size") or 0
    if architecture.startswith("MiMoV2"):
        swa = SlidingWindow(
            text["swa_num_attention_heads"],
            text["swa_num_key_value_heads"],
            text["swa_head_dim"],
            text["swa_v_head_dim"],
            window,
        )
        return [swa if kind == 1 else full for kind in text["hybrid_layer_pattern"]]
    if architecture.startswith("Llama4"):
        chunk = text["attention_chunk_size"]
        local = ChunkedLocal(heads, kv, dim, value, chunk)
        rope = text.get("no_rope_layers") or [int((i + 1) % 4 != 0) for i in range(count)]
        return [local if kind else full for kind in rope]
    if architecture.startswith("Gemma4"):
        wide = text.get("global_head_dim") or dim
        full = FullAttention(heads, text.get("num_global_key_value_heads") or kv, wide, wide)
        swa = SlidingWindow(heads, kv, dim, value, window)
        return [swa if kind == "sliding_attention" else full for kind in text["layer_types"]]
    if architecture.startswith("Gemma3n"):
        own = count - text["num_kv_shared_layers"]
        swa = SlidingWindow(heads, kv, dim, value, window)
        return [
            (swa if kind == "sliding_attention" else full)
            if i < own
            else (swa if kind == "sliding_attention" else full)._replace(kv_donor=own - 1)
            for i, kind in enumerate(text["layer_types"])
        ]
    types = text.get("layer_types")
    if architecture.startswith("Gemma2"):
        types = types or ["full_attention" if i % 2 else "sliding_attention" for i in range(count)]
    elif architecture.startswith("Gemma3"):
        pattern = text.get("sliding_window_pattern", 6)
        types = types or ["full_attention" if (i + 1) % pattern == 0 else "sliding_attention" for i in range(count)]
    elif architecture.startswith("GptOss"):
        types = types or ["full_attention" if i % 2 else "sliding_attention" for i in range(count)]
    elif window and architecture.startswith(("Mistral", "Phi3")):
        types = ["sliding_attention"] * count
    if not types or not window:
        return [full] * count
    swa = SlidingWindow(heads, kv, dim, value, window)
    return [swa if kind == "sliding_attention" else full for kind in types]


def _full(text: dict[str, Any]) -> FullAttention:
    heads = text["num_attention_heads"]
    dim = text.get("head_dim") or text.get("attention_head_dim") or text["hidden_size"] // heads
    return FullAttention(heads, text.get("num_key_value_heads") or heads, dim, dim)


def _latent(text: dict[str, Any], indexer: int) -> LatentAttention:
    return LatentAttention(
        text["num_attention_heads"],
        text["kv_lora_rank"],
        text["qk_rope_head_dim"],
        text["qk_nope_head_dim"],
        text["v_head_dim"],
        text.get("q_lora_rank") or 0,
        indexer,
    )


def _deepseek_v4(text: dict[str, Any], ratio: int) -> LatentAttention:
    rope = text["qk_rope_head_dim"]
    return LatentAttention(
        text["num_attention_heads"],
        text["head_dim"] - rope,
        rope,
        text["head_dim"] - rope,
        text["head_dim"],
        text["q_lora_rank"],
        text["index_head_dim"] if ratio == 4 else 0,
        text["sliding_window"],
        ratio,
    )


def _mamba2(text: dict[str, Any], inner: int, heads: int, dim: int, state: int, ssm: str = "model") -> RecurrentState:
    groups = text.get("mamba_n_groups") or text.get("n_groups") or 1
    kernel = text.get("mamba_d_conv") or text.get("conv_kernel") or 4
    conv = StateShape((kernel - 1, inner + 2 * groups * state), 1, "conv", lookahead_dim=0)
    ssm_shape = StateShape((heads, dim, state), 0, "ssm", ssm)
    return RecurrentState("mamba2", (conv, ssm_shape), 256, groups, state)


def _gated_delta(text: dict[str, Any], ssm: str) -> RecurrentState:
    key, value = text["linear_key_head_dim"], text["linear_value_head_dim"]
    keys, values = text["linear_num_key_heads"], text["linear_num_value_heads"]
    conv = StateShape((text["linear_conv_kernel_dim"] - 1, 2 * key * keys + value * values), 1, "conv", lookahead_dim=0)
    return RecurrentState("gdn", (conv, StateShape((values, value, key), 0, "ssm", ssm)))


def _kda(linear: dict[str, Any]) -> RecurrentState:
    heads, dim = linear["num_heads"], linear["head_dim"]
    conv = StateShape((linear["short_conv_kernel_size"] - 1, 3 * heads * dim), 1, "conv", lookahead_dim=0)
    return RecurrentState("kda", (conv, StateShape((heads, dim, dim), 0, "ssm", "float32")))
