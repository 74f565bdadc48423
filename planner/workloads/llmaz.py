"""llmaz (inference.llmaz.io): Playground, with the OpenModel and the BackendRuntime that it names; Service; a
BackendRuntime alone.

Source: chart/templates/backends of InftyAI/llmaz for the commands and arguments of its own runtimes.
"""

from __future__ import annotations

from planner.documents.derived import text_at
from planner.documents.document import Document
from planner.documents.node import Node
from planner.provenance import Fact, Unknown, from_file
from planner.record import replace
from planner.workloads import fields as f
from planner.workloads.arguments import hidden, listed, names, option, words
from planner.workloads.fields import Reading
from planner.workloads.leaderworkerset import injected
from planner.workloads.objects import Lookup
from planner.workloads.pod_template import has_containers, read_pod
from planner.workloads.typed import (
    changed,
    container_pod,
    count_of,
    image_text,
    joined,
    object_annotations,
    open_devices,
    stated_model,
    taken,
    typed_workload,
    with_shared_memory,
)
from planner.workloads.workload import Arg, Container, Pod, Workload

GROUP = "inference.llmaz.io"
MODEL_GROUP = "llmaz.io"
#: The backends that llmaz brings along: command, and the flag before the model (empty: it is told later).
_BACKENDS = {
    "vllm": (("python3", "-m", "vllm.entrypoints.openai.api_server"), "--model"),
    "sglang": (("python3", "-m", "sglang.launch_server"), "--model-path"),
    "tgi": (("text-generation-launcher",), "--model-id"),
    "llamacpp": (("llama-server",), "-m"),
    "ollama": (("ollama", "serve"), ""),
    "tensorrt-llm": (("trtllm-serve",), ""),
}


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The workload of one of the kinds above."""
    spec = document.root.get("spec")
    if spec is None or spec.kind != "mapping":
        return []
    if kind == "Service":
        return _service(spec, document, kind, reading)
    if kind == "Playground":
        return [_playground(spec, document, kind, reading)]
    if id(document) in reading.objects.used(GROUP, "Playground", lambda other: _runtime(other, reading).found):
        return []  # it is read where it is used
    pod = _preset(_runtime_pod(spec, spec, document, reading))
    return [typed_workload(document, kind, [pod], reading, replicas=None)]


def _playground(spec: Node, document: Document, kind: str, reading: Reading) -> Workload:
    own, backend = _backend(spec)
    lookup = _runtime(document, reading)
    runtime = lookup.found
    model, flavor, name = _model(spec, document, reading)
    command, flag = _BACKENDS.get(backend.lower(), ((), ""))
    at = (own.get("backendName") if own is not None else None) or name or spec
    pod = _runtime_pod(own or spec, spec, document, reading)
    arguments: list[Arg] = []
    if runtime is not None:
        base = _runtime_pod(runtime.root.get("spec") or runtime.root, runtime.root, runtime, reading)
        container = base.containers[0]
        arguments = [item for item in container.args or () if "{{" not in item.text]
        dropped = {flag, "--model", "--model-path", "--model-id", "--served-model-name"}
        arguments = [item for item in arguments if item.text not in dropped]
        pod = _merged(pod, container)
    if runtime is None or not pod.containers[0].command:
        pod = changed(pod, command=tuple(words(at, *command)) or None, engine="" if command else backend.lower())
    if lookup.several:
        arguments = [hidden(at, lookup.reason)]
    if name is not None and model is not None and flag:
        arguments = [*words(name, flag, model.value), *arguments]
    parameters = flavor.get("params") if flavor is not None else None
    own_arguments = listed(own.get("args") if own is not None else None)
    for key, size in (("TP", "tensor-parallel-size"), ("PP", "pipeline-parallel-size")):
        value = parameters.get(key) if parameters is not None else None
        if value is not None and not names(own_arguments, size, "tp", "pp") and backend.lower() in ("vllm", "sglang"):
            arguments += option(size, value)
    pod = changed(pod, args=(*arguments, *own_arguments) or None, model=model)
    pod = _with_flavor(pod, flavor, spec)
    pipeline = count_of(parameters, "PP") if parameters is not None else 1
    replicas = count_of(spec, "replicas")
    elastic = spec.get("elasticConfig")
    return typed_workload(
        document,
        kind,
        [pod],
        reading,
        replicas=None if elastic is not None else replicas,
        group_size=pipeline or 1,
        group_size_known=pipeline is not None,
        connected=True,
    )


def _backend(spec: Node) -> tuple[Node | None, str]:
    """What a Playground says of its backend, and the backend's name: vLLM's where it gives none."""
    own = spec.get("backendRuntimeConfig") or spec.get("backendConfig")
    return own, _text(own, "backendName") or _text(own, "name") or "vllm"


def _runtime(document: Document, reading: Reading) -> Lookup[Document]:
    """The BackendRuntime of a Playground, which belongs to no namespace. llmaz brings along runtimes of its own: one of such a
    name in another folder (a test's, say) need not be the one that is meant."""
    spec = document.root.get("spec")
    name = _backend(spec)[1] if spec is not None and spec.kind == "mapping" else ""
    lookup = reading.objects.custom(GROUP, "BackendRuntime", name, "", document.file)
    found = lookup.found
    if found is not None and name.lower() in _BACKENDS and _folder(found) != _folder(document):
        reason = f"llmaz brings along a BackendRuntime {name}, and {found.file} in another folder defines one too"
        return Lookup(None, reason, several=True)
    return lookup


def _folder(document: Document) -> str:
    return document.file.rpartition("/")[0]


def _text(node: Node | None, key: str) -> str:
    return (node.string(key) or "") if node is not None else ""


def _model(spec: Node, document: Document, reading: Reading) -> tuple[Fact[str] | None, Node | None, Node | None]:
    """The model, the flavor that its object asks for first, and the node of its name."""
    name = (
        spec.get("modelClaim", "modelName")
        or spec.get("modelClaims", "models", 0, "name")
        or spec.get("multiModelsClaim", "modelNames", 0)
    )
    if name is None or name.kind != "scalar":
        return None, None, None
    for kind in ("OpenModel", "Model"):
        found = reading.objects.custom(MODEL_GROUP, kind, name.text, "", document.file).found
        if found is None:
            continue
        source = found.root.get("spec", "source")
        node = None
        if source is not None:
            node = source.get("modelHub", "modelID") or source.get("uri") or source.get("url")
        flavor = found.root.get("spec", "inferenceConfig", "flavors", 0) or found.root.get(
            "spec", "inferenceFlavors", 0
        )
        return stated_model(node), flavor, name
    return stated_model(name), None, name


def _runtime_pod(config: Node, at: Node, document: Document, reading: Reading) -> Pod:
    """The pod of a runtime, or of what a playground says over it."""
    recommended = config.get("recommendedConfigs", 0)
    command = config.get("command") or config.get("commands")
    arguments = config.get("args")
    flags = recommended.get("args") if recommended is not None else None
    if arguments is not None and arguments.get(0, "flags") is not None:
        flags = arguments.get(0, "flags")
    elif arguments is not None:
        flags = arguments
    resources = config.get("resources") or (recommended.get("resources") if recommended is not None else None)
    pod = container_pod(
        at,
        {
            "name": text_at(at, "model-runner"),
            "image": image_text(config.get("image"), tag=config.get("version")),
            "env": joined(config, config.get("env"), config.get("envs")),
            "resources": resources,
            **taken(config, ("livenessProbe", "readinessProbe", "startupProbe")),
        },
        document,
        reading,
        annotations=object_annotations(document, reading),
    )
    size = config.get("sharedMemorySize") or (recommended.get("sharedMemorySize") if recommended is not None else None)
    return changed(
        pod,
        command=tuple(listed(command)) or None,
        args=tuple(listed(flags)) or None,
        mounts=with_shared_memory(pod.containers[0], at, size, reading).mounts,
    )


def _preset(pod: Pod) -> Pod:
    container = pod.containers[0]
    return changed(
        pod,
        env_unknown=(*container.env_unknown, "The Playground that uses this runtime"),
        unknown_resources=open_devices(container, "the model that a Playground serves asks for devices"),
    )


def _merged(own: Pod, base: Container) -> Pod:
    """A playground's container over that of its runtime, which may stand in another file."""
    from planner.workloads.merge import merged_container

    container = merged_container(base, own.containers[0])
    return replace(own, containers=(container, *own.containers[1:]))


def _with_flavor(pod: Pod, flavor: Node | None, spec: Node) -> Pod:
    """Devices and nodes that the model's first flavor asks for."""
    container = pod.containers[0]
    amounts: dict[str, Fact[float]] = {}
    if flavor is not None:
        for side in ("limits", "requests"):
            for name, node in f.entries(flavor.get(side)).items():
                count = count_of(node)
                if "/" in name and count is not None:
                    amounts[name] = from_file(float(count), node.position)
        selector = {
            name: from_file(node.text, node.position)
            for name, node in f.entries(flavor.get("nodeSelector")).items()
            if node.kind == "scalar"
        }
        pod = replace(pod, node_selector={**selector, **pod.node_selector})
    gaps = container.unknown_resources
    if not amounts and not any("/" in name for name in container.limits):
        reason = "the OpenModel that it serves names no devices among the files that were read"
        gap = Unknown("limits.nvidia.com/gpu", reason, "lint the OpenModel together with it", spec.position)
        gaps = (*gaps, gap)
    return changed(
        pod,
        limits={**amounts, **container.limits},
        requests={**amounts, **container.requests},
        unknown_resources=gaps,
    )


def _service(spec: Node, document: Document, kind: str, reading: Reading) -> list[Workload]:
    """A Service has the templates of a LeaderWorkerSet."""
    group = spec.get("workloadTemplate")
    group = (group.get("leaderWorkerTemplate") if group is not None else None) or group
    if group is None or group.kind != "mapping":
        return []
    size = count_of(group, "size")
    worker, leader = group.get("workerTemplate"), group.get("leaderTemplate")
    model, _, _ = _model(spec, document, reading)
    pods = []
    for template, role, count in ((leader or worker, "leader", 1), (worker, "worker", (size or 2) - 1)):
        if template is None or not has_containers(template) or count < 1:
            continue
        pod = read_pod(
            template,
            document.namespace,
            document.file,
            reading,
            role=role,
            count=count,
            annotations=object_annotations(document, reading),
            injected=injected(role, size),
        )
        pods.append(changed(pod, model=model) if model is not None else pod)
    if not pods:
        return []
    replicas = count_of(spec, "replicas")
    known = size is not None
    return [
        typed_workload(document, kind, pods, reading, replicas=replicas, group_size=size or 1, group_size_known=known)
    ]
