"""How long prompts and outputs are: a distribution given by quantiles, by a histogram, or by one number.

Between the points that are given the quantile function is interpolated: on a logarithmic scale for quantiles, since
lengths spread over orders of magnitude, and linearly inside the bins of a histogram. Below the lowest quantile the
distribution mirrors its upper half on that scale: a lower half is rarely stated and decides little.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from math import exp, isfinite, log
from typing import Any

from planner.record import NamedTuple

#: no engine has a context this long; larger numbers are mistakes
MOST_TOKENS = 10**8
_MOST_POINTS = 200
_HUMAN = {"k": 10**3, "m": 10**6, "K": 2**10, "M": 2**20}


class BadLengths(ValueError):  # noqa: N818 - the description is wrong, not the program
    """What is wrong with a description of lengths, for people."""


class Lengths(NamedTuple):
    """A distribution of tokens. ``points``: (probability, tokens) with both ascending, from 0 to 1 once ``within`` has
    been applied; ``open_end``: no maximum is stated. ``linear``: how to interpolate."""

    points: tuple[tuple[float, float], ...]
    linear: bool = False
    open_end: bool = False

    def within(self, limit: int) -> Lengths:
        """The distribution of lengths that an engine takes: at least 1, at most ``limit``, which is also the maximum
        where none is stated."""
        limit = max(1, limit)
        points = [(share, min(float(limit), max(1.0, tokens))) for share, tokens in self.points]
        if self.open_end:
            points.append((1.0, float(limit)))
        return Lengths(tuple(points), self.linear)

    def quantile(self, share: float) -> float:
        """The length that this share of requests does not exceed."""
        points = self.points
        if share <= points[0][0]:
            return points[0][1]
        for (below, low), (above, high) in itertools.pairwise(points):
            if share <= above:
                if above == below or low == high:
                    return high
                part = (share - below) / (above - below)
                return low + part * (high - low) if self.linear else low * exp(part * log(high / low))
        return points[-1][1]

    @property
    def longest(self) -> float:
        """The maximum."""
        return self.points[-1][1]

    def mean(self, above: float = 0.0, below: float = 1.0) -> float:
        """The expected length of the requests between two shares, exactly for the interpolation."""
        if below <= above:
            return self.quantile(above)
        total = max(0.0, min(below, self.points[0][0]) - above) * self.points[0][1]
        for (left, _), (right, _) in zip(self.points, self.points[1:], strict=False):
            start, end = max(left, above), min(right, below)
            if end <= start:
                continue
            # Inside a step the function can be evaluated; at its ends it may jump.
            low, high = self._inside(start, left, right), self._inside(end, left, right)
            flat = self.linear or high - low < 1e-6 * high
            total += (end - start) * ((low + high) / 2 if flat else (high - low) / log(high / low))
        return total / (below - above)

    def _inside(self, share: float, left: float, right: float) -> float:
        low = next(tokens for edge, tokens in reversed(self.points) if edge == left)
        high = next(tokens for edge, tokens in self.points if edge == right)
        part = (share - left) / (right - left)
        return low + part * (high - low) if self.linear or low == high else low * exp(part * log(high / low))

    def grid(self, cells: int) -> list[tuple[float, float]]:
        """(tokens, weight) of ``cells`` strata, finer towards the long end: half of them for the upper eighth, since the
        few long requests hold most of the cache; each with its mean. Weights add up to 1."""
        if self.points[0][1] == self.points[-1][1]:
            return [(self.points[0][1], 1.0)]
        body = max(1, cells // 2)
        tail = max(1, cells - body)
        edges = [0.875 * number / body for number in range(body + 1)]
        # Towards the maximum the strata halve: what is rare and long is not averaged away.
        edges += [1 - 0.125 * 0.5**number for number in range(1, tail)] + [1.0]
        return [(self.mean(a, b), b - a) for a, b in itertools.pairwise(edges)]

    def __str__(self) -> str:
        if self.points[0][1] == self.points[-1][1] and not self.open_end:
            return f"{self.points[0][1]:,.0f}"
        named = [f"p{100 * share:g} {self.quantile(share):,.0f}" for share in (0.5, 0.95)]
        return ", ".join([*named, "no maximum stated" if self.open_end else f"max {self.longest:,.0f}"])


def fixed(tokens: float) -> Lengths:
    """Every request has this length."""
    return Lengths(((0.0, float(tokens)), (1.0, float(tokens))))


def from_quantiles(quantiles: Mapping[float, float]) -> Lengths:
    """From probability (0 to 1) → tokens. Raises ``BadLengths`` where lengths fall or none is given."""
    if not quantiles:
        raise BadLengths("no quantile is given; it reads p50=800,p95=4000,max=16000")
    stated = sorted(quantiles.items())
    for (low_share, low), (high_share, high) in itertools.pairwise(stated):
        if high < low:
            raise BadLengths(f"{_name(high_share)} is {high:,.0f}, less than {_name(low_share)} with {low:,.0f}")
    points = [(share, max(1.0, tokens)) for share, tokens in stated]
    if points[-1][0] < 0.5:
        raise BadLengths(f"the longest quantile is {_name(points[-1][0])}; say at least the median and the maximum")
    if points[0][0] > 0:
        lowest, low = points[0]
        mirrored = [
            (2 * lowest - share, low * low / tokens)
            for share, tokens in reversed(points[1:])
            if 0 < 2 * lowest - share < lowest and share < 1
        ]
        floor = min([low * low / points[-1][1]] + [tokens for _, tokens in mirrored])
        points = [(0.0, max(1.0, floor)), *((share, max(1.0, tokens)) for share, tokens in mirrored), *points]
    return Lengths(tuple(points), open_end=points[-1][0] < 1)


def from_histogram(bins: Any) -> Lengths:
    """From (tokens up to, weight) pairs or a mapping of these. Raises ``BadLengths``."""
    pairs = list(bins.items()) if isinstance(bins, Mapping) else bins
    if not isinstance(pairs, (list, tuple)) or not pairs or len(pairs) > 10_000:
        raise BadLengths("a histogram is a list of [tokens up to, count], such as [[512, 60], [4096, 40]]")
    edges = []
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise BadLengths("a histogram is a list of [tokens up to, count], such as [[512, 60], [4096, 40]]")
        upper = tokens_of(pair[0])
        edges.append((upper, _number(pair[1], "a count")))
    edges.sort()
    total = sum(weight for _, weight in edges)
    if total <= 0 or any(weight < 0 for _, weight in edges):
        raise BadLengths("the counts of a histogram are not negative and not all zero")
    points, sum_so_far, last = [(0.0, 1.0)], 0.0, 0.0
    for upper, weight in edges:
        if weight:
            if points[-1][1] < last:
                points.append((sum_so_far / total, last))  # an empty bin below: nothing is that short
            sum_so_far += weight
            points.append((min(1.0, sum_so_far / total), upper))
        elif len(points) == 1:
            points = [(0.0, upper)]
        last = upper
    points[-1] = (1.0, points[-1][1])
    return Lengths(tuple(points), linear=True)


def read_lengths(value: Any) -> Lengths:
    """Lengths as people write them: 800, ``p50=800,p95=4000,max=16000``, the same as a mapping, or
    ``{"histogram": [[512, 60], [4096, 40]]}``. Raises ``BadLengths``, worded for them."""
    if isinstance(value, Mapping):
        if len(value) > _MOST_POINTS:
            raise BadLengths(f"more than {_MOST_POINTS} quantiles")
        if "histogram" in value:
            if len(value) > 1:
                raise BadLengths("a histogram stands alone, without quantiles beside it")
            return from_histogram(value["histogram"])
        return from_quantiles({_share(str(name)): tokens_of(tokens) for name, tokens in value.items()})
    if isinstance(value, str) and "=" in value:
        parts = [part.partition("=") for part in value[:10_000].split(",") if part.strip()]
        return read_lengths({name.strip(): tokens.strip() for name, _, tokens in parts})
    return fixed(max(1.0, tokens_of(value)))


def _share(name: str) -> float:
    """``p95`` → 0.95, ``max`` → 1, ``median`` → 0.5."""
    plain = name.strip().lower()
    if plain in ("max", "maximum", "min", "minimum", "median"):
        return {"max": 1.0, "min": 0.0, "med": 0.5}[plain[:3]]
    if plain in ("mean", "average", "avg"):
        raise BadLengths("an average says nothing about the long requests that fill a cache; give p50, p95 and max")
    match = re.fullmatch(r"p(\d{1,3}(?:\.\d{1,9})?)", plain)
    if not match or not 0 <= float(match.group(1)) <= 100:
        raise BadLengths(f"{name[:40]!r} is no quantile; they are called p50, p95, p99.9, min and max")
    return float(match.group(1)) / 100


def _name(share: float) -> str:
    return "max" if share == 1 else f"p{100 * share:g}"


def tokens_of(value: Any) -> float:
    """A number of tokens as people write it: 800, "800", "16k" (thousands), "16K" (1024s). Raises ``BadLengths``."""
    if isinstance(value, str):
        text = value.strip().replace("_", "")
        factor = _HUMAN.get(text[-1:], 1)
        if factor > 1:
            text = text[:-1]
        if not re.fullmatch(r"\d{1,15}(\.\d{1,9})?", text):
            raise BadLengths(f"{value[:40]!r} is no number of tokens")
        value = float(text) * factor
    number = _number(value, "a number of tokens")
    if not 0 <= number <= MOST_TOKENS:
        raise BadLengths(f"{number:,.0f} tokens: it must be from 0 to {MOST_TOKENS:,}")
    return number


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadLengths(f"{str(value)[:40]!r} is not {what}")
    try:
        number = float(value)
    except OverflowError:
        raise BadLengths(f"{str(value)[:20]}… is not {what}") from None
    if not isfinite(number):
        raise BadLengths(f"{value} is not {what}")
    return number
