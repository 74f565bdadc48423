"""Memory settings against what SGLang's own code sets (``sglang_memory_settings.py`` says how the facts are made)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.accelerators.accelerator import Accelerator
from planner.engines.sglang import parse_argv
from planner.engines.sglang_defaults import effective
from planner.estimate import exactly
from planner.provenance import from_default
from planner.units import MIB
from tests.engines.test_sglang_defaults import FULL, LATENT, model

RELEASES: dict[str, list[list[Any]]] = json.loads(Path(__file__).with_name("sglang-memory-settings.json").read_text())[
    "releases"
]


@pytest.mark.parametrize("version", list(RELEASES))
def test_settings_are_those_of_the_release(version: str) -> None:
    wrong = []
    for line, mib, latent, *expected in RELEASES[version]:
        accelerator = Accelerator("X", "nvidia", exactly(mib * MIB), (9, 0), "", smi_mib=(mib,))
        config = parse_argv(["--model", "a/b", *line.split()], version=from_default(version, "test"))
        settled = effective(config, model(*((LATENT if latent else FULL,) * 8)), accelerator)
        own = dict(settled.own)
        chunk, decodes, largest, prefills, most, fraction = expected
        found = [
            own["chunked_prefill_size"].value * (settled.attention_data if settled.chunk > 0 else 1),
            len(settled.capture_sizes) or decodes,  # none where the flags switch them off later
            max(settled.capture_sizes, default=largest),
            *((len(settled.prefill_graph_sizes), max(settled.prefill_graph_sizes)) if settled.prefill_graph_sizes else (prefills, most)),
            round(settled.gpu_memory_utilization.value, 6),
        ]  # fmt: skip
        if found != [chunk, decodes, largest, prefills, most, fraction]:
            wrong.append((line, mib, latent, found, expected))
    assert not wrong, f"{len(wrong)} of {len(RELEASES[version])}: {wrong[:5]}"
