"""``EngineConfig`` → ``EffectiveConfig`` for TGI. Source: launcher and ``flash_causal_lm.py`` of 3.3.7; reference on
SGLang's memory, 15."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from planner.engines.config import EffectiveConfig, EngineConfig, Parallelism
from planner.engines.resolver import given
from planner.engines.vllm import env_text
from planner.provenance import Fact, Provenance, assumed, from_default

if TYPE_CHECKING:
    from planner.accelerators.accelerator import Accelerator
    from planner.models.architecture import ModelArchitecture

T = TypeVar("T")

#: The server's own margin on the device's total (TGI_WIGGLE_ROOM).
WIGGLE_ROOM = 0.9
_MOST_RANKS = 1 << 12
_MOST_TOKENS = 1 << 40
#: Tokens of a prefill batch that computing power favours, by words in the device's name.
_COMPUTE_OPTIMAL = (
    ("rtx-4090", 1 << 12),
    ("t4", 1 << 11),
    ("l40s", 1 << 12),
    ("l40", 1 << 12),
    ("l4", 1 << 11),
    ("a10g", 1 << 11),
    ("a40", 1 << 12),
    ("a100", 1 << 12),
    ("h100", 1 << 13),
    ("h200", 1 << 13),
)


def effective(
    config: EngineConfig,
    model: ModelArchitecture,
    accelerator: Accelerator | None,
    gpus_per_pod: int | None = None,
    pods: int = 1,
) -> EffectiveConfig:
    """The settings of a TGI start that decide memory. Never raises for whatever the flags hold."""
    name = f"TGI {config.version.value} default"
    dtype = _dtype(config, model, name)
    cache = given(config, "kv-cache-dtype", str) or from_default(dtype.value, f"{name}: the model's dtype")
    total = _count(config, "max-total-tokens")
    derived = model.derived_max_len if model.derived_max_len > 0 else 4096
    length = total or from_default(derived, f"{name}: the model's max_position_embeddings, or what the pool holds")
    prefill = _count(config, "max-batch-prefill-tokens") or _prefill(model, accelerator, length.value, name)
    fraction = given(config, "cuda-memory-fraction", (float, int))
    share = float(fraction.value) if fraction is not None and 0 < fraction.value <= 1 else 1.0
    wiggle = _wiggle(config)
    text = f"cuda-memory-fraction {share:g} × TGI_WIGGLE_ROOM {wiggle:g}"
    utilization = Fact(share * wiggle, Provenance("derived", text, fraction.position if fraction else None))
    batch = _count(config, "max-batch-size") or from_default(256, f"{name}: no limit but the tokens of the batch")
    graphs = _graphs(config)
    yes, no = from_default(True, name), from_default(False, name)
    return EffectiveConfig(
        engine="tgi",
        version=config.version_key,
        parallel=parallelism(config, gpus_per_pod, pods),
        dtype=dtype,
        kv_cache_dtype=cache,
        max_model_len=length,
        max_num_seqs=batch,
        max_num_batched_tokens=prefill,
        gpu_memory_utilization=utilization,
        block_size=_block_size(config, name),
        enforce_eager=from_default(not graphs, name),
        chunked_prefill=yes,
        prefix_caching=yes,
        hybrid_kv_cache_manager=no,
        async_scheduling=no,
        capture_sizes=graphs,
        cudagraph_mode="full" if graphs else "none",
        quantization=_quantization(config, model),
        runner="tgi",
        derived_max_model_len=derived,
        speculative_tokens=(_count(config, "speculate") or Fact(0, utilization.provenance)).value,
    )


def parallelism(config: EngineConfig, gpus_per_pod: int | None = None, pods: int = 1) -> Parallelism:
    """``--num-shard``, or all GPUs that the container sees unless ``--sharded false``."""
    del pods
    shards = config.get("num-shard")
    if isinstance(shards, int) and not isinstance(shards, bool):
        return Parallelism(tensor=min(max(shards, 1), _MOST_RANKS))
    if config.get("sharded") is False:
        return Parallelism()
    return Parallelism(tensor=min(max(gpus_per_pod or 1, 1), _MOST_RANKS))


def _count(config: EngineConfig, name: str) -> Fact[int] | None:
    fact = given(config, name, int)
    return fact if fact is not None and 0 < fact.value <= _MOST_TOKENS else None


def _dtype(config: EngineConfig, model: ModelArchitecture, name: str) -> Fact[str]:
    stated = given(config, "dtype", str)
    if stated is not None and stated.value in ("float16", "bfloat16"):
        return stated
    own = model.dtype if model.dtype in ("float16", "bfloat16") else "float16"
    return from_default(own, f"{name}: the checkpoint's own, else float16")


def _quantization(config: EngineConfig, model: ModelArchitecture) -> str | None:
    stated = config.get("quantize")
    if not isinstance(stated, str):
        return model.quantization
    return "bitsandbytes" if stated.startswith("bitsandbytes") and stated != "bitsandbytes" else stated


def _wiggle(config: EngineConfig) -> float:
    text = env_text(config, "TGI_WIGGLE_ROOM") or ""
    try:
        value = float(text)
    except ValueError:
        return WIGGLE_ROOM
    return value if 0 < value <= 1 else WIGGLE_ROOM


def _prefill(model: ModelArchitecture, accelerator: Accelerator | None, length: int, name: str) -> Fact[int]:
    """Tokens of the warm-up prefill where nobody states them."""
    kind = model.model_type
    if kind in ("qwen2_vl", "qwen2_5_vl"):
        return from_default(10_000, f"{name}: Qwen2-VL")
    if kind == "gemma3":
        return from_default(8_000, f"{name}: Gemma-3")
    device = accelerator.name.lower() if accelerator else ""
    for word, tokens in _COMPUTE_OPTIMAL:
        if device.startswith(word):
            return from_default(
                min(tokens, length),
                f"{name}: what computing power favours on {accelerator.name if accelerator else ''}",
            )
    text = f"{name}: 4096, or fewer where memory or the model's length asks for it"
    value = min(4096, length)
    return from_default(value, text) if accelerator else assumed(value, text)


def _graphs(config: EngineConfig) -> tuple[int, ...]:
    """``--cuda-graphs 1,2,4`` (0: none)."""
    text = config.get("cuda-graphs")
    if not isinstance(text, str):
        return (1, 2, 4, 8, 16, 32)
    sizes = [int(part) for part in text[:200].split(",") if part.strip().isdigit() and len(part) < 7]
    return tuple(sorted({size for size in sizes if size > 0}))


def _block_size(config: EngineConfig, name: str) -> Fact[int]:
    attention = (env_text(config, "ATTENTION") or "flashinfer").lower()
    size = {"flashinfer": 1, "flashdecoding": 256, "paged": 16}.get(attention, 1)
    return from_default(size, f"{name}: attention {attention[:20]}")
