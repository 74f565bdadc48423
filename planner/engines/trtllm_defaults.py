"""``EngineConfig`` → ``TRTConfig`` for TensorRT-LLM's PyTorch backend. Source: reference on SGLang's memory, 16."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.engines.config import EngineConfig, Parallelism
from planner.engines.resolver import given_count, parallel_size
from planner.engines.trtllm_config import TRTConfig
from planner.engines.vllm import flag_provenance
from planner.provenance import Fact, Provenance, from_default

if TYPE_CHECKING:
    from planner.accelerators.accelerator import Accelerator
    from planner.models.architecture import ModelArchitecture

#: Release from which trtllm-serve runs the PyTorch backend unless it is told otherwise.
_PYTORCH_DEFAULT = (1, 0)
#: Speculative decoding that loads nothing beside the model.
_DRAFTS_WITHOUT_WEIGHTS = ("ngram", "lookahead", "auto")
_MOST_RANKS = 1 << 14


def effective(
    config: EngineConfig,
    model: ModelArchitecture,
    accelerator: Accelerator | None,
    gpus_per_pod: int | None = None,
    pods: int = 1,
) -> TRTConfig:
    """The settings of a ``trtllm-serve`` start that decide memory. Never raises for whatever the flags hold.

    ``gpu_memory_utilization`` is the fraction of the memory that is free after loading and the dummy run.
    """
    del accelerator
    name = "TensorRT-LLM default"
    dtype = model.dtype if model.dtype in ("float16", "bfloat16") else "bfloat16"
    stated = config.get("kv-cache-dtype")
    cache: Fact[str]
    if isinstance(stated, str) and stated not in ("auto", ""):
        cache = Fact("fp8_e4m3" if stated == "fp8" else stated, flag_provenance(config.flags["kv-cache-dtype"]))
    elif model.kv_cache_dtype_hint == "fp8":
        cache = from_default("fp8_e4m3", f"{name}: the checkpoint asks for it")
    else:
        cache = from_default(dtype, f"{name}: the model's dtype")
    derived = model.derived_max_len if model.derived_max_len > 0 else 2048
    fraction = config.flags.get("kv-cache-free-gpu-memory-fraction")
    share: Fact[float] = from_default(0.9, name)
    if fraction is not None and fraction.known and isinstance(fraction.value, (int, float)) and 0 < fraction.value <= 1:
        share = Fact(float(fraction.value), flag_provenance(fraction))
    yes, no = from_default(True, name), from_default(False, name)
    size, limit = given_count(config, "kv-cache-max-bytes"), given_count(config, "kv-cache-max-tokens")
    length = given_count(config, "max-seq-len") or from_default(
        derived, f"{name}: the model's length, or what the cache holds"
    )
    sequences = given_count(config, "max-batch-size") or from_default(2048, name)
    tokens = given_count(config, "max-num-tokens") or from_default(8192, name)
    block = given_count(config, "tokens-per-block") or from_default(32, name)
    own = (
        ("max_seq_len", length),
        ("max_batch_size", sequences),
        ("max_num_tokens", tokens),
        ("free_gpu_memory_fraction", share),
        ("tokens_per_block", block),
    )
    return TRTConfig(
        engine="trtllm",
        version=config.version_key,
        parallel=parallelism(config, gpus_per_pod, pods),
        dtype=from_default(dtype, f"{name}: the checkpoint's own"),
        kv_cache_dtype=cache,
        max_model_len=length,
        # A cache that is smaller lowers the length, unless the flag asks for a failure.
        max_model_len_auto=config.get("fail-fast-on-attention-window-too-large") is not True,
        max_num_seqs=sequences,
        max_num_batched_tokens=tokens,
        gpu_memory_utilization=share,
        block_size=block,
        enforce_eager=no,
        chunked_prefill=Fact(config.get("enable-chunked-prefill") is True, Provenance("engine-default", name)),
        prefix_caching=Fact(config.get("enable-block-reuse") is not False, Provenance("engine-default", name)),
        hybrid_kv_cache_manager=no,
        async_scheduling=yes,
        capture_sizes=(1, 2, 4, 8, 16, 32, 64, 128),
        cudagraph_mode="full",
        kv_cache_memory_bytes=size,
        quantization=model.quantization,
        runner="trtllm",
        derived_max_model_len=derived,
        unevaluated=_unevaluated(config, model),
        own=own,
        attention_data=config.get("enable-attention-dp") is True,
        expert_ranks=parallel_size(config, "ep-size", _MOST_RANKS),
        max_tokens=limit.value if limit else None,
    )


def parallelism(config: EngineConfig, gpus_per_pod: int | None = None, pods: int = 1) -> Parallelism:
    """Parallel sizes from flags and options; a size that cannot be known counts as 1."""
    del gpus_per_pod, pods
    return Parallelism(
        tensor=parallel_size(config, "tp-size", _MOST_RANKS),
        pipeline=parallel_size(config, "pp-size", _MOST_RANKS),
        expert=parallel_size(config, "ep-size", _MOST_RANKS) > 1,
        context=1,
        prefill_context=parallel_size(config, "cp-size", _MOST_RANKS),
    )


def _unevaluated(config: EngineConfig, model: ModelArchitecture) -> str:
    """Why the memory of this start cannot be worked out; empty where it can."""
    backend = config.get("backend")
    known = not config.version_assumed
    if isinstance(backend, str) and backend not in ("", "pytorch"):
        return f"the backend {backend[:40]} sizes its cache in its own way, which is not worked out"
    if backend is None and known and config.version_key < _PYTORCH_DEFAULT:
        return f"before 1.0 the default backend runs a built engine, whose memory is not worked out ({config.version.value})"
    algorithm = config.get("quant-algo")
    if isinstance(algorithm, str) and not model.quantization:
        return f"the options quantize the model while loading (quant_algo {algorithm[:40]}), which is not worked out"
    drafts = config.get("speculative-decoding")
    if isinstance(drafts, str) and drafts.lower() not in _DRAFTS_WITHOUT_WEIGHTS:
        return f"the draft of speculative decoding ({drafts[:40]}) is not worked out"
    return ""
