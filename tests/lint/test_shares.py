"""A run in shares finds what a run in one process finds, and survives the death of a process."""

from __future__ import annotations

import os

import pytest

from planner.documents.read import read_bytes
from planner.lint import run, shares
from planner.lint.run import select_rules
from planner.report import json_report
from planner.settings import Settings
from tests.cli import house

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


def manifests(count: int) -> bytes:
    """Deployments that differ in name; every other one violates a rule."""
    texts = [house.manifest(f"llm-{number}") for number in range(count)]
    return "---\n".join(texts).encode()


def test_small_runs_are_not_shared() -> None:
    assert shares.shares(0) == shares.shares(10) == 1
    assert 1 <= shares.shares(10_000) <= 4


@pytest.mark.parametrize("count", [2, 3])
def test_shares_find_the_same(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    files = [read_bytes(manifests(7), "many.yaml")]
    rules = select_rules(Settings())
    alone = json_report.render(run.lint(files, rules, Settings()))
    monkeypatch.setattr(shares, "shares", lambda workloads: count)
    assert json_report.render(run.lint(files, rules, Settings())) == alone
    assert '"rule"' in alone


def test_a_share_whose_process_dies_is_worked_out_here() -> None:
    here = os.getpid()

    def work(share: int, count: int) -> int:
        if os.getpid() != here:
            os._exit(3)
        return share * 10 + count

    assert shares.in_shares(work, 3) == [3, 13, 23]


def test_an_error_of_a_share_is_raised_as_it_is() -> None:
    def work(share: int, count: int) -> int:
        if share:
            raise ValueError("a broken rule")
        return count

    with pytest.raises(ValueError, match="a broken rule"):
        shares.in_shares(work, 2)
