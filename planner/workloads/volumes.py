"""Volumes of a pod joined with a container's mounts: what stands at which path, how large, and which files it shows."""

from __future__ import annotations

from planner.documents.node import Node
from planner.record import NamedTuple
from planner.workloads import fields as f
from planner.workloads.fields import Reading
from planner.workloads.objects import PersistentVolumeClaim, claim_of
from planner.workloads.references import PodFacts, expand
from planner.workloads.workload import EnvVar, Mount


class Volume(NamedTuple):
    """A volume of a pod. ``files``: path inside the volume → node of the text; see ``Mount`` for the rest."""

    name: str
    kind: str
    node: Node
    medium: str = ""
    size_bytes: int | None = None
    source: str = ""
    files: tuple[tuple[str, Node], ...] = ()
    reason: str = ""
    read_only: bool = False
    claim: PersistentVolumeClaim | None = None


def read_volumes(
    spec: dict[str, Node], claim_templates: list[Node], pod: PodFacts, reading: Reading
) -> dict[str, Volume]:
    """The volumes of a pod spec by name; ``claim_templates`` are those of a StatefulSet, which win over volumes of the
    same name as the StatefulSet controller has it."""
    volumes: dict[str, Volume] = {}
    for node in f.sequence(spec, "volumes", reading):
        if not reading.spend(node):
            break
        volume = _volume(node, pod, reading)
        if volume is not None:
            volumes[volume.name] = volume
    for node in claim_templates:
        name = node.string("metadata", "name")
        if name:
            claim = claim_of(node, name, pod.namespace, pod.file)
            volumes[name] = _claim_volume(name, node, name, claim, "")
    return volumes


def read_mounts(
    container: dict[str, Node],
    volumes: dict[str, Volume],
    variables: dict[str, EnvVar],
    reading: Reading,
) -> tuple[Mount, ...]:
    """The mounts of a container; a mount of a volume that is not declared has kind ``""``."""
    mounts = []
    for node in f.sequence(container, "volumeMounts", reading):
        fields = f.entries(node)
        if not reading.spend(node) or not fields or "$patch" in fields:
            continue
        name, path = f.string(fields, "name", reading), f.string(fields, "mountPath", reading)
        sub_path = f.string(fields, "subPath", reading)
        expression = f.string(fields, "subPathExpr", reading)
        reason = ""
        if expression:
            expanded, reason, _ = expand(expression, variables)
            sub_path = expanded or ""
        read_only = f.boolean(fields, "readOnly", reading)
        volume = volumes.get(name)
        if volume is None:
            mounts.append(Mount(path, name, node, "", sub_path=sub_path, read_only=read_only, reason=reason))
            continue
        files: tuple[tuple[str, Node], ...] = ()
        if volume.files and not reason and reading.spend(node, len(volume.files)):
            files = _files_at(path, sub_path, volume.files)
        mounts.append(
            Mount(
                path,
                name,
                node,
                volume.kind,
                volume.medium,
                volume.size_bytes,
                files,
                volume.source,
                sub_path,
                read_only or volume.read_only,
                volume.node,
                reason or volume.reason,
                volume.claim,
            )
        )
    return tuple(mounts)


def _files_at(path: str, sub_path: str, files: tuple[tuple[str, Node], ...]) -> tuple[tuple[str, Node], ...]:
    """Absolute paths of a volume's files under a mount; with ``subPath`` one file is the mount point itself."""
    base = path.rstrip("/")
    if not sub_path:
        return tuple((f"{base}/{name}", node) for name, node in files)
    wanted = sub_path.strip("/")
    result = []
    for name, node in files:
        if name == wanted:
            result.append((base or "/", node))
        elif name.startswith(wanted + "/"):
            result.append((base + name[len(wanted) :], node))
    return tuple(result)


def _volume(node: Node, pod: PodFacts, reading: Reading) -> Volume | None:
    if node.kind != "mapping":
        if node.kind != "null" and not f.is_placeholder(node.text):
            what = f.describe(node)
            reading.problem(node, f"{node.path} must be a mapping with a `name` and a source, and is {what}")
        return None
    fields = dict(node.items())
    name = f.string(fields, "name", reading)
    kind = next((key for key in fields if key not in ("name", "$patch")), "emptyDir")  # as the API server defaults it
    if not name or "$patch" in fields:
        return None
    source = f.mapping(fields, kind, reading)
    if kind == "emptyDir":
        return _empty_dir(name, node, source, reading)
    if kind == "configMap":
        files, reason = _config_map_files(source, pod, reading)
        return Volume(name, kind, node, source=f.string(source, "name", reading), files=files, reason=reason)
    if kind == "secret":
        return Volume(name, kind, node, source=f.string(source, "secretName", reading))
    if kind == "persistentVolumeClaim":
        claim_name = f.string(source, "claimName", reading)
        lookup = reading.objects.persistent_volume_claim(claim_name, pod.namespace, pod.file)
        volume = _claim_volume(name, node, claim_name, lookup.found, lookup.reason)
        return volume._replace(read_only=f.boolean(source, "readOnly", reading))
    if kind == "ephemeral":
        template = source.get("volumeClaimTemplate")
        claim = claim_of(template, name, pod.namespace, pod.file) if template is not None else None
        size = claim.size_bytes if claim is not None else None
        return Volume(name, kind, node, size_bytes=size.value if size else None, claim=claim)
    if kind == "hostPath":
        return Volume(name, kind, node, source=f.string(source, "path", reading))
    if kind == "projected":
        return _projected(name, node, source, pod, reading)
    if kind == "csi":
        return Volume(name, kind, node, source=f.string(source, "driver", reading))
    return Volume(name, kind, node)


def _empty_dir(name: str, node: Node, source: dict[str, Node], reading: Reading) -> Volume:
    from planner.workloads.resources import quantity_of

    medium = f.string(source, "medium", reading)
    limit = source.get("sizeLimit")
    if limit is None or limit.kind == "null":
        return Volume(name, "emptyDir", node, medium)
    size = quantity_of(limit, reading)
    reason = "" if size is not None else f"its sizeLimit is {f.describe(limit)}"
    return Volume(name, "emptyDir", node, medium, None if size is None else int(size), reason=reason)


def _claim_volume(name: str, node: Node, claim_name: str, claim: PersistentVolumeClaim | None, reason: str) -> Volume:
    size = claim.size_bytes if claim else None
    if claim is not None and size is None:
        reason = f"the PersistentVolumeClaim {claim_name[:80]} names no size that can be read"
    return Volume(
        name,
        "persistentVolumeClaim",
        node,
        size_bytes=size.value if size else None,
        source=claim_name,
        reason=reason,
        claim=claim,
    )


def _config_map_files(
    source: dict[str, Node], pod: PodFacts, reading: Reading
) -> tuple[tuple[tuple[str, Node], ...], str]:
    """The files that a ConfigMap puts into a volume: all keys, or those of ``items`` under their paths."""
    name = f.string(source, "name", reading)
    lookup = reading.objects.config_map(name, pod.namespace, pod.file)
    if lookup.found is None:
        return (), lookup.reason
    data = lookup.found.data
    items = f.sequence(source, "items", reading)
    if not items:
        return tuple((key, node) for key, node in data.items() if node.kind == "scalar"), ""
    files = []
    for item in items:
        if not reading.spend(item):
            break
        fields = f.entries(item)
        key, path = f.string(fields, "key", reading), f.string(fields, "path", reading)
        text = data.get(key)
        if text is not None and text.kind == "scalar" and path:
            files.append((path.strip("/"), text))
    return tuple(files), ""


def _projected(name: str, node: Node, source: dict[str, Node], pod: PodFacts, reading: Reading) -> Volume:
    files: list[tuple[str, Node]] = []
    reasons = []
    for part in f.sequence(source, "sources", reading):
        config_map = f.mapping(f.entries(part), "configMap", reading)
        if config_map and reading.spend(part):
            more, reason = _config_map_files(config_map, pod, reading)
            if more and reading.spend(part, len(more)):
                files.extend(more)
            if reason:
                reasons.append(reason)
    return Volume(name, "projected", node, files=tuple(files), reason="; ".join(reasons[:3]))
