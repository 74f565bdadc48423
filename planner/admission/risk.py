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

from math import erfc, exp, expm1, inf, pi, sqrt

from planner.admission.mix import Mix
from planner.record import NamedTuple

#: no sum is tilted further than this
_STEEPEST = 1e4
#: share of the largest possible sum from which on the approximation is not trusted alone
_END_OF_RANGE = 0.8


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
    if running <= 1 or room >= running * mix.most:
        return Overflow(0.0, 0.0, 0.0, 0.0)  # alone it fits: the engine made sure of that when it started
    if room <= running * mix.mean:
        return _saturated(mix, running, room)
    tilt = _tilt_of_level(mix, room / running)
    found = _at(mix, running, tilt, prompts_wait)[1]
    if room < _END_OF_RANGE * running * mix.most:
        return found
    # Where all requests would have to be at their longest the approximation breaks down, and rises; fewer blocks bound it.
    lower = [_at(mix, running, tilt * part, prompts_wait)[1] for part in (0.8, 0.6, 0.4, 0.2)]
    return min((found, *lower), key=lambda each: each.risk)


def blocks_needed(mix: Mix, running: int, risk: float, *, prompts_wait: bool = True) -> int:
    """The fewest blocks (without the null block) in which ``running`` requests keep the risk."""
    if running <= 0:
        return mix.shared
    most = running * mix.most
    if running == 1 or len(mix.held) == 1:
        return mix.shared + _up(most)
    # The risk falls as the tilt rises, up to where the approximation breaks down: the first tilt that keeps it counts.
    low = 0.0
    high = 0.1 / sqrt(running * mix.variance)
    while _at(mix, running, high, prompts_wait)[1].risk > risk:
        low, high = high, 1.5 * high
        if high * mix.most > 1e4:
            return mix.shared + _up(most)
    while high > 1.002 * low and high * sqrt(running * mix.variance) > 1e-3:
        middle = (low + high) / 2
        if _at(mix, running, middle, prompts_wait)[1].risk > risk:
            low = middle
        else:
            high = middle
    # One of the longest must fit whoever else runs: the engine does not start otherwise.
    return mix.shared + _up(min(most, max(mix.most, _at(mix, running, high, prompts_wait)[0])))


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


def watermark_needed(mix: Mix, blocks: float, risk: float) -> float:
    """Blocks that must stay free at admission so that those who are let in keep the risk, however many wait.

    Admission fills the cache up to the watermark. Above it only growth leads, at G blocks a request and turnover, and
    every end leads down by F; that process comes w blocks higher with probability e^(−s·w), where G·s = 1 − E e^(−s·F)
    (the adjustment coefficient of Cramér and Lundberg), and starts anew with every block that admission fills in:
    n·E[P] of them in a turnover. Infinite where requests grow as much as they free, so that nothing leads down.
    """
    room = blocks - mix.shared
    if len(mix.ends) == 1:
        return inf  # requests of one length that came in together stay in step for ever
    rate = _adjustment(mix)
    if rate <= 0 or _filled_in(mix, rate, room, 0.9 * room) > risk:
        return inf
    low, high = 0.0, 0.9 * room
    for _ in range(40):
        middle = (low + high) / 2
        if _filled_in(mix, rate, room, middle) > risk:
            low = middle
        else:
            high = middle
    return high


def _filled_in(mix: Mix, rate: float, room: float, watermark: float) -> float:
    """How often in a turnover growth comes from the watermark to the end of the cache."""
    running = max(1.0, (room - watermark) / max(1e-9, mix.mean))
    start = sum(blocks * share for blocks, share in mix.starts)
    return running * start * rate * exp(-min(700.0, rate * watermark))


def watermark_risk(mix: Mix, blocks: float, watermark: float) -> Overflow:
    """The risk with ``watermark`` blocks kept free at admission and more requests waiting than are let in."""
    room = blocks - mix.shared
    rate = _adjustment(mix)
    running = max(1.0, (room - watermark) / max(1e-9, mix.mean))
    each = _filled_in(mix, rate, room, watermark) if rate > 0 and len(mix.ends) > 1 else 50.0
    tail = min(1.0, exp(-min(700.0, rate * watermark)))
    full = _saturated(mix, 2 * running, room)
    preemptions = min(full.preemptions, each / running)
    tokens = full.recomputed_tokens / full.preemptions if full.preemptions else 0.0
    return Overflow(-expm1(-min(each, 50.0)), tail, preemptions, preemptions * tokens)


def _adjustment(mix: Mix) -> float:
    """The positive root s of G·s = 1 − E e^(−s·F); 0 for none."""
    growth = mix.mean_growth
    if growth <= 1e-9:
        return 1e3
    low, high = 0.0, 1 / growth
    for _ in range(50):
        middle = (low + high) / 2
        if growth * middle < 1 - sum(share * exp(-middle * f) for f, share in mix.ends):
            low = middle
        else:
            high = middle
    return low


def _at(mix: Mix, running: float, tilt: float, prompts_wait: bool) -> tuple[float, Overflow]:
    """(level in blocks, risk at it) where the sum's exponential tilt is ``tilt``."""
    cumulant, mean, variance = mix.moments(tilt)
    level = running * mean
    tail, density = _lugannani_rice(tilt, running * cumulant, level, running * variance)
    if tail <= 0:
        return level, Overflow(0.0, 0.0, 0.0, 0.0)
    # How fast the tail falls at the level itself: the tilt far out, more than that near the mean.
    # (Mills' ratio: never by more than one over the spread. At the very end of the range the approximation says nonsense.)
    fall = max(tilt, min(density / tail, tilt + 1 / sqrt(running * mix.variance)))
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
                waits -= change * (-expm1(-p / growth) * growth / p if p > 1e-9 else 1.0)
    if down <= 0:
        return level, Overflow(0.0, tail, 0.0, 0.0)
    alone = min(1.0, (1 / running + anew) / down)
    # Only growth preempts: comings back by a prompt that then waits do not end a cluster, nor do they count.
    grown = (down - up) / down if prompts_wait else 1.0
    alone /= 1 - (1 - alone) * (1 - grown)
    rate = tail * running * ((down - up) * alone + (waits if prompts_wait else up))
    weight = sum(share for _, _, share in starts)
    prompt = sum(p * share for p, _, share in starts) / weight if weight > 0 else 0.0
    preemptions, tokens = _victims(mix, running, prompt, saturated=False)
    risk = -expm1(-min(rate, 50.0))
    # Full for a share `tail` of the time, half of which admission spares it; at least what the risk itself says.
    preemptions = max(preemptions * tail / 2, risk / running)
    return level, Overflow(risk, tail, preemptions, preemptions * tokens)


def _saturated(mix: Mix, running: float, room: float) -> Overflow:
    """More demand than cache: the queue hardly ever empties and every block is taken again at once."""
    held = room / max(1e-9, mix.mean)
    if held <= 1:
        # Alone a request is never preempted: the engine has made sure of that when it started.
        return Overflow(0.0, 1.0, 0.0, 0.0)
    start = sum(blocks * share for blocks, share in mix.starts)
    preemptions, tokens = _victims(mix, held, start, saturated=True)
    # At the mean the cache is full for part of the time only; from half as much demand again on it always is.
    preemptions *= min(1.0, 0.25 + 1.5 * (running / held - 1))
    return Overflow(1.0, min(1.0, running / held / 2), preemptions, preemptions * tokens)


def _victims(mix: Mix, running: float, prompt: float, *, saturated: bool) -> tuple[float, float]:
    """(preemptions for each request that ends while the cache is full, tokens that each of them computes again).

    Between two ends growth takes G blocks, the output of one request, first from what the last admission left over and
    then from victims of V blocks each, the last ones in; with exponential times between ends their number is geometric.
    A victim came in a few ends ago: two where the queue is long, more where the cache filled up because nobody left.
    ``prompt``: blocks of the prompts that come in then.
    """
    start = sum(blocks * share for blocks, share in mix.starts)
    growth = max(1e-9, mix.mean_growth)
    way = min(0.9, (2 if saturated else 11) / max(1.0, running))
    victim = max(1.0, prompt + way * growth)
    left_over = sum(share * (-expm1(-p / growth) * growth / p if p > 1e-9 else 1.0) for p, share in mix.starts)
    tokens = mix.prompt_tokens * (prompt / start if start > 1e-9 else 1.0) + way * mix.output_tokens
    return left_over / -expm1(-victim / growth), tokens


def _lugannani_rice(tilt: float, cumulant: float, level: float, variance: float) -> tuple[float, float]:
    """(P(sum ≥ level), density of the sum at the level), the tilt being the saddlepoint of the level."""
    root = sqrt(max(0.0, 2 * (tilt * level - cumulant)))
    scaled = tilt * sqrt(variance)
    bound = exp(-root * root / 2)  # Chernoff's, which no tail exceeds
    normal = bound / sqrt(2 * pi)
    if root < 1e-4:
        return 0.5, normal / sqrt(variance)
    tail = 0.5 * erfc(root / sqrt(2)) + normal * (1 / scaled - 1 / root)
    return min(bound, max(0.0, tail)), normal / sqrt(variance)


def _tilt_of_level(mix: Mix, level: float) -> float:
    """The tilt under which a running request holds ``level`` blocks on average (above the mean, below the most)."""
    low, high = 0.0, 1 / max(1e-9, mix.most - mix.mean)
    while mix.moments(high)[1] < level and high < _STEEPEST:
        low, high = high, 2 * high
    while high > 1.001 * low and high > 1e-9:
        middle = (low + high) / 2
        if mix.moments(middle)[1] < level:
            low = middle
        else:
            high = middle
    return high


def _up(value: float) -> int:
    whole = int(value)
    return whole if value <= whole else whole + 1
