"""How a workload's pods are replaced: whether a new one needs a GPU before an old one gives its own back, how long the rollout
may take, and how long an old pod has to end its requests."""

from __future__ import annotations

import re
from math import ceil, floor
from typing import TYPE_CHECKING, Any

from planner.facts.places import key_position
from planner.record import NamedTuple

if TYPE_CHECKING:
    from planner.documents.node import Node
    from planner.plan import Plan
    from planner.provenance import Position
    from planner.workloads.workload import Container, Pod, Workload

#: Where kinds keep how they roll: (node of the strategy, key of the numbers in it, value of ``type`` that rolls, defaults of
#: surge and unavailable). Sources: SetDefaults_Deployment in kubernetes/pkg/apis/apps/v1/defaults.go; the API documentation
#: of DeploymentConfig, LeaderWorkerSet and LLMInferenceService, whose pods are those of a Deployment.
_STRATEGIES: dict[str, tuple[tuple[str, ...], str, str, tuple[str, str]]] = {
    "Deployment": (("spec", "strategy"), "rollingUpdate", "RollingUpdate", ("25%", "25%")),
    "DeploymentConfig": (("spec", "strategy"), "rollingParams", "Rolling", ("25%", "25%")),
    "LLMInferenceService": (("spec", "rolloutStrategy"), "", "", ("25%", "25%")),
    "LeaderWorkerSet": (("spec", "rolloutStrategy"), "rollingUpdateConfiguration", "RollingUpdate", ("0", "1")),
}
#: Seconds after which a Deployment is said to have failed (progressDeadlineSeconds), and DeploymentConfig's timeoutSeconds.
_DEADLINE = 600
#: Kinds whose old pods end while others take over. Pods of jobs end by themselves.
_SERVING = frozenset(
    ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "LeaderWorkerSet", "DeploymentConfig", "Rollout", "JobSet",
     "RoleBasedGroup", "StormService", "ModelServing", "InferenceService", "LLMInferenceService",
     "LLMInferenceServiceConfig"]
)  # fmt: skip
_NUMBER = r"(?a)\d{1,6}(\.\d{1,3})?"


def rollout_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """``rollouts``: how the pods are replaced (``surge``, ``unavailable``, the ``gpus`` of the surge and their ``resource``,
    ``strategy`` in words); ``deadlines``: seconds that a rollout may take (``deadline``, its ``name``), against ``window``
    (what the startup probe allows, 0 without one). Each is empty where there is nothing to say of the kind."""
    workload, container = plan.workload, plan.container
    if workload is None or container is None:
        return {"rollouts": [], "deadlines": []}
    return {
        "rollouts": _rollouts(plan, workload, positions),
        "deadlines": _deadlines(workload, container, positions),
    }


class _Strategy(NamedTuple):
    """How a workload rolls: ``path`` of its strategy, the texts of surge and unavailable (numbers or shares of the replicas),
    whether the manifest states any of it, and the replicas (None where they are not known)."""

    path: tuple[str, ...]
    surge: str
    unavailable: str
    written: bool
    replicas: int | None


def _strategy(workload: Workload) -> _Strategy | None:
    """How a workload's pods are replaced; None where none are, or where the kind or its strategy is not known."""
    known = _STRATEGIES.get(workload.kind)
    if known is None or (workload.kind == "LLMInferenceService" and workload.group_size > 1):
        return None
    path, key, rolling, defaults = known
    if workload.part == "prefill":
        path = ("spec", "prefill", *path[1:])
    strategy = workload.node.get(*path)
    kind = strategy.string("type") if strategy is not None else None
    if rolling and kind not in (None, rolling):
        return None
    numbers = strategy.get(key) if strategy is not None and key else strategy
    surge, unavailable = [
        (numbers.string(name) if numbers is not None else None) or default
        for name, default in zip(("maxSurge", "maxUnavailable"), defaults, strict=True)
    ]
    replicas = workload.replicas
    if replicas is None and workload.max_replicas is not None:
        replicas = workload.min_replicas or 1
    if replicas == 0:
        return None
    written = strategy is not None and (numbers is not None or kind is not None)
    return _Strategy(path, surge, unavailable, written, replicas)


def surges(workload: Workload) -> bool:
    """Whether a rolling update certainly starts a new pod before it stops an old one: any share of the replicas is rounded
    up to one."""
    found = _strategy(workload)
    return found is not None and bool(_of(found.surge, found.replicas or 1, ceil))


def surge_remedy(workload: Workload) -> str:
    """What to set so that an old pod is stopped first."""
    return _REMEDIES.get(workload.kind, _REMEDIES[""])


def _rollouts(plan: Plan, workload: Workload, positions: dict[str, Position]) -> list[dict[str, Any]]:
    gpus = plan.gpus_per_pod.value if plan.gpus_per_pod else 0
    found = _strategy(workload) if gpus and plan.gpu_kind not in ("shared", "vgpu") else None
    if found is None:
        return []
    surge, unavailable = _of(found.surge, found.replicas, ceil), _of(found.unavailable, found.replicas, floor)
    if surge is None or unavailable is None:
        return []
    if surge == 0 and unavailable == 0:
        unavailable = 1  # as the Deployment controller has it where rounding leaves nothing
    place = key_position(workload.node, *found.path) or positions.get("workload")
    if place is not None:
        positions["workload.rollouts[0]"] = place
    return [
        {
            "surge": surge,
            "unavailable": unavailable,
            "gpus": surge * gpus * workload.group_size,
            "resource": plan.gpu_resource or "GPU(s)",
            "strategy": "The strategy" if found.written else "The default strategy, a rolling update of 25 %,",
            "remedy": surge_remedy(workload),
        }
    ]


_REMEDIES = {
    "LLMInferenceService": "rolloutStrategy.maxSurge: 0 and maxUnavailable: 1",
    "LeaderWorkerSet": "maxSurge: 0 in rollingUpdateConfiguration",
    "DeploymentConfig": "strategy.type: Recreate, or rollingParams with maxSurge: 0 and maxUnavailable: 1",
    "": "strategy.type: Recreate, or rollingUpdate with maxSurge: 0 and maxUnavailable: 1",
}


def _of(text: str, replicas: int | None, rounded: Any) -> int | None:
    """A number or a percentage of the replicas; None where it is not known."""
    share = text.strip()
    if not share.endswith("%"):
        return int(float(share)) if re.fullmatch(_NUMBER, share) else None
    if replicas is None or not re.fullmatch(_NUMBER, share[:-1]):
        return None
    return int(rounded(float(share[:-1]) * replicas / 100))


def _deadlines(workload: Workload, container: Container, positions: dict[str, Position]) -> list[dict[str, Any]]:
    stated: Node | None = None
    if workload.kind in ("Deployment", "LLMInferenceService") and workload.group_size == 1:
        # LLMInferenceService makes Deployments with the default; a field for it is kserve/kserve's pull request 5834.
        path = ("spec", *(("prefill",) if workload.part == "prefill" else ()), "progressDeadlineSeconds")
        stated, name = workload.node.get(*path), path[-1]
        deadline = workload.node.integer(*path)
    elif workload.kind == "DeploymentConfig":
        stated, name = workload.node.get("spec", "strategy", "rollingParams", "timeoutSeconds"), "timeoutSeconds"
        deadline = workload.node.integer("spec", "strategy", "rollingParams", "timeoutSeconds")
    elif workload.kind == "InferenceService" and workload.api_version.startswith("serving.kserve.io/"):
        key = "serving.knative.dev/progress-deadline"
        stated, name = workload.node.get("metadata", "annotations", key), f"the annotation {key}"
        deadline = _seconds(stated.text) if stated is not None else None
    else:
        return []
    if stated is not None and deadline is None:
        return []  # a placeholder
    probe = container.probes.get("startup")
    place = (stated.position if stated is not None else None) or positions.get("workload")
    if place is not None:
        positions["workload.deadlines[0]"] = place
    window = probe.window if probe is not None and not probe.unknown else 0
    return [
        {
            "deadline": _DEADLINE if deadline is None else deadline,
            "name": name,
            "said": "" if stated is not None else " (the default)",
            "window": window,
        }
    ]


def _seconds(text: str) -> int | None:
    """Seconds of a Go duration such as ``600s``, ``30m`` or ``1h30m``."""
    if not re.fullmatch(r"(?a)(\d{1,7}[hms])+", text.strip()):
        return None
    factors = {"h": 3600, "m": 60, "s": 1}
    return sum(int(number) * factors[unit] for number, unit in re.findall(r"(?a)(\d{1,7})([hms])", text))


def termination_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """``terminations``: seconds between the end of a pod and SIGKILL (``grace``, ``stated`` where the manifest says it), and
    what of them the preStop hook sleeps (``pre_stop``) and the engine's own shutdown may take (``drain``)."""
    workload, pod, container = plan.workload, plan.pod, plan.container
    if workload is None or pod is None or container is None or pod.spec is None or workload.kind not in _SERVING:
        return {"terminations": []}
    field = pod.spec.get("terminationGracePeriodSeconds")
    grace = 30 if field is None else pod.spec.integer("terminationGracePeriodSeconds")
    if grace is None:
        return {"terminations": []}
    hook = container.node.get("lifecycle", "preStop")
    slept = _slept(hook) if hook is not None else 0
    drain = plan.engine.get("shutdown-timeout")
    drain = int(drain) if isinstance(drain, (int, float)) and not isinstance(drain, bool) else 0
    place = key_position(pod.spec, "terminationGracePeriodSeconds")
    place = place or (hook.key_position if hook is not None else positions.get("container.name"))
    if place is not None:
        positions["container.terminations[0]"] = place
    item = {
        "grace": grace,
        "stated": field is not None,
        "hook": hook is not None,
        "pre_stop": slept,
        "drain": drain,
        "served": _served(plan, pod, container),
    }
    return {"terminations": [item]}


def _served(plan: Plan, pod: Pod, container: Container) -> bool:
    """Whether requests reach the pod that a rollout would cut off: a Service selects it, or it says when it is ready."""
    if "readiness" in container.probes:
        return True
    return plan.objects is not None and bool(plan.objects.reach.services_of(pod))


def _slept(hook: Node) -> int:
    """Seconds that a preStop hook sleeps for sure; 0 where it does something else."""
    native = hook.integer("sleep", "seconds")
    if native is not None:
        return native
    command = hook.get("exec", "command")
    words = " ".join(item.text for item in command or ())
    found = re.findall(r"(?a)\bsleep\s+(\d{1,5})(?![\d.]*[mhd])\b", words[:10_000])
    # A sleep inside of a loop or behind a condition is none to count on.
    return int(found[0]) if len(found) == 1 and not re.search(r"\b(while|until|for|if)\b|\|\||&&\s*exit", words) else 0
