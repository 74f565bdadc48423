"""Golden rows (one answer of a real engine per row) as engine settings."""

from __future__ import annotations

from typing import Any

from planner.engines.config import EffectiveConfig, Parallelism
from planner.models.architecture import ModelArchitecture
from planner.provenance import Fact, Position, from_default, from_file

CAPABILITY = {
    "H100": (9, 0),
    "H200": (9, 0),
    "B200": (10, 0),
    "A100": (8, 0),
    "L40S": (8, 9),
    "RTXPRO6000": (12, 0),
}


def fact(value: Any) -> Fact[Any]:
    """A value that the engine would set by default."""
    return from_default(value, "test")


def given(value: Any) -> Fact[Any]:
    """A value that a manifest states."""
    return from_file(value, Position("test.yaml", 1, 1))


def engine_config(
    *,
    version: tuple[int, ...] = (0, 32, 0),
    parallel: Parallelism | None = None,
    dtype: str = "bfloat16",
    kv_cache_dtype: str | None = None,
    max_model_len: int = 8192,
    max_num_batched_tokens: int = 8192,
    block_size: int | None = None,
    hybrid_kv_cache_manager: bool = True,
    async_scheduling: bool = True,
    prefix_caching: bool = True,
    override: int | None = None,
    **more: Any,
) -> EffectiveConfig:
    """Settings of one engine start with what a test does not care about filled in."""
    return EffectiveConfig(
        engine="vllm",
        version=version,
        parallel=parallel or Parallelism(),
        dtype=fact(dtype),
        kv_cache_dtype=fact(kv_cache_dtype or dtype),
        max_model_len=fact(max_model_len),
        max_num_seqs=fact(256),
        max_num_batched_tokens=fact(max_num_batched_tokens),
        gpu_memory_utilization=fact(0.9),
        block_size=None if block_size is None else given(block_size),
        enforce_eager=fact(False),
        chunked_prefill=fact(True),
        prefix_caching=fact(prefix_caching),
        hybrid_kv_cache_manager=fact(hybrid_kv_cache_manager),
        async_scheduling=fact(async_scheduling),
        num_gpu_blocks_override=None if override is None else given(override),
        **more,
    )


def config_of_row(row: dict[str, Any], model: ModelArchitecture) -> EffectiveConfig:
    """The settings behind one golden row, with the cache dtype resolved as the engine resolves it."""
    flags = row["flags"]
    dtype = flags.get("dtype") or row.get("dtype") or model.dtype
    version = tuple(int(part) for part in row["engine_version"].split("."))
    block = row["block_size_given"] or flags.get("block_size")
    on_cpu = row["platform"] == "cpu"
    if block is None and on_cpu:
        block = 128
    return engine_config(
        version=version,
        parallel=Parallelism(tensor=row["tp"], pipeline=row["pp"], data=row["dp"], context=row["dcp"]),
        dtype=str(dtype).removeprefix("torch."),
        kv_cache_dtype=cache_dtype_of_row(row, model),
        max_model_len=row.get("max_model_len") or row["max_model_len_given"] or 4096,
        max_num_batched_tokens=row.get("max_num_batched_tokens") or 8192,
        block_size=block,
        hybrid_kv_cache_manager=not flags.get("disable_hybrid_kv_cache_manager", False),
        async_scheduling=bool(row.get("async_scheduling", not on_cpu)),
        prefix_caching=bool(row.get("prefix_caching", flags.get("enable_prefix_caching", True))),
        override=flags.get("num_gpu_blocks_override"),
        max_num_batched_tokens_in_flight=row.get("max_in_flight_tokens") or 0,
        mamba_cache_mode=row.get("mamba_cache_mode") or ("align" if version >= (0, 26) else "none"),
        mamba_ssm_cache_dtype="float32" if on_cpu else flags.get("mamba_ssm_cache_dtype", "auto"),
        runner="v2",
    )


def cache_dtype_of_row(row: dict[str, Any], model: ModelArchitecture) -> str | None:
    """The cache dtype after the checkpoint's and the model's own defaults; None: the model's dtype."""
    asked = row["flags"].get("kv_cache_dtype", row["kv_cache_dtype"])
    if asked != "auto":
        return str(asked)
    if model.kv_cache_dtype_hint:
        return model.kv_cache_dtype_hint
    if model.architecture == "GlmMoeDsaForCausalLM" and row["gpu"] == "B200":
        return "fp8_e4m3"
    return None
