"""GitHub's workflow commands: one for each finding, read back by the rules of the runner."""

from __future__ import annotations

import re

import pytest

from planner.report import github
from planner.report.result import LintResult
from tests.cli import house
from tests.report.conftest import Lint

_COMMAND = re.compile(r"::([a-z]+) ([^:]*(?:%3A[^:]*)*)::(.*)")


def commands(report: str) -> list[tuple[str, dict[str, str], str]]:
    """(command, properties, message) of every line that the runner takes for a command, unescaped as it does."""
    found = []
    for line in re.split(r"\r\n|\r|\n", report):
        if line.strip().startswith("::") or "##[" in line:
            match = _COMMAND.fullmatch(line)
            assert match, line
            properties = dict(part.split("=", 1) for part in match.group(2).split(","))
            found.append((match.group(1), {k: _plain(v) for k, v in properties.items()}, _plain(match.group(3))))
    return found


def _plain(text: str) -> str:
    for escape, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(escape, char)
    return text


def test_one_command_for_each_finding_and_each_error(everything: LintResult) -> None:
    found = commands(github.render(everything))
    assert len(found) == len(everything.findings) + len(everything.problems)
    level = {"error": "error", "warning": "warning", "info": "notice"}
    for (command, properties, message), finding in zip(
        found[len(everything.problems) :], everything.findings, strict=True
    ):
        assert command == level[finding.severity]
        assert properties["file"] == finding.position.file
        assert (int(properties["line"]), int(properties["col"])) == finding.position[1:3]
        assert properties["title"] == finding.rule
        assert message == f"{finding.message} → {finding.remedy}"


def test_a_file_that_could_not_be_checked_is_an_error_command(house_lint: Lint) -> None:
    found = commands(github.render(house_lint({"a.yaml": house.BROKEN})))
    assert [(command, properties["title"]) for command, properties, _ in found] == [("error", "cannot check")]


def test_the_counts_are_a_plain_line(house_lint: Lint) -> None:
    last = github.render(house_lint({"a.yaml": house.manifest("error")})).splitlines()[-1]
    assert last == "1 error, 0 warnings, 0 info (1 file, 1 workload, 1 engine)"


@pytest.mark.parametrize("file", ["a,line=1.yaml", "a::error::b.yaml", "per%25.yaml", "a%0Ab.yaml", "ü b.yaml"])
def test_file_names_come_back_as_they_were(house_lint: Lint, file: str) -> None:
    found = commands(github.render(house_lint({file: house.manifest("error")})))
    assert [properties["file"] for _, properties, _ in found] == [file]
