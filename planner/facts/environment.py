"""One variable of the engine's process, whoever sets it: its start script, the container, the image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.record import NamedTuple

if TYPE_CHECKING:
    from planner.engines.image_users import ImageUser
    from planner.plan import Plan
    from planner.provenance import Position


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


def variable(plan: Plan, name: str, image: ImageUser | None = None) -> Variable:
    """The variable as the engine sees it; ``image`` stands for the variables of the image."""
    for exported, word in reversed(plan.start.environment) if plan.start is not None else ():
        if exported == name:
            if word.known:
                return Variable(word.text, True, word.position)
            return Variable("", False, word.position, f"the start script sets {name} to something that is not known")
    container = plan.container
    if container is None:
        return Variable("", False, None, "there is no container")
    stated = container.env.get(name)
    if stated is not None:
        if stated.value is None:
            return Variable("", False, stated.node.position, f"{name} is {stated.reason}")
        return Variable(stated.value, True, stated.node.position)
    if container.env_unknown:
        source = container.env_unknown[0]
        return Variable("", False, None, f"{source} is not among the files that were read and may set {name}")
    for own, text in image.variables if image is not None else ():
        if own == name:
            return Variable(text)
    return Variable("")


def is_true(text: str) -> bool:
    """Whether a switch is on, as huggingface_hub reads one (``_is_true``)."""
    return text.strip().upper() in ("1", "ON", "YES", "TRUE")
