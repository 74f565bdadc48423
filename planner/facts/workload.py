"""Facts of the workload and its pod template."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.facts.places import key_position
from planner.facts.rollout import rollout_facts
from planner.provenance import Position

if TYPE_CHECKING:
    from planner.plan import Plan


#: Kinds whose pod template becomes the pod as it is written. Operators of other kinds add to it: volumes, probes, GPUs.
_TAKEN_AS_WRITTEN = frozenset(
    [
        "Pod",
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "ReplicaSet",
        "ReplicationController",
        "Job",
        "CronJob",
        "PodTemplate",
        "LeaderWorkerSet",
        "StormService",
        "RoleBasedGroup",
        "ModelServing",
        "Rollout",
        "DeploymentConfig",
        "JobSet",
    ]
)


def workload_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    workload = plan.workload
    if workload is None:
        return {}
    positions["workload"] = key_position(workload.document.root, "kind") or workload.node.position
    facts: dict[str, Any] = {
        "kind": workload.kind,
        "name": workload.name,
        "namespace": workload.namespace,
        "group_size": workload.group_size,
        # a container without an image is a patch of another manifest, which has what this one lacks
        "as_written": workload.kind in _TAKEN_AS_WRITTEN
        and (plan.container is None or plan.container.image is not None),
    }
    if workload.replicas is not None:
        facts["replicas"] = workload.replicas
    return facts | rollout_facts(plan, positions)


def pod_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    pod = plan.pod
    if pod is None:
        return {}
    node = pod.node
    positions["pod"] = node.position
    for path, keys in (("pod.node_selector", ("nodeSelector",)), ("pod.volumes", ("volumes",))):
        place = key_position(node, *keys) or key_position(node, "spec", *keys)
        if place:
            positions[path] = place
    return {"role": pod.role, "host_ipc": pod.host_ipc, "runtime_class": pod.runtime_class, "pods": plan.pods}
