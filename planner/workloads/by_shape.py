"""Kinds that planner does not know: every pod spec that stands in the object, found by its shape."""

from __future__ import annotations

from planner.documents.derived import mapping_at
from planner.documents.document import Document
from planner.documents.node import Node
from planner.workloads import fields as f
from planner.workloads.fields import Reading
from planner.workloads.pod_template import read_pod
from planner.workloads.typed import changed, object_annotations, typed_workload
from planner.workloads.workload import Workload

_NODES_SEARCHED = 5_000
_MOST_PODS = 32


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """One workload for each pod spec. How many pods run, and which belong together, is not known of such a kind."""
    found = []
    for template in templates(document.root):
        pod = read_pod(
            template,
            document.namespace,
            document.file,
            reading,
            annotations=object_annotations(document, reading),
        )
        for index, container in enumerate(pod.containers):
            pod = changed(pod, index, env_unknown=(*container.env_unknown, f"The controller of this {kind[:60]}"))
        found.append(
            typed_workload(
                document,
                kind,
                [pod],
                reading,
                replicas=None,
                group_size_known=False,
                part=template.path if len(template.path) <= 120 else "",
            )
        )
    return found


def templates(root: Node) -> list[Node]:
    """The pod templates in an object: mappings with ``containers`` that name images, breadth first, none inside of
    another. A template is the mapping around ``spec``, or stands for one where there is none."""
    found: list[Node] = []
    waiting: list[tuple[Node, Node | None]] = [(root, None)]
    for node, parent in waiting:
        if len(found) >= _MOST_PODS or len(waiting) > _NODES_SEARCHED:
            break
        if node.kind == "sequence":
            waiting.extend((item, None) for item in node if item.kind in ("mapping", "sequence"))
            continue
        if _is_pod_spec(node):
            own = parent is not None and parent.get("spec") == node
            found.append(parent if own and parent is not None else mapping_at(node, {"spec": node}))
            continue
        for _, value in node.items():
            if value.kind in ("mapping", "sequence"):
                waiting.append((value, node))
    return found


def _is_pod_spec(node: Node) -> bool:
    containers = node.get("containers")
    if containers is None or containers.kind != "sequence":
        return False
    return any(f.entries(item).keys() & {"image", "command", "args"} for item in list(containers)[:20])
