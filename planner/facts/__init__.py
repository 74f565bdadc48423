"""A plan as plain data for rules. One module for each variable of the rules.

Rules compare, they do not calculate: a number that a rule needs is worked out here or to the left of here. A fact that is
not known is absent, so that a rule that reads it is *not evaluated*; its reason stands in ``Plan.unknown``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.provenance import Position

if TYPE_CHECKING:
    from planner.plan import Plan


def rule_facts(plan: Plan) -> tuple[dict[str, Any], dict[str, Position]]:
    """(facts, positions): one mapping for each variable of rules, and the places of facts by dotted path."""
    from planner.facts.accelerator import accelerator_facts
    from planner.facts.admission import reserve_facts
    from planner.facts.budget import budget_facts, capacity_facts
    from planner.facts.container import container_facts
    from planner.facts.engine import engine_facts
    from planner.facts.engine_checks import check_facts
    from planner.facts.filesystem import filesystem_facts
    from planner.facts.model import model_facts
    from planner.facts.parallel import parallel_facts
    from planner.facts.quantized_cache import quantized_cache_facts
    from planner.facts.scheduling import scheduling_facts
    from planner.facts.workload import pod_facts, workload_facts

    positions: dict[str, Position] = {}
    facts = {
        "workload": workload_facts(plan, positions),
        "pod": pod_facts(plan, positions) | scheduling_facts(plan, positions),
        "container": container_facts(plan, positions) | filesystem_facts(plan, positions),
        "engine": engine_facts(plan, positions) | check_facts(plan, positions),
        "model": model_facts(plan, positions),
        "accelerator": accelerator_facts(plan),
        "parallel": parallel_facts(plan, positions),
        "budget": budget_facts(plan, positions),
        "capacity": capacity_facts(plan),
        "reserve": reserve_facts(plan, positions),
    }
    facts["capacity"]["quantized"] = quantized_cache_facts(plan, facts)
    return facts, positions
