"""Facts of the sampler's warm-up: its buffers for every sequence that may run, beside graphs and cache.

After the graphs are captured the engine samples once for ``max-num-seqs`` sequences. Its buffers are as large as sequences ×
vocabulary. What the profile run set aside for its peak is free again by then, and what is left outside the share; but not
all of it can be had in one piece, and model runner V2 does not try the whole sampler in its profile run before 0.33.
Sources: reference on vLLM's memory, 1.1 (step 13) and 6.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.memory.budget import RankBudget
    from planner.plan import Plan

#: What fragmentation adds: a failed warm-up on two RTX 4090 had 0.9 GiB reserved and not usable beside buffers of 1.4 GiB
#: (vLLM issue 33920), one on H100 needed 4.3 GiB for buffers of 3.7 (vLLM pull request 48601).
_FRAGMENTS = 1.25


def sampler_facts(plan: Plan, rank: RankBudget) -> dict[str, Any]:
    """``rank.sampler``: bytes that the warm-up ``needs`` and that are left for it (``room``), and the most sequences that
    surely pass; empty where this rank does not sample, where the release does not warm up, and where there is no room even
    without a sampler (which other rules say)."""
    model, config = plan.model, plan.effective
    if plan.engine.engine != "vllm" or model is None or config is None or model.pooling:
        return {}
    if config.runner == "v0" or config.version < (0, 8) or rank.pipeline_rank != config.parallel.pipeline - 1:
        return {}
    from planner.memory.activations import sampler_kind
    from planner.memory.coefficients import SAMPLER_BYTES
    from planner.memory.runtime import charges_whole_device

    rows = min(config.max_num_seqs.value, config.max_num_batched_tokens.value)
    kind = config.sampler if config.sampler in SAMPLER_BYTES else "torch"
    per_row = SAMPLER_BYTES[kind][1] * model.vocab_size
    needed = int(rows * per_row * _FRAGMENTS)
    graphs = rank.terms["graphs"]
    before = 0 if charges_whole_device(config) else rank.bytes("baseline").expected
    late = before + (0 if graphs.counted else graphs.bytes.expected)
    if config.cache_stated:
        blocks = rank.num_blocks.expected if rank.num_blocks is not None else 0
        cache = blocks * rank.kv.bytes_per_block if rank.kv is not None else 0
        taken = sum(rank.bytes(name).expected for name in ("weights", "non_torch", "baseline", "graphs"))
        room = slack = rank.bytes("device").expected - taken - cache
        profiled = False
    else:
        slack = rank.bytes("outside").expected - late
        room = slack + rank.bytes("activations").expected
        profiled = sampler_kind(config) == kind
    if slack < 0:
        return {}  # it is not the sampler that does not fit
    # Fewer sequences leave as much less of the profile run's peak, where the sampler is what makes it.
    most = slack / ((_FRAGMENTS - 1) * per_row) if profiled else room / (_FRAGMENTS * per_row)
    return {
        "rows": rows,
        "vocabulary": model.vocab_size,
        "needed": needed,
        "room": room,
        "advice": f"Lower --max-num-seqs to {_round(int(most))}" if most >= 1 else "Lower --max-num-seqs",
    }


def _round(count: int) -> int:
    """Down to what people would write."""
    step = 16 if count >= 32 else 1
    return max(1, count // step * step)
