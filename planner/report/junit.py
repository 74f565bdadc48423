"""JUnit XML, as CI systems show test results: a suite a file, a case a finding.

A finding at or above ``--fail-on`` is a failure, a milder one a passed case that says so; what could not be read is an
error, what could not be evaluated is skipped, and a file without any of them is one passed case.
Source of the elements and attributes: the schema of Jenkins' xUnit plugin (junit-10.xsd), which GitLab, Azure and others
read as well.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from planner.lint.finding import SEVERITIES
from planner.lint.message import printable

if TYPE_CHECKING:
    from planner.report.result import LintResult


def render(result: LintResult) -> str:
    """The result as an XML document. Everything that is not a printable character, and so all that XML cannot hold, has
    been replaced."""
    threshold = SEVERITIES.index(result.fail_on)
    cases: list[tuple[str, str, str]] = []  # (file, kind, element)
    for problem in result.problems:
        place = problem.position
        text = f"{place}: {problem.message}"
        cases.append(
            (place.file, "error", _case(place.file, f"readable at line {place.line}", "error", "cannot check", text))
        )
    for finding in result.findings:
        place = finding.position
        name = f"{finding.rule} at line {place.line} ({finding.workload})"
        text = f"{place}: {finding.text}"
        grave = SEVERITIES.index(finding.severity) >= threshold
        kind = "failure" if grave else "system-out"
        cases.append((place.file, kind, _case(place.file, name, kind, finding.severity, text, finding.message)))
    for place, name, message in result.strictly_wrong:
        text = f"{place}: {message}"
        case = _case(place.file, f"{name} at line {place.line}", "failure", "strict", text, message)
        cases.append((place.file, "failure", case))
    for gap in result.not_evaluated:
        file = gap.position.file if gap.position else ""
        text = f"{gap.fact} is unknown: {gap.reason}. {gap.remedy}"
        cases.append((file, "skipped", _case(file, f"{gap.rule} ({gap.workload})", "skipped", "", "", text)))
    spoken = {file for file, _, _ in cases}
    cases += [(file, "", _case(file, "no findings")) for file in result.lines if file not in spoken]
    cases.sort(key=lambda case: case[0])
    suites = []
    for file, group in groupby(cases, key=lambda case: case[0]):
        suites.append(_suite("testsuite", file or "planner", list(group)))
    counts = _counts(cases, with_skipped=False)
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="planner"{counts}>\n'
    return head + "".join(suites) + "</testsuites>\n"


def _suite(element: str, name: str, cases: list[tuple[str, str, str]]) -> str:
    inner = "".join(case for _, _, case in cases)
    return f" <{element} name={_attribute(name)}{_counts(cases)}>\n{inner} </{element}>\n"


def _counts(cases: list[tuple[str, str, str]], with_skipped: bool = True) -> str:
    kinds = [kind for _, kind, _ in cases]
    counts = f' tests="{len(kinds)}" failures="{kinds.count("failure")}" errors="{kinds.count("error")}"'
    return f'{counts} skipped="{kinds.count("skipped")}"' if with_skipped else counts


def _case(file: str, name: str, kind: str = "", type_: str = "", text: str = "", message: str = "") -> str:
    head = f"  <testcase classname={_attribute(file or 'planner')} name={_attribute(name)}"
    if not kind:
        return f"{head}/>\n"
    if kind == "system-out":
        return f"{head}>\n   <system-out>{_text(f'{type_}: {text}')}</system-out>\n  </testcase>\n"
    attributes = f" message={_attribute(message or text)}" + (f" type={_attribute(type_)}" if type_ else "")
    body = f">{_text(text)}</{kind}>" if text else "/>"
    return f"{head}>\n   <{kind}{attributes}{body}\n  </testcase>\n"


def _attribute(text: str) -> str:
    return _harmless(quoteattr(printable(text, 4000)))


def _text(text: str) -> str:
    return _harmless(escape(printable(text, 4000)))


def _harmless(xml: str) -> str:
    """The same text for a parser, and no command (``##[error]``, ``##vso[…]``) for a service that reads the log."""
    return xml.replace("##", "#&#35;")
