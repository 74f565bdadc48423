"""A plan in the contract's form (``schemas/plan.schema.json``)."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

from planner.facts.admission import reserve_json
from planner.facts.budget import capacity_facts
from planner.facts.parallel import sizes_of
from planner.facts.places import estimate
from planner.stated import stated_sizes

if TYPE_CHECKING:
    from planner.memory.budget import RankBudget
    from planner.plan import Plan
    from planner.provenance import Fact

#: Terms of a rank in the order of the engine's accounting.
TERMS = ("device", "requested", "weights", "activations", "non_torch", "graphs", "kv_available", "outside")


def plan_json(plan: Plan) -> dict[str, Any]:
    """The plan in the contract's form (``schemas/plan.schema.json``)."""
    engine, model, accelerator = plan.engine, plan.model, plan.accelerator
    workload = plan.workload
    parallel = sizes_of(plan) or stated_sizes(engine)
    result: dict[str, Any] = {
        "workload": None
        if workload is None
        else {
            "kind": workload.kind,
            "name": workload.name,
            "namespace": workload.namespace,
            "file": workload.document.file,
            "line": workload.document.root.position.line,
        },
        "container": plan.container.name if plan.container else None,
        "engine": {
            "name": engine.engine,
            "version": engine.version.value,
            "version_source": str(engine.version.provenance),
            "flags": {name: _finite(flag.value) if flag.known else flag.raw for name, flag in engine.flags.items()},
            "effective": _effective(plan),
        },
        "model": {
            "id": model.id if model else (engine.model.value if engine.model else None),
            "reference": engine.model.value if engine.model else None,
            "architecture": model.architecture if model else None,
            "parameters": model.parameters if model else None,
            "known": model is not None,
            "source": str(plan.model_provenance) if plan.model_provenance else None,
        },
        "accelerator": {
            "name": accelerator.name if accelerator else (plan.choice.named or None if plan.choice else None),
            "memory_bytes": accelerator.memory.expected if accelerator else None,
            "known": accelerator is not None,
        },
        "gpus_per_pod": plan.gpus_per_pod.value if plan.gpus_per_pod else None,
        "pods": plan.pods,
        "parallel": {
            "tensor": parallel.tensor,
            "pipeline": parallel.pipeline,
            "data": parallel.data,
            "expert": parallel.expert,
            "context": parallel.context,
        }
        if parallel
        else None,
        "ranks": [_rank_json(rank) for rank in plan.budget.ranks] if plan.budget else [],
        "capacity": _capacity_json(plan),
        "reserve": reserve_json(plan),
        "verdict": plan.verdict,
        "notes": list(plan.budget.notes) if plan.budget else [],
        "unknown": [{"fact": gap.fact, "reason": gap.reason, "remedy": gap.remedy} for gap in plan.unknown],
    }
    if plan.requirement is not None:
        need = plan.requirement
        result["smallest_device"] = {
            "memory_bytes": {"low": need.low, "expected": need.expected, "high": need.high},
            "accelerators": list(need.accelerators),
        }
    return result


def _finite(value: Any, depth: int = 0) -> Any:
    """A flag's value as JSON has it: Python reads ``NaN`` and ``Infinity`` in a JSON argument, but JSON has no such
    numbers. What is nested too deeply for other readers is left out."""
    if isinstance(value, dict):
        return {str(key): _finite(item, depth + 1) for key, item in value.items()} if depth < 32 else None
    if isinstance(value, (list, tuple)):
        return [_finite(item, depth + 1) for item in value] if depth < 32 else None
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def _effective(plan: Plan) -> dict[str, Any]:
    config = plan.effective
    if config is None:
        return {}
    found: dict[str, Any] = {}
    for name in (
        "dtype", "kv_cache_dtype", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization",
        "block_size", "enforce_eager", "chunked_prefill", "prefix_caching", "hybrid_kv_cache_manager", "async_scheduling",
        "kv_cache_memory_bytes", "num_gpu_blocks_override",
    ):  # fmt: skip
        fact: Fact[Any] | None = getattr(config, name)
        if fact is not None:
            found[name] = {"value": fact.value, "source": str(fact.provenance)}
    for name, fact in config.own:
        found.setdefault(name, {"value": fact.value, "source": str(fact.provenance)})
    return found


def other_terms(terms: Mapping[str, Any]) -> list[str]:
    """Terms that only some engines or models have (window and state pools, a draft model), in the budget's order."""
    return [name for name in terms if name not in (*TERMS, "baseline")]


def _rank_json(rank: RankBudget) -> dict[str, Any]:
    kv = rank.kv
    return {
        "rank": rank.rank,
        "pod": rank.pod,
        "gpu": rank.gpu,
        "tensor_rank": rank.tensor_rank,
        "pipeline_rank": rank.pipeline_rank,
        "memory": {name: estimate(rank.terms[name].bytes) for name in (*TERMS, *other_terms(rank.terms))},
        "kv": None
        if kv is None
        else {
            "block_size": kv.block_size,
            "num_blocks": rank.num_blocks.expected if rank.num_blocks else None,
            "page_bytes": kv.page_bytes,
            "bytes_per_block": kv.bytes_per_block,
            "bytes_per_token": kv.bytes_per_token,
            "groups": [group._asdict() for group in kv.groups],
        },
    }


def _capacity_json(plan: Plan) -> dict[str, Any] | None:
    facts: Mapping[str, Any] = capacity_facts(plan)
    if not facts or plan.effective is None:
        return None
    fitted = plan.budget.fitted_length if plan.budget else None
    return {
        "kv_tokens": facts["kv_tokens"],
        "max_model_len": fitted.expected if fitted else plan.effective.max_model_len.value,
        "max_num_seqs": plan.effective.max_num_seqs.value,
        "max_concurrency": facts["max_concurrency"],
        "longest_request": facts["longest_request"],
        "blocks": facts["blocks"],
        "bytes_per_request": facts["bytes_per_request"],
    }
