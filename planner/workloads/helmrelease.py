"""HelmRelease of Flux (helm.toolkit.fluxcd.io: ``spec.values``), HelmChart of k3s (helm.cattle.io: ``valuesContent``)."""

from __future__ import annotations

from planner.documents.derived import embedded
from planner.documents.document import Document
from planner.documents.node import Node
from planner.workloads.fields import Reading
from planner.workloads.helm_values import from_values
from planner.workloads.workload import Workload


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The workloads that the release's values describe. Values of other objects (``valuesFrom``) are not known."""
    values = document.root.get("spec", "values")
    if values is None:
        values = embedded_values(document.root.get("spec", "valuesContent"), reading)
    return from_values(values, document, kind, reading) if values is not None else []


def embedded_values(node: Node | None, reading: Reading) -> Node | None:
    """Values that stand in a string as YAML."""
    if (
        node is None
        or node.kind != "scalar"
        or not node.text.strip()
        or not reading.spend_characters(4 * len(node.text))
    ):
        return None
    root, problems = embedded(node)
    return root if root is not None and root.kind == "mapping" and not problems else None
