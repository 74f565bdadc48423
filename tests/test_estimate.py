"""Estimates: bounds stay in order, and a sum is as sure as its least sure part."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.estimate import BASES, ZERO, Estimate, exactly

SIZES = st.integers(0, 2**50)


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    low, expected, high = sorted((draw(SIZES), draw(SIZES), draw(SIZES)))
    return Estimate(low, expected, high, draw(st.sampled_from(BASES)))


def ordered(value: Estimate) -> bool:
    return value.low <= value.expected <= value.high


@settings(max_examples=60, deadline=None)
@given(estimates(), estimates())
def test_sums_and_differences_keep_their_bounds(a: Estimate, b: Estimate) -> None:
    total, rest = a.plus(b), a.minus(b)
    assert ordered(total)
    assert ordered(rest)
    assert total.high - total.low == rest.high - rest.low == (a.high - a.low) + (b.high - b.low)
    assert a.plus(b) == b.plus(a)


@settings(max_examples=60, deadline=None)
@given(estimates(), estimates())
def test_any_pair_of_true_values_lies_within_the_bounds(a: Estimate, b: Estimate) -> None:
    for left in (a.low, a.expected, a.high):
        for right in (b.low, b.expected, b.high):
            assert a.plus(b).low <= left + right <= a.plus(b).high
            assert a.minus(b).low <= left - right <= a.minus(b).high


@settings(max_examples=60, deadline=None)
@given(estimates())
def test_zero_changes_nothing(a: Estimate) -> None:
    assert a.plus(ZERO) == a.minus(ZERO) == a.times(1) == a


@settings(max_examples=60, deadline=None)
@given(estimates(), st.floats(0, 8))
def test_scaling_keeps_the_order(a: Estimate, factor: float) -> None:
    assert ordered(a.times(factor))


@pytest.mark.parametrize("less_sure", range(len(BASES)))
def test_the_basis_is_the_less_sure_one(less_sure: int) -> None:
    for surer in range(less_sure + 1):
        a, b = exactly(1, BASES[surer]), exactly(2, BASES[less_sure])
        assert a.plus(b).basis == b.plus(a).basis == a.minus(b).basis == BASES[less_sure]


def test_exactly_has_no_width() -> None:
    assert exactly(5) == Estimate(5, 5, 5, "exact")
