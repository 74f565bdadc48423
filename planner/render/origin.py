"""From a place in rendered manifests back to the file that a person edits."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from planner.documents.read import read_path
from planner.provenance import Position
from planner.record import NamedTuple

if TYPE_CHECKING:
    from planner.documents.document import Document, FileContent
    from planner.documents.node import Node
    from planner.render.helm import Chart
    from planner.render.kustomize import Tree

#: Characters of a script that are looked at for the place of one word in it.
_LONGEST_TEXT = 20_000
_MOST_NODES = 50_000


class _Place(NamedTuple):
    """A node at a position: the way to it from the root of its document, whether its key is meant, and the offset into the
    text of a scalar."""

    document: Document
    node: Node
    steps: tuple[str | int, ...]
    key: bool
    offset: int


class _Places:
    """Finds the node at a position of rendered manifests."""

    def __init__(self, content: FileContent) -> None:
        self._documents = content.documents
        self._starts = [document.root.position.line for document in content.documents]
        self._known: dict[int, dict[tuple[int, int], tuple[Node, tuple[str | int, ...], bool]]] = {}

    def find(self, position: Position) -> _Place | None:
        number = bisect_right(self._starts, position.line) - 1
        if number < 0:
            return None
        if number not in self._known:
            self._known[number] = dict(_spots(self._documents[number].root))
        spots = self._known[number]
        document = self._documents[number]
        exact = spots.get((position.line, position.column))
        if exact is not None:
            return _Place(document, *exact, 0)
        before = [spot for spot in spots if spot <= (position.line, position.column)]
        if not before:
            return None
        node, steps, key = spots[max(before)]
        if key or node.kind != "scalar":
            return _Place(document, node, steps, key, 0)
        wanted = (position.line, position.column)
        for offset in range(min(len(node.text), _LONGEST_TEXT)):
            place = node.position_at(offset)
            if (place.line, place.column) == wanted:
                return _Place(document, node, steps, False, offset)
        return _Place(document, node, steps, False, 0)


def _spots(root: Node) -> Iterator[tuple[tuple[int, int], tuple[Node, tuple[str | int, ...], bool]]]:
    """Places of all values and keys of a document; where two start together, the outer one comes last and counts."""
    waiting: list[tuple[Node, tuple[str | int, ...]]] = [(root, ())]
    order = []
    for node, steps in waiting:
        if len(waiting) > _MOST_NODES:
            break
        order.append((node, steps))
        if node.kind == "mapping":
            waiting.extend((value, (*steps, name)) for name, value in node.items())
        elif node.kind == "sequence":
            waiting.extend((item, (*steps, number)) for number, item in enumerate(node))
    for node, steps in reversed(order):
        place = node.position
        yield (place.line, place.column), (node, steps, False)
    for node, steps in order:
        if steps and isinstance(steps[-1], str):
            place = node.key_position
            yield (place.line, place.column), (node, steps, True)


class KustomizeOrigin:
    """Places of what kustomize made → the resource that states it, the patch that changed it, or the kustomization."""

    def __init__(self, tree: Tree, rendered: FileContent) -> None:
        self._tree = tree
        self._places = _Places(rendered)
        self.fallback = Position(tree.file, 1, 1)

    def locate(self, position: Position) -> Position:
        place = self._places.find(position)
        if place is None:
            return self.fallback
        rendered = place.document.root
        resources = [document.root for document in sources_of(self._tree.resources, rendered)]
        patches = [root for root in self._tree.patches if _same_object(root, rendered)]
        # A patch with a target may have any name; one of the object's own name is the better guess.
        patches.sort(key=lambda root: _name(root) not in _name(rendered))
        for root in (*resources, *patches):
            found = _resolve(root, place)
            if found is not None:
                return found
        if place.node.kind == "scalar" and not place.key:
            texts = [*self._tree.patches, *(d.root for c in self._tree.kustomizations.values() for d in c.documents)]
            stated = _stating(texts, place.node.text)
            if stated is not None:
                return stated
        for root in (*resources, *patches):
            near = _nearest(root, place)
            if near is not None:
                return near
        return self.fallback


class HelmOrigin:
    """Places of what Helm made → the line of the template that says the same, the value that was put in, or the
    template."""

    def __init__(self, chart: Chart, rendered: FileContent, templates: list[tuple[int, str]]) -> None:
        self._chart = chart
        self._lines = rendered.lines
        self._places = _Places(rendered)
        self._starts = [line for line, _ in templates]
        self._templates = [path for _, path in templates]
        self._read: dict[str, tuple[str, ...]] = {}
        self.fallback = Position(os.path.join(chart.shown, "Chart.yaml"), 1, 1)

    def locate(self, position: Position) -> Position:
        number = bisect_right(self._starts, position.line) - 1
        template = self._templates[number] if number >= 0 else ""
        path = os.path.join(self._chart.folder, template)
        inside = os.path.join(os.path.realpath(self._chart.folder), "")
        if not template or not os.path.realpath(path).startswith(inside) or not os.path.isfile(path):
            return self.fallback
        shown = os.path.normpath(os.path.join(self._chart.shown, template))
        lines = self._template(path, shown)
        said = self._lines[position.line - 1].strip() if position.line <= len(self._lines) else ""
        same = [row for row, line in enumerate(lines, 1) if line.strip() == said]
        if said and len(same) == 1:
            text = lines[same[0] - 1]
            return Position(shown, same[0], len(text) - len(text.lstrip()) + 1)
        place = self._places.find(position)
        if place is not None and place.node.kind == "scalar" and not place.key:
            text = place.node.text
            values = [document.root for content in reversed(self._chart.contents) for document in content.documents]
            for wanted in dict.fromkeys((text, text.partition("=")[2], text.rpartition(":")[2])):
                stated = _stating(values, wanted, once=True) if len(wanted) > 1 else None
                if stated is not None:
                    return stated
        return Position(shown, 1, 1)

    def _template(self, path: str, shown: str) -> tuple[str, ...]:
        if path not in self._read:
            self._read[path] = read_path(path, shown).lines
        return self._read[path]

    @property
    def lines(self) -> dict[str, tuple[str, ...]]:
        """The lines of the templates that places were looked for in."""
        folder = self._chart.folder
        return {
            os.path.normpath(os.path.join(self._chart.shown, os.path.relpath(path, folder))): lines
            for path, lines in self._read.items()
        }


def sources_of(documents: Iterable[Document], rendered: Node) -> list[Document]:
    """The documents that a rendered object may have been made of: of its kind, and of its name or the longest part of it,
    to which prefixes and suffixes have come."""
    named = [(len(d.name), d) for d in documents if _same_object(d.root, rendered) and d.name in _name(rendered)]
    longest = max((length for length, _ in named), default=0)
    return [document for length, document in named if length == longest]


def _name(root: Node) -> str:
    return root.string("metadata", "name") or root.string("metadata", "generateName") or ""


def _same_object(source: Node, rendered: Node) -> bool:
    """Whether two objects are of the same kind."""
    if source.kind != "mapping" or source.string("kind") != rendered.string("kind"):
        return False
    group = (source.string("apiVersion") or "").rpartition("/")[0]
    return group == (rendered.string("apiVersion") or "").rpartition("/")[0]


def _step(node: Node, step: str | int, rendered: Node) -> Node | None:
    """The node under ``node`` that corresponds to ``rendered``, an item of a list by its name where it has one."""
    if isinstance(step, int) and node.kind == "sequence":
        for key in ("name", "mountPath", "containerPort"):
            named = rendered.string(key)
            if named is not None:
                return next((item for item in node if item.string(key) == named), None)
    return node.get(step)


def _walk(root: Node, place: _Place) -> Iterator[tuple[Node | None, Node]]:
    """(node of the source, rendered node) along the way to a place; None where the source has no such node."""
    source: Node | None = root
    rendered = place.document.root
    for step in place.steps:
        inner = rendered.get(step)
        if inner is None:
            return
        source = None if source is None else _step(source, step, inner)
        rendered = inner
        yield source, rendered


def _resolve(root: Node, place: _Place) -> Position | None:
    """The place in a source that says the same as the rendered one."""
    source: Node | None = root
    for node, _ in _walk(root, place):
        source = node
    if source is None or source.kind != place.node.kind:
        return None
    if source.kind == "scalar" and source.text != place.node.text:
        return None
    if place.key:
        return source.key_position
    return source.position_at(place.offset) if source.kind == "scalar" and place.offset else source.position


def _nearest(root: Node, place: _Place) -> Position | None:
    """The innermost node of a source on the way to a place."""
    found = None
    for node, _ in _walk(root, place):
        if node is None:
            break
        found = node
    return None if found is None else found.key_position


def _stating(roots: Iterable[Node], text: str, once: bool = False) -> Position | None:
    """The scalar that a text was taken from: it is the same, or the end of it behind ``:`` (the tag of an image)."""
    places: list[Position] = []
    for root in roots:
        waiting = [root]
        for node in waiting:
            if len(waiting) > _MOST_NODES:
                break
            if node.kind == "scalar":
                if node.text == text or (not once and node.text and text.endswith(f":{node.text}")):
                    places.append(node.position)
            else:
                waiting.extend(value for _, value in node.items())
                waiting.extend(node)
        if places:
            break
    return places[0] if places and (not once or len(places) == 1) else None
