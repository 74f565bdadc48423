"""Engine name → the modules that read its command line, settle its defaults and work out its memory.

The only place that knows which engines are evaluated; modules are imported when an engine is met, so that a run that sees
one engine pays for one. Every engine's modules have the same functions:

* ``parse(words, *, version, image, env, files, platform, command_line) -> EngineConfig`` and
  ``parse_argv(flags, *, version, model, env, platform) -> EngineConfig``;
* ``effective(config, model, accelerator, gpus_per_pod, pods) -> EffectiveConfig`` and
  ``parallelism(config, gpus_per_pod, pods) -> Parallelism``;
* ``budget(model, config, accelerator, *, gpus_per_pod, kv_cache_memory, given) -> MemoryBudget``.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from planner.record import NamedTuple

if TYPE_CHECKING:
    from planner.engines.config import EffectiveConfig, EngineConfig, Parallelism
    from planner.memory.budget import MemoryBudget


class EngineModules(NamedTuple):
    """Where an engine's functions are: ``module:function`` of each, the newest release known, and the flags that size memory
    with the fact that is not known where their value is not."""

    name: str
    label: str
    newest: str
    parser: str
    defaults: str
    budget_function: str
    size_flags: tuple[tuple[str, str], ...]

    def parse(self, *args: Any, **options: Any) -> EngineConfig:
        """The configuration of a command line."""
        return _load(f"{self.parser}:parse")(*args, **options)  # type: ignore[no-any-return]

    def parse_argv(self, *args: Any, **options: Any) -> EngineConfig:
        """The configuration of flags given on planner's own command line."""
        return _load(f"{self.parser}:parse_argv")(*args, **options)  # type: ignore[no-any-return]

    def effective(self, *args: Any, **options: Any) -> EffectiveConfig:
        """The settings after defaults."""
        return _load(f"{self.defaults}:effective")(*args, **options)  # type: ignore[no-any-return]

    def parallelism(self, *args: Any, **options: Any) -> Parallelism:
        """Parallel sizes from the flags alone."""
        return _load(f"{self.defaults}:parallelism")(*args, **options)  # type: ignore[no-any-return]

    def budget(self, *args: Any, **options: Any) -> MemoryBudget:
        """The memory of every rank."""
        return _load(self.budget_function)(*args, **options)  # type: ignore[no-any-return]


_VLLM_SIZES = (
    ("tensor-parallel-size", "parallel"),
    ("pipeline-parallel-size", "parallel"),
    ("data-parallel-size", "parallel"),
    ("max-model-len", "engine.max_model_len"),
    ("max-num-seqs", "engine.max_num_seqs"),
    ("max-num-batched-tokens", "engine.max_num_batched_tokens"),
    ("gpu-memory-utilization", "engine.gpu_memory_utilization"),
    ("kv-cache-dtype", "engine.kv_cache_dtype"),
    ("quantization", "model.quantization"),
    ("dtype", "engine.dtype"),
)
_SGLANG_SIZES = (
    ("tensor-parallel-size", "parallel"),
    ("pipeline-parallel-size", "parallel"),
    ("data-parallel-size", "parallel"),
    ("attn-dp-size", "parallel"),
    ("expert-parallel-size", "parallel"),
    ("context-length", "engine.max_model_len"),
    ("max-running-requests", "engine.max_num_seqs"),
    ("chunked-prefill-size", "engine.max_num_batched_tokens"),
    ("mem-fraction-static", "engine.gpu_memory_utilization"),
    ("max-total-tokens", "engine.max_total_tokens"),
    ("kv-cache-dtype", "engine.kv_cache_dtype"),
    ("quantization", "model.quantization"),
    ("dtype", "engine.dtype"),
)
_TGI_SIZES = (
    ("num-shard", "parallel"),
    ("max-total-tokens", "engine.max_model_len"),
    ("max-batch-prefill-tokens", "engine.max_num_batched_tokens"),
    ("cuda-memory-fraction", "engine.gpu_memory_utilization"),
    ("kv-cache-dtype", "engine.kv_cache_dtype"),
    ("quantize", "model.quantization"),
    ("dtype", "engine.dtype"),
)
_TRTLLM_SIZES = (
    ("tp-size", "parallel"),
    ("pp-size", "parallel"),
    ("max-seq-len", "engine.max_model_len"),
    ("max-batch-size", "engine.max_num_seqs"),
    ("max-num-tokens", "engine.max_num_batched_tokens"),
    ("kv-cache-free-gpu-memory-fraction", "engine.gpu_memory_utilization"),
    ("kv-cache-dtype", "engine.kv_cache_dtype"),
)

_ENGINES = {
    "vllm": EngineModules(
        "vllm",
        "vLLM",
        "planner.engines.version:NEWEST_VLLM",
        "planner.engines.vllm",
        "planner.engines.vllm_defaults",
        "planner.memory.vllm_budget:vllm_budget",
        _VLLM_SIZES,
    ),
    "sglang": EngineModules(
        "sglang",
        "SGLang",
        "planner.engines.sglang:NEWEST_SGLANG",
        "planner.engines.sglang",
        "planner.engines.sglang_defaults",
        "planner.memory.sglang_budget:sglang_budget",
        _SGLANG_SIZES,
    ),
    "tgi": EngineModules(
        "tgi",
        "TGI",
        "planner.engines.tgi:NEWEST_TGI",
        "planner.engines.tgi",
        "planner.engines.tgi_defaults",
        "planner.memory.tgi_budget:tgi_budget",
        _TGI_SIZES,
    ),
    "trtllm": EngineModules(
        "trtllm",
        "TensorRT-LLM",
        "planner.engines.trtllm:NEWEST_TRTLLM",
        "planner.engines.trtllm",
        "planner.engines.trtllm_defaults",
        "planner.memory.trtllm_budget:trtllm_budget",
        _TRTLLM_SIZES,
    ),
}
#: Names of starts that take another engine's arguments and defaults.
_SAME_AS = {"dynamo-vllm": "vllm", "dynamo-sglang": "sglang"}


def engine_modules(name: str) -> EngineModules | None:
    """The modules of an engine; None for one whose memory is not evaluated."""
    return _ENGINES.get(_SAME_AS.get(name, name))


def release_problem(name: str, release: str) -> str:
    """Why an engine and a release that somebody stated say nothing, empty where they do: what is not understood would be
    ignored, and the check would be of something else."""
    from planner.engines.version import is_version

    if name not in _ENGINES:
        return f"{name[:40]!r} is no engine that has releases here: name one of {', '.join(_ENGINES)}"
    if not is_version(release):
        return f"{release[:40]!r} is no release: write a version, such as {name}={newest_release(_ENGINES[name])}"
    return ""


def newest_release(modules: EngineModules) -> str:
    """The newest release whose facts are built in."""
    value: str = _load(modules.newest)  # type: ignore[assignment]
    return value


def _load(place: str) -> Callable[..., Any]:
    module, _, attribute = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), attribute)
    return found
