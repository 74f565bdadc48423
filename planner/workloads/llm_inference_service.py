"""KServe LLMInferenceService and LLMInferenceServiceConfig (serving.kserve.io).

Source: config/llmisvcconfig of kserve/kserve, the presets that the controller merges under every service: the command
(``vllm serve /mnt/models`` with the sizes of ``spec.parallelism``, then the variable VLLM_ADDITIONAL_ARGS, then the
container's own arguments), a memory-backed /dev/shm, LeaderWorkerSet where ``worker`` is given.
"""

from __future__ import annotations

from planner.documents.derived import mapping_at, sequence_at, text_at
from planner.documents.document import Document
from planner.documents.node import Node
from planner.provenance import Fact
from planner.record import replace
from planner.workloads import fields as f
from planner.workloads.arguments import hidden, names, option, split, words
from planner.workloads.fields import Reading
from planner.workloads.leaderworkerset import injected
from planner.workloads.merge import merged_pod
from planner.workloads.typed import (
    changed,
    count_of,
    object_annotations,
    open_devices,
    pod,
    stated_model,
    typed_workload,
    with_shared_memory,
    with_startup,
)
from planner.workloads.workload import Arg, ClaimRequest, Container, EnvVar, Pod, Workload

GROUP = "serving.kserve.io"
MODEL_PATH = "/mnt/models"
_MAIN = ("main",)
_DEVICE_CLASS = "serving.kserve.io/exp-dra-device-class"
_DEVICE_COUNT = "serving.kserve.io/exp-dra-device-count"
_FLAGS = (
    ("tensor", "tensor-parallel-size"),
    ("pipeline", "pipeline-parallel-size"),
    ("data", "data-parallel-size"),
    ("dataLocal", "data-parallel-size-local"),
    ("expert", "enable-expert-parallel"),
)
_MOST_PRESETS = 20


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The workload of the service, and that of its prefill pool."""
    spec = document.root.get("spec")
    if spec is None or spec.kind != "mapping":
        return []
    found = []
    for part in ("", "prefill"):
        pool = spec.get("prefill") if part else spec
        if pool is None or pool.kind != "mapping":
            continue
        workload = _pool(pool, spec, part, document, kind, reading)
        if workload is not None:
            found.append(workload)
    return found


def _pool(pool: Node, spec: Node, part: str, document: Document, kind: str, reading: Reading) -> Workload | None:
    preset = kind == "LLMInferenceServiceConfig"
    if pool.get("template") is None and pool.get("worker") is None and (preset or spec.get("model") is None):
        return None
    parallelism = pool.get("parallelism") or (spec.get("parallelism") if not part else None)
    size, known = _group(pool, parallelism)
    pods: list[Pod] = []
    for key, role, count in (("template", "leader", 1), ("worker", "worker", size - 1)):
        node = pool.get(key)
        if (key == "worker" and (node is None or count < 1)) or (node is None and key != "template"):
            continue
        item = _pod(node, pool, spec, key, part, document, reading, role if size > 1 else "pod", max(count, 1), size)
        if not item.containers:
            continue
        engine = _engine_index(item)
        container = item.containers[engine]
        if key == "worker" and _as_leader(container, pods):
            continue  # it runs the preset's script with the leader's arguments: the same engine
        pods.append(_translated(item, engine, spec, parallelism, preset, document, kind))
    if not pods:
        return None
    replicas = count_of(pool, "replicas")
    low, high = (
        count_of(pool, "scaling", "minReplicas", default=None),
        count_of(pool, "scaling", "maxReplicas", default=None),
    )
    workload = typed_workload(
        document,
        kind,
        pods,
        reading,
        replicas=None if high is not None else replicas,
        group_size=size,
        group_size_known=known,
        part=part,
    )
    return replace(workload, min_replicas=low, max_replicas=high) if high is not None else workload


def _group(pool: Node, parallelism: Node | None) -> tuple[int, bool]:
    """Pods of one engine copy: all data parallel ranks by those of a pod, else the pipeline stages."""
    if pool.get("worker") is None:
        return 1, True
    data, local = (count_of(parallelism, key, default=None) for key in ("data", "dataLocal"))
    if data:
        return max(1, data // max(local or 1, 1)), True
    pipeline = count_of(parallelism, "pipeline", default=None)
    return (pipeline, True) if pipeline else (2, False)


def _pod(
    node: Node | None,
    pool: Node,
    spec: Node,
    key: str,
    part: str,
    document: Document,
    reading: Reading,
    role: str,
    count: int,
    size: int,
) -> Pod:
    """The pod of a pool with the presets that ``baseRefs`` names laid under it."""
    at = spec.get("model") or pool
    if node is not None and node.get("containers") is None and node.get("spec", "containers") is not None:
        node = node.get("spec")  # a pod template where a pod spec belongs: what is meant is plain
    if node is None or not list(node.get("containers") or ()):
        container = mapping_at(at, {"name": text_at(at, _MAIN[0])})
        node = mapping_at(node or at, {**f.entries(node), "containers": sequence_at(at, [container])})
    own = pod(
        node,
        document,
        reading,
        role=role,
        count=count,
        annotations=object_annotations(document, reading),
        injected=injected(role, size) if size > 1 else (),
    )
    for reference in list(spec.get("baseRefs") or ())[:_MOST_PRESETS]:
        name = reference.string("name") or ""
        base = reading.objects.custom(GROUP, "LLMInferenceServiceConfig", name, document.namespace, document.file).found
        path = ("spec", "prefill", key) if part else ("spec", key)
        template = base.root.get(*path) if base is not None else None
        if base is None or template is None or template.get("containers") is None:
            continue
        below = pod(template, Document(base.file, base.index, base.root), reading)
        own = merged_pod(below, own, names=_MAIN)
    return _with_claim(own, document)


def _as_leader(worker: Container, pods: list[Pod]) -> bool:
    """Whether a worker says nothing of its engine that its leader does not."""
    if worker.command is not None or not pods:
        return False
    texts = [argument.text for argument in worker.args or ()]
    leader = pods[0].containers[_engine_index(pods[0])]
    return [argument.text for argument in leader.args or ()][-len(texts) :] == texts if texts else True


def _engine_index(item: Pod) -> int:
    """The container that serves: ``main``, else the first one that is no helper."""
    for index, container in enumerate(item.containers):
        if container.name == _MAIN[0] and not container.init:
            return index
    return 0


def _translated(
    item: Pod, index: int, spec: Node, parallelism: Node | None, preset: bool, document: Document, kind: str
) -> Pod:
    """The pod with the command that the controller's presets give its engine."""
    container = item.containers[index]
    uri = spec.get("model", "uri")
    model = stated_model(uri)
    at = uri or spec.get("model") or container.node
    item = changed(item, index, model=model, model_paths=(MODEL_PATH,))
    if preset:
        reason = "the LLMInferenceService that uses this preset asks for devices"
        item = changed(
            item,
            index,
            env_unknown=(*container.env_unknown, "The LLMInferenceService that uses this preset"),
            unknown_resources=open_devices(container, reason),
        )
    item = changed(item, index, probes=with_startup(container, 10, 10, 60).probes)
    if container.command is not None:
        return item
    own = list(container.args or ())
    variable = container.env.get("VLLM_ADDITIONAL_ARGS")
    arguments: list[Arg] = words(at, MODEL_PATH)
    for key, flag in _FLAGS:
        value = parallelism.get(key) if parallelism is not None else None
        if value is not None and not names(own, flag):
            arguments += option(flag, value)
    if variable is not None:
        if variable.value is None:
            arguments.append(hidden(variable.node, f"VLLM_ADDITIONAL_ARGS is {variable.reason}"))
        else:
            arguments += _evaluated(variable)
    if preset:
        arguments.append(hidden(container.node, "the LLMInferenceService that uses this preset may add arguments"))
    arguments += own
    item = changed(item, index, command=tuple(words(at, "vllm", "serve")), args=tuple(arguments))
    return changed(item, index, mounts=with_shared_memory(item.containers[index], at).mounts)


def _evaluated(variable: EnvVar) -> list[Arg]:
    """The words of VLLM_ADDITIONAL_ARGS, which a shell of the preset evaluates: what it expands there is not known."""
    if variable.node.text != variable.value:
        return [hidden(variable.node, "VLLM_ADDITIONAL_ARGS is put together from other variables")]
    return [
        argument._replace(unknown="a shell of KServe's preset expands it")
        if "$" in argument.text or "{{" in argument.text
        else argument
        for argument in split(variable.node)
    ]


def _with_claim(item: Pod, document: Document) -> Pod:
    """Devices that annotations ask for by dynamic resource allocation."""
    annotations: dict[str, Fact[str]] = item.annotations
    device_class = annotations.get(_DEVICE_CLASS)
    if device_class is None or not item.containers:
        return item
    place = document.root.get("metadata", "annotations", _DEVICE_COUNT)
    node = place or document.root.get("metadata", "annotations", _DEVICE_CLASS) or document.root
    count = count_of(place) if place is not None else 1
    request = ClaimRequest("kserve-devices", "devices", device_class.value.strip(), count, node)
    index = _engine_index(item)
    item = changed(item, index, claims=(*item.containers[index].claims, "kserve-devices"))
    return replace(item, claim_requests=(*item.claim_requests, request))
