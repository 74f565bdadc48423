"""Pools for sliding windows as SGLang's own code gives them, for the models of the catalog and every release at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.accelerators.catalog import candidates
from planner.engines.sglang import parse_argv
from planner.engines.sglang_defaults import effective
from planner.memory.sglang_cells import cells
from planner.models.resolve import resolve
from planner.provenance import assumed

_FACTS = json.loads((Path(__file__).parent / "sglang-window-pools.json").read_text())
#: Answers of releases that cannot serve the model anyway: (model, release).
_NOT_SERVED = {
    # The architecture is in no file of 0.5.12; builds that add it keep windows apart.
    ("google/gemma-4-12b-it", "0.5.12"),
}


@pytest.mark.parametrize("name", sorted(_FACTS["models"]))
def test_layers_of_window_pools(name: str) -> None:
    of = resolve(name).architecture
    device = candidates("H100-80GB")[0]
    steps: list[list[Any]] = _FACTS["models"][name]
    expected: Any = None
    for release in _FACTS["releases"]:
        expected = next((answer for since, answer in steps if since == release), expected)
        if expected is None or (name, release) in _NOT_SERVED:
            continue
        config = parse_argv([], version=assumed(release, "test"), model=assumed(name, "test"), platform="cuda")
        settled = effective(config, of, device, 1)
        found = cells(of, settled, range(of.num_layers))
        if expected is True:
            assert settled.window_pool, release
            continue
        got = [found.window_layers, found.full_layers] if settled.window_pool else False
        # A layout without windows has nothing to keep apart, whatever the release calls the model.
        assert got == (expected if expected and expected[0] else False), release
