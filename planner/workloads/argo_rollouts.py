"""Argo Rollouts: a Rollout with its own pod template, or with that of a Deployment (``spec.workloadRef``)."""

from __future__ import annotations

from planner.documents.document import Document
from planner.workloads import fields as f
from planner.workloads.core import descend
from planner.workloads.fields import Reading
from planner.workloads.pod_template import has_containers, read_pod
from planner.workloads.typed import object_annotations, typed_workload
from planner.workloads.workload import Workload


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The workload of a Rollout. With ``workloadRef`` the Deployment is read where it stands, and nothing here."""
    template = descend(document.root, ("spec", "template"), reading)
    if template is None or not has_containers(template):
        return []
    spec = f.mapping(f.entries(document.root), "spec", reading)
    replicas = f.integer(spec, "replicas", reading, 1)
    annotations = object_annotations(document, reading)
    pod = read_pod(template, document.namespace, document.file, reading, annotations=annotations)
    return [typed_workload(document, kind, [pod], reading, replicas=replicas)]
