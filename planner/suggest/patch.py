"""Patches of a text: replaced spans, unified diffs, and files that are replaced whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from planner.record import NamedTuple

_MARK = b"\xef\xbb\xbf"


class Edit(NamedTuple):
    """The characters from ``start`` to ``end`` of a text give way to ``text``; an insertion where both are the same."""

    start: int
    end: int
    text: str


class CannotWrite(Exception):  # noqa: N818 - shown to people as it is
    """A file that was left as it is; the text says why."""


def applied(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits made. Raises ValueError where two of them overlap."""
    parts: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < done:
            raise ValueError("two edits of the same characters")
        parts += [text[done : edit.start], edit.text]
        done = edit.end
    return "".join((*parts, text[done:]))


def decoded(data: bytes) -> str | None:
    """The text of a file in UTF-8 without its byte order mark; None for other encodings, which are not edited."""
    try:
        return data.removeprefix(_MARK).decode("utf-8")
    except UnicodeDecodeError:
        return None


def encoded(text: str, before: bytes) -> bytes:
    """The bytes of a text, with the byte order mark that the file had ``before``."""
    return (_MARK if before.startswith(_MARK) else b"") + text.encode("utf-8")


def unified_diff(file: str, before: str, after: str) -> str:
    """The difference as ``patch`` and ``git apply`` take it; empty where there is none. Only line feeds end lines, so that
    files with carriage returns keep them."""
    if before == after:
        return ""
    from difflib import unified_diff as difference

    named = os.path.normpath(file).replace(os.sep, "/")
    old, new = (named, named) if named.startswith("/") else (f"a/{named}", f"b/{named}")
    lines = []
    for line in difference(_lines(before), _lines(after), old, new):
        lines.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(lines)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    return [line + "\n" for line in lines] + ([last] if last else [])


def replace_file(path: str, before: bytes, after: bytes) -> None:
    """Puts ``after`` in the place of a regular file that still holds ``before``: whole or not at all, permissions kept.

    A symbolic link is never written through: it may lead anywhere. Raises CannotWrite.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name[:200]}.{os.getpid()}.planner")
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            raise CannotWrite("a symbolic link, not written through" if stat.S_ISLNK(status.st_mode) else "no file")
        if not os.access(path, os.W_OK):
            raise CannotWrite("not writable")
        with open(path, "rb") as file:
            if file.read(len(before) + 1) != before:
                raise CannotWrite("it changed meanwhile")
        # Exclusive: whatever stands there already, a link of a stranger's checkout included, is not written through.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except (OSError, ValueError) as error:
        raise CannotWrite(getattr(error, "strerror", None) or str(error)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, stat.S_IMODE(status.st_mode))
        os.replace(temporary, path)
    except OSError as error:
        raise CannotWrite(error.strerror or str(error)) from None
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)
