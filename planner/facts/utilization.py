"""Facts of the engine's share of a device: which values of it work at all, and whether so much is free at the start.

Too small a share leaves no room for one request beside the weights; too large a one takes what context, communicators and
graphs need outside of it. Sources: reference on vLLM's memory, 1.2 and 1.3; reference on SGLang's memory, 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from planner.record import NamedTuple

if TYPE_CHECKING:
    from planner.memory.budget import RankBudget
    from planner.plan import Plan

#: Names of the flag that sets the share, by engine.
_FLAGS = {"vllm": "gpu-memory-utilization", "sglang": "mem-fraction-static"}
#: What SGLang keeps outside its share.
_SGLANG_OUTSIDE = ("activations", "non_torch", "graphs", "request_table")
_ENDS = ("low", "expected", "high")


class _Share(NamedTuple):
    """Bytes of one rank at one end of the estimates: the whole that the share is a part of, what stands inside whatever is
    served, the cache of one request, and what must stay outside."""

    whole: int
    inside: int
    request: int
    outside: int

    @property
    def least(self) -> float:
        """The smallest share that starts."""
        return (self.inside + self.request) / max(1, self.whole)

    @property
    def most(self) -> float:
        """The largest share that leaves room outside."""
        return min(1.0, 1 - self.outside / max(1, self.whole))


def utilization_facts(plan: Plan) -> dict[str, Any]:
    """``budget.utilization``: ``least`` and ``most``, the bounds of the share over all ranks, each at its favourable
    (``sure``: nothing better is possible) and its expected end, as parts of 1; empty where a size of the cache is stated."""
    flag = _FLAGS.get(plan.engine.engine)
    config, budget = plan.effective, plan.budget
    if flag is None or config is None or budget is None or not budget.ranks:
        return {}
    if config.cache_stated:
        return {}
    ranks = list(_distinct(budget.ranks))
    favourable = [_share(plan, rank, "low") for rank in ranks]
    expected = [_share(plan, rank, "expected") for rank in ranks]
    if not all((*favourable, *expected)):
        return {}
    bounds = {
        name: (max(s.least for s in shares if s), min(s.most for s in shares if s))
        for name, shares in (("sure", favourable), ("expected", expected))
    }
    facts: dict[str, Any] = {
        "flag": flag,
        "least": {name: least for name, (least, _) in bounds.items()},
        "most": {name: most for name, (_, most) in bounds.items()},
        "weights_fit": all(s.inside <= s.most * s.whole for s in favourable if s),
    }
    least, most = bounds["expected"]
    if least > most:
        tight = max((s for s in expected if s), key=lambda share: share.least)
        facts.update(
            least_text=f"{math.ceil(least * 1000) / 1000:.3f}",
            most_text=f"{math.floor(max(0.0, most) * 1000) / 1000:.3f}",
            inside=tight.inside,
            request=tight.request,
            outside=tight.outside,
            advice=_advice(plan, ranks, flag, most),
        )
    return facts


def free_at_start_facts(plan: Plan, rank: RankBudget) -> dict[str, Any]:
    """Whether this release refuses to start where less than its share is free (``checked``), and the largest share that
    surely passes, as text. Source: reference on vLLM's memory, 1.3 (V1 from 0.9.1 on)."""
    config = plan.effective
    if plan.engine.engine != "vllm" or config is None:
        return {"checked": False}
    facts: dict[str, Any] = {"checked": config.runner != "v0" and config.version >= (0, 9, 1)}
    if facts["checked"]:
        device, before = rank.bytes("device"), rank.bytes("baseline")
        facts["expected"] = device.expected - before.expected
        most = math.floor(100 * (1 - before.high / max(1, device.low))) / 100
        facts["most_text"] = f"{most:g}" if most > 0 else "a share that is free"
    return facts


def _distinct(ranks: Iterable[RankBudget]) -> Iterable[RankBudget]:
    """One rank of each pipeline stage; the others have the same terms."""
    seen = set()
    for rank in ranks:
        if rank.pipeline_rank not in seen:
            seen.add(rank.pipeline_rank)
            yield rank


def _share(plan: Plan, rank: RankBudget, end: str) -> _Share | None:
    """The rank's bytes with all needs at one end, on a device that is as large as it may be at the favourable one."""
    config = plan.effective
    if config is None:
        return None

    def size(name: str) -> int:
        return int(getattr(rank.terms[name].bytes, end)) if name in rank.terms else 0

    device = rank.bytes("device").high if end == "low" else rank.bytes("device").expected
    if plan.engine.engine == "sglang":
        # The share is one of what is free when the engine looks; a pool of one page starts.
        draft = rank.terms.get("draft")
        inside = size("weights") + (size("draft") if draft is not None and draft.counted else 0)
        outside = sum(size(name) for name in _SGLANG_OUTSIDE)
        page = rank.kv.bytes_per_block if rank.kv is not None else 0
        return _Share(device - size("baseline"), inside, page, outside)
    if rank.kv is None:
        return None
    from planner.memory.kv_cache import least_bytes
    from planner.memory.runtime import charges_whole_device

    graphs = rank.terms["graphs"]
    inside = sum(size(name) for name in ("weights", "activations", "non_torch")) + config.frontend_reserved
    outside = 0 if charges_whole_device(config) else size("baseline")
    if graphs.counted:
        inside += size("graphs")
    else:
        outside += size("graphs")
    length = 1 if config.max_model_len_auto else None
    return _Share(device, inside, least_bytes(rank.kv, config.version, length), outside)


def _advice(plan: Plan, ranks: list[RankBudget], flag: str, most: float) -> str:
    """What to change instead: a shorter length where one fits beside the largest share that works."""
    config = plan.effective
    other = "use more or larger GPUs, a quantized checkpoint, or fewer --max-num-batched-tokens and --max-num-seqs."
    if config is None or plan.engine.engine != "vllm":
        return other[0].upper() + other[1:]
    from planner.memory.kv_cache import longest_of_plans

    share = math.floor(max(0.0, most) * 100) / 100
    plans, available = [], []
    for rank in ranks:
        bytes_ = _share(plan, rank, "expected")
        if rank.kv is not None and bytes_ is not None:
            plans.append(rank.kv)
            available.append(int(share * bytes_.whole) - bytes_.inside)
    length = longest_of_plans(plans, available, config.version, config.max_model_len.value)
    if length < 256:
        return other[0].upper() + other[1:]
    step = 1024 if length >= 2048 else 16
    return f"Lower --max-model-len to about {length // step * step} at --{flag} {share:g}, or {other}"
