"""A YAML node with its place in the file. Wraps a composed tree and resolves values only when asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.documents.scalars import is_null, resolve
from planner.documents.source import Source
from planner.documents.tree import Mapping, Raw, Scalar, Sequence
from planner.provenance import Position


class Node:
    """One node of a document: a mapping, a sequence or a scalar.

    Looking something up never raises: what is absent or of another type is None (or empty), so that callers can walk
    hostile input. Depth and number of nodes are bounded when a document is read, with every alias written out, so a
    recursive walk is safe. ``path`` is the dotted path from the document's root, for people
    (``spec.template.spec.containers[0]``). Two nodes are equal when they are the same place in the file.
    """

    __slots__ = ("_key", "_parent", "_raw", "_source", "_steps")

    def __init__(
        self,
        raw: Raw,
        source: Source,
        parent: Node | None = None,
        steps: tuple[str | int, ...] = (),
        key: Raw | None = None,
    ) -> None:
        self._raw = raw
        self._source = source
        self._parent = parent
        self._steps = steps
        self._key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and other._raw is self._raw

    def __hash__(self) -> int:
        return id(self._raw)

    def __repr__(self) -> str:
        return f"Node({self.kind} {self.path or '.'} at {self.position})"

    @property
    def kind(self) -> str:
        """``mapping``, ``sequence``, ``scalar`` or ``null``."""
        raw = self._raw
        if isinstance(raw, tuple):
            return "null" if _null(raw) else "scalar"
        return "mapping" if isinstance(raw, Mapping) else "sequence"

    @property
    def path(self) -> str:
        """The dotted path from the document's root, empty for the root."""
        chain: list[Node] = []
        node: Node | None = self
        while node is not None:
            chain.append(node)
            node = node._parent
        path = ""
        for link in reversed(chain):
            for step in link._steps:
                if isinstance(step, int):
                    path += f"[{step}]"
                elif not step or "." in step or "/" in step or "[" in step:
                    path += f'["{step}"]'
                else:
                    path += f".{step}" if path else step
        return path

    @property
    def position(self) -> Position:
        """Where the value starts (for block scalars: the indicator's line); an alias stands where its anchor does."""
        raw = self._raw
        source = self._source
        line, column = source.locate(raw[3] if isinstance(raw, tuple) else raw.start)
        return Position(source.file, line, column, _end_line(raw, source))

    @property
    def key_position(self) -> Position:
        """Where the key of this value starts; the value's own position for sequence items and roots."""
        if self._key is None:
            return self.position
        return Node(self._key, self._source).position

    @property
    def text(self) -> str:
        """A scalar as the file spells its content (``8`` for ``"8"`` and for ``8``); empty for others."""
        raw = self._raw
        return raw[0] if isinstance(raw, tuple) else ""

    @property
    def quoted(self) -> bool:
        """Whether a scalar is quoted or a block scalar, that is, surely a string."""
        raw = self._raw
        return isinstance(raw, tuple) and (bool(raw[1]) or raw[2] == "tag:yaml.org,2002:str")

    @property
    def style(self) -> str:
        """How a scalar is written: ``|``, ``>``, ``'``, ``"``, or empty for a plain one and for collections."""
        raw = self._raw
        return raw[1] if isinstance(raw, tuple) else ""

    @property
    def value(self) -> str | int | float | bool | None:
        """A scalar resolved as Kubernetes' YAML reader does; None for null and for mappings and sequences."""
        return _value(self._raw)

    def get(self, *keys: str | int) -> Node | None:
        """The node under a path of keys and indices, None where anything is missing or null."""
        raw: Any = self._raw
        step: Any
        key: Raw | None = None
        for step in keys:
            if raw.__class__ is Mapping:
                pair = raw.pairs.get(step)
                if pair is None:
                    return None
                key, raw = pair
            elif raw.__class__ is Sequence and step.__class__ is int:
                items = raw.items
                if not -len(items) <= step < len(items):
                    return None
                key, raw = None, items[step]
            else:
                return None
        if raw.__class__ is tuple and _null(raw):
            return None
        return Node(raw, self._source, self, keys, key) if keys else self

    def items(self) -> Iterator[tuple[str, Node]]:
        """Keys and values of a mapping in file order, merge keys (``<<``) resolved; nothing for other nodes."""
        raw = self._raw
        if isinstance(raw, Mapping):
            for name, (key, value) in raw.pairs.items():
                yield name, Node(value, self._source, self, (name,), key)

    def key_node(self, key: str) -> Node | None:
        """The node of a key itself."""
        raw = self._raw
        pair = raw.pairs.get(key) if isinstance(raw, Mapping) else None
        return None if pair is None else Node(pair[0], self._source, self, (key,))

    def __len__(self) -> int:
        """The number of elements of a sequence or of keys of a mapping; 0 for other nodes."""
        raw = self._raw
        return len(raw.pairs) if isinstance(raw, Mapping) else len(raw.items) if isinstance(raw, Sequence) else 0

    def __bool__(self) -> bool:
        """Always true, so that ``if node`` asks whether there is a node."""
        return True

    def __iter__(self) -> Iterator[Node]:
        """The elements of a sequence; nothing for other nodes."""
        raw = self._raw
        if isinstance(raw, Sequence):
            for index, item in enumerate(raw.items):
                yield Node(item, self._source, self, (index,))

    def string(self, *keys: str | int) -> str | None:
        """The text of the scalar at a path where it is a string (numbers and booleans as the file spells them)."""
        node = self.get(*keys)
        raw = None if node is None else node._raw
        return raw[0] if isinstance(raw, tuple) else None

    def integer(self, *keys: str | int) -> int | None:
        """The integer at a path (``1e3`` and ``8.0`` are integers to Kubernetes), None where it is something else."""
        node = self.get(*keys)
        value = None if node is None else _value(node._raw)
        if isinstance(value, bool):
            return None
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return value if isinstance(value, int) else None

    def boolean(self, *keys: str | int) -> bool | None:
        """The boolean at a path, None where it is something else."""
        node = self.get(*keys)
        value = None if node is None else _value(node._raw)
        return value if isinstance(value, bool) else None

    def plain(self) -> Any:
        """The node as plain Python data (dict, list, str, int, float, bool, None)."""
        return _plain(self._raw)

    def detached(self) -> Node:
        """The same node as the root of a document of its own."""
        return Node(self._raw, self._source)

    def position_at(self, offset: int) -> Position:
        """The place in the file of a character offset into a scalar's ``text``.

        Exact for plain, quoted and block scalars, also where lines are folded and characters escaped; offsets outside
        the text give its first or last place. The value's own position for mappings and sequences.
        """
        raw = self._raw
        source = self._source
        return source.position(source.index_in(raw, offset)) if isinstance(raw, tuple) else self.position


def _null(raw: Scalar) -> bool:
    return is_null(raw[0], not raw[1], raw[2])


def _value(raw: Raw) -> str | int | float | bool | None:
    return resolve(raw[0], not raw[1], raw[2]) if isinstance(raw, tuple) else None


def _plain(raw: Raw) -> Any:
    if isinstance(raw, Mapping):
        return {name: _plain(value) for name, (_, value) in raw.pairs.items()}
    if isinstance(raw, Sequence):
        return [_plain(item) for item in raw.items]
    return _value(raw)


def _end_line(raw: Raw, source: Source) -> int:
    """The last line of a node."""
    start, end = raw[3:] if isinstance(raw, tuple) else (raw.start, raw.end)
    # The line breaks behind a block scalar belong to it, whatever it keeps of them.
    while end > start and source.text[end - 1].isspace():
        end -= 1
    return source.locate(end)[0]
