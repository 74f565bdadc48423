"""NVIDIA NIM (apps.nvidia.com): NIMService, and the services of a NIMPipeline, with the NIMCache that they refer to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from planner.documents.derived import text_at
from planner.documents.document import Document
from planner.documents.node import Node
from planner.provenance import Fact, from_file
from planner.record import replace
from planner.workloads import fields as f
from planner.workloads.fields import Reading
from planner.workloads.typed import (
    changed,
    container_pod,
    count_of,
    image_text,
    object_annotations,
    stated_model,
    taken,
    typed_workload,
    variables,
    with_shared_memory,
    with_startup,
)
from planner.workloads.workload import ClaimRequest, Pod, Workload

GROUP = "apps.nvidia.com"


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """One workload for each service."""
    return list(_services(document, kind, reading))


def _services(document: Document, kind: str, reading: Reading) -> Iterator[Workload]:
    spec = document.root.get("spec")
    if spec is None or spec.kind != "mapping":
        return
    if kind == "NIMService":
        yield _service(spec, document, kind, reading, "")
        return
    for item in f.sequence(f.entries(spec), "services", reading):
        inner = item.get("spec")
        if inner is not None and inner.kind == "mapping" and item.boolean("enabled") is not False:
            yield _service(inner, document, kind, reading, item.string("name") or "")


def _service(spec: Node, document: Document, kind: str, reading: Reading, part: str) -> Workload:
    image = spec.get("image")
    parallel = spec.get("multiNode", "parallelism")
    tensor = parallel.get("tensor") if parallel is not None else None
    pipeline = parallel.get("pipeline") if parallel is not None else None
    cache = _cache(spec, document, reading)
    profile = cache.get("spec", "source", "ngc", "model", "tensorParallelism") if cache is not None else None
    pod = container_pod(
        spec,
        {
            "name": text_at(spec, "nim"),
            "image": image_text(image),
            **taken(spec, ("args", "command", "env", "resources")),
            **{name: _probe(spec.get(name)) for name in ("startupProbe", "livenessProbe", "readinessProbe")},
        },
        document,
        reading,
        spec=taken(spec, ("affinity", "nodeSelector", "tolerations", "runtimeClassName")),
        annotations={
            **object_annotations(document, reading),
            **f.string_map(f.entries(spec), "annotations", reading),
        },
    )
    container = pod.containers[0]
    named = container.env.get("NIM_MODEL_NAME")
    model: Fact[str] | None = _model_of_image(image)
    if named is not None and named.value:
        model = from_file(named.value, named.node.position)
    hidden = {} if tensor is None else {"NIM_TENSOR_PARALLEL_SIZE": tensor, "NIM_PIPELINE_PARALLEL_SIZE": pipeline}
    if tensor is None and profile is not None and profile.kind == "scalar":
        hidden = {"NIM_TENSOR_PARALLEL_SIZE": profile}
    pod = changed(
        pod,
        engine="nim",
        model=model,
        env=variables(container, hidden),
        mounts=with_shared_memory(container, spec).mounts,
    )
    if spec.boolean("startupProbe", "enabled") is not False:
        pod = changed(pod, probes=with_startup(container, 40, 10, 180).probes)
    pod = _with_claims(pod, spec)
    size = count_of(pipeline) if pipeline is not None else count_of(spec, "multiNode", "size")
    return typed_workload(
        document,
        kind,
        [pod],
        reading,
        replicas=count_of(spec, "replicas"),
        group_size=size or 1,
        group_size_known=size is not None,
        part=part,
        connected=True,
    )


def _cache(spec: Node, document: Document, reading: Reading) -> Node | None:
    name = spec.string("storage", "nimCache", "name")
    if not name:
        return None
    found = reading.objects.custom(GROUP, "NIMCache", name, document.namespace, document.file).found
    return found.root if found is not None else None


def _model_of_image(image: Node | None) -> Fact[str] | None:
    """``meta/llama-3.1-8b-instruct`` of ``nvcr.io/nim/meta/llama-3.1-8b-instruct``; None where the image serves any
    model."""
    repository = image.get("repository") if image is not None and image.kind == "mapping" else image
    if repository is None or repository.kind != "scalar":
        return None
    match = re.search(r"/nim/((?:[\w.-]+/)?[\w.-]+)", repository.text)
    if match is None:
        return stated_model(repository)
    return None if match.group(1).endswith("/llm-nim") else from_file(match.group(1), repository.position)


def _probe(node: Node | None) -> Node | None:
    """The operator's probes stand under ``probe``, beside ``enabled``."""
    if node is None or node.boolean("enabled") is False:
        return None
    return node.get("probe")


def _with_claims(pod: Pod, spec: Node) -> Pod:
    """Devices by dynamic resource allocation (``draResources``)."""

    requests: list[ClaimRequest] = []
    claims: list[str] = []
    for number, item in enumerate(spec.get("draResources") or ()):
        name = f"claim-{number}"
        claims.append(name)
        devices = list(item.get("claimCreationSpec", "devices") or ())
        if not devices:
            requests.append(ClaimRequest(name, "", "", None, item))
        for device in devices[:16]:
            count = count_of(device, "count")
            label = device.string("name") or ""
            requests.append(ClaimRequest(name, label, device.string("deviceClassName") or "", count, device))
    if not claims:
        return pod
    pod = changed(pod, claims=(*pod.containers[0].claims, *claims))
    return replace(pod, claim_requests=(*pod.claim_requests, *requests))
