"""Integer expressions and glob patterns of shells, computed without running anything."""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = re.compile(
    r"\s*(?:(0[xX][0-9a-fA-F]{1,15}|[0-9]{1,18})|([A-Za-z_]\w*)|(<=|>=|==|!=|&&|\|\||[-+*/%<>()!]))", re.ASCII
)
_PRECEDENCE = {
    "||": 1,
    "&&": 2,
    "==": 3,
    "!=": 3,
    "<": 4,
    ">": 4,
    "<=": 4,
    ">=": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "%": 6,
}
_UNARY = 7
_LARGEST = 2**63
_MOST_TOKENS = 300


def evaluate(text: str, integer: Callable[[str], int | None]) -> int | None:
    """The value of an expression of integers, variables and ``+ - * / % == != < > <= >= && || ! ( )``.

    ``integer`` gives a variable's value (None: unknown). None where the value is unknown, where a number leaves 64 bits,
    or where the expression holds anything else. Division truncates toward zero as in C.
    """
    values: list[int] = []
    operators: list[tuple[str, bool]] = []  # (operator, unary)
    expect_value = True
    at, count = 0, 0
    text = text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        count += 1
        if not match or count > _MOST_TOKENS:
            return None
        at = match.end()
        number, name, operator = match.groups()
        if operator is None:
            value = integer(name) if name is not None else _number(number)
            if value is None or not expect_value:
                return None
            values.append(value)
            expect_value = False
        elif operator == "(":
            if not expect_value:
                return None
            operators.append(("(", False))
        elif operator == ")":
            if expect_value:
                return None
            while operators and operators[-1][0] != "(":
                if not _apply(operators.pop(), values):
                    return None
            if not operators:
                return None
            operators.pop()
        elif expect_value:
            if operator not in ("-", "+", "!"):
                return None
            operators.append((operator, True))
        else:
            if operator == "!":
                return None
            level = _PRECEDENCE[operator]
            while operators and operators[-1][0] != "(":
                top, unary = operators[-1]
                if not unary and _PRECEDENCE[top] < level:
                    break
                if not _apply(operators.pop(), values):
                    return None
            operators.append((operator, False))
            expect_value = True
    while operators:
        if operators[-1][0] == "(" or not _apply(operators.pop(), values):
            return None
    return values[0] if len(values) == 1 else None


def _number(text: str) -> int | None:
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    if len(text) > 1 and text[0] == "0":
        return int(text, 8) if re.fullmatch(r"[0-7]+", text) else None
    return int(text)


def _apply(operator: tuple[str, bool], values: list[int]) -> bool:
    """Applies an operator to the top of the stack; False where that has no value."""
    sign, unary = operator
    if len(values) < (1 if unary else 2):
        return False
    right = values.pop()
    if unary:
        values.append(-right if sign == "-" else int(not right) if sign == "!" else right)
        return True
    left = values.pop()
    if sign in ("/", "%"):
        if right == 0:
            return False
        quotient = abs(left) // abs(right)
        quotient = quotient if (left < 0) == (right < 0) else -quotient
        result = quotient if sign == "/" else left - quotient * right
    elif sign == "+":
        result = left + right
    elif sign == "-":
        result = left - right
    elif sign == "*":
        result = left * right
    elif sign == "&&":
        result = int(bool(left) and bool(right))
    elif sign == "||":
        result = int(bool(left) or bool(right))
    elif sign == "==":
        result = int(left == right)
    elif sign == "!=":
        result = int(left != right)
    elif sign == "<":
        result = int(left < right)
    elif sign == ">":
        result = int(left > right)
    elif sign == "<=":
        result = int(left <= right)
    else:
        result = int(left >= right)
    values.append(result)
    return -_LARGEST <= result < _LARGEST


def glob_matches(pattern: str, text: str) -> bool | None:
    """Whether ``text`` fits a pattern of ``*`` and ``?``; None for other patterns and very long ones."""
    if "[" in pattern or "\\" in pattern or "(" in pattern or len(pattern) > 200 or len(text) > 2_000:
        return None
    at = position = 0
    star, mark = -1, 0
    while position < len(text):
        if at < len(pattern) and pattern[at] == "*":
            star, mark = at, position
            at += 1
        elif at < len(pattern) and pattern[at] in ("?", text[position]):
            at += 1
            position += 1
        elif star >= 0:
            mark += 1
            at, position = star + 1, mark
        else:
            return False
    return all(char == "*" for char in pattern[at:])
