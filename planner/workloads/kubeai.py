"""KubeAI Model (kubeai.org): ``engine``, ``url``, ``args`` and a resource profile in place of a pod.

Source: internal/modelcontroller of substratusai/kubeai (engine_vllm.go and its neighbours): the command, what precedes the
model's own arguments, the memory-backed /dev/shm.
"""

from __future__ import annotations

import re

from planner.documents.derived import key_at, mapping_at, text_at
from planner.documents.document import Document
from planner.documents.node import Node
from planner.provenance import Unknown, from_file
from planner.record import replace
from planner.workloads.arguments import listed, words
from planner.workloads.fields import Reading
from planner.workloads.typed import (
    changed,
    container_pod,
    count_of,
    environment_list,
    object_annotations,
    stated_model,
    taken,
    typed_workload,
    with_shared_memory,
)
from planner.workloads.workload import Workload

#: ``spec.engine`` → the command of the server, and the flag that takes the model (empty: the server is told later).
_COMMANDS = {
    "vllm": (("python3", "-m", "vllm.entrypoints.openai.api_server"), "--model"),
    "ollama": (("ollama", "serve"), ""),
    "infinity": (("infinity_emb", "v2"), "--model-id"),
}
#: The start of a resource profile's name → the resource it asks for.
_RESOURCES = (
    ("nvidia-", "nvidia.com/gpu"),
    ("amd-", "amd.com/gpu"),
    ("google-tpu", "google.com/tpu"),
    ("gaudi", "habana.ai/gaudi"),
    ("intel-gaudi", "habana.ai/gaudi"),
)


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The workload of a Model that KubeAI runs pods for."""
    spec = document.root.get("spec")
    workload = model_workload(spec, document, kind, reading) if spec is not None else None
    return [workload] if workload is not None else []


def model_workload(spec: Node, document: Document, kind: str, reading: Reading, part: str = "") -> Workload | None:
    """The workload of a Model's ``spec`` (also in values of the chart ``models``)."""
    engine = spec.string("engine") or ""
    command, flag = _COMMANDS.get(engine.lower(), ((), ""))
    url = spec.get("url")
    if url is None or not engine:
        return None
    profile = spec.get("resourceProfile")
    name, _, times = (profile.text if profile is not None else "").strip().partition(":")
    resource = next((resource for start, resource in _RESOURCES if name.lower().startswith(start)), "")
    count = times if re.fullmatch(r"[0-9]{1,4}", times) else "1"
    resources = None
    if profile is not None and resource:
        limits = mapping_at(profile, {resource: text_at(profile, count)})
        resources = mapping_at(profile, {"limits": limits, "requests": limits})
    annotations = object_annotations(document, reading)
    pod = container_pod(
        spec,
        {
            "name": text_at(spec, "server"),
            "image": spec.get("image"),
            "env": environment_list(spec.get("env")),
            "envFrom": spec.get("envFrom"),
            "resources": resources,
        },
        document,
        reading,
        spec=taken(spec, ("affinity", "nodeSelector", "tolerations", "runtimeClassName", "priorityClassName")),
        annotations=annotations,
    )
    container = pod.containers[0]
    reference = stated_model(url)
    arguments = words(url, flag, url.text.partition("://")[2] or url.text) if flag else []
    arguments += listed(spec.get("args"))
    open_resources = container.unknown_resources
    cpu = name.lower().startswith("cpu")
    if profile is None or not (resource or cpu):
        what = f"the resource profile {name[:60]}" if name else "a resource profile"
        gap = Unknown(
            "limits.nvidia.com/gpu",
            f"{what} of KubeAI's configuration decides",
            "name one of the profiles of KubeAI's chart, such as nvidia-gpu-l4:1",
            (profile or key_at(spec, "")).position,
        )
        open_resources = (*open_resources, gap)
    pod = changed(
        pod,
        command=tuple(words(spec.get("engine") or spec, *command)) or None,
        args=tuple(arguments) or None,
        engine=engine.lower() if not command else "",
        platform="cpu" if cpu else "",
        model=reference,
        unknown_resources=open_resources,
    )
    pod = changed(pod, mounts=with_shared_memory(pod.containers[0], spec).mounts)
    if profile is not None and name and not cpu:
        # Time-sliced profiles end in how the card is split (``nvidia-gpu-a100-1x1``).
        pod = replace(pod, accelerator=from_file(re.sub(r"-\d{1,2}x\d{1,2}$", "", name), profile.position))
    low = count_of(spec, "replicas", default=None) if spec.get("replicas") else count_of(spec, "minReplicas")
    return typed_workload(document, kind, [pod], reading, replicas=low or None, part=part)
