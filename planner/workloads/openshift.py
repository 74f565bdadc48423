"""OpenShift: DeploymentConfig, and the objects of a Template."""

from __future__ import annotations

import re

from planner.documents.derived import substituted
from planner.documents.document import Document
from planner.documents.node import Node
from planner.workloads.fields import Reading
from planner.workloads.typed import deployment_like
from planner.workloads.workload import Workload

_REFERENCE = re.compile(r"\$\{\{?([A-Za-z0-9_-]{1,200})\}\}?")


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The workload of a DeploymentConfig: a pod template in ``spec.template``, one replica by default."""
    return deployment_like(document, kind, reading)


def expand(document: Document) -> list[Document]:
    """The objects of a Template, with ``${PARAMETER}`` filled in where the template gives its value; others stay as
    they are written."""
    values = {}
    for parameter in document.root.get("parameters") or ():
        name, value = parameter.string("name"), parameter.string("value")
        if name and value is not None:
            values[name] = value
    objects = document.root.get("objects")
    found = []
    for item in objects if objects is not None and objects.kind == "sequence" else ():
        if item.kind == "mapping":
            root = _filled(item, values) if values else item
            found.append(Document(document.file, document.index, root.detached(), document.comments))
    return found


def _filled(item: Node, values: dict[str, str]) -> Node:
    def fill(text: str) -> str:
        if "${" not in text or len(text) > 200_000:
            return text
        return _REFERENCE.sub(lambda match: values.get(match.group(1), match.group()), text)

    return substituted(item, fill)
