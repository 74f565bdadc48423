"""The report for people."""

from __future__ import annotations

import re

from planner.lint.message import without_commands
from planner.report import text
from planner.report.result import LintResult
from tests.cli import house
from tests.report.conftest import Lint


def test_findings_stand_under_their_file_with_the_source_line(house_lint: Lint) -> None:
    report = text.render(house_lint({"b.yaml": house.manifest("warning"), "a.yaml": house.manifest("error")}))
    assert report == (
        "a.yaml\n"
        "  12:17  error  house-error  (Deployment/error · vllm)\n"
        "    12 |         - name: vllm\n"
        "      The workload is called error.\n"
        "      → Call it otherwise.\n"
        "\n"
        "b.yaml\n"
        "  12:17  warning  house-warning  (Deployment/warning · vllm)\n"
        "    12 |         - name: vllm\n"
        "      The workload is called warning.\n"
        "      → Call it otherwise.\n"
        "\n"
        "1 error, 1 warning, 0 info (2 files, 2 workloads, 2 engines)\n"
    )


def test_counts_agree_with_the_result(everything: LintResult) -> None:
    report = text.render(everything)
    counts = {name: sum(f.severity == name for f in everything.findings) for name in ("error", "warning", "info")}
    last = report.splitlines()[-1]
    assert f"{counts['error']} errors, {counts['warning']} warnings, {counts['info']} info" in last
    assert "; 1 suppressed; " in last
    assert f"{len(everything.not_evaluated)} not evaluated for want of " in last
    assert "1 could not be checked" in last
    assert f"{everything.files} files" in last


def test_what_is_wrong_comes_first_with_its_place(house_lint: Lint) -> None:
    report = text.render(house_lint({"a.yaml": house.manifest("error"), "b.yaml": house.BROKEN}))
    assert re.match(r"b\.yaml:\d+:\d+: cannot check: ", report)


def test_missing_facts_are_told_once_for_all_the_rules_that_want_them(everything: LintResult) -> None:
    report = text.render(everything)
    lines = [line for line in report.splitlines() if ": not evaluated: " in line]
    assert len(lines) == len(set(lines)) < len(everything.not_evaluated)
    for line, remedy in zip(lines, [*report.splitlines()][report.splitlines().index(lines[0]) + 1 :: 2], strict=False):
        assert " is unknown: " in line
        assert remedy.startswith("      → ")
    assert ": not evaluated: " not in text.render(everything, quiet=True)


def test_unused_suppressions_are_told(everything: LintResult) -> None:
    assert "suppressed.yaml:" in text.render(everything)
    assert "unused suppression: nothing to ignore for gpus-idle" in text.render(everything)


def test_colour_adds_escapes_and_nothing_else(everything: LintResult) -> None:
    plain, coloured = text.render(everything), text.render(everything, color=True)
    assert "\x1b[31merror\x1b[0m" in coloured
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain


def test_a_log_reader_finds_no_command_in_a_report() -> None:
    hostile = "::error::x\n   ::set-output name=a::b\n\t::x\na ##[error]x\n12 | ##vso[task.x]y\n##teamcity[z]\nfine :: ## [x]\n"
    calm = without_commands(hostile)
    assert not re.search(r"^\s*::", calm, re.MULTILINE)
    assert not re.search(r"##\w*\[", calm)
    assert calm.splitlines()[-1] == "fine :: ## [x]"
    assert without_commands("nothing to do\n") == "nothing to do\n"
