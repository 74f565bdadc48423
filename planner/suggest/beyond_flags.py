"""What flags cannot mend, with numbers: more GPUs, another GPU, a quantized checkpoint, more replicas."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.provenance import Fact, assumed
from planner.units import ceil_div, format_gib

if TYPE_CHECKING:
    from planner.lint.finding import Finding
    from planner.plan import Plan
    from planner.suggest.changes import Trial

#: Tensor parallel sizes that are tried, and the most GPUs of one machine.
_TENSOR_SIZES = (1, 2, 4, 8, 16)
_MOST_GPUS = 16
#: Violations that decide whether the engine starts, or may not.
_START = frozenset(
    ("weights-do-not-fit", "no-kv-cache-memory", "kv-cache-below-one-request", "no-feasible-utilization")
)


def reasons_of(
    trial: Trial, values: Mapping[str, Any], left: Sequence[Finding], keep: Collection[str] = ()
) -> Iterator[str]:
    """Sentences for what is left with these values: what would do, in GPUs, bytes and replicas."""
    plan = trial.plan
    why = _not_evaluated(plan)
    if why:
        yield why
        return
    rules = {finding.rule for finding in left}
    replicas = {finding.rule for finding in left} & {"workload-exceeds-capacity"}
    if replicas:
        yield from _replicas(trial, values)
    if rules - replicas - {"progress-reserve-missing"} or (rules == {"progress-reserve-missing"} and not replicas):
        found = [*_gpus(trial, values), *_device(trial, values), *_quantized(trial, values)]
        yield from found
        if all(finding.severity != "error" for finding in left):
            yield (
                "it may fit as it is: only the unfavourable end of the estimate fails; measure a start and state it as "
                "planner/memory"
            )
        elif not found and not keep:
            yield f"no flag, no number of GPUs up to {_MOST_GPUS} and no accelerator of the catalog was found that mends it"
    if keep:
        yield f"kept as they are: {', '.join(sorted(keep))}"


def _not_evaluated(plan: Plan) -> str:
    for gap in plan.unknown:
        if gap.fact in ("model", "parallel", "engine.memory", "accelerator"):
            return f"not worked out: {gap.reason} ({gap.remedy})"
    return ""


def _fails(trial: Trial, values: Mapping[str, Any], gpus: Fact[int] | None = None) -> bool:
    """Whether a rule about the start is still violated."""
    from planner.suggest.changes import GOALS

    found = trial.findings(values, gpus)
    return any(finding.severity == "error" or finding.rule in _START for finding in found if finding.rule in GOALS)


def _gpus(trial: Trial, values: Mapping[str, Any]) -> Iterator[str]:
    """The fewest GPUs of the same kind that are enough: every pipeline stage and engine copy has as many ranks as the tensor
    parallel size says, which the model's heads and blocks must divide by."""
    from planner.facts.parallel import indivisible_facts

    plan = trial.plan
    now = plan.gpus_per_pod.value if plan.gpus_per_pod else 1
    name = plan.accelerator.name if plan.accelerator else ""
    if not name or plan.pods != 1 or plan.effective is None or not _fails(trial, values):
        return
    most = 0
    for size in _TENSOR_SIZES:
        count = size * plan.effective.parallel.groups
        if not now < count <= _MOST_GPUS:
            continue
        chosen, gpus = {**values, "tensor-parallel-size": size}, assumed(count, "tried")
        tried = trial.plans(chosen, gpus)
        if any(one.effective and indivisible_facts(one, one.effective.parallel) for one in tried):
            continue
        if not _fails(trial, chosen, gpus):
            yield f"needs {count} GPUs of {name} in the pod (--tensor-parallel-size {size}), it has {now}"
            return
        most = count
    if most:
        yield f"not even {most} GPUs of {name} in one pod are enough for it with these flags"


def _device(trial: Trial, values: Mapping[str, Any]) -> Iterator[str]:
    """The smallest device memory that starts it."""
    from planner.engines.dispatch import engine_modules
    from planner.requirement import smallest_device

    plan = trial.plans(values)[0]
    modules = engine_modules(plan.engine.engine)
    if modules is None or plan.model is None:
        return
    requirement = plan.requirement
    if requirement is None:
        requirement = smallest_device(_anywhere(plan), modules, plan.model)
    if requirement is None:
        return
    if not requirement.accelerators:
        yield (
            f"no accelerator of the catalog is large enough for it (the largest, {requirement.largest_name}, has "
            f"{format_gib(requirement.largest_known)})"
        )
        return
    names = ", ".join(requirement.accelerators[:3])
    now = plan.accelerator.memory.expected if plan.accelerator else 0
    if now and requirement.expected <= now:
        return
    yield f"smallest device memory that starts it with as many GPUs: {format_gib(requirement.expected)} ({names} …)"


def _anywhere(plan: Plan) -> Plan:
    """The plan as if nothing named the accelerator."""
    from planner.record import replace

    return replace(plan, choice=None, accelerator=None, budget=None)


def _quantized(trial: Trial, values: Mapping[str, Any]) -> Iterator[str]:
    """Whether weights of eight bits would do."""
    plan = trial.plan
    if plan.model is None or plan.model.quantization or plan.effective is None or plan.effective.quantization:
        return
    if not _fails(trial, values):
        return
    chosen = {**values, "quantization": "fp8"}
    if _fails(trial, chosen):
        return
    weights = max(
        (rank.bytes("weights").expected for one in trial.plans(chosen) if one.budget for rank in one.budget.ranks),
        default=0,
    )
    yield f"a checkpoint in FP8 would start: {format_gib(weights)} of weights on each GPU (--quantization fp8 makes one while it loads)"


def _replicas(trial: Trial, values: Mapping[str, Any]) -> Iterator[str]:
    """The replicas over which the declared demand keeps the reserve."""
    from planner.facts.admission import reserve_facts

    for plan in trial.plans(values):
        demand = reserve_facts(plan, {}).get("demand") or {}
        copies = demand.get("copies_needed")
        data = plan.effective.parallel.data if plan.effective else 1
        if copies:
            replicas = ceil_div(copies, max(1, data))
            gpus = (plan.gpus_per_pod.value if plan.gpus_per_pod else 1) * plan.pods
            where = f" of {plan.accelerator.name}" if plan.accelerator else ""
            now = plan.workload.replicas if plan.workload is not None else None
            yield (
                f"{demand['in_flight']} requests at a time need {replicas} replicas ({replicas * gpus} GPUs{where})"
                + (f", there are {now}" if now else "")
            )
            return
    yield "one request of the declared workload is already too much for one engine copy"
