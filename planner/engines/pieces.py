"""Text that remembers where each part of it stands in the input.

A word of a command line can be put together from an argument, a variable and a default. Each part is a ``Piece``; a
``Field`` is one word, and a ``Script`` is a text of pieces that is read again as shell input.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from planner.documents.node import Node
from planner.engines.config import Word
from planner.provenance import Position
from planner.record import NamedTuple

#: The piece's text is what the program gets.
KNOWN = 0
#: The text is the source's spelling of something that cannot be expanded here (``$TP_SIZE``).
UNKNOWN = 1
#: The text is what the program gets if a branch with an unknown condition is taken, else nothing or something else.
MAYBE = 2

#: Stands for an unknown piece in the text of a script.
_MARK = "\ufffc"


class Piece(NamedTuple):
    """A part of a word. ``offset`` counts characters in ``node``'s text; ``source`` is as in ``Word.source``.

    ``variable`` is set where nothing expands a reference as the file means it, and ``reason`` then says why.
    """

    text: str
    state: int
    node: Node | None
    offset: int
    source: str
    reason: str = ""
    variable: str = ""

    def part(self, start: int, end: int) -> Piece:
        """The characters from ``start`` to ``end`` of this piece."""
        return self._replace(text=self.text[start:end], offset=self.offset + start)

    @property
    def position(self) -> Position | None:
        """Where the piece starts in the input."""
        if self.node is None:
            return None
        return self.node.position_at(self.offset) if self.node.kind == "scalar" else self.node.position


Field = list[Piece]


def text_of(field: Field) -> str:
    """The whole text of a word, unknown parts in the source's spelling."""
    return field[0].text if len(field) == 1 else "".join(piece.text for piece in field)


def is_known(field: Field) -> bool:
    """Whether every part of the word is what the program gets."""
    return all(piece.state == KNOWN for piece in field)


# What people write where another tool or a reader fills in the value.
_NAME_PLACEHOLDER = (
    r"__[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*__"  # __MODEL__
    r"|\b(?:REPLACE_?ME|REPLACE_WITH_\w+|CHANGE_?ME|YOUR_[A-Z][A-Z0-9_]*|TO_BE_REPLACED)\b"
)
_PLACEHOLDER = (
    _NAME_PLACEHOLDER
    + r"|<[A-Za-z][\w .:/-]{1,80}>"  # <model>
    + r"|\{\{[^{}%]{0,200}\}\}"  # {{ .Values.model }}
    + r"|\$\{[A-Za-z_]\w*[.\[][^}]{0,200}\}"  # ${section.name}, which is no shell's
)
_PLACEHOLDER_SIGNS = ("<", "{{", "${", "__", "REPLACE", "CHANGE", "YOUR_")


def placeholder_in(text: str) -> str:
    """The first placeholder in a text (``<model>``, ``__MODEL__``, ``REPLACE_ME``, ``{{ … }}``), else empty."""
    # Long texts are no names, and a chat template in Jinja is a value of its own.
    if len(text) > 2000 or "{%" in text or not any(sign in text for sign in _PLACEHOLDER_SIGNS):
        return ""
    # Angle brackets and double braces inside JSON are data (``{"reasoning_start_str": "<think>"}``).
    match = re.search(_NAME_PLACEHOLDER if text[0] in "{[" and text[1:2] != "{" else _PLACEHOLDER, text)
    return match.group() if match else ""


def to_word(field: Field) -> Word:
    """The word that a program gets."""
    text = text_of(field)
    first = next((piece for piece in field if piece.text), field[0] if field else None)
    position = first.position if first else None
    source = first.source if first else "args"
    doubtful = next((piece for piece in field if piece.state != KNOWN), None)
    if doubtful is not None:
        return Word(text, position, False, source, doubtful.reason)
    placeholder = placeholder_in(text)
    if placeholder:
        return Word(text, position, False, source, f"{placeholder[:60]} is a placeholder that something else fills in")
    return Word(text, position, True, source)


def unexpanded_in(field: Field) -> tuple[tuple[str, str], ...]:
    """Variables in a word that nothing expands as the file means it: (variable, reason)."""
    return tuple((piece.variable, piece.reason) for piece in field if piece.variable)


class Script:
    """A text that a shell reads, put together from pieces. Unknown pieces are one character each in ``text``."""

    __slots__ = ("_pieces", "_starts", "text")

    def __init__(self, pieces: Field) -> None:
        starts: list[int] = []
        texts: list[str] = []
        length = 0
        for piece in pieces:
            text = _MARK if piece.state == UNKNOWN else piece.text
            starts.append(length)
            texts.append(text)
            length += len(text)
        self._pieces = pieces
        self._starts = starts
        self.text = "".join(texts)

    def cut(self, start: int, end: int) -> Field:
        """The pieces of the characters from ``start`` to ``end``; for an empty range an empty piece with its place."""
        pieces, starts = self._pieces, self._starts
        if not pieces:
            return []
        index = max(bisect_right(starts, start) - 1, 0)
        if end <= start:
            piece = pieces[index]
            return [piece._replace(text="", offset=piece.offset + start - starts[index], state=KNOWN, reason="")]
        found: Field = []
        while index < len(pieces) and starts[index] < end:
            piece, begin = pieces[index], starts[index]
            if piece.state == UNKNOWN:
                found.append(piece)
            elif piece.text:
                found.append(piece.part(max(start - begin, 0), min(end - begin, len(piece.text))))
            index += 1
        return found

    def spelling(self, start: int, end: int) -> str:
        """The characters from ``start`` to ``end`` as the file spells them."""
        return text_of(self.cut(start, end)) if end > start else ""
