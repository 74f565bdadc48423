"""SARIF 2.1.0, as code scanning services read it.

Source: OASIS SARIF 2.1.0, and GitHub's list of supported properties. Suppressed and known findings are printed as such
(removing them would make alerts come and go), every rule that spoke has an entry, lines and columns count from 1.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from planner import __version__
from planner.lint.identity import fingerprints
from planner.lint.pages import is_link
from planner.lint.rule import whole
from planner.report.location import uri

if TYPE_CHECKING:
    from planner.documents.document import Problem
    from planner.lint.finding import Finding
    from planner.lint.rule import Rule
    from planner.report.result import LintResult

_LEVEL = {"error": "error", "warning": "warning", "info": "note"}


def render(result: LintResult) -> str:
    """The result as a SARIF log with one run."""
    findings: list[tuple[Finding, dict[str, str] | None]] = [(finding, None) for finding in result.findings]
    findings += [
        (finding, {"kind": "inSource", "justification": suppression.reason or "no reason given"})
        for finding, suppression in result.suppressed
    ]
    findings += [(finding, {"kind": "external", "justification": "in the baseline"}) for finding in result.baselined]
    # In file order, whether suppressed or not, so that a suppression does not change the fingerprints of its neighbours.
    findings.sort(key=lambda entry: entry[0].sort_key)
    rules = list(result.rules)
    pages = result.pages()
    index = {rule.id: number for number, rule in enumerate(rules)}
    prints = fingerprints(finding for finding, _ in findings)
    results = [_result(finding, quiet, index, prints[at]) for at, (finding, quiet) in enumerate(findings)]
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "planner",
                "semanticVersion": __version__,
                "rules": [_rule(whole(rule), pages[rule.id]) for rule in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": results,
        "invocations": [
            {
                "executionSuccessful": result.exit_code != 2,
                "exitCode": result.exit_code,
                "toolExecutionNotifications": [_notification(problem) for problem in result.problems],
            }
        ],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=1, ensure_ascii=True) + "\n"


def _location(file: str, line: int, column: int, end_line: int = 0) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": max(1, line), "startColumn": max(1, column)}
    if end_line > line:
        region["endLine"] = end_line
    return {"physicalLocation": {"artifactLocation": {"uri": uri(file)}, "region": region}}


def _rule(rule: Rule, page: str) -> dict[str, Any]:
    from planner.report.rule_pages import section

    entry = {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.remedy, "markdown": "\n".join(section(rule, with_examples=False))},
        "defaultConfiguration": {"level": _LEVEL[rule.severities[0]]},
        "properties": {"tags": [rule.category]},
    }
    if is_link(page):
        entry["helpUri"] = page
    return entry


def _result(finding: Finding, quiet: dict[str, str] | None, index: dict[str, int], fingerprint: str) -> dict[str, Any]:
    place = finding.position
    found: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": index[finding.rule],
        "level": _LEVEL[finding.severity],
        "message": {"text": finding.text},
        "locations": [_location(place.file, place.line, place.column, place.end_line)],
        "partialFingerprints": {"planner/v1": fingerprint},
    }
    if quiet is not None:
        found["suppressions"] = [quiet]
    return found


def _notification(problem: Problem) -> dict[str, Any]:
    place = problem.position
    return {
        "level": "error",
        "message": {"text": problem.message},
        "locations": [_location(place.file, place.line, place.column)],
    }
