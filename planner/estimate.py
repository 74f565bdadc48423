"""Byte counts that know how sure they are."""

from __future__ import annotations

from planner.record import NamedTuple

#: From the surest to the least sure; a sum is as sure as its least sure part.
BASES = ("exact", "given", "derived", "measured", "assumed")


class Estimate(NamedTuple):
    """A number of bytes with its bounds. ``basis``: ``exact`` (artifact or architecture), ``given`` (somebody measured it
    and said so), ``derived`` (engine arithmetic), ``measured`` (calibrated from logs) or ``assumed``."""

    low: int
    expected: int
    high: int
    basis: str = "derived"

    def plus(self, other: Estimate) -> Estimate:
        """The sum of two terms: bounds add, the basis is the less sure one."""
        return Estimate(
            self.low + other.low,
            self.expected + other.expected,
            self.high + other.high,
            max(self.basis, other.basis, key=BASES.index),
        )

    def minus(self, other: Estimate) -> Estimate:
        """What is left of this after ``other`` is taken away: the low end loses the other's high end."""
        return Estimate(
            self.low - other.high,
            self.expected - other.expected,
            self.high - other.low,
            max(self.basis, other.basis, key=BASES.index),
        )

    def times(self, factor: float) -> Estimate:
        """Scaled by a non-negative factor."""
        return Estimate(int(self.low * factor), int(self.expected * factor), int(self.high * factor), self.basis)


ZERO = Estimate(0, 0, 0, "exact")


def exactly(value: int, basis: str = "exact") -> Estimate:
    """An estimate without width."""
    return Estimate(value, value, value, basis)


def between(one: int, expected: int, other: int, basis: str) -> Estimate:
    """An estimate between two ends whose order hangs on the numbers (a difference of two that move together)."""
    return Estimate(min(one, other, expected), expected, max(one, other, expected), basis)
