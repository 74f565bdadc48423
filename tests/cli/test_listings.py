"""``planner rules``, ``planner catalog`` and the help: what is built in, as people and programs read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner import __version__
from planner.cli import COMMANDS
from planner.lint.rule import Rule, built_in_rules, examples
from tests.cli import house
from tests.cli.conftest import Run

RULES = built_in_rules()


def test_rules_lists_every_rule_with_its_severities(run: Run) -> None:
    lines = run("rules").stdout.splitlines()
    for rule in RULES:
        letters = "/".join(severity[0].upper() for severity in rule.severities)
        assert any(line.split()[:2] == [rule.id, letters] and line.endswith(rule.title) for line in lines), rule.id
    assert f"{len(RULES)} rules." in lines[-1]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_rules_shows_one_with_reason_fix_and_examples(run: Run, rule: Rule) -> None:
    page = run("rules", rule.id).stdout
    for text in (rule.title, rule.message, rule.remedy, " ".join(rule.why.split()), f"ignore[{rule.id}]"):
        assert text in page
    assert page.count("Example ") == sum(key in e for e in examples(rule) for key in ("violates", "fixed", "passes"))


def test_rules_as_json(run: Run) -> None:
    listed = json.loads(run("rules", "--format", "json").stdout)
    assert [entry["id"] for entry in listed["rules"]] == [rule.id for rule in RULES]
    one = json.loads(run("rules", RULES[0].id, "--format", "json").stdout)["rules"]
    assert one[0]["examples"] == examples(RULES[0])


def test_rules_hints_at_the_nearest_name(run: Run) -> None:
    result = run("rules", "weights-do-not-fitt")
    assert result.exit_code == 2
    assert "did you mean weights-do-not-fit?" in result.stderr


def test_own_rules_are_listed_and_shown(run: Run, folder: Path) -> None:
    assert "house-error" in run("rules", "--rules", "../house").stdout
    assert "Call it otherwise." in run("rules", "house-error", "--rules", "../house").stdout
    (folder / "own").mkdir()
    (folder / "own" / "broken.yaml").write_text(house.rule("x", violated="nowhere == 1"))
    result = run("rules", "--rules", "own")
    assert result.exit_code == 2
    assert "own/broken.yaml:6: " in result.stderr


def test_catalog_lists_and_filters(run: Run) -> None:
    models = json.loads(run("catalog", "models", "--format", "json").stdout)["models"]
    assert len(models) >= 120
    some = json.loads(run("catalog", "models", "qwen3-8b", "--format", "json").stdout)["models"]
    assert {"Qwen/Qwen3-8B"} <= {model["id"] for model in some} < {model["id"] for model in models}
    accelerators = json.loads(run("catalog", "accelerators", "--format", "json").stdout)["accelerators"]
    assert len(accelerators) >= 45
    text = run("catalog", "accelerators", "l40s").stdout
    assert "L40S" in text
    assert text.rstrip().endswith("accelerators")


def test_help_and_version(run: Run) -> None:
    assert run("--version").stdout.strip().endswith(__version__)
    for arguments in (("-h",), ("--help",), *((command, "--help") for command in COMMANDS)):
        result = run(*arguments)
        assert result.exit_code == 0
        assert "Usage: " in result.stdout
    for command in COMMANDS:
        assert command in run("--help").stdout
