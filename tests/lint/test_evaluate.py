"""Rules over facts: the order of cases, what is missing, lists, ranks, parameters, causes and effects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.lint.evaluate import Outcome, Subject, evaluate
from planner.lint.rule import BrokenRule, Case, Rule
from planner.provenance import Position, Unknown

PLACE = Position("a.yaml", 3, 5)


def rule(name: str = "r", violated: str = "true", **fields: Any) -> Rule:
    given: dict[str, Any] = {
        "id": name, "title": "t", "category": "c", "scope": "engine", "cases": (Case("error", violated),),
        "message": "m", "why": "w", "remedy": "", "at": (), "path": Path("r.yaml"),
    }  # fmt: skip
    return Rule(**{**given, **fields})


def subject(facts: dict[str, Any] | None = None, **fields: Any) -> Subject:
    given: dict[str, Any] = {
        "workload": "Pod/x", "container": "c", "facts": facts or {}, "positions": {}, "unknown": (), "default_position": PLACE,
    }  # fmt: skip
    return Subject(**{**given, **fields})


def ids(outcome: Outcome) -> list[str]:
    return [finding.rule for finding in outcome.findings]


def test_the_first_case_that_holds_speaks() -> None:
    cases = (
        Case("error", "engine.a > 10", "more than ten"),
        Case("warning", "engine.a > 5", "more than five: {engine.a}", "less"),
    )
    for value, expected in ((11, [("error", "more than ten")]), (6, [("warning", "more than five: 6")]), (1, [])):
        outcome = evaluate([rule(cases=cases)], [subject({"engine": {"a": value}})])
        assert [(finding.severity, finding.message) for finding in outcome.findings] == expected


def test_a_missing_fact_is_not_evaluated_and_names_why() -> None:
    gap = Unknown("engine.a", "because of b", "write b")
    outcome = evaluate([rule(violated="engine.a > 1")], [subject({"engine": {}}, unknown=(gap,))])
    assert outcome.findings == ()
    (found,) = outcome.not_evaluated
    assert (found.rule, found.fact, found.reason, found.remedy) == ("r", "engine.a", "because of b", "write b")
    assert found.position == PLACE


def test_a_missing_fact_that_nothing_explains_is_named_itself() -> None:
    (found,) = evaluate([rule(violated="engine.a > 1")], [subject()]).not_evaluated
    assert found.fact == "a"
    assert "--explain" in found.remedy


def test_needs_and_when() -> None:
    gap = Unknown("model.id", "no model", "name it")
    facts = {"engine": {"a": 1}}
    needing = rule(needs=("model",))
    assert [g.fact for g in evaluate([needing], [subject(facts, unknown=(gap,))]).not_evaluated] == ["model.id"]
    assert ids(evaluate([needing], [subject(facts)])) == ["r"]
    # Where the rule does not apply, nothing is missing for it.
    elsewhere = rule(needs=("model",), when="engine.a == 2")
    assert evaluate([elsewhere], [subject(facts, unknown=(gap,))]) == Outcome((), ())


def test_for_each_speaks_for_every_item_at_its_place() -> None:
    places = {"engine.list[0]": Position("a.yaml", 7, 1), "engine.list[2]": Position("a.yaml", 9, 1)}
    facts = {"engine": {"list": [{"n": 1}, {"n": 0}, {"n": 2}]}}
    each = rule(violated="item.n > 0", for_each="engine.list", message="{item.n}")
    outcome = evaluate([each], [subject(facts, positions=places)])
    assert [(finding.position.line, finding.message) for finding in outcome.findings] == [(7, "1"), (9, "2")]


def test_an_empty_list_passes_and_a_missing_one_is_not_evaluated() -> None:
    each = rule(for_each="engine.list")
    assert evaluate([each], [subject({"engine": {"list": []}})]) == Outcome((), ())
    gap = Unknown("engine.list", "hidden", "show it")
    outcome = evaluate([each], [subject({"engine": {}}, unknown=(gap,))])
    assert [(found.fact, found.reason) for found in outcome.not_evaluated] == [("engine.list", "hidden")]


def test_ranks_are_judged_one_by_one() -> None:
    facts = {"budget": {"ranks": [{"rank": 0, "x": 1}, {"rank": 1, "x": 5}]}}
    outcome = evaluate([rule(violated="rank.x > 2", scope="rank", message="{rank.rank}")], [subject(facts)])
    assert [finding.message for finding in outcome.findings] == ["1"]
    assert evaluate([rule(violated="rank.x > 2", scope="rank")], [subject({"budget": {}})]).not_evaluated


@pytest.mark.parametrize("value", [3, "x", [1, "a"], {"deep": [{"a": 1}]}, None, True, 2.5])
def test_parameters_of_any_kind(value: Any) -> None:
    limited = rule(violated="engine.a == parameters.limit", parameters=(("limit", value),))
    facts = {"engine": {"a": value}}
    assert ids(evaluate([limited], [subject(facts)])) == ["r"]
    assert ids(evaluate([limited], [subject(facts)], {"r": {"limit": "another"}})) == []


def test_two_rules_with_parameters_do_not_share_them() -> None:
    rules = [rule(name, "parameters.x == 1", parameters=(("x", value),)) for name, value in (("one", 1), ("two", 2))]
    assert ids(evaluate(rules, [subject()])) == ["one"]


def test_a_cause_speaks_for_its_effects_whatever_the_order() -> None:
    cause, effect = rule("z-cause"), rule("a-effect", silenced_by=("z-cause",))
    for rules in ([cause, effect], [effect, cause]):
        outcome = evaluate(rules, [subject()])
        assert ids(outcome) == ["z-cause"]
        assert outcome.silenced == {("a-effect", "a.yaml")}
    assert ids(evaluate([effect], [subject()])) == ["a-effect"]


def test_a_mild_cause_does_not_silence_a_grave_effect() -> None:
    cause = rule("cause", cases=(Case("warning", "true"),))
    assert sorted(ids(evaluate([cause, rule("effect", silenced_by=("cause",))], [subject()]))) == ["cause", "effect"]


def test_causes_that_name_each_other_end() -> None:
    rules = [rule("a", silenced_by=("b",)), rule("b", silenced_by=("a",)), rule("c", silenced_by=("c",))]
    assert ids(evaluate(rules, [subject()]))


def test_findings_come_in_file_order_and_once() -> None:
    subjects = [
        subject(default_position=Position(file, line, 1)) for file, line in (("b", 1), ("a", 9), ("a", 2), ("a", 2))
    ]
    outcome = evaluate([rule()], subjects)
    assert [finding.position[:2] for finding in outcome.findings] == [("a", 2), ("a", 9), ("b", 1)]


def test_equal_gaps_of_two_files_are_two() -> None:
    subjects = [subject(default_position=Position(file, 1, 1)) for file in ("a", "b", "b")]
    assert len(evaluate([rule(violated="engine.x > 1")], subjects).not_evaluated) == 2


def test_the_place_is_the_first_that_is_known() -> None:
    at = rule(at=("engine.flags.x", "container.args", "container.name"))
    places = {"container.name": Position("a", 1, 1), "container.args": Position("a", 2, 1)}
    (finding,) = evaluate([at], [subject(positions=places)]).findings
    assert finding.position.line == 2
    assert {anchor.line for anchor in finding.anchors} == {1, 2}


@pytest.mark.parametrize(
    "violated", ["engine.a + 1 > 2", "engine.a", "nowhere.x == 1", "engine.a >", "engine.a.b == 1"]
)
def test_a_wrong_expression_is_never_a_pass(violated: str) -> None:
    with pytest.raises(BrokenRule, match=r"r\.yaml:1: rule r: "):
        evaluate([rule(violated=violated)], [subject({"engine": {"a": "text"}})])


@pytest.mark.parametrize(
    "value", [2**63, -(2**70), 10**400, float("nan"), float("inf"), "\ud800", "\0", {"\udfff": "\ud800"}, [[[]]]]
)
def test_facts_of_any_kind_can_be_bound(value: Any) -> None:
    """A manifest may state any number or text; it must not break the runtime, nor a rule that does not read it."""
    facts = {"engine": {"flags": {"x": value, "a": 1}}}
    assert ids(evaluate([rule(violated="engine.flags.a == 1")], [subject(facts)])) == ["r"]
    deep: Any = value
    for _ in range(3000):
        deep = [deep]
    assert ids(evaluate([rule(violated="engine.flags.a == 1")], [subject({"engine": {"flags": {"x": deep, "a": 1}}})]))


@pytest.mark.parametrize(("value", "larger"), [(2**63, True), (2**80, True), (-(2**80), False)])
def test_integers_beyond_64_bits_still_compare(value: int, larger: bool) -> None:
    assert bool(ids(evaluate([rule(violated="engine.a > 100")], [subject({"engine": {"a": value}})]))) == larger
