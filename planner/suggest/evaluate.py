"""One configuration of an engine copy: does it start, and how many requests does it keep the progress reserve for?

Both forms of ``planner suggest`` ask this question; it is answered by the same plan and the same facts that rules read, so
that a suggestion cannot disagree with ``planner lint``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.admission.capacity import Cache
    from planner.admission.mix import Mix
    from planner.admission.workload import Workload
    from planner.plan import Plan
    from planner.provenance import Unknown

#: The largest share of a device that is suggested: what no profile run sees (penalties, log probabilities, fragments)
#: needs a byte reserve too.
MOST_UTILIZATION = 0.95
#: Steps in which utilization is suggested.
_STEP = 100


class Judged:
    """What one configuration does; worked out as far as somebody asks.

    ``starts``: whether it surely starts (every estimate at its unfavourable end, and what lives outside the budget fits).
    ``cache``, ``workload``: the pool of one engine copy and the demand, None where they are not known; ``reason`` then says
    why, or why the configuration does not start.
    """

    def __init__(self, plan: Plan, mixes: dict[tuple[Any, ...], Mix]) -> None:
        from planner.facts.demand import cache, demand

        self.plan = plan
        self._mixes = mixes
        self._most: int | None = None
        self.cache: Cache | None = None
        self.workload: Workload | None = None
        self.sequences = plan.effective.max_num_seqs.value if plan.effective else 0
        self._gap: Unknown | None = None
        budget = plan.budget
        self.starts = budget is not None and budget.verdict == "fits"
        blocks = budget.ranks[0].num_blocks if budget is not None and budget.ranks else None
        if self.starts and blocks is not None:
            self.workload, self._gap = demand(plan)
            self.cache = cache(plan, blocks.expected) if blocks.high > 0 else None

    @property
    def reason(self) -> str:
        """Why it does not start, or why it is not known what it serves; empty where neither is so."""
        if not self.starts:
            return _reason(self.plan)
        if self.cache is not None and self.workload is not None:
            return ""
        ranks = self.plan.budget.ranks if self.plan.budget else ()
        if ranks and ranks[0].kv is not None and not ranks[0].kv.groups:
            return "the model keeps no KV cache: no request grows, and no reserve is needed"
        return self._gap.reason if self._gap else "the layout of the KV cache is not known for this model and release"

    @property
    def mix(self) -> Mix | None:
        """The workload's requests on this cache."""
        pool, workload = self.cache, self.workload
        if pool is None or workload is None:
            return None
        key = (pool.growths, pool.max_model_len, pool.lookahead, pool.prefix_caching)
        if key not in self._mixes:
            from planner.admission.mix import mix_of

            self._mixes[key] = mix_of(
                workload,
                pool.growths,
                pool.max_model_len,
                lookahead=pool.lookahead,
                prefix_caching=pool.prefix_caching,
            )
        return self._mixes[key]

    @property
    def most(self) -> int:
        """Requests at a time that keep the reserve in one engine copy; 0 where it does not start or that is not known."""
        if self._most is None:
            from planner.admission.reserve import most_kept

            mix, pool, workload = self.mix, self.cache, self.workload
            known = mix is not None and pool is not None and workload is not None
            self._most = most_kept(pool, mix, workload.risk) if known else 0  # type: ignore[arg-type, union-attr]
        return self._most

    def serves(self, requests: int) -> bool:
        """Whether one copy serves this many requests at a time: it lets them in and keeps their reserve."""
        return self.sequences >= requests and self.keeps(requests)

    def keeps(self, requests: int) -> bool:
        """Whether the cache keeps the reserve for this many requests at a time, by the count of the rules (``most`` is the
        risk's own, which may differ in the last one)."""
        from planner.admission.reserve import keeps

        mix, pool, workload = self.mix, self.cache, self.workload
        if mix is None or pool is None or workload is None:
            return False
        return keeps(pool, mix, requests, workload.risk)


class Judge:
    """Judges plans of one workload; remembers mixes of requests, which depend on the cache's layout alone."""

    def __init__(self) -> None:
        self._mixes: dict[tuple[Any, ...], Mix] = {}

    def __call__(self, plan: Plan) -> Judged:
        """Whether the plan's configuration starts and what it serves."""
        return Judged(plan, self._mixes)


def _reason(plan: Plan) -> str:
    """Why a plan's configuration does not surely start, in a sentence with numbers."""
    from planner.units import format_gib

    budget = plan.budget
    if budget is None:
        return plan.unknown[0].reason if plan.unknown else "the budget is not known"
    if not budget.ranks:
        return "; ".join(budget.notes) or "the engine refuses this layout"
    rank = budget.ranks[budget.tightest]
    weights, room = rank.bytes("weights"), rank.bytes("requested")
    left = rank.bytes("kv_available")
    if weights.expected > room.expected:
        return f"weights need {format_gib(weights.expected)} a GPU of {format_gib(room.expected)}"
    if left.low <= 0:
        return f"weights, activations and runtime leave {format_gib(max(0, left.expected))} a GPU for the KV cache"
    config = plan.effective
    if rank.kv is not None and config is not None:
        request = rank.kv.blocks_per_request * rank.kv.bytes_per_block
        if left.low < request:
            return (
                f"one request of {config.max_model_len.value:,} tokens needs {format_gib(request)} a GPU, of which surely "
                f"{format_gib(left.low)} are left for the KV cache"
            )
    return f"what lives outside the engine's share ({format_gib(rank.bytes('outside').expected)}) is too small"


def utilization_limit(plan: Plan) -> float:
    """The largest ``gpu-memory-utilization`` (a multiple of 0.01, at most ``MOST_UTILIZATION``) at which the free memory
    and what lives outside surely suffice for a plan's settings (their own share aside); 0 where none does.

    Formula: device × (1 − u) must hold the baseline, its errors added in squares, and at the expected ends the graphs that
    the release does not subtract (``memory/vllm_budget.py``, ``_enough_free`` and ``_survives_warm_up``).
    """
    from planner.memory.graphs import counts_graphs, graph_memory
    from planner.memory.runtime import baseline

    config, model, accelerator = plan.effective, plan.model, plan.accelerator
    if config is None or model is None or accelerator is None:
        return 0.0
    device, base = accelerator.memory, baseline(config, accelerator).bytes
    counted = counts_graphs(config, accelerator)
    late = base.expected + (0 if counted else graph_memory(model, config, accelerator).bytes.expected)
    for step in range(round(MOST_UTILIZATION * _STEP), 0, -1):
        share = step / _STEP
        outside = device.expected - math.ceil(device.expected * share)
        low = device.low - math.ceil(device.low * share)
        margin = math.hypot(outside - low, base.high - base.expected)
        if outside - base.expected >= margin and outside >= late:
            return share
    return 0.0


def watermark_for(judged: Judged) -> float:
    """The share of blocks that ``--watermark`` has to keep free so that the reserve holds however many requests the engine
    would let in; 0 where the release has no such setting, or none below 0.3 keeps it."""
    from planner.admission.reserve import watermark_share
    from planner.admission.scheduler_facts import WATERMARK_SINCE

    config = judged.plan.effective
    if config is None or config.version < WATERMARK_SINCE or judged.mix is None or judged.cache is None:
        return 0.0
    risk = judged.workload.risk if judged.workload else 0.01
    return watermark_share(judged.cache, judged.mix, risk)
