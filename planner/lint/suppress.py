"""Suppressions: ``# planner: ignore[rule-id] reason`` comments and ``planner/ignore`` annotations.

A comment speaks for the line it stands on, or, alone on its line, for the next one. On the line of a container's name it
speaks for the container, on the line of ``kind`` for the whole object. An annotation speaks for its object or pod template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from planner.provenance import Position

if TYPE_CHECKING:
    from planner.documents.document import Comment, Document, Problem
    from planner.lint.finding import Finding, NotEvaluated
    from planner.workloads.workload import Workload

_IGNORE = re.compile(r"ignore(?:\s*\[([^\]]*)\])?\s*:?\s*(.*)", re.DOTALL)
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class Suppression(NamedTuple):
    """One wish not to see some rules. ``line`` is the line it covers (0: the whole ``workload``)."""

    rules: tuple[str, ...]
    reason: str
    position: Position
    line: int
    workload: str = ""
    document: tuple[int, int] = (0, 0)  # first and last line of the document, to tell equal names apart


class Sifted(NamedTuple):
    """Findings that stand, those that are suppressed with the suppression, and suppressions that matched nothing."""

    findings: tuple[Finding, ...]
    suppressed: tuple[tuple[Finding, Suppression], ...]
    unused: tuple[Suppression, ...]


def collect(documents: Iterable[Document], workloads: Iterable[Workload]) -> tuple[list[Suppression], list[Problem]]:
    """All suppressions of the inputs, and what is wrong with some of them."""
    from planner.documents.document import Problem

    found: list[Suppression] = []
    problems: list[Problem] = []
    seen = set()
    for document in documents:
        for comment in document.comments:
            # Other tools and components are called planner too; only "ignore" is a word to this one.
            if comment.position in seen or not comment.text.lstrip().startswith("ignore"):
                continue
            seen.add(comment.position)
            parsed = _comment(comment)
            if parsed is None:
                problems.append(
                    Problem(
                        comment.position,
                        "a planner comment must read '# planner: ignore[rule-id] reason' (planner rules lists the ids)",
                    )
                )
            else:
                found.append(parsed)
    for workload in workloads:
        for place in (workload.annotations, *(pod.annotations for pod in workload.pods)):
            fact = place.get("planner/ignore")
            if fact is None or fact.position is None or fact.position in seen:
                continue
            seen.add(fact.position)
            found.extend(_annotation(fact.value, fact.position, f"{workload.kind}/{workload.name}"))
    return found, problems


def _comment(comment: Comment) -> Suppression | None:
    match = _IGNORE.fullmatch(comment.text.strip())
    if not match or not match.group(1):
        return None
    rules = tuple(_ID.findall(match.group(1)))
    return Suppression(rules, match.group(2).strip(), comment.position, comment.covers) if rules else None


def _annotation(text: str, position: Position, workload: str) -> Iterable[Suppression]:
    """``rule-a, rule-b: reason``; several of them apart by newlines or semicolons."""
    for part in re.split(r"[;\n]", text[:4000]):
        names, _, reason = part.partition(":")
        rules = tuple(_ID.findall(names))
        if rules:
            yield Suppression(rules, reason.strip(), position, 0, workload)


def sift(
    findings: Sequence[Finding], suppressions: Sequence[Suppression], not_evaluated: Sequence[NotEvaluated] = ()
) -> Sifted:
    """Findings with and without a suppression. One that names a rule which could not be evaluated is not called unused."""
    by_line: dict[tuple[str, int], list[Suppression]] = {}
    by_workload: dict[tuple[str, str], list[Suppression]] = {}
    for suppression in suppressions:
        if suppression.line:
            by_line.setdefault((suppression.position.file, suppression.line), []).append(suppression)
        else:
            by_workload.setdefault((suppression.position.file, suppression.workload), []).append(suppression)
    kept, suppressed = [], []
    used: set[Suppression] = set()
    for finding in findings:
        candidates = list(by_workload.get((finding.position.file, finding.workload), ()))
        for place in (finding.position, *finding.anchors):
            candidates.extend(by_line.get((place.file, place.line), ()))
        match = next((s for s in candidates if finding.rule in s.rules), None)
        if match is None:
            kept.append(finding)
        else:
            used.add(match)
            suppressed.append((finding, match))
    undecided = {gap.rule for gap in not_evaluated}
    unused = tuple(s for s in suppressions if s not in used and not undecided.intersection(s.rules))
    return Sifted(tuple(kept), tuple(suppressed), unused)
