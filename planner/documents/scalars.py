"""What a YAML scalar means to Kubernetes: the rules of ``sigs.k8s.io/yaml`` (go-yaml v2, YAML 1.1 without base 60)."""

from __future__ import annotations

import re
from typing import Final

_NULLS: Final = frozenset(("", "~", "null", "Null", "NULL"))
_CORE: Final = "tag:yaml.org,2002:"
_WORDS: Final[dict[str, bool | float]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_INTEGER: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
#: Longer spellings stay text: nobody means a number of this length, and converting one costs quadratic time.
_LONGEST_NUMBER: Final = 400


def is_null(text: str, plain: bool, tag: str | None) -> bool:
    """Whether a scalar is null: a plain ``~``, ``null`` or nothing, or anything so tagged."""
    if tag is None:
        return plain and text in _NULLS
    return tag == _CORE + "null"


def resolve(text: str, plain: bool, tag: str | None) -> str | int | float | bool | None:
    """The value of a scalar. ``plain`` is False for quoted and block scalars; ``tag`` is None where the file gives none.

    Timestamps stay text, as they do on their way to JSON; unknown tags leave the text as it is.
    """
    if tag is None:
        return _resolve_plain(text) if plain else text
    if not tag.startswith(_CORE):
        return text
    name = tag[len(_CORE) :]
    if name == "null":
        return None
    if name not in ("int", "float", "bool"):
        return text
    value = _resolve_plain(text)
    if name == "float" and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            return text
    return value if type(value).__name__ == name else text


def _resolve_plain(text: str) -> str | int | float | bool | None:
    if text in _NULLS:
        return None
    first = text[0]
    if first not in "0123456789+-.yYnNtTfFoO":
        return text
    word = _WORDS.get(text)
    if word is not None:
        return word
    if first not in "0123456789+-." or len(text) > _LONGEST_NUMBER:
        return text
    digits = text if first == "." else text.replace("_", "")
    match = _INTEGER.fullmatch(digits)
    if match is not None:
        sign, hexadecimal, binary, octal, decimal = match.groups()
        if decimal is not None:
            number = int(decimal)
        elif hexadecimal is not None:
            number = int(hexadecimal, 16)
        else:
            number = int(octal, 8) if binary is None else int(binary, 2)
        return -number if sign == "-" else number
    if _FLOAT.fullmatch(digits) is not None:
        real = float(digits)
        # An exponent out of range is no number to Go, so the text stays.
        return text if real in (float("inf"), float("-inf")) else real
    return text
