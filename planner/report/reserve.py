"""Admission and the progress reserve as lines of ``planner budget``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.lint.message import printable
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.plan import Plan

_MEANING = {
    "next-step": "every running request takes its next step",
    "finish-longest": "and one of the longest goes from its prompt to its end",
    "quantile": "nobody is preempted while the running set turns over",
    "worst-case": "all running requests at the longest",
}


def reserve_lines(plan: Plan, explain: bool = False) -> Iterator[str]:
    """What the running requests hold, what is kept back for their progress, and the risk; nothing where it is unknown."""
    from planner.facts.admission import admission, outside_bytes, percent

    found = admission(plan)
    if found is None:
        return
    workload, progress, mix = found.workload, found.progress, found.mix
    assumed = "assumed: " if workload.lengths_assumed else ""
    yield f"  workload     {assumed}{printable(workload.describe())}  ({printable(workload.source)})"
    copies = f" in each of {found.cache.copies} engine copies" if found.cache.copies > 1 else ""
    yield f"  admission: {progress.running:,} requests at a time{copies}, of {found.cache.blocks:,} usable blocks"
    required = progress.required
    missing = f"  {required.missing:,} blocks too few" if required.missing else ""
    yield (
        f"    held on average {required.held:,} blocks · reserved for their progress {required.reserved:,} "
        f"({required.policy}) · for new requests {progress.available:,}{missing}"
    )
    risk = progress.overflow
    cost = (
        f"; about {risk.preemptions:.2g} preemptions and {risk.recomputed_tokens:,.0f} recomputed tokens per request"
        if risk.risk >= 1e-4
        else ""
    )
    yield f"    risk of a preemption per turnover: {percent(risk.risk)} (wanted {percent(workload.risk)}){cost}"
    capacity = found.capacity
    yield (
        f"    holds {capacity.full_length:,.2f} requests of the maximum length, {capacity.of_mix:,.1f} of this mix on average "
        f"({capacity.tokens_of_mix:,} tokens), {capacity.of_mix_at_risk:,} with the reserve"
    )
    count = found.cache.copies
    if count > 1:
        yield (
            f"    in the deployment: {capacity.full_length * count:,.2f}, {capacity.of_mix * count:,.1f} "
            f"({capacity.tokens_of_mix * count:,} tokens) and {capacity.of_mix_at_risk * count:,}"
        )
    spare = outside_bytes(plan)
    if spare is not None:
        yield (
            f"    beside the pool {format_gib(spare['expected'])} of the device are left for transient peaks "
            f"({format_gib(spare['low'])} to {format_gib(spare['high'])})"
        )
    if not progress.kept and progress.watermark:
        yield f"    or any number of them with --watermark {progress.watermark:g}"
    if explain:
        yield (
            f"          mean prompt {mix.prompt_tokens:,.0f}, mean output {mix.output_tokens:,.0f} tokens; a running request "
            f"holds {mix.mean:,.1f} blocks (long outputs are met more often), {mix.shared:,} shared once"
        )
        for policy in progress.policies:
            lack = f", {policy.missing:,} too few" if policy.missing else ""
            yield (
                f"          {policy.policy:<15} reserves {policy.reserved:>8,} blocks, needs {policy.needed:>8,}{lack}"
                f"  ({_MEANING[policy.policy]})"
            )
        if progress.engine_keeps:
            yield f"          the engine's own watermark keeps {progress.engine_keeps:,} blocks free at admission"
