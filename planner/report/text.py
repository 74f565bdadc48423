"""For people: findings by file with the source line, then what could not be decided, then one line of counts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from planner.lint.message import printable, without_commands
from planner.lint.pages import is_link

if TYPE_CHECKING:
    from planner.documents.document import Problem
    from planner.lint.finding import Finding, NotEvaluated
    from planner.report.result import LintResult

_COLORS = {"error": "\x1b[31m", "warning": "\x1b[33m", "info": "\x1b[36m"}
#: Files that one notice names.
_MOST_NAMED = 3
_BOLD, _DIM, _END = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def render(result: LintResult, color: bool = False, quiet: bool = False) -> str:
    """The report as text; ``color`` with ANSI colours, ``quiet`` without what could not be decided."""
    parts: list[str] = []
    for problem in result.problems:
        parts.append(problem_line(problem, color))
    said: dict[str, list[str]] = {}
    for notice in result.notices:
        said.setdefault(notice.message, []).append(notice.position.file)
    for message, files in said.items():
        more = f" and {len(files) - _MOST_NAMED} more" if len(files) > _MOST_NAMED else ""
        parts.append(f"{', '.join(printable(file) for file in files[:_MOST_NAMED])}{more}: {printable(message)}")
    if parts:
        parts.append("")
    pages = result.pages() if result.rule_pages else {}
    for file, group in groupby(result.findings, key=lambda finding: finding.position.file):
        parts.append(f"{_BOLD}{printable(file)}{_END}" if color else printable(file))
        for finding in group:
            parts.extend(_finding(finding, result, pages.get(finding.rule, ""), color))
        parts.append("")
    for unused in result.unused_suppressions:
        parts.append(f"{printable(str(unused.position))}: {printable(unused.message)}")
    for stale in result.stale:
        parts.append(f"{printable(str(stale.position))}: {printable(stale.message)}")
    if not quiet:
        parts.extend(_gaps(result.not_evaluated))
        if result.unknown_kinds:
            kinds = ", ".join(
                f"{printable(kind, 60)} ({count})" for kind, count in sorted(result.unknown_kinds.items())[:20]
            )
            parts.append(f"read by their shape alone, the kind is not known: {kinds}")
    parts.append(summary(result))
    return without_commands("\n".join(parts) + "\n")


def problem_line(problem: Problem, color: bool = False) -> str:
    """What could not be checked, and why, in one line."""
    what = _paint("cannot check", "error", color)
    return f"{printable(str(problem.position))}: {what}: {printable(problem.message)}"


def _paint(text: str, severity: str, color: bool) -> str:
    return f"{_COLORS[severity]}{text}{_END}" if color else text


def _finding(finding: Finding, result: LintResult, page: str, color: bool) -> Iterator[str]:
    place = finding.position
    who = f"{finding.workload} · {finding.container}" if finding.container else finding.workload
    if finding.rendered_by:
        who += f", rendered from {', '.join(finding.rendered_by[:_MOST_NAMED])}"
        who += f" and {len(finding.rendered_by) - _MOST_NAMED} more" if len(finding.rendered_by) > _MOST_NAMED else ""
    yield f"  {place.line}:{place.column}  {_paint(finding.severity, finding.severity, color)}  {finding.rule}  ({printable(who)})"
    lines = result.lines.get(place.file, ())
    if 0 < place.line <= len(lines):
        source = printable(lines[place.line - 1].rstrip(), 160)
        number = f"{place.line:>6} | "
        yield f"{_DIM}{number}{source}{_END}" if color else number + source
    yield f"      {finding.message}"
    if finding.remedy:
        yield f"      → {finding.remedy}"
    if is_link(page):
        yield f"      {printable(page)}"


def _gaps(gaps: tuple[NotEvaluated, ...]) -> Iterator[str]:
    """One line for each missing fact of a workload, however many rules wait for it."""
    grouped: dict[tuple[str, str, str, str, str, str], set[str]] = {}
    for gap in gaps:
        place = str(gap.position) if gap.position else ""
        key = (place, gap.workload, gap.container, gap.fact, gap.reason, gap.remedy)
        grouped.setdefault(key, set()).add(gap.rule)
    for (place, workload, container, fact, reason, remedy), rules in grouped.items():
        count = f"{len(rules)} rules" if len(rules) > 1 else next(iter(rules))
        who = f"{workload} · {container}" if container else workload
        yield f"{printable(place)}: not evaluated: {count} ({printable(who)}), {printable(fact)} is unknown: {reason}"
        yield f"      → {remedy}"
    if grouped:
        yield ""


def summary(result: LintResult) -> str:
    """The counts of a run in one line."""
    counts = dict.fromkeys(("error", "warning", "info"), 0)
    for finding in result.findings:
        counts[finding.severity] += 1
    findings = f"{counts['error']} error{_s(counts['error'])}, {counts['warning']} warning{_s(counts['warning'])}, {counts['info']} info"
    parts = [findings]
    if result.suppressed:
        parts.append(f"{len(result.suppressed)} suppressed")
    if result.baselined:
        parts.append(f"{len(result.baselined)} in the baseline")
    if result.not_evaluated:
        facts = len({(gap.workload, gap.container, gap.fact, gap.position) for gap in result.not_evaluated})
        parts.append(f"{len(result.not_evaluated)} not evaluated for want of {facts} fact{_s(facts)}")
    if result.problems:
        parts.append(f"{len(result.problems)} could not be checked")
    seen = (("file", result.files), ("workload", result.workloads), ("engine", result.engines))
    where = ", ".join(f"{count} {name}{_s(count)}" for name, count in seen)
    return f"{'; '.join(parts)} ({where})"


def _s(count: int) -> str:
    return "" if count == 1 else "s"
