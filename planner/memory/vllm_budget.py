"""The budget of a vLLM engine, rank by rank, in the order in which the engine accounts."""

from __future__ import annotations

import math

from planner.accelerators.accelerator import Accelerator
from planner.engines.config import EffectiveConfig, Parallelism
from planner.estimate import Estimate, between, exactly
from planner.memory import kv_cache
from planner.memory.activations import profile_peak
from planner.memory.budget import Capacity, Input, KVPlan, MemoryBudget, RankBudget, Term
from planner.memory.divisibility import indivisible
from planner.memory.graphs import graph_memory
from planner.memory.parameters import (
    Holder,
    allocator_rest,
    holder,
    offloaded_bytes,
    offloaded_groups,
)
from planner.memory.runtime import baseline, non_torch
from planner.memory.unstated_release import accountings, is_typical, joined, older_release
from planner.memory.weights import balancing_buffer, rank_weights, stage_layers, stored_formats
from planner.models.architecture import ModelArchitecture
from planner.record import NamedTuple, replace
from planner.units import GIB, format_bytes

#: Ranks that are listed one by one; of larger engines one rank of each stage stands for all.
_MOST_RANKS = 4096

#: Speculative methods without a draft model, and those whose draft shares the target's embedding and head.
_NO_DRAFT = ("", "ngram", "ngram_gpu", "suffix", "mtp", "custom_class")
_SHARED_VOCABULARY = ("eagle", "eagle3", "dflash", "dspark", "medusa", "mlp_speculator")
#: Decoder layers that a draft model which is not known may have, as the interval's high end.
_DRAFT_LAYERS = {"eagle": 2, "eagle3": 2, "medusa": 2, "mlp_speculator": 4}
_OTHER_DRAFT_LAYERS = 8

Stage = tuple[KVPlan, dict[str, Term]]


class _Question(NamedTuple):
    """What every step of one budget looks at."""

    model: ModelArchitecture
    config: EffectiveConfig
    accelerator: Accelerator
    given: dict[str, Term]
    partition: tuple[int, ...] | None
    draft: ModelArchitecture | None
    version_assumed: bool
    kv_cache_memory: int | None


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
    draft: ModelArchitecture | None = None,
) -> MemoryBudget:
    """Every rank of one engine copy on one kind of accelerator.

    ``kv_cache_memory``: bytes available for the cache of each rank, taken as given instead of being worked out.
    ``given``: terms that somebody measured, by name (``device``, ``requested``, ``weights``, ``activations``, ``non_torch``,
    ``graphs``, ``baseline``, ``kv_available``); they replace the model's own. ``capacity``: whether to work out tokens,
    concurrency and the longest request (a caller that only wants the verdict can do without). ``version_assumed``:
    nothing states the release, so that the intervals cover what others would do. ``draft``: the draft model of speculative
    decoding where it is a checkpoint of its own. ``layer_partition`` replaces the configuration's.
    Raises ``kv_cache.LayoutRefused`` where the engine cannot lay its cache or its layers out whatever the memory.
    Source of the accounting: vLLM's worker, see ``docs/memory.md``; versions differ in which terms they subtract.
    """
    parallel = config.parallel
    partition = layer_partition or config.layer_partition
    question = _Question(model, config, accelerator, given or {}, partition, draft, version_assumed, kv_cache_memory)
    layers = _stages_of(question)
    stages: list[Stage] = []
    alike: dict[tuple[object, ...], Stage] = {}
    for stage in range(parallel.pipeline):
        # Equal layers are one object, so that stages between the first and the last are worked out once.
        here = layers[stage]
        key = (stage == 0, stage == parallel.pipeline - 1, *map(id, model.layers[here.start : here.stop]))
        if key not in alike:
            plan = kv_cache.kv_plan(model, config, stage, accelerator.capability, here, draft)
            terms = _terms(question, stage, here)
            terms["kv_available"] = _with_demand(terms["kv_available"], plan, config)
            alike[key] = (plan, terms)
        stages.append(alike[key])
    distinct = list(alike.values())
    blocks = _blocks(config, distinct)
    fitted = _fitted_lengths(config, distinct) if config.max_model_len_auto else None
    if fitted is not None and fitted.expected < config.max_model_len.value:
        # The layout does not depend on the length, but what a request holds does.
        shown = _with_length(config, fitted.expected)
        replanned = {
            id(plan): kv_cache.kv_plan(model, shown, stage, accelerator.capability, layers[stage], draft)
            for stage, (plan, _) in enumerate(stages)
            if id(plan) not in {id(other) for other, _ in stages[:stage]}
        }
        stages = [(replanned[id(plan)], terms) for plan, terms in stages]
    ranks = _spread(config, stages, blocks, gpus_per_pod)
    tightest = min(range(len(ranks)), key=lambda rank: ranks[rank].bytes("kv_available").expected)
    return MemoryBudget(
        tuple(ranks),
        _capacity(question, distinct, blocks, fitted, layers[0]) if capacity else None,
        _verdict(config, distinct, measured=kv_cache_memory is None),
        tightest=tightest,
        notes=_notes(question),
        fitted_length=fitted,
    )


def _stages_of(question: _Question) -> list[range]:
    """The decoder layers of each stage. Raises ``LayoutRefused`` for a partition that does not split the layers, and where
    the ranks cannot share what the engine must split between them."""
    config = question.config
    for cut in indivisible(question.model, config.parallel, config.version):
        raise kv_cache.LayoutRefused(str(cut))
    try:
        return stage_layers(question.model.num_layers, config.parallel.pipeline, config.version, question.partition)
    except ValueError as error:
        raise kv_cache.LayoutRefused(f"VLLM_PP_LAYER_PARTITION: {error}") from None


def _terms(question: _Question, stage: int, here: range) -> dict[str, Term]:
    """All terms of one stage's ranks. Where nothing states the release, what the oldest would do is joined to it."""
    terms = _release_terms(question, stage, here)
    older = older_release(question.config) if question.version_assumed else None
    if older is None:
        return terms
    # Weights change little between releases, and what is given does not change at all.
    given = {"weights": terms["weights"], **question.given}
    before = _release_terms(question._replace(config=older, given=given), stage, here)
    typical = is_typical(older)
    return {name: joined(term, before[name], older.version, typical) for name, term in terms.items()}


def _release_terms(question: _Question, stage: int, here: range) -> dict[str, Term]:
    """All terms of one stage's ranks under the release of the configuration."""
    model, config, accelerator, given = question.model, question.config, question.accelerator, question.given
    last = stage == config.parallel.pipeline - 1
    device = given.get("device") or Term(
        "device",
        accelerator.memory,
        "memory that the driver reports",
        (Input("accelerator", accelerator.name, accelerator.source or "accelerator catalog"),),
    )
    requested = given.get("requested") or _requested(device.bytes, config)
    how = holder(model, config, accelerator)
    weights = given.get("weights") or _weights(question, stage, here, how)
    rest = 0
    if weights.bytes.basis != "given":
        rest = allocator_rest(model, here, stage == 0, last, how, config.towers_loaded)
    terms = {
        "device": device,
        "requested": requested,
        "outside": _outside(device.bytes, requested.bytes, config, given),
        "weights": weights,
        "activations": given.get("activations")
        or profile_peak(
            model,
            config,
            accelerator,
            last_stage=last,
            first_stage=stage == 0,
            since=config.oldest_release if question.version_assumed else None,
        ),
        "non_torch": given.get("non_torch")
        or non_torch(
            config,
            accelerator,
            model,
            rest=rest,
            weights=weights.bytes.expected,
        ),
        "graphs": graph_memory(model, config, accelerator),
        "baseline": given.get("baseline") or baseline(config, accelerator),
    }
    if "graphs" in given:
        terms["graphs"] = given["graphs"]._replace(counted=terms["graphs"].counted)
    terms = {name: term if term.name == name else term._replace(name=name) for name, term in terms.items()}
    terms["kv_available"] = _available(question, terms)
    if rest and weights is not given.get("weights"):
        # "Model loading took" counts what the allocator rounds up, which is a part of the other memory here.
        low, expected, high, basis = weights.bytes
        terms["weights"] = weights._replace(bytes=Estimate(low, expected, high + rest, basis))
    return terms


def _weights(question: _Question, stage: int, here: range, how: Holder) -> Term:
    """Weights of one rank: the model's, the draft's on the last stage, less what is offloaded to the host."""
    model, config, accelerator = question.model, question.config, question.accelerator
    last = stage == config.parallel.pipeline - 1
    offloaded = buffers = 0
    if config.cpu_offload_gib:
        offloaded = offloaded_bytes(model, here, how, config.cpu_offload_gib)
    elif config.offload_groups:
        offloaded, buffers = offloaded_groups(model, here, how, config.offload_groups)
    term = rank_weights(
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
        cpu_offload_gib=(offloaded - buffers) / GIB,
        partition=question.partition,
        max_num_batched_tokens=config.max_num_batched_tokens.value,
        mtp=config.speculative_method == "mtp",
        towers=config.towers_loaded,
        whole_towers=config.towers_whole,
    )
    if offloaded:
        scheme = "--cpu-offload-gb" if config.cpu_offload_gib else "--offload-group-size"
        term = term._replace(
            formula=f"{term.formula} − {format_bytes(offloaded)} in host memory",
            inputs=(*term.inputs, Input("offloaded to the host", f"{format_bytes(offloaded)} per GPU", scheme)),
        )
    if config.expert_balancing and config.parallel.expert and not config.eplb_redundant:
        buffer = balancing_buffer(model, here, stored_formats(model, config.quantization), how.kernel, how.rank)
        term = term._replace(
            bytes=term.bytes.plus(exactly(buffer, "derived")),
            formula=f"{term.formula} + balancing buffer {format_bytes(buffer)}",
        )
    return _with_draft(question, term) if last else term


def _with_draft(question: _Question, term: Term) -> Term:
    """The weights with those of a draft model. One that is not known can only widen the interval."""
    model, config, draft = question.model, question.config, question.draft
    method = config.speculative_method
    if method in _NO_DRAFT:
        return term
    if draft is None:
        if method == "draft_model":
            more = term.bytes.expected // 4
        else:
            layer = term.bytes.expected // max(1, model.num_layers // config.parallel.pipeline)
            more = layer * _DRAFT_LAYERS.get(method, _OTHER_DRAFT_LAYERS)
        low, expected, high, _ = term.bytes
        return term._replace(
            bytes=Estimate(low, expected, high + more, "assumed"),
            inputs=(*term.inputs, Input("draft model", f"not known, up to {format_bytes(more)}", method)),
        )
    alone = draft
    if method in _SHARED_VOCABULARY:
        # The draft uses the target's embedding, and its head where the vocabulary is the same.
        own_head = draft.head if draft.head is not None and draft.head.n != model.vocab_size else None
        alone = replace(draft, embedding=None, embedding_vectors=(), head=own_head, tied_embeddings=False)
    tensor = config.draft_tensor or config.parallel.tensor
    extra = rank_weights(
        alone,
        Parallelism(tensor=tensor),
        0,
        0,
        engine_version=config.version,
        dtype=config.dtype.value,
        accelerator=question.accelerator,
        max_model_len=config.max_model_len.value,
        max_num_batched_tokens=config.max_num_batched_tokens.value,
    )
    return term._replace(
        bytes=term.bytes.plus(extra.bytes),
        formula=f"{term.formula} + draft model {format_bytes(extra.bytes.expected)}",
        inputs=(*term.inputs, Input("draft model", draft.id, f"speculative decoding ({method})")),
    )


def _notes(question: _Question) -> tuple[str, ...]:
    """What the budget leaves out for want of a fact."""
    config, model = question.config, question.model
    method = config.speculative_method
    if method == "mtp" and not model.mtp_layers:
        return ("the checkpoint's draft layers are not described: their weights and cache are not counted",)
    if method not in _NO_DRAFT and question.draft is None:
        return (f"the draft model {config.speculative_model or '(none named)'} is not known: its cache is not counted",)
    return ()


def _outside(memory: Estimate, requested: Estimate, config: EffectiveConfig, given: dict[str, Term]) -> Term:
    if "outside" in given:
        return given["outside"]
    share = config.gpu_memory_utilization.value
    low, high = memory.low - math.ceil(memory.low * share), memory.high - math.ceil(memory.high * share)
    if "requested" in given:
        low, high = memory.low - requested.high, memory.high - requested.low
    return Term(
        "outside",
        between(low, memory.expected - requested.expected, high, memory.basis),
        "device − requested: context, communicators and what grows late live here",
        (Input("device", format_bytes(memory.expected), memory.basis),),
    )


def _requested(memory: Estimate, config: EffectiveConfig) -> Term:
    """``ceil(device × utilization)``, the engine's share."""
    share = config.gpu_memory_utilization
    return Term(
        "requested",
        Estimate(
            math.ceil(memory.low * share.value),
            math.ceil(memory.expected * share.value),
            math.ceil(memory.high * share.value),
            memory.basis,
        ),
        "device × gpu-memory-utilization",
        (Input("gpu-memory-utilization", f"{share.value:g}", str(share.provenance)),),
        (("utilization", f"{format_bytes(memory.expected / 100)} per 0.01"),),
    )


def _available(question: _Question, terms: dict[str, Term]) -> Term:
    """What the engine leaves for blocks on one rank. Bounds are combined as independent errors around the expectation,
    since it is implausible that every term is at its worst at once; the uncertain terms' widths add in squares."""
    config = question.config
    if question.kv_cache_memory is not None:
        return Term("kv_available", exactly(question.kv_cache_memory, "given"), "given on the command line")
    if "kv_available" in question.given:
        return question.given["kv_available"]._replace(name="kv_available")
    reserved = config.frontend_reserved
    if config.kv_cache_memory_bytes is not None:
        size = config.kv_cache_memory_bytes
        return Term(
            "kv_available",
            exactly(size.value - reserved, "exact"),
            "kv-cache-memory-bytes" + (" − frontend decoding" if reserved else ""),
            (Input("kv-cache-memory-bytes", f"{size.value:,}", str(size.provenance)),),
        )
    names = ["weights", "activations", "non_torch"] + (["graphs"] if terms["graphs"].counted else [])
    parts = [terms[name].bytes for name in names]
    inputs: tuple[Input, ...] = tuple(
        Input(name, format_bytes(terms[name].bytes.expected), terms[name].bytes.basis) for name in ("requested", *names)
    )
    if reserved:
        names.append("frontend decoding")
        parts.append(exactly(reserved))
        inputs += (Input("frontend decoding", format_bytes(reserved), "mm-ipc-gpu-memory-gb"),)
    return Term(
        "kv_available",
        _difference(terms["requested"].bytes, parts),
        "requested − " + " − ".join(names),
        inputs,
    )


def _with_demand(term: Term, plan: KVPlan, config: EffectiveConfig) -> Term:
    """The memory for the cache with what takes it up, per unit."""
    request = plan.blocks_per_request * plan.bytes_per_block
    grows = [
        (
            "context",
            f"{format_bytes(plan.bytes_per_token)} per token of a request, in blocks of {plan.block_size} tokens and "
            f"{format_bytes(plan.bytes_per_block)}",
        ),
        ("concurrency", f"{format_bytes(request)} per request of {config.max_model_len.value:,} tokens"),
    ]
    width = {"bfloat16": 2, "float16": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "float32": 4}
    size = width.get(config.kv_cache_dtype.value)
    if size is not None and plan.bytes_per_token:
        grows.append(("precision", f"{format_bytes(plan.bytes_per_token / size)} per token and byte of an element"))
    return term._replace(grows_with=tuple(grows))


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


def _with_length(config: EffectiveConfig, length: int) -> EffectiveConfig:
    """The configuration with the length that the engine lowered to what fits."""
    return replace(config, max_model_len=replace(config.max_model_len, value=max(1, length)))


def _fitted_lengths(config: EffectiveConfig, stages: list[Stage]) -> Estimate:
    """``--max-model-len auto``: the longest length up to the model's own that fits, at the three ends; 0 for none."""
    low, expected, high = _longest(config, stages, config.max_model_len.value)
    return Estimate(low, expected, high, stages[0][1]["kv_available"].bytes.basis)


def _longest(config: EffectiveConfig, stages: list[Stage], limit: int) -> list[int]:
    """The longest request that starts, at the three ends of the available memory, none above ``limit`` tokens."""
    plans = [plan for plan, _ in stages]
    override = config.num_gpu_blocks_override.value if config.num_gpu_blocks_override else None
    lengths: list[int] = []
    seen: dict[tuple[int, ...], int] = {}
    for bound in range(3):
        available = tuple(int(terms["kv_available"].bytes[bound]) for _, terms in stages)
        if available not in seen:
            seen[available] = kv_cache.longest_of_plans(plans, available, config.version, limit, override)
        lengths.append(seen[available])
    return lengths


def _capacity(
    question: _Question, stages: list[Stage], blocks: Estimate, fitted: Estimate | None, first_layers: range
) -> Capacity:
    """Tokens, concurrency and the longest request at the three ends of the available memory."""
    config = question.config
    plans = [plan for plan, _ in stages]
    reports = []
    expected_plan = plans[0]
    for bound, count in enumerate((blocks.low, blocks.expected, blocks.high)):
        plan, shown = plans[0], config
        if fitted is not None and int(fitted[bound]) < config.max_model_len.value:
            shown = _with_length(config, int(fitted[bound]))
            capability = question.accelerator.capability
            plan = kv_cache.kv_plan(question.model, shown, 0, capability, first_layers, question.draft)
        reports.append(kv_cache.report(plan, count, shown))
        if bound == 1:
            expected_plan = plan
    lengths = _longest(config, stages, max(config.derived_max_model_len, config.max_model_len.value))
    others = _other_reports(question, stages[0][1], first_layers) if question.version_assumed and fitted is None else []
    tokens, requests = ([report[of] for report in (reports[0], reports[2], *others)] for of in range(2))
    return Capacity(
        kv_tokens=Estimate(int(min(tokens)), reports[1][0], int(max(tokens)), "assumed" if others else blocks.basis),
        max_concurrency=(min(requests), reports[1][1], max(requests)),
        longest_request=Estimate(lengths[0], lengths[1], lengths[2], blocks.basis),
        blocks=blocks,
        bytes_per_request=max(plan.blocks_per_request * plan.bytes_per_block for plan in (expected_plan, *plans[1:])),
    )


def _other_reports(question: _Question, terms: dict[str, Term], layers: range) -> list[tuple[int, float]]:
    """Tokens and concurrency at both ends of the available memory under releases that count them otherwise."""
    found = []
    override = question.config.num_gpu_blocks_override
    for other in accountings(question.model, question.config):
        try:
            plan = kv_cache.kv_plan(question.model, other, 0, question.accelerator.capability, layers, question.draft)
        except kv_cache.LayoutRefused:
            continue
        for end in (0, 2):
            available = max(0, int(terms["kv_available"].bytes[end]))
            count = kv_cache.num_blocks(plan, available, other.version, override.value if override else None)
            found.append(kv_cache.report(plan, count, other))
    return found


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
