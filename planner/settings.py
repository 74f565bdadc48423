"""What the user says beside the manifests: the options of the command line and ``planner.yaml``, in one record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from planner.documents.document import Problem
    from planner.documents.node import Node

CONFIG_NAMES = ("planner.yaml", ".planner.yaml")


class Settings(NamedTuple):
    """``assume_accelerator`` stands in where a manifest names none; ``models`` maps references (paths, fine-tunes) to hub
    ids; ``model_folders`` maps path prefixes inside containers to local folders that hold ``config.json``;
    ``engine_versions`` says which release an engine has where the image does not."""

    accelerator: str = ""
    assume_accelerator: str = ""
    models: dict[str, str] = {}
    model_folders: dict[str, str] = {}
    engine_versions: dict[str, str] = {}
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: str = "error"
    rules: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    parameters: dict[str, dict[str, Any]] = {}
    facts: dict[str, dict[str, Any]] = {}
    strict: bool = False
    source: str = ""


def find_config(start: Path) -> Path | None:
    """The nearest ``planner.yaml`` of ``start`` or a folder above it, up to the repository's root."""
    for folder in (start, *start.parents):
        for name in CONFIG_NAMES:
            candidate = folder / name
            # A Kubernetes object may be called planner.yaml too; it then has a kind and is no configuration.
            if candidate.is_file() and b"\nkind:" not in b"\n" + candidate.read_bytes()[:4096]:
                return candidate
        if (folder / ".git").exists():
            return None
    return None


def load_config(path: Path) -> tuple[Settings, list[Problem]]:
    """The settings of a ``planner.yaml``; what is wrong in it comes back as problems with line and column."""
    from planner.documents.read import read_path

    content = read_path(path, str(path))
    problems = list(content.problems)
    if not content.documents:
        return Settings(source=str(path)), problems
    return _settings(content.documents[0].root, str(path), problems)


_TEXTS = {"accelerator": "assume_accelerator", "assume-accelerator": "assume_accelerator", "fail-on": "fail_on"}
_LISTS = ("select", "ignore", "rules", "exclude")
_MAPS = {"models": "models", "model-folders": "model_folders", "engine-versions": "engine_versions"}


def _settings(root: Node, source: str, problems: list[Problem]) -> tuple[Settings, list[Problem]]:
    from planner.documents.document import Problem

    values: dict[str, Any] = {"source": source}
    for key, node in root.items():
        name = key.replace("_", "-")
        place = node.key_position
        if name in _TEXTS:
            if node.kind == "scalar":
                values[_TEXTS[name]] = node.text
            else:
                problems.append(Problem(place, f"{key} must be text"))
        elif name in _LISTS:
            texts = [item.text for item in node] if node.kind == "sequence" else [node.text]
            values[name] = tuple(text for text in texts if text)
        elif name in _MAPS:
            if node.kind == "mapping":
                values[_MAPS[name]] = {k: v.text for k, v in node.items() if v.kind == "scalar"}
            else:
                problems.append(Problem(place, f"{key} must be a mapping"))
        elif name in ("parameters", "facts"):
            plain = node.plain()
            if isinstance(plain, dict) and all(isinstance(v, dict) for v in plain.values()):
                values[name] = plain
            else:
                problems.append(Problem(place, f"{key} must be a mapping of mappings"))
        elif name == "strict":
            values["strict"] = node.value is True
        else:
            known = ", ".join(sorted({*_TEXTS, *_LISTS, *_MAPS, "parameters", "facts", "strict"}))
            problems.append(Problem(place, f"unknown setting {key!r}; known are {known}"))
    if values.get("fail_on", "error") not in ("info", "warning", "error"):
        problems.append(Problem(root.position, "fail-on must be info, warning or error"))
        values.pop("fail_on")
    return Settings(**values), problems
