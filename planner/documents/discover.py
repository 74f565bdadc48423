"""Paths, folders and globs → the inputs to read, each once, in a fixed order."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from collections.abc import Sequence as Many
from typing import Final

from planner.documents.document import Notice, Problem
from planner.provenance import Position
from planner.record import NamedTuple

#: File names that a walk reads.
SUFFIXES: Final = (".yaml", ".yml", ".json")
#: Names that kustomize looks for in a folder, in its order.
KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
#: Folders that hold other people's files; hidden ones and virtual environments are skipped as well.
SKIPPED: Final = frozenset(("node_modules", "bower_components", "vendor", "__pycache__", "site-packages"))
#: Entries that one walk looks at; a mistyped path (``/``) should not run for hours.
MOST_ENTRIES: Final = 2_000_000
_MOST_TEMPLATES: Final = 1_000
STDIN: Final = "<stdin>"


class Source(NamedTuple):
    """One input. ``path`` is None for standard input; ``file`` is the name to show.

    ``named`` tells that the user named this very file, so it is read whatever it looks like. Where ``problem`` or
    ``notice`` is set there is nothing to read: the path cannot be used, or is a Helm chart.
    """

    path: str | None
    file: str
    named: bool = False
    problem: Problem | None = None
    notice: Notice | None = None


def discover(paths: Many[str], exclude: Many[str] = ()) -> Iterator[Source]:
    """The inputs behind ``paths``: files, folders (walked in sorted order), globs and ``-`` for standard input.

    ``exclude`` holds globs for what walks and globs leave out: a pattern without a slash fits the name of a file or
    folder anywhere, one with slashes the shown path (``**`` for any folders). Files that the user names are always read.
    Symbolic links are followed where the user names them; inside a folder only to files of that folder.
    """
    excluded = [compile_glob(pattern) for pattern in exclude]
    seen: set[str] = set()
    for path in paths:
        if path == "-":
            if "-" not in seen:
                seen.add("-")
                yield Source(None, STDIN, named=True)
        elif "\0" in path:
            yield _unusable(path, "not a path")
        elif os.path.isdir(path):
            yield from _walk(path, excluded, seen)
        elif os.path.lexists(path):
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                yield Source(path, _show(path), named=True)
        elif any(char in path for char in "*?["):
            yield from _expand(path, excluded, seen)
        else:
            yield _unusable(path, "no such file or folder")


def _unusable(path: str, message: str) -> Source:
    shown = _show(path)
    return Source(None, shown, named=True, problem=Problem(Position(shown, 1, 1), message))


def _expand(pattern: str, excluded: list[re.Pattern[str]], seen: set[str]) -> Iterator[Source]:
    """The files that fit a glob, and those in folders that fit it."""
    parts = pattern.split("/")
    literal = 0
    while not any(char in parts[literal] for char in "*?["):
        literal += 1
    base = "/".join(parts[:literal]) or ("/" if pattern.startswith("/") else ".")
    fits = compile_glob(pattern, whole=True)
    suffix = os.path.splitext(pattern)[1]
    suffixes = SUFFIXES if not suffix or any(char in suffix for char in "*?[") else (suffix,)
    found = False
    for source in _walk(base, excluded, seen, suffixes, fits, quiet=True):
        found = True
        yield source
    if not found:
        yield _unusable(pattern, "no file fits this pattern")


def _walk(
    top: str,
    excluded: list[re.Pattern[str]],
    seen: set[str],
    suffixes: tuple[str, ...] = SUFFIXES,
    fits: re.Pattern[str] | None = None,
    quiet: bool = False,
) -> Iterator[Source]:
    """The files below a folder in sorted order. With ``fits``, only those whose path, or a folder above, fits it."""
    root = os.path.realpath(top)
    inside = root if root.endswith(os.sep) else root + os.sep
    budget = MOST_ENTRIES
    # (path as shown, path without links, or a file's source to hand out)
    waiting: list[tuple[str, str, Source | None]] = [(top, root, None)]
    while waiting:
        shown, real, source = waiting.pop()
        if source is not None:
            if real not in seen:
                seen.add(real)
                yield source
            continue
        try:
            with os.scandir(shown) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except (OSError, ValueError) as error:
            if not (quiet and shown == top):
                yield _unusable(shown, f"cannot be listed: {_reason(error)}")
            continue
        budget -= len(found)
        if budget < 0:
            yield _unusable(top, f"more than {MOST_ENTRIES:,} files, not all read")
            return
        names = {entry.name for entry in found}
        if "pyvenv.cfg" in names and shown != top:
            continue
        chart = "Chart.yaml" in names and "templates" in names
        inner: list[tuple[str, str, Source | None]] = []
        for entry in found:
            name = entry.name
            path = name if shown == "." else os.path.join(shown, name)
            if any(pattern.search(path.replace(os.sep, "/")) for pattern in excluded):
                continue
            try:
                link, folder = entry.is_symlink(), entry.is_dir(follow_symlinks=False)
            except OSError:
                continue
            target = os.path.join(real, name)
            if folder:
                if name.startswith(".") or name in SKIPPED:
                    continue
                if chart and name in ("templates", "charts"):
                    if name == "templates" and (fits is None or _fits(fits, path)):
                        notice = _chart(shown, path)
                        if notice is not None:
                            inner.append((path, target, Source(None, _show(path), notice=notice)))
                    continue
                inner.append((path, target, None))
            elif (name.endswith(suffixes) or name == KUSTOMIZATIONS[-1]) and (fits is None or _fits(fits, path)):
                if link:
                    target = os.path.realpath(target)
                    if not target.startswith(inside) or not os.path.isfile(target):
                        continue
                elif not entry.is_file(follow_symlinks=False):
                    continue
                inner.append((path, target, Source(path, _show(path))))
        waiting.extend(reversed(inner))


def _chart(folder: str, templates: str) -> Notice | None:
    """What to say of a Helm chart; nothing where none of its templates looks like an object with a kind."""
    from planner.documents.read import load, may_hold_workload
    from planner.documents.templates import chart_notice

    waiting = [templates]
    budget = _MOST_TEMPLATES
    while waiting and budget > 0:
        try:
            with os.scandir(waiting.pop()) as entries:
                found = list(entries)
            for entry in found:
                budget -= 1
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.name.endswith(SUFFIXES) and entry.is_file(follow_symlinks=False):
                    data = load(entry.path, entry.name)
                    if isinstance(data, bytes) and may_hold_workload(data):
                        return chart_notice(_show(folder))
        except OSError:
            continue
    return None


def _show(path: str) -> str:
    """A path as it can be printed: what would break a line, a terminal or an encoding is escaped."""
    if path.isprintable():
        return path
    return "".join(
        char
        if char.isprintable()
        else char.encode("utf-8", "backslashreplace").decode("utf-8")
        if "\ud800" <= char <= "\udfff"
        else char.encode("unicode_escape").decode("ascii")
        for char in path
    )


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _fits(pattern: re.Pattern[str], path: str) -> bool:
    return pattern.search(path.replace(os.sep, "/")) is not None


def compile_glob(pattern: str, whole: bool = False) -> re.Pattern[str]:
    """A glob as a regular expression that finds a path, or a folder above it. ``*`` and ``?`` stop at slashes; ``**``
    does not. Without a slash (and not ``whole``) it fits any part of the path."""
    glob = pattern.replace(os.sep, "/").rstrip("/") or "/"
    anchored = whole or "/" in glob
    glob = re.sub(r"(?:\*\*/+){2,}", "**/", re.sub(r"^(?:\./+)+", "", glob))
    pieces: list[str] = []
    index = 0
    while index < len(glob):
        if glob.startswith("**", index):
            end = index + 2
            while glob.startswith("*", end):
                end += 1
            if glob.startswith("/", end) and (index == 0 or glob[index - 1] == "/"):
                pieces.append("(?:[^/]+/)*")
                end += 1
            else:
                pieces.append(".*")
            index = end
            continue
        char = glob[index]
        close = glob.find("]", index + 2) if char == "[" else -1
        if close > 0:
            inside = glob[index + 1 : close]
            negated = inside[0] in "!^"
            body = (inside[1:] if negated else inside).replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
            pieces.append(f"(?!/)[{'^' if negated else ''}{body}]")
            index = close + 1
            continue
        pieces.append("[^/]*" if char == "*" else "[^/]" if char == "?" else re.escape(char))
        index += 1
    before = r"^(?:\./)*" if anchored else r"(?:^|/)"
    try:
        return re.compile(f"{before}{''.join(pieces)}(?:/|$)", re.DOTALL)
    except re.error:
        # A broken character class is meant literally, as in a shell.
        return re.compile(f"{before}{re.escape(glob)}(?:/|$)")
