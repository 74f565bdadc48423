"""Variables that Kubernetes injects for the Services of a namespace, where the engine takes one for its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.facts.environment import stated
from planner.facts.flag_tables import TITLES

if TYPE_CHECKING:
    from planner.plan import Plan
    from planner.provenance import Position
    from planner.workloads.objects import Service

#: Variables that engines read a port number from and stop at an address in: vllm/envs.py, get_vllm_port; sglang/srt/utils,
#: get_open_port; the arguments of TGI's launcher, each of which it takes from a variable.
_VARIABLES = {"vllm": ("VLLM_PORT",), "sglang": ("SGLANG_PORT",), "tgi": ("MASTER_PORT", "PROMETHEUS_PORT")}
#: From this release on SGLang warns of a port that is no number, and goes on (srt/environ.py, EnvField.get).
_SGLANG_FORGIVES = (0, 5, 15)
#: Releases of vLLM that take their internal port before the API server binds its own (F286; since then the server's socket is
#: bound first).
_VLLM_TAKES_FIRST = ((0, 5, 0), (0, 6, 2))


def service_variable_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """``colliding_variables``: each with the ``variable``, ``cause`` (what sets it, in words), ``effect`` and ``remedy``."""
    container, pod = plan.container, plan.pod
    if container is None or pod is None or plan.engine.engine not in _VARIABLES:
        return {"colliding_variables": []}
    found: list[dict[str, Any]] = []
    own = stated(plan, "VLLM_PORT")
    if own is not None and own.text and _taken_twice(plan, own.text):
        if own.position is not None:
            positions[f"container.colliding_variables[{len(found)}]"] = own.position
        found.append(
            {
                "variable": "VLLM_PORT",
                "cause": f"VLLM_PORT is set to {own.text.strip()}, the port of the API",
                "effect": "vLLM takes VLLM_PORT for its internal port and binds it first: address already in use",
                "remedy": "Give the variable another name, or another port.",
            }
        )
    if plan.objects is None or (pod.spec is not None and pod.spec.boolean("enableServiceLinks") is False):
        return {"colliding_variables": found}
    reach = plan.objects.reach
    taken = [name for name in _VARIABLES[plan.engine.engine] if stated(plan, name) is None and _reads(plan, name)]
    for variable, service in ((name, service) for name in taken for service in reach.setting(name)):
        if not _injected(plan, service):
            continue
        name = service.node.get("metadata", "name") or service.node
        positions[f"container.colliding_variables[{len(found)}]"] = name.position
        found.append(
            {
                "variable": variable,
                "cause": f"The Service {service.name} makes Kubernetes set {variable}=tcp://… in every pod of its namespace",
                "effect": f"{TITLES[plan.engine.engine]} reads it as a port number of its own and stops at the address",
                "remedy": "Set enableServiceLinks: false in the pod spec, or name the Service otherwise.",
            }
        )
    return {"colliding_variables": found}


def _reads(plan: Plan, variable: str) -> bool:
    """Whether the engine's start fails at ``tcp://10.0.0.1:8000`` in this variable."""
    engine = plan.engine
    if variable == "SGLANG_PORT":
        # Asked for where ranks of one machine share a message queue (shm_broadcast.py).
        several = (engine.get("tp-size") or engine.get("tensor-parallel-size") or 1) > 1
        return several and engine.version_key < _SGLANG_FORGIVES
    if variable == "PROMETHEUS_PORT" and engine.version_key < (3, 3):
        return False
    return variable == "VLLM_PORT" or variable.lower().replace("_", "-") not in engine.flags


def _injected(plan: Plan, service: Service) -> bool:
    """Whether the kubelet sets the variables of a Service in the pod: one with an address, of the same namespace. Files of one
    folder may belong to different clusters; that a Service selects the pod tells that they do not."""
    workload, pod = plan.workload, plan.pod
    if workload is None or pod is None or plan.objects is None:
        return False
    if plan.objects.renamed(service.file):
        return False
    if service.file == workload.document.file:
        # A namespace that only one of them states may still be the same.
        return service.namespace == workload.namespace or not (service.namespace and workload.namespace)
    return service in plan.objects.reach.services_of(pod)


def _taken_twice(plan: Plan, value: str) -> bool:
    engine = plan.engine
    first, last = _VLLM_TAKES_FIRST
    if engine.engine != "vllm" or not first <= engine.version_key < last:
        return False
    port = engine.flags.get("port")
    text = value.strip()
    return text.isascii() and text.isdecimal() and len(text) < 6 and (port.value if port else 8000) == int(text)
