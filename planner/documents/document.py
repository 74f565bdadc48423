"""One YAML or JSON document of an input, its comments, and what was wrong with it."""

from __future__ import annotations

from planner.documents.node import Node
from planner.provenance import Position
from planner.record import NamedTuple


class Problem(NamedTuple):
    """Something that could not be read: shown as ``file:line:column: message``; the run ends with exit code 2."""

    position: Position
    message: str


class Notice(NamedTuple):
    """Something that was left out on purpose (a Helm template); counted, and no error."""

    position: Position
    message: str


class Comment(NamedTuple):
    """A ``# planner: …`` comment. ``text`` is what follows ``planner:``; ``own_line`` tells whether nothing else stands
    on the line. ``covers`` is the line of the next content line below for a comment of its own line, else its own line.
    ``covers_end`` is the last line covered: that of the whole command where a shell script's lines go on with ``\\``."""

    position: Position
    text: str
    own_line: bool
    covers: int
    covers_end: int = 0


class Document:
    """A document: its root node, and where it came from. Items of a ``kind: List`` are documents of their own."""

    __slots__ = ("comments", "file", "index", "root")

    def __init__(self, file: str, index: int, root: Node, comments: tuple[Comment, ...] = ()) -> None:
        self.file = file
        self.index = index
        self.root = root
        self.comments = comments

    @property
    def kind(self) -> str:
        """``kind`` of a Kubernetes object, empty for other YAML."""
        return self.root.string("kind") or ""

    @property
    def api_version(self) -> str:
        """``apiVersion`` of a Kubernetes object, empty for other YAML."""
        return self.root.string("apiVersion") or ""

    @property
    def name(self) -> str:
        """``metadata.name`` (or ``generateName``), empty where there is none."""
        return self.root.string("metadata", "name") or self.root.string("metadata", "generateName") or ""

    @property
    def namespace(self) -> str:
        """``metadata.namespace``, empty where there is none."""
        return self.root.string("metadata", "namespace") or ""


class FileContent(NamedTuple):
    """What one input held."""

    file: str
    documents: tuple[Document, ...]
    problems: tuple[Problem, ...]
    notices: tuple[Notice, ...]
    lines: tuple[str, ...] = ()  # the source lines, for reports that show them
