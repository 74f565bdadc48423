"""Facts of the engine's container that hang on its user: who it is, where it may write, where its weights come to lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.plan import Plan
    from planner.provenance import Position


def filesystem_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """``user``, ``writing`` and what ``planner.facts.storage`` and ``host_memory`` find, as facts of the container."""
    from planner.facts.host_memory import host_memory_facts
    from planner.facts.storage import storage_facts
    from planner.facts.user import user_facts, user_of
    from planner.facts.writing import writing_facts

    user = user_of(plan)
    return {
        "user": user_facts(plan, user, positions),
        "writing": writing_facts(plan, user, positions),
        **storage_facts(plan, user, positions),
        **host_memory_facts(plan, positions),
    }
