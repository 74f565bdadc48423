"""Documents → workloads. The table below is where a kind is made known; its module reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NamedTuple, cast

from planner.documents.document import Document, Problem
from planner.documents.node import Node
from planner.workloads.fields import Reading
from planner.workloads.objects import Objects
from planner.workloads.workload import Workload

#: (API group, kind) → module of this package with ``read(document, kind, reading) -> list[Workload]``.
#: The kind alone does not tell: several groups have a ``Model``, a ``Service`` or an ``InferenceService``.
READERS: dict[tuple[str, str], str] = {
    ("", "Pod"): "core",
    ("", "PodTemplate"): "core",
    ("", "ReplicationController"): "core",
    ("apps", "DaemonSet"): "core",
    ("apps", "Deployment"): "core",
    ("apps", "ReplicaSet"): "core",
    ("apps", "StatefulSet"): "core",
    ("extensions", "DaemonSet"): "core",
    ("extensions", "Deployment"): "core",
    ("extensions", "ReplicaSet"): "core",
    ("batch", "CronJob"): "core",
    ("batch", "Job"): "core",
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): "leaderworkerset",
}

#: How much of a document of an unknown kind is searched for a container.
_NODES_SEARCHED = 3_000

Reader = Callable[[Document, str, Reading], "list[Workload]"]


class Extraction(NamedTuple):
    """What the documents of a run hold. ``objects`` finds what workloads refer to; ``unknown_kinds`` counts objects
    that hold containers and are of a kind that is not read."""

    workloads: tuple[Workload, ...]
    problems: tuple[Problem, ...]
    objects: Objects
    unknown_kinds: dict[str, int]


def extract(documents: Sequence[Document]) -> Extraction:
    """The workloads of all documents of one run, in order. References are looked up among all of them.

    Nothing is raised for wrong input: what the API server would refuse is in ``problems``, and the rest is read.
    """
    objects = Objects()
    reading = Reading(objects, len(documents))
    waiting: list[tuple[Document, str, str]] = []
    unknown_kinds: dict[str, int] = {}
    for document in documents:
        kind = document.kind
        if not kind:
            continue
        group = _group(document.api_version)
        module = READERS.get((group, kind))
        if module is None and not document.api_version:
            module = next((READERS[known, kind] for known in ("apps", "batch", "") if (known, kind) in READERS), None)
        if module is not None:
            waiting.append((document, kind, module))
        elif not objects.add(group, kind, document) and _may_run_pods(group, kind) and _holds_containers(document.root):
            unknown_kinds[kind] = unknown_kinds.get(kind, 0) + 1
    workloads: list[Workload] = []
    for document, kind, module in waiting:
        reading.start_document()
        found = _reader(module)(document, kind, reading)
        if found and not document.api_version:
            reading.problem(document.root.get("kind") or document.root, f"this {kind} has no `apiVersion`")
        workloads.extend(found)
    return Extraction(tuple(workloads), reading.problems, objects, unknown_kinds)


def _reader(module: str) -> Reader:
    return cast("Reader", import_module(f"planner.workloads.{module}").read)


def _group(api_version: str) -> str:
    group, slash, _ = api_version.partition("/")
    return group if slash else ""


def _may_run_pods(group: str, kind: str) -> bool:
    """Whether a kind that is not read can hold containers: not one of Kubernetes itself, and no schema."""
    return bool(group) and kind != "CustomResourceDefinition" and group not in _OTHER_GROUPS


_OTHER_GROUPS = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "autoscaling",
        "batch",
        "gateway.networking.k8s.io",
        "kustomize.config.k8s.io",
        "monitoring.coreos.com",
        "networking.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    }
)


def _holds_containers(root: Node) -> bool:
    """Whether a ``containers`` list with an image stands within the first few thousand nodes, breadth first."""
    waiting = [root]
    for node in waiting:
        if len(waiting) > _NODES_SEARCHED:
            return False
        if node.kind == "mapping":
            for key, value in node.items():
                if key == "containers" and value.kind == "sequence" and value.get(0, "image") is not None:
                    return True
                if value.kind in ("mapping", "sequence"):
                    waiting.append(value)
        else:
            waiting.extend(element for element in node if element.kind in ("mapping", "sequence"))
    return False
