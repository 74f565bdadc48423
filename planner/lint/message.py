"""The text of a finding: ``{path}`` and ``{function(path)}`` filled in from the facts of a plan."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from planner.units import format_bytes, format_gib

_FIELD = re.compile(r"\{(?:([a-z_]+)\()?([A-Za-z_][\w.\-\[\]]*)\)?\}")


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def _join(value: Any) -> str:
    return ", ".join(str(item) for item in value) if isinstance(value, (list, tuple)) else str(value)


FUNCTIONS: dict[str, Callable[[Any], str]] = {
    "gib": lambda value: format_gib(float(value)),
    "bytes": lambda value: format_bytes(float(value)),
    "number": _number,
    "plain": str,
    "percent": lambda value: f"{float(value):.0%}",
    "join": _join,
}


def fields(template: str) -> list[str]:
    """The paths that a template reads."""
    return [match.group(2) for match in _FIELD.finditer(template)]


def calls(template: str) -> list[tuple[str, str]]:
    """(function, path) of the fields of a template; the function is empty where there is none."""
    return [(match.group(1) or "", match.group(2)) for match in _FIELD.finditer(template)]


def fill(template: str, facts: dict[str, Any]) -> str:
    """The template with its fields filled in; a field without a value reads ``unknown``, never the raw braces.

    Control characters that a manifest may have smuggled into a fact are made visible, so that a message cannot forge
    lines or commands of the output format.
    """

    def one(match: re.Match[str]) -> str:
        function, path = match.groups()
        value = look_up(facts, path)
        if value is None:
            return "unknown"
        try:
            return printable(FUNCTIONS[function](value) if function else _number(value))
        except (KeyError, TypeError, ValueError, OverflowError):
            return printable(str(value))

    return _FIELD.sub(one, template)


def look_up(facts: dict[str, Any], path: str) -> Any:
    """The value at a dotted path, None where there is none. Keys may themselves hold hyphens."""
    value: Any = facts
    for key in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def without_commands(report: str) -> str:
    """A report for people that CI systems, which read commands out of any log, print as it is.

    GitHub takes a line that begins with ``::`` (behind blanks) for a command, and it, Azure and TeamCity a ``##[`` or
    ``##name[`` anywhere; a manifest or a file name from a pull request must not give such orders.
    """
    if "::" not in report and "##" not in report:
        return report
    report = re.sub(r"^([ \t]*):(?=:)", r"\1: ", report, flags=re.MULTILINE)
    return re.sub(r"##(?=[A-Za-z]{0,20}\[)", "# #", report)


def printable(text: str, limit: int = 600) -> str:
    """Text on one line, without control characters, cut to ``limit`` characters."""
    clean = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
