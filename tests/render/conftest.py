"""A repository, and renderers on PATH that are made for the test."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from planner.cli import cli

Run = Callable[..., Result]
#: Writes down how it was called, then prints the file that stands for its output.
FAKE = """\
#!{python}
import json, os, sys
json.dump({{"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}}, open({log!r}, "w"))
{body}
"""


class Tools:
    """Programs of a folder that is the only one on PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder.parent / "call.json"

    def make(self, name: str, prints: str = "", body: str = "") -> Path:
        """A program that prints a text, or does what the Python code ``body`` says."""
        path = self.folder / name
        output = self.folder / f"{name}.out"
        output.write_text(prints)
        path.write_text(
            FAKE.format(
                python=sys.executable, log=str(self.log), body=body or f"sys.stdout.write(open({str(output)!r}).read())"
            )
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    @property
    def call(self) -> dict[str, Any]:
        """How the last program was called."""
        called: dict[str, Any] = json.loads(self.log.read_text())
        return called


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "repository"
    (place / ".git").mkdir(parents=True)
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def path_of_old() -> str:
    """PATH as it was before the test took it away."""
    return os.environ.get("PATH", "")


@pytest.fixture
def tools(tmp_path: Path, path_of_old: str, monkeypatch: pytest.MonkeyPatch) -> Tools:
    place = tmp_path / "bin"
    place.mkdir()
    monkeypatch.setenv("PATH", str(place))
    return Tools(place)


@pytest.fixture
def lint(folder: Path) -> Run:
    """``planner lint`` in the repository."""

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(cli, ["lint", *arguments], catch_exceptions=False)

    return invoke


def write(folder: Path, files: dict[str, str]) -> None:
    """Files of a repository."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def findings(result: Result) -> list[tuple[str, str, int]]:
    """(rule, file, line) of a JSON report."""
    return [(f["rule"], f["file"], f["line"]) for f in json.loads(result.stdout)["findings"]]
