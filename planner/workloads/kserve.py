"""KServe (serving.kserve.io): InferenceService, and the ServingRuntime or ClusterServingRuntime that it runs in.

Source: pkg/controller/v1beta1/inferenceservice of kserve/kserve: a model's ``args`` follow the runtime's, its other
container fields are merged over the runtime's container ``kserve-container``; ``storageUri`` is mounted at /mnt/models;
``workerSpec`` adds ``pipelineParallelSize`` - 1 worker pods and sets the parallel sizes as variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from planner.documents.derived import mapping_at, sequence_at, substituted, text_at
from planner.documents.document import Document
from planner.documents.node import Node
from planner.provenance import Fact, Unknown, from_file
from planner.record import replace
from planner.workloads import fields as f
from planner.workloads.arguments import hidden, names, option, words
from planner.workloads.fields import Reading
from planner.workloads.merge import merged_pod
from planner.workloads.pod_template import read_pod
from planner.workloads.typed import (
    CONTAINER_FIELDS,
    POD_FIELDS,
    changed,
    count_of,
    filled,
    object_annotations,
    open_devices,
    pod,
    stated_model,
    taken,
    typed_workload,
    variables,
    with_shared_memory,
)
from planner.workloads.workload import Arg, Container, Pod, Workload

GROUP = "serving.kserve.io"
MODEL_PATH = "/mnt/models"
_MAIN = ("kserve-container",)
#: Predictors of the time before ``model``, named after their framework.
_FRAMEWORKS = ("huggingface", "triton", "pytorch", "tensorflow")
_VARIABLE = re.compile(r"\{\{-?\s*\.(Name|Namespace|Annotations\.[\w./-]+|Labels\.[\w./-]+)\s*-?\}\}")
#: What a format or a runtime's name says about a runtime that is not among the inputs: (word, engine, command).
_KNOWN_RUNTIMES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("nim", "nim", ()),
    ("vllm", "vllm", ("python3", "-m", "vllm.entrypoints.openai.api_server")),
    ("sglang", "sglang", ("python3", "-m", "sglang.launch_server")),
    ("tgi", "tgi", ("text-generation-launcher",)),
    ("caikit", "tgi", ("text-generation-launcher",)),
    ("llamacpp", "llama.cpp", ("llama-server",)),
    ("llama-cpp", "llama.cpp", ("llama-server",)),
    ("huggingface", "huggingfaceserver", ("python3", "-m", "huggingfaceserver")),
    ("triton", "triton", ()),
    ("tensorrt", "triton", ()),
)
#: Runtimes that KServe brings along: they add no argument that decides memory.
_OWN_RUNTIMES = ("kserve-huggingfaceserver", "kserve-huggingfaceserver-multinode")


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The workload of an InferenceService or of a runtime. A runtime that a service of the inputs names is read there."""
    spec = document.root.get("spec")
    if spec is None or spec.kind != "mapping":
        return []
    if kind == "InferenceService":
        workload = _service(spec, document, kind, reading)
        return [workload] if workload is not None else []
    if spec.get("containers") is None or _is_used(document, reading):
        return []
    pods, size, known = runtime_pods(document.root, document, reading)
    return [typed_workload(document, kind, pods, reading, replicas=None, group_size=size, group_size_known=known)]


def runtime_pods(root: Node, document: Document, reading: Reading) -> tuple[list[Pod], int, bool]:
    """The pods of a runtime (leader and workers), the size of a group and whether that is known."""
    spec = root.get("spec")
    if spec is None:
        return [], 1, True
    worker = spec.get("workerSpec")
    size = count_of(worker, "pipelineParallelSize") if worker is not None else 1
    metadata = mapping_at(spec, taken(spec, ("annotations", "labels")))
    head = pod(
        mapping_at(spec, {**f.entries(spec), "workerSpec": None}),
        document,
        reading,
        metadata=metadata,
        role="leader" if worker is not None else "pod",
        annotations=object_annotations(document, reading),
    )
    pods = [head]
    if worker is not None and worker.get("containers") is not None and size != 1:
        pods.append(pod(worker, document, reading, role="worker", count=(size or 2) - 1))
    return [_preset(item, worker) for item in pods], size or 1, size is not None


def _preset(item: Pod, worker: Node | None) -> Pod:
    """A runtime's pod as a preset: devices, and variables, come of the service that uses it."""
    for index, container in enumerate(item.containers):
        item = changed(
            item,
            index,
            env=variables(container, _parallel_variables(worker)),
            env_unknown=(*container.env_unknown, "The InferenceService that uses this runtime"),
            unknown_resources=open_devices(container, "the InferenceService that uses this runtime asks for devices"),
        )
    return item


def _parallel_variables(worker: Node | None) -> dict[str, Node | None]:
    if worker is None:
        return {}
    return {
        "PIPELINE_PARALLEL_SIZE": worker.get("pipelineParallelSize") or text_at(worker, "1"),
        "TENSOR_PARALLEL_SIZE": worker.get("tensorParallelSize") or text_at(worker, "1"),
    }


def _is_used(document: Document, reading: Reading) -> bool:
    """Whether a service of the inputs runs in this runtime."""

    def find(service: Document) -> Document | None:
        model = _model_of(service.root.get("spec", "predictor"))
        return _runtime_of(model, service, reading) if model is not None else None

    return id(document) in reading.objects.used(GROUP, "InferenceService", find)


# -- services ----------------------------------------------------------------------------------------------------------


def _service(spec: Node, document: Document, kind: str, reading: Reading) -> Workload | None:
    predictor = spec.get("predictor")
    if predictor is None or predictor.kind != "mapping":
        return None
    model = _model_of(predictor)
    own = _own_pod(predictor, model, document, reading)
    uri = _model_uri(predictor, model)
    size, known, worker = 1, True, predictor.get("workerSpec")
    workers: list[Pod] = []
    if model is not None:
        runtime = _runtime_of(model, document, reading)
        if runtime is not None and reading.spend(model, 0):
            root = substituted(runtime.root, _filler(document, reading))
            source = Document(runtime.file, runtime.index, root, runtime.comments)
            presets, size, known = runtime_pods(root, source, reading)
            own = _without_preset_gaps(merged_pod(presets[0], own, names=_MAIN, arguments="appended"))
            workers = presets[1:]
        else:
            own = _in_unknown_runtime(own, model, worker)
    if own is None or not own.containers:
        return None
    if worker is not None:
        stated = count_of(worker, "pipelineParallelSize", default=size)
        size, known = stated or 1, stated is not None
        own = changed(own, env={**own.containers[0].env, **variables(_bare(own), _parallel_variables(worker))})
        workers = [replace(item, count=max(1, size - 1)) for item in workers] if size > 1 else []
    if size > 1:
        own = _with_group_devices(replace(own, role="leader"), worker)
    own = changed(own, model=uri, model_paths=(MODEL_PATH,) if uri is not None and model is not None else ())
    low = count_of(predictor, "minReplicas")
    high = count_of(predictor, "maxReplicas", default=None)
    workload = typed_workload(
        document,
        kind,
        [own, *workers],
        reading,
        replicas=low if high is None or high == low else None,
        group_size=size,
        group_size_known=known,
    )
    return replace(workload, min_replicas=low, max_replicas=high)


def _model_of(predictor: Node | None) -> Node | None:
    """What a predictor says of its model: under ``model``, or under its framework's name as before."""
    if predictor is None:
        return None
    return next((node for name in ("model", *_FRAMEWORKS) if (node := predictor.get(name)) is not None), None)


def _bare(item: Pod) -> Container:
    return replace(item.containers[0], env={})


def _own_pod(predictor: Node, model: Node | None, document: Document, reading: Reading) -> Pod:
    """What the service itself says: the model's container fields, or a whole container of its own."""
    containers = [item for item in predictor.get("containers") or () if item.kind == "mapping"]
    if model is not None:
        own = mapping_at(model, {**taken(model, CONTAINER_FIELDS), "name": text_at(model, _MAIN[0])})
        rest = [item for item in containers if item.string("name") != _MAIN[0]]
        for item in containers:
            if item.string("name") == _MAIN[0]:
                own = mapping_at(model, {**f.entries(item), **f.entries(own)})
        containers = [own, *rest]
    fields = {**taken(predictor, POD_FIELDS), "containers": sequence_at(model or predictor, containers)}
    template = mapping_at(
        predictor,
        {
            "metadata": mapping_at(predictor, taken(predictor, ("annotations", "labels"))),
            "spec": mapping_at(predictor, fields),
        },
    )
    annotations = object_annotations(document, reading)
    own_pod = read_pod(template, document.namespace, document.file, reading, annotations=annotations)
    return filled(own_pod) if model is not None else own_pod


def _model_uri(predictor: Node, model: Node | None) -> Fact[str] | None:
    if model is not None:
        for path in (("storageUri",), ("storageURI",), ("storage", "storageUri"), ("storage", "path")):
            found = stated_model(model.get(*path))
            if found is not None:
                return found
        first = model.get("storageUris", 0, "uri") or predictor.get("storageUris", 0, "uri")
        return stated_model(first)
    for container in predictor.get("containers") or ():
        for variable in container.get("env") or ():
            if variable.string("name") == "STORAGE_URI":
                return stated_model(variable.get("value"))
    return None


def _runtime_of(model: Node, document: Document, reading: Reading) -> Document | None:
    """The runtime that the service names; without a name, the only one of the same file that supports its format."""
    name = model.string("runtime")
    if name:
        for kind in ("ServingRuntime", "ClusterServingRuntime"):
            namespace = document.namespace if kind == "ServingRuntime" else ""
            found = reading.objects.custom(GROUP, kind, name, namespace, document.file).found
            if found is not None:
                return found
        return None
    wanted = (model.string("modelFormat", "name") or "").lower()
    return reading.objects.supporting(GROUP, wanted, document.file)


def _filler(document: Document, reading: Reading) -> _Filler:
    metadata = f.mapping(f.entries(document.root), "metadata", reading)
    values = {"Name": document.name, "Namespace": document.namespace}
    for key, prefix in (("annotations", "Annotations."), ("labels", "Labels.")):
        for name, fact in f.string_map(metadata, key, reading).items():
            values[prefix + name] = fact.value
    return _Filler(values)


class _Filler:
    """Fills in the variables that a runtime may use of the service: ``{{.Name}}``, ``{{.Annotations.key}}`` …"""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def __call__(self, text: str) -> str:
        if "{{" not in text or len(text) > 200_000:
            return text
        return _VARIABLE.sub(lambda match: self._values.get(match.group(1)) or match.group(), text)


def _without_preset_gaps(item: Pod) -> Pod:
    """A runtime's pod once its service is known: nothing more is added by it."""
    for index, container in enumerate(item.containers):
        kept = [gap for gap in container.unknown_resources if "that uses this runtime" not in gap.reason]
        sources = tuple(name for name in container.env_unknown if not name.endswith("that uses this runtime"))
        item = changed(item, index, unknown_resources=tuple(kept), env_unknown=sources)
    return item


def _in_unknown_runtime(own: Pod, model: Node, worker: Node | None) -> Pod:
    """The service's pod where its runtime is not among the inputs: the engine as names tell it, and arguments that only
    KServe's own runtimes are known not to add."""
    container = own.containers[0]
    if container.command is not None or (container.image is not None and container.args is not None):
        return own
    runtime = model.string("runtime") or ""
    told = f"{runtime} {model.string('modelFormat', 'name') or ''}".lower()
    known = next((item for item in _KNOWN_RUNTIMES if item[0] in told), None)
    at = model.get("runtime") or model.get("modelFormat") or model
    arguments: list[Arg] = list(container.args or ())
    reason = f"the ServingRuntime {runtime[:60]} is not among the files that were read and may add arguments"
    if known is None:
        return changed(own, args=(hidden(at, reason), *arguments)) if arguments else own
    _, engine, command = known
    if command and worker is not None:
        for flag, key in (
            ("tensor-parallel-size", "tensorParallelSize"),
            ("pipeline-parallel-size", "pipelineParallelSize"),
        ):
            size = worker.get(key)
            if size is not None and not names(arguments, flag):
                arguments += option(flag, size)
    if command and runtime and runtime not in _OWN_RUNTIMES:
        arguments.insert(0, hidden(at, reason))
    own = changed(
        own,
        command=tuple(words(at, *command)) or None,
        args=tuple(arguments) or None,
        engine=engine,
    )
    if runtime:
        own = changed(own, env_unknown=(*container.env_unknown, f"The ServingRuntime {runtime[:60]}"))
    return changed(own, mounts=with_shared_memory(own.containers[0], at).mounts)


def _with_group_devices(own: Pod, worker: Node | None) -> Pod:
    """In a group, KServe gives a pod without GPUs as many as the tensor parallel size asks for."""
    container = own.containers[0]
    if any("/" in name for name in (*container.limits, *container.requests)):
        return own
    tensor = worker.get("tensorParallelSize") if worker is not None else None
    count = count_of(tensor) if tensor is not None else 1
    place = (tensor or worker or container.node).position
    if count is None:
        gap = Unknown("limits.nvidia.com/gpu", "tensorParallelSize is a placeholder", "write a number", place)
        return changed(own, unknown_resources=(*container.unknown_resources, gap))
    amount = {"nvidia.com/gpu": from_file(float(count), place)}
    kept = tuple(gap for gap in container.unknown_resources if gap.fact != "limits.nvidia.com/gpu")
    return changed(
        own,
        limits={**container.limits, **amount},
        requests={**container.requests, **amount},
        unknown_resources=kept,
    )
