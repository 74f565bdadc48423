"""``planner lint PATH…`` without options takes a way of its own, without click; it says and returns just the same."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from planner.cli import _is_plain_lint, cli, plain_lint
from tests.cli import house

CONFIG = "rules: ../house\nselect: [house]\n"

CASES: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "clean": ({"a.yaml": house.manifest("clean")}, ("a.yaml",)),
    "error": ({"a.yaml": house.manifest("error")}, ("a.yaml",)),
    "warning": ({"a.yaml": house.manifest("warning")}, ("a.yaml",)),
    "broken": ({"a.yaml": house.BROKEN, "b.yaml": house.manifest("error")}, ("a.yaml", "b.yaml")),
    "missing": ({}, ("a.yaml",)),
    "nothing": ({}, ()),
    "folder": ({"a.yaml": house.manifest("error"), "deep/b.yaml": house.manifest("info")}, ()),
    "glob": ({"a.yaml": house.manifest("error"), "b.yml": house.manifest("info")}, ("*.yml",)),
    "stdin": ({}, ("-",)),
    "fail-on": ({"a.yaml": house.manifest("info"), "planner.yaml": CONFIG + "fail-on: info\n"}, ("a.yaml",)),
    "format": ({"a.yaml": house.manifest("error"), "planner.yaml": CONFIG + "format: json\n"}, ("a.yaml",)),
    "baseline": ({"a.yaml": house.manifest("error"), "planner.yaml": CONFIG + "baseline: missing.json\n"}, ("a.yaml",)),
    "paths": ({"a.yaml": house.manifest("error"), "planner.yaml": CONFIG + "paths: {a.yaml: {ignore: house}}\n"}, ()),
    "settings": ({"a.yaml": house.manifest("error"), "planner.yaml": "nonsense: 1\n"}, ("a.yaml",)),
    "select": ({"planner.yaml": "select: nonsense\n"}, ()),
    "rules": ({"own/x.yaml": house.rule("x", violated="x =="), "planner.yaml": "rules: own\n"}, ()),
    "other": ({"a.yaml": "services: {}\n"}, ("--manifests-only", "a.yaml")),
    "other-broken": ({"a.yaml": "services: {\n"}, ("a.yaml", "--manifests-only")),
    "other-settings": ({"a.yaml": "x: 1\n", "planner.yaml": "nonsense: 1\n"}, ("a.yaml", "--manifests-only")),
    "manifest": ({"a.yaml": house.manifest("error")}, ("--manifests-only", "a.yaml")),
}


@pytest.mark.parametrize("name", CASES)
def test_both_ways_agree(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files, arguments = CASES[name]
    for path, text in {"planner.yaml": CONFIG, **files}.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    assert _is_plain_lint(["lint", *arguments])
    stdin = house.manifest("error").encode()
    by_click = CliRunner().invoke(cli, ["lint", *arguments], input=stdin, catch_exceptions=False)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
    code = plain_lint.run(list(arguments))
    plain = capsys.readouterr()
    assert (code, plain.out, plain.err) == (by_click.exit_code, by_click.stdout, by_click.stderr)
    assert code == {"clean": 0, "nothing": 0, "warning": 0, "other": 0, "other-broken": 0, "glob": 0, "paths": 0}.get(
        name, 2 if name in ("baseline", "broken", "missing", "settings", "select", "rules", "other-settings") else 1
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["lint", "--format", "json"], ["lint", "-q"], ["lint", "a.yaml", "--strict"], ["lint", "--help"], ["lint", "--", "-a"],
        ["budget", "a.yaml"], ["--version"], [], ["lint", "--manifests-only", "--color"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_whatever_has_other_options_goes_through_click(arguments: list[str]) -> None:
    assert not _is_plain_lint(arguments)
