"""Public failure reports whose cause is stated: which rule covers each, where its manifest is, and whether it is found.

``tests/golden/failures.json`` is the table: for each report the rule and the file with its example (a rule's file, where the
example names it under ``reports``, or a test of ``tests/rules``), or why no rule covers it. The table has no text of the
reports, which are beside the project; without them it is checked against the examples alone.
``python -m tests.corpus.test_failures`` prints the figures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pytest

from planner.documents.read import read_bytes
from planner.lint.rule import built_in_rules, examples
from planner.lint.run import lint, select_rules
from planner.settings import Settings
from tests.conftest import SHARED
from tests.rules import test_failures, test_memory_failures, test_operation_failures

ROOT = Path(__file__).resolve().parents[2]
TABLE: dict[str, dict[str, str]] = json.loads((ROOT / "tests" / "golden" / "failures.json").read_text())
#: The share of the covered reports that must be found.
TARGET = 0.95


class Example(NamedTuple):
    """A manifest that fails as reported and one that does not; ``place`` is the file that holds them."""

    report: str
    rule: str
    place: str
    fails: str
    works: str


@lru_cache(maxsize=1)
def all_examples() -> dict[str, list[Example]]:
    """The examples by report."""
    found: dict[str, list[Example]] = {}
    for example in (*_of_rules(), *_of_tests()):
        found.setdefault(example.report, []).append(example)
    return found


def _of_rules() -> Iterator[Example]:
    for rule in built_in_rules():
        place = Path(rule.path).resolve()
        for example in examples(rule):
            for report in example.get("reports", ()):
                works = example.get("fixed") or example["passes"]
                yield Example(report, rule.id, place.relative_to(ROOT).as_posix(), example["violates"], works)


def _of_tests() -> Iterator[Example]:
    for module in (test_failures, test_memory_failures, test_operation_failures):
        place = Path(str(module.__file__)).resolve().relative_to(ROOT).as_posix()
        for name, report in module.REPORTS.items():
            if " " not in name:  # a variant of a report, or a part of it
                yield Example(name, report.rule, place, report.fails, report.works)


@lru_cache(maxsize=1)
def lint_rules() -> Callable[[str], dict[str, str]]:
    """A function that gives the rules that a manifest violates, with their severities."""
    settings = Settings()
    rules = select_rules(settings)

    def run(text: str) -> dict[str, str]:
        return {f.rule: f.severity for f in lint([read_bytes(text.encode(), "m.yaml")], rules, settings).findings}

    return run


def is_found(report: str) -> bool:
    """Whether the rule of the table finds an example of the report, and no longer once it is repaired."""
    run = lint_rules()
    rule = TABLE[report]["rule"]
    return any(
        rule in run(example.fails) and rule not in run(example.works)
        for example in all_examples()[report]
        if example.rule == rule
    )


def covered() -> list[str]:
    return [name for name, entry in TABLE.items() if "rule" in entry]


def test_the_table_says_where_each_example_is() -> None:
    assert list(TABLE) == sorted(TABLE)
    ids = {rule.id for rule in built_in_rules()}
    for name, entry in TABLE.items():
        assert ("rule" in entry) != ("not covered" in entry), name
        if "rule" in entry:
            assert entry["rule"] in ids, name
            places = {(example.rule, example.place) for example in all_examples().get(name, ())}
            assert (entry["rule"], entry["example"]) in places, (name, places)
        else:
            assert len(entry["not covered"]) > 10, name


def test_what_a_rule_covers_is_found() -> None:
    missed = [name for name in covered() if not is_found(name)]
    assert 1 - len(missed) / len(covered()) >= TARGET, missed


def test_what_repairs_a_report_breaks_nothing_else() -> None:
    """The repaired form of every covered report raises no error, whatever the rule."""
    broken = {}
    for name in covered():
        for example in all_examples()[name]:
            errors = [rule for rule, severity in lint_rules()(example.works).items() if severity == "error"]
            if errors:
                broken[f"{name} ({example.place})"] = errors
    assert not broken


@pytest.mark.skipif(
    not (SHARED / "corpus" / "failures.jsonl").is_file(), reason="the reports are not beside the project"
)
def test_every_stated_report_is_in_the_table() -> None:
    assert stated() <= set(TABLE), sorted(stated() - set(TABLE))


def stated() -> set[str]:
    """The reports whose cause somebody who knows states."""
    lines = (SHARED / "corpus" / "failures.jsonl").read_text().splitlines()
    return {row["id"] for row in map(json.loads, lines) if row["cause_basis"] == "stated"}


if __name__ == "__main__":
    known = stated()
    rows = [name for name in covered() if name in known]
    hit = [name for name in rows if is_found(name)]
    print(
        f"{len(known)} stated reports; {len(rows)} covered by a rule, {len(hit)} of them found ({len(hit) / len(rows):.1%})"
    )
    quiet = [
        name
        for name in hit
        if any(not {"error", "warning"} & set(lint_rules()(example.works).values()) for example in all_examples()[name])
    ]
    print(f"of those found, {len(quiet)} have a repaired form that raises no error and no warning at all")
    print("missed:", ", ".join(sorted(set(rows) - set(hit))) or "none")
    for name, entry in TABLE.items():
        if name in known and "not covered" in entry:
            print(f"  {name}: {entry['not covered']}")
