"""Places of keys, and estimates as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.provenance import Position

if TYPE_CHECKING:
    from planner.documents.node import Node
    from planner.estimate import Estimate
    from planner.plan import Plan


def key_position(node: Node, *keys: str) -> Position | None:
    """The place of a key below ``node``, None where the key is missing."""
    found = node.get(*keys)
    return found.key_position if found is not None else None


def estimate(value: Estimate) -> dict[str, Any]:
    """An estimate in the contract's form (bytes)."""
    return {"low": value.low, "expected": value.expected, "high": value.high, "basis": value.basis}


def is_gap(plan: Plan, name: str) -> bool:
    """Whether the plan says that this fact is not known."""
    return any(gap.fact == name for gap in plan.unknown)
