"""GitLab's Code Quality report: a list of issues, as its merge requests show them.

Source: GitLab's documentation, "Code Quality report format": description, check_name, fingerprint (unique and stable),
severity, location.path (relative to the repository), location.lines.begin.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from planner.lint.identity import fingerprints
from planner.lint.message import printable
from planner.report.location import relative

if TYPE_CHECKING:
    from planner.report.result import LintResult

#: GitLab knows info, minor, major, critical and blocker. What could not be read at all is the last one.
_SEVERITY = {"error": "critical", "warning": "major", "info": "info"}


def render(result: LintResult) -> str:
    """One issue a finding, and one for each input that could not be checked."""
    others = [(problem.position, "cannot-check", problem.message, "blocker") for problem in result.problems]
    others += [(*wrong, "major") for wrong in result.strictly_wrong]
    issues = []
    for number, (place, name, message, severity) in enumerate(others):
        text = f"{relative(place.file)}\0{name}\0{message}\0{number}"
        fingerprint = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]
        issues.append(_issue(name, message, severity, place.file, place.line, fingerprint))
    for finding, fingerprint in zip(result.findings, fingerprints(result.findings), strict=True):
        message = finding.text
        place = finding.position
        issues.append(_issue(finding.rule, message, _SEVERITY[finding.severity], place.file, place.line, fingerprint))
    return json.dumps(issues, indent=1, ensure_ascii=True) + "\n"


def _issue(name: str, text: str, severity: str, file: str, line: int, fingerprint: str) -> dict[str, Any]:
    return {
        "description": printable(text, 4000),
        "check_name": name,
        "fingerprint": fingerprint,
        "severity": severity,
        "location": {"path": printable(relative(file), 1000), "lines": {"begin": max(1, line)}},
    }
