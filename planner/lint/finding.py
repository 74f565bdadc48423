"""What a rule says about a place in a manifest."""

from __future__ import annotations

from typing import Any

from planner.provenance import Position
from planner.record import NamedTuple

#: From the mildest to the gravest; ``--fail-on`` names one of them.
SEVERITIES = ("info", "warning", "error")


class ProposedFix(NamedTuple):
    """An edit that would mend a violation: its name, whether it is ``safe`` or ``unsafe``, what it does, and for what."""

    edit: str
    safety: str
    title: str
    arguments: tuple[tuple[str, str], ...] = ()


class Finding(NamedTuple):
    """One violation. ``workload`` is ``Kind/name``; ``fix`` is an edit in the contract's form, or None."""

    rule: str
    severity: str
    message: str
    position: Position
    workload: str
    container: str
    remedy: str
    fix: dict[str, Any] | None = None
    title: str = ""
    #: further places whose line may carry a suppression: the flag of a value, the container's name, the object's kind
    anchors: tuple[Position, ...] = ()
    #: which item of a list the rule speaks of (a flag, a variable …), as ``planner.lint.identity`` names it
    subject: str = ""
    #: folders of the kustomizations or charts that it was found in a rendering of
    rendered_by: tuple[str, ...] = ()
    #: edits that would mend it, the best first; ``fix`` is the first one that could be made, as text
    fixes: tuple[ProposedFix, ...] = ()

    @property
    def text(self) -> str:
        """What is wrong and what to do about it, for formats that have one text."""
        return f"{self.message} → {self.remedy}" if self.remedy else self.message

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What stays the same when lines move and numbers change; see ``planner.lint.identity``."""
        return (self.rule, self.workload, self.container, self.subject)

    @property
    def sort_key(self) -> tuple[str, int, int, int, str, str]:
        """File order, then the gravest first."""
        place = self.position
        return (place.file, place.line, place.column, -SEVERITIES.index(self.severity), self.rule, self.message)


class NotEvaluated(NamedTuple):
    """A rule that could not be decided, for want of which fact, and the one line that would make it known."""

    rule: str
    workload: str
    container: str
    fact: str
    reason: str
    remedy: str
    position: Position | None = None

    @property
    def sort_key(self) -> tuple[str, int, int, str, str, str, str]:
        """File order, then by the missing fact."""
        place = self.position
        where = (place.file, place.line, place.column) if place else ("", 0, 0)
        return (*where, self.workload, self.container, self.fact, self.rule)
