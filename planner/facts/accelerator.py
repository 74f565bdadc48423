"""Facts of the accelerator, or of what one must offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.units import format_gib

if TYPE_CHECKING:
    from planner.plan import Plan


def accelerator_facts(plan: Plan) -> dict[str, Any]:
    facts: dict[str, Any] = {"known": plan.accelerator is not None}
    choice = plan.choice
    if choice is not None:
        facts["named"] = choice.named
    if plan.accelerator is not None:
        accelerator = plan.accelerator
        facts.update(
            name=accelerator.name,
            vendor=accelerator.vendor,
            memory=accelerator.memory.expected,
            shared=accelerator.shared,
            unified=accelerator.unified,
            partition=accelerator.partition,
        )
        if accelerator.capability:
            major, minor = accelerator.capability
            facts["capability"] = major * 10 + minor
            facts["capability_text"] = f"{major}.{minor}"
    facts["required_text"] = ""
    if plan.requirement is not None:
        need = plan.requirement
        facts["required"] = {
            "low": need.low,
            "expected": need.expected,
            "names": list(need.accelerators[:8]),
            "largest": need.largest_known,
            "largest_name": need.largest_name,
            "any": bool(need.accelerators),
        }
        if need.accelerators:
            more = " …" if len(need.accelerators) > 6 else ""
            facts["required_text"] = (
                f"; this configuration needs about {format_gib(need.expected)} of device memory or more "
                f"({', '.join(need.accelerators[:6])}{more})"
            )
    return facts
