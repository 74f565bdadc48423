"""``# planner: …`` comments: found beside YAML values, and in shell scripts that a block scalar holds."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import islice
from typing import Final

from planner.documents.compose import Composed, Root
from planner.documents.document import Comment, Document
from planner.documents.tree import Raw, Sequence
from planner.provenance import Position
from planner.record import NamedTuple

_COMMENT: Final = re.compile(r"(?<!\S)#[ \t]*planner:[ \t]*([^\r\n]*)")
_BARE: Final = re.compile(r"[ \t]*(?:#.*|---[ \t]*(?:#.*)?)?")
#: Comments of one file that count, and lines of a command that one of them can cover; no person writes more.
_MOST_COMMENTS: Final = 5_000
_LONGEST_COMMAND: Final = 200
_SCRIPT_KEYS: Final = frozenset(("command", "args", "script", "entrypoint"))
#: A line that only a shell script holds: an assignment, or a command that people start engines with.
_SCRIPT_LINE: Final = re.compile(
    r"^[ \t]*(?:(?:export|exec|set|cd|sleep|echo|source|wait|while|if|for|pip|apt-get|vllm|python3?|bash|sh|hf|ray"
    r"|huggingface-cli|trtllm-serve|text-generation-launcher|mpirun)[ \t]|[A-Za-z_][A-Za-z0-9_]*=)",
    re.MULTILINE,
)


class _Span(NamedTuple):
    """The part of the text that a quoted or block scalar fills (character indices)."""

    start: int
    end: int
    script: bool


def attach(documents: list[Document], owners: list[Root], composed: Composed, lines: tuple[str, ...]) -> None:
    """Gives each document its comments. ``owners`` holds the root that each document, in file order, came from: several
    have the same where a ``kind: List`` was taken apart. What stands between two documents belongs to the second."""
    lasts: list[int] = []
    for number, (document, root) in enumerate(zip(documents, owners, strict=True)):
        if number + 1 < len(owners) and owners[number + 1] is root:
            lasts.append(document.root.position.end_line)
        else:
            lasts.append(composed.source.locate(max(root.end - 1, 0))[0])
    owned: dict[int, list[Comment]] = {}
    for comment in find(composed, lines):
        owned.setdefault(min(bisect_left(lasts, comment.position.line), len(lasts) - 1), []).append(comment)
    for number, comments in owned.items():
        documents[number].comments = tuple(comments)


def find(composed: Composed, lines: tuple[str, ...]) -> list[Comment]:
    """All ``# planner:`` comments of a text, in file order."""
    source = composed.source
    spans = _spans(composed)
    starts = [span.start for span in spans]
    comments: list[Comment] = []
    following = 0
    for match in islice(_COMMENT.finditer(source.text), _MOST_COMMENTS):
        index = match.start()
        at = bisect_right(starts, index) - 1
        span = spans[at] if at >= 0 and index < spans[at].end else None
        line, column = source.locate(index)
        before = lines[line - 1][: column - 1]
        if span is not None and (not span.script or before.count("'") % 2 or before.count('"') % 2):
            continue
        own_line = not before.strip()
        covers = covers_end = line
        if own_line:
            if following <= line:  # comments above one another cover the same line
                following = _next_content(lines, line)
            covers = min(following, len(lines))
            covers_end = _end_of_command(lines, covers) if span is not None else covers
        elif span is not None:
            covers_end = _end_of_command(lines, line)
        position = Position(source.file, line, column, line)
        comments.append(Comment(position, match.group(1).rstrip(), own_line, covers, covers_end))
    return comments


def _next_content(lines: tuple[str, ...], line: int) -> int:
    """The next line (from 1) after ``line`` that holds more than a comment; one behind the last where none follows."""
    for number in range(line, len(lines)):
        if _BARE.fullmatch(lines[number]) is None:
            return number + 1
    return len(lines) + 1


def _end_of_command(lines: tuple[str, ...], line: int) -> int:
    """The last line of a shell command that ``line`` begins: lines that end in a backslash go on."""
    most = min(len(lines), line + _LONGEST_COMMAND)
    while line < most and lines[line - 1].rstrip().endswith("\\"):
        line += 1
    return line


def _spans(composed: Composed) -> list[_Span]:
    spans: list[_Span] = []
    seen: set[int] = set()
    for root in composed.roots:
        waiting: list[tuple[Raw, str]] = [(root.raw, "")]
        while waiting:
            raw, name = waiting.pop()
            if not isinstance(raw, tuple):
                if id(raw) not in seen:
                    seen.add(id(raw))
                    if isinstance(raw, Sequence):
                        waiting.extend((item, name) for item in raw.items)
                    else:
                        for key, value in raw.pairs.values():
                            waiting.append((key, ""))
                            waiting.append((value, key[0]))
            elif raw[1]:
                content, style, _, start, end = raw
                script = style == "|" and (
                    name in _SCRIPT_KEYS
                    or name.endswith((".sh", ".bash"))
                    or content.startswith("#!")
                    or _SCRIPT_LINE.search(content) is not None
                )
                spans.append(_Span(start, end, script))
    spans.sort()
    return spans
