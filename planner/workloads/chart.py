"""Values of a chart that planner does not know, where they describe an engine: an image, a model, sizes and arguments in
whatever fields the chart has for them.

What its templates make of the values is not known, so that further arguments are unknown; what the values state is read.
"""

from __future__ import annotations

import re

from planner.documents.derived import mapping_at, text_at
from planner.documents.document import Document
from planner.documents.node import Node
from planner.provenance import from_file
from planner.workloads import fields as f
from planner.workloads.arguments import flag_name, hidden, listed, names, option, options, words
from planner.workloads.fields import Reading
from planner.workloads.typed import (
    changed,
    container_pod,
    count_of,
    environment_list,
    image_text,
    object_annotations,
    open_devices,
    stated_model,
    taken,
    typed_workload,
)
from planner.workloads.workload import Arg, Mount, Workload

#: Words of an image, a framework or a key → (engine, command, flag before the model).
_ENGINES: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    (r"vllm", "vllm", ("vllm", "serve"), ""),
    (r"sglang", "sglang", ("python3", "-m", "sglang.launch_server"), "--model-path"),
    (r"text-generation-inference|(?:^|[-_/])tgi(?:$|[-_:])", "tgi", ("text-generation-launcher",), "--model-id"),
    (r"text-embeddings-inference|(?:^|[-_/])tei", "tei", ("text-embeddings-router",), "--model-id"),
    (r"tritonserver|triton[-_]trt", "triton", (), ""),
    (r"tensorrt-?llm|trtllm|trt-llm", "trtllm", ("trtllm-serve",), ""),
    (r"nvcr\.io/nim/|(?:^|[-_/])nim(?:$|[-_:])", "nim", (), ""),
    (r"llama[.-]?cpp|llama-server", "llama.cpp", ("llama-server",), "--model"),
    (r"(?:^|/)ollama", "ollama", ("ollama", "serve"), ""),
)
_NO_ENGINES = re.compile(
    r"router|gateway|operator|controller|webui|proxy|exporter|lmcache-server|inference-sim|bench|scheduler"
)
_MODELS = (
    ("model", "id"),
    ("model", "name"),
    ("model", "modelId"),
    ("model", "path"),
    ("model",),
    ("modelId",),
    ("modelID",),
    ("modelName",),
    ("modelURL",),
    ("modelPath",),
    ("model_id",),
    ("model_name",),
    ("hfModel",),
    ("LLM_MODEL_ID",),
    ("EMBEDDING_MODEL_ID",),
    ("RERANK_MODEL_ID",),
)
_ARGUMENTS = (
    "args",
    "engineArgs",
    "engine_args",
    "extraArgs",
    "extra_args",
    "extraCmdArgs",
    "modelArgs",
    "serverArgs",
    "server_args",
    "sglang_server_args",
    "vllmArgs",
    "vllmConfig",
    "vllm_args",
    "vllm_engine_args",
)
_VARIABLES = ("env", "envs", "envVars", "env_vars", "extraEnv", "extraEnvVars")
_GPUS = ("gpus", "gpuCount", "gpu_count", "numGpus", "num_gpus", "gpuPerNode", "requestGPU")
_SIZES = (
    ("tensorParallelSize", "tensor-parallel-size"),
    ("tensorParallelism", "tensor-parallel-size"),
    ("tpSize", "tensor-parallel-size"),
    ("tp_size", "tensor-parallel-size"),
    ("pipelineParallelSize", "pipeline-parallel-size"),
    ("ppSize", "pipeline-parallel-size"),
    ("pp_size", "pipeline-parallel-size"),
    ("dataParallelSize", "data-parallel-size"),
)
#: Fields of a chart that have the name of a flag of vLLM which decides memory.
_FLAGS = frozenset(
    (
        "block-size",
        "cpu-offload-gb",
        "dtype",
        "enforce-eager",
        "gpu-memory-utilization",
        "kv-cache-dtype",
        "max-model-len",
        "max-num-batched-tokens",
        "max-num-seqs",
        "quantization",
        "swap-space",
    )
)
_NODES = ("nnodes", "nodes", "nodeCount")


def engine_of(values: Node, key: str = "") -> tuple[str, tuple[str, ...], str] | None:
    """Name, command and the flag before the model of the engine that a mapping of values describes, None for none."""
    image = _image(values)
    said = (values.string("framework") or values.string("engine") or "").lower()
    reference = (image.text if image is not None else "").lower()
    if _NO_ENGINES.search(reference.rpartition("/")[2]):
        return None
    own = any(values.get(name) is not None for name in (*_ARGUMENTS, *_GPUS, "resources")) or any(
        values.get(*path) is not None for path in _MODELS
    )
    if not own:
        return None
    for text in (said, reference):
        for pattern, engine, command, flag in _ENGINES:
            if text and re.search(pattern, text):
                return engine, command, flag
    if not reference or reference == key.lower():
        told = next((item for item in _ENGINES if key and re.fullmatch(item[0], key.lower())), None)
        if told is not None and any(values.get(name) is not None for name in (*_ARGUMENTS, "image", "serverArgs")):
            return told[1:]
    for name in _ARGUMENTS:
        for pattern, engine, command, flag in _ENGINES[:2]:
            if pattern in name.lower() and values.get(name) is not None:
                return engine, command, flag
    return None


def from_values(
    values: Node, key: str, around: Node, document: Document, kind: str, reading: Reading
) -> Workload | None:
    """The workload of a mapping of values; ``around`` are the values that it is a part of."""
    told = engine_of(values, key)
    if told is None or values.boolean("enabled") is False:
        return None
    engine, command, flag = told
    image = _image(values) or _image(around.get("job"))
    model = _model(values) or (_model(around) if around != values else None)
    inner = values.get("image") if values.get("image") is not None and values.get("image").kind == "mapping" else None  # type: ignore[union-attr]
    own_command = values.get("command") or (inner.get("command") if inner is not None else None)
    extra = values.get("extraCmd", "command")
    own_command = own_command or extra
    arguments: list[Arg] = []
    for name in _ARGUMENTS:
        node = values.get(name)
        if node is None:
            continue
        own = node if node.kind != "mapping" else None
        arguments += listed(own) if own is not None else _switches(f.entries(node))
    if engine == "vllm" and names(arguments, "model"):
        command = ("python3", "-m", "vllm.entrypoints.openai.api_server")  # ``vllm serve`` has no --model
    at = model or image or values
    sizes: list[Arg] = []
    shared = around.get("tensorrtLLM")
    for holder in (values, values.get("model"), values.get("parallelism"), around.get("model")):
        if holder is None or holder.kind != "mapping":
            continue
        for field, name in _SIZES:
            size = holder.get(field)
            if size is not None and size.text and not names((*arguments, *sizes), name, "tp", "tp-size"):
                sizes += option(name, size)
        for key_name, node in holder.items():
            name = flag_name(key_name)
            if name in _FLAGS and node.kind == "scalar" and node.text and not names((*arguments, *sizes), name):
                sizes += option(name, node)
    for field, name in (("tensor", "tensor-parallel-size"), ("pipeline", "pipeline-parallel-size")):
        size = values.get("parallelism", field) or (shared.get("parallelism", field) if shared is not None else None)
        if size is not None and size.text and not names((*arguments, *sizes), name):
            sizes += option(name, size)
    words_of_command = listed(own_command)
    first: list[Arg] = []
    if (
        model is not None
        and command
        and not words_of_command
        and not names(arguments, "model", "model-path", "model-id")
    ):
        first = words(model, *([flag] if flag else []), model.text)
    gpus = next((node for name in _GPUS if (node := values.get(name)) is not None), None)
    gpus = gpus or around.get("job", "gpus") or around.get("gpuPerNode")
    resources = values.get("resources")
    if gpus is not None and gpus.text.isdecimal() and values.get("resources", "limits") is None:
        resource = "amd.com/gpu" if image is not None and "rocm" in image.text.lower() else "nvidia.com/gpu"
        amount = mapping_at(values, {resource: gpus})
        resources = mapping_at(values, {"limits": amount, "requests": amount})
    variables = next((node for name in _VARIABLES if (node := values.get(name)) is not None), None)
    pod = container_pod(
        values,
        {
            "name": text_at(values, engine),
            "image": image,
            "env": environment_list(variables),
            "resources": resources if resources is not None and resources.kind == "mapping" else None,
            **taken(values, ("startupProbe", "livenessProbe", "readinessProbe")),
        },
        document,
        reading,
        spec=taken(values, ("affinity", "nodeSelector", "tolerations", "runtimeClassName")),
        annotations=object_annotations(document, reading),
    )
    container = pod.containers[0]
    reason = "the chart's templates may add arguments"
    pod = changed(
        pod,
        command=tuple(words_of_command or words(at, *command)) or None,
        args=(*first, *sizes, *arguments, hidden(at, reason)) if command or words_of_command else None,
        engine=engine,
        model=stated_model(model),
        env_unknown=(*container.env_unknown, "The chart"),
        mounts=(*container.mounts, Mount("/dev/shm", "chart", values, "unknown", reason=reason)),
        unknown_resources=open_devices(container, "the chart's templates ask for the devices"),
    )
    named = values.get("gpu") or around.get("gpu")
    if named is not None and named.kind == "scalar" and re.search(r"[A-Za-z]", named.text):
        from planner.record import replace

        pod = replace(pod, accelerator=from_file(named.text, named.position))
    nodes = next((node for name in _NODES if (node := values.get(name)) is not None), None)
    count = count_of(nodes) if nodes is not None else 1
    replicas = count_of(values, "replicaCount", default=count_of(values, "replicas"))
    return typed_workload(
        document,
        kind,
        [pod],
        reading,
        replicas=replicas,
        group_size=count or 1,
        group_size_known=count is not None,
        part=key,
    )


def _image(values: Node | None) -> Node | None:
    node = values.get("image") if values is not None and values.kind == "mapping" else None
    if node is None:
        return None
    return image_text(node) if node.kind in ("scalar", "mapping") and (node.kind == "mapping" or node.text) else None


def _model(values: Node) -> Node | None:
    for path in _MODELS:
        node = values.get(*path)
        if node is not None and node.kind == "scalar" and node.text and not node.text.isdecimal():
            return node
    return None


def _switches(fields: dict[str, Node]) -> list[Arg]:
    """Arguments of a mapping whose keys are flags; a key without a value is a flag alone."""
    found: list[Arg] = []
    for name, node in fields.items():
        if node.kind == "null":
            found += words(node, f"--{flag_name(name)}")
        elif name == "extraArgs":
            found += listed(node)
        else:
            found += options([(name, node)])
    return found
