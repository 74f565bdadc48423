"""Files of a report as other tools want to read them: from the current folder, as paths or as URIs."""

from __future__ import annotations

import os
from urllib.parse import quote


def relative(file: str) -> str:
    """A path with ``/`` and without detours; below the current folder, relative to it, even where it is given as
    absolute."""
    path = os.path.normpath(file)
    if os.path.isabs(path):
        below = os.path.relpath(path)
        path = path if below.startswith("..") else below
    return path.replace(os.sep, "/")


def uri(file: str) -> str:
    """``relative`` as a URI reference: with ``file:`` where it is absolute."""
    path = relative(file)
    if os.path.isabs(path):
        return "file://" + quote(path, safe="/:", errors="surrogateescape")
    return quote(path, safe="/", errors="surrogateescape")
