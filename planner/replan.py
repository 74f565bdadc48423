"""A plan once more with another setting: what a change of one flag would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.record import replace

if TYPE_CHECKING:
    from planner.plan import Plan


def with_flag(plan: Plan, name: str, value: Any) -> Plan | None:
    """The plan as it would be with ``--name value``, whatever stands there now; measured terms stay as they are. None where
    the plan has no budget to begin with."""
    from planner.engines.config import FlagValue
    from planner.engines.dispatch import engine_modules
    from planner.plan import budgeted

    modules = engine_modules(plan.engine.engine)
    if (
        modules is None
        or plan.model is None
        or plan.accelerator is None
        or plan.budget is None
        or not plan.budget.ranks
    ):
        return None
    flag = FlagValue(name, value, f"--{name}", str(value), None, None)
    engine = replace(plan.engine, flags={**plan.engine.flags, name: flag})
    given = {key: term for key, term in plan.given.items() if key != "kv_available"}
    base = replace(plan, engine=engine, given=given, kv_cache_memory=None)
    unknown = [gap for gap in plan.unknown if gap.fact not in ("budget", f"engine.flags.{name}")]
    return budgeted(base, modules, plan.model, plan.accelerator, unknown)
