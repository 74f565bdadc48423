"""The text of a file, and the way from character indices and from offsets in scalars to lines and columns."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate
from typing import Final

from planner.documents.tree import Scalar
from planner.provenance import Position

#: What ends a line for people and their tools. YAML also counts NEL, LS and PS, which sit inside lines elsewhere, so
#: libyaml's own line numbers are of no use here.
_LINE_END: Final = r"\r\n|\r|\n"
_BREAK: Final = r"\r\n|[\r\n\x85\u2028\u2029]"
#: Pieces of a plain or quoted scalar that do not stand for exactly one character each.
_FOLD: Final = rf"[ \t]+(?:(?:{_BREAK})[ \t]*)*|(?:(?:{_BREAK})[ \t]*)+"
_ESCAPE: Final = rf"\\(?:x[0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}|U[0-9a-fA-F]{{8}}|(?:{_BREAK})[ \t]*|.)"
_PIECES: Final = {"": _FOLD, "'": rf"{_FOLD}|''", '"': rf"{_FOLD}|{_ESCAPE}"}


def split_lines(text: str) -> list[str]:
    """The lines of a text without their ends; nothing after the last line end."""
    lines = text.split("\n") if "\r" not in text else re.split(_LINE_END, text)
    if not lines[-1]:
        lines.pop()
    return lines


class Source:
    """The text of one file under the name that positions show."""

    __slots__ = ("_segments", "_starts", "file", "text")

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self._starts: list[int] | None = None
        self._segments: dict[int, list[tuple[int, int]]] = {}

    def locate(self, index: int) -> tuple[int, int]:
        """Line and column, from 1, of a character index."""
        starts = self._starts
        if starts is None:
            if "\r" in self.text:
                starts = [0, *(match.end() for match in re.finditer(_LINE_END, self.text))]
            else:
                starts = [0, *accumulate(len(line) + 1 for line in self.text.split("\n"))]
            self._starts = starts
        line = bisect_right(starts, index)
        return line, index - starts[line - 1] + 1

    def position(self, index: int) -> Position:
        """The position of a character index."""
        return Position(self.file, *self.locate(index))

    def index_at(self, line: int, column: int) -> int:
        """The character index of a line and a column, both from 1; the nearest one where there is no such place."""
        self.locate(0)
        starts = self._starts or [0]
        return min(starts[max(0, min(line, len(starts)) - 1)] + max(0, column - 1), len(self.text))

    def behind_properties(self, index: int, end: int) -> int:
        """Where a scalar starts behind the anchor and the tag at ``index``, in any order."""
        text = self.text
        while index < end and text[index] in "&!":
            while index < end and not text[index].isspace():
                index += 1
            while index < end and (text[index].isspace() or text[index] == "#"):
                if text[index] == "#":
                    while index < end and text[index] not in "\r\n":
                        index += 1
                else:
                    index += 1
        return index

    def index_in(self, scalar: Scalar, offset: int) -> int:
        """The character index of a character offset into the content of a scalar."""
        if scalar[4] <= scalar[3]:  # made up (planner.documents.derived): all of it stands at one place
            return scalar[3]
        offset = max(0, min(offset, len(scalar[0])))
        # A scalar's start names it: no other has the same.
        segments = self._segments.get(scalar[3])
        if segments is None:
            segments = self._segments[scalar[3]] = self._align(scalar)
        content, index = segments[bisect_right(segments, (offset, len(self.text))) - 1]
        return index + offset - content

    def _align(self, scalar: Scalar) -> list[tuple[int, int]]:
        """Pairs (offset in the content, index in the text), ascending; between two of them both run in step."""
        value, style, _, start, end = scalar
        if style in ("|", ">"):
            return self._align_block(value, start, end, folded=style == ">")
        if style:
            start += 1
            end -= 1
        segments = [(0, start)]
        if len(value) == end - start and "\n" not in value and value == self.text[start:end]:
            return segments
        offset, index = 0, start
        joined = False  # whether a break was escaped just before
        for piece in re.compile(_PIECES[style]).finditer(self.text, start, end):
            offset += piece.start() - index
            raw = piece.group()
            joined = joined and piece.start() == index
            index = piece.end()
            if raw[0] == "\\" and raw[1] in "\r\n\x85\u2028\u2029":
                joined = True
            elif raw[0] in "\\'":
                joined = False
                offset += 1
            else:
                found = re.findall(_BREAK, raw)
                segments.append((offset, piece.start()))
                if not found:
                    offset += len(raw)
                elif joined or found[0] in "\u2028\u2029":
                    offset += len(found)
                else:
                    # One break is a space; of several, the first one goes.
                    offset += max(1, len(found) - 1)
                joined = False
            segments.append((offset, index))
        return segments

    def _align_block(self, value: str, start: int, end: int, folded: bool) -> list[tuple[int, int]]:
        text = self.text
        breaks = re.compile(_BREAK)
        header = breaks.search(text, start, end)
        if header is None:
            return [(0, start)]
        index, offset = header.end(), 0
        last = len(value.rstrip("\n"))
        segments: list[tuple[int, int]] = []
        value_breaks = re.compile("[\n\u2028\u2029]")
        while index < end and offset <= last:
            line_end = breaks.search(text, index, end)
            stop = line_end.start() if line_end else end
            if not folded:
                following = value_breaks.search(value, offset)
                width = min((following.start() if following else len(value)) - offset, stop - index)
                segments.append((offset, stop - width))
                offset += width + 1
            else:
                # Whatever folding makes of breaks and indentation, only blanks stand between the words of two lines.
                line = text[index:stop]
                words = line.strip(" \t")
                if words:
                    while offset < last and value[offset] in " \t\n\u2028\u2029":
                        offset += 1
                    segments.append((offset, index + len(line) - len(line.lstrip(" \t"))))
                    offset += len(words)
            index = line_end.end() if line_end else end
        if not segments or segments[0][0]:
            segments.insert(0, (0, min(header.end(), end)))
        return segments
