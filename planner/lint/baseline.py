"""A baseline: findings that are known and do not fail a run, until they are repaired.

A finding is known by its identity (rule, object, container and what it points at) and its file, never by its line or the
numbers of its message, so that an edit elsewhere does not bring it back. Equal ones are counted; one that got graver is a
new one. A file that was moved takes its entries along.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from planner.lint.finding import SEVERITIES
from planner.provenance import Position
from planner.record import NamedTuple

if TYPE_CHECKING:
    from planner.documents.document import Problem
    from planner.documents.node import Node
    from planner.lint.evaluate import Outcome
    from planner.lint.finding import Finding

SCHEMA = "planner/v1/baseline"
DEFAULT_NAME = "planner-baseline.json"
_TEXTS = ("file", "rule", "workload", "container", "subject", "severity")


class Entry(NamedTuple):
    """``times`` equal findings that are known; ``file`` is seen from the folder of the baseline."""

    file: str
    rule: str
    workload: str
    container: str
    subject: str
    severity: str
    times: int
    position: Position

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """As ``Finding.identity``."""
        return (self.rule, self.workload, self.container, self.subject)


class Stale(NamedTuple):
    """An entry, or some of its count, that nothing in this run corresponds to."""

    position: Position
    rule: str
    workload: str
    container: str
    message: str


class _Slot:
    """One of the findings that an entry stands for."""

    __slots__ = ("entry", "free")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.free = True


class Compared(NamedTuple):
    """Findings that are new and known, entries without a finding, what is wrong with the file, and the entries that this
    run has not looked at (their file or rule was not a part of it)."""

    new: tuple[Finding, ...]
    known: tuple[Finding, ...]
    stale: tuple[Stale, ...]
    problems: list[Problem]
    kept: tuple[Entry, ...]


def compare(
    path: str,
    findings: Sequence[Finding],
    outcome: Outcome,
    files: Collection[str],
    evaluated: Callable[[str], Collection[str]],
) -> Compared:
    """The findings of a run against the baseline in the file ``path``.

    An entry is stale only where the run has looked: its file is among ``files`` or gone, and its rule is among those
    ``evaluated`` there, was decided, and is not silenced by a cause.
    """
    entries, problems = read(path)
    slots = [_Slot(entry) for entry in entries for _ in range(entry.times)]
    folder = os.path.dirname(path)
    known = _match(findings, slots, folder)
    left: dict[Entry, int] = {}
    for slot in slots:
        if slot.free:
            left[slot.entry] = left.get(slot.entry, 0) + 1
    by_path = {file if file.startswith("<") else os.path.normpath(file): file for file in files}
    undecided = {(gap.rule, gap.workload, gap.position.file) for gap in outcome.not_evaluated if gap.position}

    def was_looked_at(entry: Entry) -> bool:
        shown = entry.file if entry.file.startswith("<") else os.path.normpath(os.path.join(folder, entry.file))
        file = by_path.get(shown)
        if file is None:
            return not shown.startswith("<") and not os.path.lexists(shown)
        return (
            entry.rule in evaluated(file)
            and (entry.rule, entry.workload, file) not in undecided
            and (entry.rule, file) not in outcome.silenced
        )

    looked = {entry: was_looked_at(entry) for entry in left}
    return Compared(
        tuple(finding for number, finding in enumerate(findings) if number not in known),
        tuple(finding for number, finding in enumerate(findings) if number in known),
        tuple(_stale(entry, count) for entry, count in left.items() if looked[entry]),
        problems,
        tuple(entry._replace(times=count) for entry, count in left.items() if not looked[entry]),
    )


def _match(findings: Sequence[Finding], slots: list[_Slot], folder: str) -> set[int]:
    """The numbers of the findings that a slot is free for: of the same file first, then of files that are gone."""
    here: dict[tuple[str, tuple[str, str, str, str]], list[_Slot]] = {}
    moved: dict[tuple[str, str, str, str], list[_Slot]] = {}
    for slot in slots:
        here.setdefault((slot.entry.file, slot.entry.identity), []).append(slot)
        moved.setdefault(slot.entry.identity, []).append(slot)
    gone: dict[str, bool] = {}
    known = set()
    # The gravest first, so that a milder one does not take the place of a graver one.
    order = sorted(range(len(findings)), key=lambda number: -SEVERITIES.index(findings[number].severity))
    for where in (here, moved):
        for number in order:
            finding = findings[number]
            if number in known:
                continue
            if where is here:
                candidates = here.get((file_of(finding, folder), finding.identity), ())
            else:
                candidates = moved.get(finding.identity, ())
            grave = SEVERITIES.index(finding.severity)
            for slot in sorted(candidates, key=lambda slot: SEVERITIES.index(slot.entry.severity)):
                if not slot.free or SEVERITIES.index(slot.entry.severity) < grave:
                    continue
                if where is moved and not _is_gone(slot.entry.file, folder, gone):
                    continue
                slot.free = False
                known.add(number)
                break
    return known


def _is_gone(file: str, folder: str, seen: dict[str, bool]) -> bool:
    if file not in seen:
        seen[file] = not os.path.lexists(os.path.join(folder, file))
    return seen[file]


def _stale(entry: Entry, count: int) -> Stale:
    who = f"{entry.workload} · {entry.container}" if entry.container else entry.workload
    some = f"{count} of {entry.times}" if entry.times > 1 else "it"
    return Stale(
        entry.position,
        entry.rule,
        entry.workload,
        entry.container,
        f"stale: {entry.rule} ({who}) in {entry.file}: {some} is no longer found; --write-baseline takes it out",
    )


def file_of(finding: Finding, folder: str) -> str:
    """The file of a finding as a baseline in ``folder`` names it."""
    file = finding.position.file
    if file.startswith("<"):
        return file
    return os.path.relpath(file, folder or ".").replace(os.sep, "/")


def text_of(findings: Iterable[Finding], kept: Iterable[Entry], path: str) -> tuple[str, int]:
    """A baseline at ``path`` as text, one line an entry, and the number of findings in it: those of a run, and entries of
    the old one that the run has not looked at."""
    folder = os.path.dirname(path)
    counts: dict[tuple[str, ...], int] = {}
    key: tuple[str, ...]
    for finding in findings:
        key = (file_of(finding, folder), *finding.identity, finding.severity)
        counts[key] = counts.get(key, 0) + 1
    for entry in kept:
        key = (entry.file, *entry.identity, entry.severity)
        counts[key] = counts.get(key, 0) + entry.times
    lines = []
    for key in sorted(counts):
        row: dict[str, Any] = dict(
            zip(("file", "rule", "workload", "container", "subject", "severity"), key, strict=True)
        )
        lines.append("  " + json.dumps({**row, "count": counts[key]}, ensure_ascii=True))
    body = "[\n" + ",\n".join(lines) + "\n ]" if lines else "[]"
    return f'{{\n "schema": "{SCHEMA}",\n "findings": {body}\n}}\n', sum(counts.values())


def read(path: str) -> tuple[list[Entry], list[Problem]]:
    """The entries of a baseline, and what is wrong in it with line and column."""
    from planner.documents.document import Problem
    from planner.documents.read import read_path

    content = read_path(path, path)
    problems = [
        Problem(problem.position, f"{problem.message} (--write-baseline makes a baseline)")
        if problem.message == "no such file"
        else problem
        for problem in content.problems
    ]
    if problems or not content.documents:
        return [], problems or [Problem(Position(path, 1, 1), "an empty baseline; --write-baseline makes one")]
    root = content.documents[0].root
    if root.string("schema") != SCHEMA:
        return [], [Problem(root.position, f"a baseline has the key schema with the value {SCHEMA}")]
    listed = root.get("findings")
    entries = []
    for node in listed if listed is not None and listed.kind == "sequence" else ():
        entry = _entry(node)
        if entry is None:
            what = f"an entry of a baseline has {', '.join(_TEXTS)} and a count"
            problems.append(Problem(node.position, what))
        else:
            entries.append(entry)
    return entries, problems


def _entry(node: Node) -> Entry | None:
    if node.kind != "mapping":
        return None
    texts = {name: node.string(name) for name in _TEXTS}
    count: Any = node.get("count").value if node.get("count") is not None else 1  # type: ignore[union-attr]
    if None in texts.values() or texts["severity"] not in SEVERITIES:
        return None
    if isinstance(count, bool) or not isinstance(count, int) or not 0 < count < 100_000:
        return None
    return Entry(**texts, times=count, position=node.position)  # type: ignore[arg-type]
