"""Tells files that are not YAML yet: Helm charts' templates, Jinja and Go templates."""

from __future__ import annotations

import os
import re
import shlex
from typing import Final

from planner.documents.compose import Composed, compose
from planner.documents.document import Notice
from planner.documents.source import Source
from planner.documents.tree import Mapping, Raw
from planner.provenance import Position

#: Objects and functions that only Helm gives to templates.
_HELM: Final = re.compile(
    r"\{\{[^{}]*?(?:(?<![\w.\])])\.(?:Values|Release|Chart|Capabilities|Files|Subcharts)\b"
    r"|(?<![\w.])(?:include|toYaml|nindent|tpl)\s)"
)
_MARK: Final = re.compile(r"\{\{|\{%")
_CLOSING: Final = {"{{": "}}", "{%": "%}"}
#: Kinds that carry templates for somebody else as data.
_CARRIERS: Final = frozenset(
    ("ConfigMap", "Secret", "HelmRelease", "HelmChart", "HelmChartConfig", "Application", "ApplicationSet")
)


def in_chart(path: str | os.PathLike[str] | None, file: str, text: str) -> Notice | None:
    """A notice where the file is a template of a Helm chart on disk, one and the same for every file of the chart."""
    if path is None or "{{" not in text:
        return None
    chart = chart_of(path)
    if chart is None:
        return None
    up = os.path.relpath(path, chart).count(os.sep)
    return chart_notice(os.path.normpath(os.path.join(os.path.dirname(file), *([".."] * up))))


def chart_of(path: str | os.PathLike[str]) -> str | None:
    """The folder (absolute) of the Helm chart whose ``templates`` folder holds the file, if there is one."""
    folder = os.path.dirname(os.path.abspath(path))
    for _ in range(6):
        parent, name = os.path.split(folder)
        if name == "templates" and os.path.isfile(os.path.join(parent, "Chart.yaml")):
            return parent
        folder = parent
    return None


def chart_notice(chart: str) -> Notice:
    """What is said of a chart; ``chart`` is its folder as people name it."""
    place = "Chart.yaml" if chart in ("", ".") else f"{chart}/Chart.yaml"
    name = shlex.quote(chart or ".")
    return Notice(Position(place, 1, 1), f"not rendered: helm template {name} | planner lint -")


def as_template(composed: Composed) -> Notice | None:
    """A notice where what YAML makes of a text shows that it has to be rendered first, None for plain YAML.

    Templates in quoted strings and block scalars are data (chat templates, KServe runtimes), unless they use Helm's
    own objects.
    """
    source = composed.source
    file, text = source.file, source.text
    reason = composed.templated is not None or _broken_by_template(composed)
    helm = _HELM.search(text) is not None
    if not reason and not _unrendered_values(composed, helm):
        return None
    mark = _MARK.search(text)
    start = composed.templated if composed.templated is not None else mark.start() if mark is not None else 0
    position = source.position(start)
    if not helm:
        return Notice(position, "template, not rendered")
    parts = file.replace(os.sep, "/").split("/")
    if "templates" in parts[:-1]:
        folder = len(parts) - 1 - parts[::-1].index("templates")
        return chart_notice("/".join(parts[:folder]) or ".")
    return Notice(position, "not rendered: helm template CHART | planner lint -")


def _broken_by_template(composed: Composed) -> bool:
    """Whether the syntax errors are those of a template: without its actions they go away or come elsewhere."""
    if not composed.syntax:
        return False
    blanked = _blank(composed.source.text)
    if blanked == composed.source.text:
        return False
    return compose(Source(composed.source.file, blanked)).syntax[:1] != composed.syntax[:1]


def _blank(text: str) -> str:
    """The text with every template action replaced, in place: by blanks where it fills its line, else by a word."""
    pieces: list[str] = []
    done = 0
    while True:
        mark = _MARK.search(text, done)
        end = -1 if mark is None else text.find(_CLOSING[mark.group()], mark.end())
        if mark is None or end < 0:
            break
        pieces.append(text[done : mark.start()])
        # NUL stands nowhere else: a text that holds one is not decoded.
        pieces.append("".join("\n" if char == "\n" else "\0" for char in text[mark.start() : end + 2]))
        done = end + 2
    pieces.append(text[done:])
    lines = "".join(pieces).split("\n")
    return "\n".join(
        line.replace("\0", "x")
        if line.strip(" \t\r\0-")
        else line.replace("\0", " ").replace("-", " ")
        if "\0" in line
        else line
        for line in lines
    )


def _scalar(raw: Raw) -> str:
    return raw[0] if isinstance(raw, tuple) else ""


def _unrendered_values(composed: Composed, helm: bool) -> bool:
    """Whether a value outside quotes holds an action, or any value one of Helm's.

    Custom resources (KServe, Argo, OpenShift templates) have placeholders of their own in plain values, which their
    controllers fill in; the kinds of Kubernetes itself have none.
    """
    for root in composed.roots:
        if not isinstance(root.raw, Mapping):
            continue
        pairs = root.raw.pairs
        kind, version = (_scalar(pairs[name][1]) if name in pairs else "" for name in ("kind", "apiVersion"))
        group = version.partition("/")[0] if "/" in version else ""
        if not kind or kind in _CARRIERS:
            continue
        own = "." not in group or group.endswith(".k8s.io")
        waiting: list[Raw] = [root.raw]
        seen: set[int] = set()
        while waiting:
            raw = waiting.pop()
            if not isinstance(raw, tuple):
                if id(raw) in seen:
                    continue
                seen.add(id(raw))
                if isinstance(raw, Mapping):
                    for key, value in raw.pairs.values():
                        waiting.append(key)
                        waiting.append(value)
                else:
                    waiting.extend(raw.items)
            elif "{{" in raw[0] and ((own and not raw[1]) or (helm and _HELM.search(raw[0]) is not None)):
                return True
    return False
