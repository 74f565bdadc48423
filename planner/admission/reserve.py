"""The progress reserve: blocks that are kept back so that requests which have been let in can finish (DESIGN §4).

The blocks that running requests hold on average are what new requests may have; the reserve is what the running ones need
on top of that until they end. Four policies say how much that is, from the least to the most:

``next-step``       every running request takes its next step (with its speculative tokens)
``finish-longest``  as well, and one request of the longest kind goes from its prompt to its end
``quantile``        no preemption while the running set turns over once, at the wanted risk
``worst-case``      every running request is of the longest kind and at its end
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf

from planner.admission.capacity import Cache
from planner.admission.growth import Growth
from planner.admission.mix import Mix
from planner.admission.risk import (
    Overflow,
    blocks_needed,
    most_running,
    overflow,
    watermark_needed,
    watermark_risk,
)
from planner.admission.workload import POLICIES as POLICIES
from planner.record import NamedTuple

#: a watermark above this wastes more of the cache than preemptions do
MOST_WATERMARK = 0.3
#: requests that run in one engine copy: beyond what any has
_MOST_RUNNING = 1 << 20


class Reserve(NamedTuple):
    """One policy in one engine copy, in blocks. ``held``: what the running requests hold on average, the shared prefix
    included; ``reserved``: kept back for their progress; ``needed``: both; ``missing``: how many there are too few."""

    policy: str
    running: int
    held: int
    reserved: int
    needed: int
    missing: int


class Progress(NamedTuple):
    """What a plan says about the progress of admitted requests in one engine copy.

    ``running``: requests that run at a time; where the engine keeps a watermark these are as many as it lets in.
    ``required``: the reserve that the plan holds to: the policy that the workload asks for, else the larger of
    ``finish-longest`` and ``quantile``. ``available``:
    blocks for new requests with that reserve kept back. ``engine_keeps``: blocks of the engine's own watermark.
    ``most_running``: running requests that keep the reserve. ``watermark``: the share of blocks that keeps it where
    the engine has such a setting (0: none does).
    """

    running: int
    policies: tuple[Reserve, ...]
    required: Reserve
    available: int
    engine_keeps: int
    overflow: Overflow
    most_running: int
    watermark: float

    @property
    def kept(self) -> bool:
        """Whether the running requests and their reserve fit."""
        return self.required.missing == 0


def next_step_blocks(growths: Sequence[Growth], lookahead: int) -> int:
    """The most blocks that one running request takes in a step of ``1 + lookahead`` tokens."""
    return sum(growth.copies * -(-(1 + lookahead) // growth.block_size) for growth in growths if not growth.fixed)


def reserve_of(policy: str, cache: Cache, mix: Mix, running: int, risk: float) -> Reserve:
    """The reserve that a policy keeps for ``running`` requests. Raises ValueError for a policy that there is not."""
    held = ceil(mix.shared + running * mix.mean)
    step = next_step_blocks(cache.growths, cache.lookahead)
    if policy == "next-step":
        needed = held + running * step
    elif policy == "finish-longest":
        needed = held + (running - 1) * step + max(step, mix.longest_growth)
    elif policy == "quantile":
        needed = max(held + 1, blocks_needed(mix, running, risk, prompts_wait=cache.prompts_wait))
    elif policy == "worst-case":
        needed = running * mix.longest
    else:
        raise ValueError(f"{policy!r} is no policy; there are {', '.join(POLICIES)}")
    # No more is ever needed than all requests at their longest.
    needed = min(needed, max(held, running * mix.longest))
    return Reserve(policy, running, held, needed - held, needed, max(0, needed - cache.blocks))


def progress(cache: Cache, mix: Mix, running: int, risk: float) -> Progress:
    """The reserve of one engine copy with ``running`` requests at a time."""
    running, limited, found = outgrowth(cache, mix, running, cache.blocks)
    policies = {policy: reserve_of(policy, cache, mix, running, risk) for policy in POLICIES}
    if limited:
        policies["quantile"] = _under_watermark(cache, mix, running, risk)
    required = max((policies[policy] for policy in _wanted(mix)), key=lambda reserve: (reserve.missing, reserve.needed))
    return Progress(
        running=running,
        policies=tuple(policies.values()),
        required=required,
        available=max(0, cache.blocks - required.reserved),
        engine_keeps=cache.watermark_blocks,
        overflow=found,
        most_running=most_kept(cache, mix, risk),
        watermark=watermark_share(cache, mix, risk),
    )


def _wanted(mix: Mix) -> tuple[str, ...]:
    """The policies that a plan holds to: the one that the workload asks for, else both of these."""
    return (mix.policy,) if mix.policy else ("finish-longest", "quantile")


def watermark_share(cache: Cache, mix: Mix, risk: float) -> float:
    """The share of blocks that a watermark must keep free for the risk, to a thousandth; 0 where none below 0.3 does, and for
    other policies than the quantile: what those ask for a watermark does not look at."""
    by_risk = cache.prompts_wait and "quantile" in _wanted(mix)
    watermark = watermark_needed(mix, cache.blocks, risk) / (cache.blocks + 1) if by_risk else inf
    return ceil(1000 * watermark) / 1000 if watermark <= MOST_WATERMARK else 0.0


def missing_blocks(cache: Cache, mix: Mix, running: int, risk: float) -> tuple[int, int]:
    """(requests that run, blocks too few for their reserve): ``progress`` without what nobody asks for."""
    running, limited, _ = outgrowth(cache, mix, running, cache.blocks)
    reserves = [
        _under_watermark(cache, mix, running, risk)
        if limited and policy == "quantile"
        else reserve_of(policy, cache, mix, running, risk)
        for policy in _wanted(mix)
    ]
    return running, max(reserve.missing for reserve in reserves)


def keeps(cache: Cache, mix: Mix, running: int, risk: float) -> bool:
    """Whether ``running`` requests fit with the reserve that the plan holds to, as the rules see it."""
    if running * mix.mean > cache.blocks - mix.shared:
        return False
    return all(reserve_of(policy, cache, mix, running, risk).missing == 0 for policy in _wanted(mix))


def outgrowth(cache: Cache, mix: Mix, running: int, usable: int) -> tuple[int, bool, Overflow]:
    """(requests that run, whether the engine's watermark decides that, the risk that they outgrow ``usable`` blocks)."""
    room = usable - mix.shared - cache.watermark_blocks
    let_in = int(room / max(1e-9, mix.mean))
    if cache.watermark_blocks > 0 and let_in < running and cache.prompts_wait:
        return max(1, let_in), True, watermark_risk(mix, usable, cache.watermark_blocks)
    return running, False, overflow(mix, running, usable, prompts_wait=cache.prompts_wait)


def _under_watermark(cache: Cache, mix: Mix, running: int, risk: float) -> Reserve:
    # The watermark decides how many run, so that the reserve is what must stay free when one is let in.
    held = max(0, cache.blocks - cache.watermark_blocks)
    reserved = min(cache.blocks, ceil(min(float(cache.blocks), watermark_needed(mix, cache.blocks, risk))))
    return Reserve("quantile", running, held, reserved, held + reserved, max(0, reserved - cache.watermark_blocks))


def most_kept(cache: Cache, mix: Mix, risk: float) -> int:
    """The most running requests of one engine copy that keep the plan's reserve at ``risk`` (0 to 1); 0 where none does.

    Without a wanted policy, both the quantile and the longest request's way to its end are kept.
    """
    if "quantile" in _wanted(mix):
        high = most_running(mix, cache.blocks, risk, prompts_wait=cache.prompts_wait, at_most=_MOST_RUNNING)
        if mix.policy:
            return high
    else:
        high = min(_MOST_RUNNING, int(max(0.0, cache.blocks - mix.shared) / max(1e-9, mix.mean)))
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        if reserve_of(mix.policy or "finish-longest", cache, mix, middle, risk).missing == 0:
            low = middle
        else:
            high = middle - 1
    return low
