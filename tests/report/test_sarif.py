"""SARIF as code scanning reads it: valid, complete, and with fingerprints that outlive edits."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest

from planner.report import sarif
from planner.report.result import LintResult
from tests.cli import house
from tests.report.conftest import Lint

SUBSET = json.loads((Path(__file__).parent / "sarif-subset.schema.json").read_text())
#: The schema file of the standard itself, where somebody has it.
OFFICIAL = os.environ.get("PLANNER_SARIF_SCHEMA", "")


def log_of(result: LintResult) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(sarif.render(result))
    jsonschema.Draft202012Validator(SUBSET).validate(log)
    return log


def results(result: LintResult) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = log_of(result)["runs"][0]["results"]
    return found


def fingerprints(result: LintResult) -> list[str]:
    return [entry["partialFingerprints"]["planner/v1"] for entry in results(result)]


def test_the_subset_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SUBSET)


def test_all_examples_are_valid_by_the_strict_subset(everything: LintResult) -> None:
    run = log_of(everything)["runs"][0]
    assert len(run["results"]) == len(everything.findings) + len(everything.suppressed)


def test_all_examples_parse_as_a_sarif_model(everything: LintResult) -> None:
    model = pytest.importorskip("sarif_pydantic")
    log = model.Sarif.model_validate_json(sarif.render(everything))
    assert log.version == "2.1.0"
    assert len(log.runs[0].results) == len(everything.findings) + len(everything.suppressed)
    assert log.runs[0].results[0].locations[0].physical_location.region.start_line >= 1


@pytest.mark.skipif(not OFFICIAL, reason="PLANNER_SARIF_SCHEMA does not name the standard's schema file")
def test_all_examples_are_valid_by_the_schema_of_the_standard(everything: LintResult) -> None:
    schema = json.loads(Path(OFFICIAL).read_text())
    validator = jsonschema.validators.validator_for(schema)
    errors = list(validator(schema).iter_errors(json.loads(sarif.render(everything))))
    assert not errors, [f"{list(error.absolute_path)}: {error.message[:200]}" for error in errors[:5]]


def test_every_result_names_a_rule_that_is_described(everything: LintResult) -> None:
    run = log_of(everything)["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.id for rule in everything.rules]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for entry in run["results"]:
        assert rules[entry["ruleIndex"]]["id"] == entry["ruleId"]


def test_places_and_levels_are_those_of_the_findings(everything: LintResult) -> None:
    found = {
        (
            entry["ruleId"],
            entry["level"],
            unquote(entry["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]),
            entry["locations"][0]["physicalLocation"]["region"]["startLine"],
            entry["locations"][0]["physicalLocation"]["region"]["startColumn"],
        )
        for entry in results(everything)
        if "suppressions" not in entry
    }
    level = {"error": "error", "warning": "warning", "info": "note"}
    assert found == {
        (f.rule, level[f.severity], f.position.file, f.position.line, f.position.column) for f in everything.findings
    }


def test_suppressed_findings_stay_results_with_their_reason(everything: LintResult) -> None:
    suppressed = [entry for entry in results(everything) if "suppressions" in entry]
    assert [entry["ruleId"] for entry in suppressed] == ["image-not-pinned"]
    assert suppressed[0]["suppressions"] == [{"kind": "inSource", "justification": "on purpose"}]


def test_a_suppression_without_a_reason_says_so(house_lint: Lint) -> None:
    text = house.manifest("error").replace("name: vllm", "name: vllm # planner: ignore[house-error]")
    assert results(house_lint({"a.yaml": text}))[0]["suppressions"][0]["justification"] == "no reason given"


@pytest.mark.parametrize(
    ("text", "code"), [(house.manifest("clean"), 0), (house.manifest("error"), 1), (house.BROKEN, 2)]
)
def test_the_invocation_tells_the_exit_code_and_what_failed(house_lint: Lint, text: str, code: int) -> None:
    invocation = log_of(house_lint({"a.yaml": text}))["runs"][0]["invocations"][0]
    assert (invocation["exitCode"], invocation["executionSuccessful"]) == (code, code != 2)
    assert bool(invocation["toolExecutionNotifications"]) == (code == 2)


def test_fingerprints_outlive_lines_that_are_added_above(house_lint: Lint) -> None:
    text = house.manifest("error") + "---\n" + house.manifest("warning")
    moved = "# a comment\n\n" + text.replace("  replicas: 1\n", "").replace(
        "spec:\n  sel", "spec:\n  replicas: 9\n  sel"
    )
    before, after = house_lint({"a.yaml": text}), house_lint({"a.yaml": moved})
    assert before.findings[0].position.line != after.findings[0].position.line
    assert fingerprints(before) == fingerprints(after)
    assert len(set(fingerprints(before))) == 2


def test_fingerprints_outlive_other_numbers_in_the_message(house_lint: Lint) -> None:
    text = house.manifest("error")
    assert fingerprints(house_lint({"a.yaml": text})) == fingerprints(
        house_lint({"a.yaml": text.replace("8192", "4096").replace("0.11.0", "0.10.0")})
    )


def test_two_equal_findings_in_one_file_stay_two(house_lint: Lint) -> None:
    result = house_lint({"a.yaml": house.manifest("error") + "---\n" + house.manifest("error")})
    found = results(result)
    assert len(found) == 2
    assert found[0]["message"] == found[1]["message"]
    assert len(set(fingerprints(result))) == 2


def test_fingerprints_do_not_depend_on_other_files(house_lint: Lint) -> None:
    """Overlays repeat an object by name: repairing it in one of them must not touch the alerts of the others."""
    both = house_lint({"base.yaml": house.manifest("error"), "prod.yaml": house.manifest("error")})
    one = house_lint({"prod.yaml": house.manifest("error")})
    assert len(set(fingerprints(both))) == 2
    assert fingerprints(both)[1:] == fingerprints(one)


def test_a_suppression_does_not_change_the_fingerprints_of_its_neighbours(house_lint: Lint) -> None:
    first = house.manifest("error")
    quiet = first.replace("name: vllm", "name: vllm  # planner: ignore[house-error] known")
    before = house_lint({"a.yaml": first + "---\n" + first})
    after = house_lint({"a.yaml": quiet + "---\n" + first})
    assert fingerprints(before) == fingerprints(after)
    assert ["suppressions" in entry for entry in results(after)] == [True, False]


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("deploy/a.yaml", "deploy/a.yaml"),
        ("./deploy//a.yaml", "deploy/a.yaml"),
        ("../a.yaml", "../a.yaml"),
        ("a b.yaml", "a%20b.yaml"),
        ("a:b,c%d.yaml", "a%3Ab%2Cc%25d.yaml"),
        ("#a?b&c.yaml", "%23a%3Fb%26c.yaml"),
        ("ü.yaml", "%C3%BC.yaml"),
        ("a\\b.yaml", "a%5Cb.yaml"),
        ("a\udce9.yaml", "a%E9.yaml"),
        ('a"<>|.yaml', "a%22%3C%3E%7C.yaml"),
        ("a]]>.yaml", "a%5D%5D%3E.yaml"),
        ("<stdin>", "%3Cstdin%3E"),
    ],
)
def test_uris_are_relative_and_percent_encoded(house_lint: Lint, file: str, uri: str) -> None:
    entry = results(house_lint({file: house.manifest("error")}))[0]
    assert entry["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_absolute_paths_are_relative_where_they_can_be(
    house_lint: Lint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "repo"
    below.mkdir()
    monkeypatch.chdir(below)
    for file, uri in ((below / "a b.yaml", "a%20b.yaml"), (tmp_path / "a b.yaml", f"file://{tmp_path}/a%20b.yaml")):
        entry = results(house_lint({str(file): house.manifest("error")}))[0]
        assert entry["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri
