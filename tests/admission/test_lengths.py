"""Distributions of lengths as people write them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.admission.lengths import BadLengths, read_lengths


def test_quantiles_are_met_and_the_lower_half_mirrors_the_upper() -> None:
    lengths = read_lengths("p50=800,p95=4000,max=16000")
    assert [round(lengths.quantile(share)) for share in (0.5, 0.95, 1.0)] == [800, 4000, 16000]
    assert round(lengths.quantile(0.05)) == 160
    assert round(lengths.quantile(0.0)) == 40


def test_the_mapping_and_the_text_are_the_same() -> None:
    assert read_lengths({"p50": "800", "p95": 4000, "max": "16k"}) == read_lengths("p50=800, p95=4000, max=16000")


def test_a_number_is_every_request() -> None:
    lengths = read_lengths(" 4K ")
    assert lengths.mean() == lengths.quantile(0.01) == lengths.longest == 4096


def test_without_a_maximum_the_model_is_the_maximum() -> None:
    lengths = read_lengths("p50=800,p95=4000")
    assert lengths.open_end
    assert "no maximum" in str(lengths)
    assert lengths.within(20_000).longest == 20_000
    assert lengths.within(3000).quantile(0.99) == 3000


def test_a_histogram_is_flat_inside_its_bins() -> None:
    lengths = read_lengths({"histogram": [[100, 0], [200, 50], [400, 0], [500, 50]]})
    assert lengths.quantile(0.25) == pytest.approx(150)
    assert lengths.quantile(0.75) == pytest.approx(450)
    assert lengths.mean() == pytest.approx(300)


@given(
    st.lists(st.integers(1, 10**6), min_size=3, max_size=3).map(sorted),
    st.integers(2, 30),
)
def test_strata_keep_the_mean(tokens: list[int], cells: int) -> None:
    lengths = read_lengths(dict(zip(("p50", "p95", "max"), tokens, strict=True))).within(10**6)
    grid = lengths.grid(cells)
    assert sum(weight for _, weight in grid) == pytest.approx(1)
    assert sum(length * weight for length, weight in grid) == pytest.approx(lengths.mean(), rel=1e-6)
    numeric = sum(lengths.quantile((i + 0.5) / 4000) for i in range(4000)) / 4000
    assert lengths.mean() == pytest.approx(numeric, rel=0.02)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("p50=800,p95=400", "p95 is 400, less than p50"),
        ({"mean": 500}, "an average says nothing"),
        ({"p150": 5}, "no quantile"),
        ({"p10": 5}, "at least the median"),
        ({}, "no quantile is given"),
        ("many", "no number of tokens"),
        ({"p50": True}, "not a number of tokens"),
        ({"p50": -1}, "from 0 to"),
        ({"p50": float("nan")}, "is not"),
        ({"histogram": "x"}, "a histogram is a list"),
        ({"histogram": [[5, 0]]}, "not all zero"),
        ({"histogram": [[5, 1]], "p50": 3}, "stands alone"),
        (10**400, "is not"),
        (None, "is not"),
        ([1], "is not"),
    ],
)
def test_what_is_wrong_is_said(value: Any, words: str) -> None:
    with pytest.raises(BadLengths, match=words):
        read_lengths(value)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(ANYTHING)
def test_nothing_crashes_it(value: Any) -> None:
    with suppress(BadLengths):
        assert read_lengths(value).within(1000).grid(8)
