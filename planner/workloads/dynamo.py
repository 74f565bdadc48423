"""NVIDIA Dynamo (nvidia.com): DynamoGraphDeployment, v1alpha1 (``spec.services``) and v1beta1 (``spec.components``), and
DynamoGraphDeploymentRequest.

Each component is a workload of its own: prefill and decode workers are engines apart from each other. ``nodeCount`` pods
serve one engine together.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.documents.derived import mapping_at, merged, sequence_at, text_at
from planner.documents.document import Document
from planner.documents.node import Node
from planner.provenance import Fact, Unknown, from_file
from planner.record import replace
from planner.workloads import fields as f
from planner.workloads.arguments import hidden, words
from planner.workloads.fields import Reading
from planner.workloads.pod_template import has_containers, read_pod
from planner.workloads.typed import (
    CONTAINER_FIELDS,
    POD_FIELDS,
    changed,
    container_pod,
    count_of,
    joined,
    object_annotations,
    taken,
    typed_workload,
    with_shared_memory,
)
from planner.workloads.workload import Pod, Workload

#: Types of components that serve a model.
_WORKERS = ("worker", "prefill", "decode")
#: Words of a worker's image → its engine.
_BACKENDS = (
    ("tensorrtllm-runtime", "dynamo-trtllm"),
    ("sglang-runtime", "dynamo-sglang"),
    ("vllm-runtime", "dynamo-vllm"),
    ("vllm-openai", "vllm"),
)
#: What the operator runs where a component gives no command, by its type.
_DEFAULT_COMMANDS = {
    "frontend": ("python3", "-m", "dynamo.frontend"),
    "planner": ("python3", "-m", "dynamo.planner"),
    "epp": ("epp",),
}


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """One workload for each component."""
    spec = document.root.get("spec")
    if spec is None or spec.kind != "mapping":
        return []
    if kind == "DynamoGraphDeploymentRequest":
        return _request(spec, document, kind, reading)
    found = []
    for name, component, alpha in _components(spec, kind):
        pod = (_alpha if alpha else _beta)(name, component, spec, document, reading)
        if pod is None:
            continue
        nodes = count_of(component, "multinode", "nodeCount")
        pod = _finished(pod, component)
        if _type_of(component) in _WORKERS:
            pod = _with_hint(pod, spec)
        found.append(
            typed_workload(
                document,
                kind,
                [pod],
                reading,
                replicas=count_of(component, "replicas"),
                group_size=nodes or 1,
                group_size_known=nodes is not None,
                part=name,
                connected=True,  # the operator sets the addresses and ranks of the nodes
            )
        )
    return found


def _with_hint(pod: Pod, spec: Node) -> Pod:
    """The pod of a worker with the engine that its backend or its image names, for commands that do not tell it."""
    backend = (spec.string("backendFramework") or "").lower()
    for index, container in enumerate(pod.containers):
        image = (container.image.value if container.image else "").lower().rpartition("/")[2]
        told = next((name for word, name in _BACKENDS if word in image), "")
        if not told and (backend and (container.name == "main" or len(pod.containers) == 1)):
            told = f"dynamo-{backend}"
        if told and "sidecar" not in image:
            pod = changed(pod, index, engine=told)
    return pod


def _components(spec: Node, kind: str) -> Iterator[tuple[str, Node, bool]]:
    """Name, component and whether it is of v1alpha1."""
    if kind == "DynamoComponentDeployment":
        yield spec.string("serviceName") or spec.string("name") or "", spec, spec.get("podTemplate") is None
        return
    for name, service in f.entries(spec.get("services")).items():
        if service.kind == "mapping":
            yield name, service, True
    components = spec.get("components")
    for component in components if components is not None and components.kind == "sequence" else ():
        if component.kind == "mapping":
            yield component.string("name") or "", component, False


def _type_of(component: Node) -> str:
    return (component.string("componentType") or component.string("type") or "").lower()


def _beta(name: str, component: Node, spec: Node, document: Document, reading: Reading) -> Pod | None:
    template = component.get("podTemplate")
    if template is None or not has_containers(template):
        return None
    shared = spec.get("env")
    inner = template.get("spec")
    if shared is not None and shared.kind == "sequence" and inner is not None and inner.get("containers") is not None:
        containers = [
            mapping_at(item, {**f.entries(item), "env": joined(item, shared, item.get("env"))})
            for item in inner.get("containers") or ()
            if item.kind == "mapping"
        ]
        pod_spec = mapping_at(inner, {**f.entries(inner), "containers": sequence_at(inner, containers)})
        template = mapping_at(template, {**f.entries(template), "spec": pod_spec})
    annotations = object_annotations(document, reading)
    return read_pod(template, document.namespace, document.file, reading, annotations=annotations)


def _alpha(name: str, component: Node, spec: Node, document: Document, reading: Reading) -> Pod | None:
    extra = component.get("extraPodSpec")
    main = extra.get("mainContainer") if extra is not None else None
    at = main or component
    own = taken(main, CONTAINER_FIELDS)
    resources = _resources(component.get("resources"))
    if resources is not None:
        given = own.get("resources")
        own["resources"] = merged(resources, given) if given is not None else resources
    secret = component.get("envFromSecret")
    sources = own.get("envFrom")
    if secret is not None:
        reference = mapping_at(secret, {"secretRef": mapping_at(secret, {"name": text_at(secret, secret.text)})})
        sources = sequence_at(secret, [*(sources or ()), reference])
    claims, mounts = _volumes(component, spec)
    metadata = component.get("extraPodMetadata")
    pod_metadata = metadata if metadata is not None and metadata.kind == "mapping" else None
    return container_pod(
        at,
        {
            **{key: component.get(key) for key in ("livenessProbe", "readinessProbe", "startupProbe")},
            **own,
            "name": own.get("name") or text_at(main or component, "main"),
            "env": joined(at, spec.get("envs"), component.get("envs"), own.get("env")),
            "envFrom": sources,
            "volumeMounts": joined(at, own.get("volumeMounts"), mounts),
        },
        document,
        reading,
        spec={
            **taken(extra, POD_FIELDS),
            "volumes": joined(at, extra.get("volumes") if extra is not None else None, claims),
        },
        others=list(extra.get("containers") or ()) if extra is not None else (),
        annotations={
            **object_annotations(document, reading),
            **f.string_map(f.entries(component), "annotations", reading),
        },
        metadata=pod_metadata,
    )


def _resources(node: Node | None) -> Node | None:
    """Typed resources as a container's: ``gpu`` without a vendor is NVIDIA's, ``gpuType`` names another resource, and
    ``custom`` holds further ones."""
    if node is None or node.kind != "mapping":
        return None
    sides: dict[str, Node | None] = {"claims": node.get("claims")}
    for side in ("limits", "requests"):
        amounts = node.get(side)
        if amounts is None or amounts.kind != "mapping":
            continue
        resource = amounts.string("gpuType") or "nvidia.com/gpu"
        fields: dict[str, Node | None] = {}
        for name, value in amounts.items():
            if name == "gpu":
                fields[resource] = value
            elif name == "custom":
                fields.update(f.entries(value))
            elif name != "gpuType":
                fields[name] = value
        sides[side] = mapping_at(amounts, fields)
    return mapping_at(node, sides)


def _volumes(component: Node, spec: Node) -> tuple[Node | None, Node | None]:
    """Claims of ``pvcs`` that a component mounts: volumes, and mounts with ``mountPoint`` for the path."""
    volumes, mounts = [], []
    for mount in component.get("volumeMounts") or ():
        name, path = mount.get("name"), mount.get("mountPoint") or mount.get("mountPath")
        if name is None or path is None:
            continue
        claim = mapping_at(mount, {"claimName": text_at(name, name.text)})
        volumes.append(mapping_at(mount, {"name": name, "persistentVolumeClaim": claim}))
        mounts.append(mapping_at(mount, {"name": name, "mountPath": path}))
    if not volumes:
        return None, None
    return sequence_at(component, volumes), sequence_at(component, mounts)


def _finished(pod: Pod, component: Node) -> Pod:
    """The pod with what the operator adds: the command of a frontend, shared memory."""
    for index, container in enumerate(pod.containers):
        main = container.name in ("main", "") or len(pod.containers) == 1
        command = _DEFAULT_COMMANDS.get(_type_of(component))
        if main and command is not None and container.command is None and not container.init:
            pod = changed(pod, index, command=tuple(words(container.node, *command)))
            container = pod.containers[index]
        size = component.get("sharedMemory", "size") or component.get("sharedMemorySize")
        if component.boolean("sharedMemory", "disabled") is not True:
            pod = changed(pod, index, mounts=with_shared_memory(container, component, size).mounts)
    return pod


def _request(spec: Node, document: Document, kind: str, reading: Reading) -> list[Workload]:
    """A request names model, backend and hardware; sizes and engine arguments come of a profile run."""
    model, backend = spec.get("model") or spec.get("modelName"), (spec.string("backend") or "vllm").lower()
    if model is None or model.kind != "scalar":
        return []
    module = {"vllm": "dynamo.vllm", "sglang": "dynamo.sglang", "trtllm": "dynamo.trtllm"}.get(backend)
    flag = "--model" if backend == "vllm" else "--model-path"
    pod = container_pod(
        spec,
        {"name": text_at(spec, "worker")},
        document,
        reading,
        annotations=object_annotations(document, reading),
    )
    reason = "the profile run of the request decides"
    gap = Unknown("limits.nvidia.com/gpu", reason, "lint the DynamoGraphDeployment that comes of it", model.position)
    pod = changed(
        pod,
        command=tuple(words(spec.get("backend") or model, "python3", "-m", module or f"dynamo.{backend[:40]}")),
        args=(*words(model, flag, model.text), hidden(spec, reason)),
        unknown_resources=(gap,),
    )
    sku = spec.get("hardware", "gpuSku")
    if sku is not None and sku.text and sku.text.lower() != "auto":
        accelerator: Fact[str] = from_file(sku.text.replace("_", "-"), sku.position)
        pod = replace(pod, accelerator=accelerator)
    return [typed_workload(document, kind, [pod], reading, replicas=None, group_size_known=False)]
