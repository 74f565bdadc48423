"""Random jobs for ``planner suggest``: a model, an accelerator and a workload from the catalog, the same for a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from planner import catalog
from planner.accelerators.catalog import all_accelerators
from planner.settings import Settings
from planner.suggest.wanted import Wanted

#: What people run in clusters is drawn three times in four, everything in the catalog otherwise.
COMMON = (
    "T4", "L4", "A10G", "A10", "L40S", "RTX-4090", "RTX-A6000", "A100-40GB-SXM", "A100-80GB-SXM", "H100-80GB-SXM",
    "H100-NVL-94GB", "H200", "B200", "MI300X", "MI325X",
)  # fmt: skip
RELEASES = ("0.11.0", "0.18.1", "0.21.0", "0.24.0", "0.28.0")


def jobs(count: int, seed: int = 20261129) -> Iterator[Wanted]:
    """``count`` jobs; the first ones are the same for every count."""
    drawn = random.Random(seed)
    keys = catalog.model_keys()
    everything = [accelerator.name for accelerator in all_accelerators()]
    for _ in range(count):
        accelerator = drawn.choice(COMMON) if drawn.random() < 0.75 else drawn.choice(everything)
        yield Wanted(
            model=drawn.choice(keys),
            accelerators=(accelerator,),
            workload=_workload(drawn),
            settings=Settings(),
            release=drawn.choice(RELEASES) if drawn.random() < 0.3 else "",
            most_gpus=drawn.choice((1, 2, 4, 8, 16)) if drawn.random() < 0.3 else 0,
        )


def _workload(drawn: random.Random) -> dict[str, Any]:
    load: dict[str, Any]
    if drawn.random() < 0.8:
        load = {"concurrency": int(10 ** drawn.uniform(0, 2.7))}
    else:
        load = {"requests_per_second": round(10 ** drawn.uniform(-1, 1.3), 2)}
    load["prompt_tokens"] = _lengths(drawn, 100, 4000)
    load["output_tokens"] = _lengths(drawn, 30, 600)
    if drawn.random() < 0.3:
        load["shared_prefix_tokens"] = drawn.randrange(50, 1000)
    if drawn.random() < 0.2:
        load["risk"] = drawn.choice((0.001, 0.05))
    return load


def _lengths(drawn: random.Random, least: int, most: int) -> str:
    median = int(least * (most / least) ** drawn.random())
    p95 = int(median * drawn.uniform(1.2, 5))
    return f"p50={median},p95={p95},max={int(p95 * drawn.uniform(1.1, 4))}"
