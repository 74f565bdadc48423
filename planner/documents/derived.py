"""Nodes that no file holds as such, made of nodes that one does, so that everything in them keeps its place.

Custom resources say in typed fields what a pod template says in its own (``spec.resourceProfile: nvidia-gpu-l4:8``). What
reads pod templates can read them too when they are put together as one; a finding then points at the typed field. All
parts of one node must be of one file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Mapping as Pairs
from typing import Final

from planner.documents.compose import compose
from planner.documents.document import Problem
from planner.documents.node import Node
from planner.documents.source import Source
from planner.documents.tree import Mapping, Raw, Scalar, Sequence, start_of

_STRING: Final = "tag:yaml.org,2002:str"


def text_at(node: Node, text: str, offset: int = -1) -> Node:
    """A string that stands where ``node`` does, or at a character offset into the scalar ``node``."""
    raw = node._raw
    start = start_of(raw)
    if offset >= 0 and isinstance(raw, tuple):
        start = node._source.index_in(raw, offset)
    return _standing_for(node, (text, "", _STRING, start, start))


def key_at(node: Node, text: str) -> Node:
    """A string that stands where the key of ``node`` does (``node`` itself where it has none)."""
    key = node._key
    start = start_of(node._raw if key is None else key)
    return _standing_for(node, (text, "", _STRING, start, start))


def mapping_at(node: Node, pairs: Pairs[str, Node | None]) -> Node:
    """A mapping that stands where ``node`` does; its keys stand where those of their values do. None is left out."""
    made = Mapping(start_of(node._raw), False, 1)
    made.end = _end_of(node._raw)
    for name, value in pairs.items():
        if value is not None and value._source is node._source:
            place = start_of(value._raw if value._key is None else value._key)
            made.pairs[name] = ((name, "", _STRING, place, place), value._raw)
    return _standing_for(node, made)


def sequence_at(node: Node, items: Iterable[Node]) -> Node:
    """A list that stands where ``node`` does."""
    made = Sequence(start_of(node._raw), False, 1)
    made.end = _end_of(node._raw)
    made.items = [item._raw for item in items if item._source is node._source]
    return _standing_for(node, made)


def merged(base: Node, patch: Node, depth: int = 0) -> Node:
    """A strategic merge: mappings are merged key by key, lists of mappings with a ``name`` (or ``mountPath``) element by
    element, and everything else is taken from ``patch``."""
    if depth > 40 or base._source is not patch._source:
        return patch
    if base.kind == "mapping" and patch.kind == "mapping":
        fields = dict(base.items())
        for name, value in patch.items():
            old = fields.get(name)
            fields[name] = value if old is None else merged(old, value, depth + 1)
        return mapping_at(patch, fields)
    if base.kind == "sequence" and patch.kind == "sequence":
        for key in ("name", "mountPath"):
            old_items = {item.string(key): item for item in base}
            new_items = {item.string(key): item for item in patch}
            if new_items and None not in new_items and None not in old_items:
                both = dict(old_items)
                for called, item in new_items.items():
                    both[called] = merged(both[called], item, depth + 1) if called in both else item
                return sequence_at(patch, both.values())
    return patch


def substituted(node: Node, fill: Callable[[str], str]) -> Node:
    """``node`` with ``fill`` applied to the text of every scalar in it; places stay what they are."""
    made: dict[int, Raw] = {}
    waiting: list[tuple[Raw, bool]] = [(node._raw, False)]
    while waiting:
        raw, ready = waiting.pop()
        if id(raw) in made:
            continue
        if isinstance(raw, tuple):
            made[id(raw)] = _filled(raw, fill)
        elif not ready:
            waiting.append((raw, True))
            inner = [value for _, value in raw.pairs.values()] if isinstance(raw, Mapping) else raw.items
            waiting.extend((item, False) for item in inner if id(item) not in made)
        elif isinstance(raw, Mapping):
            pairs = {name: (key, made[id(value)]) for name, (key, value) in raw.pairs.items()}
            made[id(raw)] = raw
            if any(pairs[name][1] is not value for name, (_, value) in raw.pairs.items()):
                made[id(raw)] = mapping = Mapping(raw.start, raw.flow, raw.size)
                mapping.end, mapping.height, mapping.pairs = raw.end, raw.height, pairs
        else:
            items = [made[id(item)] for item in raw.items]
            made[id(raw)] = raw
            if any(new is not old for new, old in zip(items, raw.items, strict=True)):
                made[id(raw)] = sequence = Sequence(raw.start, raw.flow, raw.size)
                sequence.end, sequence.height, sequence.items = raw.end, raw.height, items
    return _standing_for(node, made[id(node._raw)])


def embedded(node: Node) -> tuple[Node | None, list[Problem]]:
    """The YAML document that a scalar's text is, with places in the scalar's own file, and what is wrong with it."""
    composed = compose(_Embedded(node))
    return (Node(composed.roots[0].raw, composed.source) if composed.roots else None), composed.problems


class _Embedded(Source):
    """The text of a scalar as a source of its own."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        super().__init__(node._source.file, node.text)
        self._node = node

    def locate(self, index: int) -> tuple[int, int]:
        place = self._node.position_at(index)
        return place.line, place.column


def _filled(raw: Scalar, fill: Callable[[str], str]) -> Scalar:
    text = fill(raw[0])
    # What was plain becomes a string: a template's value is text until somebody reads it.
    return raw if text == raw[0] else (text, raw[1], raw[2] or _STRING, raw[3], raw[4])


def _end_of(raw: Raw) -> int:
    return raw[4] if isinstance(raw, tuple) else raw.end


def _standing_for(node: Node, raw: Raw) -> Node:
    return Node(raw, node._source, node._parent, node._steps, node._key)
