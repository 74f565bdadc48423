"""Devices that the engine's own image has no kernels for, or that the engine refuses whatever it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.facts.flag_tables import TITLES

if TYPE_CHECKING:
    from planner.accelerators.accelerator import Accelerator
    from planner.plan import Plan


def device_facts(plan: Plan) -> dict[str, Any]:
    """``accelerator_problem``: a mapping with ``text`` (empty where nothing is wrong or certain), ``remedy`` and
    ``certain``; absent where the device is not known."""
    if plan.accelerator is None:
        return {}
    fine = {"text": "", "remedy": "", "certain": True}
    return {"accelerator_problem": _problem(plan, plan.accelerator) or fine}


def _problem(plan: Plan, accelerator: Accelerator) -> dict[str, Any] | None:
    from planner.engines.capabilities import MOST, always, floor, newest_for

    engine = plan.engine
    if engine.platform != "cuda" or engine.image is None or not engine.version_key:
        return None
    if engine.get("device") not in (None, "auto", "cuda") or (plan.choice is not None and plan.choice.others_allowed):
        return None
    devices = _allowed(plan, accelerator)
    capabilities = {device.capability for device in devices}
    if any(capability is None or capability >= MOST for capability in capabilities):
        return None
    least = floor(engine.engine, engine.version_key, engine.image.value)
    if least is None or any(capability is None or capability >= least.refused for capability in capabilities):
        return None
    best = max(capability for capability in capabilities if capability is not None)
    label, needed = TITLES[engine.engine], _text(least.needed)
    names = " or ".join(sorted({device.name for device in devices}))
    which = " and ".join(sorted(_text(capability) for capability in capabilities if capability is not None))
    says = "refuses GPUs" if engine.engine == "sglang" else "has no kernels in its image for GPUs"
    newest = newest_for(engine.engine, best)
    return {
        "text": f"{label} {engine.version.value} {says} below compute capability {needed}; {names} has {which}",
        "remedy": (f"Run {label} {newest}, the newest release that supports it, or use" if newest else "Use")
        + f" a GPU of compute capability {needed} or newer",
        "certain": not engine.version_assumed or best < always(engine.engine),
    }


def _allowed(plan: Plan, accelerator: Accelerator) -> tuple[Accelerator, ...]:
    """Every device that the manifest allows, where this plan's is one of them: with one that works among them, the cluster
    may have none of the others."""
    choice = plan.choice
    if choice is None or accelerator.name not in {device.name for device in choice.accelerators}:
        return (accelerator,)  # an option names it
    return choice.accelerators


def _text(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
