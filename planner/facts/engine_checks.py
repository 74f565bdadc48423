"""Everything that is checked of an engine's flags, values and variables, for the rules of the categories engine and
accelerator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.plan import Plan
    from planner.provenance import Position


def check_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """The facts for the variable ``engine`` of rules that come from the engine's tables and constraints."""
    from planner.facts.device_support import device_facts
    from planner.facts.flag_conflicts import conflict_facts
    from planner.facts.flag_values import value_facts
    from planner.facts.flags import flag_facts
    from planner.facts.formats import format_facts
    from planner.facts.listening import listening_facts
    from planner.facts.variables import variable_facts

    return {
        **flag_facts(plan, positions),
        **value_facts(plan, positions),
        **conflict_facts(plan, positions),
        **variable_facts(plan, positions),
        **format_facts(plan, positions),
        **device_facts(plan),
        **listening_facts(plan, positions),
    }
