"""GitLab's Code Quality report: the fields of its documentation, and fingerprints that are unique and outlive edits."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from planner.report import gitlab
from planner.report.result import LintResult
from tests.cli import house
from tests.report.conftest import Lint

#: What GitLab's documentation asks of an issue ("Code Quality report format"), as a schema.
SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "minLength": 1},
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}},
                        "additionalProperties": False,
                    },
                },
                "additionalProperties": False,
            },
        },
        "additionalProperties": False,
    },
}


def issues_of(result: LintResult) -> list[dict[str, Any]]:
    """The issues of a report that is as the documentation says, each with a fingerprint of its own."""
    issues: list[dict[str, Any]] = json.loads(gitlab.render(result))
    jsonschema.Draft202012Validator(SCHEMA).validate(issues)
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    return issues


def test_all_examples_are_valid(everything: LintResult) -> None:
    assert len(issues_of(everything)) == len(everything.findings) + len(everything.problems)


def test_an_issue_has_what_the_finding_says(house_lint: Lint) -> None:
    result = house_lint({"./deploy/a.yaml": house.manifest("error"), "b.yaml": house.BROKEN})
    problem, issue = sorted(issues_of(result), key=lambda entry: entry["severity"])
    assert problem["check_name"] == "cannot-check"
    assert problem["severity"] == "blocker"
    assert problem["location"]["path"] == "b.yaml"
    assert issue == {
        "description": "The workload is called error. → Call it otherwise.",
        "check_name": "house-error",
        "fingerprint": issue["fingerprint"],
        "severity": "critical",
        "location": {"path": "deploy/a.yaml", "lines": {"begin": house.NAME_LINE}},
    }


@pytest.mark.parametrize(("name", "severity"), [("error", "critical"), ("warning", "major"), ("info", "info")])
def test_severities(house_lint: Lint, name: str, severity: str) -> None:
    assert [issue["severity"] for issue in issues_of(house_lint({"a.yaml": house.manifest(name)}))] == [severity]


def test_fingerprints_outlive_edits_elsewhere(house_lint: Lint) -> None:
    text = house.manifest("error")
    before = house_lint({"a.yaml": text})
    after = house_lint({"a.yaml": "# a comment\n" + house.manifest("info") + "---\n" + text.replace("8192", "4096")})
    assert issues_of(before)[0]["fingerprint"] in {issue["fingerprint"] for issue in issues_of(after)}


def test_an_empty_report_is_a_list(house_lint: Lint) -> None:
    assert gitlab.render(house_lint({"a.yaml": house.manifest("clean")})) == "[]\n"
