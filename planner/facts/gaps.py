"""What rules about flags and variables could not tell, beside what the plan itself does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.provenance import Unknown

if TYPE_CHECKING:
    from planner.plan import Plan

_LISTS = ("removed_flags", "deprecated_flags", "ignored_variables")
_REMEDY = "pin a release tag, or state it: planner/engine-version: {release} as an annotation, or --engine-version"


def gaps(plan: Plan, facts: dict[str, Any]) -> tuple[Unknown, ...]:
    """The lists that hang on the release where nothing states it, as unknown facts of their own, and what is not known of
    the container's file system and of devices that it shares."""
    return (*_release_gaps(plan, facts), *_filesystem_gaps(plan, facts), *_sharing_gaps(plan, facts))


def _sharing_gaps(plan: Plan, facts: dict[str, Any]) -> tuple[Unknown, ...]:
    sharing = facts.get("container", {}).get("sharing")
    if not sharing or "total" in sharing:
        return ()
    reason = f"{sharing['text'][:200]}, and what one of them takes of a device is not known"
    return (Unknown("container.sharing", reason, "state --gpu-memory-utilization as a number", plan.position),)


def _filesystem_gaps(plan: Plan, facts: dict[str, Any]) -> tuple[Unknown, ...]:
    found = []
    container = facts.get("container", {})
    writing, cache = container.get("writing", {}), container.get("cache", {})
    if writing.get("gap"):
        remedy = "set HOME to a folder that the user may write to, or HF_HOME to that of a volume"
        found.append(Unknown("container.writing.weights_unwritable", writing["gap"], remedy, plan.position))
    if cache.get("gap"):
        found.append(Unknown("container.cache.kind", cache["gap"], cache["gap_remedy"], plan.position))
    if container.get("user", {}).get("has_name") is False and "needs_name" not in container["user"]:
        release = _REMEDY.format(release=plan.engine.version.value)
        reason = "nothing states the release, and some of vLLM's fail for users without a name"
        found.append(Unknown("container.user.needs_name", reason, release, plan.position))
    return tuple(found)


def _release_gaps(plan: Plan, facts: dict[str, Any]) -> tuple[Unknown, ...]:
    if not plan.engine.version_assumed:
        return ()
    engine = facts.get("engine", {})
    found = []
    for name in _LISTS:
        items = engine.get(name, ())
        items = [item for item in items if item.get("depends", True)]
        if items:
            what = items[0].get("flag") or items[0].get("name")
            reason = f"nothing states the release, and {what} is not taken alike by all of them"
            remedy = _REMEDY.format(release=plan.engine.version.value)
            found.append(Unknown(f"engine.{name}", reason, remedy, plan.position))
    return tuple(found)
