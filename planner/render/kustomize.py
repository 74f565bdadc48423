"""``kustomization.yaml``: what it reads, what planner refuses to render of it, and how it is rendered.

kustomize fetches whatever it does not find on disk, so that everything a kustomization names is looked at first: it must
be a file or a folder of the repository.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from planner.documents.discover import KUSTOMIZATIONS
from planner.documents.document import Document, FileContent, Problem
from planner.documents.read import read_path
from planner.record import dataclass, field
from planner.render import tools

if TYPE_CHECKING:
    from planner.documents.node import Node

#: Keys whose entries are files or folders: (key, whether an entry may be a folder with a kustomization).
_RESOURCES = ("resources", "bases", "components")
_PATCHES = ("patches", "patchesStrategicMerge", "patchesJson6902")
_FILES = ("crds", "configurations", "transformers", "generators", "validators")
_GENERATORS = ("configMapGenerator", "secretGenerator")
_DEEPEST = 32
_MOST_FILES = 5_000
_NOT_HERE = "is not in this repository; kustomize would fetch it, and planner never reaches the network: copy it here"


@dataclass(frozen=True, eq=False)
class Tree:
    """A kustomization and all that it reads. ``files``: real path → content, the kustomizations first, each before what
    it reads; ``resources`` and ``patches`` are documents (patches with the kustomization that names them)."""

    folder: str
    file: str
    files: dict[str, FileContent] = field(default_factory=dict)
    kustomizations: dict[str, FileContent] = field(default_factory=dict)
    resources: list[Document] = field(default_factory=list)
    patches: list[Node] = field(default_factory=list)
    refused: list[Problem] = field(default_factory=list)


def kustomization_in(folder: str) -> str | None:
    """The kustomization file of a folder."""
    return next((path for name in KUSTOMIZATIONS if os.path.isfile(path := os.path.join(folder, name))), None)


def is_kustomization(content: FileContent) -> bool:
    """Whether a file of that name is one for kustomize."""
    if content.file.replace(os.sep, "/").rpartition("/")[2] not in KUSTOMIZATIONS:
        return False
    kinds = {document.kind for document in content.documents}
    groups = {document.api_version.partition("/")[0] for document in content.documents}
    return kinds <= {"", "Kustomization", "Component"} and groups <= {"", "kustomize.config.k8s.io"}


def stands_alone(content: FileContent) -> bool:
    """Whether a file is a kustomization that can be built, not a component of others."""
    return is_kustomization(content) and not any(document.kind == "Component" for document in content.documents)


def read_tree(path: str, file: str, top: str) -> Tree:
    """Everything that the kustomization at ``path`` (shown as ``file``) reads below the folder ``top``."""
    tree = Tree(os.path.dirname(path), file)
    _Reader(tree, os.path.realpath(top)).kustomization(path, file, 0)
    return tree


def names_read(path: str, file: str, top: str, known: dict[str, FileContent]) -> Iterable[str]:
    """The real paths of all files that a kustomization reads. Only kustomizations are parsed, each once for all calls with
    the same ``known``."""
    tree = Tree(os.path.dirname(path), file)
    _Reader(tree, os.path.realpath(top), known).kustomization(path, file, 0)
    return tree.files


def build(tree: Tree) -> bytes:
    """The manifests of a kustomization. Raises CannotRender where no tool is installed or it fails."""
    tool = tools.find(("kustomize", "kubectl"))
    if tool is None:
        raise tools.CannotRender("neither kustomize nor kubectl is on PATH; install one of them, or leave --render out")
    folder = os.path.realpath(tree.folder)
    verb = "build" if os.path.basename(tool) == "kustomize" else "kustomize"
    return tools.run([tool, verb, folder])


class _Reader:
    """Walks what a kustomization names; each file once, and nothing outside of the repository."""

    def __init__(self, tree: Tree, top: str, known: dict[str, FileContent] | None = None) -> None:
        self._tree = tree
        self._top = top
        self._known = known

    def kustomization(self, path: str, file: str, depth: int) -> None:
        content = self._read(path, file, True)
        if content is None:
            return
        real = os.path.realpath(path)
        if real in self._tree.kustomizations or depth > _DEEPEST:
            return
        self._tree.kustomizations[real] = content
        folder, shown = os.path.dirname(path), os.path.dirname(file)
        for document in content.documents:
            root = document.root
            for node in self._listed(root, _RESOURCES):
                self._resource(node, folder, shown, depth)
            for node in self._listed(root, _PATCHES):
                self._patch(node, folder, shown)
            for key in _FILES:
                for node in self._listed(root, (key,)):
                    if "\n" not in node.text:  # else the object itself
                        self._other(node, folder, shown, depth)
            for node in self._listed(root, _GENERATORS):
                self._generator(node, folder, shown)
            others = [root.get("openapi", "path")]
            others += [item.get("path") for item in self._listed(root, ("replacements",))]
            for other in others:
                if other is not None:
                    self._other(other, folder, shown, depth)
            for key in ("helmCharts", "helmChartInflationGenerator"):
                chart = root.get(key)
                if chart is not None:
                    self._refuse(
                        chart, f"{key} would fetch charts; render them with helm template, and lint what it prints"
                    )

    def _listed(self, root: Node, keys: Sequence[str]) -> Iterator[Node]:
        for key in keys:
            node = root.get(key)
            if node is not None and node.kind == "sequence":
                yield from node

    def _resource(self, node: Node, folder: str, shown: str, depth: int) -> None:
        path = self._local(node, folder)
        if path is None:
            return
        file = os.path.normpath(os.path.join(shown, node.text))
        if os.path.isdir(path):
            inner = kustomization_in(path)
            if inner is None:
                self._refuse(node, f"{node.text} is a folder without a kustomization")
            else:
                self.kustomization(inner, os.path.join(file, os.path.basename(inner)), depth + 1)
            return
        content = self._read(path, file)
        if content is not None:
            self._tree.resources.extend(content.documents)

    def _patch(self, node: Node, folder: str, shown: str) -> None:
        inline = node if node.kind == "scalar" and "\n" in node.text else node.get("patch")
        if inline is not None:
            from planner.documents.derived import embedded

            root, _ = embedded(inline)
            if root is not None:
                self._tree.patches.append(root)
            return
        place = node if node.kind == "scalar" else node.get("path")
        path = self._local(place, folder) if place is not None else None
        content = None
        if path is not None and place is not None:
            content = self._read(path, os.path.normpath(os.path.join(shown, place.text)))
        if content is not None:
            self._tree.patches.extend(document.root for document in content.documents)

    def _other(self, node: Node, folder: str, shown: str, depth: int) -> None:
        path = self._local(node, folder)
        if path is None:
            return
        file = os.path.normpath(os.path.join(shown, node.text))
        inner = kustomization_in(path) if os.path.isdir(path) else None
        if inner is not None:
            self.kustomization(inner, os.path.join(file, os.path.basename(inner)), depth + 1)
        elif os.path.isfile(path):
            self._read(path, file)

    def _generator(self, node: Node, folder: str, shown: str) -> None:
        for key in ("files", "envs", "env"):
            listed = node.get(key)
            for item in () if listed is None else (listed,) if listed.kind == "scalar" else listed:
                self._local(item, folder, item.text.rpartition("=")[2])

    def _local(self, node: Node, folder: str, text: str | None = None) -> str | None:
        """The path that an entry names, None where it is no part of the repository."""
        name = node.text if text is None else text
        if not name or "\0" in name:
            return None
        path = os.path.join(folder, name)
        real = os.path.realpath(path)
        if not os.path.lexists(path) or not os.path.exists(real):
            self._refuse(node, f"{name} {_NOT_HERE}")
            return None
        if real != self._top and not real.startswith(os.path.join(self._top, "")):
            self._refuse(node, f"{name} leads out of the repository")
            return None
        return path

    def _read(self, path: str, file: str, kustomization: bool = False) -> FileContent | None:
        real = os.path.realpath(path)
        if real not in self._tree.files:
            if len(self._tree.files) >= _MOST_FILES:
                return None
            if self._known is None:
                content = read_path(path, file)
            elif not kustomization:
                content = FileContent(file, (), (), ())
            else:
                content = self._known.get(real) or read_path(path, file)
                self._known[real] = content
            self._tree.files[real] = content
        return self._tree.files[real]

    def _refuse(self, node: Node, message: str) -> None:
        self._tree.refused.append(Problem(node.key_position, f"not rendered: {message}"))
