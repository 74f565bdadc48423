"""What a running request of a mix holds: the blocks it has at a random moment, when it starts and when it ends.

At a random moment a long output is more likely to be met than a short one, in proportion to its length, and it is met at
a random point of its way: the distribution is *length-biased*, and the average request says too little. (The inspection
paradox of renewal theory; Feller, vol. II, XI.4.)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

from planner.admission.growth import Growth, blocks_of, shared_blocks_of
from planner.admission.workload import Weighted, Workload
from planner.record import NamedTuple

#: points of a request's way at which its blocks are taken, and their weights (Gauss-Legendre on 0 … 1)
_AGES = ((0.1127016654, 0.2777777778), (0.5, 0.4444444444), (0.8872983346, 0.2777777778))
#: cells of the distribution of held blocks, and of those at the end
_HELD_CELLS = 96
_END_CELLS = 16


class Mix(NamedTuple):
    """Blocks of the requests of a mix, beyond those that they share.

    ``held``: (blocks, share of moments) of a running request. ``ends`` and ``starts``: (blocks, share of requests) with
    the last and the first token. ``shared``: blocks of the common prefix, held once. ``growing``: blocks that one token
    takes on average while a request grows. ``longest``: blocks of the longest request at its end and at its start.
    ``prompt_tokens``, ``output_tokens``: means over the requests. ``median_start``, ``shortest_start``: blocks of a prompt.
    ``variance``: of the held blocks. ``policy``: the one that the workload asks for.
    """

    held: tuple[tuple[float, float], ...]
    ends: tuple[tuple[float, float], ...]
    starts: tuple[tuple[float, float], ...]
    shared: int
    longest: int
    longest_growth: int
    prompt_tokens: float
    output_tokens: float
    median_start: float
    shortest_start: float
    tokens_held: float
    variance: float = 1e-9
    policy: str = ""

    @property
    def mean(self) -> float:
        """Blocks of a running request on average."""
        return sum(blocks * share for blocks, share in self.held)

    @property
    def most(self) -> float:
        """The most blocks of a running request."""
        return self.held[-1][0]

    @property
    def mean_growth(self) -> float:
        """Blocks that a request takes between its first and its last token, on average."""
        ends = sum(blocks * share for blocks, share in self.ends)
        return ends - sum(blocks * share for blocks, share in self.starts)

    def moments(self, tilt: float) -> tuple[float, float, float]:
        """(log E e^(tilt·X), mean, variance) of the held blocks X under the exponential tilt."""
        most = self.most
        if len(self.held) == 1:
            return tilt * most, most, 1e-9
        # The values are equidistant, so that their exponentials are powers: from the largest value downwards.
        width = self.held[1][0] - self.held[0][0]
        ratio = exp(-tilt * width)
        power = 1.0
        total = first = second = 0.0
        for down, (_, share) in enumerate(reversed(self.held)):
            weight = share * power
            total += weight
            first += weight * down
            second += weight * down * down
            power *= ratio
        below = first / total
        return (
            log(total) + tilt * most,
            most - below * width,
            max(1e-9, (second / total - below * below) * width * width),
        )


def mix_of(
    workload: Workload,
    growths: Sequence[Growth],
    max_model_len: int,
    *,
    lookahead: int = 0,
    prefix_caching: bool = True,
) -> Mix:
    """The mix of a workload on a cache layout. ``lookahead``: slots for speculative tokens beyond each next one."""
    requests = workload.requests(max_model_len)
    prefix = workload.shared_prefix_tokens if prefix_caching else 0
    common = workload.shared_prefix_share if prefix else 0.0
    blocks = _Blocks(growths, max_model_len, lookahead)
    held: list[tuple[float, float]] = []
    ends: list[tuple[float, float]] = []
    starts: list[tuple[float, float]] = []
    moments = sum(request.output * request.weight for request in requests)
    tokens = 0.0
    shared = 0
    smooth = blocks.smooth
    for request in requests:
        prompt, output, share = request
        for own_share, saved in _prefix_cases(request, prefix, common, growths):
            shared = max(shared, saved)
            weight = share * own_share
            at_moment = weight * output / moments
            for age, part in _AGES:
                at = prompt + output * age
                held.append((max(0.0, smooth(at) - saved), at_moment * part))
            tokens += (prompt + output / 2) * at_moment
            ends.append((max(0.0, smooth(prompt + output) - saved), weight))
            starts.append((max(0.0, smooth(prompt) - saved), weight))
    longest, output = _longest(workload, max_model_len)
    start = max(1, longest - output)
    ordered = sorted(starts)
    found = Mix(
        held=_binned(held, _HELD_CELLS),
        ends=_binned(ends, _END_CELLS),
        starts=_binned(starts, _END_CELLS // 2),
        shared=shared,
        longest=blocks.exact(longest),
        longest_growth=blocks.exact(start + output) - blocks.exact(start),
        prompt_tokens=sum(request.prompt * request.weight for request in requests),
        output_tokens=moments,
        median_start=_median(ordered),
        shortest_start=ordered[0][0],
        tokens_held=tokens,
        policy=workload.policy,
    )
    return found._replace(variance=found.moments(0.0)[2])


def _longest(workload: Workload, max_model_len: int) -> tuple[int, int]:
    """(tokens of the longest request, tokens of the longest output)."""
    mix = workload.within(max_model_len)
    if mix.pairs:
        return max(p + o for p, o in mix.pairs), max(o for _, o in mix.pairs)
    output = min(max_model_len - 1, round(mix.outputs.longest))
    return min(max_model_len, round(mix.prompts.longest) + output), output


class _Blocks:
    """Blocks by tokens over all groups: exactly, and on average over where in a block the last token stands."""

    def __init__(self, growths: Sequence[Growth], limit: int, lookahead: int) -> None:
        self._growths = growths
        self._limit = limit
        self._lookahead = lookahead
        # What grows without bound is one line; the last token stands anywhere in its block.
        growing = [growth for growth in growths if not growth.fixed]
        free = [growth for growth in growing if growth.keep < 0]
        self._slope = sum(growth.copies / growth.block_size for growth in free)
        self._base = float(sum(growth.copies * growth.fixed for growth in growths))
        self._base += sum(growth.copies * growth.extra for growth in growing)
        self._base += sum(growth.copies * (growth.block_size - 1) / (2 * growth.block_size) for growth in free)
        self._capped = [(growth.copies, growth.block_size, growth.cap()) for growth in growing if growth.keep >= 0]

    def exact(self, tokens: int) -> int:
        return blocks_of(self._growths, min(tokens + self._lookahead, self._limit))

    def smooth(self, tokens: float) -> float:
        slots = tokens + self._lookahead
        if slots > self._limit:
            slots = self._limit
        total = self._base + slots * self._slope
        for copies, size, cap in self._capped:
            blocks = slots / size + (size - 1) / (2 * size)
            total += copies * (blocks if blocks < cap else cap)
        return total


def _prefix_cases(request: Weighted, prefix: int, common: float, growths: Sequence[Growth]) -> list[tuple[float, int]]:
    """(share of requests, blocks that it holds together with others): with and without the common prefix."""
    if not prefix or not common:
        return [(1.0, 0)]
    saved = shared_blocks_of(growths, min(prefix, request.prompt - 1))
    return [(common, saved), (1 - common, 0)] if common < 1 else [(1.0, saved)]


def _binned(points: Sequence[tuple[float, float]], cells: int) -> tuple[tuple[float, float], ...]:
    """The distribution on ``cells`` + 1 equidistant values (on one where all are equal), each point divided over its neighbours so that the
    mean stays."""
    low, high = min(points)[0], max(points)[0]
    if high - low < 1e-9:
        return ((high, 1.0),)
    width = (high - low) / cells
    weights = [0.0] * (cells + 1)
    for value, weight in points:
        place = (value - low) / width
        index = min(cells - 1, int(place))
        part = place - index
        weights[index] += weight * (1 - part)
        weights[index + 1] += weight * part
    total = sum(weights)
    return tuple((low + index * width, weight / total) for index, weight in enumerate(weights))


def _median(ordered: Sequence[tuple[float, float]]) -> float:
    reached = 0.0
    for value, weight in ordered:
        reached += weight
        if reached >= 0.5:
            return value
    return ordered[-1][0]
