"""One variable of the engine's process, whoever sets it: its start script, the container, the image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.record import NamedTuple

if TYPE_CHECKING:
    from planner.engines.image_users import ImageUser
    from planner.plan import Plan
    from planner.provenance import Position
    from planner.workloads.workload import Container

#: Characters of a container's command and scripts that are looked at.
_MOST_TEXT = 200_000


class Variable(NamedTuple):
    """A variable: ``text`` is its value (empty: not set). ``known`` is False where the value cannot be known, or where a
    source that is not among the inputs may set it; ``reason`` then says which."""

    text: str
    known: bool = True
    position: Position | None = None
    reason: str = ""

    @property
    def maybe_set(self) -> bool:
        """Whether it may hold a value."""
        return bool(self.text) or not self.known


def stated(plan: Plan, name: str) -> Variable | None:
    """What the start script or else the manifest says of a variable; None where neither names it."""
    start, container = plan.start, plan.container
    if start is not None:
        for exported, word in reversed(start.environment):
            if exported == name:
                if word.known:
                    return Variable(word.text, True, word.position)
                reason = f"the start script sets {name} to something that is not known"
                return Variable("", False, word.position, reason)
        if name in start.removed:
            return Variable("")
    entry = container.env.get(name) if container is not None else None
    if entry is None:
        return None
    if entry.value is None:
        return Variable("", False, entry.node.position, f"{name} is {entry.reason}")
    return Variable(entry.value, True, entry.node.position)


def unseen(plan: Plan) -> str:
    """What may set variables of the engine and is not among the inputs; empty where nothing does."""
    sources = plan.container.env_unknown if plan.container is not None else ()
    if sources:
        return f"{', '.join(sources[:3])} is not among the files that were read"
    sourced = plan.start.sourced if plan.start is not None else ""
    return f"the start script reads {sourced}, which is not among the files that were read" if sourced else ""


def variable(plan: Plan, name: str, image: ImageUser | None = None) -> Variable:
    """The variable as the engine sees it; ``image`` stands for the variables of the image."""
    if plan.container is None:
        return Variable("", False, None, "there is no container")
    found = stated(plan, name)
    if found is not None:
        return found
    source = unseen(plan)
    if source:
        return Variable("", False, None, f"{source} and may set {name}")
    for own, text in image.variables if image is not None else ():
        if own == name:
            return Variable(text)
    return Variable("")


def script_text(container: Container) -> str:
    """The container's command, with the mounted files that it names: what a search for a word must look at."""
    words = "\n".join(arg.text for arg in container.words)[:_MOST_TEXT]
    files = (node.text for mount in container.mounts for path, node in mount.files if path.rpartition("/")[2] in words)
    return "\n".join((words, *files))[:_MOST_TEXT]


def is_true(text: str) -> bool:
    """Whether a switch is on, as huggingface_hub reads one (``_is_true``)."""
    return text.strip().upper() in ("1", "ON", "YES", "TRUE")
