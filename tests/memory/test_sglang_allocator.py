"""Segments of torch's caching allocator."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planner.memory.sglang_allocator import Segments
from planner.units import MIB


def held(*sizes: int) -> int:
    found = Segments()
    found.take(sizes)
    return found.held


def test_segments_of_each_class() -> None:
    assert held(1) == 2 * MIB
    assert held(MIB, MIB) == 2 * MIB
    assert held(MIB + 1) == 20 * MIB
    assert held(10 * MIB) == 10 * MIB
    assert held(10 * MIB + 1) == 12 * MIB


def test_free_ends_are_used_again() -> None:
    assert held(8 * MIB, 4 * MIB, 6 * MIB) == 20 * MIB
    assert held(8 * MIB, 8 * MIB, 8 * MIB) == 40 * MIB
    # An end of one MiB is no block of its own.
    assert held(19 * MIB // 2, 19 * MIB // 2, MIB + 512) == 40 * MIB


@given(st.lists(st.integers(0, 64 * MIB), max_size=60))
def test_nothing_is_lost(sizes: list[int]) -> None:
    found = Segments()
    found.take(sizes)
    assert found.used == sum(sizes)
    assert found.spare >= 0
