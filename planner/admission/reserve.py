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
from math import ceil
from typing import NamedTuple

from planner.admission.capacity import Cache
from planner.admission.growth import Growth
from planner.admission.mix import Mix
from planner.admission.risk import Overflow, blocks_needed, most_running, overflow

POLICIES = ("next-step", "finish-longest", "quantile", "worst-case")


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
    ``required``: the larger of ``finish-longest`` and ``quantile``: the reserve that the plan holds to. ``available``:
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


def reserve_of(policy: str, cache: Cache, mix: Mix, running: int, risk: float, blocks: int | None = None) -> Reserve:
    """The reserve that a policy keeps for ``running`` requests. Raises ValueError for a policy that there is not."""
    usable = cache.blocks if blocks is None else blocks
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
    return Reserve(policy, running, held, needed - held, needed, max(0, needed - usable))


def progress(cache: Cache, mix: Mix, running: int, risk: float, blocks: int | None = None) -> Progress:
    """The reserve of one engine copy with ``running`` requests at a time; ``blocks`` in place of the cache's own."""
    usable = cache.blocks if blocks is None else blocks
    let_in = running
    if cache.watermark_blocks:
        # The engine lets nobody in above the watermark: what runs is what fits below it on average.
        let_in = max(1, min(running, int((usable - mix.shared - cache.watermark_blocks) / max(1e-9, mix.mean))))
    policies = tuple(reserve_of(policy, cache, mix, let_in, risk, usable) for policy in POLICIES)
    required = max(policies[1:3], key=lambda policy: policy.needed)
    most = _most(cache, mix, risk, usable, running)
    watermark = 0.0
    if most < running:
        kept_free = usable - mix.shared - most * mix.mean
        watermark = min(0.99, ceil(1000 * kept_free / (usable + 1)) / 1000) if kept_free > 0 else 0.0
    return Progress(
        running=let_in,
        policies=policies,
        required=required,
        available=max(0, usable - required.reserved),
        engine_keeps=cache.watermark_blocks,
        overflow=overflow(mix, let_in, usable, prompts_wait=cache.prompts_wait),
        most_running=most,
        watermark=watermark,
    )


def _most(cache: Cache, mix: Mix, risk: float, usable: int, at_most: int) -> int:
    """The most running requests that keep both the quantile and the longest request's way to its end."""
    quantile = most_running(mix, usable, risk, prompts_wait=cache.prompts_wait, at_most=max(1, at_most))
    low, high = 0, quantile
    while low < high:
        middle = (low + high + 1) // 2
        if reserve_of("finish-longest", cache, mix, middle, risk, usable).missing == 0:
            low = middle
        else:
            high = middle - 1
    return low
