"""OME (ome.io): InferenceService with its runtime, ServingRuntime and ClusterServingRuntime.

A runtime has an engine (and with prefill apart from decode, a decoder): one ``runner``, or a ``leader`` and ``worker``s.
"""

from __future__ import annotations

from planner.documents.derived import mapping_at, sequence_at, text_at
from planner.documents.document import Document
from planner.documents.node import Node
from planner.provenance import Fact, Unknown
from planner.workloads import fields as f
from planner.workloads.arguments import hidden, words
from planner.workloads.fields import Reading
from planner.workloads.leaderworkerset import injected
from planner.workloads.merge import merged_pod
from planner.workloads.pod_template import read_pod
from planner.workloads.references import Injected
from planner.workloads.typed import (
    CONTAINER_FIELDS,
    POD_FIELDS,
    changed,
    container_pod,
    count_of,
    object_annotations,
    open_devices,
    stated_model,
    taken,
    typed_workload,
)
from planner.workloads.workload import EnvVar, Pod, Workload

GROUP = "ome.io"
_PARTS = (("engine", "engineConfig"), ("decoder", "decoderConfig"))
#: What the names of OME's own runtimes start with → the engine's command.
_NAMED_RUNTIMES = (
    ("srt-", ("python3", "-m", "sglang.launch_server"), "--model-path"),
    ("sglang", ("python3", "-m", "sglang.launch_server"), "--model-path"),
    ("vllm", ("vllm", "serve"), ""),
)


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """One workload for the engine and one for the decoder."""
    spec = document.root.get("spec")
    if spec is None or spec.kind != "mapping":
        return []
    if kind == "InferenceService":
        return _service(spec, document, kind, reading)
    if _is_used(document, reading):
        return []
    found = []
    for part, key in _PARTS:
        config = spec.get(key)
        pods, size, known = _pods(config, document, reading) if config is not None else ([], 1, True)
        if pods:
            found.append(
                typed_workload(
                    document,
                    kind,
                    [_preset(item) for item in pods],
                    reading,
                    replicas=None,
                    group_size=size,
                    group_size_known=known,
                    part=part,
                )
            )
    if not found and spec.get("containers") is not None:  # the form of KServe, which older runtimes have
        pod = read_pod(mapping_at(spec, {"spec": spec}), document.namespace, document.file, reading)
        found.append(typed_workload(document, kind, [_preset(pod)], reading, replicas=None))
    return found


def _pods(config: Node, document: Document, reading: Reading) -> tuple[list[Pod], int, bool]:
    """The pods of an engine or decoder configuration, the size of a group and whether that is known."""
    leader, worker = config.get("leader"), config.get("worker")
    if leader is None:
        pod = _pod(config, config, "pod", 1, 1, document, reading)
        return ([pod] if pod is not None else []), 1, True
    workers = count_of(worker, "size") if worker is not None else 0
    size = 1 + (workers or 0)
    pods = [_pod(leader, config, "leader", 1, size, document, reading)]
    if worker is not None and workers:
        pods.append(_pod(worker, config, "worker", workers, size, document, reading))
    return [pod for pod in pods if pod is not None], size, workers is not None


def _pod(
    part: Node, config: Node, role: str, count: int, size: int, document: Document, reading: Reading
) -> Pod | None:
    runner = part.get("runner")
    if runner is None or runner.kind != "mapping":
        return None
    fields = {**taken(config, POD_FIELDS), **taken(part, POD_FIELDS)}
    container = mapping_at(runner, taken(runner, CONTAINER_FIELDS))
    if container.get("name") is None:
        container = mapping_at(runner, {**f.entries(container), "name": text_at(runner, "ome-container")})
    fields["containers"] = sequence_at(runner, [container])
    template = mapping_at(
        part,
        {
            "metadata": mapping_at(config, taken(config, ("annotations", "labels"))),
            "spec": mapping_at(part, fields),
        },
    )
    return read_pod(
        template,
        document.namespace,
        document.file,
        reading,
        role=role,
        count=count,
        annotations=object_annotations(document, reading),
        injected=(*_parallelism(runner, size), *(injected(role, size) if size > 1 else ())),
    )


def _parallelism(runner: Node, size: int) -> tuple[Injected, ...]:
    """The variable that OME computes: the GPUs of the group (setParallelismEnvVarForEngine of its controller)."""
    limits = runner.get("resources", "limits") or runner.get("resources", "requests")
    if limits is None or limits.kind != "mapping":
        return ()
    for name, amount in limits.items():
        if name.endswith("/gpu"):
            known = amount.text.isascii() and amount.text.isdecimal() and len(amount.text) < 5
            value = str(int(amount.text) * size) if known else None
            return (Injected("PARALLELISM_SIZE", value, "" if known else "the number of GPUs is not known"),)
    return ()


def _preset(item: Pod) -> Pod:
    for index, container in enumerate(item.containers):
        item = changed(
            item,
            index,
            env_unknown=(*container.env_unknown, "The InferenceService that uses this runtime"),
            unknown_resources=open_devices(container, "the InferenceService that uses this runtime asks for devices"),
        )
    return item


def _is_used(document: Document, reading: Reading) -> bool:
    return id(document) in reading.objects.used(GROUP, "InferenceService", lambda other: _runtime_of(other, reading))


def _runtime_of(document: Document, reading: Reading) -> Document | None:
    """The runtime that a service names."""
    name = document.root.string("spec", "runtime", "name")
    for kind in ("ServingRuntime", "ClusterServingRuntime") if name else ():
        namespace = document.namespace if kind == "ServingRuntime" else ""
        found = reading.objects.custom(GROUP, kind, name or "", namespace, document.file).found
        if found is not None:
            return found
    return None


def _service(spec: Node, document: Document, kind: str, reading: Reading) -> list[Workload]:
    name = spec.string("runtime", "name") or ""
    runtime = _runtime_of(document, reading)
    model = _model(spec, document, reading)
    found = []
    for part, key in _PARTS:
        own = spec.get(part)
        if own is None or own.kind != "mapping":
            continue
        pods, size, known = _pods(own, document, reading)
        config = runtime.root.get("spec", key) if runtime is not None else None
        if runtime is not None and config is not None:
            source = Document(runtime.file, runtime.index, runtime.root, runtime.comments)
            presets, size, known = _pods(config, source, reading)
            for number, preset in enumerate(presets):
                if number < len(pods):
                    presets[number] = merged_pod(preset, pods[number])
            pods = presets
        elif not pods:
            pod = _by_name(own, name, spec, document, reading)
            pods, known = ([pod] if pod is not None else []), False
        if not pods:
            continue
        low, high = count_of(own, "minReplicas"), count_of(own, "maxReplicas", default=None)
        found.append(
            typed_workload(
                document,
                kind,
                [_with_model(item, model) for item in pods],
                reading,
                replicas=low if high is None or high == low else None,
                group_size=size,
                group_size_known=known,
                part=part,
            )
        )
    return found


def _model(spec: Node, document: Document, reading: Reading) -> Fact[str] | None:
    """Where the model of the service comes from, else its name among the cluster's models."""
    node = spec.get("model", "name") or spec.get("model", "baseModel")
    if node is None or node.kind != "scalar":
        return None
    for kind in ("BaseModel", "ClusterBaseModel"):
        namespace = document.namespace if kind == "BaseModel" else ""
        found = reading.objects.custom(GROUP, kind, node.text, namespace, document.file).found
        uri = found.root.get("spec", "storage", "storageUri") if found is not None else None
        if uri is not None:
            return stated_model(uri)
    return stated_model(node)


def _with_model(item: Pod, model: Fact[str] | None) -> Pod:
    """The pod with ``MODEL_PATH``, which OME sets to where it puts the model."""
    for index, container in enumerate(item.containers):
        environment = dict(container.env)
        if model is not None and "MODEL_PATH" not in environment:
            environment["MODEL_PATH"] = EnvVar("MODEL_PATH", model.value, container.node)
        item = changed(item, index, model=model, env=environment)
    return item


def _by_name(own: Node, name: str, spec: Node, document: Document, reading: Reading) -> Pod | None:
    """The engine of a runtime that is not among the inputs, as its name tells it."""
    known = next((item for item in _NAMED_RUNTIMES if name.lower().startswith(item[0])), None)
    at = spec.get("runtime", "name") or own
    if known is None:
        return None
    _, command, flag = known
    reason = f"the runtime {name[:60]} is not among the files that were read"
    pod = container_pod(own, {"name": text_at(at, "ome-container")}, document, reading)
    gap = Unknown("limits.nvidia.com/gpu", reason, "lint the runtime together with the service", at.position)
    model = spec.get("model", "name") or at
    arguments = [*words(model, *([flag] if flag else []), model.text), hidden(at, reason)]
    return changed(pod, command=tuple(words(at, *command)), args=tuple(arguments), unknown_resources=(gap,))
