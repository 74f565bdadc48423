"""Values of Helm charts that run engines: in files of their own, in a HelmRelease, an Argo CD Application, a pipeline.

A values file has no kind; which chart it is for is told by its shape. One module for each chart that is known, and
``chart`` for what others have in common.
"""

from __future__ import annotations

from planner.documents.document import Document
from planner.documents.node import Node
from planner.record import replace
from planner.workloads import app_template, chart, llm_d, production_stack
from planner.workloads import fields as f
from planner.workloads.fields import Reading
from planner.workloads.workload import Workload

#: What a document of values is called where an object has its kind.
KIND = "HelmValues"
_NODES_SEARCHED = 500
_DEEPEST = 5


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The workloads of a document of values. They have no name but the file's."""
    found = from_values(document.root, document, kind or KIND, reading)
    name = document.file.replace("\\", "/").rpartition("/")[2]
    return [replace(workload, name=name) for workload in found]


def from_values(values: Node, document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The workloads that values describe, those of charts inside of charts too."""
    if values.kind != "mapping":
        return []
    with reading.quiet():
        return _search(values, document, kind, reading)


def _search(values: Node, document: Document, kind: str, reading: Reading) -> list[Workload]:
    found: list[Workload] = []
    waiting: list[tuple[Node, str, Node, int]] = [(values, "", values, 0)]
    for node, key, around, depth in waiting:
        if len(waiting) > _NODES_SEARCHED:
            break
        if production_stack.fits(node):
            found += production_stack.from_values(node, document, kind, reading)
            continue
        if llm_d.fits(node):
            found += llm_d.from_values(node, document, kind, reading)
            continue
        if app_template.fits(node):
            found += app_template.from_values(node, document, kind, reading)
            continue
        if _is_catalog(node):
            found += _catalog(node, document, kind, reading)
            continue
        workload = chart.from_values(node, key, around, document, kind, reading)
        if workload is not None:
            found.append(workload)
            continue
        if depth < _DEEPEST:
            waiting += [(value, name, node, depth + 1) for name, value in node.items() if value.kind == "mapping"]
    return found


def _is_catalog(node: Node) -> bool:
    """Whether a mapping holds models of KubeAI's chart ``models``: each has a URL and an engine."""
    entries = [value for _, value in list(node.items())[:50] if value.kind == "mapping"]
    return bool(entries) and all(item.get("url") is not None and item.get("engine") is not None for item in entries)


def _catalog(node: Node, document: Document, kind: str, reading: Reading) -> list[Workload]:
    from planner.workloads.kubeai import model_workload

    found = []
    for name, item in f.entries(node).items():
        if item.kind == "mapping" and item.boolean("enabled") is not False:
            workload = model_workload(item, document, kind, reading, name)
            if workload is not None:
                found.append(workload)
    return found
