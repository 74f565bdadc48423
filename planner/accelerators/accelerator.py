"""One accelerator as the engine sees it."""

from __future__ import annotations

from planner.estimate import Estimate
from planner.provenance import Position
from planner.record import NamedTuple, dataclass


@dataclass(frozen=True, eq=False)
class Accelerator:
    """A GPU product, or a partition of one.

    ``memory``: bytes that the engine reads as total device memory, as an interval (drivers differ); basis ``measured``
    where public logs show it, ``assumed`` where it is worked out from the marketing size. ``capability`` is CUDA's
    (9, 0), or None for other vendors, whose ``arch`` says more (``gfx942``). ``partition`` names a MIG profile or a
    vGPU share. ``unified``: CPU and GPU share the memory (GB10, Jetson, MI300A). ``marketing`` is what the vendor prints.
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
    kind: str = "gpu"  # gpu, gaudi, tpu, neuron or npu
    coherent: bool = (
        False  # the CPU reaches the device memory over a coherent link (GH200, GB200): page cache may sit in it
    )
    bandwidth_gb_s: float = 0.0  # of the device memory, 10⁹ bytes per second; 0 where no source states it
    partitions: tuple[str, ...] = ()  # MIG profiles of the product, as ``nvidia-smi mig -lgip`` names them
    smi_mib: tuple[
        int, ...
    ] = ()  # MiB that nvidia-smi prints and GPU Feature Discovery writes into nvidia.com/gpu.memory
    memory_note: str = ""  # how the interval came about
    note: str = ""
    variants: tuple[str, ...] = ()  # other products that the name looked up may mean (their memory is in the interval)


class Choice(NamedTuple):
    """What a manifest says about the device: every accelerator it allows, and the words that say so.

    ``accelerators`` is empty where nothing names one; ``named`` keeps a name that is not in the catalog, ``remedy`` is
    the one line that would make the accelerator known. ``source`` is ``annotation``, ``label``, ``resource`` or empty.
    ``vendor`` and ``kind`` are known where at least the resource or a label tells them (empty otherwise): they narrow the
    search of an accelerator for a pod that names none, as do ``excluded`` (product names) and the bounds of the memory
    in bytes (0: no bound). ``memory_limit``: bytes per device that a vGPU layer lets the container see where the product
    is not known (with a known product the accelerators carry it). ``contradictory``: no node can satisfy the manifest.
    ``others_allowed``: an alternative of the affinity names no accelerator, so that others than these are possible.
    """

    accelerators: tuple[Accelerator, ...]
    provenance_text: str
    named: str = ""
    vendor: str = ""
    kind: str = ""
    source: str = ""
    remedy: str = ""
    position: Position | None = None
    gpus_per_node: int = 0  # 0: not known
    shared: bool = False
    partition: str = ""
    memory_limit: int = 0
    memory_at_least: int = 0
    memory_at_most: int = 0
    excluded: tuple[str, ...] = ()
    contradictory: bool = False
    others_allowed: bool = False
