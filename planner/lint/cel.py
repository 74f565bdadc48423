"""The CEL runtime behind one small interface.

``cel-expr-python`` (Google's C++ runtime) where it has wheels, Python 3.11 and newer; the pure-Python ``cel-python`` on
3.10. Both give the same three answers: a value, "not known" where a key of the plan is missing, or an error of the
rule's author.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any


class NotKnown(Exception):  # noqa: N818 - an answer, not a failure
    """A fact that the expression reads is not in the plan; the argument names the missing key."""


class RuleError(Exception):
    """The expression itself is wrong (a type error, an unknown name); the argument is CEL's own message."""


class Runtime:
    """Compiles and evaluates expressions over a fixed set of variables."""

    def __init__(self, variables: tuple[str, ...], checked: bool = True) -> None:
        """``checked=False`` leaves names and types to the evaluation, which compiles in half the time: for rules whose
        expressions have been checked before, as those that ship with planner are by its tests."""
        self._variables = variables
        self._programs: dict[str, Any] = {}
        parts = _native(variables, checked) if sys.version_info >= (3, 11) else _pure(variables)
        self._compile, self._bind, self._eval = parts

    def compile(self, expression: str) -> None:
        """Checks an expression. Raises RuleError where it does not compile."""
        if expression not in self._programs:
            self._programs[expression] = self._compile(expression)

    def bind(self, facts: dict[str, Any]) -> Any:
        """Converts facts that ``in_range`` has gone over; do it once, and hand the result to ``evaluate``."""
        return self._bind({name: facts.get(name, {}) for name in self._variables})

    def evaluate(self, expression: str, bound: Any) -> bool:
        """Whether the expression holds. Raises NotKnown where a fact is missing, RuleError where the rule is wrong; one
        that gives a number or a text is wrong too, because what is taken for true is no decision of the rule's author."""
        program = self._programs.get(expression)
        if program is None:
            self.compile(expression)
            program = self._programs[expression]
        value = self._eval(program, bound)
        if value is not True and value is not False:
            raise RuleError(f"the expression gives {str(value)[:60]!r}, neither true nor false")
        return value


#: The integers of CEL have 64 bits. No rule looks deeper into a fact than this; a JSON argument may be nested deeper.
_LEAST, _MOST = -(2**63), 2**63 - 1
_DEEPEST = 32


def in_range(value: Any, depth: int = 0) -> Any:
    """Facts as CEL can hold them, since a manifest may state anything: integers are cut to 64 bits, which compares the
    same, halves of a surrogate pair are replaced, and what is nested too deeply is left out."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if kind is bool or kind is float or value is None:
        return value
    if kind is int:
        return value if _LEAST <= value <= _MOST else _LEAST if value < 0 else _MOST
    if isinstance(value, (dict, list, tuple)):
        if depth >= _DEEPEST:
            return None
        below = depth + 1
        if isinstance(value, dict):
            return {
                key if type(key) is str and key.isascii() else in_range(str(key)): in_range(item, below)
                for key, item in value.items()
            }
        return [in_range(item, below) for item in value]
    if isinstance(value, str):
        return in_range(str(value))
    return in_range(int(value)) if isinstance(value, int) else value


_Parts = tuple[Callable[[str], Any], Callable[[dict[str, Any]], Any], Callable[[Any, Any], Any]]


def _native(variables: tuple[str, ...], checked: bool) -> _Parts:
    from cel_expr_python import cel

    env = cel.NewEnv(variables=dict.fromkeys(variables, cel.Type.DYN))

    def compile_(expression: str) -> Any:
        try:
            return env.compile(expression, disable_check=not checked)
        except Exception as error:
            raise RuleError(str(error)) from None

    def bind(facts: dict[str, Any]) -> Any:
        return env.Activation(data=facts)

    def evaluate(program: Any, bound: Any) -> Any:
        result = program.eval(bound)
        if result.type() == cel.Type.ERROR:
            text = str(result.value())
            if text.startswith("NOT_FOUND"):
                raise NotKnown(text.rpartition(":")[2].strip().strip('"'))
            raise RuleError(text)
        return result.value()

    return compile_, bind, evaluate


def _pure(variables: tuple[str, ...]) -> _Parts:
    import celpy
    from celpy.evaluation import base_functions

    env = celpy.Environment()
    has = re.compile(r"\bhas\(\s*([A-Za-z_][\w.]*)\.(\w+)\s*\)")
    functions = {operator: _across_types(operator, base_functions[operator]) for operator in _COMPARISONS}

    def compile_(expression: str) -> Any:
        try:
            # cel-python's has() also says no where the parent is missing, which is "not known"; "in" tells the two apart.
            tree = env.compile(has.sub(r"('\2' in \1)", expression))
        except celpy.CELParseError as error:
            raise RuleError(f"Syntax error: {str(error).strip()}") from None
        undeclared = _undeclared(tree, {*variables, *base_functions})
        if undeclared:
            raise RuleError(f"undeclared reference to {undeclared!r}")
        return env.program(tree, functions)

    def bind(facts: dict[str, Any]) -> Any:
        return {name: celpy.json_to_cel(value) for name, value in facts.items()}

    def evaluate(program: Any, bound: Any) -> Any:
        try:
            value = program.evaluate(bound)
        except celpy.CELEvalError as error:
            text, _, details = (*error.args, None, None, None)[:3]
            if text == "no such key" and details:
                raise NotKnown(str(details[0])) from None
            # Macros and || wrap the errors of their parts, as text with its quotes escaped.
            missing = re.search(r"no such member in mapping: \\*['\"](.*?)\\*['\"]", str(error))
            if missing:
                raise NotKnown(missing.group(1)) from None
            raise RuleError(str(text)[:300]) from None
        except Exception as error:
            raise RuleError(f"{type(error).__name__}: {error}"[:300]) from None
        return bool(value) if isinstance(value, celpy.celtypes.BoolType) else value

    return compile_, bind, evaluate


_COMPARISONS = ("_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_")


def _across_types(operator: str, comparison: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A comparison of cel-python that takes two types as the language definition has it: an integer beside a double is
    compared as a number, and values of different types are not equal, which is no error."""
    from celpy import CELEvalError
    from celpy.celtypes import BoolType, DoubleType, IntType

    def compare(left: Any, right: Any) -> Any:
        if type(left) is type(right) or isinstance(left, CELEvalError) or isinstance(right, CELEvalError):
            return comparison(left, right)
        if {type(left), type(right)} == {IntType, DoubleType}:
            return comparison(DoubleType(left), DoubleType(right))
        if operator in ("_==_", "_!=_"):
            return BoolType(operator == "_!=_")
        return comparison(left, right)

    return compare


def _undeclared(tree: Any, declared: set[str]) -> str:
    """The first name in a syntax tree of cel-python that nothing declares: that runtime would only notice when it comes
    to evaluate it. Macros declare the variable that is their first argument."""
    names: list[str] = []
    bound: set[str] = {"has", "dyn"}
    for node in tree.iter_subtrees_topdown():
        if node.data in ("ident", "dot_ident", "ident_arg", "dot_ident_arg"):
            names.append(str(node.children[0]))
        elif node.data == "member_dot_arg":
            method = str(node.children[1])
            if method not in ("all", "exists", "exists_one", "map", "filter"):
                names.append(method)
            elif len(node.children) > 2 and node.children[2] is not None:
                variable = node.children[2].children[0]
                bound.update(str(name.children[0]) for name in variable.find_data("ident"))
    return next((name for name in names if name not in declared and name not in bound), "")
