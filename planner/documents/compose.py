"""Text → composed documents and problems, from libyaml's events.

PyYAML's own composer recurses in C, refuses an anchor that is defined twice (Kubernetes does not) and counts nothing. This
one is a loop, so that depth, number of nodes and the size of expanded aliases are known before anything grows.
"""

from __future__ import annotations

import re
from typing import Any, Final

from yaml import YAMLError
from yaml._yaml import CParser
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from planner.documents.document import Problem
from planner.documents.source import Source
from planner.documents.syntax import conflict_marker, explain
from planner.documents.tree import Mapping, Raw, Scalar, Sequence, start_of
from planner.provenance import Position
from planner.record import NamedTuple

#: Levels of nesting, aliases written out. The deepest manifests (schemas in CRDs) have about 40.
DEEPEST: Final = 120
#: Events per file; a CRD bundle of 3 MiB has about 150,000.
MOST_EVENTS: Final = 400_000
#: Nodes that aliases may add to those of the file.
MOST_ALIASED: Final = 100_000
#: After so many syntax errors the rest of a file is not read.
MOST_ERRORS: Final = 20
#: libyaml compares each %TAG with all before, and each tag with all of them.
MOST_DIRECTIVES: Final = 50

#: Problems that are reported of one file.
MOST_PROBLEMS: Final = 100

_TOO_MANY: Final = f"not read from here on: more than {MOST_EVENTS:,} nodes"
#: The tag of what stands in for an alias without a target.
_NULL: Final = "tag:yaml.org,2002:null"
_ODD_KEYS: Final = frozenset(("<<", "", "~", "null", "Null", "NULL"))
_DOCUMENT_LINE: Final = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
_DOCUMENT_BETWEEN: Final = re.compile(r"^(?:---|\.\.\.)(?=[ \t\r\n]|\Z)", re.MULTILINE)
_NOT_PRINTABLE: Final = r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


class Root(NamedTuple):
    """The root of a document, and the part of the text (character indices) that is the document's own."""

    raw: Raw
    start: int
    end: int


class Composed(NamedTuple):
    """What a text holds. ``syntax`` are the indices of the syntax errors among the problems; ``templated`` is the index of
    the first ``{{`` that YAML reads as a mapping within a mapping."""

    source: Source
    roots: list[Root]
    problems: list[Problem]
    syntax: list[int]
    templated: int | None


class _Halt(Exception):  # noqa: N818 - no error of ours: it ends one document
    """A limit was passed; the rest of the document is not read."""

    def __init__(self, index: int, message: str, final: bool = False) -> None:
        super().__init__(message)
        self.index = index
        self.message = message
        self.final = final


def compose(source: Source) -> Composed:
    """Every document of a text that can be read, and what is wrong with the others."""
    text = source.text
    roots: list[Root] = []
    problems: list[Problem] = []
    syntax: list[int] = []
    if text.count("\n%") + text.startswith("%") > MOST_DIRECTIVES:
        problems.append(Problem(source.position(0), f"more than {MOST_DIRECTIVES} lines start with '%'"))
        return Composed(source, roots, problems, syntax, None)
    templated: int | None = None
    budget = MOST_EVENTS
    start: int | None = 0
    while start is not None:
        base = start
        reader = _Reader(source, base, budget, roots, problems)
        try:
            reader.read()
            start = None
        except _Halt as halt:
            syntax.append(halt.index)
            report(problems, source.position(halt.index), halt.message)
            start = None if halt.final else _after(text, halt.index, reader, base)
        except YAMLError as error:
            index = _explain(source, error, reader, base, roots, problems)
            syntax.append(index)
            start = _after(text, index, reader, base)
        budget -= reader.count
        if templated is None:
            templated = reader.templated
        if start is not None and len(syntax) >= MOST_ERRORS:
            report(problems, source.position(start), f"not read from here on: {MOST_ERRORS} syntax errors before")
            start = None
    return Composed(source, roots, problems, syntax, templated)


def _after(text: str, index: int, reader: _Reader, base: int) -> int | None:
    """The document line to go on from after an error at ``index``."""
    line_start = text.rfind("\n", 0, index) + 1
    return _document_line(text, max(line_start, reader.document_start + 1, base + 1))


def _document_line(text: str, index: int) -> int | None:
    match = _DOCUMENT_LINE.search(text, index)
    return None if match is None else match.start()


def _explain(
    source: Source, error: YAMLError, reader: _Reader, base: int, roots: list[Root], problems: list[Problem]
) -> int:
    """Reports a syntax error in our words; returns where it is."""
    text = source.text
    start = reader.document_start
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        # The errors of libyaml's reader carry an offset in bytes of a buffer; the character itself is easier to find.
        match = re.compile(_NOT_PRINTABLE).search(text, base)
        index = shown = base if match is None else match.start()
        message = f"cannot be read: {error}"
        if match is not None:
            message = f"the control character U+{ord(match.group()):04X} is not allowed in YAML"
    else:
        index = min(mark.index + base, len(text))
        shown = index
        context = getattr(error, "context_mark", None)
        opened = index if context is None else min(context.index + base, len(text))
        problem = str(getattr(error, "problem", None) or error)
        message = explain(text, index, problem, source.locate(opened)[0])
        if text.startswith(("'", '"'), opened) and problem.startswith("found unexpected"):
            shown = opened
        if (
            problem == "did not find expected <document start>"
            and reader.roots_added
            and _DOCUMENT_BETWEEN.search(text, roots[-1].end, index) is None
        ):
            # libyaml closes a document before it looks at what follows; without a document line that is part of it.
            start = roots.pop().start
    marker = conflict_marker(text, start, _document_line(text, index + 1) or len(text))
    if marker is None:
        report(problems, source.position(shown), message)
    else:
        sign = text[marker : marker + 7]
        report(problems, source.position(marker), f"a merge conflict that is not resolved ({sign})")
    return index


class _Reader:
    """Composes the documents of one parser run. ``document_start`` is the index where the current document starts."""

    def __init__(self, source: Source, base: int, budget: int, roots: list[Root], problems: list[Problem]) -> None:
        self.source = source
        self.base = base
        self.budget = budget
        self.roots = roots
        self.problems = problems
        self.document_start = base
        self.roots_added = 0
        self.count = 0
        self.templated: int | None = None
        self.anchors: dict[str, Raw] = {}
        self.merges: dict[int, list[Raw]] = {}
        self.extra = 0

    def read(self) -> None:
        """Reads to the end of the stream. Raises YAMLError at a syntax error and _Halt where a limit is passed."""
        source, base, most = self.source, self.base, self.budget
        next_event = CParser(source.text[base:] if base else source.text).get_event
        anchors, merges = self.anchors, self.merges
        # The innermost open collection, and where its next child goes: ``pairs`` under ``key``, or ``items``.
        current: Any = None
        pairs: dict[str, tuple[Scalar, Raw]] | None = None
        items: list[Raw] | None = None
        key: Any = None
        stack: list[tuple[Any, Any, Any, Any]] = []
        root: Raw | None = None
        node: Any
        count = end = 0
        try:
            while True:
                event: Any = next_event()
                count += 1
                kind = event.__class__
                if kind is ScalarEvent:
                    start = event.start_mark.index + base
                    end = event.end_mark.index + base
                    tag = event.tag
                    if tag is None and event.anchor is None:
                        node = (event.value, event.style, None, start, end)
                    else:
                        node = (event.value, event.style, tag, source.behind_properties(start, end), end)
                        if event.anchor is not None:
                            anchors[event.anchor] = node
                elif kind is MappingStartEvent or kind is SequenceStartEvent:
                    start = event.start_mark.index + base
                    if len(stack) >= DEEPEST:
                        raise _Halt(start, f"nested more than {DEEPEST} levels deep")
                    stack.append((current, pairs, items, key))
                    key = None
                    if kind is MappingStartEvent:
                        current = Mapping(start, event.flow_style, -count - self.extra)
                        pairs, items = current.pairs, None
                    else:
                        current = Sequence(start, event.flow_style, -count - self.extra)
                        pairs, items = None, current.items
                    if event.anchor is not None:
                        anchors[event.anchor] = current
                    continue
                elif kind is MappingEndEvent or kind is SequenceEndEvent:
                    node = current
                    if node.flow:
                        end = event.end_mark.index + base
                    # libyaml closes a block where the next one starts; it ends with the last thing in it.
                    node.end = end
                    node.size += count + self.extra
                    if merges and id(node) in merges:
                        self._merge(node)
                    current, pairs, items, key = stack.pop()
                    if current is not None and current.height <= node.height:
                        current.height = node.height + 1
                elif kind is AliasEvent:
                    node = self._alias(event, len(stack))
                    end = event.end_mark.index + base
                    if current is not None and node.__class__ is not tuple and current.height <= node.height:
                        current.height = node.height + 1
                elif kind is DocumentStartEvent:
                    self.document_start = event.start_mark.index + base
                    anchors.clear()
                    root = None
                    continue
                elif kind is DocumentEndEvent:
                    after = event.end_mark.index + base
                    if root is not None:
                        self.roots.append(Root(root, self.document_start, after))
                        self.roots_added += 1
                    self.document_start = after
                    continue
                elif kind is StreamEndEvent:
                    return
                else:
                    continue

                if pairs is not None:
                    if key is None:
                        if count > most:
                            raise _Halt(start_of(node), _TOO_MANY, final=True)
                        key = node
                        continue
                    if key.__class__ is not tuple:
                        self._complex_key(current, key)
                    else:
                        name = key[0]
                        if name in pairs or name in _ODD_KEYS:
                            self._odd_pair(current, key, node)
                        else:
                            pairs[name] = (key, node)
                    key = None
                elif count > most:
                    raise _Halt(start_of(node), _TOO_MANY, final=True)
                elif items is not None:
                    items.append(node)
                else:
                    root = node
        finally:
            self.count = count

    def _report(self, index: int, message: str) -> None:
        report(self.problems, self.source.position(index), message)

    def _alias(self, event: Any, depth: int) -> Raw:
        """The node an alias stands for; null where there is none, with a problem."""
        start, end = event.start_mark.index + self.base, event.end_mark.index + self.base
        target = self.anchors.get(event.anchor)
        if target is None:
            self._report(start, f"the alias *{event.anchor} has no anchor &{event.anchor} before it")
        elif isinstance(target, tuple):
            self.extra += 1
            return target
        elif target.end < 0:
            self._report(start, f"the alias *{event.anchor} stands inside its own anchor")
        else:
            self.extra += target.size
            if self.extra > MOST_ALIASED:
                message = f"the aliases of this file stand for more than {MOST_ALIASED:,} nodes"
                raise _Halt(start, message, final=True)
            if depth + target.height >= DEEPEST:
                raise _Halt(start, f"nested more than {DEEPEST} levels deep, aliases written out")
            return target
        return ("", "", _NULL, start, end)

    def _complex_key(self, mapping: Mapping, key: Mapping | Sequence) -> None:
        if mapping.flow and key.flow and key.start == mapping.start + 1:
            if self.templated is None:
                self.templated = mapping.start
        else:
            self._report(key.start, "a key that is a list or a mapping; Kubernetes knows only strings")

    def _odd_pair(self, mapping: Mapping, key: Scalar, value: Raw) -> None:
        """A pair whose key is a merge key, is null, or has been there before; the last one wins, as in Kubernetes."""
        name, style, tag, start, _ = key
        if not style and tag is None and name in _ODD_KEYS:
            if name == "<<":
                self.merges.setdefault(id(mapping), []).append(value)
            else:
                self._report(start, "a key that is null; quote it" if name else "a value without a key")
            return
        first = mapping.pairs.get(name)
        if first is not None:
            line = self.source.locate(first[0][3])[0]
            self._report(start, f"duplicate key {_short(name)!r}, first on line {line}")
        mapping.pairs[name] = (key, value)

    def _merge(self, mapping: Mapping) -> None:
        """Adds the pairs of ``<<`` to a mapping that is complete; its own pairs win, and earlier merges over later."""
        for value in self.merges.pop(id(mapping)):
            for part in value.items if isinstance(value, Sequence) else (value,):
                if isinstance(part, Mapping):
                    for name, pair in part.pairs.items():
                        mapping.pairs.setdefault(name, pair)
                elif not isinstance(part, tuple) or part[2] != _NULL:
                    self._report(start_of(part), "'<<' merges mappings; this is none")


def report(problems: list[Problem], position: Position, message: str) -> None:
    """Adds a problem, as long as a person would still read it."""
    if len(problems) < MOST_PROBLEMS:
        problems.append(Problem(position, message))
    elif len(problems) == MOST_PROBLEMS:
        problems.append(Problem(position, f"more problems; only the first {MOST_PROBLEMS} of this file are shown"))


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
