"""``--format json`` of ``planner lint``: the contract ``planner/v1``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.lint.finding import Finding
    from planner.report.result import LintResult

SCHEMA = "planner/v1"


def render(result: LintResult) -> str:
    """The result as one JSON object (``schemas/lint.schema.json``)."""
    pages = result.pages()
    document = {
        "schema": SCHEMA,
        "findings": [_finding(finding, pages) for finding in result.findings],
        "suppressed": [
            {**_finding(finding, pages), "reason": suppression.reason, "by": str(suppression.position)}
            for finding, suppression in result.suppressed
        ],
        "unused_suppressions": [
            {
                "file": unused.position.file,
                "line": unused.position.line,
                "column": unused.position.column,
                "rules": list(unused.rules),
                "message": unused.message,
            }
            for unused in result.unused_suppressions
        ],
        "baselined": [_finding(finding, pages) for finding in result.baselined],
        "stale_baseline": [
            {
                "file": stale.position.file,
                "line": stale.position.line,
                "rule": stale.rule,
                "workload": stale.workload,
                "container": stale.container,
                "message": stale.message,
            }
            for stale in result.stale
        ],
        "not_evaluated": [
            {
                "rule": gap.rule,
                "workload": gap.workload,
                "container": gap.container,
                "fact": gap.fact,
                "reason": gap.reason,
                "remedy": gap.remedy,
                "file": gap.position.file if gap.position else None,
                "line": gap.position.line if gap.position else None,
            }
            for gap in result.not_evaluated
        ],
        "files": result.files,
        "workloads": result.workloads,
        "engines": result.engines,
        "unknown_kinds": dict(sorted(result.unknown_kinds.items())),
        "errors": [
            {
                "file": problem.position.file,
                "line": problem.position.line,
                "column": problem.position.column,
                "message": problem.message,
            }
            for problem in result.problems
        ],
        "notices": [
            {"file": notice.position.file, "line": notice.position.line, "message": notice.message}
            for notice in result.notices
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


def _finding(finding: Finding, pages: dict[str, str]) -> dict[str, Any]:
    place = finding.position
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "message": finding.message,
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "end_line": place.end_line or place.line,
        "workload": finding.workload,
        "container": finding.container,
        "remedy": finding.remedy,
        "url": pages.get(finding.rule, ""),
        "fix": finding.fix,
        **({"rendered_by": list(finding.rendered_by)} if finding.rendered_by else {}),
    }
