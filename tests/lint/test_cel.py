"""The CEL runtime gives the same three answers on every Python: a truth value, "not known", or an error of the rule."""

from __future__ import annotations

from typing import Any

import pytest

from planner.lint.cel import NotKnown, RuleError, Runtime

FACTS: dict[str, Any] = {
    "engine": {
        "n": 3, "f": 1.5, "s": "text", "none": None, "list": [1, 2], "yes": True, "map": {"x-y": 1}, "empty": {},
        "items": [{"a": 1}, {"a": 2}],
    }
}  # fmt: skip


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return Runtime(("engine", "item"))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("engine.n > 2", True),
        ("engine.n > 2.5", True),
        ("engine.f < 2", True),
        ("engine.n == 3.0", True),
        ("double(engine.n) * 1.5 > 4.0", True),
        ("engine.n % 2 == 1 && engine.n in [1, 3]", True),
        ("has(engine.n) && has(engine.map)", True),
        ("has(engine.zz)", False),
        ("has(engine.zz) && engine.zz > 1", False),
        ("!has(engine.zz) || engine.zz > 1", True),
        ("engine.zz > 1 || engine.yes", True),
        ("engine.zz > 1 && !engine.yes", False),
        ("engine.s.startsWith('te') && engine.s.contains('x') && engine.s.endsWith('t')", True),
        ("engine.s.matches('^[a-z]+$')", True),
        ("engine.s == 'text' ? engine.n == 3 : engine.zz", True),
        ("engine.n == 'x'", False),
        ("engine.n != 'x'", True),
        ("engine.none == null", True),
        ("engine.none == 1", False),
        ("engine.list == [1, 2] && size(engine.list) == 2 && engine.list[1] == 2", True),
        ("engine.list.exists(x, x == 2) && engine.list.all(x, x > 0)", True),
        ("engine.items.exists(i, i.a == 2)", True),
        ("engine.items.filter(i, i.a > 1).map(i, i.a) == [2]", True),
        ("engine.map['x-y'] == 1 && 'x-y' in engine.map", True),
        ("size(engine.empty) == 0", True),
        ("string(engine.n) == '3'", True),
    ],
)
def test_values(runtime: Runtime, expression: str, expected: bool) -> None:
    assert runtime.evaluate(expression, runtime.bind(FACTS)) is expected


@pytest.mark.parametrize(
    ("expression", "key"),
    [
        ("engine.zz > 1", "zz"),
        ("engine.zz.deep == 1", "zz"),
        ("engine.empty.a == 1", "a"),
        ("engine.yes && engine.zz", "zz"),
        ("item.x == 1", "x"),
        ("engine.map['zz'] == 1", "zz"),
        ("engine.items.exists(i, i.b == 2)", "b"),
        ("engine.items.all(i, i.b == 2)", "b"),
        ("engine.zz > 1 || engine.zz > 2", "zz"),
        ("has(engine.zz.deep)", "zz"),
    ],
)
def test_a_missing_key_is_not_known(runtime: Runtime, expression: str, key: str) -> None:
    with pytest.raises(NotKnown, match=f"^{key}$"):
        runtime.evaluate(expression, runtime.bind(FACTS))


@pytest.mark.parametrize(
    "expression",
    [
        "", "engine.n >", "engine.n > > 2", "(engine.n", "enginee.n > 1", "engine.n.foo()", "foo(engine.n)",
        "engine.list.exists(x, y == 2)", "engine.list.exists()", "unknown",
    ],
)  # fmt: skip
def test_what_does_not_compile(runtime: Runtime, expression: str) -> None:
    bound = runtime.bind(FACTS)
    with pytest.raises(RuleError):
        runtime.evaluate(expression, bound)


@pytest.mark.parametrize("expression", ["enginee.n > 1", "engine.n >", "false && foo(1)", "engine.n > 5 || wrong"])
def test_wrong_names_and_syntax_are_told_before_evaluation(runtime: Runtime, expression: str) -> None:
    with pytest.raises(RuleError):
        runtime.compile(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "engine.n * 1.5 > 3.0", "engine.s + 1 == 2", "engine.none > 1", "engine.n.a == 1", "engine.s.a == 1",
        "engine.n / 0 == 1", "engine.list[5] == 1", "!engine.n", "9223372036854775807 + engine.n > 0",
        "engine.n", "engine.s", "engine.list", "engine", "engine.none", "1 + 1", "engine.n && true",
    ],
)  # fmt: skip
def test_an_error_of_the_rule_is_neither_a_value_nor_not_known(runtime: Runtime, expression: str) -> None:
    with pytest.raises(RuleError) as error:
        runtime.evaluate(expression, runtime.bind(FACTS))
    assert 0 < len(str(error.value)) < 1000
