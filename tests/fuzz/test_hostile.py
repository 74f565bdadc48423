"""A small share of the fuzzer's inputs, the same ones each time."""

from __future__ import annotations

import pytest

from tests.conftest import SHARED
from tests.fuzz.hostile import corpus_of, run


@pytest.mark.parametrize("seed", range(4))
def test_hostile_inputs_never_crash_or_hang(seed: int) -> None:
    folder = SHARED / "corpus" / "manifests" / "dev"
    reports: list[str] = []
    bad = run(150, seed, corpus_of(folder if folder.is_dir() else None), reports.append)
    assert not bad, "\n".join(reports)
