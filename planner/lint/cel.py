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

    def __init__(self, variables: tuple[str, ...]) -> None:
        self._variables = variables
        self._programs: dict[str, Any] = {}
        self._compile, self._bind, self._eval = (_native if sys.version_info >= (3, 11) else _pure)(variables)

    def compile(self, expression: str) -> None:
        """Checks an expression. Raises RuleError where it does not compile."""
        if expression not in self._programs:
            self._programs[expression] = self._compile(expression)

    def bind(self, facts: dict[str, Any]) -> Any:
        """Converts the facts once; hand the result to ``evaluate``."""
        return self._bind(facts)

    def evaluate(self, expression: str, bound: Any) -> Any:
        """The value of an expression. Raises NotKnown where a fact is missing, RuleError where the rule is wrong."""
        self.compile(expression)
        return self._eval(self._programs[expression], bound)


_Parts = tuple[Callable[[str], Any], Callable[[dict[str, Any]], Any], Callable[[Any, Any], Any]]


def _native(variables: tuple[str, ...]) -> _Parts:
    from cel_expr_python import cel

    env = cel.NewEnv(variables=dict.fromkeys(variables, cel.Type.DYN))

    def compile_(expression: str) -> Any:
        try:
            return env.compile(expression)
        except Exception as error:
            raise RuleError(str(error)) from None

    def bind(facts: dict[str, Any]) -> Any:
        return env.Activation(data={name: facts.get(name, {}) for name in variables})

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

    env = celpy.Environment()

    def compile_(expression: str) -> Any:
        try:
            return env.program(env.compile(expression))
        except celpy.CELParseError as error:
            raise RuleError(str(error)) from None

    def bind(facts: dict[str, Any]) -> Any:
        return {name: celpy.json_to_cel(facts.get(name, {})) for name in variables}

    def evaluate(program: Any, bound: Any) -> Any:
        try:
            return program.evaluate(bound)
        except celpy.CELEvalError as error:
            missing = re.search(r"no such (?:key|member in mapping): '?([^'\"]*)", str(error))
            if missing:
                raise NotKnown(missing.group(1)) from None
            raise RuleError(str(error)[:300]) from None

    return compile_, bind, evaluate
