"""Facts of admission: what the running requests hold, what must be kept back for them, and at which risk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.facts.demand import demand_position
from planner.facts.places import is_gap
from planner.record import NamedTuple

if TYPE_CHECKING:
    from planner.admission.capacity import Cache, RequestCapacity
    from planner.admission.mix import Mix
    from planner.admission.reserve import Progress
    from planner.admission.workload import Workload
    from planner.plan import Plan
    from planner.provenance import Position

_BOUNDS = ("low", "expected", "high")


class Admission(NamedTuple):
    """The answer for one plan, with the expected number of blocks (``bounds`` has all three).

    ``wanted``: requests that would run if the engine kept nothing back. ``in_flight``: requests of the whole deployment,
    where stated; ``per_copy``: those of one copy on average and (``most_per_copy``) nineteen times in twenty, None where
    the number of copies is not known. ``by_hand``: whether somebody has chosen ``--max-num-seqs``.
    """

    workload: Workload
    cache: Cache
    mix: Mix
    capacity: RequestCapacity
    progress: Progress
    bounds: dict[str, int]
    wanted: int
    in_flight: int | None
    per_copy: int | None
    most_per_copy: int | None
    by_hand: bool


def admission(plan: Plan) -> Admission | None:
    """Works it out; None where the blocks, the layout or the workload are not known."""
    capacity = plan.budget.capacity if plan.budget else None
    if capacity is None or plan.effective is None or capacity.blocks.high < 1 or is_gap(plan, "engine.max_num_seqs"):
        return None
    from planner.facts.demand import cache, copies, demand

    workload, _ = demand(plan)
    pool = cache(plan, capacity.blocks.expected)
    if workload is None or pool is None:
        return None
    from planner.admission.capacity import request_capacity, running_requests, share_of_copy
    from planner.admission.mix import mix_of
    from planner.admission.reserve import progress

    mix = mix_of(
        workload,
        pool.growths,
        pool.max_model_len,
        lookahead=pool.lookahead,
        prefix_caching=pool.prefix_caching,
    )
    in_flight = workload.in_flight(pool.max_model_len)
    most = workload.at_most_in_flight(pool.max_model_len)
    known = copies(plan) is not None
    running = running_requests(pool, mix, most if known else None)
    null = capacity.blocks.expected - pool.blocks if capacity.blocks.expected else 0
    bounds = {bound: max(0, getattr(capacity.blocks, bound) - null) for bound in _BOUNDS}
    found = progress(pool, mix, running, workload.risk)
    return Admission(
        workload=workload,
        cache=pool,
        mix=mix,
        capacity=request_capacity(pool, mix, found.most_running),
        progress=found,
        bounds=bounds,
        wanted=running,
        in_flight=in_flight,
        per_copy=share_of_copy(pool, in_flight) if in_flight is not None and known else None,
        most_per_copy=share_of_copy(pool, most) if most is not None and known else None,
        by_hand=plan.engine.stated("max-num-seqs"),
    )


def reserve_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """The variable ``reserve`` of rules. Blocks are those of one engine copy, the null block not among them."""
    place = demand_position(plan)
    if place is not None:
        positions["workload.demand"] = place
    found = admission(plan)
    if found is None:
        return {}
    from planner.admission.reserve import reserve_of

    workload, mix, progress = found.workload, found.mix, found.progress
    stated = not (workload.lengths_assumed and "concurrency" in workload.assumed)
    # Where nobody has chosen anything, only what holds for the shortest prompts is worth saying.
    prompt = mix.median_start if stated or found.by_hand else mix.shortest_start
    facts: dict[str, Any] = {
        "workload": workload.describe(),
        "mix": workload.describe_lengths(),
        "source": workload.source,
        "stated": stated,
        "deliberate": stated or found.by_hand,
        "lengths_assumed": workload.lengths_assumed,
        "assumed": "assumed " if workload.lengths_assumed else "",
        "running": progress.running,
        "max_num_seqs": found.cache.max_num_seqs,
        "max_num_seqs_given": found.by_hand,
        "copies": found.cache.copies,
        "wanted_risk": workload.risk,
        "risk": progress.overflow.risk,
        "risk_text": percent(progress.overflow.risk),
        "wanted_risk_text": percent(workload.risk),
        "policy": progress.required.policy,
        "blocks": dict(found.bounds),
        "held": progress.required.held,
        "reserved": progress.required.reserved,
        "needed": progress.required.needed,
        "missing": progress.required.missing,
        "available": progress.available,
        "engine_keeps": progress.engine_keeps,
        "preemptions_per_request": round(progress.overflow.preemptions, 4),
        "recomputed_tokens_per_request": round(progress.overflow.recomputed_tokens),
        "most_running": progress.most_running,
        "watermark": progress.watermark,
        "prompts_at_least": int(prompt * found.cache.max_num_seqs) + mix.shared,
        "most_prompts": int(found.capacity.prompts),
        "advice": _advice(plan, found),
    }
    if found.per_copy is not None and found.most_per_copy is not None:
        mean = reserve_of("next-step", found.cache, mix, found.per_copy, workload.risk).held
        needed = reserve_of(mix.policy or "quantile", found.cache, mix, found.most_per_copy, workload.risk)
        facts["demand"] = {
            "in_flight": found.in_flight,
            "per_copy": found.per_copy,
            "mean": mean,
            "needed": needed.needed,
            "missing": needed.missing,
            "copies_needed": _copies_needed(found),
        }
    return facts


def reserve_json(plan: Plan) -> dict[str, Any]:
    """The object ``reserve`` of the contract; empty where it cannot be worked out."""
    found = admission(plan)
    if found is None:
        return {}
    from planner.admission.reserve import outgrowth

    workload, progress, capacity = found.workload, found.progress, found.capacity
    return {
        "workload": {
            "description": workload.describe(),
            "source": workload.source,
            "assumed": list(workload.assumed),
            "in_flight": found.in_flight,
            "prompt_tokens": round(found.mix.prompt_tokens, 1),
            "output_tokens": round(found.mix.output_tokens, 1),
            "shared_prefix_tokens": workload.shared_prefix_tokens,
        },
        "copies": found.cache.copies,
        "running": progress.running,
        "blocks": dict(found.bounds),
        "policy": progress.required.policy,
        "blocks_available": progress.available,
        "blocks_reserved": progress.required.reserved,
        "blocks_held": progress.required.held,
        "blocks_missing": progress.required.missing,
        "policies": {
            policy.policy: {"reserved": policy.reserved, "needed": policy.needed, "missing": policy.missing}
            for policy in progress.policies
        },
        "engine_keeps_blocks": progress.engine_keeps,
        "wanted_risk": workload.risk,
        "risk": {
            # The fewer blocks, the higher the risk.
            bound: round(outgrowth(found.cache, found.mix, found.wanted, found.bounds[blocks])[2].risk, 6)
            for bound, blocks in (("low", "high"), ("expected", "expected"), ("high", "low"))
        },
        "preemptions_per_request": round(progress.overflow.preemptions, 6),
        "recomputed_tokens_per_request": round(progress.overflow.recomputed_tokens, 2),
        "capacity": {
            "full_length_requests": round(capacity.full_length, 2),
            "mix_requests": round(capacity.of_mix, 2),
            "mix_requests_at_risk": capacity.of_mix_at_risk,
            "mix_tokens": capacity.tokens_of_mix,
            "deployment_mix_requests_at_risk": capacity.of_mix_at_risk * found.cache.copies,
            "deployment": {
                "copies": found.cache.copies,
                "blocks": capacity.blocks * found.cache.copies,
                "full_length_requests": round(capacity.full_length * found.cache.copies, 2),
                "mix_requests": round(capacity.of_mix * found.cache.copies, 2),
                "mix_requests_at_risk": capacity.of_mix_at_risk * found.cache.copies,
                "mix_tokens": capacity.tokens_of_mix * found.cache.copies,
            },
        },
        "suggested": {"max_num_seqs": progress.most_running, "watermark": progress.watermark or None},
        "outside_bytes": outside_bytes(plan),
    }


def outside_bytes(plan: Plan) -> dict[str, int] | None:
    """The byte reserve outside the pool, of the rank that has the least: what the engine's share leaves of the device
    once what lives there (context, communicators, graphs that this version does not count) is taken off."""
    if plan.budget is None or not plan.budget.ranks:
        return None
    left = []
    for rank in plan.budget.ranks:
        late = rank.terms["baseline"].bytes if "baseline" in rank.terms else None
        graphs = rank.terms["graphs"]
        spare = rank.bytes("outside")
        if late is not None:
            spare = spare.minus(late)
        if not graphs.counted:
            spare = spare.minus(graphs.bytes)
        left.append(spare)
    least = min(left, key=lambda spare: spare.expected)
    return {"low": least.low, "expected": least.expected, "high": least.high}


def _copies_needed(found: Admission) -> int | None:
    """Engine copies over which the stated demand keeps the reserve; None where one request is already too much."""
    if found.in_flight is None or found.capacity.of_mix_at_risk < 1:
        return None
    return -(-found.in_flight // min(found.capacity.of_mix_at_risk, found.cache.max_num_seqs))


def _advice(plan: Plan, found: Admission) -> str:
    """The settings that keep the reserve, as a sentence."""
    from planner.admission.scheduler_facts import WATERMARK_SINCE

    most = found.progress.most_running
    if most < 1:
        return "No number of requests keeps it: the cache has to grow, or --max-model-len to shrink."
    advice = f"--max-num-seqs {most} keeps it"
    version = plan.effective.version if plan.effective else ()
    if found.progress.watermark and version >= WATERMARK_SINCE:
        advice += f"; so does --watermark {found.progress.watermark:g}, which lets their number float"
    return advice + "; so does a larger cache (utilization, FP8 KV, more GPUs) or a shorter --max-model-len."


def percent(share: float) -> str:
    """A probability for people."""
    if share >= 0.995:
        return "all but certain"
    if share >= 0.095:
        return f"{100 * share:.0f} %"
    return f"{100 * share:.1g} %" if share >= 1e-4 else "below 0.01 %"
