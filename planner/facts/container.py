"""Facts of the engine's container: image, GPUs, shared memory, probes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.facts.environment import stated
from planner.facts.places import key_position
from planner.facts.secrets import literal_secrets
from planner.facts.serving import serving_facts
from planner.facts.startup import startup_facts
from planner.provenance import Position
from planner.units import format_bytes

if TYPE_CHECKING:
    from planner.plan import Plan
    from planner.workloads.workload import Container


def container_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    container = plan.container
    if container is None:
        return {}
    node = container.node
    name = node.get("name")
    positions["container"] = name.position if name else node.position
    positions["container.name"] = positions["container"]
    for path, keys in (
        ("container.command", ("command",)),
        ("container.args", ("args",)),
        ("container.volume_mounts", ("volumeMounts",)),
        ("container.resources", ("resources",)),
        ("container.limits", ("resources", "limits")),
        ("container.env", ("env",)),
        ("container.startup_probe", ("startupProbe",)),
        ("container.liveness_probe", ("livenessProbe",)),
        ("container.readiness_probe", ("readinessProbe",)),
    ):
        place = key_position(node, *keys)
        if place:
            positions[path] = place
    facts: dict[str, Any] = {
        "name": container.name,
        "has_gpu": bool(plan.gpu_resource or container.claims or _placeholder_gpus(container)),
    }
    facts["image_for_gpus"] = container.image is not None and _for_gpus(container.image.value)
    if container.image is not None:
        if container.image.position:
            positions["container.image"] = container.image.position
        facts["image"] = container.image.value
        facts.update(_image(container.image.value))
    if plan.gpus_per_pod is not None:
        facts["gpus"] = plan.gpus_per_pod.value
        if plan.gpus_per_pod.position:
            positions["container.gpus"] = plan.gpus_per_pod.position
    facts["gpus_by_other_means"] = _gpus_by_other_means(plan, container)
    facts["told_cpu"] = _told_cpu(plan, container, positions)
    facts["gpus_look_like_slices"] = _like_slices(plan)
    facts["engine_starts"] = plan.starts
    facts["autopilot"] = _on_gke(plan)
    facts["gpu_resource"] = plan.gpu_resource
    facts["gpu_kind"] = plan.gpu_kind
    facts["shared_memory"] = _shared_memory(plan, container, positions)
    facts["shared_memory_text"] = _SHARED_MEMORY[facts["shared_memory"]["kind"]].format(
        size=format_bytes(facts["shared_memory"].get("bytes") or 0)
    )
    facts["probes"] = {
        kind: {
            "window": probe.window,
            "initial_delay": probe.initial_delay,
            "period": probe.period,
            "timeout": probe.timeout,
            "failure_threshold": probe.failure_threshold,
            "handler": probe.handler,
        }
        for kind, probe in container.probes.items()
    }
    facts["startup"] = startup_facts(plan)
    facts["sharing"] = _sharing(plan)
    facts["literal_secrets"] = literal_secrets(plan, positions)
    facts["extended_resources"] = _extended_resources(container, positions)
    facts["visible_devices"] = _visible_devices(container, positions)
    facts.update(serving_facts(plan, positions))
    return facts


def _sharing(plan: Plan) -> dict[str, Any]:
    """Facts of shared devices, worked out only where something says that they may be shared."""
    shared = plan.choice is not None and plan.choice.shared
    booked = plan.pod is not None and "gpu-fraction" in plan.pod.annotations
    if not (shared or booked or plan.beside or plan.gpu_kind == "vgpu"):
        return {}
    from planner.facts.sharing import sharing_facts

    return sharing_facts(plan)


def _image(reference: str) -> dict[str, Any]:
    from planner.engines.image import is_pinned, is_placeholder, parse_image

    image = parse_image(reference)
    return {
        "image_tag": image.tag or "",
        "image_pinned": is_pinned(reference),
        "image_is_placeholder": is_placeholder(reference),
        "image_digest": bool(image.digest),
    }


#: Distributions and language images that others install an engine into: they do not tell what it runs on.
_BASE_IMAGES = ("ubuntu", "debian", "python", "alpine", "busybox", "conda", "miniconda3", "fedora", "ubi9", "ubi8")


def _told_cpu(plan: Plan, container: Container, positions: dict[str, Position]) -> str:
    """How the manifest says that the engine is to run without a GPU; empty where it does not."""
    flag = plan.engine.flags.get("device")
    if flag is not None and flag.value == "cpu":
        place = flag.position or flag.value_position
        if place is not None:
            positions["container.told_cpu"] = place
        return "--device cpu"
    variable = stated(plan, "VLLM_TARGET_DEVICE")
    if variable is not None and variable.text.strip().lower() == "cpu":
        if variable.position is not None:
            positions["container.told_cpu"] = variable.position
        return "VLLM_TARGET_DEVICE=cpu"
    return ""


def _for_gpus(reference: str) -> bool:
    """Whether an image is an engine's own; a manifest without one is a patch, and a placeholder is filled in elsewhere."""
    from planner.engines.image import is_placeholder, parse_image

    name = parse_image(reference).repository.rpartition("/")[2]
    return not is_placeholder(reference) and name not in _BASE_IMAGES


def _shared_memory(plan: Plan, container: Container, positions: dict[str, Position]) -> dict[str, Any]:
    """What ``/dev/shm`` is: ``kind`` ``memory`` (RAM-backed, with ``bytes`` or the node's default of half its memory),
    ``other`` (some other volume there), ``undeclared`` (mounted, but no such volume), ``unmounted`` (a RAM-backed volume is
    declared and not mounted there) or ``default`` (the runtime's 64 MiB)."""
    for mount in container.mounts:
        if mount.path.rstrip("/") == "/dev/shm":
            positions["container.shared_memory"] = mount.node.position
            if not mount.kind:
                return {"kind": "undeclared"}
            if mount.kind == "emptyDir" and mount.medium == "Memory":
                return {"kind": "memory", **({"bytes": mount.size_bytes} if mount.size_bytes is not None else {})}
            return {"kind": "other"}
    pod = plan.pod
    if pod is not None and pod.host_ipc:
        return {"kind": "host"}
    volumes = pod.node.get("volumes") or pod.node.get("spec", "volumes") if pod else None
    for volume in volumes or ():
        if volume.string("emptyDir", "medium") == "Memory":
            positions["container.shared_memory"] = volume.position
            return {"kind": "unmounted"}
    return {"kind": "default"}


_SHARED_MEMORY = {
    "default": "the container runtime's 64 MiB",
    "unmounted": "the container runtime's 64 MiB, since the RAM-backed volume that the pod declares is not mounted at /dev/shm",
    "undeclared": "mounted from a volume that the pod does not declare",
    "memory": "a RAM-backed volume of {size}",
    "other": "a volume that is not RAM-backed",
    "host": "that of the host",
}


def _placeholder_gpus(container: Container) -> bool:
    """Whether a GPU count is there and only its number is filled in elsewhere."""
    return any("gpu" in gap.fact.lower() for gap in container.unknown_resources)


def _gpus_by_other_means(plan: Plan, container: Container) -> bool:
    """Whether the container can see GPUs without asking for a resource: the whole node's through the NVIDIA runtime
    (``NVIDIA_VISIBLE_DEVICES``, a runtime class, privileged), or host devices that are mounted."""
    pod = plan.pod
    if container.env.get("NVIDIA_VISIBLE_DEVICES"):
        return True
    if pod is not None and pod.runtime_class and pod.runtime_class not in ("runc", "kata", "gvisor"):
        return True
    if container.node.boolean("securityContext", "privileged"):
        return True
    return any(
        mount.kind == "hostPath" and mount.path.startswith(("/dev", "/usr/local/nvidia")) for mount in container.mounts
    )


def _like_slices(plan: Plan) -> bool:
    """Whether a GPU count is more likely one of time slices: no model splits over 5 or 7 GPUs, and an engine that takes
    half of a card or less leaves it to others."""
    count = plan.gpus_per_pod.value if plan.gpus_per_pod else 0
    utilization = plan.engine.get("gpu-memory-utilization")
    return count in (5, 7) or (isinstance(utilization, float) and utilization <= 0.5)


def _on_gke(plan: Plan) -> bool:
    """Whether node selectors are those of GKE, whose Autopilot fills in missing limits."""
    pod = plan.pod
    return pod is not None and any(key.startswith("cloud.google.com/") for key in pod.node_selector)


def _extended_resources(container: Container, positions: dict[str, Position]) -> list[dict[str, Any]]:
    """Extended resources whose requests and limits are both or singly given: name, request and limit (-1 where absent)."""
    names = dict.fromkeys((*container.limits, *container.requests))
    found: list[dict[str, Any]] = []
    for name in names:
        domain = name.partition("/")[0]
        if "/" not in name or domain.endswith("kubernetes.io"):
            continue
        limit, request = container.limits.get(name), container.requests.get(name)
        fact = request or limit
        if fact is not None and fact.position:
            positions[f"container.extended_resources[{len(found)}]"] = fact.position
        if request is None:
            text = f"limit {limit.value:g} alone" if limit else ""
        elif limit is None:
            text = f"request {request.value:g} without a limit"
        else:
            text = f"request {request.value:g}, limit {limit.value:g}"
        found.append(
            {
                "name": name,
                "limit": float(limit.value) if limit else -1.0,
                "request": float(request.value) if request else -1.0,
                "text": text,
            }
        )
    return found


def _visible_devices(container: Container, positions: dict[str, Position]) -> list[dict[str, Any]]:
    """Variables that pick GPUs by hand: name and value."""
    found: list[dict[str, Any]] = []
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        variable = container.env.get(name)
        if variable is not None and variable.value is not None:
            positions[f"container.visible_devices[{len(found)}]"] = variable.node.position
            found.append({"name": name, "value": variable.value})
    return found
