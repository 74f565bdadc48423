"""What the user says beside the manifests: the options of the command line and ``planner.yaml``, in one record."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from planner.record import NamedTuple

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping

    from planner.documents.document import Problem
    from planner.documents.node import Node
    from planner.models.resolve import Resolved
    from planner.provenance import Position

#: What stands behind the name of a kustomization or a chart where its rendering is meant, and not the file.
RENDERED = " (rendered)"
CONFIG_NAMES = ("planner.yaml", ".planner.yaml")
FAIL_ON = ("info", "warning", "error")


class PathSettings(NamedTuple):
    """What holds for some files only: a glob, from the folder of the settings file, and fields of ``Settings``."""

    pattern: str
    values: dict[str, Any]


class ModelNames(NamedTuple):
    """What the user says that names of models stand for: ``overrides`` maps references to hub ids or local folders,
    ``folders`` paths inside containers to local folders. ``allow_local``: the names come from the user, not from a manifest,
    and may themselves be local folders."""

    overrides: Mapping[str, str] = {}
    folders: Mapping[str, str] = {}
    allow_local: bool = False

    def resolve(self, reference: str) -> Resolved:
        """The model that a reference names. Raises ``UnknownModel`` (``planner/models/resolve.py``)."""
        from planner.models.resolve import resolve

        return resolve(reference, overrides=self.overrides, folders=self.folders, allow_local=self.allow_local)


class Settings(NamedTuple):
    """``accelerator`` is checked against whatever the manifest says, ``assume_accelerator`` stands in where it names none;
    ``models`` maps references (paths, fine-tunes) to hub ids, ``model`` stands for whatever the reference is (for some
    paths only); ``model_folders`` maps path prefixes inside containers to local folders that hold ``config.json``;
    ``engine_versions`` says which release to check against whatever the manifest says, ``default_versions`` which one an
    engine has where the image does not tell. ``workload`` is the demand on deployments that state none (RULES.md,
    "Demand"); ``severity`` maps rules to the severity that their findings shall have; ``baseline`` is a file of findings
    that are known; ``rule_pages`` is where the pages of the rules are published. ``paths`` lays further values over these
    for some files (see ``for_file``); ``source`` is the settings file, and ``places`` tells where in it a rule is named
    (``select: memory``)."""

    accelerator: str = ""
    assume_accelerator: str = ""
    model: str = ""
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
    severity: dict[str, str] = {}
    baseline: str = ""
    format: str = ""
    quiet: bool = False
    color: bool | None = None
    manifests_only: bool = False
    rule_pages: str = ""
    #: price of one GPU and hour by the accelerator's name, in the user's currency
    prices: dict[str, float] = {}
    paths: tuple[PathSettings, ...] = ()
    source: str = ""
    places: dict[str, Position] = {}

    def model_names(self, overrides: Mapping[str, str] | None = None, *, allow_local: bool = False) -> ModelNames:
        """How names of models are resolved, with ``overrides`` in the place of ``models`` where given."""
        root = os.path.dirname(self.source)
        folders = {prefix: os.path.join(root, folder) for prefix, folder in self.model_folders.items()}
        return ModelNames(self.models if overrides is None else overrides, folders, allow_local)

    def for_file(self, file: str) -> Settings:
        """The settings of one input: those of every entry of ``paths`` that fits it are laid over these, in order.

        Mappings are merged, ``ignore`` grows, everything else is replaced.
        """
        found = self
        path = ""
        for entry in self.paths:
            if entry.pattern:
                path = path or _from_folder(file, os.path.dirname(self.source))
                if glob_pattern(entry.pattern).search(path) is None:
                    continue
            values = dict(entry.values)
            for name, value in entry.values.items():
                old = getattr(found, name)
                if name == "parameters":
                    values[name] = {**old, **{rule: {**old.get(rule, {}), **given} for rule, given in value.items()}}
                elif isinstance(value, dict) and name not in ("memory", "workload"):
                    values[name] = {**old, **value}
                elif name == "ignore":
                    values[name] = (*old, *value)
            found = found._replace(**values)
        return found

    def over_paths(self, **values: Any) -> Settings:
        """These settings with values that hold for every path, as the options of the command line do."""
        given = {name: value for name, value in values.items() if value}
        return self._replace(paths=(*self.paths, PathSettings("", given))) if self.paths and given else self


def _from_folder(file: str, folder: str) -> str:
    """The path of an input from a folder, with ``/``; standard input and the like stay what they are."""
    if file.startswith("<"):
        return file
    return os.path.relpath(file.removesuffix(RENDERED), folder or ".").replace(os.sep, "/")


@cache
def glob_pattern(pattern: str) -> re.Pattern[str]:
    """A glob as ``exclude`` has it: without a slash it fits any part of a path, ``**`` any folders."""
    from planner.documents.discover import compile_glob

    return compile_glob(pattern)


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


#: setting → field of ``Settings``, by the form of the value.
_TEXTS = {
    "accelerator": "assume_accelerator",
    "assume-accelerator": "assume_accelerator",
    "force-accelerator": "accelerator",
    "rule-pages": "rule_pages",
}
_CHOICES = {
    "fail-on": ("fail_on", FAIL_ON),
    "format": ("format", ("text", "json", "sarif", "github", "gitlab", "junit")),
}
_LISTS = {"select": "select", "ignore": "ignore", "rules": "rules", "exclude": "exclude"}
_MAPS = {
    "models": "models",
    "model-folders": "model_folders",
    "engine-versions": "default_versions",
    "force-engine-versions": "engine_versions",
    "severity": "severity",
}
_FLAGS = {"strict": "strict", "quiet": "quiet", "color": "color", "manifests-only": "manifests_only"}
_OTHERS = ("baseline", "memory", "parameters", "paths", "prices", "workload")
#: What may stand under a glob in ``paths``; ``model`` may stand only there.
PATH_SETTINGS = (
    "accelerator", "assume-accelerator", "engine-versions", "force-accelerator", "force-engine-versions", "ignore", "memory",
    "model", "model-folders", "models", "parameters", "select", "severity", "workload",
)  # fmt: skip
SETTINGS = tuple(sorted((*_TEXTS, *_CHOICES, *_LISTS, *_MAPS, *_FLAGS, *_OTHERS)))


class _Reader:
    """Turns the nodes of a settings file into values; collects what is wrong, so that nothing is dropped in silence."""

    def __init__(self, path: str, problems: list[Problem]) -> None:
        self._path = path
        self._problems = problems
        self._places: dict[str, Position] = {}

    def settings(self, root: Node) -> Settings:
        if root.kind != "mapping":
            self._wrong(root, "settings are a mapping, such as 'accelerator: L4'")
        values = self._values(root, SETTINGS)
        paths = root.get("paths")
        if paths is not None and paths.kind != "null":
            values["paths"] = tuple(self._paths(paths))
        folder = os.path.dirname(self._path)
        if "rules" in values:
            values["rules"] = tuple(os.path.join(folder, own) for own in values["rules"])
        if values.get("baseline"):
            values["baseline"] = self._below(folder, "baseline", root, values["baseline"])
        return Settings(**values, source=str(self._path), places=self._places)

    def _values(self, root: Node, known: tuple[str, ...]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, node in root.items():
            name = key.replace("_", "-")
            if name not in known:
                self._wrong(node, f"unknown setting {key!r}; known are {', '.join(known)}")
            elif node.kind != "null" and name != "paths":
                field, value = self._value(name, key, node)
                if value is not None:
                    values[field] = value
        return values

    def _value(self, name: str, key: str, node: Node) -> tuple[str, Any]:
        """(field, value) of a setting; None where it is wrong."""
        if name in _CHOICES:
            field, choices = _CHOICES[name]
            text = self._text(key, node)
            if text not in choices:
                self._wrong(node, f"{name} must be one of {', '.join(choices)}")
                return field, None
            return field, text
        if name in _LISTS:
            return _LISTS[name], self._texts(name, node)
        if name in _MAPS:
            return _MAPS[name], self._map(name, node)
        if name in _FLAGS:
            return _FLAGS[name], self._flag(key, node)
        if name == "parameters":
            return name, self._parameters(node)
        if name == "prices":
            return name, self._prices(node)
        if name in ("memory", "workload"):
            return name, self._checked(name, node)
        return _TEXTS.get(name, name), self._text(key, node)

    def _paths(self, node: Node) -> Iterator[PathSettings]:
        if node.kind != "mapping":
            self._wrong(node, "paths must be a mapping of globs to settings, such as 'dev/**: {ignore: [memory]}'")
        for pattern, entry in node.items():
            if entry.kind == "mapping":
                yield PathSettings(pattern, self._values(entry, PATH_SETTINGS))
            elif entry.kind != "null":
                self._wrong(entry, f"paths: {pattern} must be a mapping of settings, such as 'ignore: [memory]'")

    def _checked(self, name: str, node: Node) -> dict[str, Any] | None:
        """Memory terms or a demand: a mapping that can be read, so that a mistake is told where it stands."""
        from planner.admission.workload import BadWorkload, read_workload
        from planner.given import GivenError, terms

        plain = node.plain()
        if not isinstance(plain, dict):
            what = "memory terms" if name == "memory" else "lengths and a concurrency"
            self._wrong(node, f"{name} must be a mapping of {what}")
            return None
        good = True
        if name == "memory":
            for term, entry in node.items():
                try:
                    terms({term: entry.plain()}, self._path)
                except GivenError as error:
                    self._wrong(entry, f"memory: {error}")
                    good = False
            return plain if good else None
        try:
            # A trace is read when it is used, and only from the settings file that names it.
            read_workload(plain, 1 << 20, self._path, [(1, 1)] if plain.get("trace") is not None else None)
        except BadWorkload as error:
            self._wrong(node, f"workload: {error}")
            return None
        return plain

    def _below(self, folder: str, name: str, root: Node, path: str) -> str:
        """A file below the folder of the settings: they may come from a stranger, and the file may get written."""
        own = os.path.realpath(folder or ".")
        place = os.path.realpath(os.path.join(own, os.path.dirname(path)))
        if place != own and not place.startswith(os.path.join(own, "")):
            self._wrong(root.get(name) or root, f"{name} must be a file below the folder of {self._path}")
            return ""
        return os.path.join(folder, path)

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
            else:
                self._places.setdefault(f"{key}: {item.text}", item.position)
        return tuple(item.text for item in items if item.text)

    def _map(self, name: str, node: Node) -> dict[str, str]:
        if node.kind != "mapping":
            self._wrong(node, f"{name} must be a mapping of texts")
        found = {}
        for own, value in node.items():
            if value.kind != "scalar":
                self._wrong(value, f"{name}: {own} must be text")
            elif name == "severity" and value.text not in FAIL_ON:
                self._wrong(value, f"severity: {own} must be one of {', '.join(FAIL_ON)} (ignore leaves a rule out)")
            elif "versions" in name:
                from planner.engines.dispatch import release_problem

                release = value.text.lstrip("=").removeprefix("v")
                problem = release_problem(own, release)
                if problem:
                    self._wrong(value, f"{name}: {problem}")
                else:
                    self._places.setdefault(f"{name}: {own}", value.key_position)
                    found[own] = release
            else:
                self._places.setdefault(f"{name}: {own}", value.key_position)
                found[own] = value.text
        return found

    def _parameters(self, node: Node) -> dict[str, dict[str, Any]] | None:
        wrong = [node] if node.kind != "mapping" else [value for _, value in node.items() if value.kind != "mapping"]
        for value in wrong:
            self._wrong(value, "parameters must be a mapping of rules to mappings of their parameters")
        if wrong:
            return None
        for name, value in node.items():
            self._places.setdefault(f"parameters: {name}", value.key_position)
        plain: dict[str, dict[str, Any]] = node.plain()
        return plain

    def _prices(self, node: Node) -> dict[str, float]:
        prices: dict[str, float] = {}
        if node.kind != "mapping":
            self._wrong(node, "prices must be a mapping of accelerators to the price of one GPU and hour")
        for name, value in node.items():
            price = value.value
            if isinstance(price, (int, float)) and not isinstance(price, bool) and 0 < price < 1e9:
                prices[name] = float(price)
            else:
                self._wrong(value, f"prices: {name} must be a number above 0, the price of one GPU and hour")
        return prices

    def _flag(self, key: str, node: Node) -> bool:
        if not isinstance(node.value, bool):
            self._wrong(node, f"{key} must be true or false")
        return node.value is True
