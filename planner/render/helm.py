"""Helm charts: what planner refuses to render of one, and how it is rendered."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.documents.read import read_path
from planner.record import dataclass, field
from planner.render import tools

if TYPE_CHECKING:
    from planner.documents.document import FileContent

_MOST_ENTRIES = 20_000
#: Above each document Helm says which template it is from.
_SOURCE = re.compile(r"^# Source: ([^\r\n]+?)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class Chart:
    """A chart on disk (``folder``, shown as ``shown``) and values for it: the chart's own first, then those given."""

    folder: str
    shown: str
    values: tuple[tuple[str, str], ...]
    contents: list[FileContent] = field(default_factory=list)


def is_library(folder: str) -> bool:
    """Whether a chart has templates for other charts only."""
    content = read_path(os.path.join(folder, "Chart.yaml"), "Chart.yaml")
    return any(document.root.string("type") == "library" for document in content.documents)


def build(chart: Chart, given: Sequence[str], top: str) -> bytes:
    """The manifests of a chart with its own values and those of the files ``given``. Raises CannotRender.

    Dependencies must stand in ``charts/``: nothing is fetched.
    """
    tool = tools.find(("helm",))
    if tool is None:
        raise tools.CannotRender("helm is not on PATH; install it, or leave --render out")
    outside = _leads_out(chart.folder, top)
    if outside:
        raise tools.CannotRender(f"{outside} leads out of the repository")
    command = [tool, "template", os.path.realpath(chart.folder), "--skip-tests"]
    for path in given:
        command += ["--values", os.path.realpath(path)]
    return tools.run(command)


def _leads_out(folder: str, top: str) -> str:
    """A link of the chart to something outside of the repository: Helm follows links."""
    inside = os.path.join(os.path.realpath(top), "")
    budget = _MOST_ENTRIES
    for where, folders, names in os.walk(folder):
        for name in (*folders, *names):
            budget -= 1
            path = os.path.join(where, name)
            if os.path.islink(path) and not os.path.realpath(path).startswith(inside):
                return os.path.relpath(path, folder)
        if budget < 0:
            return f"more than {_MOST_ENTRIES:,} files: it may hold a link that"
    return ""


def templates_of(text: str) -> list[tuple[int, str]]:
    """(line, template) of the documents of a rendering: the template holds from that line on; its path is seen from the
    folder of the chart."""
    found = []
    for match in _SOURCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        found.append((line, match.group(1).partition("/")[2]))
    return found
