"""Prefill graphs by default, as SGLang's own code decides in ten releases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.engines.sglang_prefill_graphs import captured
from tests.golden.sglang_prefill_graphs import cases

_FACTS: dict[str, str] = json.loads((Path(__file__).parent / "sglang-prefill-graphs.json").read_text())


@pytest.mark.parametrize("release", sorted(_FACTS))
def test_prefill_graphs_by_default(release: str) -> None:
    version = tuple(int(part) for part in release.split("."))
    wrong = [
        facts
        for facts, letter in zip(cases(version), _FACTS[release], strict=True)
        if captured(facts) != (letter == "y")
    ]
    assert not wrong, wrong[:3]
    assert 20 < _FACTS[release].count("y") < 300
