"""The formats of a lint report by name; the module of each is loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.report.result import LintResult

#: ``--format`` → module of this package with ``render(result)``.
MODULES = {
    "text": "text",
    "json": "json_report",
    "sarif": "sarif",
    "github": "github",
    "gitlab": "gitlab",
    "junit": "junit",
}


def render(result: LintResult, format_: str, color: bool = False, quiet: bool = False) -> str:
    """The report in one of the formats; ``color`` and ``quiet`` are of use to text alone."""
    module = import_module(f"planner.report.{MODULES[format_]}")
    report: str = module.render(result, color, quiet) if format_ == "text" else module.render(result)
    return report
