"""Knative Serving: Service and Configuration (``spec.template``), Revision (``spec`` itself)."""

from __future__ import annotations

from planner.documents.document import Document
from planner.workloads.core import descend
from planner.workloads.fields import Reading
from planner.workloads.pod_template import has_containers, read_pod
from planner.workloads.typed import object_annotations, typed_workload
from planner.workloads.workload import Workload

#: Annotations that bound the replicas; the older spelling has no hyphen.
_BOUNDS = (
    ("autoscaling.knative.dev/min-scale", "autoscaling.knative.dev/minScale"),
    ("autoscaling.knative.dev/max-scale", "autoscaling.knative.dev/maxScale"),
)


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The workload of a Knative object. Its replicas follow the traffic unless the bounds are equal."""
    template = document.root if kind == "Revision" else descend(document.root, ("spec", "template"), reading)
    if template is None or not has_containers(template):
        return []
    pod = read_pod(
        template,
        document.namespace,
        document.file,
        reading,
        annotations=object_annotations(document, reading),
    )
    low, high = (
        next((pod.annotations[name].value for name in names if name in pod.annotations), "") for names in _BOUNDS
    )
    replicas = int(low) if low == high and low.isascii() and low.isdecimal() and len(low) < 6 else None
    return [typed_workload(document, kind, [pod], reading, replicas=replicas)]
