"""0 clean, 1 findings at or above --fail-on, 2 something could not be checked: the same in every format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import house
from tests.cli.conftest import Run

FORMATS = ("text", "json", "sarif", "github")
SEVERITIES = ("info", "warning", "error")

each_format = pytest.mark.parametrize("format_", FORMATS)


@each_format
@pytest.mark.parametrize("fail_on", [None, *SEVERITIES])
@pytest.mark.parametrize("severity", ["clean", *SEVERITIES])
def test_findings_count_from_fail_on_inclusive(
    lint: Run, folder: Path, format_: str, fail_on: str | None, severity: str
) -> None:
    (folder / "a.yaml").write_text(house.manifest(severity))
    result = lint("a.yaml", "--format", format_, *(("--fail-on", fail_on) if fail_on else ()))
    threshold = SEVERITIES.index(fail_on or "error")
    expected = int(severity != "clean" and SEVERITIES.index(severity) >= threshold)
    assert result.exit_code == expected
    assert (f"house-{severity}" in _results(result.stdout, format_)) == (severity != "clean")


def _results(report: str, format_: str) -> str:
    """The part of a report that tells findings, without the rules that a SARIF log describes."""
    return json.dumps(json.loads(report)["runs"][0]["results"]) if format_ == "sarif" else report


@each_format
@pytest.mark.parametrize("severity", ["clean", "error"])
def test_a_parse_error_is_two_whatever_was_found_beside_it(
    lint: Run, folder: Path, format_: str, severity: str
) -> None:
    (folder / "a.yaml").write_text(house.manifest(severity))
    (folder / "b.yaml").write_text(house.BROKEN)
    result = lint("a.yaml", "b.yaml", "--format", format_)
    assert result.exit_code == 2
    assert "b.yaml" in result.stdout
    assert (f"house-{severity}" in _results(result.stdout, format_)) == (severity != "clean")


@each_format
def test_an_error_in_one_document_does_not_hide_the_findings_of_the_next(lint: Run, folder: Path, format_: str) -> None:
    (folder / "a.yaml").write_text("kind: {a\n---\n" + house.manifest("error"))
    result = lint("a.yaml", "--format", format_)
    assert result.exit_code == 2
    assert "house-error" in _results(result.stdout, format_)


@each_format
@pytest.mark.parametrize(("strict", "expected"), [(False, 0), (True, 2)])
def test_not_evaluated_becomes_two_with_strict(
    run: Run, folder: Path, tmp_path: Path, format_: str, strict: bool, expected: int
) -> None:
    house.write_unknown_rule(tmp_path / "unknown")
    (folder / "a.yaml").write_text(house.manifest("clean"))
    options = ("--rules", "../unknown", "--select", "house", "--format", format_)
    result = run("lint", "a.yaml", *options, *(("--strict",) if strict else ()))
    assert result.exit_code == expected


@each_format
def test_strict_changes_nothing_where_everything_was_evaluated(lint: Run, folder: Path, format_: str) -> None:
    for severity, expected in (("clean", 0), ("warning", 0), ("error", 1)):
        (folder / "a.yaml").write_text(house.manifest(severity))
        assert lint("a.yaml", "--strict", "--format", format_).exit_code == expected


@each_format
@pytest.mark.parametrize(
    "text",
    [
        house.rule("broken", violated="workload.name =="),
        house.rule("broken", violated="workloud.name == 'x'"),
        house.rule("broken", violated="workload.name * 1.5 > 2.0"),
        house.rule("broken", violated="workload.name"),
        house.rule("broken").replace("violated:", "violatd:"),
        house.rule("broken").replace("severity: error", "severity: grave"),
        "id: [",
        "- a\n- list\n",
        "",
    ],
    ids=["syntax", "name", "type", "no-boolean", "key", "severity", "not-yaml", "no-mapping", "empty"],
)
def test_a_broken_rule_is_two_and_never_a_pass(run: Run, folder: Path, format_: str, text: str) -> None:
    (folder / "own").mkdir()
    (folder / "own" / "broken.yaml").write_text(text)
    (folder / "a.yaml").write_text(house.manifest("clean"))
    result = run("lint", "a.yaml", "--rules", "own", "--format", format_)
    assert result.exit_code == 2
    assert "own/broken.yaml:" in result.stderr
    assert result.stdout == ""


@each_format
@pytest.mark.parametrize(
    "options",
    [
        ("--fail-on", "fatal"),
        ("--no-such-option",),
        ("--select", "no-such-rule"),
        ("--ignore", "no-such-rule"),
        ("--rules", "no-such-folder"),
        ("--config", "no-such-file.yaml"),
        ("--model-map", "no-pair"),
        ("--model-map", "=x"),
        ("--engine-version", "0.11.0"),
        ("--engine-version", "foo=1"),
        ("--engine-version", "VLLM=0.33.0"),
        ("--engine-version", "vllm=latest"),
        ("--engine-version", "vllm=0.33.0,sglang=0.5.23"),
        ("--output", "no-such-folder/report"),
    ],
    ids=" ".join,
)
def test_a_bad_option_is_two(lint: Run, folder: Path, format_: str, options: tuple[str, ...]) -> None:
    (folder / "a.yaml").write_text(house.manifest("error"))
    result = lint("a.yaml", "--format", format_, *options)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Error: " in result.stderr


def test_an_unknown_format_is_two(lint: Run, folder: Path) -> None:
    (folder / "a.yaml").write_text(house.manifest("clean"))
    assert lint("a.yaml", "--format", "xml").exit_code == 2


@each_format
@pytest.mark.parametrize("path", ["missing.yaml", "missing/", "nothing-*.yaml", "a\0b"], ids=str.isprintable)
def test_a_path_that_leads_nowhere_is_two(lint: Run, format_: str, path: str) -> None:
    assert lint(path, "--format", format_).exit_code == 2


@each_format
def test_a_folder_without_manifests_is_clean(lint: Run, folder: Path, format_: str) -> None:
    (folder / "values.yaml").write_text("a: 1\n")
    (folder / "README.md").write_text("# kind: Pod\n")
    result = lint("--format", format_)
    assert result.exit_code == 0
    if format_ in ("text", "github"):
        assert "(0 files, 0 workloads, 0 engines)" in result.stdout


@each_format
def test_manifests_without_an_engine_are_clean(lint: Run, folder: Path, format_: str) -> None:
    (folder / "a.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80}]}\n")
    assert lint("a.yaml", "--strict", "--format", format_).exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("rules", "no-such-rule"),
        ("rules", "--rules", "no-such-folder"),
        ("catalog", "models", "no-such-model"),
        ("catalog", "everything"),
        ("budget", "missing.yaml"),
        ("budget", "--kv-cache-memory", "many"),
        ("no-such-command",),
    ],
    ids=" ".join,
)
def test_other_commands_that_cannot_answer_are_two(run: Run, arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2
