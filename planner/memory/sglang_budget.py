"""The budget of an SGLang engine, rank by rank, in the order in which the engine accounts.

SGLang takes a share (mem-fraction-static) of what is free when it starts, loads the weights into it and makes the pools of
the rest, without a profile run. Everything else (graphs, activations, the request table) must fit into what the share
leaves. Source: reference on SGLang's memory, 1.
"""

from __future__ import annotations

import math

from planner.accelerators.accelerator import Accelerator
from planner.engines.sglang_config import SGLangConfig
from planner.estimate import Estimate, between, exactly
from planner.memory.budget import Capacity, Input, KVGroup, KVPlan, MemoryBudget, RankBudget, Term
from planner.memory.sglang_cells import Cells, cells
from planner.memory.sglang_compressed import CompressedCells, compressed_cells
from planner.memory.sglang_pools import NO_LIMIT, Pools, refusal, solve
from planner.memory.sglang_pools import given as given_pools
from planner.memory.sglang_runtime import activations, baseline, graphs, non_torch, request_table
from planner.memory.sglang_weights import draft_weights, weights
from planner.memory.unstated_release import spanning, unstated
from planner.memory.weights import stage_layers
from planner.models.architecture import LatentAttention, ModelArchitecture
from planner.record import NamedTuple, replace
from planner.units import ceil_div

_BOUNDS = ("low", "expected", "high")
#: More engine copies than this are not listed one by one.
_MOST_COPIES = 256


class _Stage(NamedTuple):
    """One pipeline stage: what a token costs there, and its terms with the pools at each bound."""

    cells: Cells
    compressed: CompressedCells | None
    terms: dict[str, Term]
    budgets: Estimate
    pools: tuple[Pools, Pools, Pools]


def sglang_budget(
    model: ModelArchitecture,
    config: SGLangConfig,
    accelerator: Accelerator,
    *,
    gpus_per_pod: int | None = None,
    kv_cache_memory: int | None = None,
    given: dict[str, Term] | None = None,
    layer_partition: tuple[int, ...] | None = None,
    draft: ModelArchitecture | None = None,
) -> MemoryBudget:
    """Every rank of one engine copy on one kind of accelerator.

    ``kv_cache_memory``: bytes of each rank's full-attention pool (what the log prints as "KV Cache is allocated"), taken as
    given instead of being worked out. ``given``: terms that somebody measured, by name. ``draft``: the draft model of
    speculative decoding where it is another checkpoint. Terms beside the usual ones: ``windows`` and ``states`` (the pools of
    sliding-window and recurrent layers, inside the share), ``request_table`` and ``draft``.
    """
    if draft is not None and draft.id == model.id:
        # The target named once more: the engine reads its MTP layers, as it does where no draft is named
        # (``is_draft_model`` in configs/model_config.py, arg_groups/speculative_hook.py 0.5.18).
        draft, config = None, replace(config, speculative_model="")
    pipeline = config.parallel.pipeline
    layers = stage_layers(model.num_layers, pipeline, (1,), layer_partition)

    def under(release: SGLangConfig) -> list[_Stage]:
        return [
            _stage(model, release, accelerator, index, layers[index], kv_cache_memory, given or {}, draft)
            for index in range(pipeline)
        ]

    stages = under(config)
    tokens = _tokens(stages)
    given_pool = kv_cache_memory is not None
    verdict = _verdict(stages, config, given_pool)
    if config.older:
        before = [under(release) for release in config.older]
        tokens = spanning(tokens, [_tokens(theirs) for theirs in before])
        if any(_verdict(*pair, given_pool) != verdict for pair in zip(before, config.older, strict=True)):
            verdict = "may-not-fit"
        stages = [
            _spanning(ours, [theirs[index] for theirs in before], config.older[0].version)
            for index, ours in enumerate(stages)
        ]
    tightest = min(range(pipeline), key=lambda i: stages[i].terms["kv_available"].bytes.expected)
    notes = list(dict.fromkeys(note for stage in stages for note in stage.cells.notes))
    if config.attention_data > 1:
        notes.append(f"tokens are those of one of {config.attention_data} attention groups, as the engine prints them")
    if config.parallel.context > 1:
        notes.append(f"every rank keeps one of {config.parallel.context} tokens; the engine prints those of a rank")
    notes += _fewer_requests(stages, config)
    return MemoryBudget(
        tuple(_ranks(config, stages, tokens, gpus_per_pod)),
        None if config.kv_disabled else _capacity(config, stages, tokens),
        verdict,
        tightest=tightest * config.parallel.tensor,
        notes=tuple(notes),
        refused="" if config.older or given_pool else _refused(stages, config),
    )


def _fewer_requests(stages: list[_Stage], config: SGLangConfig) -> list[str]:
    """What is left of max-running-requests where the pool of recurrent states has slots for fewer: the engine starts all the same
    and lowers the number (``resolve_max_num_reqs``)."""
    least = [min(stage.pools[bound].requests for stage in stages) for bound in range(3)]
    if not any(stage.pools[1].slots for stage in stages) or not 0 < least[1] < config.max_num_seqs.value:
        return []
    span = f" ({least[0]:,} to {least[2]:,})" if least[0] < least[2] else ""
    each = config.slots_per_request
    slots = f"{each} slots of recurrent state each" if each > 1 else "a slot of recurrent state each"
    return [
        f"{least[1]:,} requests run at a time{span}, with {slots}, of the {config.max_num_seqs.value:,} of max-running-requests"
    ]


def _spanning(ours: _Stage, older: list[_Stage], since: tuple[int, ...]) -> _Stage:
    """One stage for a release that nothing states: its terms span what older releases make of them."""
    terms = {}
    for name, term in ours.terms.items():
        theirs = [stage.terms[name].bytes for stage in older if name in stage.terms]
        size = spanning(term.bytes, theirs)
        terms[name] = term if size == term.bytes else term._replace(bytes=size, inputs=(*term.inputs, unstated(since)))
    return ours._replace(terms=terms)


def _stage(
    model: ModelArchitecture,
    config: SGLangConfig,
    accelerator: Accelerator,
    index: int,
    layers: range,
    kv_cache_memory: int | None,
    measured: dict[str, Term],
    draft: ModelArchitecture | None,
) -> _Stage:
    terms = _fixed_terms(model, config, accelerator, index, draft)
    terms.update({name: term for name, term in measured.items() if name in terms})
    terms.update(_shares(config, terms))
    per_token = cells(model, config, layers, draft)
    compressed = None
    if any(isinstance(x.attention, LatentAttention) and x.attention.window for x in model.layers):
        compressed = compressed_cells(model, config, layers, config.max_num_seqs.value)
    budget = _pool_budget(config, terms)
    if kv_cache_memory is not None:
        found = given_pools(kv_cache_memory, per_token, config, compressed)
        pools = (found, found, found)
    else:
        pools = (
            solve(budget.low, per_token, config, compressed),
            solve(budget.expected, per_token, config, compressed),
            solve(budget.high, per_token, config, compressed),
        )
    terms.update(_pool_terms(config, per_token, pools, budget, kv_cache_memory))
    terms["request_table"] = request_table(config, pools[1].requests)
    if config.request_workspace and "non_torch" not in measured:
        terms["non_torch"] = non_torch(config, pools[1].requests)
    return _Stage(per_token, compressed, terms, budget, pools)


def _fixed_terms(
    model: ModelArchitecture,
    config: SGLangConfig,
    accelerator: Accelerator,
    stage: int,
    draft: ModelArchitecture | None,
) -> dict[str, Term]:
    """What does not hang on the pools."""
    source = accelerator.source or "accelerator catalog"
    terms = {
        "device": Term(
            "device",
            accelerator.memory,
            "memory that the driver reports",
            (Input("accelerator", accelerator.name, source),),
        ),
        "baseline": baseline(config, accelerator),
        "weights": weights(model, config, stage, accelerator),
        "activations": activations(model, config),
        "non_torch": non_torch(config),
        "graphs": graphs(model, config),
    }
    drafted = draft_weights(model, config, accelerator, draft)
    if drafted is not None:
        terms["draft"] = drafted._replace(counted=config.version >= (0, 5, 14))
    return terms


def _shares(config: SGLangConfig, terms: dict[str, Term]) -> dict[str, Term]:
    """The static share and what it leaves: of the memory that is free at the baseline, not of the device."""
    device, before = terms["device"].bytes, terms["baseline"].bytes
    fraction = config.gpu_memory_utilization
    free = _difference(device, [before])
    requested = free.times(fraction.value)
    outside = between(
        device.low - requested.low, device.expected - requested.expected, device.high - requested.high, "measured"
    )
    return {
        "requested": Term(
            "requested",
            requested,
            "(device − in use at the baseline) × mem-fraction-static",
            (
                Input("mem-fraction-static", f"{fraction.value:.4g}", str(fraction.provenance)),
                Input("free at the baseline", f"{free.expected / 2**30:.2f} GiB", "device − baseline"),
            ),
        ),
        "outside": Term("outside", outside, "device − requested: context, graphs, activations and the request table"),
    }


def _difference(whole: Estimate, parts: list[Estimate]) -> Estimate:
    """What is left; bounds are combined as independent errors, whose widths add in squares."""
    expected = whole.expected - sum(part.expected for part in parts)
    down = math.hypot(whole.expected - whole.low, *(part.high - part.expected for part in parts))
    up = math.hypot(whole.high - whole.expected, *(part.expected - part.low for part in parts))
    return Estimate(int(expected - down), expected, int(expected + up), "measured")


def _pool_budget(config: SGLangConfig, terms: dict[str, Term]) -> Estimate:
    """Bytes for all pools of one rank."""
    parts = [terms["weights"].bytes, exactly(config.multimodal_reserve)]
    if "draft" in terms and terms["draft"].counted:
        parts.append(terms["draft"].bytes)
    return _difference(terms["requested"].bytes, parts)


def _pool_terms(
    config: SGLangConfig,
    per_token: Cells,
    pools: tuple[Pools, Pools, Pools],
    budget: Estimate,
    kv_cache_memory: int | None,
) -> dict[str, Term]:
    terms = {}
    taken = "requested − weights"
    if any(pool.state_bytes for pool in pools):
        size = _estimate([pool.state_bytes for pool in pools])
        slots = ", ".join(f"{pool.slots:,}" for pool in pools[1:2])
        terms["states"] = Term(
            "states",
            size,
            "slots × bytes of the recurrent state",
            (
                Input("slots", slots, "mamba-full-memory-ratio, max-mamba-cache-size or max-running-requests"),
                Input("state", f"{per_token.state:,} B", f"{per_token.state_layers} layers, {config.state_dtype}"),
            ),
        )
        taken += " − states"
    if any(pool.window_bytes for pool in pools) and per_token.full_layers:
        size = _estimate([pool.window_bytes for pool in pools])
        terms["windows"] = Term(
            "windows",
            size,
            "tokens of the window pool × bytes of its layers",
            (
                Input("tokens", f"{pools[1].window_tokens:,}", f"swa-full-tokens-ratio {config.window_ratio:g}"),
                Input("layers", str(per_token.window_layers), "with a sliding window"),
            ),
        )
        taken += " − windows"
    if kv_cache_memory is not None:
        terms["kv_available"] = Term("kv_available", exactly(kv_cache_memory, "given"), "given on the command line")
        return terms
    sizes = []
    for bound, pool in zip((budget.low, budget.expected, budget.high), pools, strict=True):
        full = pool.full_bytes or (0 if per_token.full_layers else pool.window_bytes)
        limited = config.max_total_tokens is not None or full >= 1 << 60 or config.kv_disabled
        room = bound - pool.state_bytes - (pool.window_bytes if per_token.full_layers else 0)
        sizes.append(full if full and full < 1 << 60 else 0 if limited else min(room, 0))
    terms["kv_available"] = Term("kv_available", _estimate(sizes), taken)
    return terms


def _estimate(values: list[int]) -> Estimate:
    return Estimate(min(values), values[1], max(values), "measured")


def _tokens(stages: list[_Stage]) -> Estimate:
    """Tokens of the engine: the fewest over all stages."""
    low, expected, high = (
        min(stage.pools[bound].tokens for stage in stages if stage.pools[bound].tokens < NO_LIMIT // 2)
        if any(stage.pools[bound].tokens < NO_LIMIT // 2 for stage in stages)
        else 0
        for bound in range(3)
    )
    basis = stages[0].terms["kv_available"].bytes.basis
    return Estimate(min(low, expected), expected, max(high, expected), basis)


def _plan(config: SGLangConfig, stage: _Stage) -> KVPlan:
    """The full-attention pool as blocks of one page: what limits tokens. Windows and states have pools of their own.

    With decode context parallelism a block holds a page of tokens on each rank of the group (``kv_cache_builder.py``)."""
    page = config.block_size.value if config.block_size else 1
    shards = config.parallel.context
    per_token = stage.cells
    blocks = ceil_div(config.max_model_len.value, page * shards)
    row: float = per_token.stored or per_token.window
    if stage.compressed is not None:
        row = stage.compressed.full
    layers = per_token.full_layers or per_token.window_layers
    group = KVGroup(
        kind="latent" if per_token.latent else "full",
        layers=layers,
        block_size=page,
        page_bytes=per_token.row * page,
        blocks_per_request=blocks,
        pages=((per_token.row * page, layers),),
        shards=shards,
    )
    notes = []
    if per_token.window_layers and per_token.full_layers:
        notes.append(
            f"{per_token.window_layers} layers with windows of {per_token.window_size:,} have a pool of their own"
        )
    if per_token.state_layers:
        notes.append(
            f"{per_token.state_layers} recurrent layers hold {per_token.state:,} bytes per slot in a pool of their own"
        )
    return KVPlan(
        block_size=page,
        bytes_per_block=max(1, round(row * page)),
        page_bytes=per_token.row * page,
        bytes_per_token=row / shards,
        groups=(group,) if layers else (),
        blocks_per_request=blocks,
        notes=tuple(notes),
    )


def _ranks(config: SGLangConfig, stages: list[_Stage], tokens: Estimate, gpus_per_pod: int | None) -> list[RankBudget]:
    """One budget for every GPU: ranks of a stage share their terms, data-parallel copies repeat them."""
    page = config.block_size.value if config.block_size else 1
    blocks = Estimate(tokens.low // page, tokens.expected // page, tokens.high // page, tokens.basis)
    plans = [_plan(config, stage) for stage in stages]
    parallel = config.parallel
    per_pod = gpus_per_pod or parallel.world * parallel.data_local
    found = []
    for copy in range(min(parallel.data, _MOST_COPIES)):
        for index, stage in enumerate(stages):
            for tensor_rank in range(parallel.tensor):
                rank = copy * parallel.world + index * parallel.tensor + tensor_rank
                found.append(
                    RankBudget(
                        rank, rank // per_pod, rank % per_pod, tensor_rank, index, stage.terms, plans[index], blocks
                    )
                )
    return found


def _capacity(config: SGLangConfig, stages: list[_Stage], tokens: Estimate) -> Capacity:
    """What the pool of one rank (``tokens``) gives to requests: with decode context parallelism that of each rank holds other
    tokens of the same requests. Up to 0.5.16 no request is longer than the pool of one rank all the same (``TpModelWorker``)."""
    page = config.block_size.value if config.block_size else 1
    shards = config.parallel.context
    length = max(1, config.max_model_len.value)
    limit = max(config.derived_max_model_len, length)
    row = max(
        stage.compressed.full if stage.compressed else stage.cells.stored or stage.cells.window for stage in stages
    )
    held = Estimate(tokens.low * shards, tokens.expected * shards, tokens.high * shards, tokens.basis)
    most = held if config.version >= (0, 5, 17) else tokens
    return Capacity(
        kv_tokens=held,
        max_concurrency=(held.low / length, held.expected / length, held.high / length),
        longest_request=Estimate(min(most.low, limit), min(most.expected, limit), min(most.high, limit), tokens.basis),
        blocks=Estimate(tokens.low // page, tokens.expected // page, tokens.high // page, tokens.basis),
        bytes_per_request=int(row * length / shards),
    )


def _verdict(stages: list[_Stage], config: SGLangConfig, pool_given: bool) -> str:
    """``does-not-fit`` where even the favourable end leaves no pool or no room beside the share; ``may-not-fit`` where only
    the other end does. A pool smaller than the context length is no failure: the server starts and limits requests.

    SGLang's own share is made to leave room for graphs and activations, so that the expected sizes decide about it; for a
    share that somebody chose, half the interval must fit as well.
    """
    chosen = config.gpu_memory_utilization.provenance.source not in ("engine-default", "assumption")
    sure, possible = True, True
    for stage in stages:
        low, expected, high = (
            (pool.tokens > 0 or config.kv_disabled or not _caches(stage))
            and (pool_given or not refusal(pool, stage.cells, config))
            for pool in stage.pools
        )
        if not pool_given:
            sure, possible = sure and low and expected, possible and high
        room = _headroom(stage)
        least = (room.low + room.expected) // 2 if chosen else room.expected
        sure, possible = sure and least > 0, possible and room.high > 0
    if sure:
        return "fits"
    return "may-not-fit" if possible else "does-not-fit"


def _refused(stages: list[_Stage], config: SGLangConfig) -> str:
    """Why the pools are refused at every bound, empty where they are not."""
    for stage in stages:
        reasons = [refusal(pool, stage.cells, config) for pool in stage.pools]
        if all(reasons) and stage.compressed is None:
            return reasons[1]
    return ""


def _caches(stage: _Stage) -> bool:
    return bool(stage.cells.stored or stage.cells.window or stage.compressed)


def _headroom(stage: _Stage) -> Estimate:
    """Bytes that are left outside the share once everything that lives there is there."""
    terms = stage.terms
    parts = [terms[name].bytes for name in ("baseline", "activations", "non_torch", "graphs", "request_table")]
    if "draft" in terms and not terms["draft"].counted:
        parts.append(terms["draft"].bytes)
    return _difference(terms["outside"].bytes, parts)
