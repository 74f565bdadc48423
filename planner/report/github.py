"""GitHub Actions workflow commands: annotations on the lines of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.lint.message import printable

if TYPE_CHECKING:
    from planner.report.result import LintResult

_LEVEL = {"error": "error", "warning": "warning", "info": "notice"}


def render(result: LintResult) -> str:
    """One command a finding, one for each input that could not be checked, then the counts as a plain line.

    Source of the syntax and the escapes: GitHub's documentation of workflow commands, actions/toolkit core/src/command.ts.
    """
    from planner.report.text import summary

    lines = []
    for problem in result.problems:
        place = problem.position
        lines.append(_command("error", place.file, place.line, place.column, "cannot check", problem.message))
    for finding in result.findings:
        place = finding.position
        message = finding.text
        lines.append(_command(_LEVEL[finding.severity], place.file, place.line, place.column, finding.rule, message))
    for place, name, message in result.strictly_wrong:
        lines.append(_command("error", place.file, place.line, place.column, name, message))
    lines.append(summary(result))
    return "\n".join(lines) + "\n"


def _command(level: str, file: str, line: int, column: int, title: str, message: str) -> str:
    return f"::{level} file={_property(file)},line={line},col={column},title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    # Without control characters there is no line end left to escape, and no other surprise either.
    return printable(text, 4000).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
