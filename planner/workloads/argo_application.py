"""Argo CD (argoproj.io): values in an Application, or in the template of an ApplicationSet."""

from __future__ import annotations

from collections.abc import Iterator

from planner.documents.document import Document
from planner.documents.node import Node
from planner.workloads.fields import Reading
from planner.workloads.helm_values import from_values
from planner.workloads.helmrelease import embedded_values
from planner.workloads.workload import Workload

_MOST_SOURCES = 50


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The workloads that the values of its sources describe (``helm.valuesObject``, or ``helm.values`` as a string)."""
    spec = document.root.get("spec")
    if kind == "ApplicationSet" and spec is not None:
        spec = spec.get("template", "spec")
    found: list[Workload] = []
    for source in _sources(spec):
        values = source.get("helm", "valuesObject") or embedded_values(source.get("helm", "values"), reading)
        if values is not None:
            found += from_values(values, document, kind, reading)
    return found


def _sources(spec: Node | None) -> Iterator[Node]:
    if spec is None:
        return
    single = spec.get("source")
    if single is not None:
        yield single
    several = spec.get("sources")
    if several is not None and several.kind == "sequence":
        yield from list(several)[:_MOST_SOURCES]
