"""What ``planner simulate`` shows: the outcome as text with a drawing, and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from planner.report.occupancy import draw

if TYPE_CHECKING:
    from planner.admission.scheduler import Outcome, Scheduler

#: how many of the requests that never ran are named
_NAMED = 5


def render_json(outcome: Outcome) -> str:
    """The contract of ``planner simulate --format json`` (DESIGN §6), and what else the simulation knows."""
    document: dict[str, Any] = {
        "schema": "planner/v1",
        "steps": outcome.steps,
        "preemptions": outcome.preemptions,
        "peak_blocks": outcome.peak_blocks,
        "mean_blocks": outcome.mean_blocks,
        "peak_running": outcome.peak_running,
        "recomputed_tokens": outcome.recomputed_tokens,
        "mean_running": round(outcome.mean_running, 2),
        "finished": outcome.finished,
        "preempted_requests": outcome.preempted_requests,
        "generated_tokens": outcome.generated_tokens,
        "rejected": [{"request": number, "reason": reason} for number, reason in outcome.rejected[:1000]],
        "rejected_requests": len(outcome.rejected),
    }
    return json.dumps(document, indent=1) + "\n"


def render_text(outcome: Outcome, scheduler: Scheduler, notes: tuple[str, ...] = (), *, plain: bool = False) -> str:
    """The outcome for people; ``notes`` say what was assumed."""
    blocks = scheduler.num_blocks
    seconds = scheduler.step_seconds > 0
    lines = [f"{outcome.finished:,} requests in {outcome.steps:,} steps, {outcome.generated_tokens:,} tokens generated"]
    if seconds:
        lines.append(f"  time                {outcome.clock:,.1f} s")
    lines += [
        f"  running             {outcome.mean_running:,.1f} on average, {outcome.peak_running:,} at most"
        f" (max-num-seqs {scheduler.max_num_seqs:,})",
        f"  blocks in use       {outcome.mean_blocks:,.1f} on average, {outcome.peak_blocks:,} at most, of {blocks:,}",
        f"  preemptions         {outcome.preemptions:,}"
        + (
            f" of {outcome.preempted_requests:,} requests; {outcome.recomputed_tokens:,} tokens computed again"
            if outcome.preemptions
            else ""
        ),
    ]
    if outcome.rejected:
        lines.append(f"  never run           {len(outcome.rejected):,} requests that the engine refuses:")
        lines += [f"    request {number + 1:,} {reason}" for number, reason in outcome.rejected[:_NAMED]]
        if len(outcome.rejected) > _NAMED:
            lines.append("    …")
    lines += [f"  {note}" for note in notes]
    drawing = draw(outcome.timeline, blocks, unit="s" if seconds else "steps", plain=plain)
    return "\n".join([*lines, "", *drawing] if drawing else lines) + "\n"
