"""What stands around an engine that serves: ports, probes, variables of Services, ways from outside, the model hub, its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.facts.exposure import exposure_facts, exposure_gaps
from planner.facts.hub_access import hub_facts
from planner.facts.ports import port_facts, port_gaps
from planner.facts.probe_timeouts import probe_timeout_facts
from planner.facts.rollout import termination_facts
from planner.facts.service_variables import service_variable_facts
from planner.facts.startup import startup_gaps

if TYPE_CHECKING:
    from planner.plan import Plan
    from planner.provenance import Position, Unknown


def serving_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """The facts for the variable ``container`` of rules that are about operating an engine."""
    return {
        **port_facts(plan, positions),
        **probe_timeout_facts(plan, positions),
        **service_variable_facts(plan, positions),
        **exposure_facts(plan, positions),
        **hub_facts(plan, positions),
        **termination_facts(plan, positions),
    }


def serving_gaps(plan: Plan, facts: dict[str, Any]) -> tuple[Unknown, ...]:
    """Which of them could not be told, and why."""
    return (*port_gaps(plan, facts), *exposure_gaps(plan, facts), *startup_gaps(plan, facts))
