"""Entries of the YAML options of ``trtllm-serve`` (``--extra_llm_api_options``, ``--config``) that TensorRT-LLM refuses.

Source: ``llmapi/llm_args.py`` in six stored versions from 0.18 to the line of 1.3, ``mapping.py``, ``commands/serve.py``. The
tables hold the names of all of them together; a name outside of them that looks like one of them is refused up to 1.2 (1.3 adds
names from one candidate to the next): 0.18 builds a dataclass of the entries, from 0.20 on the model forbids others. Nested entries are
checked since 1.0 (``StrictBaseModel``), and here from 1.1 on, the first release that surely has it. Names that some releases have
and others not are told apart where that is certain.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from planner.record import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planner.engines.config import EngineConfig
    from planner.provenance import Position

Version = tuple[int, ...]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STRICT_INSIDE: Version = (1, 1)
#: The first series that may have names which no stored version has.
_NOT_READ: Version = (1, 3)
#: Entries at the top level that are whole numbers, switches, or mappings.
_INTEGERS = _names(
    "tensor_parallel_size pipeline_parallel_size context_parallel_size gpus_per_node moe_cluster_parallel_size"
    " moe_tensor_parallel_size moe_expert_parallel_size max_batch_size max_input_len max_seq_len max_beam_width max_num_tokens"
    " num_postprocess_workers iter_stats_max_iterations request_stats_max_iterations stream_interval"
    " garbage_collection_gen0_threshold perf_metrics_max_requests cuda_graph_max_batch_size moe_max_num_tokens"
)
_SWITCHES = _names(
    "skip_tokenizer_init trust_remote_code enable_attention_dp enable_lm_head_tp_in_adp enable_lora enable_chunked_prefill"
    " gather_generation_logits enable_iter_perf_stats enable_iter_req_stats print_iter_log enable_autotuner"
    " enable_layerwise_nvtx_marker enable_min_latency force_dynamic_quantization disable_overlap_scheduler use_cuda_graph"
    " cuda_graph_padding_enabled mixed_sampler enable_mixed_sampler enable_trtllm_sampler autotuner_enabled return_perf_metrics"
    " fast_build enable_tqdm normalize_log_probs fail_fast_on_attention_window_too_large"
)
_MAPPINGS = _names(
    "kv_cache_config cuda_graph_config moe_config torch_compile_config scheduler_config cache_transceiver_config"
    " peft_cache_config attention_dp_config speculative_config lora_config quant_config build_config calib_config cp_config"
    " sparse_attention_config kv_connector_config"
)
_OTHERS = _names(
    "model tokenizer tokenizer_mode custom_tokenizer post_processor_hook dtype revision tokenizer_revision model_kwargs"
    " pp_partition auto_parallel auto_parallel_world_size load_format max_lora_rank max_loras max_cpu_loras"
    " enable_prompt_adapter max_prompt_adapter_token guided_decoding_backend batched_logits_processor workspace"
    " embedding_parallel_mode enable_build_cache decoding_config batching_type extended_runtime_perf_knob_config backend"
    " mpi_session _mpi_session _num_postprocess_workers _postprocess_tokenizer_dir postprocess_tokenizer_dir reasoning_parser"
    " pytorch_backend_config cuda_graph_batch_sizes moe_load_balancer attn_backend moe_backend kv_cache_dtype use_kv_cache"
    " torch_compile_enabled torch_compile_fullgraph torch_compile_inductor_enabled torch_compile_piecewise_cuda_graph"
    " torch_compile_enable_userbuffers allreduce_strategy checkpoint_loader checkpoint_format connector_config sampler_type"
    " sampler_force_async_worker enable_speculative_beam_history_d2h enable_early_first_token_response"
    " enable_low_latency_host_dispatch batch_wait_timeout_ms batch_wait_timeout_iters batch_wait_max_tokens_ratio"
    " mm_encoder_only encode_only ray_worker_extension_cls ray_placement_config ray_worker_nsight_options enable_sleep"
    " sleep_config reorder_policy_config enable_resource_governor use_cute_dsl_blockscaling_mm use_cute_dsl_blockscaling_bmm"
    " use_cute_dsl_bf16_bmm use_cute_dsl_bf16_gemm disable_flashinfer_sampling max_stats_len layer_wise_benchmarks_config"
    " otlp_traces_endpoint orchestrator_type env_overrides prometheus_metrics_config enable_energy_metrics telemetry_config"
    " kv_cache_compression_config multimodal_config nvfp4_gemm_config dwdp_config encoder_max_batch_size"
    " encoder_max_num_tokens mx_config gms_config video_pruning_rate executor_cls extra_resource_managers"
    " placement_groups placement_bundle_indices per_worker_gpu_share use_torch_sampler enable_overlap_scheduler"
    # Taken out by the server before the model sees them.
    " disagg_cluster"
)
_KNOWN = _INTEGERS | _SWITCHES | _MAPPINGS | _OTHERS
#: Entries of nested mappings, of all releases from 1.0 on.
_INSIDE = {
    "kv_cache_config": _names(
        "enable_block_reuse max_tokens max_attention_window sink_token_length free_gpu_memory_fraction host_cache_size"
        " onboard_blocks cross_kv_cache_fraction secondary_offload_min_priority event_buffer_max_size"
        " attention_dp_events_gather_period_ms enable_partial_reuse copy_on_partial_reuse use_uvm max_gpu_total_bytes dtype"
        " mamba_ssm_cache_dtype tokens_per_block use_kv_cache_manager_v2 max_util_for_resume disk_cache_size disk_cache_path"
        " iteration_stats_interval mamba_ssm_stochastic_rounding mamba_ssm_philox_rounds mamba_state_cache_interval"
        " enable_swa_scratch_reuse kv_cache_event_hash_algo enable_kv_pool_rebalance disk_prefetch_num_reqs pool_ratio"
        " avg_seq_len block_reuse_policy"
    ),
    "cuda_graph_config": _names(
        "batch_sizes max_batch_size enable_padding mode num_tokens max_num_token seq_lens max_seq_len"
    ),
    "torch_compile_config": _names(
        "enable_fullgraph enable_inductor enable_piecewise_cuda_graph enable_userbuffers max_num_streams"
        " capture_num_tokens"
    ),
    "scheduler_config": _names(
        "capacity_scheduler_policy context_chunking_policy dynamic_batch_config waiting_queue_policy use_python_scheduler"
        " enable_prefix_aware_scheduling"
    ),
    "cache_transceiver_config": _names(
        "backend transceiver_runtime max_tokens_in_buffer kv_transfer_timeout_ms kv_transfer_sender_future_timeout_ms"
        " kv_transfer_poll_interval_ms kv_cache_bounce_size_mb"
    ),
}


class _Period(NamedTuple):
    """An entry that releases from ``since`` on and before ``until`` have, and what others say instead."""

    since: Version
    until: Version
    instead: str


_EVER: Version = (10**6,)
_PERIODS = {
    "pytorch_backend_config": _Period((), (1, 0), "its entries at the top level"),
    "use_cuda_graph": _Period((), (1, 0), "cuda_graph_config"),
    "cuda_graph_batch_sizes": _Period((), (1, 0), "cuda_graph_config.batch_sizes"),
    "cuda_graph_max_batch_size": _Period((), (1, 0), "cuda_graph_config.max_batch_size"),
    "cuda_graph_padding_enabled": _Period((), (1, 0), "cuda_graph_config.enable_padding"),
    "moe_backend": _Period((), (1, 0), "moe_config.backend"),
    "moe_max_num_tokens": _Period((), (1, 0), "moe_config.max_num_tokens"),
    "moe_load_balancer": _Period((), (1, 0), "moe_config.load_balancer"),
    "mixed_sampler": _Period((), (1, 0), "sampler_type"),
    "autotuner_enabled": _Period((), (1, 0), "enable_autotuner"),
    "kv_cache_dtype": _Period((), (1, 1), "kv_cache_config.dtype"),
    "max_lora_rank": _Period((), (1, 1), "lora_config.max_lora_rank"),
    "max_loras": _Period((), (1, 1), "lora_config.max_loras"),
    "max_cpu_loras": _Period((), (1, 1), "lora_config.max_cpu_loras"),
    "enable_mixed_sampler": _Period((), (1, 2), "sampler_type"),
    "enable_trtllm_sampler": _Period((), (1, 2), "sampler_type: TRTLLMSampler"),
    "cuda_graph_config": _Period((0, 21), _EVER, "use_cuda_graph and cuda_graph_batch_sizes"),
    "moe_config": _Period((0, 21), _EVER, "moe_backend"),
}
#: Names of other places and engines, and what they are called here.
_ELSEWHERE = {
    **{name: f"kv_cache_config.{name}" for name in _INSIDE["kv_cache_config"] - {"dtype"}},
    **dict.fromkeys(("kv_cache_free_gpu_memory_fraction", "gpu_memory_utilization"), "kv_cache_config.free_gpu_memory_fraction"),
    **dict.fromkeys(("tp_size", "tensor_parallel", "tp"), "tensor_parallel_size"),
    **dict.fromkeys(("pp_size", "pipeline_parallel", "pp"), "pipeline_parallel_size"),
    **dict.fromkeys(("ep_size", "expert_parallel_size", "ep"), "moe_expert_parallel_size"),
    "cp_size": "context_parallel_size", "max_model_len": "max_seq_len", "max_num_seqs": "max_batch_size",
    "max_num_batched_tokens": "max_num_tokens", "batch_sizes": "cuda_graph_config.batch_sizes",
    "enable_padding": "cuda_graph_config.enable_padding",
}  # fmt: skip
_DECODING = _names(
    "mtp medusa eagle eagle3 lookahead ngram drafttarget userprovided savehiddenstates savestate pard sa dflash auto"
)
_MOE_BACKENDS = _names("AUTO CUTLASS CUTEDSL WIDEEP TRTLLM DEEPGEMM DENSEGEMM VANILLA TRITON MARLIN MEGAMOE_DEEPGEMM")
_POLICIES = ("MAX_UTILIZATION", "GUARANTEED_NO_EVICT", "STATIC_BATCH")
_BOOLEANS = ("true", "false", "1", "0", "yes", "no", "on", "off", "t", "f", "y", "n")
#: Below this, names are not alike.
_ALIKE = 0.8


def option_problems(engine: EngineConfig) -> Iterator[tuple[Position | None, str, str]]:
    """(place, entry, reason) of every entry that is refused. AutoDeploy's own arguments are others, and not known."""
    options = {flag.name.removeprefix("options."): flag for flag in engine.given if flag.name.startswith("options.")}
    backend = engine.get("backend")
    if not options or backend not in (None, "pytorch", "tensorrt", "trt"):
        return
    values = {name: flag.value for name, flag in options.items()}
    for name, flag in options.items():
        outer, _, inner = name.partition(".")
        if inner:
            reason = _inside(engine, outer, inner, flag.value, values)
        else:
            reason = _top(engine, name, flag.value)
        if reason:
            yield flag.position, name, reason


def _top(engine: EngineConfig, name: str, value: Any) -> str:
    """Why an entry at the top level is refused."""
    if name not in _KNOWN:
        return _unknown(engine, name, _KNOWN)
    version, period = engine.version_key, _PERIODS.get(name)
    if period is not None and not engine.version_assumed and not period.since <= version < period.until:
        release = engine.version.value
        since = "it came later" if version < period.since else f"it is gone since {'.'.join(map(str, period.until))}"
        return f"TensorRT-LLM {release} does not take this option ({since}); there it is {period.instead}"
    if value is None:
        return ""
    if name in _INTEGERS and _whole(value) is None:
        return f"{_shown(value)} is no whole number"
    if name in _SWITCHES and not _is_switch(value):
        return f"{_shown(value)} is neither true nor false"
    if name in _MAPPINGS and not isinstance(value, dict) and name != "cp_config":
        return f"{_shown(value)} is no mapping of options"
    if name == "speculative_config" and isinstance(value, dict):
        return _decoding(engine, value)
    if name == "stream_interval" and (_whole(value) or 0) < 1:
        return f"{value} must be at least 1"
    if name == "backend" and value not in ("pytorch", "tensorrt", "trt"):
        return f"{_shown(value)} is no backend"
    return ""


def _inside(engine: EngineConfig, outer: str, inner: str, value: Any, values: Mapping[str, Any]) -> str:
    """Why an entry of a nested mapping is refused."""
    names = _INSIDE.get(outer)
    if engine.version_key < _STRICT_INSIDE:
        return ""
    if names is not None and inner not in names:
        return _unknown(engine, inner, names)
    if (outer, inner) == ("cuda_graph_config", "max_batch_size"):
        largest, stated = _largest(values.get("cuda_graph_config.batch_sizes")), _whole(value)
        if stated is not None and stated < 0:
            return f"{value} must be at least 0"
        if largest is not None and stated is not None and stated not in (0, largest):
            return f"{stated} is not the largest of batch_sizes, {largest}"
    if (
        (outer, inner) == ("moe_config", "backend")
        and isinstance(value, str)
        and value not in _MOE_BACKENDS
        and _read(engine)
    ):
        near = value.upper()
        return f"{_shown(value)} is no backend{f', perhaps {near} is meant' if near in _MOE_BACKENDS else ''}"
    if (outer, inner) == ("scheduler_config", "capacity_scheduler_policy") and value not in _POLICIES:
        return f"{_shown(value)} is none of {', '.join(_POLICIES)}"
    if (outer, inner) == ("kv_cache_config", "max_attention_window") and value is not None and _largest(value) is None:
        return f"{_shown(value)} is no list of window sizes"
    if outer == "kv_cache_config" and inner in (
        "max_tokens",
        "host_cache_size",
        "tokens_per_block",
        "max_gpu_total_bytes",
    ):
        return f"{_shown(value)} is no whole number" if value is not None and _whole(value) is None else ""
    if outer == "kv_cache_config" and inner == "enable_block_reuse":
        return f"{_shown(value)} is neither true nor false" if not _is_switch(value) else ""
    return ""


def _decoding(engine: EngineConfig, value: Mapping[str, Any]) -> str:
    """Speculation: a method that there is (all releases), and that the backend runs (1.1 on)."""
    method = value.get("decoding_type")
    if method is None:
        return "it needs a decoding_type"
    plain = str(method).lower().replace("_", "")
    if plain not in _DECODING and _read(engine):
        return f"decoding_type {_shown(method)} is none of MTP, Eagle, NGram, DraftTarget …"
    backend = engine.get("backend") or "pytorch"
    if plain in ("medusa", "lookahead") and backend == "pytorch" and engine.version_key >= (1, 1):
        return f"decoding_type {method} does not run on the backend pytorch"
    return ""


def _read(engine: EngineConfig) -> bool:
    """Whether the tables hold every name of the release."""
    return not engine.version_assumed and engine.version_key < _NOT_READ


def _unknown(engine: EngineConfig, name: str, names: frozenset[str]) -> str:
    """Why a name that no stored version has is refused: only where what is meant can be told, since a name may have lived
    between two of them."""
    from difflib import get_close_matches

    if not _read(engine):
        return ""
    if names is _KNOWN and name in _ELSEWHERE:
        meant = f"here it is {_ELSEWHERE[name]}"
    else:
        near = get_close_matches(name[:80], names, 1, _ALIKE)
        meant = f"perhaps {near[0]} is meant" if near else ""
    return f"TensorRT-LLM has no such option, and refuses what it does not know; {meant}" if meant else ""


def _whole(value: Any) -> int | None:
    """A whole number as pydantic reads it (true counts as 1, text of digits and 8.0 are taken), None for what is none."""
    if isinstance(value, str):
        text = value.strip().replace("_", "").removesuffix(".0")
        return int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return int(value) if isinstance(value, int) else None


def _largest(values: Any) -> int | None:
    """The largest of a list of whole numbers; None for anything else."""
    numbers = [_whole(value) for value in values] if isinstance(values, list) else []
    return None if not numbers or None in numbers else max(number for number in numbers if number is not None)


def _is_switch(value: Any) -> bool:
    """Whether pydantic takes a value for a switch."""
    return (
        isinstance(value, bool)
        or (isinstance(value, (int, float)) and value in (0, 1))
        or str(value).lower() in _BOOLEANS
    )


def _shown(value: Any) -> str:
    return repr(value)[:60]
