"""Engine starts for tests of the memory terms: catalog model, catalog device, release and flags → effective settings."""

from __future__ import annotations

from typing import NamedTuple

from planner.accelerators.accelerator import Accelerator
from planner.accelerators.catalog import lookup
from planner.engines.config import EffectiveConfig
from planner.engines.vllm import parse_argv
from planner.engines.vllm_defaults import effective
from planner.models.architecture import ModelArchitecture
from planner.models.resolve import resolve
from planner.provenance import Fact, Provenance


class Start(NamedTuple):
    """One start."""

    model: ModelArchitecture
    config: EffectiveConfig
    accelerator: Accelerator


def start(model: str, gpu: str, version: str, flags: str = "") -> Start:
    """The start of a vLLM release on one device kind; ``flags`` is the rest of the command line."""
    accelerator = lookup(gpu)
    assert accelerator is not None, gpu
    architecture = resolve(model).architecture
    engine = parse_argv(
        flags.split(),
        version=Fact(version, Provenance("option", "test")),
        model=Fact(model, Provenance("option", "test")),
        platform="rocm" if accelerator.vendor == "amd" else "cuda",
    )
    return Start(architecture, effective(engine, architecture, accelerator, None), accelerator)
