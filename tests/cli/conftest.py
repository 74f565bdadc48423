"""The command line in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from planner.cli import cli
from tests.cli import house

Run = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository, which is the current folder; the house rules stand beside it."""
    place = tmp_path / "repository"
    (place / ".git").mkdir(parents=True)
    house.write_rules(tmp_path / "house")
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def run(folder: Path) -> Run:
    """Runs ``planner`` with these arguments in the empty repository; a crash is a failure of the test."""

    def invoke(*arguments: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(cli, arguments, input=stdin, catch_exceptions=False)

    return invoke


@pytest.fixture
def lint(run: Run) -> Run:
    """``planner lint`` with the house rules only."""

    def invoke(*arguments: str, stdin: str | bytes | None = None) -> Result:
        return run("lint", "--rules", "../house", "--select", "house", *arguments, stdin=stdin)

    return invoke
