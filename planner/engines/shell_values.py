"""Values of shell variables: known, unknown, or known only for one branch of a condition."""

from __future__ import annotations

import re

from planner.engines.pieces import KNOWN, MAYBE, UNKNOWN, Field, Piece, Script, is_known, text_of

_DIFFERS = "the branches of a condition that cannot be told set it differently"
DEPENDS = "it depends on a condition that cannot be told"
_TOKENS = re.compile(r"[ \t\n]+|[^ \t\n]+")


class Array:
    """The value of a bash array, or the positional parameters."""

    __slots__ = ("items",)

    def __init__(self, items: list[Field]) -> None:
        self.items = items


class Unset:
    """A variable that the script unsets."""

    __slots__ = ()


class Unknowable:
    """A value that cannot be told, and why."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


Value = Field | Array | Unset | Unknowable


def join_values(first: Value, second: Value) -> Value:
    """What a variable is after branches that leave it as ``first`` and ``second``."""
    if first is second or (isinstance(first, Unset) and isinstance(second, Unset)):
        return first
    if isinstance(first, Array | Unset) and isinstance(second, Array | Unset):
        return _joined_arrays(_items(first), _items(second))
    one = [] if isinstance(first, Unset) else first
    other = [] if isinstance(second, Unset) else second
    if not isinstance(one, list) or not isinstance(other, list):
        return Unknowable(_DIFFERS)
    text, longer = text_of(one), text_of(other)
    if text == longer:
        if isinstance(first, Unset) or isinstance(second, Unset):
            return [Piece("", MAYBE, None, 0, "script", DEPENDS)]
        return one if not is_known(one) else other
    if len(text) > len(longer):
        one, other, text, longer = other, one, longer, text
    if not longer.startswith(text):
        return Unknowable(_DIFFERS)
    addition = Script(other).cut(len(text), len(longer)) if is_known(other) else [*_tail(other, len(text))]
    return [*one, *(piece._replace(state=piece.state or MAYBE, reason=DEPENDS) for piece in addition)]


def _joined_arrays(first: list[Field], second: list[Field]) -> Value:
    start, limit = 0, min(len(first), len(second))
    while start < limit and _same(first[start], second[start]):
        start += 1
    end = 0
    while end < limit - start and _same(first[-1 - end], second[-1 - end]):
        end += 1
    one, other = first[start : len(first) - end], second[start : len(second) - end]
    tail = first[len(first) - end :]
    if len(one) < len(other):
        one, other = other, one
    middle = [
        field
        if len(one) == len(other) and _same(field, other[index])
        else [piece._replace(state=piece.state or MAYBE, reason=DEPENDS) for piece in field]
        for index, field in enumerate(one)
    ]
    return Array([*first[:start], *middle, *tail])


def _items(value: Array | Unset) -> list[Field]:
    return value.items if isinstance(value, Array) else []


def repeat_value(name: str, before: Value, after: Value) -> Value:
    """What the variable is after any number of turns of a loop, by what it was before and after at most one."""
    unknown = [Piece(f"${name}", UNKNOWN, None, 0, "script", "a loop adds to it")]
    if isinstance(before, Array | Unset) and isinstance(after, Array):
        items = _items(before)
        if len(after.items) >= len(items) and all(map(_same, items, after.items)):
            return Array([*items, unknown])
    elif isinstance(before, list) and isinstance(after, list) and text_of(after).startswith(text_of(before)):
        return [*before, *unknown]
    return Unknowable("a loop sets it")


def is_filled(value: Value, *, colon: bool) -> bool | None:
    """Whether a value is set (and, with ``colon``, not empty); None if that cannot be told."""
    if isinstance(value, Unset):
        return False
    if isinstance(value, list):
        if any(piece.state == KNOWN and piece.text for piece in value):
            return True
        if any(piece.state != KNOWN for piece in value):
            return None
        return not colon
    return None if not isinstance(value, Array) else bool(value.items)


def _same(first: Field, second: Field) -> bool:
    return first is second or (text_of(first) == text_of(second) and is_known(first) == is_known(second))


def _tail(field: Field, start: int) -> Field:
    """The pieces after the first ``start`` characters."""
    tail: Field = []
    for piece in field:
        length = len(piece.text)
        if start >= length:
            start -= length
            continue
        tail.append(piece if start == 0 else piece.part(start, length))
        start = 0
    return tail


class Fields:
    """Collects the words that one word of the source expands to."""

    __slots__ = ("current", "done")

    def __init__(self) -> None:
        self.done: list[Field] = []
        self.current: Field | None = None

    def add(self, pieces: Field) -> None:
        if self.current is None:
            self.current = []
        self.current.extend(pieces)

    def flush(self) -> None:
        if self.current is not None:
            self.done.append(self.current)
            self.current = None

    def add_split(self, pieces: Field) -> None:
        """Adds the value of an unquoted expansion: blanks part words."""
        for piece in pieces:
            if piece.state == UNKNOWN or not piece.text:
                if piece.text:
                    self.add([piece])
                continue
            for match in _TOKENS.finditer(piece.text):
                if match.group()[0] in " \t\n":
                    self.flush()
                else:
                    self.add([piece.part(match.start(), match.end())])

    def result(self) -> list[Field]:
        self.flush()
        return self.done
