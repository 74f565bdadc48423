"""AIBrix StormService (orchestration.aibrix.ai): roles of pods, ``podGroupSize`` of which serve one engine together."""

from __future__ import annotations

from planner.documents.document import Document
from planner.workloads import fields as f
from planner.workloads.core import descend
from planner.workloads.fields import Reading
from planner.workloads.pod_template import has_containers, read_pod
from planner.workloads.typed import changed, count_of, object_annotations, typed_workload
from planner.workloads.workload import Workload


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """One workload for each role: prefill and decode are engines apart from each other."""
    inner = descend(document.root, ("spec", "template", "spec"), reading)
    copies = count_of(document.root, "spec", "replicas")
    annotations = object_annotations(document, reading)
    found = []
    for role in f.sequence(f.entries(inner), "roles", reading):
        template = descend(role, ("template",), reading) if role.kind == "mapping" else None
        if template is None or not has_containers(template):
            continue
        size, replicas = count_of(role, "podGroupSize"), count_of(role, "replicas")
        pod = read_pod(
            template,
            document.namespace,
            document.file,
            reading,
            role="leader" if size != 1 else "pod",
            annotations=annotations,
        )
        for index, container in enumerate(pod.containers):
            sources = (*container.env_unknown, "AIBrix")  # STORM_SERVICE_NAME, ROLE_REPLICA_INDEX, POD_GROUP_INDEX …
            pod = changed(pod, index, env_unknown=sources)
        found.append(
            typed_workload(
                document,
                kind,
                [pod],
                reading,
                replicas=None if copies is None or replicas is None else copies * replicas,
                group_size=size or 1,
                group_size_known=size is not None,
                part=role.string("name") or "",
            )
        )
    return found
