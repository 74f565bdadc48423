"""Whether the engine can write where it must."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.facts.caches import compile_caches, downloads, hub_cache, may_write

if TYPE_CHECKING:
    from planner.facts.user import User
    from planner.plan import Plan
    from planner.provenance import Position


def writing_facts(plan: Plan, user: User | None, positions: dict[str, Position]) -> dict[str, Any]:
    """``weights_unwritable``: the folder that the weights are downloaded to and that the user may not write to (empty for
    none, absent where it is not known); ``caches_unwritable``: other folders of that kind, with the variables that move
    them in ``variables``; ``why_unwritable`` for people."""
    container = plan.container
    if user is None or container is None or not (user.is_other or user.read_only):
        return {"weights_unwritable": "", "caches_unwritable": []}
    facts: dict[str, Any] = {"weights_unwritable": "", "caches_unwritable": []}
    variables: list[str] = []
    gap = ""
    if downloads(plan):
        cache = hub_cache(plan, user)
        allowed = may_write(container, user, cache.path) if cache.path is not None else None
        if allowed is None:
            gap = cache.reason or f"whether {user.text} may write to {cache.path} is not known"
        elif not allowed:
            facts["weights_unwritable"] = cache.path
            variables.append(cache.set_by)
            if cache.position is not None:
                positions["container.unwritable"] = cache.position
    for what, cache in compile_caches(plan, user):
        if cache.path is not None and may_write(container, user, cache.path) is False:
            facts["caches_unwritable"].append(f"{what} {cache.path}")
            variables.append(cache.set_by)
            if cache.position is not None:
                positions.setdefault("container.unwritable", cache.position)
    if gap and not facts["caches_unwritable"]:
        del facts["weights_unwritable"]
        facts["gap"] = gap
    facts["variables"] = variables
    facts["why_unwritable"] = _why(user)
    return facts


def _why(user: User) -> str:
    if user.read_only:
        return "the root file system is mounted read-only (readOnlyRootFilesystem) and no volume is mounted there"
    if user.home_by == "the uid has no passwd entry":
        return f"the engine runs as {user.text}, which has no passwd entry in the image, so that its home is /"
    return f"the engine runs as {user.text}"
