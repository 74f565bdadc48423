"""Facts of a KV cache of one byte per element: whether it would solve what is wrong. The plan is made once more with it, and
only where something is wrong that a larger cache can solve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.plan import Plan

#: One byte per element, the better format first; Ampere has kernels for the second alone.
_DTYPES = ("fp8", "fp8_e5m2")
_WIDE = ("auto", "bfloat16", "float16")


def quantized_cache_facts(plan: Plan, facts: dict[str, Any]) -> dict[str, Any]:
    """``capacity.quantized``: ``dtype`` and ``solves`` (what would be right with it, as text) of the cache in FP8; empty
    where nothing that more cache solves is wrong, where it is in FP8 already, or where the device has no kernels for it.

    ``facts``: the other variables of rules, from which the violations are told.
    """
    config, budget = plan.effective, plan.budget
    if plan.engine.engine != "vllm" or config is None or budget is None or budget.capacity is None:
        return {}
    if config.kv_cache_dtype.value not in _WIDE or config.num_gpu_blocks_override is not None:
        return {}
    if any(rank.bytes("kv_available").expected <= 0 for rank in budget.ranks):
        return {}
    wrong = _wrong(plan, facts["capacity"], facts["reserve"])
    if not wrong:
        return {}
    from planner.facts.formats import format_facts
    from planner.replan import with_flag

    for dtype in _DTYPES:
        other = with_flag(plan, "kv-cache-dtype", dtype)
        if other is None or other.budget is None or other.budget.capacity is None:
            continue
        problem = format_facts(other, {}).get("kv_cache_dtype_problem")
        if problem is None or problem["text"]:
            continue
        solved = _solved(other, wrong)
        if not solved:
            return {}
        return {
            "dtype": dtype,
            "solves": "; ".join(solved) + _engine_change(plan, other),
            "kv_tokens": other.budget.capacity.kv_tokens.expected,
        }
    return {}


def _engine_change(plan: Plan, other: Plan) -> str:
    """What else the format changes: releases from 0.8 to 0.10 have it in the V0 engine alone on many devices."""
    before, after = plan.effective, other.effective
    if before is None or after is None or before.runner == after.runner or after.runner != "v0":
        return ""
    return f" (vLLM {plan.engine.version.value} falls back to its V0 engine for it)"


def _wrong(plan: Plan, capacity: dict[str, Any], reserve: dict[str, Any]) -> dict[str, str]:
    """What a larger cache can solve (``request``, ``unset``, ``demand``, ``reserve``), each with what would then be right."""
    found: dict[str, str] = {}
    config, budget = plan.effective, plan.budget
    if config is None or budget is None or budget.capacity is None:
        return found
    length = config.max_model_len.value
    if not config.max_model_len_auto and budget.capacity.longest_request.low < length:
        found["request"] = f"one request of {length:,} tokens fits"
    if "max-model-len" not in plan.engine.flags and capacity.get("max_concurrency", {}).get("expected", 2.0) < 2.0:
        found["unset"] = f"two requests of the model's {length:,} tokens fit"
    demand = reserve.get("demand") if reserve.get("stated") else None
    if demand and demand["missing"] > 0:
        found["demand"] = f"{demand['in_flight']:,} requests at a time keep the reserve that lets them finish"
    elif reserve.get("deliberate") and reserve["missing"] > 0:
        found["reserve"] = f"{reserve['running']:,} requests at a time keep the reserve that lets them finish"
    return found


def _solved(other: Plan, wrong: dict[str, str]) -> list[str]:
    """What of it is right in the other plan."""
    from planner.facts.admission import reserve_facts
    from planner.facts.budget import capacity_facts

    still = _wrong(other, capacity_facts(other), reserve_facts(other, {}) if {"demand", "reserve"} & set(wrong) else {})
    return [text for name, text in wrong.items() if name not in still]
