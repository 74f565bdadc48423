"""Memory that is no tensor of the engine: CUDA context, communicators, kernel modules."""

from __future__ import annotations

from planner.accelerators.accelerator import Accelerator
from planner.engines.config import EffectiveConfig
from planner.estimate import Estimate
from planner.memory.budget import Input, Term
from planner.units import GIB, MIB


def non_torch(config: EffectiveConfig, accelerator: Accelerator | None) -> Term:
    """Bytes of one rank that the engine charges to its budget as non-torch memory.

    Up to vLLM 0.10.2 the first snapshot is taken before the communicators exist, so that they are charged; from 0.11.0
    only the growth after them is. Source: reference on vLLM's memory, 1.1 (step 5), 7.2.
    """
    del accelerator
    world = config.parallel.world
    if config.version >= (0, 11):
        low, expected, high = (0.02, 0.12, 0.4) if world == 1 else (0.1, 0.4, 1.2)
    elif world == 1:
        low, expected, high = (0.02, 0.1, 1.8)
    else:
        low, expected, high = (0.2, 1.2, 3.6)
    return Term(
        "non_torch",
        Estimate(int(low * GIB), int(expected * GIB), int(high * GIB), "measured"),
        "growth outside the allocator until the end of the profile run",
        (Input("ranks", str(world), "tensor × pipeline parallel size"),),
    )


def baseline(config: EffectiveConfig, accelerator: Accelerator | None) -> Term:
    """What the device holds before the engine's first snapshot (context, and from 0.11.0 the communicators), in bytes.

    It is not charged to the engine's share, but must fit beside it. Source: reference on vLLM's memory, 7.2.
    """
    del accelerator
    world = config.parallel.world
    communicators = (0.1, 0.5, 1.8) if world > 1 and config.version >= (0, 11) else (0.0, 0.0, 0.0)
    return Term(
        "baseline",
        Estimate(
            int(250 * MIB + communicators[0] * GIB),
            int(450 * MIB + communicators[1] * GIB),
            int(800 * MIB + communicators[2] * GIB),
            "assumed",
        ),
        "CUDA context + communicators",
        (Input("ranks", str(world), "tensor × pipeline parallel size"),),
    )
