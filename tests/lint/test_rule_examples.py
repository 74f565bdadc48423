"""Every rule's examples are its tests: what violates it is found at the marked line, what does not is evaluated and passes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from planner.data import data_folder
from planner.lint.rule import Rule, built_in_rules, examples
from planner.report.result import LintResult

RULES = {rule.id: rule for rule in built_in_rules()}


def _examples(*keys: str) -> Iterator[Any]:
    for rule in RULES.values():
        for number, example in enumerate(examples(rule), 1):
            for key in keys:
                if key in example:
                    yield pytest.param(rule, example, key, id=f"{rule.id}-{number}-{key}")


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_file_is_valid_and_stands_where_its_id_and_category_say(rule: Rule) -> None:
    schema = json.loads((data_folder("schemas") / "rule.schema.json").read_text())
    jsonschema.validate(yaml.safe_load(Path(rule.path).read_text()), schema)
    assert Path(rule.path).name == f"{rule.id}.yaml"
    assert Path(rule.path).parent.name == rule.category


@pytest.mark.parametrize(("rule", "example", "key"), list(_examples("violates")))
def test_a_violation_is_found_at_the_marked_line(
    rule: Rule, example: dict[str, str], key: str, lint_text: Callable[..., LintResult]
) -> None:
    manifest = example[key]
    result = lint_text(manifest)
    assert not result.problems
    marked = [number for number, line in enumerate(manifest.splitlines(), 1) if line.rstrip().endswith("# here")]
    assert len(marked) == 1, "mark the line that the finding points at with '# here'"
    found = [finding for finding in result.findings if finding.rule == rule.id]
    assert [finding.position.line for finding in found] == marked, [
        f"{f.rule}:{f.position.line}" for f in result.findings
    ]
    assert found[0].severity == example.get("severity", rule.severities[0])
    for text in (found[0].message, found[0].remedy):
        assert "unknown" not in text
        assert not re.search(r"(?<!\$)\{", text), "a field that was not filled in"


@pytest.mark.parametrize(("rule", "example", "key"), list(_examples("fixed", "passes")))
def test_what_does_not_violate_is_evaluated_and_passes(
    rule: Rule, example: dict[str, str], key: str, lint_text: Callable[..., LintResult]
) -> None:
    result = lint_text(example[key])
    assert not result.problems
    assert rule.id not in {finding.rule for finding in result.findings}
    assert rule.id not in {gap.rule for gap in result.not_evaluated}
    if key == "fixed":
        assert not [f"{f.rule}: {f.message}" for f in result.findings if f.severity == "error"]


def test_the_rules_have_the_severities_of_the_contract() -> None:
    """The gravest is the contract's; a rule that hangs on an estimate may also warn, where only one end of it fails."""
    contract = json.loads((Path(__file__).parent.parent / "golden" / "rule-severities.json").read_text())
    letters = {rule.id: [severity[0].upper() for severity in rule.severities] for rule in RULES.values()}
    assert {name: found[0] for name, found in letters.items()} == {name: contract[name][0] for name in letters}
    for name, found in letters.items():
        assert set(found) <= {*contract[name].split("/"), "W"}, name
