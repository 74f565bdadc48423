"""KAITO (kaito.sh): Workspace and InferenceSet, with a preset or with a pod template of one's own.

Source: presets/workspace/models/supported_models.yaml of kaito-project/kaito for what presets are called at the hub;
pkg/workspace/inference for the sizes: tensor parallel over the GPUs of a machine, pipeline parallel over the machines.
"""

from __future__ import annotations

from planner.documents.derived import embedded, mapping_at, text_at
from planner.documents.document import Document
from planner.documents.node import Node
from planner.provenance import Fact, from_file
from planner.record import replace
from planner.workloads import fields as f
from planner.workloads.arguments import hidden, names, options, words
from planner.workloads.fields import Reading
from planner.workloads.pod_template import has_containers, read_pod
from planner.workloads.typed import (
    changed,
    container_pod,
    count_of,
    object_annotations,
    typed_workload,
    with_shared_memory,
)
from planner.workloads.workload import Arg, Pod, Workload

INSTANCE_LABEL = "node.kubernetes.io/instance-type"
#: Preset → model at the hub. Presets of newer releases are called as at the hub and need no entry.
_PRESETS = {
    "deepseek-r1-distill-llama-8b": "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
    "deepseek-r1-distill-qwen-14b": "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B",
    "falcon-7b": "tiiuae/falcon-7b",
    "falcon-7b-instruct": "tiiuae/falcon-7b-instruct",
    "falcon-40b": "tiiuae/falcon-40b",
    "falcon-40b-instruct": "tiiuae/falcon-40b-instruct",
    "llama-3.1-8b-instruct": "meta-llama/Llama-3.1-8B-Instruct",
    "llama-3.3-70b-instruct": "meta-llama/Llama-3.3-70B-Instruct",
    "mistral-7b": "mistralai/Mistral-7B-v0.3",
    "mistral-7b-instruct": "mistralai/Mistral-7B-Instruct-v0.3",
    "phi-2": "microsoft/phi-2",
    "phi-3-medium-4k-instruct": "microsoft/Phi-3-medium-4k-instruct",
    "phi-3-medium-128k-instruct": "microsoft/Phi-3-medium-128k-instruct",
    "phi-3-mini-4k-instruct": "microsoft/Phi-3-mini-4k-instruct",
    "phi-3-mini-128k-instruct": "microsoft/Phi-3-mini-128k-instruct",
    "phi-3.5-mini-instruct": "microsoft/Phi-3.5-mini-instruct",
    "phi-4": "microsoft/phi-4",
    "phi-4-mini-instruct": "microsoft/Phi-4-mini-instruct",
    "qwen2.5-coder-7b-instruct": "Qwen/Qwen2.5-Coder-7B-Instruct",
    "qwen2.5-coder-32b-instruct": "Qwen/Qwen2.5-Coder-32B-Instruct",
}


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The inference workload of a Workspace (fields at the top level) or an InferenceSet (under ``spec.template``)."""
    root = document.root
    if kind == "InferenceSet":
        root = document.root.get("spec", "template") or document.root
    inference, resource = root.get("inference"), root.get("resource")
    if inference is None or inference.kind != "mapping":
        return []
    replicas = count_of(document.root, "spec", "replicas") if kind == "InferenceSet" else 1
    machine = _machine(resource, document)
    template = inference.get("template")
    if template is not None and has_containers(template):
        annotations = object_annotations(document, reading)
        pod = read_pod(template, document.namespace, document.file, reading, annotations=annotations)
        for index, container in enumerate(pod.containers):
            if container.image is not None and "/kaito-base" in container.image.value:
                pod = changed(pod, index, engine="transformers")  # its own server of Hugging Face's library
        count = count_of(resource, "count") or 1
        return [typed_workload(document, kind, [_on(pod, machine)], reading, replicas=(replicas or 1) * count)]
    preset = inference.get("preset")
    name = preset.get("name") if preset is not None else None
    if preset is None or name is None or name.kind != "scalar":
        return []
    pod, nodes = _preset_pod(name, inference, resource, document, reading)
    return [
        typed_workload(
            document, kind, [_on(pod, machine)], reading, replicas=replicas, group_size=nodes, connected=True
        )
    ]


def _machine(resource: Node | None, document: Document) -> Fact[str] | None:
    node = resource.get("instanceType") if resource is not None else None
    node = node or document.root.get("metadata", "annotations", "kaito.sh/instance-type")
    return from_file(node.text, node.position) if node is not None and node.text else None


def _on(pod: Pod, machine: Fact[str] | None) -> Pod:
    """The pod on machines of a type, which KAITO selects by their label."""
    if machine is None:
        return pod
    return replace(
        pod,
        node_selector={INSTANCE_LABEL: machine, **pod.node_selector},
        tolerations=("nvidia.com/gpu", "sku", *pod.tolerations),
    )


def _preset_pod(
    name: Node, inference: Node, resource: Node | None, document: Document, reading: Reading
) -> tuple[Pod, int]:
    """The pod that a preset becomes, and the machines that serve it together."""
    model = from_file(_PRESETS.get(name.text.lower(), name.text), name.position)
    own = _configuration(inference, document, reading)
    count = resource.get("count") if resource is not None else None
    nodes = count_of(count) if count is not None else 1
    machine = resource.get("instanceType") if resource is not None else None
    gpus = _gpus(machine)
    arguments: list[Arg] = words(name, model.value)
    place = machine or name
    if gpus and not names(own, "tensor-parallel-size"):
        arguments += words(place, "--tensor-parallel-size", str(gpus))
    if nodes and nodes > 1:
        arguments += words(
            count or name, "--pipeline-parallel-size", str(nodes), "--distributed-executor-backend", "ray"
        )
    arguments += own
    arguments.append(hidden(name, "KAITO picks the arguments that its configuration leaves open"))
    limits = None
    if gpus and machine is not None:
        amount = mapping_at(machine, {"nvidia.com/gpu": text_at(machine, str(gpus))})
        limits = mapping_at(machine, {"limits": amount, "requests": amount})
    pod = container_pod(
        inference,
        {"name": text_at(name, "preset"), "resources": limits},
        document,
        reading,
        annotations=object_annotations(document, reading),
    )
    runtime = document.root.string("metadata", "annotations", "kaito.sh/runtime") or "vllm"
    command = ("vllm", "serve") if runtime == "vllm" else ("accelerate", "launch")
    pod = changed(
        pod,
        command=tuple(words(name, *command)),
        args=tuple(arguments),
        model=model,
        mounts=with_shared_memory(pod.containers[0], name).mounts,
    )
    return pod, nodes or 1


def _gpus(machine: Node | None) -> int:
    """GPUs of a machine type, 0 where that is not known. What a type has is a fact of the catalog, which the operator
    reads too when it writes the pod."""
    if machine is None or not machine.text:
        return 0
    from planner.accelerators.instance_types import instance_type

    found = instance_type(machine.text)
    return found.gpus if found is not None else 0


def _configuration(inference: Node, document: Document, reading: Reading) -> list[Arg]:
    """The arguments in the key ``inference_config.yaml`` of the ConfigMap that ``config`` names."""
    name = inference.string("config")
    if not name:
        return []
    found = reading.objects.config_map(name, document.namespace, document.file).found
    text = found.data.get("inference_config.yaml") if found is not None else None
    if text is None:
        node = inference.get("config") or inference
        return [hidden(node, f"the ConfigMap {name[:60]} is not among the files that were read")]
    if text.kind != "scalar" or not reading.spend_characters(len(text.text)):
        return []
    root, _ = embedded(text)
    return options(f.entries(root.get("vllm")).items()) if root is not None and root.kind == "mapping" else []
