"""The devices a container asks for: extended resources of every vendor, vGPU layers, resource claims."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from planner.provenance import Fact, Position, from_file
from planner.record import NamedTuple

if TYPE_CHECKING:
    from planner.workloads.workload import Container, Pod

#: Resource name → (vendor, kind). Kinds: see ``DeviceRequest``.
_EXACT = {
    "nvidia.com/gpu": ("nvidia", "gpu"),
    "nvidia.com/pgpu": ("nvidia", "gpu"),
    "nvidia.com/vgpu": ("nvidia", "vgpu"),
    "k8s.amazonaws.com/vgpu": ("nvidia", "vgpu"),
    "volcano.sh/vgpu-number": ("nvidia", "vgpu"),
    "volcano.sh/gpu-number": ("nvidia", "gpu"),
    "aliyun.com/gpu-count": ("nvidia", "vgpu"),
    "amd.com/gpu": ("amd", "gpu"),
    "habana.ai/gaudi": ("intel", "gaudi"),
    "gpu.intel.com/i915": ("intel", "gpu"),
    "gpu.intel.com/xe": ("intel", "gpu"),
    "google.com/tpu": ("google", "tpu"),
    "aws.amazon.com/neuron": ("aws", "neuron"),
    "aws.amazon.com/neurondevice": ("aws", "neuron"),
    "aws.amazon.com/neuroncore": ("aws", "neuroncore"),
    "huawei.com/npu": ("huawei", "npu"),
    "huawei.com/ascend-1980": ("huawei", "npu"),
    "qualcomm.com/qaic": ("qualcomm", "npu"),
    "cambricon.com/mlu": ("cambricon", "npu"),
    "cambricon.com/vmlu": ("cambricon", "vgpu"),
    "hygon.com/dcunum": ("hygon", "vgpu"),
    "hygon.com/dcu": ("hygon", "gpu"),
    "metax-tech.com/gpu": ("metax", "gpu"),
    "mthreads.com/gpu": ("mthreads", "gpu"),
    "mthreads.com/vgpu": ("mthreads", "vgpu"),
    "kunlunxin.com/xpu": ("kunlunxin", "gpu"),
    "enflame.com/gcu": ("enflame", "gpu"),
    "birentech.com/gpu": ("biren", "gpu"),
    "iluvatar.ai/gpu": ("iluvatar", "gpu"),
    "rebellions.ai/atom": ("rebellions", "npu"),
    "furiosa.ai/rngd": ("furiosa", "npu"),
}
#: Limits of the device memory per device: resource name → bytes per unit.
_MEMORY = {
    "nvidia.com/gpumem": 2**20,
    "amd.com/gpumem": 2**20,
    "volcano.sh/vgpu-memory": 2**20,
    "volcano.sh/gpu-memory": 2**20,
    "aliyun.com/gpu-mem": 2**30,
    "tencent.com/vcuda-memory": 256 * 2**20,
    "k8s.amazonaws.com/vgpumem": 2**20,
    "hygon.com/dcumem": 2**20,
}
_PERCENT = ("nvidia.com/gpumem-percentage", "volcano.sh/vgpu-memory-percentage")
_SHARES = ("nvidia.com/gpucores", "amd.com/gpucores", "volcano.sh/vgpu-cores", "aliyun.com/gpu-core.percentage")
#: Resources that ask for a share of one device without stating a number of devices.
_ONE_DEVICE = {
    "volcano.sh/gpu-memory": "nvidia",
    "aliyun.com/gpu-mem": "nvidia",
    "tencent.com/vcuda-memory": "nvidia",
    "tencent.com/vcuda-core": "nvidia",
    "nvidia.com/gpumem": "nvidia",
    "nvidia.com/gpumem-percentage": "nvidia",
}
_ASCEND = re.compile(r"huawei\.com/ascend\d{3}\w{0,4}(?:-\d)?", re.IGNORECASE)
_LARGEST_COUNT = 100_000


class DeviceRequest(NamedTuple):
    """What one container asks for.

    ``devices``: their number (chips, slices, shares or cores, whatever the resource counts), None where it is not known.
    ``kind``: ``gpu`` (whole GPUs as far as the resource's name tells), ``mig``, ``shared`` (``*.shared``: a time slice),
    ``vgpu`` (a share with a memory or core limit), ``gaudi``, ``tpu``, ``neuron`` (chips), ``neuroncore``, ``npu`` or
    ``claim`` (dynamic resource allocation). ``profile`` is the MIG profile, ``memory_limit`` the bytes and
    ``memory_percent`` the percentage of a device that a vGPU layer lets the container see (0: no limit).
    ``others`` are further device resources of the same container.
    """

    devices: Fact[int] | None
    resource: str
    kind: str
    vendor: str = ""
    profile: str = ""
    memory_limit: int = 0
    memory_percent: float = 0.0
    shared: bool = False
    position: Position | None = None
    others: tuple[str, ...] = ()


def gpu_count(container: Container, pod: Pod | None = None) -> tuple[Fact[int] | None, str, str]:
    """(number of devices, resource name, kind) of a container; ``(None, "", "")`` where it asks for none.

    The number is None too where the quantity is a placeholder or no whole number, and for a resource claim unless ``pod``
    is given and shows how many devices the claim has. See ``DeviceRequest`` for the kinds.
    """
    request = device_request(container, pod)
    return (request.devices, request.resource, request.kind) if request else (None, "", "")


def device_request(container: Container, pod: Pod | None = None) -> DeviceRequest | None:
    """The devices a container asks for, limits before requests, None where it asks for none."""
    stated = {**container.requests, **container.limits}
    found = [(name, known) for name in stated if (known := device_resource(name))]
    # The resource that counts devices decides; a zero only does where nothing else asks for a device.
    found.sort(key=lambda item: (not stated[item[0]].value, -_rank(item[1][1])))
    limit, percent, sliced = _vgpu_limits(stated)
    if not found or not stated[found[0][0]].value:
        for unknown in container.unknown_resources:
            name = unknown.fact.partition(".")[2]
            known = device_resource(name)
            if known:
                profile = _profile_of(name) if known[1] == "mig" else ""
                return DeviceRequest(None, name, known[1], known[0], profile, limit, percent, position=unknown.position)
    if not found:
        one = next((name for name in stated if name in _ONE_DEVICE and stated[name].value), None)
        if one:
            position = stated[one].position
            devices = Fact(1, stated[one].provenance)
            return DeviceRequest(devices, one, "vgpu", _ONE_DEVICE[one], "", limit, percent, True, position)
        return _claimed(container, pod)
    name, (vendor, kind) = found[0]
    fact = stated[name]
    if kind in ("gpu", "vgpu") and (limit or percent or sliced):
        kind = "vgpu"
    counted = None
    if math.isfinite(fact.value) and fact.value == int(fact.value) and 0 <= fact.value <= _LARGEST_COUNT:
        counted = Fact(int(fact.value), fact.provenance)
    memory = stated.get(f"{name}-memory")  # HAMi's limit per Ascend NPU, in MiB
    if memory and vendor == "huawei" and 0 < memory.value < 2**30:
        limit = int(memory.value) * 2**20
    return DeviceRequest(
        counted,
        name,
        kind,
        vendor,
        _profile_of(name) if kind == "mig" else "",
        limit,
        percent,
        shared=name.endswith(".shared") or kind == "vgpu",
        position=fact.position,
        others=tuple(item[0] for item in found[1:]),
    )


def _profile_of(name: str) -> str:
    return name.split("mig-", 1)[1].removesuffix(".shared")


def _claimed(container: Container, pod: Pod | None) -> DeviceRequest | None:
    """The devices of the container's resource claims; a claim of another device class (a network card) is none."""
    if not container.claims:
        return None
    requests = [request for request in pod.claim_requests if request.claim in container.claims] if pod else []
    requests = [request for request in requests if not request.device_class or device_class(request.device_class)]
    if pod and pod.claim_requests and not requests:
        return None
    numbers = [request.devices for request in requests]
    total = sum(number for number in numbers if number is not None)
    named = next((request for request in requests if request.device_class), None)
    vendor, kind = (device_class(named.device_class) if named else None) or ("", "claim")
    position = named.node.position if named else container.node.position
    counted = from_file(total, position) if numbers and None not in numbers and 0 < total <= _LARGEST_COUNT else None
    resource = named.device_class if named else container.claims[0]
    return DeviceRequest(counted, resource, "claim" if kind != "mig" else "mig", vendor, position=position)


def device_class(name: str) -> tuple[str, str] | None:
    """(vendor, kind) of a device class of dynamic resource allocation, None where it is none of accelerators'."""
    known = {
        "gpu.nvidia.com": ("nvidia", "gpu"),
        "mig.nvidia.com": ("nvidia", "mig"),
        "vfio.gpu.nvidia.com": ("nvidia", "gpu"),
        "gpu.amd.com": ("amd", "gpu"),
        "gpu.intel.com": ("intel", "gpu"),
        "gaudi.intel.com": ("intel", "gaudi"),
        "tpu.google.com": ("google", "tpu"),
        "neuron.aws.com": ("aws", "neuron"),
    }
    if name in known:
        return known[name]
    lower = name.lower()
    for word, vendor in (("nvidia", "nvidia"), ("amd", "amd"), ("gaudi", "intel"), ("tpu", "google"), ("gpu", "")):
        if word in lower and "nic" not in lower:
            return (vendor, "tpu" if word == "tpu" else "gaudi" if word == "gaudi" else "gpu")
    return None


def device_resource(name: str) -> tuple[str, str] | None:
    """(vendor, kind) of an extended resource that counts devices, None for any other resource."""
    known = _EXACT.get(name) or _EXACT.get(name.lower())
    if known:
        return known
    if name.startswith("nvidia.com/mig-"):
        return ("nvidia", "mig")
    if name.endswith(".shared"):
        base = _EXACT.get(name.removesuffix(".shared"))
        return (base[0], "shared") if base else None
    if _ASCEND.fullmatch(name):
        return ("huawei", "npu")
    if name.startswith("gpu.intel.com/") and not name.endswith(("_monitoring", "millicores", "memory.max", "tiles")):
        return ("intel", "gpu")
    return None


def _rank(kind: str) -> int:
    return {"mig": 3, "gpu": 2, "vgpu": 1, "shared": 1}.get(kind, 2)


def _vgpu_limits(stated: dict[str, Fact[float]]) -> tuple[int, float, bool]:
    """(bytes per device, percent of a device, whether any vGPU resource stands there) of the vGPU layers' resources."""
    limit, percent, sliced = 0, 0.0, False
    for name, unit in _MEMORY.items():
        if name in stated and math.isfinite(stated[name].value) and 0 < stated[name].value < 2**30:
            limit, sliced = int(stated[name].value) * unit, True
    for name in _PERCENT:
        if name in stated and 0 < stated[name].value < 100:
            percent, sliced = stated[name].value, True
    return limit, percent, sliced or any(name in stated and 0 < stated[name].value < 100 for name in _SHARES)
