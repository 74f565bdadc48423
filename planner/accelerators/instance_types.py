"""Machine types of clouds → the accelerators they have, from ``planner/catalog/accelerators/instances/<cloud>.json``."""

from __future__ import annotations

import json
import os
import re
from functools import cache, lru_cache
from typing import Any

from planner.accelerators.accelerator import Accelerator
from planner.accelerators.catalog import candidates, named
from planner.accelerators.partitions import fraction
from planner.estimate import Estimate
from planner.record import NamedTuple, replace

_FOLDER = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "catalog", "accelerators", "instances"
)
#: Names that carry the accelerator in clear: CoreWeave ``gd-8xh100ib-i128`` and ``b200-8x``, Lambda ``gpu_8x_h100_sxm5``,
#: DigitalOcean ``gpu-h100x8-640gb``, Nebius ``gpu-h100-sxm``, Scaleway ``H100-1-80G``.
_CLEAR = (
    r"(?:gd|gpu)[-_](?P<count>\d{1,2})x[-_]?(?P<name>[a-z0-9]+?(?:[-_]sxm\d?|[-_]pcie)?)(?:ib|nv)?(?:[-_]i\d{1,3})?",
    r"(?P<name>[a-z]{1,4}\d{2,4}[a-z]?)[-_](?P<count>\d{1,2})x(?:[-_]\w{1,20})?",
    r"gpu-(?P<name>[a-z0-9]{2,12}?)x(?P<count>\d{1,2})-\d{1,5}gb",
    r"gpu-(?P<name>[a-z]{1,2}\d{2,4}[a-z]?(?:-sxm|-pcie)?)",
    r"(?P<name>[hlab]\d{1,3}s?)-(?P<count>\d{1,2})-\d{1,4}g",
)


class Instance(NamedTuple):
    """A machine type. ``accelerators``: what it may have (several where the type leaves it open); ``gpus``: devices of
    one machine, 0 where it is not known; ``provider``: the cloud, for people."""

    accelerators: tuple[Accelerator, ...]
    gpus: int
    provider: str


@lru_cache(maxsize=1024)
def instance_type(name: str) -> Instance | None:
    """The accelerators of a machine type (``g5.12xlarge``, ``Standard_NC24ads_A100_v4``, ``a3-highgpu-8g``,
    ``BM.GPU.H100.8``), None where it is not known or has none. Upper and lower case are the same."""
    key = name.strip().lower()[:80]
    table = _table(_cloud(key))
    entry = table["instances"].get(key) if table else None
    alibaba = re.match(r"ecs\.[a-z0-9]{1,20}", key)
    if entry is None and alibaba:
        entry = table["instances"].get(alibaba.group())
    if entry is not None:
        return Instance(_devices(entry, name), entry[1], table["provider"])
    for pattern in _CLEAR:
        match = re.fullmatch(pattern, key)
        found = candidates(match["name"].replace("_", "-")) if match else ()
        if match and found:
            return Instance(found, int(match.groupdict().get("count") or 0), "")
    return None


def family(name: str) -> tuple[Accelerator, ...]:
    """Every accelerator that the machine types of a family have (``g5``, ``p4d``, ``a3``, ``ecs.gn7i``); empty where none."""
    prefix = name.strip().lower()[:40]
    found: dict[str, Accelerator] = {}
    for cloud, separator in (("aws", "."), ("gcp", "-")):
        for key, entry in _table(cloud)["instances"].items():
            if prefix and key.startswith(prefix + separator):
                found.update((accelerator.name, accelerator) for accelerator in _devices(entry, key))
    return tuple(found.values())


def largest_machine(product: str) -> tuple[str, int] | None:
    """(machine type, devices) of the machine with the most devices of exactly this catalog product; None where no machine
    type of the catalog has it whole."""
    best: tuple[str, int] | None = None
    for cloud in ("aws", "gcp", "azure", "oracle", "alibaba"):
        for key, entry in _table(cloud)["instances"].items():
            whole = entry[0] == product and (len(entry) < 3 or entry[2] == 1)
            if whole and entry[1] > (best[1] if best else 0):
                best = (key, entry[1])
    return best


def _cloud(key: str) -> str:
    if key.startswith("standard_"):
        return "azure"
    if key.startswith(("bm.gpu", "vm.gpu")):
        return "oracle"
    if key.startswith("ecs."):
        return "alibaba"
    return "aws" if "." in key else "gcp"


def _devices(entry: list[Any], name: str) -> tuple[Accelerator, ...]:
    names = entry[0] if isinstance(entry[0], list) else [entry[0]]
    found = tuple(named(product) for product in names)
    share = entry[2] if len(entry) > 2 else 1
    if share == 1:
        return found
    by = f"part of a device on {name[:80]}"
    if share:
        return tuple(fraction(product, share, by) for product in found)
    return tuple(_unknown_share(product, by) for product in found)


def _unknown_share(product: Accelerator, by: str) -> Accelerator:
    """A device of which the machine may have all or a part: an eighth is the smallest that clouds sell."""
    memory = Estimate(product.memory.low // 8, product.memory.expected, product.memory.high, "assumed")
    return replace(product, memory=memory, partition=by, memory_note="the machine type may have a part of the device")


@cache
def _table(cloud: str) -> dict[str, Any]:
    with open(os.path.join(_FOLDER, cloud + ".json"), encoding="utf-8") as file:
        table: dict[str, Any] = json.loads(file.read())
    return table
