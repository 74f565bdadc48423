"""Bytes or a path → the documents of one input, what was wrong with it, and what was left out on purpose."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import Final

from planner.documents.compose import MOST_PROBLEMS, Composed, Root, compose, report
from planner.documents.document import Document, FileContent, Problem
from planner.documents.node import Node
from planner.documents.source import Source, split_lines
from planner.provenance import Position

#: Larger inputs are not read. All manifests of one cluster's operators together stay below this.
LARGEST: Final = 10 * 1024 * 1024

#: Characters of JSON whose UTF-16 escapes are written anew, which takes a third of a second per MiB at worst.
_LARGEST_ESCAPED: Final = 2 * 1024 * 1024
_KIND: Final = re.compile(rb"""(?<![\w./-])kind["']?\s*:""")
_API_VERSION: Final = re.compile(rb"""(?<![\w./-])apiVersion["']?\s*:""")
#: Top-level keys of charts that run engines, and what values of others name.
_VALUES_KEY: Final = re.compile(rb"^(?:servingEngineSpec|modelArtifacts)[ \t]*:", re.MULTILINE)
_VALUES_WORD: Final = rb"(?i)vllm|sglang|text-generation-inference|tensorrt|trtllm|nvcr\.io/nim|llama[.-]?cpp"
_VALUES_FIELD: Final = rb"(?i)(?:gpu|args|model)[\w-]*[ \t]*:"
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_JSON_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_JSON_ESCAPE: Final = re.compile(
    r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\."
)


def may_hold_workload(data: bytes, file: str = "") -> bool:
    """Whether an input looks like Kubernetes objects (``kind`` and ``apiVersion`` keys), or like values of a Helm chart
    that runs an engine, told without parsing it. ``file`` is its name."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        data = data.replace(b"\0", b"")
    if _KIND.search(data) is not None and _API_VERSION.search(data) is not None:
        return True
    if _VALUES_KEY.search(data) is not None:
        return True
    name = file.rpartition("/")[2].lower()
    return "values" in name and bool(re.search(_VALUES_WORD, data) and re.search(_VALUES_FIELD, data))


def read_path(path: str | os.PathLike[str], file: str) -> FileContent:
    """Reads the file at ``path``; ``file`` is the name that positions show. Never raises for what the file is or holds."""
    data = load(path, file)
    if isinstance(data, Problem):
        return FileContent(file, (), (data,), ())
    return read_bytes(data, file, path)


def load(path: str | os.PathLike[str], file: str) -> bytes | Problem:
    """The bytes of a regular file, or why it cannot be read. Devices, pipes and sockets are never opened."""
    start = Position(file, 1, 1)
    try:
        # Opening a pipe would block and opening a device may do something, so ask before; and ask again, and open
        # without blocking, because the file may be another one by then.
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            return Problem(start, "a folder, not a file" if stat.S_ISDIR(mode) else "not a regular file, not opened")
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                return Problem(start, "not a regular file, not opened")
            return _read_all(handle, status.st_size)
        finally:
            os.close(handle)
    except FileNotFoundError:
        return Problem(start, "no such file")
    except (OSError, ValueError) as error:
        return Problem(start, f"cannot be read: {getattr(error, 'strerror', None) or error}")


def _read_all(handle: int, size: int) -> bytes:
    """What an open file holds, up to one byte more than the limit. ``size`` may be wrong, as it is under /proc."""
    parts = [os.read(handle, min(size, LARGEST) + 1)]
    length = len(parts[0])
    while parts[-1] and length <= LARGEST:
        parts.append(os.read(handle, 1 << 20))
        length += len(parts[-1])
    return b"".join(parts)


def read_bytes(data: bytes, file: str, path: str | os.PathLike[str] | None = None) -> FileContent:
    """The documents of ``data`` (YAML or JSON); ``file`` is the name that positions show.

    Never raises: what cannot be read is a Problem, a template is a Notice, and the rest is read. ``path`` tells whether
    the file belongs to a Helm chart.
    """
    text = _decode(data, file)
    if isinstance(text, Problem):
        return FileContent(file, (), (text,), ())
    lines = tuple(split_lines(text))
    braces = "{{" in text or "{%" in text
    if braces:
        from planner.documents import templates

        notice = templates.in_chart(path, file, text)
        if notice is not None:
            return FileContent(file, (), (), (notice,), lines)
    if len(text) <= _LARGEST_ESCAPED and "\\u" in text and text.lstrip()[:1] in ("{", "[") and _SURROGATE.search(text):
        text = _without_surrogates(text)
    composed = compose(Source(file, text))
    if braces:
        notice = templates.as_template(composed)
        if notice is not None:
            return FileContent(file, (), (), (notice,), lines)
    documents: list[Document] = []
    owners: list[Root] = []
    for root in composed.roots:
        for node in _objects(Node(root.raw, composed.source), composed.problems):
            documents.append(Document(file, len(documents), node))
            owners.append(root)
    if "\ufeff" in text:
        _report_marks(composed)
    if "planner:" in text and documents:
        from planner.documents.comments import attach

        attach(documents, owners, composed, lines)
    return FileContent(file, tuple(documents), tuple(composed.problems), (), lines)


def _decode(data: bytes, file: str) -> str | Problem:
    start = Position(file, 1, 1)
    if len(data) > LARGEST:
        return Problem(start, f"larger than {LARGEST // 1024**2} MiB, not read")
    encoding = "utf-8"
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    elif data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        encoding = "utf-32"
    elif data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    if encoding == "utf-8" and b"\0" in data:
        return Problem(start, "a binary file (it holds NUL bytes)")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8":
            return Problem(start, f"starts like {encoding.upper()} but is not: {error.reason}")
        at = error.start
        line = data.count(b"\n", 0, at) + 1
        before = data[data.rfind(b"\n", 0, at) + 1 : at].decode("utf-8", "replace")
        return Problem(Position(file, line, len(before) + 1), f"not UTF-8 text (byte 0x{data[at]:02x})")


def _report_marks(composed: Composed) -> None:
    """Files with byte order marks, put one after the other: the mark becomes a part of the first key."""
    for match in re.finditer(r"^\ufeff", composed.source.text, re.MULTILINE):
        position = composed.source.position(match.start())
        if len(composed.problems) > MOST_PROBLEMS:
            break
        report(composed.problems, position, "a byte order mark (U+FEFF) inside the file; remove it")


def _without_surrogates(text: str) -> str:
    """JSON with its UTF-16 escapes written as YAML knows them. Strings keep their place: blanks behind fill the gap."""

    def escape(match: re.Match[str]) -> str:
        high, low = match.groups()
        if high is not None:
            return f"\\U{0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00:08x}"
        # Half a pair is no character; Go's reader puts U+FFFD in its place.
        return match.group() if len(match.group()) == 2 else "\\ufffd"

    def string(match: re.Match[str]) -> str:
        found = match.group()
        return _JSON_ESCAPE.sub(escape, found).ljust(len(found)) if "\\u" in found else found

    return _JSON_STRING.sub(string, text)


def _objects(root: Node, problems: list[Problem]) -> Iterator[Node]:
    """The root of a document, or the items of a list and of the lists in it; nothing for an empty document."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        items = node.get("items") if node.kind == "mapping" else None
        if items is None or items.kind != "sequence" or not (node.string("kind") or "").endswith("List"):
            if node.kind != "null":
                yield node
            continue
        inner = []
        for item in items:
            if item.kind == "mapping":
                inner.append(item.detached())
            elif item.kind != "null":
                report(problems, item.position, "an item of a List that is no object")
        waiting.extend(reversed(inner))
