"""Pods that custom resources describe in typed fields, put together as pod templates and read like them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from planner.documents.derived import mapping_at, sequence_at, text_at
from planner.documents.document import Document
from planner.documents.node import Node
from planner.provenance import Fact, Unknown, from_file
from planner.record import replace
from planner.workloads import fields as f
from planner.workloads.core import descend, workload
from planner.workloads.fields import Reading
from planner.workloads.pod_template import has_containers, read_pod
from planner.workloads.references import Injected
from planner.workloads.workload import Container, EnvVar, Mount, Pod, Probe, Workload

#: Fields of a pod spec that custom resources take over under the same name.
POD_FIELDS = (
    "affinity",
    "hostIPC",
    "hostNetwork",
    "imagePullSecrets",
    "initContainers",
    "nodeSelector",
    "resourceClaims",
    "runtimeClassName",
    "securityContext",
    "serviceAccountName",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
)
#: Fields of a container that custom resources take over under the same name.
CONTAINER_FIELDS = (
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "name",
    "ports",
    "readinessProbe",
    "resources",
    "restartPolicy",
    "securityContext",
    "startupProbe",
    "volumeMounts",
    "workingDir",
)
_MOST_VARIABLES = 1_000


def taken(node: Node | None, names: Sequence[str]) -> dict[str, Node | None]:
    """The fields of ``node`` with these names."""
    return {name: value for name, value in f.entries(node).items() if name in names}


def pod(
    spec: Node,
    document: Document,
    reading: Reading,
    *,
    metadata: Node | None = None,
    role: str = "pod",
    count: int = 1,
    annotations: Mapping[str, Fact[str]] | None = None,
    injected: Sequence[Injected] = (),
) -> Pod:
    """The pod of a pod spec that stands without its template. ``annotations`` are the object's."""
    template = mapping_at(spec, {"metadata": metadata, "spec": spec})
    return read_pod(
        template,
        document.namespace,
        document.file,
        reading,
        role=role,
        count=count,
        annotations=dict(annotations or {}),
        injected=injected,
    )


def container_pod(
    at: Node,
    container: Mapping[str, Node | None],
    document: Document,
    reading: Reading,
    *,
    spec: Mapping[str, Node | None] | None = None,
    others: Iterable[Node] = (),
    **options: Any,
) -> Pod:
    """The pod of one container whose fields are given, and of ``others`` beside it; ``spec`` holds more of the pod's
    fields. It stands where ``at`` does. A container without a name is called ``engine``."""
    fields = dict(container)
    if fields.get("name") is None:
        fields["name"] = text_at(at, "engine")
    containers = sequence_at(at, [mapping_at(at, fields), *others])
    return filled(pod(mapping_at(at, {**(spec or {}), "containers": containers}), document, reading, **options))


def filled(item: Pod) -> Pod:
    """The pod, which must have a container: it lacks one only where no more may be read."""
    if not item.containers:
        raise f.LimitReachedError
    return item


def changed(item: Pod, index: int = 0, **changes: Any) -> Pod:
    """The pod with fields of one of its containers changed."""
    containers = list(item.containers)
    if not containers:
        return item
    containers[index] = replace(containers[index], **changes)
    return replace(item, containers=tuple(containers))


def object_annotations(document: Document, reading: Reading) -> dict[str, Fact[str]]:
    """The annotations of an object."""
    metadata = f.mapping(f.entries(document.root), "metadata", reading)
    return f.string_map(metadata, "annotations", reading)


def typed_workload(
    document: Document,
    kind: str,
    pods: Sequence[Pod],
    reading: Reading,
    *,
    replicas: int | None = 1,
    group_size: int = 1,
    group_size_known: bool = True,
    part: str = "",
    connected: bool = False,
) -> Workload:
    """The workload of pods put together; see ``core.workload``."""
    metadata = f.mapping(f.entries(document.root), "metadata", reading)
    return workload(
        document,
        kind,
        tuple(pods),
        replicas,
        f.string_map(metadata, "annotations", reading),
        metadata,
        reading,
        group_size=max(group_size, 1),
        group_size_known=group_size_known,
        part=part,
        connected=connected,
    )


def count_of(node: Node | None, *path: str | int, default: int | None = 1, most: int = 100_000) -> int | None:
    """The whole number at a path; ``default`` where there is none, None for a placeholder or anything else."""
    found = node.get(*path) if node is not None else None
    if found is None:
        return default
    number = found.integer() if found.kind == "scalar" else None
    if number is None and found.text.isascii() and found.text.isdecimal() and len(found.text) < 10:
        number = int(found.text)
    return number if number is not None and 0 <= number <= most else None


def image_text(node: Node | None, *, tag: Node | None = None) -> Node | None:
    """An image reference as one string: a string, or a mapping of registry, repository (or name), tag and digest."""
    if node is None:
        return None
    if node.kind == "scalar":
        if tag is None or not tag.text:
            return node
        return text_at(node, f"{node.text}{'' if tag.text.startswith(('@', ':')) else ':'}{tag.text}")
    parts = f.entries(node)
    repository = parts.get("repository") or parts.get("name")
    if repository is None or not repository.text:
        return None
    registry = node.string("registry") or ""
    label = tag.text if tag is not None and tag.text else node.string("tag") or ""
    digest = node.string("digest") or ""
    text = f"{registry}/{repository.text}" if registry else repository.text
    if label:
        text += f":{label}"
    if digest:
        text += f"@{digest}"
    return text_at(repository, text)


def environment_list(node: Node | None) -> Node | None:
    """Variables as a pod template lists them, from a list or from a mapping of names to values (or to ``{value: …}``,
    ``{valueFrom: …}``)."""
    if node is None or node.kind != "mapping":
        return node if node is not None and node.kind == "sequence" else None
    items = []
    for name, value in list(node.items())[:_MOST_VARIABLES]:
        called = text_at(value, name)
        if value.kind == "scalar":
            items.append(mapping_at(value, {"name": called, "value": text_at(value, value.text)}))
        elif value.kind == "mapping":
            if value.get("valueFrom") is not None or value.get("value") is not None:
                items.append(mapping_at(value, {"name": called, **taken(value, ("value", "valueFrom"))}))
            else:
                reference = "secretKeyRef" if value.get("key") is not None else next(iter(f.entries(value)), "")
                inner = value if reference == "secretKeyRef" and value.get("key") is not None else value.get(reference)
                if inner is not None:
                    source = mapping_at(value, {reference: inner})
                    items.append(mapping_at(value, {"name": called, "valueFrom": source}))
        else:
            items.append(mapping_at(value, {"name": called, "value": text_at(value, "")}))
    return sequence_at(node, items)


def joined(at: Node, *lists: Node | None) -> Node | None:
    """Several lists as one; None where all are empty."""
    items = [item for one in lists if one is not None and one.kind == "sequence" for item in one]
    return sequence_at(at, items) if items else None


def shared_memory(at: Node, size: Node | None = None, reading: Reading | None = None) -> Mount:
    """The memory-backed ``/dev/shm`` that an operator mounts on its own."""
    limit = None
    if size is not None and reading is not None:
        from planner.workloads.resources import quantity_of

        number = quantity_of(size, reading)
        limit = int(number) if number is not None else None
    return Mount("/dev/shm", "dshm", size or at, "emptyDir", "Memory", limit)


def with_shared_memory(
    container: Container, at: Node, size: Node | None = None, reading: Reading | None = None
) -> Container:
    """The container with the operator's ``/dev/shm``, unless it mounts one itself."""
    if any(mount.path.rstrip("/") == "/dev/shm" for mount in container.mounts):
        return container
    return replace(container, mounts=(*container.mounts, shared_memory(at, size, reading)))


def with_startup(container: Container, initial_delay: int, period: int, failures: int) -> Container:
    """The container with the startup probe that an operator gives it, where the file states only a liveness probe."""
    liveness = container.probes.get("liveness")
    if liveness is None or "startup" in container.probes:
        return container
    probe = Probe("startup", liveness.node, initial_delay, period, 1, failures, "http", "", "/health")
    return replace(container, probes={**container.probes, "startup": probe})


def open_devices(container: Container, reason: str) -> tuple[Unknown, ...]:
    """What is unknown of a preset's resources: without devices of its own, whoever uses it brings them."""
    if any("/" in name for name in (*container.limits, *container.requests)) or container.claims:
        return container.unknown_resources
    gap = Unknown(
        "limits.nvidia.com/gpu",
        reason,
        "lint what uses this one together with it",
        container.node.position,
    )
    return (*container.unknown_resources, gap)


def variables(container: Container, values: Mapping[str, Node | None]) -> dict[str, EnvVar]:
    """The container's variables, with those that an operator sets from typed fields laid under them."""
    added = {name: EnvVar(name, node.text, node) for name, node in values.items() if node is not None}
    return {**added, **container.env}


def stated_model(node: Node | None) -> Fact[str] | None:
    """The model that a field names, as it is written."""
    if node is None or node.kind != "scalar" or not node.text.strip():
        return None
    return from_file(node.text.strip(), node.position)


def deployment_like(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The workload of an object written like a Deployment: a pod template in ``spec.template``, one replica by default;
    none where it has no template of its own."""
    template = descend(document.root, ("spec", "template"), reading)
    if template is None or not has_containers(template):
        return []
    spec = f.mapping(f.entries(document.root), "spec", reading)
    replicas = f.integer(spec, "replicas", reading, 1)
    annotations = object_annotations(document, reading)
    pod = read_pod(template, document.namespace, document.file, reading, annotations=annotations)
    return [typed_workload(document, kind, [pod], reading, replicas=replicas)]
