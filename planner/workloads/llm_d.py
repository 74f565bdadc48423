"""Values of the chart llm-d-modelservice: ``modelArtifacts``, and pools ``decode`` and ``prefill`` of containers.

Source: charts/llm-d-modelservice/templates/_helpers.tpl of llm-d-incubation/llm-d-modelservice: what ``modelCommand``
becomes, sizes of ``parallelism``, devices where the container names none.
"""

from __future__ import annotations

from planner.documents.derived import mapping_at, sequence_at, text_at
from planner.documents.document import Document
from planner.documents.node import Node
from planner.provenance import from_file
from planner.record import replace
from planner.workloads import fields as f
from planner.workloads.arguments import listed, option, words
from planner.workloads.fields import Reading
from planner.workloads.typed import (
    CONTAINER_FIELDS,
    changed,
    count_of,
    object_annotations,
    pod,
    stated_model,
    taken,
    typed_workload,
)
from planner.workloads.workload import Arg, ClaimRequest, Pod, Workload

#: ``accelerator.type`` → resource (the chart's defaults) and platform.
_ACCELERATORS = {
    "": ("nvidia.com/gpu", ""),
    "nvidia": ("nvidia.com/gpu", ""),
    "amd": ("amd.com/gpu", "rocm"),
    "intel-gaudi": ("habana.ai/gaudi", "gaudi"),
    "intel-i915": ("gpu.intel.com/i915", "xpu"),
    "intel-xe": ("gpu.intel.com/xe", "xpu"),
    "google": ("google.com/tpu", "tpu"),
    "rebellions-atom": ("rebellions.ai/ATOM", "rebellions"),
    "cpu": ("", "cpu"),
}


def fits(values: Node) -> bool:
    """Whether a mapping holds values of the chart."""
    return values.get("modelArtifacts") is not None and any(
        values.get(pool, "containers") is not None or values.get(pool, "create") is not None
        for pool in ("decode", "prefill")
    )


def from_values(values: Node, document: Document, kind: str, reading: Reading) -> list[Workload]:
    """One workload for each pool."""
    found = []
    for part in ("decode", "prefill"):
        pool = values.get(part)
        if pool is None or pool.kind != "mapping" or pool.boolean("create") is False:
            continue
        workload = _pool(pool, part, values, document, kind, reading)
        if workload is not None:
            found.append(workload)
    return found


def _sizes(parallelism: Node | None) -> tuple[int, int, int, int]:
    """Tensor, data, local data parallel size and workers, each filled in from the others as the chart does."""
    tensor, data, local, workers = (
        count_of(parallelism, key, default=0) or 0 for key in ("tensor", "data", "dataLocal", "workers")
    )
    all_data = data or (local * workers if local and workers else local or 1)
    per_worker = local or (data // workers if data and workers else data or 1)
    return max(tensor, 1), max(all_data, 1), max(per_worker, 1), workers or max(1, all_data // max(per_worker, 1))


def _pool(pool: Node, part: str, values: Node, document: Document, kind: str, reading: Reading) -> Workload | None:
    containers = [item for item in pool.get("containers") or () if item.kind == "mapping"]
    if not containers:
        return None
    parallelism = pool.get("parallelism")
    _, _, local, workers = _sizes(parallelism)
    made = [
        mapping_at(item, {**taken(item, CONTAINER_FIELDS), **f.entries(item.get("extraConfig"))}) for item in containers
    ]
    named = [
        item if item.get("name") is not None else mapping_at(item, {**f.entries(item), "name": text_at(item, "vllm")})
        for item in made
    ]
    types = pool.get("acceleratorTypes")
    affinity = None
    if types is not None and types.get("labelKey") is not None:
        expression = mapping_at(
            types,
            {"key": types.get("labelKey"), "operator": text_at(types, "In"), "values": types.get("labelValues")},
        )
        term = mapping_at(types, {"matchExpressions": sequence_at(types, [expression])})
        required = mapping_at(types, {"nodeSelectorTerms": sequence_at(types, [term])})
        affinity = mapping_at(
            types,
            {"nodeAffinity": mapping_at(types, {"requiredDuringSchedulingIgnoredDuringExecution": required})},
        )
    spec = mapping_at(
        pool,
        {
            **taken(pool, ("volumes", "initContainers", "tolerations", "nodeSelector", "hostIPC", "resourceClaims")),
            **({"affinity": affinity} if affinity is not None else {}),
            **f.entries(pool.get("extraConfig")),
            "containers": sequence_at(pool, named),
        },
    )
    multinode = values.boolean("multinode") is True
    item = pod(
        spec,
        document,
        reading,
        role="leader" if multinode and workers > 1 else "pod",
        annotations={
            **object_annotations(document, reading),
            **f.string_map(f.entries(pool), "podAnnotations", reading),
        },
    )
    for index, container in enumerate(containers):
        item = _container(item, index, container, pool, parallelism, local, values)
    return typed_workload(
        document,
        kind,
        [item],
        reading,
        replicas=count_of(pool, "replicas"),
        group_size=workers if multinode else 1,
        part=part,
    )


def _container(
    item: Pod, index: int, container: Node, pool: Node, parallelism: Node | None, local: int, values: Node
) -> Pod:
    uri = values.get("modelArtifacts", "uri")
    name = values.get("modelArtifacts", "name")
    at = uri or name or container
    model = stated_model(uri)
    if model is None or "{{" in model.value:
        model = stated_model(name) or model
    command = container.string("modelCommand") or "custom"
    folder = values.string("modelArtifacts", "mountPath") or "/model-cache"
    read = item.containers[index]
    arguments: list[Arg] = []
    if command in ("vllmServe", "imageDefault") and model is not None:
        arguments += words(at, *(["--model"] if command == "imageDefault" else []), _reference(model.value, folder))
        for key, flag in (
            ("tensor", "tensor-parallel-size"),
            ("data", "data-parallel-size"),
            ("dataLocal", "data-parallel-size-local"),
        ):
            size = parallelism.get(key) if parallelism is not None else None
            if size is not None and size.text not in ("", "0", "1"):
                arguments += option(flag, size)
    arguments += listed(container.get("args"))
    item = changed(
        item,
        index,
        command=tuple(words(container.get("modelCommand") or at, "vllm", "serve"))
        if command == "vllmServe"
        else read.command,
        args=tuple(arguments) or None,
        model=model,
        model_paths=(folder,),
    )
    resource, platform = _ACCELERATORS.get(
        (pool.string("accelerator", "type") or values.string("accelerator", "type") or "").lower(),
        ("nvidia.com/gpu", ""),
    )
    image = (read.image.value if read.image else "").lower()
    item = changed(item, index, platform=platform)
    if "inference-sim" in image or not resource or any("/" in key for key in read.limits):
        return item
    tensor = _sizes(parallelism)[0]
    place = (parallelism or container).position
    if pool.boolean("accelerator", "dra") or values.boolean("accelerator", "dra"):
        request = ClaimRequest("accelerator", "accelerator", "gpu.nvidia.com", tensor * local, parallelism or container)
        item = changed(item, index, claims=(*read.claims, "accelerator"))
        return replace(item, claim_requests=(*item.claim_requests, request))
    amount = {resource: from_file(float(tensor * local), place)}
    return changed(item, index, limits={**read.limits, **amount}, requests={**read.requests, **amount})


def _reference(uri: str, folder: str) -> str:
    """What the chart passes to the engine for a URI: a hub id for ``hf://`` and ``pvc+hf://``, else a path."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return uri
    if scheme == "hf":
        return rest
    if scheme == "pvc+hf":
        return "/".join(rest.split("/")[-2:])
    return f"{folder}/{rest.partition('/')[2]}" if scheme == "pvc" else uri
