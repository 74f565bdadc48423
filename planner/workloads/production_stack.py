"""vLLM production stack: VLLMRuntime (production-stack.vllm.ai), and values of its chart ``vllm-stack``
(``servingEngineSpec.modelSpec``).

Source: operator/internal/controller/vllmruntime_controller.go and helm/templates/deployment-vllm-multi.yaml and
_helpers.tpl of vllm-project/production-stack: the command, which field becomes which flag, /dev/shm only where a tensor
parallel size is given, HF_HOME on the claim of ``pvcStorage`` (pvc.yaml) or in /tmp.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.documents.derived import mapping_at, sequence_at, text_at
from planner.documents.document import Document
from planner.documents.node import Node
from planner.workloads import fields as f
from planner.workloads.arguments import listed, names, options, words
from planner.workloads.fields import Reading
from planner.workloads.objects import PersistentVolumeClaim, size_of
from planner.workloads.typed import (
    changed,
    container_pod,
    count_of,
    image_text,
    joined,
    object_annotations,
    stated_model,
    taken,
    typed_workload,
    with_shared_memory,
)
from planner.workloads.workload import Arg, Mount, Workload

#: Fields of ``vllmConfig`` and ``model`` that are no flags of the same name.
_NO_FLAGS = (
    "chatTemplate",
    "enableTool",
    "env",
    "extraArgs",
    "hfTokenName",
    "hfTokenSecret",
    "host",
    "modelURL",
    "prometheusMultiprocDir",
    "v0",
    "v1",
)
_MOST_MODELS = 100


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The workload of a VLLMRuntime."""
    spec = document.root.get("spec")
    model = spec.get("model") if spec is not None else None
    url = model.get("modelURL") if model is not None else None
    if spec is None or model is None or url is None:
        return []
    config, deployment = spec.get("vllmConfig"), spec.get("deploymentConfig")
    sizes = deployment.get("resources") if deployment is not None else None
    gpu = sizes.get("gpu") if sizes is not None else None
    amounts: dict[str, Node | None] = {
        name: sizes.get(name) if sizes is not None else None for name in ("cpu", "memory")
    }
    devices = mapping_at(sizes, {"nvidia.com/gpu": gpu}) if sizes is not None and gpu is not None else None
    resources = None
    if sizes is not None:
        amounts["nvidia.com/gpu"] = gpu
        resources = mapping_at(sizes, {"requests": mapping_at(sizes, amounts), "limits": devices})
    environment = joined(spec, _engine_generation(config), config.get("env") if config is not None else None)
    pod = container_pod(
        spec,
        {
            "name": text_at(spec, "vllm"),
            "image": image_text(deployment.get("image")) if deployment is not None else None,
            "env": environment,
            "resources": resources,
        },
        document,
        reading,
        spec=taken(deployment, ("affinity", "nodeSelector", "tolerations")),
        annotations=object_annotations(document, reading),
    )
    arguments = _arguments(url, f.entries(model), f.entries(config), _MODEL_FLAGS)
    pod = changed(
        pod,
        command=tuple(words(url, "vllm", "serve")),
        args=tuple(arguments),
        model=stated_model(url),
        mounts=with_shared_memory(pod.containers[0], spec).mounts,
    )
    replicas = count_of(deployment, "replicas")
    scaled = spec.boolean("autoscalingConfig", "enabled")
    return [typed_workload(document, kind, [pod], reading, replicas=None if scaled else replicas)]


def _arguments(url: Node, model: Mapping[str, Node], config: Mapping[str, Node], flags: tuple[str, ...]) -> list[Arg]:
    """The engine's arguments of the fields that both forms share."""
    arguments = words(url, url.text)
    arguments += options(((name, node) for name, node in model.items() if name in flags), _NO_FLAGS)
    if model.get("enableTool") is not None and model["enableTool"].value is True:
        arguments += words(model["enableTool"], "--enable-auto-tool-choice")
    arguments += options(config.items(), _NO_FLAGS)
    return arguments + listed(config.get("extraArgs"))


#: Fields beside the model's name that become flags, in the custom resource and in the chart.
_MODEL_FLAGS = ("dtype", "enableLoRA", "maxModelLen", "maxNumSeqs", "toolCallParser")
_CHART_FLAGS = ("enableLoRA", "toolCallParser")


def _engine_generation(config: Node | None) -> Node | None:
    """``VLLM_USE_V1`` of ``v1: false`` or ``v0: "1"``."""
    if config is None:
        return None
    first, older = config.get("v1"), config.get("v0")
    value = None
    if older is not None and older.text == "1":
        value = text_at(older, "0")
    elif first is not None and first.text:
        value = text_at(first, "0" if first.text.lower() in ("false", "0") else "1")
    if value is None:
        return None
    return sequence_at(config, [mapping_at(config, {"name": text_at(config, "VLLM_USE_V1"), "value": value})])


# -- values of the chart -----------------------------------------------------------------------------------------------


def fits(values: Node) -> bool:
    """Whether a mapping holds values of the chart."""
    specs = values.get("servingEngineSpec", "modelSpec")
    return specs is not None and specs.kind == "sequence"


def from_values(values: Node, document: Document, kind: str, reading: Reading) -> list[Workload]:
    """One workload for each model of the chart's values."""
    engine = values.get("servingEngineSpec")
    if engine is None or engine.boolean("enableEngine") is False:
        return []
    found = []
    for spec in list(engine.get("modelSpec") or ())[:_MOST_MODELS]:
        url = spec.get("modelURL") if spec.kind == "mapping" else None
        if url is not None and url.kind == "scalar":
            found.append(_model_spec(spec, url, engine, document, kind, reading))
    return found


def _model_spec(spec: Node, url: Node, engine: Node, document: Document, kind: str, reading: Reading) -> Workload:
    config = spec.get("vllmConfig")
    arguments = _arguments(url, f.entries(spec), f.entries(config), _CHART_FLAGS)
    if (
        config is not None
        and config.get("enablePrefixCaching") is None
        and not names(arguments, "enable-prefix-caching")
    ):
        arguments += words(config, "--no-enable-prefix-caching")
    cache = spec.get("lmcacheConfig")
    if cache is not None and cache.boolean("enabled"):
        role = cache.string("kvRole") or "kv_both"
        connector = '{"kv_connector":"LMCacheConnectorV1","kv_role":"' + role[:40].replace('"', "") + '"}'
        arguments += words(cache, "--kv-transfer-config", connector)
    gpus = spec.get("requestGPU")
    resource = spec.string("requestGPUType") or "nvidia.com/gpu"
    sides = {}
    for side in ("request", "limit"):
        amounts = {"cpu": spec.get(f"{side}CPU"), "memory": spec.get(f"{side}Memory"), resource: gpus}
        for name, field in (("gpumem", "GPUMem"), ("gpumem-percentage", "GPUMemPercentage"), ("gpucores", "GPUCores")):
            amounts[f"nvidia.com/{name}"] = spec.get(f"{side}{field}")
        sides[f"{side}s"] = mapping_at(spec, amounts)
    token = spec.get("hf_token")
    secret = None
    if token is not None:
        reference = mapping_at(token, {"name": text_at(token, "secrets"), "key": text_at(token, "hf_token")})
        source = mapping_at(token, {"secretKeyRef": reference})
        secret = sequence_at(token, [mapping_at(token, {"name": text_at(token, "HF_TOKEN"), "valueFrom": source})])
    devices = cache.get("cudaVisibleDevices") if cache is not None else None
    visible = sequence_at(devices, [_variable(devices, "CUDA_VISIBLE_DEVICES")]) if devices is not None else None
    terms = spec.get("nodeSelectorTerms")
    affinity = None
    if terms is not None:
        required = mapping_at(terms, {"nodeSelectorTerms": terms})
        node_affinity = mapping_at(terms, {"requiredDuringSchedulingIgnoredDuringExecution": required})
        affinity = mapping_at(terms, {"nodeAffinity": node_affinity})
    runtime_class = spec.get("runtimeClassName") or engine.get("runtimeClassName")
    pod = container_pod(
        spec,
        {
            "name": spec.get("name") or text_at(spec, "vllm"),
            "image": image_text(spec.get("repository"), tag=spec.get("tag")),
            "env": joined(
                spec, _hub_home(spec), _engine_generation(config), secret, spec.get("env"), visible, _tiers(cache)
            ),
            "resources": mapping_at(spec, sides),
            "volumeMounts": spec.get("extraVolumeMounts"),
            **{name: engine.get(name) for name in ("startupProbe", "livenessProbe")},
        },
        document,
        reading,
        spec={
            "affinity": affinity or spec.get("affinity"),
            "nodeSelector": spec.get("nodeSelector"),
            "tolerations": spec.get("tolerations") or engine.get("tolerations"),
            "runtimeClassName": runtime_class if runtime_class is not None and runtime_class.text else None,
            "hostIPC": cache.get("enablePD") if cache is not None else None,
            "volumes": spec.get("extraVolumes"),
        },
        annotations=object_annotations(document, reading),
    )
    pod = changed(pod, command=tuple(words(url, "vllm", "serve")), args=tuple(arguments), model=stated_model(url))
    pod = changed(pod, mounts=(*pod.containers[0].mounts, *_storage(spec, document)))
    nodes = None
    ray = spec.get("raySpec")
    if ray is not None and ray.boolean("enabled") is not False:
        # The pods are the head's and, of replicaCount workers, as many as there are further pipeline stages.
        nodes = count_of(config, "pipelineParallelSize") if config is not None else 1
        container = pod.containers[0]
        executor = words(ray, "--distributed-executor-backend", "ray")
        pod = changed(pod, args=(*(container.args or ()), *executor))
    if (config is not None and config.get("tensorParallelSize") is not None) or ray is not None:
        pod = changed(pod, mounts=with_shared_memory(pod.containers[0], spec, spec.get("shmSize"), reading).mounts)
    return typed_workload(
        document,
        kind,
        [pod],
        reading,
        replicas=count_of(spec, "replicaCount"),
        group_size=nodes or 1,
        part=spec.string("name") or "",
    )


def _variable(at: Node, name: str, value: str | None = None) -> Node:
    """An entry of ``env`` that stands where ``at`` does; its value is the text there, or the one given."""
    return mapping_at(at, {"name": text_at(at, name), "value": text_at(at, at.text if value is None else value)})


def _hub_home(spec: Node) -> Node:
    """``HF_HOME``, which the chart sets before the variables of the values: on the model's volume, or in /tmp."""
    storage = spec.get("pvcStorage")
    return sequence_at(spec, [_variable(storage or spec, "HF_HOME", "/tmp" if storage is None else "/data")])


def _tiers(cache: Node | None) -> Node | None:
    """LMCache's tiers in host memory and on disk, as variables."""
    if cache is None:
        return None
    found = []
    memory, disk = cache.get("cpuOffloadingBufferSize"), cache.get("diskOffloadingBufferSize")
    if memory is not None and memory.text and memory.text != "0":
        found += [_variable(memory, "LMCACHE_LOCAL_CPU", "True"), _variable(memory, "LMCACHE_MAX_LOCAL_CPU_SIZE")]
    if disk is not None and disk.text:
        found.append(_variable(disk, "LMCACHE_MAX_LOCAL_DISK_SIZE"))
    return sequence_at(cache, found) if found else None


def _storage(spec: Node, document: Document) -> list[Mount]:
    """The claim of a model (helm/templates/pvc.yaml), mounted at /data where ``pvcStorage`` stands."""
    size = spec.get("pvcStorage")
    if size is None:
        return []
    name = f"{spec.string('name') or 'model'}-storage-claim"
    modes = tuple(mode.text for mode in spec.get("pvcAccessMode") or () if mode.kind == "scalar") or ("ReadWriteOnce",)
    amount = size_of(size)
    storage_class = spec.string("storageClass") or ""
    claim = PersistentVolumeClaim(name, document.namespace, document.file, size, modes, amount, storage_class)
    return [
        Mount(
            "/data",
            name,
            size,
            "persistentVolumeClaim",
            size_bytes=amount.value if amount is not None else None,
            source=name,
            volume_node=size,
            claim=claim,
        )
    ]
