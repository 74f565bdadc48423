"""Public failure reports as manifests, and what every one of them must show."""

from __future__ import annotations

from typing import NamedTuple

from planner.report.result import LintResult


class Report(NamedTuple):
    """A report: the rule that finds it, the manifest that fails, one that does not, and the severity."""

    rule: str
    fails: str
    works: str
    severity: str = "error"


def assert_found(report: Report, result: LintResult) -> None:
    """The rule finds the manifest that failed, at a place inside it."""
    assert not result.problems, result.problems
    found = {finding.rule: finding.severity for finding in result.findings}
    assert found.get(report.rule) == report.severity, found
    place = next(finding.position for finding in result.findings if finding.rule == report.rule)
    assert place.line > 1, place


def assert_not_found(report: Report, result: LintResult) -> None:
    """The rule could be evaluated for what repairs the manifest, and is silent."""
    assert not result.problems, result.problems
    assert report.rule not in {finding.rule for finding in result.findings}, [f.message for f in result.findings]
    assert report.rule not in {gap.rule for gap in result.not_evaluated}, result.not_evaluated
