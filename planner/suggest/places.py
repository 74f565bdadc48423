"""From a position in a file to the scalar that holds it, and to what that scalar stands in."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence as Many

from planner.documents.document import Document
from planner.documents.node import Node
from planner.documents.source import Source
from planner.documents.tree import Mapping, Raw, Scalar, Sequence
from planner.provenance import Position
from planner.record import NamedTuple


class Place(NamedTuple):
    """A scalar of a file. ``parent``: the collection that holds it, None for a document of one scalar; ``number`` its place
    in a sequence, ``key`` the text of the key that it is (``is_key``) or stands under in a mapping."""

    scalar: Scalar
    parent: Mapping | Sequence | None
    number: int = -1
    key: str = ""
    is_key: bool = False


class Places:
    """Every scalar of one file's documents, found by character index."""

    def __init__(self, documents: Many[Document]) -> None:
        self.source: Source | None = documents[0].root._source if documents else None
        found: dict[int, Place] = {}
        seen: set[int] = set()
        waiting: list[Raw] = [document.root._raw for document in documents]
        for raw in waiting:
            if isinstance(raw, tuple):
                found.setdefault(raw[3], Place(raw, None))
        while waiting:
            raw = waiting.pop()
            if isinstance(raw, tuple) or id(raw) in seen:
                continue
            seen.add(id(raw))
            if isinstance(raw, Sequence):
                for number, item in enumerate(raw.items):
                    if isinstance(item, tuple):
                        found.setdefault(item[3], Place(item, raw, number))
                waiting.extend(raw.items)
            else:
                for name, (key, value) in raw.pairs.items():
                    found.setdefault(key[3], Place(key, raw, key=name, is_key=True))
                    if isinstance(value, tuple):
                        found.setdefault(value[3], Place(value, raw, key=name))
                    waiting.append(value)
        self._starts = sorted(found)
        self._found = found

    def index(self, position: Position) -> int:
        """The character index of a position."""
        return self.source.index_at(position.line, position.column) if self.source else 0

    def at(self, index: int) -> Place | None:
        """The scalar that holds a character of the text."""
        number = bisect_right(self._starts, index) - 1
        if number < 0:
            return None
        place = self._found[self._starts[number]]
        scalar = place.scalar
        return place if index < scalar[4] or (index == scalar[3] == scalar[4]) else None


def raw_of(node: Node) -> Raw:
    """The composed form of a node."""
    return node._raw


def own(node: Node, source: Source | None) -> bool:
    """Whether a node stands in the file itself, rather than being made of others or read out of a scalar's text."""
    raw = node._raw
    if node._source is not source:
        return False
    return raw[4] > raw[3] if isinstance(raw, tuple) else True
