"""Quantities of Kubernetes, and bytes as people read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.units import GIB, ceil_div, format_bytes, format_gib, parse_quantity, round_up


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("1", 1), ("16Gi", 16 * 2**30), ("16G", 16e9), ("500m", 0.5), ("1e3", 1000), ("1E3", 1000), ("1E", 1e18),
        ("1Ei", 2**60), ("1.5Gi", 1.5 * 2**30), (".5Gi", 2**29), ("5.", 5), ("-1Ki", -1024), ("+2k", 2000), ("1P", 1e15),
        ("100u", 1e-4), ("1n", 1e-9), (" 8 ", 8), ("1e-3", 0.001), ("1Ti", 2**40), ("1Mi", 2**20),
    ],
)  # fmt: skip
def test_quantities(text: str, value: float) -> None:
    assert parse_quantity(text) == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    ["", "Gi", "16 Gi", "16GB", "16gi", "16KI", "1e", "1e3Gi", "0x10", "١", "1_000", "nan", "inf", "1,5", "--1", "1e9999",
     "9" * 41, "16Gi\n16Gi", "a" * 100_000],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_no_quantities(text: str) -> None:
    with pytest.raises(ValueError, match="is not a Kubernetes quantity"):
        parse_quantity(text)


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="0123456789.eE+-KMGTPimunk ", max_size=12))
def test_any_text_is_a_finite_number_or_refused(text: str) -> None:
    try:
        value = parse_quantity(text)
    except ValueError:
        return
    assert not math.isnan(value)


def test_an_exponent_beyond_a_float_is_no_crash() -> None:
    assert parse_quantity("1e999") == math.inf


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"), (512, "512 B"), (1024, "1 KiB"), (1536, "1.50 KiB"), (64 * 2**20, "64 MiB"), (GIB, "1 GiB"),
        (1.5 * GIB, "1.50 GiB"), (2048 * GIB, "2 TiB"), (-3 * GIB, "-3 GiB"), (5000 * 2**40, "5,000 TiB"),
    ],
)  # fmt: skip
def test_format_bytes(value: float, text: str) -> None:
    assert format_bytes(value) == text


def test_format_gib_writes_the_unit_out() -> None:
    assert format_gib(16 * 2**30) == "16.00 GiB"
    assert format_gib(80e9) == "74.51 GiB"
    assert format_gib(2**30 * 1234.5, 1) == "1,234.5 GiB"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**18), st.integers(1, 10**9))
def test_ceil_div_and_round_up(value: int, by: int) -> None:
    assert (ceil_div(value, by) - 1) * by < value <= ceil_div(value, by) * by or value == 0
    assert round_up(value, by) % by == 0
    assert 0 <= round_up(value, by) - value < by
