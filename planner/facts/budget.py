"""Facts of the memory budget: ranks and capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.facts.places import estimate
from planner.facts.sampler import sampler_facts
from planner.facts.utilization import free_at_start_facts, utilization_facts

if TYPE_CHECKING:
    from planner.memory.budget import RankBudget
    from planner.plan import Plan
    from planner.provenance import Position


def budget_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """The variable ``budget`` of rules."""
    budget = plan.budget
    if budget is None or not budget.ranks:
        return {"verdict": "unknown"}
    for name, flag in plan.engine.flags.items():
        if f"--{name}" in budget.refused and flag.position is not None:
            positions["budget.refused"] = flag.value_position or flag.position
    facts: dict[str, Any] = {"verdict": budget.verdict, "ranks": []}
    seen = set()
    for rank in budget.ranks:
        if rank.pipeline_rank in seen:
            continue
        seen.add(rank.pipeline_rank)
        facts["ranks"].append(_rank(plan, rank))
    facts["utilization"] = utilization_facts(plan)
    facts["multimodal"] = {}
    if plan.model is not None and plan.model.multimodal:
        from planner.facts.multimodal import multimodal_facts

        facts["multimodal"] = multimodal_facts(plan)
    return facts


def _rank(plan: Plan, rank: RankBudget) -> dict[str, Any]:
    memory = {name: estimate(term.bytes) for name, term in rank.terms.items()}
    late = rank.terms["baseline"].bytes
    graphs = rank.terms["graphs"]
    if not graphs.counted:
        late = late.plus(graphs.bytes)
    memory["late"] = estimate(late)
    facts: dict[str, Any] = {
        "rank": rank.rank,
        "pipeline_rank": rank.pipeline_rank,
        "memory": memory,
        "graphs_counted": graphs.counted,
        "free_at_start": free_at_start_facts(plan, rank),
        "sampler": sampler_facts(plan, rank),
        "stated_cache": _stated_cache(plan, rank),
        "cacheless": getattr(plan.effective, "kv_disabled", False),
        "refused": plan.budget.refused if plan.budget is not None else "",
    }
    if rank.kv is not None:
        facts["bytes_per_request"] = rank.kv.blocks_per_request * rank.kv.bytes_per_block
        facts["block_size"] = rank.kv.block_size
    if plan.effective is not None:
        facts["label"] = (
            f"each rank of pipeline stage {rank.pipeline_rank}" if plan.effective.parallel.pipeline > 1 else "each rank"
        )
    return facts


def _stated_cache(plan: Plan, rank: RankBudget) -> dict[str, Any]:
    """A cache whose size somebody states in bytes (``size``), and the ``room`` for it on the device; empty for none. The engine
    takes the size at its word and runs out of memory where it is not there."""
    config = plan.effective
    if plan.engine.engine != "vllm" or config is None or config.kv_cache_memory_bytes is None:
        return {}
    room = rank.bytes("device")
    for name in ("baseline", "weights", "non_torch", "activations"):
        room = room.minus(rank.bytes(name))
    return {"size": config.kv_cache_memory_bytes.value, "room": estimate(room)}


def capacity_facts(plan: Plan) -> dict[str, Any]:
    capacity = plan.budget.capacity if plan.budget else None
    if capacity is None:
        return {}
    low, expected, high = capacity.max_concurrency
    return {
        "kv_tokens": estimate(capacity.kv_tokens),
        "blocks": estimate(capacity.blocks),
        "longest_request": estimate(capacity.longest_request),
        "length_advice": _length_advice(capacity.longest_request.low),
        "other_ways": _other_ways(plan, capacity.longest_request.low),
        "bytes_per_request": capacity.bytes_per_request,
        "max_concurrency": {"low": low, "expected": expected, "high": high},
    }


def _length_advice(length: int) -> str:
    """What to set --max-model-len to: down to a multiple of 1024, or of 16 for short ones, as people would write it."""
    step = 1024 if length >= 2048 else 16
    rounded = max(0, length // step * step)
    return f"Set --max-model-len {rounded} or less, which surely fits." if rounded else "No length surely fits."


def _other_ways(plan: Plan, longest: int) -> str:
    """What else makes room for a longer request, where it does not fit: a larger share only where one works."""
    if plan.effective is None or longest >= plan.effective.max_model_len.value:
        return ""
    utilization = utilization_facts(plan)
    higher = utilization and utilization["least"]["expected"] <= utilization["most"]["expected"]
    ways = ["quantize the KV cache", "use more GPUs"]
    if higher or not utilization:
        ways.insert(0, f"raise --{utilization.get('flag', 'gpu-memory-utilization')}")
    return f"Or {', '.join(ways[:-1])}{',' if len(ways) > 2 else ''} or {ways[-1]}."
