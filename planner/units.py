"""Bytes and the names of their multiples. The one place where GB (10⁹) and GiB (2³⁰) meet."""

from __future__ import annotations

import re

KIB = 2**10
MIB = 2**20
GIB = 2**30
GB = 10**9

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_QUANTITY = re.compile(
    r"([+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40}))(Ki|Mi|Gi|Ti|Pi|Ei|m|u|n|[kMGTPE]?|[eE][+-]?\d{1,3})",
    re.ASCII,
)


def parse_quantity(text: str) -> float:
    """The number a Kubernetes quantity means (``16Gi`` → 17179869184.0, ``500m`` → 0.5, ``1e3`` → 1000.0).

    Raises ValueError where the text is no quantity.
    Source: k8s.io/apimachinery/pkg/api/resource/quantity.go, the grammar in its doc comment.
    """
    match = _QUANTITY.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text[:60]!r} is not a Kubernetes quantity (such as 16Gi, 500m or 4)")
    number, suffix = float(match.group(1)), match.group(2)
    if suffix in _BINARY:
        return number * _BINARY[suffix]
    if suffix in _DECIMAL:
        return number * _DECIMAL[suffix]
    if suffix in ("m", "u", "n"):
        return number * {"m": 1e-3, "u": 1e-6, "n": 1e-9}[suffix]
    return float(match.group(1) + suffix)


def format_gib(value: float, digits: int = 2) -> str:
    """Bytes as people read them, unit written out: 17179869184 → ``16.00 GiB``."""
    return f"{value / GIB:,.{digits}f} GiB"


def format_bytes(value: float) -> str:
    """Bytes in the largest binary unit that keeps the number at or above one: 64 MiB, 1.50 GiB, 512 B."""
    for name, size in (("TiB", 2**40), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(value) >= size:
            number = value / size
            return f"{number:,.0f} {name}" if number == int(number) else f"{number:,.2f} {name}"
    return f"{value:,.0f} B"


def ceil_div(a: int, b: int) -> int:
    """⌈a / b⌉ for integers."""
    return -(-a // b)


def round_up(value: int, multiple: int) -> int:
    """The smallest multiple of ``multiple`` that is at least ``value``."""
    return -(-value // multiple) * multiple
