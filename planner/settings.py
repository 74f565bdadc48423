"""What the user says beside the manifests: the options of the command line and ``planner.yaml``, in one record."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from planner.record import NamedTuple

if TYPE_CHECKING:
    from planner.documents.document import Problem
    from planner.documents.node import Node

CONFIG_NAMES = ("planner.yaml", ".planner.yaml")
FAIL_ON = ("info", "warning", "error")


class Settings(NamedTuple):
    """``assume_accelerator`` stands in where a manifest names none; ``models`` maps references (paths, fine-tunes) to hub
    ids; ``model_folders`` maps path prefixes inside containers to local folders that hold ``config.json``;
    ``engine_versions`` (the option) says which release to check against whatever the manifest says, ``default_versions``
    (the file) which one an engine has where the image does not tell. ``workload`` is the demand on
    deployments that state none (RULES.md, "Demand"); ``source`` is the settings file."""

    accelerator: str = ""
    assume_accelerator: str = ""
    models: dict[str, str] = {}
    model_folders: dict[str, str] = {}
    engine_versions: dict[str, str] = {}
    default_versions: dict[str, str] = {}
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: str = "error"
    rules: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    parameters: dict[str, dict[str, Any]] = {}
    memory: dict[str, Any] = {}
    workload: dict[str, Any] = {}
    strict: bool = False
    source: str = ""


def find_config(start: str | os.PathLike[str]) -> str | None:
    """The nearest ``planner.yaml`` of ``start`` or a folder above it, up to the repository's root.

    A Kubernetes object may be called planner.yaml too; it is passed over.
    """
    from planner.documents.read import load, may_hold_workload

    folder = os.path.abspath(start)
    while True:
        for name in CONFIG_NAMES:
            candidate = os.path.join(folder, name)
            if os.path.isfile(candidate):
                data = load(candidate, name)
                if not isinstance(data, bytes) or not may_hold_workload(data):
                    return candidate
        above = os.path.dirname(folder)
        if above == folder or os.path.lexists(os.path.join(folder, ".git")):
            return None
        folder = above


def from_working_folder() -> tuple[Settings, list[Problem]]:
    """The settings of the nearest ``planner.yaml`` (none: the defaults), and what is wrong in it.

    Its path is shown from the current folder, as annotations on a pull request need it.
    """
    found = find_config(os.getcwd())
    return load_config(os.path.relpath(found)) if found else (Settings(), [])


def load_config(path: str | os.PathLike[str]) -> tuple[Settings, list[Problem]]:
    """The settings of a ``planner.yaml``; what is wrong in it comes back as problems with line and column.

    Folders in it are relative to the folder that it stands in.
    """
    from planner.documents.document import Problem
    from planner.documents.read import read_path

    content = read_path(path, str(path))
    problems = list(content.problems)
    problems.extend(Problem(notice.position, notice.message) for notice in content.notices)
    if not content.documents:
        return Settings(source=str(path)), problems
    if len(content.documents) > 1:
        problems.append(Problem(content.documents[1].root.position, "settings are one document"))
    reader = _Reader(os.fspath(path), problems)
    return reader.settings(content.documents[0].root), problems


_TEXTS = {"accelerator": "assume_accelerator", "assume-accelerator": "assume_accelerator", "fail-on": "fail_on"}
_LISTS = {"select": "select", "ignore": "ignore", "rules": "rules", "exclude": "exclude"}
_MAPS = {"models": "models", "model-folders": "model_folders", "engine-versions": "default_versions"}


class _Reader:
    """Turns the nodes of a settings file into values; collects what is wrong, so that nothing is dropped in silence."""

    def __init__(self, path: str, problems: list[Problem]) -> None:
        self._path = path
        self._problems = problems

    def settings(self, root: Node) -> Settings:
        values: dict[str, Any] = {"source": str(self._path)}
        if root.kind != "mapping":
            self._wrong(root, "settings are a mapping, such as 'accelerator: L4'")
        for key, node in root.items():
            name = key.replace("_", "-")
            if node.kind == "null":
                continue
            if name in _TEXTS:
                values[_TEXTS[name]] = self._text(key, node)
            elif name in _LISTS:
                values[name] = self._texts(key, node)
            elif name in _MAPS:
                values[_MAPS[name]] = self._map(key, node)
            elif name in ("memory", "workload"):
                plain = node.plain()
                if isinstance(plain, dict):
                    values[name] = plain
                else:
                    what = "memory terms" if name == "memory" else "lengths and a concurrency"
                    self._wrong(node, f"{name} must be a mapping of {what}")
            elif name == "parameters":
                values[name] = self._parameters(node)
            elif name == "strict":
                values[name] = self._flag(key, node)
            else:
                known = ", ".join(sorted({*_TEXTS, *_LISTS, *_MAPS, "memory", "parameters", "strict", "workload"}))
                self._wrong(node, f"unknown setting {key!r}; known are {known}")
        if values.get("fail_on", "error") not in FAIL_ON:
            place = root.get("fail-on") or root.get("fail_on") or root
            self._wrong(place, f"fail-on must be one of {', '.join(FAIL_ON)}")
            del values["fail_on"]
        if "default_versions" in values:
            versions = values["default_versions"]
            values["default_versions"] = {name: text.lstrip("=").removeprefix("v") for name, text in versions.items()}
        if "rules" in values:
            values["rules"] = tuple(os.path.join(os.path.dirname(self._path), folder) for folder in values["rules"])
        return Settings(**values)

    def _wrong(self, node: Node, message: str) -> None:
        from planner.documents.document import Problem

        self._problems.append(Problem(node.key_position, message))

    def _text(self, key: str, node: Node) -> str:
        if node.kind != "scalar":
            self._wrong(node, f"{key} must be text")
        return node.text

    def _texts(self, key: str, node: Node) -> tuple[str, ...]:
        items = list(node) if node.kind == "sequence" else [node]
        for item in items:
            if item.kind != "scalar":
                self._wrong(item, f"{key} must be text or a list of texts")
        return tuple(item.text for item in items if item.text)

    def _map(self, key: str, node: Node) -> dict[str, str]:
        if node.kind != "mapping":
            self._wrong(node, f"{key} must be a mapping of texts")
        for name, value in node.items():
            if value.kind != "scalar":
                self._wrong(value, f"{key}: {name} must be text")
        return {name: value.text for name, value in node.items() if value.kind == "scalar"}

    def _parameters(self, node: Node) -> dict[str, dict[str, Any]]:
        wrong = [node] if node.kind != "mapping" else [value for _, value in node.items() if value.kind != "mapping"]
        for value in wrong:
            self._wrong(value, "parameters must be a mapping of rules to mappings of their parameters")
        return {} if wrong else node.plain()

    def _flag(self, key: str, node: Node) -> bool:
        if not isinstance(node.value, bool):
            self._wrong(node, f"{key} must be true or false")
        return node.value is True
