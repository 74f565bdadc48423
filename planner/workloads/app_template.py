"""Values of the chart app-template (bjw-s): ``controllers`` of ``containers``, and ``persistence`` for volumes.

Source: the chart's documentation: images as repository and tag, variables as a mapping, probes under ``spec``,
``globalMounts`` and ``advancedMounts`` (controller → container → mounts).
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.documents.derived import mapping_at, sequence_at, text_at
from planner.documents.document import Document
from planner.documents.node import Node
from planner.workloads import fields as f
from planner.workloads.fields import Reading
from planner.workloads.typed import (
    CONTAINER_FIELDS,
    POD_FIELDS,
    count_of,
    environment_list,
    image_text,
    joined,
    object_annotations,
    pod,
    taken,
    typed_workload,
)
from planner.workloads.workload import Workload

_MOST_CONTAINERS = 100
#: ``persistence.TYPE`` → the fields of the volume source of the same kind.
_SOURCES: dict[str, tuple[str, tuple[str, ...]]] = {
    "emptyDir": ("emptyDir", ("medium", "sizeLimit")),
    "hostPath": ("hostPath", ("path", "type")),
    "nfs": ("nfs", ("server", "path")),
    "configMap": ("configMap", ("name", "items", "defaultMode")),
    "secret": ("secret", ("secretName", "items", "defaultMode")),
}


def fits(values: Node) -> bool:
    """Whether a mapping holds values of the chart."""
    controllers = values.get("controllers")
    if controllers is None or controllers.kind != "mapping":
        return False
    return any(
        controller.get("containers") is not None
        for _, controller in controllers.items()
        if controller.kind == "mapping"
    )


def from_values(values: Node, document: Document, kind: str, reading: Reading) -> list[Workload]:
    """One workload for each controller."""
    found = []
    for name, controller in f.entries(values.get("controllers")).items():
        if controller.kind != "mapping" or controller.boolean("enabled") is False:
            continue
        found.append(_controller(name, controller, values, document, kind, reading))
    return found


def _controller(name: str, controller: Node, values: Node, document: Document, kind: str, reading: Reading) -> Workload:
    volumes, mounts = _persistence(name, values, controller)
    containers = {
        key: sequence_at(controller, list(_containers(controller.get(key), mounts)))
        for key in ("containers", "initContainers")
        if controller.get(key) is not None
    }
    options = {**taken(values.get("defaultPodOptions"), POD_FIELDS), **taken(controller.get("pod"), POD_FIELDS)}
    if volumes is not None:
        options["volumes"] = joined(controller, options.get("volumes"), volumes)
    metadata = mapping_at(
        controller,
        {"annotations": controller.get("pod", "annotations"), "labels": controller.get("pod", "labels")},
    )
    item = pod(
        mapping_at(controller, {**options, **containers}),
        document,
        reading,
        metadata=metadata,
        annotations=object_annotations(document, reading),
    )
    return typed_workload(document, kind, [item], reading, replicas=count_of(controller, "replicas"), part=name)


def _containers(node: Node | None, mounts: dict[str, list[Node]]) -> Iterator[Node]:
    for name, item in list(f.entries(node).items())[:_MOST_CONTAINERS]:
        if item.kind != "mapping" or item.boolean("enabled") is False:
            continue
        probes = item.get("probes")
        own = mounts.get(name, []) + mounts.get("", [])
        yield mapping_at(
            item,
            {
                **taken(item, CONTAINER_FIELDS),
                "name": text_at(item, name),
                "image": image_text(item.get("image")),
                "command": _as_list(item.get("command")),
                "args": _as_list(item.get("args")),
                "env": environment_list(item.get("env")),
                "volumeMounts": sequence_at(item, own) if own else None,
                **{f"{kind}Probe": _probe(probes, kind) for kind in ("startup", "liveness", "readiness")},
            },
        )


def _as_list(node: Node | None) -> Node | None:
    """A command is one string or a list."""
    return sequence_at(node, [node]) if node is not None and node.kind == "scalar" and node.text else node


def _probe(probes: Node | None, kind: str) -> Node | None:
    node = probes.get(kind) if probes is not None else None
    if node is None or node.boolean("enabled") is False or node.boolean("custom") is not True:
        return None
    return node.get("spec")


def _persistence(controller: str, values: Node, at: Node) -> tuple[Node | None, dict[str, list[Node]]]:
    """The volumes, and the mounts by container (empty: in all of them)."""
    volumes: list[Node] = []
    mounts: dict[str, list[Node]] = {}
    for name, item in f.entries(values.get("persistence")).items():
        if item.kind != "mapping" or item.boolean("enabled") is False:
            continue
        places: list[tuple[str, Node]] = [("", mount) for mount in item.get("globalMounts") or ()]
        advanced = item.get("advancedMounts", controller)
        for container, own in f.entries(advanced).items():
            places += [(container, mount) for mount in own]
        if item.get("globalMounts") is None and item.get("advancedMounts") is None:
            places = [("", mapping_at(item, {"path": text_at(item, f"/{name}")}))]
        if not places:
            continue
        volumes.append(_volume(name, item))
        for container, mount in places:
            if mount.kind != "mapping":
                continue
            fields = {key: mount.get(key) for key in ("subPath", "readOnly")}
            path = mount.get("path") or text_at(mount, f"/{name}")
            mounts.setdefault(container, []).append(
                mapping_at(mount, {"name": text_at(item, name), "mountPath": path, **fields})
            )
    return (sequence_at(at, volumes) if volumes else None), mounts


def _volume(name: str, item: Node) -> Node:
    kind = item.string("type") or "persistentVolumeClaim"
    called = text_at(item, name)
    if kind == "custom" and item.get("volumeSpec") is not None:
        return mapping_at(item, {"name": called, **f.entries(item.get("volumeSpec"))})
    if kind == "persistentVolumeClaim":
        claim = item.get("existingClaim") or called
        source = mapping_at(item, {"claimName": text_at(claim, claim.text)})
        return mapping_at(item, {"name": called, "persistentVolumeClaim": source})
    field, keys = _SOURCES.get(kind, (kind, ()))
    own = taken(item, keys)
    if kind == "secret" and item.get("name") is not None:
        own["secretName"] = item.get("name")
    if kind == "hostPath" and item.get("hostPath") is not None:
        own["path"] = item.get("hostPath")
        own["type"] = item.get("hostPathType")
    return mapping_at(item, {"name": called, field: mapping_at(item, own)})
