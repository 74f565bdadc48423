"""How long an engine takes from container start until it answers: loading, compiling, capturing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.plan import Plan

#: Bytes per second of reading weights: page cache or local NVMe at best, a shared network volume as a rule.
_FAST, _USUAL = 5e9, 0.5e9
#: Seconds of imports, distributed start and profile run; and of compiling and capturing graphs where that is on.
_START_FAST, _START_USUAL = 15, 45
_COMPILE_FAST, _COMPILE_USUAL = 10, 60


def load_seconds(plan: Plan) -> dict[str, int] | None:
    """``fast``: no start is quicker; ``usual``: a start from a volume that is no faster than most. None where the weights
    are not known.

    Weights of all ranks of a pod are read through the same volume. Measured starts in public logs (13 s for 15 GiB out of
    the page cache, 10 minutes for 109B parameters from a network volume: F002, F004) lie between or above the two.
    """
    budget, config = plan.budget, plan.effective
    if budget is None or config is None or not budget.ranks:
        return None
    pod = budget.ranks[0].pod
    weights = sum(rank.terms["weights"].bytes.low for rank in budget.ranks if rank.pod == pod)
    eager = config.enforce_eager.value
    return {
        "fast": int(weights / _FAST) + _START_FAST + (0 if eager else _COMPILE_FAST),
        "usual": int(weights / _USUAL) + _START_USUAL + (0 if eager else _COMPILE_USUAL),
    }


def startup_facts(plan: Plan) -> dict[str, Any]:
    """``window``: seconds until the kubelet kills a container that does not answer (absent where nothing kills it), and
    ``killer``, the probe that does. A startup probe holds the liveness probe back; without one, liveness decides."""
    container = plan.container
    facts: dict[str, Any] = {}
    seconds = load_seconds(plan)
    if seconds is not None:
        facts["load_seconds"] = seconds
    if container is None:
        return facts
    startup, liveness = container.probes.get("startup"), container.probes.get("liveness")
    killer = startup or liveness
    facts["has_startup_probe"] = startup is not None
    facts["has_liveness_probe"] = liveness is not None
    if killer is not None:
        facts["window"] = killer.window
        facts["killer"] = f"{killer.kind}Probe"
    if liveness is not None:
        facts["liveness_window"] = liveness.window
        facts["liveness_initial_delay"] = liveness.initial_delay
    return facts
