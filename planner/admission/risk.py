"""How likely it is that running requests outgrow the cache, and what that costs.

*The question.* n requests run, each replaced by the next as it ends. The risk is the probability that one of them is
preempted while the running set turns over once, that is in the time of an average output.

*The answer.* The blocks that n requests hold are a sum of n independent length-biased variables. Its far tail is the
saddlepoint approximation of Lugannani and Rice (1980), which is good for few requests and heavy tails where the normal
approximation is not. The sum moves as requests grow and leave, so the tail at one moment is not the risk over a time:
near a high level b it behaves like Brownian motion with a drift away from it, and the number of times that it comes to b
anew is (Pickands 1969; here with the exponential tilt θ of the level in place of the Gaussian b/σ)

    p₀ · n · E[e^θF − e^θP (1 + θ(F − P))] / E[e^θX],        p₀ the tail, F the blocks of a request at its end,
                                                             P those of the one that takes its place, X at a moment.

Of these, only the share that comes from growth preempts anybody: a prompt that does not fit waits (from vLLM 0.19 on).
"""

from __future__ import annotations

from collections.abc import Callable
from math import erfc, exp, expm1, log, pi, sqrt
from typing import NamedTuple

from planner.admission.mix import Mix

_STEPS = 60
#: beyond this the queue is never empty and the cache always full
_SATURATED = 0.5


class Overflow(NamedTuple):
    """``risk``: that somebody is preempted while the running set turns over. ``tail``: that the running requests would
    hold more blocks than there are at a random moment. ``preemptions`` and ``recomputed_tokens``: expected per request."""

    risk: float
    tail: float
    preemptions: float
    recomputed_tokens: float


def overflow(mix: Mix, running: float, blocks: float, *, prompts_wait: bool = True) -> Overflow:
    """The risk that ``running`` requests outgrow ``blocks`` (all that requests may have, the null block excluded).

    ``prompts_wait``: whether admission looks at the whole prompt; else a prompt that is let in too early preempts too.
    """
    room = blocks - mix.shared
    if running <= 0 or room >= running * mix.most:
        return Overflow(0.0, 0.0, 0.0, 0.0)
    if room <= running * mix.mean:
        return _saturated(mix, room)
    tilt = _tilt_for(lambda t: running * mix.moments(t)[1] - room)
    return _at(mix, running, tilt, prompts_wait)[1]


def blocks_needed(mix: Mix, running: int, risk: float, *, prompts_wait: bool = True) -> int:
    """The fewest blocks (without the null block) in which ``running`` requests keep the risk."""
    if running <= 0:
        return mix.shared
    most = running * mix.most
    if len(mix.held) == 1:
        return mix.shared + _up(most)
    tilt = _tilt_for(lambda t: risk - _at(mix, running, t, prompts_wait)[1].risk)
    return mix.shared + _up(min(most, _at(mix, running, tilt, prompts_wait)[0]))


def most_running(mix: Mix, blocks: int, risk: float, *, prompts_wait: bool = True, at_most: int = 1 << 30) -> int:
    """The most requests that run in ``blocks`` (without the null block) at this risk; 0 where none does."""
    room = blocks - mix.shared
    low, high = 0, int(min(at_most, max(0.0, room / max(1e-9, mix.mean))))
    while low < high:
        middle = (low + high + 1) // 2
        if overflow(mix, middle, blocks, prompts_wait=prompts_wait).risk <= risk:
            low = middle
        else:
            high = middle - 1
    return low


def _at(mix: Mix, running: float, tilt: float, prompts_wait: bool) -> tuple[float, Overflow]:
    """(level in blocks, risk at it) where the sum's exponential tilt is ``tilt``."""
    cumulant, mean, variance = mix.moments(tilt)
    level = running * mean
    tail, density = _lugannani_rice(tilt, running * cumulant, level, running * variance)
    if tail <= 0:
        return level, Overflow(0.0, 0.0, 0.0, 0.0)
    # How fast the tail falls at the level itself: the tilt far out, more than that near the mean.
    fall = max(tilt, density / tail)
    cumulant = mix.moments(fall)[0]
    ends = [(f, share * exp(min(700.0, fall * f - cumulant))) for f, share in mix.ends]
    starts = [(p, share, share * exp(min(700.0, fall * p - cumulant))) for p, share in mix.starts]
    growth = max(1e-9, mix.mean_growth)
    down = up = anew = waits = 0.0
    for f, f_weight in ends:
        f_share = f_weight * exp(min(700.0, cumulant - fall * f))
        for p, p_share, p_weight in starts:
            change = f_weight * p_share - p_weight * f_share
            if change > 0:
                down += change
                anew += change - p_weight * f_share * fall * (f - p)
            else:
                up -= change
                waits -= change * growth / p * -expm1(-p / growth)
    if down <= 0:
        return level, Overflow(0.0, tail, 0.0, 0.0)
    crossings = tail * running * (down - up)
    alone = min(1.0, (1 / running + anew) / down)
    # Only growth preempts: comings back by a prompt that then waits do not end a cluster, nor do they count.
    grown = (down - up) / down if prompts_wait else 1.0
    alone /= 1 - (1 - alone) * (1 - grown)
    rate = crossings * alone + tail * running * (waits if prompts_wait else up)
    # Every time that growth comes to the level somebody goes: more often than anew, since it comes in clusters.
    each = (crossings + tail * running * (waits if prompts_wait else up)) / running
    return level, Overflow(-expm1(-min(rate, 50.0)), tail, each, each * _victim(mix, running))


def _victim(mix: Mix, running: float) -> float:
    """Tokens that a preempted request has computed: the last one in is the victim, two arrivals old on average."""
    return mix.prompt_tokens + min(mix.output_tokens, 2 * mix.output_tokens / max(1.0, running))


def _saturated(mix: Mix, room: float) -> Overflow:
    """More demand than cache: the queue never empties and every block is taken again at once.

    Between two ends growth takes G = (output blocks) from what the last admission left over, and then from victims of V
    blocks each, the youngest first; with exponential times between ends the number of victims is geometric.
    """
    running = max(1.0, room / max(1e-9, mix.mean))
    start = sum(blocks * share for blocks, share in mix.starts)
    grown = max(1e-9, sum(blocks * share for blocks, share in mix.ends) - start)
    tokens = _victim(mix, running)
    victim = max(1.0, start + grown * (tokens - mix.prompt_tokens) / max(1.0, mix.output_tokens))
    left_over = sum(share * grown / max(1e-9, p) * -expm1(-p / grown) for p, share in mix.starts)
    preemptions = left_over / -expm1(-victim / grown)
    if running <= 1:
        preemptions = 0.0  # alone it is never preempted: the engine has made sure of that
    return Overflow(1.0 if running > 1 else 0.0, _SATURATED, preemptions, preemptions * tokens)


def _lugannani_rice(tilt: float, cumulant: float, level: float, variance: float) -> tuple[float, float]:
    """(P(sum ≥ level), density of the sum at the level), the tilt being the saddlepoint of the level."""
    root = sqrt(max(0.0, 2 * (tilt * level - cumulant)))
    scaled = tilt * sqrt(variance)
    normal = exp(-root * root / 2) / sqrt(2 * pi)
    if root < 1e-4:
        return 0.5, normal / sqrt(variance)
    return min(1.0, max(0.0, 0.5 * erfc(root / sqrt(2)) + normal * (1 / scaled - 1 / root))), normal / sqrt(variance)


def _tilt_for(rising: Callable[[float], float]) -> float:
    """The tilt at which a function that rises with it passes zero (bisection on a logarithmic scale)."""
    low, high = 1e-9, 1e3
    if rising(low) >= 0:
        return low
    for _ in range(_STEPS):
        middle = sqrt(low * high)
        if rising(middle) >= 0:
            high = middle
        else:
            low = middle
        if log(high / low) < 1e-4:
            break
    return high


def _up(value: float) -> int:
    whole = int(value)
    return whole if value <= whole else whole + 1
