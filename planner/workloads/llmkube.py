"""LLMKube InferenceService (inference.llmkube.dev) with the Model that it refers to.

Source: internal/controller of defilantech/LLMKube (deployment_builder.go, runtime_vllm.go, runtime_vllm_args.go): the
argument order, tensor parallelism from the GPU count, ``parallelSlots`` as ``--max-num-seqs``.
"""

from __future__ import annotations

from planner.documents.derived import mapping_at, text_at
from planner.documents.document import Document
from planner.documents.node import Node
from planner.provenance import Fact, Unknown, from_file
from planner.record import replace
from planner.workloads import fields as f
from planner.workloads.arguments import listed, names, option, options, words
from planner.workloads.fields import Reading
from planner.workloads.typed import (
    changed,
    container_pod,
    count_of,
    object_annotations,
    stated_model,
    taken,
    typed_workload,
    with_startup,
)
from planner.workloads.workload import Arg, Workload

GROUP = "inference.llmkube.dev"
#: ``runtime`` → its typed configuration, the flag before the model (empty: it stands alone).
_RUNTIMES = {
    "vllm": ("vllmConfig", ("vllm", "serve"), ""),
    "sglang": ("sglangConfig", ("python3", "-m", "sglang.launch_server"), "--model-path"),
    "tgi": ("tgiConfig", ("text-generation-launcher",), "--model-id"),
    "llamacpp": ("llamacppConfig", ("llama-server",), "--model"),
}
_VENDORS = {"": "nvidia.com/gpu", "nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "gpu.intel.com/i915"}
#: Fields of a runtime's configuration that are no flags of the same name.
_NO_FLAGS = ("hfTokenSecretRef", "kvCacheCustomDtype", "speculative", "speculativeConfig", "extraArgs")


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The workload of an InferenceService."""
    spec = document.root.get("spec")
    if spec is None or spec.kind != "mapping":
        return []
    found = reading.objects.custom(
        GROUP, "Model", spec.string("modelRef") or "", document.namespace, document.file
    ).found
    # The model may stand in another file: then only what it says is taken, and no place in it.
    model = found.root.get("spec") if found is not None else None
    runtime = (spec.string("runtime") or "llamacpp").lower().replace(".", "").replace("-", "")
    config_name, command, flag = _RUNTIMES.get(runtime, ("", (), ""))
    config = spec.get(config_name) if config_name else None
    extra = listed(spec.get("extraArgs"))
    source = model.get("source") if model is not None else None
    arguments: list[Arg] = []
    if source is not None and source.text and command:
        arguments = [*words(source, *([flag] if flag else []), source.text.removeprefix("hf://"))]
    own = f.entries(config)
    arguments += options(own.items(), _NO_FLAGS)
    custom = own.get("kvCacheCustomDtype")
    if custom is not None:
        arguments += option("kv-cache-dtype", custom)
    gpus, resource, open_resources = _gpus(spec, model)
    if runtime == "vllm" and gpus is not None and gpus.text not in ("", "0", "1") and "tensorParallelSize" not in own:
        arguments += option("tensor-parallel-size", gpus)
    slots = spec.get("parallelSlots")
    if runtime == "vllm" and slots is not None and not names(extra, "max-num-seqs"):
        arguments += option("max-num-seqs", slots)
    sizes = spec.get("resources")
    amounts = {key: sizes.get(key) if sizes is not None else None for key in ("cpu", "memory")}
    probes = spec.get("probeOverrides")
    pod = container_pod(
        spec,
        {
            "name": text_at(spec, runtime),
            "image": spec.get("image"),
            "env": spec.get("env"),
            "resources": mapping_at(spec, {"requests": mapping_at(spec, amounts)}),
            "volumeMounts": spec.get("extraVolumeMounts"),
            **{f"{name}Probe": probes.get(name) if probes else None for name in ("startup", "liveness", "readiness")},
        },
        document,
        reading,
        spec={
            **taken(spec, ("affinity", "nodeSelector", "tolerations", "runtimeClassName")),
            "securityContext": spec.get("podSecurityContext"),
            "volumes": spec.get("extraVolumes"),
        },
        annotations=object_annotations(document, reading),
    )
    if not command:
        arguments = listed(spec.get("args"))
    given = listed(spec.get("command"))
    devices: dict[str, Fact[float]] = {}
    amount = count_of(gpus) if gpus is not None else None
    if amount is not None and gpus is not None:
        devices[resource] = from_file(float(amount), gpus.position)
    pod = changed(
        pod,
        limits={**pod.containers[0].limits, **devices},
        requests={**pod.containers[0].requests, **devices},
        command=tuple(given or words(spec.get("runtime") or spec, *command)) or None,
        args=(*arguments, *extra) or None,
        model=stated_model(source),
        platform=_platform(model),
        unknown_resources=(*pod.containers[0].unknown_resources, *open_resources),
        probes=with_startup(pod.containers[0], 0, 10, 180).probes,
    )
    if devices:  # the operator tolerates the taint of the devices that it asks for
        pod = replace(pod, tolerations=(resource, *pod.tolerations))
    replicas = count_of(spec, "replicas")
    return [typed_workload(document, kind, [pod], reading, replicas=replicas)]


def _gpus(spec: Node, model: Node | None) -> tuple[Node | None, str, tuple[Unknown, ...]]:
    """The GPU count (the service's before the model's), the resource, and what is unknown without either."""
    hardware = model.get("hardware") if model is not None else None
    gpu = hardware.get("gpu") if hardware is not None else None
    named = gpu.string("resourceName") if gpu is not None else None
    vendor = (gpu.string("vendor") if gpu is not None else None) or ""
    resource = _VENDORS.get(vendor.lower(), "nvidia.com/gpu")
    if named and named.startswith(("nvidia.com/", "amd.com/", "gpu.intel.com/")):
        resource = named  # a slice or a share; other names (squat.ai/dri) only say how the device is handed out
    count = spec.get("resources", "gpu")
    if count is None and gpu is not None and gpu.boolean("enabled") is not False:
        count = gpu.get("count")
    accelerator = (hardware.string("accelerator") if hardware is not None else None) or ""
    if count is not None or accelerator.lower() == "cpu":
        return count, resource, ()
    reason = "the Model that it refers to is not among the files that were read" if model is None else "no GPU count"
    gap = Unknown(f"limits.{resource}", reason, "set spec.resources.gpu", spec.position)
    return None, resource, (gap,) if model is None else ()


def _platform(model: Node | None) -> str:
    if model is None:
        return ""
    accelerator = (model.string("hardware", "accelerator") or "").lower()
    return {"rocm": "rocm", "cpu": "cpu", "intel": "xpu"}.get(accelerator, "")
