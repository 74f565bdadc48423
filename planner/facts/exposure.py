"""Whether the engine's API can be called from outside of the cluster, and whether it then asks for a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.facts.environment import stated, unseen
from planner.facts.ports import engine_port, serves
from planner.provenance import Unknown

if TYPE_CHECKING:
    from planner.plan import Plan
    from planner.provenance import Position
    from planner.workloads.objects import Service

#: Where engines take their key from, beside ``--api-key``: vllm/envs.py; TGI's launcher.
_KEYS = {"vllm": "VLLM_API_KEY", "tgi": "API_KEY", "sglang": ""}


def exposure_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """``openings``: ways from outside of the cluster to the engine's own port (``through`` in words), with the ``option`` that
    sets a key; empty where there is a key, and absent where variables that are not among the inputs may hold one."""
    engine, container, pod = plan.engine, plan.container, plan.pod
    variable = _KEYS.get(engine.engine)
    if variable is None or container is None or pod is None or plan.objects is None or not serves(plan):
        return {"openings": []}
    key = stated(plan, variable) if variable else None
    if "api-key" in engine.flags or (key is not None and key.maybe_set):
        return {"openings": []}
    for service in plan.objects.reach.services_of(pod):
        if not _to_the_engine(plan, service):
            continue
        for opening in plan.objects.reach.openings_of(service):
            if variable and unseen(plan):
                return {}
            positions["container.openings[0]"] = (opening.node.get("metadata", "name") or opening.node).position
            option = f"--api-key (or {variable} from a Secret)" if variable else "--api-key"
            return {"openings": [{"through": f"{opening.kind} {opening.name}", "option": option}]}
    return {"openings": []}


def exposure_gaps(plan: Plan, facts: dict[str, Any]) -> tuple[Unknown, ...]:
    """Why it is not known whether there is a key."""
    if plan.container is None or "openings" in facts.get("container", {}):
        return ()
    reason = f"{unseen(plan)} and may define a key"
    return (Unknown("container.api_key", reason, "lint the file that defines it along", plan.position),)


def _to_the_engine(plan: Plan, service: Service) -> bool:
    """Whether a Service leads to the engine itself, and not to a proxy beside it."""
    pod, container = plan.pod, plan.container
    port = engine_port(plan)
    if pod is None or container is None or port is None:
        return True
    named = {name: number for other in pod.containers for name, number in other.ports if name}
    for item in service.ports:
        target = named.get(item.target, int(item.target) if item.target.isdecimal() and len(item.target) < 6 else 0)
        if target == port.value:
            return True
    return False
