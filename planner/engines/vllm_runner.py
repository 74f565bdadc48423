"""Which engine and which model runner a vLLM release uses: they profile memory differently.

V0 engine (to 0.10.2), V1 engine with model runner V1 (0.8.0 on) or V2 (0.22 on, by model; 0.29 on for everything that it
supports). Sources: ``EngineArgs._is_v1_supported_oracle`` of 0.8 to 0.10, ``use_v2_model_runner`` in config/vllm.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.engines.config import EngineConfig, Parallelism
from planner.engines.vllm import env_flag
from planner.engines.vllm_speculative import Draft

if TYPE_CHECKING:
    from planner.models.architecture import ModelArchitecture

Version = tuple[int, ...]

#: Models that ran on the V2 runner by name, from the release on that first listed them.
_V2_ARCHITECTURES: tuple[tuple[Version, frozenset[str]], ...] = (
    ((0, 22, 0), frozenset(("Qwen3ForCausalLM",))),
    ((0, 23, 0), frozenset(("LlamaForCausalLM", "MistralForCausalLM", "Qwen3ForCausalLM"))),
    (
        (0, 24, 0),
        frozenset(
            (
                "DeepseekV2ForCausalLM",
                "GraniteMoeForCausalLM",
                "LlamaForCausalLM",
                "MistralForCausalLM",
                "Qwen2MoeForCausalLM",
                "Qwen3ForCausalLM",
            )
        ),
    ),
    ((0, 25, 0), frozenset(("DeepseekV2ForCausalLM", "GraniteMoeForCausalLM", "Qwen2MoeForCausalLM"))),
    (
        (0, 26, 0),
        frozenset(
            (
                "DeepseekV2ForCausalLM",
                "GraniteMoeForCausalLM",
                "InklingForCausalLM",
                "InklingForConditionalGeneration",
                "LongcatFlashNgramForCausalLM",
                "Qwen2MoeForCausalLM",
            )
        ),
    ),
)
#: Listed models that may be hybrid (0.27 and 0.28).
_V2_HYBRIDS: dict[str, Version] = {"KimiK3ForConditionalGeneration": (0, 27, 0), "DeepseekV4ForCausalLM": (0, 28, 0)}


def runner(
    config: EngineConfig,
    model: ModelArchitecture,
    capability: tuple[int, int] | None,
    parallel: Parallelism,
    draft: Draft,
) -> tuple[str, str]:
    """(``v0``, ``v1`` or ``v2``; why, where 0.8 to 0.10 fall back to V0)."""
    version = config.version_key
    wanted = env_flag(config, "VLLM_USE_V1")
    if version < (0, 8):
        return ("v1" if wanted else "v0"), ""
    if version < (0, 11):
        if wanted is not None:
            return ("v1" if wanted else "v0"), ""
        reason = _falls_back_to_v0(config, model, capability, draft)
        return ("v0" if reason else "v1"), reason
    return ("v2" if _second_runner(config, model, parallel, draft) else "v1"), ""


def _falls_back_to_v0(
    config: EngineConfig, model: ModelArchitecture, capability: tuple[int, int] | None, draft: Draft
) -> str:
    """Why 0.8 to 0.10 leave the V1 engine, empty where they do not."""
    version = config.version_key
    if config.platform == "cuda" and capability is not None and capability < (8, 0):
        return "compute capability below 8.0"
    cache = config.get("kv-cache-dtype")
    if isinstance(cache, str) and cache not in ("auto", "bfloat16"):
        flash3 = capability is not None and capability[0] == 9 and cache in ("fp8", "fp8_e4m3")
        newer = version >= (0, 10) and capability is not None and capability[0] >= 9
        if not (flash3 or newer):
            return f"--kv-cache-dtype {cache[:30]}"
    steps = config.get("num-scheduler-steps")
    if isinstance(steps, int) and steps > 1:
        return "--num-scheduler-steps"
    for name in ("preemption-mode", "scheduler-delay-factor", "enable-prompt-adapter", "logits-processor-pattern"):
        if config.get(name):
            return f"--{name}"
    if draft.method and draft.method not in ("ngram", "eagle", "eagle3", "medusa", "mtp"):
        return f"speculative method {draft.method[:30]}"
    if model.encoder_decoder:
        return "an encoder-decoder model"
    if model.pooling and version < (0, 9, 2):
        return "a pooling model"
    if model.is_recurrent and version < (0, 10):
        return "a model with recurrent layers"
    return ""


def _second_runner(config: EngineConfig, model: ModelArchitecture, parallel: Parallelism, draft: Draft) -> bool:
    """Whether the V2 model runner works (``use_v2_model_runner`` in config/vllm.py)."""
    version = config.version_key
    wanted = env_flag(config, "VLLM_USE_V2_MODEL_RUNNER")
    if wanted is not None and version >= (0, 12):
        return wanted
    if version < (0, 22):
        return False
    if version >= (0, 27, 0) and draft.method == "dspark":
        return True
    if (0, 28) <= version < (0, 29) and parallel.prefill_context > 1:
        return True
    if version < (0, 29) and not _second_runner_by_model(config, model):
        return False
    return not _second_runner_lacks(config, parallel, draft)


def _second_runner_by_model(config: EngineConfig, model: ModelArchitecture) -> bool:
    version = config.version_key
    if model.pooling or model.encoder_decoder:
        return False
    listed: frozenset[str] = frozenset()
    for since, names in _V2_ARCHITECTURES:
        if version >= since:
            listed = names
    if version < (0, 24):
        quantized = bool(model.quantization) or config.get("quantization") is not None
        return model.architecture in listed and not model.is_moe and not quantized
    if version < (0, 25):
        return model.architecture in listed
    since_hybrid = _V2_HYBRIDS.get(model.architecture)
    if since_hybrid and version >= since_hybrid:
        return not (config.platform == "rocm" and model.architecture == "DeepseekV4ForCausalLM")
    if model.is_recurrent:
        return False
    return model.architecture in listed or not model.is_moe


def _second_runner_lacks(config: EngineConfig, parallel: Parallelism, draft: Draft) -> bool:
    """Whether a feature is on that the V2 runner of this release does not have."""
    version, method = config.version_key, draft.method
    if config.get("enable-dbo") is True or config.get("kv-sharing-fast-prefill") is True:
        return True
    if config.get("distributed-executor-backend") == "external_launcher" and parallel.pipeline > 1:
        return True
    if version < (0, 30):
        known = {"eagle", "eagle3", "mtp"}
        if version >= (0, 24):
            known.add("dflash")
        if version >= (0, 26):
            known.add("dspark")
        if method and method not in known:
            return True
        if method == "eagle3" and parallel.pipeline > 1:
            return True
        if config.get("logits-processors"):
            return True
        if version < (0, 29) and config.get("enable-prompt-embeds") is True:
            return True
        return version < (0, 26) and parallel.prefill_context > 1
    return method in ("suffix", "custom_class")
