"""Tells kustomizations that change what they read, and says of them that they were not rendered."""

from __future__ import annotations

import re
from typing import Final

from planner.documents.document import FileContent, Notice
from planner.provenance import Position

#: Said of every kustomization alike, so that a report can say it once for many.
NOT_RENDERED: Final = (
    "not rendered, so what it changes is not checked: planner lint --render, or kustomize build DIR | planner lint -"
)
_CHANGING: Final = re.compile(
    rb"^[\"']?(?:patches|patchesStrategicMerge|patchesJson6902|images|replacements|components|transformers|replicas|"
    rb"generators|helmCharts)[\"']?[ \t]*:",
    re.MULTILINE,
)


def with_notice(content: FileContent, data: bytes) -> FileContent:
    """A kustomization with a notice where it does more than to list files, told without parsing it."""
    if _CHANGING.search(data) is None or content.problems:
        return content
    return content._replace(notices=(*content.notices, Notice(Position(content.file, 1, 1), NOT_RENDERED)))
