"""What plain scalars mean to Kubernetes (``kubectl apply -o json`` shows the same)."""

from __future__ import annotations

import math

import pytest

from planner.documents.read import read_bytes


def value(text: str) -> object:
    node = read_bytes(f"a: {text}\n".encode(), "f").documents[0].root
    return node.plain()["a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", True),
        ("Yes", True),
        ("on", True),
        ("n", False),
        ("OFF", False),
        ("yEs", "yEs"),
        ("8", 8),
        ("-8", -8),
        ("+8", 8),
        ("0x1F", 31),
        ("0o17", 15),
        ("017", 15),
        ("0b101", 5),
        ("08", 8.0),
        ("1_000", 1000),
        ("12345678901234567890123", 12345678901234567890123),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1E-2", 0.01),
        ("-.inf", -math.inf),
        ("1e999", "1e999"),
        ("~", None),
        ("Null", None),
        ("", None),
        ("nULL", "nULL"),
        ("190:20:30", "190:20:30"),
        ("2001-12-14", "2001-12-14"),
        ("16Gi", "16Gi"),
        ("0.9", 0.9),
        ("v0.11.0", "v0.11.0"),
        ('"8"', "8"),
        ("'true'", "true"),
        ("!!str 8", "8"),
        ('!!int "8"', 8),
        ("!!float 8", 8.0),
        ("!!bool 'yes'", True),
        ("!!null x", None),
        ("!!int x", "x"),
        ("!Ref 8", "8"),
        ("! 8", "8"),
        ("!!python/object/apply:os.system [x]", ["x"]),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_value(text: str, expected: object) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_nan_is_a_number() -> None:
    found = value(".NaN")
    assert isinstance(found, float)
    assert math.isnan(found)
