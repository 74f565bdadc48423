"""The ways to spread one engine copy over GPUs and pods."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from planner.accelerators.accelerator import Accelerator
from planner.engines.config import Parallelism
from planner.memory.divisibility import indivisible
from planner.models.architecture import ModelArchitecture
from planner.record import NamedTuple

#: GPUs of one node where no machine type with the accelerator is known: the most that servers commonly have.
ASSUMED_NODE = 8
#: Pods and GPUs that one engine copy spans at most.
MOST_PODS = 8
MOST_GPUS = 64
#: vLLM's own launcher connects pods (``--nnodes``) from this release on; before, only Ray does.
NODES_SINCE = (0, 11, 1)


class Layout(NamedTuple):
    """One engine copy: tensor × pipeline parallel ranks on ``pods`` pods of ``gpus_per_pod`` GPUs each. ``expert``: whole
    experts are spread over the tensor parallel ranks instead of cutting each."""

    tensor: int
    pipeline: int = 1
    pods: int = 1
    gpus_per_pod: int = 1
    expert: bool = False

    @property
    def gpus(self) -> int:
        """GPUs of one copy."""
        return self.pods * self.gpus_per_pod

    @property
    def text(self) -> str:
        """For people."""
        parts = [f"tensor parallel {self.tensor}"] if self.tensor > 1 else []
        parts += [f"pipeline parallel {self.pipeline}"] if self.pipeline > 1 else []
        parts += ["expert parallel"] if self.expert else []
        if not parts:
            return "1 GPU" if self.gpus == 1 else f"{self.gpus} GPUs"
        where = f" over {self.pods} pods" if self.pods > 1 else ""
        return f"{self.gpus} GPUs{where} ({', '.join(parts)})"


class NodeSize(NamedTuple):
    """The most GPUs of one node. ``source``: which machine types have them, or that it is assumed."""

    gpus: int
    source: str
    assumed: bool = False


@lru_cache(maxsize=256)
def node_size(accelerator: Accelerator) -> NodeSize:
    """How many of these accelerators a node has at most: the largest machine type of the catalog, 1 for devices on the
    CPU's own package, else an assumption."""
    from planner.accelerators.instance_types import largest_machine

    if accelerator.partition:
        return NodeSize(1, "engines do not span slices of a device")
    if accelerator.interconnect == "integrated" or (accelerator.unified and accelerator.vendor == "nvidia"):
        return NodeSize(1, "the device is on the CPU's own package")
    found = largest_machine(accelerator.name)
    if found is not None:
        return NodeSize(found[1], f"{found[0]} has {found[1]}")
    if accelerator.coherent:
        return NodeSize(1, "one for each CPU")
    return NodeSize(ASSUMED_NODE, f"up to {ASSUMED_NODE} a node: assumed, --gpus-per-node says it", assumed=True)


def layouts(model: ModelArchitecture, gpus: int, node: int, most_pods: int) -> Iterator[Layout]:
    """Every way to run one copy on exactly ``gpus`` GPUs: in one pod where a node has as many (``node``), else in several
    equal ones. Tensor parallel stays inside a pod, the larger first; what the model cannot be split into is left out (heads,
    layers)."""
    shares = [1] if gpus <= node else [n for n in range(2, most_pods + 1) if gpus % n == 0 and gpus // n <= node]
    for pods in shares:
        here = gpus // pods
        for tensor in range(here, 0, -1):
            if here % tensor:
                continue
            pipeline = gpus // tensor
            if pipeline > max(1, model.num_layers):
                continue
            if next(indivisible(model, Parallelism(tensor=tensor, pipeline=pipeline)), None) is None:
                yield Layout(tensor, pipeline, pods, here)
