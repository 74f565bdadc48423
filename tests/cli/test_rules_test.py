"""``planner rules --test``: the examples of one's own rules are their tests."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from planner.lint.examples import check_examples
from planner.lint.rule import built_in_rules
from tests.cli import house
from tests.cli.conftest import Run


def write(folder: Path, bad: str, good: str, extra: str = "") -> None:
    (folder / "own").mkdir(exist_ok=True)
    text = house.rule("error") + "examples:\n  - violates: |\n" + indent(bad, " " * 6)
    (folder / "own" / "own.yaml").write_text(text + "    fixed: |\n" + indent(good, " " * 6) + extra)


BAD = house.manifest("error").replace("- name: vllm", "- name: vllm  # here")
GOOD = house.manifest("clean")


def test_right_examples(run: Run, folder: Path) -> None:
    write(folder, BAD, GOOD)
    result = run("rules", "--rules", "own", "--test")
    assert (result.exit_code, result.stdout) == (0, "1 rule, 2 examples, 0 wrong\n")


@pytest.mark.parametrize(
    ("bad", "good", "extra", "says"),
    [
        (GOOD, GOOD, "", "example 1 (violates): nothing is found"),
        (BAD, house.manifest("error"), "", "example 1 (fixed): line 12 violates it: The workload is called error."),
        (BAD.replace("  # here", "").replace("kind: Deployment", "kind: Deployment  # here"), GOOD, "",
         "example 1 (violates): found at line 12, marked is 2"),
        (BAD, GOOD, "    severity: info\n", "example 1 (violates): found as error, expected is info"),
        (house.BROKEN, GOOD, "", "example 1 (violates): line "),
    ],
)  # fmt: skip
def test_wrong_examples_are_told_with_their_place(
    run: Run, folder: Path, bad: str, good: str, extra: str, says: str
) -> None:
    write(folder, bad, good, extra)
    result = run("rules", "--rules", "own", "--test")
    assert result.exit_code == 1
    assert f"own/own.yaml:11: rule house-error, {says}" in result.stdout


def test_a_rule_without_examples_is_wrong(run: Run) -> None:
    result = run("rules", "--rules", "../house", "--test")
    assert result.exit_code == 1
    assert result.stdout.count("it needs an example that violates it") == 3


def test_an_example_that_cannot_be_evaluated_is_wrong(run: Run, folder: Path) -> None:
    write(folder, BAD, GOOD)
    path = folder / "own" / "own.yaml"
    path.write_text(path.read_text().replace("workload.name == 'error'", "workload.no_such_fact == 'error'"))
    assert "nothing is found: no_such_fact is unknown" in run("rules", "--rules", "own", "--test").stdout


def test_it_needs_a_folder_and_rules_that_can_be_read(run: Run, folder: Path) -> None:
    assert run("rules", "--test").exit_code == 2
    (folder / "own").mkdir()
    (folder / "own" / "own.yaml").write_text(house.rule("own", violated="x =="))
    result = run("rules", "--rules", "own", "--test")
    assert result.exit_code == 2
    assert "own/own.yaml:6: rule house-own" in result.stderr


def test_it_agrees_with_the_built_in_rules() -> None:
    for rule in built_in_rules()[::7]:
        count, wrong = check_examples(rule)
        assert count >= 2
        assert wrong == []
