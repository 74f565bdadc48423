"""Where a start reads the weights from, and how fast that is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from planner.facts.caches import downloads, has_room_elsewhere, hub_cache, mount_of
from planner.facts.user import user_of
from planner.record import NamedTuple

if TYPE_CHECKING:
    from planner.plan import Plan
    from planner.workloads.workload import Container


class Speed(NamedTuple):
    """Bytes per second: what no such storage exceeds, what one should reckon with, and what slow ones have."""

    best: float
    usual: float
    worst: float


class WeightStorage(NamedTuple):
    """What the weights are read from, in words, and how fast. ``download``: how fast they come there over the network first,
    None where they lie there; ``each``: at every ``start`` of the container, in every new ``pod``, or only the ``first``
    time."""

    what: str
    speed: Speed
    download: Speed | None = None
    each: str = ""


#: The page cache and NVMe drives of a node at best (2 to 7 GB/s: F266), a SATA drive at worst (0.5 GB/s: 180 GB in 6 minutes).
_DISK = Speed(7e9, 2e9, 0.5e9)
#: A claim can be any of these; network volumes are the rule (109B parameters in 10 minutes: F004), EFS is the worst that was
#: reported (894 GiB in 43 minutes: F263).
_CLAIM = Speed(5e9, 0.5e9, 0.37e9)
#: File systems over the network and buckets behind FUSE: F263, F265.
_NETWORK = Speed(3e9, 0.37e9, 0.1e9)
_MEMORY = Speed(20e9, 5e9, 2e9)
#: Buckets, streamed by the engine.
_BUCKET = Speed(5e9, 0.5e9, 0.1e9)
#: The hub over the node's own link: 20 Gbit/s at best, 2 as a rule, 0.2 where it is throttled (16 GB in over 10 minutes: F097).
_HUB = Speed(2.5e9, 0.25e9, 0.025e9)

_HUB_ID = r"(?a)[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}"
_SCHEMES = ("s3://", "gs://", "az://", "azure://", "https://", "oss://", "cos://", "abfs://", "runai://")
_ON_NODES = ("hostPath", "local", "image", "emptyDir", "configMap")
#: CSI drivers whose volumes are disks of one node.
_DISK_DRIVERS = ("local", "lvm", "topolvm", "zfs", "hostpath")
_LAYERS = "the container's own layers"


def weight_storage(plan: Plan) -> WeightStorage | None:
    """Where the weights of a plan lie when its container starts; None where the model's reference, or the home of the user,
    does not tell."""
    container, reference = plan.container, plan.engine.model
    if container is None or reference is None:
        return None
    name = reference.value
    if name.startswith(_SCHEMES):
        return WeightStorage("a bucket", _BUCKET)
    if name.startswith("/") or any(name == path or name.startswith(path + "/") for path in container.model_paths):
        return _at(container, name)
    if container.model_paths and container.model is reference:
        # An operator's init container puts the model there before the container starts.
        return _at(container, container.model_paths[0])
    if not re.fullmatch(_HUB_ID, name.removeprefix("hf://").partition(":")[0].partition("@")[0]):
        return None
    path = hub_cache(plan, user_of(plan)).path
    if path is None and has_room_elsewhere(container):
        return None
    place = _at(container, path or "/")
    if not downloads(plan):
        return place
    if place.what == _LAYERS:
        return WeightStorage("the hub, without a volume for the cache", _DISK, _HUB, "start")
    if place.what == "an emptyDir":
        return WeightStorage("the hub, with the cache on an emptyDir", _DISK, _HUB, "pod")
    return place._replace(download=_HUB, each="first")


def _at(container: Container, path: str) -> WeightStorage:
    mount = mount_of(container, path)
    if mount is None:
        return WeightStorage(_LAYERS, _DISK)
    if mount.kind == "emptyDir":
        return (
            WeightStorage("a RAM-backed emptyDir", _MEMORY)
            if mount.medium == "Memory"
            else WeightStorage("an emptyDir", _DISK)
        )
    if mount.kind in _ON_NODES:
        return WeightStorage(f"a disk of the node ({mount.kind})", _DISK)
    if mount.kind == "csi":
        if any(word in mount.source for word in _DISK_DRIVERS):
            return WeightStorage("a disk of the node (csi)", _DISK)
        return WeightStorage(f"a volume of {mount.source or 'a CSI driver'}", _NETWORK)
    if mount.kind in ("persistentVolumeClaim", "ephemeral"):
        return WeightStorage(f"the claim {mount.source or mount.volume}", _CLAIM)
    return WeightStorage(f"a volume of kind {mount.kind or 'unknown'}", _NETWORK)
