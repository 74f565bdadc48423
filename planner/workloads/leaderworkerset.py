"""LeaderWorkerSet (leaderworkerset.x-k8s.io): groups of one leader and ``size`` - 1 workers, ``replicas`` times."""

from __future__ import annotations

from planner.documents.document import Document
from planner.workloads import fields as f
from planner.workloads.core import descend, workload
from planner.workloads.fields import Reading
from planner.workloads.pod_template import has_containers, read_pod
from planner.workloads.references import Injected
from planner.workloads.workload import Pod, Workload


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The workload of a LeaderWorkerSet; none where neither template lists containers.

    Without ``leaderTemplate`` the worker template makes the leader too; ``size`` and ``replicas`` are 1 by default
    (sigs.k8s.io/lws/api/leaderworkerset/v1, LeaderWorkerTemplate and LeaderWorkerSetSpec).
    """
    group = descend(document.root, ("spec", "leaderWorkerTemplate"), reading)
    if group is None:
        return []
    worker = descend(group, ("workerTemplate",), reading)
    leader = descend(group, ("leaderTemplate",), reading) or worker
    root = f.entries(document.root)
    metadata = f.mapping(root, "metadata", reading)
    annotations = f.string_map(metadata, "annotations", reading)
    size = f.integer(f.entries(group), "size", reading, 1)
    pods: list[Pod] = []
    for template, role, count in ((leader, "leader", 1), (worker, "worker", 1 if size is None else size - 1)):
        if template is not None and has_containers(template) and count > 0:
            pods.append(
                read_pod(
                    template,
                    document.namespace,
                    document.file,
                    reading,
                    role=role,
                    count=count,
                    annotations=annotations,
                    injected=injected(role, size),
                )
            )
    if not pods:
        return []
    replicas = f.integer(f.mapping(root, "spec", reading), "replicas", reading, 1)
    return [
        workload(
            document,
            kind,
            tuple(pods),
            replicas,
            annotations,
            metadata,
            reading,
            group_size=max(size, 1) if size is not None else len(pods),
            group_size_known=size is not None,
        )
    ]


def injected(role: str, size: int | None) -> tuple[Injected, ...]:
    """What LeaderWorkerSet's pod webhook puts before the container's own variables (AddLWSVariables in sigs.k8s.io/lws
    pkg/utils/pod/pod_utils.go), for the sets that other operators make too. The leader has index 0, the workers count
    from 1."""
    if size is None:
        size_variable = Injected("LWS_GROUP_SIZE", None, "the size of the group, which is a placeholder here")
    else:
        size_variable = Injected("LWS_GROUP_SIZE", str(size))
    if role == "leader":
        index = Injected("LWS_WORKER_INDEX", "0")
    elif size == 2:
        index = Injected("LWS_WORKER_INDEX", "1")
    else:
        index = Injected("LWS_WORKER_INDEX", None, "another number on each worker of the group")
    return Injected("LWS_LEADER_ADDRESS", None, "the host name of the group's leader"), size_variable, index
