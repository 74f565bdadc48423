"""Tekton (tekton.dev): values of charts that the tasks of a Pipeline or PipelineRun are given as parameters."""

from __future__ import annotations

from planner.documents.document import Document
from planner.documents.node import Node
from planner.workloads.fields import Reading
from planner.workloads.helm_values import from_values
from planner.workloads.helmrelease import embedded_values
from planner.workloads.workload import Workload

_MOST_PARAMETERS = 500


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The workloads that parameters describe, as a mapping or as YAML in a string."""
    spec = document.root.get("spec")
    if spec is not None and spec.get("pipelineSpec") is not None:
        spec = spec.get("pipelineSpec")
    if spec is None:
        return []
    found: list[Workload] = []
    seen = 0
    for holder in (spec, *(_tasks(spec))):
        parameters = holder.get("params")
        for parameter in parameters if parameters is not None and parameters.kind == "sequence" else ():
            seen += 1
            value = parameter.get("value") or parameter.get("default")
            if value is None or seen > _MOST_PARAMETERS:
                continue
            if value.kind == "scalar" and "\n" in value.text and ":" in value.text:
                value = embedded_values(value, reading)
            if value is not None and value.kind == "mapping":
                found += from_values(value, document, kind, reading)
    return found


def _tasks(spec: Node) -> list[Node]:
    return [task for key in ("tasks", "finally") for task in spec.get(key) or () if task.kind == "mapping"]
