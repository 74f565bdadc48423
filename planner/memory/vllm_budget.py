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

#: Default of gpu-memory-utilization before 0.20, for a release that is only assumed.
_OLDER_UTILIZATION = 0.9
#: Ranks that are listed one by one; of larger engines one rank of each stage stands for all.
_MOST_RANKS = 4096

Stage = tuple[KVPlan, dict[str, Term]]


def vllm_budget(
    model: ModelArchitecture,
    config: EffectiveConfig,
    accelerator: Accelerator,
    *,
    gpus_per_pod: int | None = None,
    kv_cache_memory: int | None = None,
    given: dict[str, Term] | None = None,
    layer_partition: tuple[int, ...] | None = None,
    capacity: bool = True,
    version_assumed: bool = False,
) -> MemoryBudget:
    """Every rank of one engine copy on one kind of accelerator.

    ``kv_cache_memory``: bytes available for the cache of each rank, taken as given instead of being worked out.
    ``given``: terms that somebody measured, by name; they replace the model's own. ``capacity``: whether to work out
    tokens, concurrency and the longest request (a caller that only wants the verdict can do without). ``version_assumed``:
    nothing states the release, so that the intervals cover what others would do.
    Raises ``kv_cache.LayoutRefused`` where the engine cannot lay its cache out whatever the memory.
    Source of the accounting: vLLM's worker, see ``docs/memory.md``; versions differ in which terms they subtract.
    """
    parallel = config.parallel
    capability = accelerator.capability
    layers = stage_layers(model.num_layers, parallel.pipeline, config.version, layer_partition)
    stages: list[Stage] = []
    alike: dict[tuple[object, ...], Stage] = {}
    for stage in range(parallel.pipeline):
        # Equal layers are one object, so that stages between the first and the last are worked out once.
        here = layers[stage]
        key = (stage == 0, stage == parallel.pipeline - 1, *map(id, model.layers[here.start : here.stop]))
        if key not in alike:
            plan = kv_cache.kv_plan(model, config, stage, capability, here)
            terms = _terms(model, config, accelerator, stage, given or {}, version_assumed)
            terms["kv_available"] = _available(config, terms, kv_cache_memory)
            alike[key] = (plan, terms)
        stages.append(alike[key])
    distinct = list(alike.values())
    blocks = _blocks(config, distinct)
    ranks = _spread(config, stages, blocks, gpus_per_pod)
    tightest = min(range(len(ranks)), key=lambda rank: ranks[rank].bytes("kv_available").expected)
    return MemoryBudget(
        tuple(ranks),
        _capacity(config, distinct, blocks) if capacity else None,
        _verdict(config, distinct, measured=kv_cache_memory is None),
        tightest=tightest,
    )


def _terms(
    model: ModelArchitecture,
    config: EffectiveConfig,
    accelerator: Accelerator,
    stage: int,
    given: dict[str, Term],
    version_assumed: bool,
) -> dict[str, Term]:
    memory = accelerator.memory
    utilization = config.gpu_memory_utilization
    requested = _requested(memory, config, version_assumed)
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
        "outside": Term(
            "outside",
            Estimate(
                memory.low - math.ceil(memory.low * utilization.value),
                memory.expected - requested.expected,
                memory.high - math.ceil(memory.high * utilization.value),
                memory.basis,
            ),
            "device − requested: context, communicators and what grows late live here",
        ),
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
        "activations": profile_peak(
            model,
            config,
            accelerator,
            last_stage=stage == config.parallel.pipeline - 1,
            version_assumed=version_assumed,
        ),
        "non_torch": non_torch(config, accelerator, model),
        "graphs": graph_memory(model, config, accelerator),
        "baseline": baseline(config, accelerator),
    }
    for name, term in given.items():
        if name in terms:
            terms[name] = term._replace(name=name, counted=terms[name].counted)
    return terms


def _requested(memory: Estimate, config: EffectiveConfig, version_assumed: bool) -> Estimate:
    """``ceil(device × utilization)``; with a release and a utilization that nothing states, the older default is possible."""
    fact = config.gpu_memory_utilization
    low = fact.value
    if version_assumed and fact.provenance.source in ("engine-default", "assumption"):
        low = min(low, _OLDER_UTILIZATION)
    return Estimate(
        math.ceil(memory.low * low),
        math.ceil(memory.expected * fact.value),
        math.ceil(memory.high * fact.value),
        memory.basis,
    )


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
    remainder = _difference(terms["requested"].bytes, [terms[name].bytes for name in names])
    return Term("kv_available", remainder, "requested − " + " − ".join(names))


def _difference(whole: Estimate, parts: list[Estimate]) -> Estimate:
    """What parts leave of a whole, in bytes, their errors taken as independent."""
    expected = whole.expected - sum(part.expected for part in parts)
    down = math.hypot(whole.expected - whole.low, *(part.high - part.expected for part in parts))
    up = (whole.high - whole.expected) + sum(part.expected - part.low for part in parts)
    return Estimate(int(expected - down), expected, int(expected + up), "measured")


def _blocks(config: EffectiveConfig, stages: list[Stage]) -> Estimate:
    """Blocks of the engine: the fewest over all stages, or what the override says."""
    if config.num_gpu_blocks_override is not None:
        return exactly(config.num_gpu_blocks_override.value)
    estimates = [terms["kv_available"].bytes for _, terms in stages]
    plans = [plan for plan, _ in stages]
    low, expected, high = (
        kv_cache.blocks_over_ranks(plans, [max(0, estimate[bound]) for estimate in estimates], config.version)  # type: ignore[misc]
        for bound in range(3)
    )
    return Estimate(low, expected, high, estimates[0].basis)


def _spread(
    config: EffectiveConfig, stages: list[Stage], blocks: Estimate, gpus_per_pod: int | None
) -> list[RankBudget]:
    """One budget for every GPU: ranks of a stage share their terms, data-parallel copies repeat them."""
    ranks = []
    parallel = config.parallel
    width = parallel.tensor * parallel.prefill_context
    per_pod = gpus_per_pod or parallel.world * parallel.data_local
    listed = width if width * len(stages) <= _MOST_RANKS else 1
    # The tightest stages are among those listed, however many there are.
    chosen = list(range(len(stages)))
    if len(stages) > _MOST_RANKS:
        chosen.sort(key=lambda stage: stages[stage][1]["kv_available"].bytes.expected)
        chosen = sorted(chosen[:_MOST_RANKS])
    for copy in range(max(1, min(parallel.data, _MOST_RANKS // (listed * len(chosen))))):
        for stage in chosen:
            plan, terms = stages[stage]
            for tensor_rank in range(listed):
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


def _capacity(config: EffectiveConfig, stages: list[Stage], blocks: Estimate) -> Capacity:
    """Tokens, concurrency and the longest request at the three ends of the available memory."""
    plans = [plan for plan, _ in stages]
    reports = [kv_cache.report(plans[0], count, config) for count in (blocks.low, blocks.expected, blocks.high)]
    limit = max(config.derived_max_model_len, config.max_model_len.value)
    override = config.num_gpu_blocks_override.value if config.num_gpu_blocks_override else None
    lengths: list[int] = []
    seen: dict[tuple[int, ...], int] = {}
    for bound in range(3):
        available = tuple(int(terms["kv_available"].bytes[bound]) for _, terms in stages)
        if available not in seen:
            seen[available] = kv_cache.longest_of_plans(plans, available, config.version, limit, override)
        lengths.append(seen[available])
    return Capacity(
        kv_tokens=Estimate(reports[0][0], reports[1][0], reports[2][0], blocks.basis),
        max_concurrency=(reports[0][1], reports[1][1], reports[2][1]),
        longest_request=Estimate(lengths[0], lengths[1], lengths[2], blocks.basis),
        blocks=blocks,
        bytes_per_request=max(plan.blocks_per_request * plan.bytes_per_block for plan in plans),
    )


def _verdict(config: EffectiveConfig, stages: list[Stage], *, measured: bool) -> str:
    """``does-not-fit`` where even the favourable end fails at start-up, ``may-not-fit`` where only the other end does.

    The checks are the engine's, in its order: enough free memory, weights that load, memory for the cache, and one request
    of the maximum length. What happens beside the budget after them (graphs, the sampler's warm-up) can only make a start
    doubtful, since nothing prints it. ``measured``: the available memory was worked out rather than given.
    """
    unfavourable = all(_starts(config, plan, terms, favourable=False) for plan, terms in stages)
    if unfavourable and all(_survives_warm_up(config, terms) for _, terms in stages):
        return "fits"
    if not measured and unfavourable:
        return "fits"
    favourable = all(_starts(config, plan, terms, favourable=True) for plan, terms in stages)
    return "may-not-fit" if favourable else "does-not-fit"


def _starts(config: EffectiveConfig, plan: KVPlan, terms: dict[str, Term], *, favourable: bool) -> bool:
    """Whether this rank passes the engine's checks at one end of the estimates."""
    end = 2 if favourable else 0
    if not _enough_free(config, terms, end) or not _loads(config, terms, end):
        return False
    available = int(terms["kv_available"].bytes[end])
    override = config.num_gpu_blocks_override.value if config.num_gpu_blocks_override else None
    if available <= 0 and (override is None or config.version < (0, 20)):
        return False
    # With an automatic length the engine takes what fits, as long as that is one token.
    length = 1 if config.max_model_len_auto else None
    return kv_cache.admits(plan, available, config.version, length=length, override=override)


def _enough_free(config: EffectiveConfig, terms: dict[str, Term], end: int) -> bool:
    """The engine's first check (V1 from 0.9.1): its share of the device must be free when it looks."""
    if config.runner == "v0" or config.version < (0, 9, 1):
        return True
    return int(_difference(terms["outside"].bytes, [terms["baseline"].bytes])[end]) >= 0


def _loads(config: EffectiveConfig, terms: dict[str, Term], end: int) -> bool:
    """Whether weights (and a cache of a stated size with the profile run's peak) fit the device itself."""
    names = ["weights", "baseline"]
    whole = terms["device"].bytes
    if config.kv_cache_memory_bytes is not None:
        names += ["non_torch", "activations"]
        size = config.kv_cache_memory_bytes.value
        whole = Estimate(whole.low - size, whole.expected - size, whole.high - size, whole.basis)
    return int(_difference(whole, [terms[name].bytes for name in names])[end]) >= 0


def _survives_warm_up(config: EffectiveConfig, terms: dict[str, Term]) -> bool:
    """Whether what the engine does not budget is expected to fit beside its share: context and uncounted graphs."""
    if config.kv_cache_memory_bytes is not None:
        return True
    outside = terms["outside"].bytes.expected - terms["baseline"].bytes.expected
    graphs = terms["graphs"]
    return outside >= (0 if graphs.counted else graphs.bytes.expected)
