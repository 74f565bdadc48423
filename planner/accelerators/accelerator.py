"""One accelerator as the engine sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from planner.estimate import Estimate


@dataclass(frozen=True)
class Accelerator:
    """A GPU product, or a partition of one.

    ``memory``: bytes that the engine reads as total device memory, as an interval (drivers differ); basis ``measured``
    where public logs show it, ``assumed`` where it is worked out from the marketing size. ``capability`` is CUDA's
    (9, 0), or None for other vendors, whose ``arch`` says more (``gfx942``). ``partition`` names a MIG profile.
    ``unified``: CPU and GPU share the memory (GB10, Jetson, MI300A). ``marketing_bytes`` is what the vendor prints.
    """

    name: str
    vendor: str
    memory: Estimate
    capability: tuple[int, int] | None
    arch: str
    marketing: str = ""
    unified: bool = False
    low_precision: tuple[str, ...] = ()
    interconnect: str = ""
    partition: str = ""
    shared: bool = False  # time slicing or MPS: other pods may use the same device
    source: str = ""


class Choice(NamedTuple):
    """What a manifest says about the device: every accelerator it allows, and the words that say so.

    ``accelerators`` is empty where nothing names one; ``named`` keeps a name that is not in the catalog.
    """

    accelerators: tuple[Accelerator, ...]
    provenance_text: str
    named: str = ""
