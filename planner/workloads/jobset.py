"""JobSet (jobset.x-k8s.io): Jobs that belong together, each ``replicas`` times with ``parallelism`` pods."""

from __future__ import annotations

from planner.documents.document import Document
from planner.workloads import fields as f
from planner.workloads.core import descend
from planner.workloads.fields import Reading
from planner.workloads.pod_template import has_containers, read_pod
from planner.workloads.typed import count_of, object_annotations, typed_workload
from planner.workloads.workload import Workload


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """One workload for each replicated job. Whether its pods work on one engine together, only their command lines tell;
    a job whose pods are indexed and many is taken for as many engines."""
    spec = f.mapping(f.entries(document.root), "spec", reading)
    annotations = object_annotations(document, reading)
    found = []
    for job in f.sequence(spec, "replicatedJobs", reading):
        template = descend(job, ("template", "spec", "template"), reading) if job.kind == "mapping" else None
        if template is None or not has_containers(template):
            continue
        pod = read_pod(template, document.namespace, document.file, reading, annotations=annotations)
        copies, parallel = count_of(job, "replicas"), count_of(job, "template", "spec", "parallelism")
        replicas = None if copies is None or parallel is None else copies * parallel
        part = job.string("name") or ""
        found.append(typed_workload(document, kind, [pod], reading, replicas=replicas, part=part))
    return found
