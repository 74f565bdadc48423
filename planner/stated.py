"""What typed fields of a custom resource say of an engine, laid over what its command line and its image say.

Readers of ``planner.workloads`` put it into ``Container`` (``engine``, ``model``, ``platform`` …) and ``Pod.accelerator``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.record import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.accelerators.accelerator import Choice
    from planner.engines.config import EngineConfig, Parallelism
    from planner.engines.detect import EngineStart
    from planner.workloads.workload import Container, Pod

#: Vendors of devices whose engines are other builds than those for NVIDIA's.
_PLATFORMS = {"amd": "rocm", "google": "tpu", "aws": "neuron", "huawei": "ascend"}


def starts_of(container: Container, found: Sequence[EngineStart]) -> Sequence[EngineStart]:
    """The engine starts of a container: those that its command and image tell, else the engine that its kind names."""
    if found or not container.engine:
        return found
    from planner.engines.command import program_starts
    from planner.engines.config import CommandLine, Word
    from planner.engines.detect import EngineStart
    from planner.workloads.workload import HIDDEN

    started = program_starts(container)
    start = next((item for item in started.starts if "serve" in item.texts[:3]), None)
    if start is not None:
        line = start.command_line(started.variables, start.texts.index("serve") + 1)
    else:
        first = next((item for item in started.starts if item.entrypoint), None)
        line = first.command_line(started.variables) if first is not None else CommandLine(())
        if not line.words:
            at = container.node.position
            line = CommandLine((Word(HIDDEN, at, False, "command", "what the command starts is not known"),))
    return (EngineStart(container.engine, line, "", "the object names the engine", "medium"),)


def platform_of(container: Container, pod: Pod, of_image: str) -> str:
    """The platform: as typed fields say it, as the image does, and without an image that of the devices asked for."""
    if container.platform:
        return container.platform
    if of_image != "cuda":
        return of_image
    from planner.accelerators.resources import device_request
    from planner.engines.image import is_placeholder

    if container.image is not None and not is_placeholder(container.image.value):
        return of_image

    request = device_request(container, pod)
    if request is None:
        return of_image
    return "gaudi" if request.kind == "gaudi" else _PLATFORMS.get(request.vendor, of_image)


def with_model(engine: EngineConfig, container: Container) -> EngineConfig:
    """The configuration with the model that a typed field names, where the arguments name none, or name a folder that
    the operator puts it into (``/mnt/models``)."""
    model = container.model
    if model is None:
        return engine
    named = engine.model
    if named is not None and named.provenance.source != "engine-default":
        value = named.value.rstrip("/")
        if not any(value == path or value.startswith(path + "/") for path in container.model_paths):
            return engine
    gaps = tuple(gap for gap in engine.unknown if gap.fact not in ("model", "engine.model"))
    return replace(engine, model=model, unknown=gaps)


def stated_sizes(engine: EngineConfig) -> Parallelism | None:
    """The parallel sizes that an engine's start states, for engines and starts whose sizes in effect are not known: a size
    that is not stated is 1 there. None where one of them is a variable, or where arguments are hidden and no tensor
    parallel size is stated."""
    from planner.engines.recognised import sizes

    hidden = engine.command_line is not None and any(not word.known for word in engine.command_line.words)
    if hidden and not any(name in engine.flags for name in ("tensor-parallel-size", "tp-size", "num-shard")):
        return None
    return sizes(engine)


def with_accelerator(choice: Choice, pod: Pod) -> Choice:
    """The accelerator that a typed field names, where no annotation and no label names one."""
    stated = pod.accelerator
    if stated is None or choice.accelerators or choice.named or choice.contradictory:
        return choice
    from planner.accelerators.labels import from_name

    found = from_name(stated.value)
    if choice.vendor and found.vendor and choice.vendor != found.vendor:
        return choice
    text = f"{stated.value[:80]} ({stated.position})" if stated.position else stated.value[:80]
    return found._replace(position=stated.position, provenance_text=text, source="label")
