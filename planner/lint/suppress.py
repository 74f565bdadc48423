"""Suppressions: ``# planner: ignore[rule-id] reason`` comments and ``planner/ignore`` annotations.

A comment speaks for the line it stands on, or, alone on its line, for the next one (in a script: for the whole command,
where its lines go on with a backslash). On the line of a container's name it
speaks for the container, on the line of ``kind`` for the whole object. An annotation speaks for its object or pod template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from planner.provenance import Position
from planner.record import NamedTuple

if TYPE_CHECKING:
    from planner.documents.document import Comment, Document, Problem
    from planner.lint.evaluate import Outcome
    from planner.lint.finding import Finding
    from planner.workloads.workload import Workload


class Suppression(NamedTuple):
    """One wish not to see some rules, on the lines ``first`` to ``last``: those of a comment's target, or of the object
    ``workload`` that an annotation stands on."""

    rules: tuple[str, ...]
    reason: str
    position: Position
    first: int
    last: int
    workload: str = ""


class Unused(NamedTuple):
    """Rules of a suppression that nothing was suppressed of, and what to say about it."""

    position: Position
    rules: tuple[str, ...]
    message: str


class Sifted(NamedTuple):
    """Findings that stand, those that are suppressed with the suppression, and suppressions that matched nothing."""

    findings: tuple[Finding, ...]
    suppressed: tuple[tuple[Finding, Suppression], ...]
    unused: tuple[Unused, ...]


def collect(documents: Iterable[Document], workloads: Iterable[Workload]) -> tuple[list[Suppression], list[Problem]]:
    """All suppressions of the inputs, and what is wrong with some of them."""
    from planner.documents.document import Problem

    found: list[Suppression] = []
    problems: list[Problem] = []
    seen = set()
    for document in documents:
        for comment in document.comments:
            # Other tools and components are called planner too; only the word "ignore" is one to this planner.
            if comment.position in seen or not re.match(r"\s*ignore(?![\w-])", comment.text):
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
            wishes = list(_annotation(fact.value, fact.position, workload))
            found.extend(wishes)
            if not wishes and fact.value.strip():
                problems.append(Problem(fact.position, "planner/ignore must read 'rule-id: reason'"))
    return found, problems


def _comment(comment: Comment) -> Suppression | None:
    match = re.fullmatch(r"ignore\s*\[([^\]]*)\]\s*:?\s*(.*)", comment.text.strip(), re.DOTALL)
    rules = _names(match.group(1)) if match else ()
    if match is None or not rules:
        return None
    last = max(comment.covers, comment.covers_end)
    return Suppression(rules, match.group(2).strip(), comment.position, comment.covers, last)


def _annotation(text: str, position: Position, workload: Workload) -> Iterable[Suppression]:
    """``rule-a, rule-b: reason``; several of them apart by newlines or semicolons."""
    lines = workload.document.root.position
    for part in re.split(r"[;\n]", text[:4000]):
        names, _, reason = part.partition(":")
        rules = _names(names)
        if rules:
            yield Suppression(
                rules, reason.strip(), position, lines.line, lines.end_line, f"{workload.kind}/{workload.name}"
            )


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in re.split(r"[\s,]+", text) if name))


def sift(
    outcome: Outcome,
    suppressions: Sequence[Suppression],
    evaluated: Callable[[str], Collection[str]],
    known: Collection[str],
) -> Sifted:
    """Findings with and without a suppression.

    A suppression is not called unused for a rule that could not be evaluated or that its cause speaks for in the same
    file, nor for one that is not among those ``evaluated`` for this file; one of a rule that is not even ``known`` is.
    """
    by_line: dict[tuple[str, int], list[Suppression]] = {}
    by_workload: dict[tuple[str, str], list[Suppression]] = {}
    for suppression in suppressions:
        file = suppression.position.file
        if suppression.workload:
            by_workload.setdefault((file, suppression.workload), []).append(suppression)
            continue
        for line in range(suppression.first, suppression.last + 1):
            by_line.setdefault((file, line), []).append(suppression)
    kept, suppressed = [], []
    used: set[tuple[Suppression, str]] = set()
    for finding in outcome.findings:
        matches: list[Suppression] = []
        for place in (finding.position, *finding.anchors):
            matches += by_line.get((place.file, place.line), ())
            # Two objects of one file may have the same kind and name; the lines tell them apart.
            on_object = by_workload.get((place.file, finding.workload), ())
            matches += (wish for wish in on_object if wish.first <= place.line <= wish.last)
        matches = [wish for wish in matches if finding.rule in wish.rules]
        used.update((wish, finding.rule) for wish in matches)
        if matches:
            suppressed.append((finding, matches[0]))
        else:
            kept.append(finding)
    open_ = {(gap.rule, gap.position.file) for gap in outcome.not_evaluated if gap.position} | outcome.silenced
    unused = []
    for wish in suppressions:
        idle = tuple(
            rule
            for rule in wish.rules
            if rule in evaluated(wish.position.file)
            and (wish, rule) not in used
            and (rule, wish.position.file) not in open_
        )
        if idle:
            unused.append(Unused(wish.position, idle, f"unused suppression: nothing to ignore for {', '.join(idle)}"))
        for rule in wish.rules:
            if rule not in known:
                from planner.lint.run import hint

                unused.append(
                    Unused(wish.position, (rule,), f"suppression of {rule!r}, which is no rule{hint(rule, known)}")
                )
    return Sifted(tuple(kept), tuple(suppressed), tuple(unused))
