"""Whether a pod may land on the GPU nodes that it selects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.plan import Plan
    from planner.provenance import Position
    from planner.workloads.workload import Pod

#: Vendors' taints on their nodes, by the resource that a pod asks for there.
_TAINTS = {"nvidia.com": "nvidia.com/gpu", "amd.com": "amd.com/gpu", "habana.ai": "habana.ai/gaudi"}
#: Label keys of platforms that add the toleration of a GPU's taint to every pod that asks for its resource (GKE), or that do
#: not taint their GPU nodes (CoreWeave, Volcano Engine, Alibaba Cloud, EKS Auto Mode's and Karpenter's defaults).
_ADDED_BY = (
    "cloud.google.com/", "gpu.nvidia.com/", "machine.cluster.vke.volcengine.com/", "aliyun.accelerator/",
    "eks.amazonaws.com/", "karpenter.sh/", "karpenter.k8s.aws/", "karpenter.azure.com/",
)  # fmt: skip


def scheduling_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """``missing_toleration``: the taint that GPU nodes usually carry and the pod does not tolerate, empty where it does,
    tolerates taints of its own choice, or selects no nodes by their GPU."""
    pod = plan.pod
    if pod is None:
        return {}
    taint = _TAINTS.get(plan.gpu_resource.partition("/")[0], "")
    key, place = _selected_by(pod)
    if place is not None:
        positions.setdefault("pod.gpu_selector", place)
    missing = taint if taint and key and not pod.tolerations and not _added(pod) else ""
    return {"missing_toleration": missing, "gpu_selector": key}


def _selected_by(pod: Pod) -> tuple[str, Position | None]:
    """The selector that ties the pod to nodes with a GPU, and its place."""
    from planner.accelerators.label_keys import meaning

    for key, fact in pod.node_selector.items():
        if meaning(key, fact.value) is not None:
            return key, fact.position
    for term in pod.affinity:
        for key, operator, values, place in term:
            if operator == "In" and any(meaning(key, value) is not None for value in values):
                return key, place
    return "", None


def _added(pod: Pod) -> bool:
    keys = [*pod.node_selector, *(key for term in pod.affinity for key, *_ in term)]
    return any(key.startswith(_ADDED_BY) for key in keys)
