"""Which models get a pool for sliding windows in SGLang, by its own code: facts for ``test_sglang_window_pools``.

    pip download --no-deps sglang==VERSION      (a wheel; nothing of it is imported)
    python -m tests.golden.sglang_window_pools WHEEL… > tests/golden/sglang-window-pools.json

Takes ``is_hybrid_swa_model`` and ``get_hybrid_layer_ids`` out of each release's ``configs/model_config.py`` (0.5.8 and
later) and asks them about every config of the catalog that says which layers have windows.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import zipfile
from typing import Any

from planner import catalog

_FILE = "sglang/srt/configs/model_config.py"
_FUNCTIONS = ("is_hybrid_swa_model", "get_hybrid_layer_ids")
_SAYS = ("layer_types", "hybrid_layer_pattern", "local_layer_ids", "sliding_window", "attention_chunk_size")


class _Config:
    """A config whose absent attributes are absent."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)


def text_config(config: dict[str, Any]) -> dict[str, Any]:
    """The part of a config that describes the language model."""
    inner = config.get("text_config")
    return inner if isinstance(inner, dict) else config


def asked() -> dict[str, dict[str, Any]]:
    """One catalog model of each architecture and layer layout that has something to do with windows."""
    found: dict[str, dict[str, Any]] = {}
    seen = set()
    for name in catalog.model_keys():
        entry = catalog.model(name)
        config = entry.config if entry else {}
        if not config.get("architectures"):
            continue
        text = text_config(config)
        if not any(text.get(word) for word in _SAYS) or "num_hidden_layers" not in text:
            continue
        key = (config["architectures"][0], json.dumps([text.get(word) for word in _SAYS]))
        if key not in seen:
            seen.add(key)
            found[name] = config
    return found


def functions(source: str) -> dict[str, Any]:
    """The two functions of a release with the names that they need."""
    tree = ast.parse(source)
    wanted: list[ast.stmt] = []
    for node in tree.body:
        name = getattr(node, "name", "") or (
            node.targets[0].id if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) else ""
        )
        if name in _FUNCTIONS or name.endswith("_ARCHS"):
            wanted.append(node)
    for node in ast.walk(ast.Module(wanted, [])):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            for argument in node.args.args:
                argument.annotation = None
    scope: dict[str, Any] = {}
    exec(compile(ast.Module(wanted, []), _FILE, "exec"), scope)  # published code of the engine, in its own scope
    return scope


def answers(scope: dict[str, Any]) -> dict[str, list[int] | bool]:
    """{model: [layers with windows, others]}, False where there is no such pool, True where layers are not told apart."""
    found: dict[str, list[int] | bool] = {}
    takes_config = scope["is_hybrid_swa_model"].__code__.co_argcount > 1
    for name, config in asked().items():
        names, text = config["architectures"], _Config(text_config(config))
        if not scope["is_hybrid_swa_model"](*((names, text) if takes_config else (names,))):
            found[name] = False
            continue
        try:
            windows, full = scope["get_hybrid_layer_ids"](names, text)
        except (AttributeError, TypeError):  # the engine fills this in while it reads the config
            continue
        found[name] = True if windows is None else [len(windows), len(full)]
    return found


def changes(releases: dict[str, dict[str, list[int] | bool]]) -> dict[str, list[Any]]:
    """{model: [[release, answer], …]} with the releases whose answer differs from the one before."""
    found: dict[str, list[Any]] = {}
    for version, known in releases.items():
        for name, answer in known.items():
            steps = found.setdefault(name, [])
            if not steps or steps[-1][1] != answer:
                steps.append([version, answer])
    return found


def main(paths: list[str]) -> None:
    releases = {}
    for path in paths:
        with zipfile.ZipFile(path) as wheel:
            version = re.search(r"sglang-([0-9.]+)", path.rsplit("/", 1)[-1])
            assert version is not None
            releases[version.group(1).rstrip(".-")] = answers(functions(wheel.read(_FILE).decode()))
    rows = ",\n".join(f" {json.dumps(name)}: {json.dumps(steps)}" for name, steps in sorted(changes(releases).items()))
    print(f'{{"releases": {json.dumps(list(releases))}, "models": {{\n{rows}\n}}}}')


if __name__ == "__main__":
    main(sys.argv[1:])
