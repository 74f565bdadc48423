"""The budget of a vLLM engine, rank by rank, in the order in which the engine accounts."""

from __future__ import annotations

import math

from planner.accelerators.accelerator import Accelerator
from planner.engines.config import EffectiveConfig
from planner.estimate import Estimate, exactly
from planner.memory import kv_cache
from planner.memory.activations import profile_peak
from planner.memory.budget import Capacity, Input, KVPlan, MemoryBudget, RankBudget, Term
from planner.memory.graphs import graph_memory
from planner.memory.runtime import baseline, non_torch
from planner.memory.weights import rank_weights, stage_layers
from planner.models.architecture import ModelArchitecture


def vllm_budget(
    model: ModelArchitecture,
    config: EffectiveConfig,
    accelerator: Accelerator,
    *,
    gpus_per_pod: int | None = None,
    kv_cache_memory: int | None = None,
    given: dict[str, Term] | None = None,
    layer_partition: tuple[int, ...] | None = None,
) -> MemoryBudget:
    """Every rank of one engine copy on one kind of accelerator.

    ``kv_cache_memory``: bytes available for the cache of each rank, taken as given instead of being worked out.
    ``given``: terms that somebody measured, by name; they replace the model's own.
    Source of the accounting: vLLM's worker, see ``docs/memory.md``; versions differ in which terms they subtract.
    """
    parallel = config.parallel
    capability = accelerator.capability
    stages = stage_layers(model.num_layers, parallel.pipeline, config.version, layer_partition)
    stage_ranks = []
    for stage in range(parallel.pipeline):
        plan = kv_cache.kv_plan(model, config, stage, capability, stages[stage])
        terms = _terms(model, config, accelerator, stage, given or {})
        available = _available(config, terms, kv_cache_memory)
        terms["kv_available"] = available
        stage_ranks.append((plan, terms))
    blocks = _blocks(config, [(plan, terms["kv_available"].bytes) for plan, terms in stage_ranks])
    ranks = _spread(config, stage_ranks, blocks, gpus_per_pod)
    tightest = min(range(len(stage_ranks)), key=lambda stage: stage_ranks[stage][1]["kv_available"].bytes.expected)
    capacity = _capacity(model, config, capability, stages, stage_ranks, blocks)
    return MemoryBudget(
        tuple(ranks),
        capacity,
        _verdict(config, stage_ranks, kv_cache_memory),
        tightest=tightest * parallel.tensor * parallel.prefill_context,
    )


def _terms(
    model: ModelArchitecture, config: EffectiveConfig, accelerator: Accelerator, stage: int, given: dict[str, Term]
) -> dict[str, Term]:
    memory = accelerator.memory
    utilization = config.gpu_memory_utilization
    requested = Estimate(
        math.ceil(memory.low * utilization.value),
        math.ceil(memory.expected * utilization.value),
        math.ceil(memory.high * utilization.value),
        memory.basis,
    )
    outside = Estimate(
        memory.low - requested.low, memory.expected - requested.expected, memory.high - requested.high, memory.basis
    )
    terms = {
        "device": Term(
            "device",
            memory,
            "memory that the driver reports",
            (Input("accelerator", accelerator.name, accelerator.source or "accelerator catalog"),),
        ),
        "requested": Term(
            "requested",
            requested,
            "device × gpu-memory-utilization",
            (Input("gpu-memory-utilization", f"{utilization.value:g}", str(utilization.provenance)),),
        ),
        "outside": Term("outside", outside, "device − requested: context, communicators and what grows late live here"),
        "weights": rank_weights(
            model,
            config.parallel,
            0,
            stage,
            engine_version=config.version,
            dtype=config.dtype.value,
            accelerator=accelerator,
            lora=config.lora,
            eplb_redundant=config.eplb_redundant,
            quantization=config.quantization,
            max_model_len=config.max_model_len.value,
            cpu_offload_gib=config.cpu_offload_gib,
        ),
        "activations": profile_peak(model, config, accelerator),
        "non_torch": non_torch(config, accelerator),
        "graphs": graph_memory(model, config),
        "baseline": baseline(config, accelerator),
    }
    terms.update({name: term for name, term in given.items() if name in terms})
    return terms


def _available(config: EffectiveConfig, terms: dict[str, Term], kv_cache_memory: int | None) -> Term:
    """What the engine leaves for blocks on one rank. Bounds are combined as independent errors around the expectation,
    since it is implausible that every term is at its worst at once; the uncertain terms' widths add in squares."""
    if kv_cache_memory is not None:
        return Term("kv_available", exactly(kv_cache_memory, "given"), "given on the command line")
    if config.kv_cache_memory_bytes is not None:
        size = config.kv_cache_memory_bytes
        return Term(
            "kv_available",
            exactly(size.value, "exact"),
            "kv-cache-memory-bytes",
            (Input("kv-cache-memory-bytes", f"{size.value:,}", str(size.provenance)),),
        )
    names = ["weights", "activations", "non_torch"] + (["graphs"] if terms["graphs"].counted else [])
    parts = [terms[name].bytes for name in names]
    requested = terms["requested"].bytes
    expected = requested.expected - sum(part.expected for part in parts)
    down = math.sqrt((requested.expected - requested.low) ** 2 + sum((p.high - p.expected) ** 2 for p in parts))
    up = math.sqrt((requested.high - requested.expected) ** 2 + sum((p.expected - p.low) ** 2 for p in parts))
    return Term(
        "kv_available",
        Estimate(int(expected - down), expected, int(expected + up), "measured"),
        "requested − " + " − ".join(names),
    )


def _blocks(config: EffectiveConfig, stages: list[tuple[KVPlan, Estimate]]) -> Estimate:
    """Blocks of the engine: the fewest over all stages, or what the override says."""
    if config.num_gpu_blocks_override is not None:
        return exactly(config.num_gpu_blocks_override.value)
    each = [
        [kv_cache.num_blocks(plan, max(0, value), config.version) for value in (e.low, e.expected, e.high)]
        for plan, e in stages
    ]
    low, expected, high = (min(column) for column in zip(*each, strict=True))
    return Estimate(low, expected, high, stages[0][1].basis)


def _spread(
    config: EffectiveConfig,
    stages: list[tuple[KVPlan, dict[str, Term]]],
    blocks: Estimate,
    gpus_per_pod: int | None,
) -> list[RankBudget]:
    """One budget for every GPU: ranks of a stage share their terms, data-parallel copies repeat them."""
    ranks = []
    parallel = config.parallel
    width = parallel.tensor * parallel.prefill_context
    per_pod = gpus_per_pod or parallel.world * parallel.data_local
    for copy in range(min(parallel.data, 256)):
        for stage, (plan, terms) in enumerate(stages):
            for tensor_rank in range(width):
                rank = copy * parallel.world + stage * width + tensor_rank
                ranks.append(
                    RankBudget(
                        rank,
                        rank // per_pod,
                        rank % per_pod,
                        tensor_rank % parallel.tensor,
                        stage,
                        terms,
                        plan,
                        blocks,
                    )
                )
    return ranks


def _capacity(
    model: ModelArchitecture,
    config: EffectiveConfig,
    capability: tuple[int, int] | None,
    layers: list[range],
    stages: list[tuple[KVPlan, dict[str, Term]]],
    blocks: Estimate,
) -> Capacity:
    plan = stages[0][0]
    reports = [kv_cache.report(plan, count, config) for count in (blocks.low, blocks.expected, blocks.high)]
    lengths = []
    for bound in ("low", "expected", "high"):
        available = [getattr(terms["kv_available"].bytes, bound) for _, terms in stages]
        lengths.append(kv_cache.longest_request(model, config, capability, layers, available))
    return Capacity(
        kv_tokens=Estimate(reports[0][0], reports[1][0], reports[2][0], blocks.basis),
        max_concurrency=(reports[0][1], reports[1][1], reports[2][1]),
        longest_request=Estimate(lengths[0], lengths[1], lengths[2], blocks.basis),
        blocks=blocks,
        bytes_per_request=max(plan.blocks_per_request * plan.bytes_per_block for plan, _ in stages),
    )


def _verdict(config: EffectiveConfig, stages: list[tuple[KVPlan, dict[str, Term]]], kv_cache_memory: int | None) -> str:
    """``does-not-fit`` where even the favourable end fails at start-up, ``may-not-fit`` where only the other end does."""
    del kv_cache_memory
    starts = []
    for bound in ("low", "high"):
        ok = True
        for plan, terms in stages:
            available = getattr(terms["kv_available"].bytes, bound)
            ok = ok and available > 0 and kv_cache.admits(plan, available, config.version)
            ok = ok and _inside_device(config, terms, bound)
        starts.append(ok)
    if starts[0]:
        return "fits"
    return "may-not-fit" if starts[1] else "does-not-fit"


def _inside_device(config: EffectiveConfig, terms: dict[str, Term], bound: str) -> bool:
    """Whether weights, profile run and a given cache can be on the device at all, at this end of the estimates."""
    if config.kv_cache_memory_bytes is None:
        return True
    device = terms["device"].bytes
    needed = [terms[name].bytes for name in ("weights", "non_torch", "baseline")]
    room = device.high if bound == "high" else device.low
    used = sum(part.low if bound == "high" else part.high for part in needed)
    return used + config.kv_cache_memory_bytes.value <= room
