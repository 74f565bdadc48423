"""``EngineConfig`` → ``TGIConfig``. Source: launcher, ``flash_causal_lm.py`` and ``globals.py`` of 1.4.5, 2.0.4, 2.2.0, 2.3.1,
2.4.1, 3.0.0 to 3.3.7; reference on SGLang's memory, 15."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from planner.engines.config import EngineConfig, Parallelism
from planner.engines.resolver import given, given_count
from planner.engines.tgi_config import TGIConfig
from planner.engines.vllm import env_text, flag_provenance
from planner.provenance import Fact, Provenance, assumed, from_default
from planner.record import NamedTuple
from planner.units import MIB, ceil_div, round_up

if TYPE_CHECKING:
    from planner.accelerators.accelerator import Accelerator
    from planner.models.architecture import ModelArchitecture

T = TypeVar("T")

#: TGI_WIGGLE_ROOM by the first release that has it as its default, and the first release that takes it of the total.
_WIGGLE_ROOM: tuple[tuple[tuple[int, ...], float], ...] = (
    ((3, 3), 0.9),
    ((3, 1), 0.93),
    ((3,), 0.95),
    ((2, 4), 0.9),
    ((), 0.95),
)
_MARGIN_OF_TOTAL = (3,)
#: The first release whose launcher chooses the attention and reads ATTENTION.
_ATTENTION_SINCE = (2, 3)
#: The first release that splits prompts of models that take images.
_SPLIT_IMAGES_SINCE = (3, 3)
#: Widths of a head that FlashInfer takes.
_FLASHINFER_HEADS = (64, 128, 256)
_MOST_RANKS = 1 << 12
#: What the launcher's own margin is where it estimates the tokens of a prefill batch.
_LAUNCHER_ROOM = 0.95
#: 10¹² floating-point operations per second at 16 bits that the launcher takes for a card, by the catalog's names.
_TERAFLOPS = (
    ("rtx-4090", 82),
    ("t4", 65),
    ("l40s", 363),
    ("l40", 181),
    ("l4", 121),
    ("a10g", 125),
    ("a40", 149),
    ("a100", 312),
    ("h100", 900),
    ("h200", 989),
)
#: Models whose config names its experts as the launcher reads them (``num_local_experts``).
_COUNTED_EXPERTS = ("mixtral", "phimoe", "gpt_oss")
#: Fewer tokens than this per second and operation are taken for a mistake.
_LEAST_OPTIMAL = 100
_MOST_WARMUP_REQUESTS = 1 << 12


def effective(
    config: EngineConfig,
    model: ModelArchitecture,
    accelerator: Accelerator | None,
    gpus_per_pod: int | None = None,
    pods: int = 1,
) -> TGIConfig:
    """The settings of a TGI start that decide memory. Never raises for whatever the flags hold."""
    name = f"TGI {config.version.value} default"
    dtype = _dtype(config, model, name)
    cache = given(config, "kv-cache-dtype", str) or from_default(dtype.value, f"{name}: the model's dtype")
    version = config.version_key
    derived = model.derived_max_len if model.derived_max_len > 0 else 4096
    total = given_count(config, "max-total-tokens") or _old_total(version, derived, name)
    length = total or from_default(derived, f"{name}: the model's max_position_embeddings, or what the pool holds")
    longest = given_count(config, "max-input-tokens") or _old_input(version, derived, name)
    parallel = parallelism(config, gpus_per_pod, pods)
    prefill = given_count(config, "max-batch-prefill-tokens") or _old_prefill(version, longest, derived, name)
    fraction = given(config, "cuda-memory-fraction", (float, int))
    share = float(fraction.value) if fraction is not None and 0 < fraction.value <= 1 else 1.0
    wiggle = _wiggle(config)
    of_free = version < _MARGIN_OF_TOTAL
    text = f"cuda-memory-fraction {share:g}" + ("" if of_free else f" × TGI_WIGGLE_ROOM {wiggle:g}")
    place = fraction.position if fraction else None
    utilization = Fact(share if of_free else share * wiggle, Provenance("derived", text, place))
    prefill = prefill or _prefill(model, accelerator, parallel.tensor, share, name)
    attention = _attention(config, model, accelerator, name)
    block, chunking = _block_size(attention), _chunking(config, model, attention, name)
    speculative = (given_count(config, "speculate") or from_default(0, name)).value
    warmup = _warmup(config, prefill.value, longest, total, block.value, speculative)
    if total is None and not chunking.value:
        # A prompt that is not split must be one that the warm-up has seen.
        total = length = from_default(warmup.prompts, f"{name}: the prompts of the warm-up, as none is split")
    batch = given_count(config, "max-batch-size") or from_default(256, f"{name}: no limit but the tokens of the batch")
    graphs = _graphs(config)
    no = from_default(False, name)
    own = (
        ("max_total_tokens", length),
        ("max_batch_prefill_tokens", prefill),
        ("max_batch_size", batch),
        ("memory_share", utilization),
        ("block_size", block),
        ("cuda_graphs", Fact(list(graphs), _source(config, "cuda-graphs", name))),
    )
    return TGIConfig(
        engine="tgi",
        version=config.version_key,
        parallel=parallel,
        dtype=dtype,
        kv_cache_dtype=cache,
        max_model_len=length,
        max_num_seqs=batch,
        max_num_batched_tokens=prefill,
        gpu_memory_utilization=utilization,
        block_size=block,
        enforce_eager=from_default(not graphs, name),
        chunked_prefill=chunking,
        prefix_caching=_prefix_caching(config, model, attention, name),
        hybrid_kv_cache_manager=no,
        async_scheduling=no,
        capture_sizes=graphs,
        cudagraph_mode="full" if graphs else "none",
        quantization=_quantization(config, model),
        runner="tgi",
        derived_max_model_len=derived,
        max_model_len_auto=total is None,
        own=own,
        memory_fraction=share,
        warmup_requests=warmup.requests,
        warmup_tokens=warmup.tokens,
        margin_of_free=wiggle if of_free else 1.0,
        # Up to 2.4 the warm-up asks for the probabilities of its whole prompts.
        prefill_logprobs=version < (3,) or config.get("enable-prefill-logprobs") is True,
        speculative_tokens=speculative,
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


def _dtype(config: EngineConfig, model: ModelArchitecture, name: str) -> Fact[str]:
    stated = given(config, "dtype", str)
    if stated is not None and stated.value in ("float16", "bfloat16"):
        return stated
    own = model.dtype if model.dtype in ("float16", "bfloat16") else "float16"
    return from_default(own, f"{name}: the checkpoint's own, else float16")


def _quantization(config: EngineConfig, model: ModelArchitecture) -> str | None:
    """The format of the checkpoint, or the online method under the name that the weight model knows."""
    stated = config.get("quantize")
    if not isinstance(stated, str):
        return model.quantization
    if stated in ("bitsandbytes", "eetq"):
        return "experts_int8"  # all linear layers at 8 bits
    return "bitsandbytes" if stated.startswith("bitsandbytes") else stated


def _wiggle(config: EngineConfig) -> float:
    """The server's margin: of the free memory up to 2.4, of the device's total after (TGI_WIGGLE_ROOM, from 2.3)."""
    version = config.version_key
    default = next(room for since, room in _WIGGLE_ROOM if version >= since)
    text = (env_text(config, "TGI_WIGGLE_ROOM") or "") if version >= (2, 3) else ""
    try:
        value = float(text)
    except ValueError:
        return default
    return value if 0 < value <= 1 else default


def _old_total(version: tuple[int, ...], derived: int, name: str) -> Fact[int] | None:
    """``--max-total-tokens`` of releases that do not take it from the pool."""
    if version >= (2, 4):
        return None
    return from_default(2048 if version < (2,) else min(4096, derived), name)


def _old_input(version: tuple[int, ...], derived: int, name: str) -> Fact[int] | None:
    if version >= (2, 4):
        return None
    return from_default(1024 if version < (2,) else max(1, min(4096, derived) - 1), name)


def _old_prefill(version: tuple[int, ...], longest: Fact[int] | None, derived: int, name: str) -> Fact[int] | None:
    """``--max-batch-prefill-tokens`` of releases that do not look at the cards."""
    if version >= (3,):
        return None
    if version >= (2, 4) or longest is None:
        return from_default(min(4096, derived), f"{name}: 4096, or the model's length")
    return from_default(4096 if version < (2,) else longest.value + 50, f"{name}: max-input-tokens + 50")


def _prefill(
    model: ModelArchitecture, accelerator: Accelerator | None, ranks: int, share: float, name: str
) -> Fact[int]:
    """Tokens of the warm-up prefill where nobody states them: what keeps the cards busy, else 4096; no more than the
    model's length, nor than the launcher's own estimate of what fits. Source: ``main`` of the launcher."""
    tokens, why = {"qwen2_vl": 10_000, "qwen2_5_vl": 10_000, "gemma3": 8_000}.get(model.model_type, 4096), "4096"
    if tokens != 4096:
        why = f"for {model.model_type}"
    optimal = _compute_optimal(model, accelerator, ranks)
    if optimal is not None and accelerator is not None:
        tokens, why = optimal, f"what computing power favours on {ranks} × {accelerator.name}"
    if 0 < model.derived_max_len < tokens:
        tokens, why = model.derived_max_len, "the model's max_position_embeddings"
    room = _launcher_tokens(model, accelerator, ranks, share)
    if room is not None and room < tokens:
        tokens, why = max(1, room), "the launcher's estimate of what fits"
    text = f"{name}: {why}"
    return from_default(tokens, text) if accelerator else assumed(tokens, f"{text}; the accelerator is not known")


def _compute_optimal(model: ModelArchitecture, accelerator: Accelerator | None, ranks: int) -> int | None:
    """Tokens that a second of 16-bit arithmetic of all cards processes, as the launcher counts operations."""
    device = accelerator.name.lower() if accelerator else ""
    power = next((tera for word, tera in _TERAFLOPS if device.startswith(word)), None)
    if device.startswith("h100") and "pcie" in device:
        power = None  # not among the names that the launcher knows
    if power is None or model.multimodal or not model.heads or not model.head_dim:
        return None
    inner = (model.intermediate_size or model.moe_intermediate_size) * max(1, model.experts_per_token)
    projections = 2 * model.head_dim * model.hidden_size * (3 * model.heads + 2 * model.kv_heads)
    operations = (projections + 6 * model.hidden_size * inner) * model.num_layers
    found = power * 10**12 * ranks // operations if operations else 0
    return found if found > _LEAST_OPTIMAL else None


def _launcher_tokens(model: ModelArchitecture, accelerator: Accelerator | None, ranks: int, share: float) -> int | None:
    """Tokens that fit beside a 16-bit model by the launcher's estimate; None where it makes none."""
    if accelerator is None or model.quantization or model.multimodal or not model.heads:
        return None
    experts = max(1, model.num_experts) if model.model_type in _COUNTED_EXPERTS else 1
    inner = model.intermediate_size or model.moe_intermediate_size
    attention = (model.heads + 2 * model.kv_heads) * model.head_dim
    layer = 3 * inner * experts * model.hidden_size + attention + model.heads * model.head_dim * model.hidden_size
    weights = 2 * (layer * model.num_layers + 2 * model.hidden_size * model.vocab_size)
    device = accelerator.smi_mib[0] * MIB if accelerator.smi_mib else accelerator.memory.expected
    available = int(device * ranks * share * _LAUNCHER_ROOM)
    each = 4 * model.kv_heads * model.head_dim * model.num_layers + 6 * (inner + inner // 2) * experts
    return (available - weights) // each if available > weights and each else None


class _Warmup(NamedTuple):
    """The warm-up batch: its requests, the tokens of their prompts, and the tokens of cache that its blocks hold."""

    requests: int
    prompts: int
    tokens: int


def _warmup(
    config: EngineConfig,
    prefill: int,
    longest: Fact[int] | None,
    total: Fact[int] | None,
    block: int,
    speculative: int,
) -> _Warmup:
    """Prompts of at most max-input-tokens that fill the prefill batch, each with room for its answer where max-total-tokens
    is given, in whole blocks. Source: ``warmup`` of the router's client, ``FlashCausalLMBatch.from_tokenized``."""
    most = given_count(config, "max-batch-size")
    size = max(1, min(longest.value, prefill) if longest else prefill)
    requests = min(ceil_div(prefill, size), most.value if most else _MOST_WARMUP_REQUESTS, _MOST_WARMUP_REQUESTS)
    prompts = min(prefill, requests * size)
    if total is not None:
        return _Warmup(requests, prompts, requests * round_up(max(total.value, size) - 1 + speculative, block))
    last = prompts - (requests - 1) * size
    tokens = (requests - 1) * round_up(size + speculative, block) + round_up(last + speculative, block)
    return _Warmup(requests, prompts, tokens)


def _graphs(config: EngineConfig) -> tuple[int, ...]:
    """``--cuda-graphs 1,2,4`` (0: none)."""
    text = config.get("cuda-graphs")
    if not isinstance(text, str):
        return (1, 2, 4, 8, 16, 32)
    sizes = [int(part) for part in text[:200].split(",") if part.strip().isdecimal() and len(part) < 7]
    return tuple(sorted({size for size in sizes if size > 0}))


def _attention(config: EngineConfig, model: ModelArchitecture, accelerator: Accelerator | None, name: str) -> Fact[str]:
    """The attention kernels. FLASH_DECODING is read by 2.1.1 to 2.2 alone (2.2 sets it for Gemma 2 itself), ATTENTION from
    2.3 on, where it wins over what the launcher chooses by the model. Source: ``globals.py`` and, from 2.3,
    ``resolve_attention``."""
    version = config.version_key
    if version < _ATTENTION_SINCE:
        if version >= (2, 2) and model.model_type == "gemma2":
            return from_default("flashdecoding", f"{name} for gemma2")
        switch = config.env.get("FLASH_DECODING") if version >= (2, 1, 1) else None
        if switch is not None and switch.value in ("1", "true", "True"):
            return Fact("flashdecoding", switch.provenance)
        return from_default("paged", name)
    stated = config.env.get("ATTENTION")
    if stated is not None and stated.value:
        return stated
    falling_back = ("falcon", "deepseek_v2") + (("gemma2",) if version < (2, 4) else ())
    if model.head_dim in _FLASHINFER_HEADS and model.model_type not in falling_back:
        return from_default("flashinfer", name)
    old = accelerator is not None and (accelerator.capability or (8, 0)) < (8, 0)
    other = accelerator is not None and accelerator.vendor != "nvidia"
    paged = (old and version >= (2, 3, 1)) or (other and version >= (3, 0, 2))
    return from_default("paged" if paged else "flashdecoding", f"{name} for this model")


def _block_size(attention: Fact[str]) -> Fact[int]:
    """Tokens of a block by the attention. Source: ``globals.py``, up to 2.2 ``BLOCK_SIZE`` there and in the router."""
    size = {"flashinfer": 1, "flashdecoding": 256, "flashdecoding-ipex": 64}.get(attention.value, 16)
    origin = attention.provenance
    return Fact(size, Provenance(origin.source, f"{origin.text}: attention {attention.value[:20]}", origin.position))


def _prefix_caching(config: EngineConfig, model: ModelArchitecture, attention: Fact[str], name: str) -> Fact[bool]:
    """Whether prompts share blocks: from 2.3 on, by USE_PREFIX_CACHING (2.3) or PREFIX_CACHING, and where neither says so, not
    with images, adapters, heads that FlashInfer does not take, or paged attention. Source: ``resolve_attention``."""
    version = config.version_key
    if version < _ATTENTION_SINCE:
        return from_default(False, f"{name}: this release has none")
    stated = config.env.get("PREFIX_CACHING" if version >= (2, 4) else "USE_PREFIX_CACHING")
    if stated is not None:
        return Fact(_is_on(stated.value), stated.provenance)
    shunned = (
        model.multimodal
        or bool(config.get("lora-adapters"))
        or model.head_dim not in _FLASHINFER_HEADS
        or (attention.value == "paged" and version >= (2, 3, 1))
    )
    return from_default(not shunned, name)


def _chunking(config: EngineConfig, model: ModelArchitecture, attention: Fact[str], name: str) -> Fact[bool]:
    """Whether prompts are split over steps: PREFILL_CHUNKING, from 2.4 on request and from 3.0 by default; never with
    speculation, paged attention, or, before 3.3, images. Source: ``Model.__init__``, ``VlmCausalLM.__init__``."""
    version = config.version_key
    if version < (2, 4):
        return from_default(False, f"{name}: this release does not split prompts")
    stated = config.env.get("PREFILL_CHUNKING")
    wanted = from_default(version >= (3,), name) if stated is None else Fact(_is_on(stated.value), stated.provenance)
    speculating = given_count(config, "speculate")
    if wanted.value and (
        (speculating is not None and speculating.value)
        or not attention.value.startswith("flash")
        or (model.multimodal and version < _SPLIT_IMAGES_SINCE)
    ):
        return from_default(False, f"{name} with speculation, images or attention {attention.value[:20]}")
    return wanted


def _is_on(text: str) -> bool:
    """A switch as the server reads it."""
    return text.lower() in ("1", "true")


def _source(config: EngineConfig, flag: str, name: str) -> Provenance:
    found = config.flags.get(flag)
    return flag_provenance(found) if found is not None and found.known else Provenance("engine-default", name)
