"""Kthena (workload.serving.volcano.sh): ModelServing, with pod templates by role, and ModelBooster, with typed fields.

Source: pkg/model-booster-controller/convert of volcano-sh/kthena: the command that a worker's ``config`` becomes, the
pods of a worker, the memory-backed /dev/shm.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.documents.derived import text_at
from planner.documents.document import Document
from planner.documents.node import Node
from planner.provenance import Fact
from planner.workloads import fields as f
from planner.workloads.arguments import options, words
from planner.workloads.core import descend
from planner.workloads.fields import Reading
from planner.workloads.pod_template import has_containers, read_pod
from planner.workloads.references import Injected
from planner.workloads.typed import (
    changed,
    container_pod,
    count_of,
    joined,
    object_annotations,
    stated_model,
    taken,
    typed_workload,
    with_shared_memory,
)
from planner.workloads.workload import Pod, Workload


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """One workload for each role or worker."""
    return list(_serving(document, kind, reading) if kind == "ModelServing" else _booster(document, kind, reading))


def _serving(document: Document, kind: str, reading: Reading) -> Iterator[Workload]:
    copies = count_of(document.root, "spec", "replicas")
    template = descend(document.root, ("spec", "template"), reading)
    annotations = object_annotations(document, reading)
    for role in f.sequence(f.entries(template), "roles", reading):
        if role.kind != "mapping":
            continue
        workers = count_of(role, "workerReplicas", default=0)
        pods = [
            pod
            for pod in (
                _pod(role, "entryTemplate", "leader", 1, workers, document, annotations, reading),
                _pod(role, "workerTemplate", "worker", workers or 0, workers, document, annotations, reading),
            )
            if pod is not None
        ]
        if not pods:
            continue
        replicas = count_of(role, "replicas")
        yield typed_workload(
            document,
            kind,
            pods,
            reading,
            replicas=None if copies is None or replicas is None else copies * replicas,
            group_size=1 + (workers or 0),
            group_size_known=workers is not None,
            part=role.string("name") or "",
        )


def _pod(
    role: Node,
    key: str,
    name: str,
    count: int,
    workers: int | None,
    document: Document,
    annotations: dict[str, Fact[str]],
    reading: Reading,
) -> Pod | None:
    template = role.get(key)
    if template is None or not count or not has_containers(template):
        return None
    size = None if workers is None else str(1 + workers)
    injected = (
        Injected("GROUP_SIZE", size, "the size of the group"),
        Injected("ENTRY_ADDRESS", None, "the host name of the group's entry pod"),
        Injected("WORKER_INDEX", "0" if name == "leader" else None, "another number on each worker of the group"),
    )
    return read_pod(
        template,
        document.namespace,
        document.file,
        reading,
        role=name if workers else "pod",
        count=count,
        annotations=annotations,
        injected=injected,
    )


def _booster(document: Document, kind: str, reading: Reading) -> Iterator[Workload]:
    spec = document.root.get("spec")
    single = spec.get("backend") if spec is not None else None
    several = f.sequence(f.entries(spec), "backends", reading)
    for backend in [single, *several] if single is not None else several:
        if backend.kind != "mapping":
            continue
        engine = (backend.string("type") or "").lower()
        workers = f.sequence(f.entries(backend), "workers", reading)
        for worker in workers:
            workload = _worker(worker, backend, engine, document, kind, reading) if worker.kind == "mapping" else None
            if workload is not None:
                yield workload


def _worker(
    worker: Node, backend: Node, engine: str, document: Document, kind: str, reading: Reading
) -> Workload | None:
    uri, model_uri = stated_model(backend.get("modelURI")), backend.get("modelURI")
    at = model_uri or worker
    reference = uri.value.removeprefix("hf://").removeprefix("ms://") if uri is not None else ""
    if engine.startswith("vllm"):
        command, arguments = ("python", "-m", "vllm.entrypoints.openai.api_server"), words(at, "--model", reference)
    elif engine.startswith("sglang"):
        command, arguments = ("python", "-m", "sglang.launch_server"), words(at, "--model-path", reference)
    else:
        return None
    if not reference:
        arguments = []
    arguments += options(f.entries(worker.get("config")).items())
    pod = container_pod(
        worker,
        {
            "name": worker.get("type") or text_at(worker, "engine"),
            "image": worker.get("image"),
            "env": joined(backend, backend.get("env"), worker.get("env")),
            "envFrom": backend.get("envFrom"),
            "resources": worker.get("resources"),
        },
        document,
        reading,
        spec=taken(worker, ("affinity", "nodeSelector", "tolerations", "runtimeClassName")),
        annotations=object_annotations(document, reading),
    )
    pod = changed(
        pod,
        command=tuple(words(backend.get("type") or worker, *command)),
        args=tuple(arguments) or None,
        model=uri,
        mounts=with_shared_memory(pod.containers[0], worker).mounts,
    )
    pods, replicas = count_of(worker, "pods"), count_of(worker, "replicas")
    return typed_workload(
        document,
        kind,
        [pod],
        reading,
        replicas=replicas,
        group_size=pods or 1,
        group_size_known=pods is not None,
        part=worker.string("type") or "",
        connected=True,  # the controller starts them with a script that has Ray connect the pods
    )
