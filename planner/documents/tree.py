"""The composed form of a document, made for many files: few objects, and none that the garbage collector has to visit twice.

All places are character indices into the whole text (see :class:`planner.documents.source.Source`).
"""

from __future__ import annotations

#: (content, style, tag, start, end). ``style`` is ``'``, ``"``, ``|``, ``>`` or empty for a plain scalar; ``tag`` is None
#: where the file gives none; ``start`` is the first character, quote or block indicator, behind anchor and tag. A plain
#: tuple, because Python stops to track those that hold only strings and numbers.
Scalar = tuple[str, str, str | None, int, int]


class Mapping:
    """A mapping. ``pairs``: key text → (node of the key, node of the value), merge keys resolved.

    ``end`` is -1 while it is being read; for a block it is the end of the last thing in it. ``size`` is the number of nodes
    with every alias written out, ``height`` the number of levels below.
    """

    __slots__ = ("end", "flow", "height", "pairs", "size", "start")

    def __init__(self, start: int, flow: bool, size: int) -> None:
        self.start = start
        self.end = -1
        self.flow = flow
        self.size = size
        self.height = 0
        self.pairs: dict[str, tuple[Scalar, Raw]] = {}


class Sequence:
    """A sequence; its fields are those of :class:`Mapping`."""

    __slots__ = ("end", "flow", "height", "items", "size", "start")

    def __init__(self, start: int, flow: bool, size: int) -> None:
        self.start = start
        self.end = -1
        self.flow = flow
        self.size = size
        self.height = 0
        self.items: list[Raw] = []


Raw = Mapping | Sequence | Scalar


def start_of(raw: Raw) -> int:
    """Where a node starts."""
    return raw[3] if isinstance(raw, tuple) else raw.start
