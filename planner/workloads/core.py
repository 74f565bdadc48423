"""The kinds of Kubernetes itself that run pods: Pod, Deployment, StatefulSet, DaemonSet, ReplicaSet,
ReplicationController, Job, CronJob and PodTemplate."""

from __future__ import annotations

from planner.documents.document import Document
from planner.documents.node import Node
from planner.provenance import Fact
from planner.workloads import fields as f
from planner.workloads.fields import Reading
from planner.workloads.pod_template import has_containers, read_pod
from planner.workloads.workload import Pod, Workload

#: Where the pod template stands, for the kinds that keep it elsewhere than in ``spec.template``.
_TEMPLATE_PATHS: dict[str, tuple[str, ...]] = {
    "Pod": (),
    "PodTemplate": ("template",),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The workload of a document of one of the kinds above; none where it lists no containers (a patch)."""
    template = descend(document.root, _TEMPLATE_PATHS.get(kind, ("spec", "template")), reading)
    if template is None or not has_containers(template):
        return []
    root = f.entries(document.root)
    spec = f.mapping(root, "spec", reading)
    metadata = f.mapping(root, "metadata", reading)
    annotations = f.string_map(metadata, "annotations", reading)
    if kind == "CronJob":
        job = f.mapping(spec, "jobTemplate", reading)
        annotations = {**annotations, **f.string_map(f.mapping(job, "metadata", reading), "annotations", reading)}
        replicas = _parallelism(f.mapping(job, "spec", reading), reading)
    elif kind == "Job":
        replicas = _parallelism(spec, reading)
    elif kind == "Pod":
        replicas = 1
    elif kind in ("DaemonSet", "PodTemplate"):  # as many as there are nodes, and as somebody else makes of it
        replicas = None
    else:
        replicas = f.integer(spec, "replicas", reading, 1)
    claims = f.sequence(spec, "volumeClaimTemplates", reading) if kind == "StatefulSet" else []
    pod = read_pod(
        template, document.namespace, document.file, reading, annotations=annotations, claim_templates=claims
    )
    return [workload(document, kind, (pod,), replicas, annotations, metadata, reading)]


def descend(root: Node, path: tuple[str, ...], reading: Reading) -> Node | None:
    """The mapping under a path; None where there is none, and a problem where something else stands on the way."""
    node = root
    for key in path:
        inner = node.get(key)
        if inner is None:
            return None
        if inner.kind != "mapping":
            f.mapping({key: inner}, key, reading)
            return None
        node = inner
    return node


def workload(
    document: Document,
    kind: str,
    pods: tuple[Pod, ...],
    replicas: int | None,
    annotations: dict[str, Fact[str]],
    metadata: dict[str, Node],
    reading: Reading,
    *,
    group_size: int = 1,
    group_size_known: bool = True,
    part: str = "",
    connected: bool = False,
) -> Workload:
    """A workload of read pods: what every kind shares. An autoscaler that targets it makes ``replicas`` None; the
    annotations are the object's with those of the pod templates over them (the first pod's win)."""
    for pod in reversed(pods):
        annotations = {**annotations, **pod.annotations}
    scaler = reading.objects.autoscaler(kind, document.name, document.namespace, document.file).found
    labels = {name: label.value for name, label in f.string_map(metadata, "labels", reading).items()}
    return Workload(
        kind=kind,
        api_version=document.api_version,
        name=document.name,
        namespace=document.namespace,
        document=document,
        node=document.root,
        annotations=annotations,
        pods=pods,
        replicas=None if scaler else replicas,
        group_size=group_size,
        spec=document.root.get("spec"),
        labels=labels,
        min_replicas=scaler.min_replicas if scaler else None,
        max_replicas=scaler.max_replicas if scaler else None,
        group_size_known=group_size_known,
        part=part,
        connected=connected,
    )


def _parallelism(spec: dict[str, Node], reading: Reading) -> int | None:
    """Pods of a Job that run at the same time: ``parallelism``, and never more than are left to complete."""
    parallelism = f.integer(spec, "parallelism", reading, 1)
    completions = f.integer(spec, "completions", reading, 2**31 - 1)
    return None if parallelism is None or completions is None else min(parallelism, completions)
