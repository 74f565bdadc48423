"""The text of findings: fields, functions, and that nothing in a value can break a line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.lint.message import fields, fill, look_up, printable
from planner.lint.rule import built_in_rules

FACTS: dict[str, Any] = {
    "engine": {"n": 1234567, "f": 1.25, "whole": 2.0, "s": "text", "yes": True, "list": ["a", "b"], "none": None},
    "model": {"bytes": 17179869184, "share": 0.925, "x-y": {"z": 1}},
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("plain", "plain"),
        ("{engine.n}", "1,234,567"),
        ("{engine.f} {engine.whole} {engine.s} {engine.yes}", "1.25 2 text True"),
        ("{gib(model.bytes)} {bytes(model.bytes)}", "16.00 GiB 16 GiB"),
        ("{percent(model.share)} {number(engine.n)} {join(engine.list)}", "92% 1,234,567 a, b"),
        ("{model.x-y.z}", "1"),
        ("{engine.missing} {nowhere.at.all} {engine.none}", "unknown unknown unknown"),
        ("{gib(engine.s)} {nofunction(engine.n)}", "text 1234567"),
        ("a {b c} {} {1}", "a {b c} {} {1}"),
        ("${engine.n}", "$1,234,567"),
    ],
)
def test_fill(template: str, expected: str) -> None:
    assert fill(template, FACTS) == expected


def test_values_are_not_filled_in_again() -> None:
    assert fill("{engine.s}", {"engine": {"s": "{engine.secret}", "secret": "x"}}) == "{engine.secret}"


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_a_filled_message_is_one_printable_line(value: str) -> None:
    message = fill("a {engine.s} {join(engine.l)} {gib(engine.s)} b", {"engine": {"s": value, "l": [value]}})
    assert message.isprintable()
    assert len(message) < 2000


@settings(max_examples=50, deadline=None)
@given(st.text(), st.integers(1, 50))
def test_printable_keeps_what_is_printable_and_cuts(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit
    if text.isprintable() and len(text) <= limit:
        assert shown == text


@pytest.mark.parametrize("path", ["engine", "engine.s.x", "", ".", "engine..n", "engine.list.0"])
def test_look_up_never_raises(path: str) -> None:
    found = look_up(FACTS, path)
    assert found is None or found == FACTS["engine"]


def test_the_fields_of_the_built_in_rules_name_variables() -> None:
    from planner.lint.evaluate import VARIABLES

    for rule in built_in_rules():
        for template in (rule.message, rule.remedy, *(case.message for case in rule.cases)):
            assert {path.partition(".")[0] for path in fields(template)} <= set(VARIABLES), rule.id
