"""What a command is given (paths, globs, ``-``) → files read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.documents.document import FileContent


def read_inputs(paths: Sequence[str], exclude: Sequence[str] = (), stdin_name: str = "<stdin>") -> list[FileContent]:
    """Every manifest that ``paths`` name, in order; what cannot be read comes back as a problem of its file."""
    from planner.documents.discover import discover
    from planner.documents.document import FileContent
    from planner.documents.read import read_bytes, read_path

    contents = []
    for source in discover(paths, exclude):
        if source.problem is not None:
            contents.append(FileContent(source.name, (), (source.problem,), ()))
        elif source.notice is not None:
            contents.append(FileContent(source.name, (), (), (source.notice,)))
        elif source.path is None:
            contents.append(read_bytes(sys.stdin.buffer.read(), stdin_name))
        else:
            contents.append(read_path(source.path, source.name))
    return contents
