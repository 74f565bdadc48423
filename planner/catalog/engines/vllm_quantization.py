"""The quantization methods of a vLLM release: which there are, the compute capability each needs, which are deprecated."""

from __future__ import annotations

import ast
from typing import Any

from planner.catalog.engines.distribution import Distribution
from planner.catalog.engines.source import Module, Source, Unresolved

_PACKAGE = "vllm.model_executor.layers.quantization"
_MINIMUM = "get_min_capability"


def read_methods(distribution: Distribution) -> dict[str, dict[str, Any]]:
    """Method → ``capability`` (ten times the major plus the minor number) where its class states one, ``deprecated``."""
    source = Source(distribution)
    module = source.module(_PACKAGE)
    if module is None:
        return {}
    listed = module.names.get("QUANTIZATION_METHODS")
    names: list[str] = []
    classes: dict[str, ast.expr] = {}
    if isinstance(listed, ast.Dict):
        classes = _entries(listed)
        names = list(classes)
    elif listed is not None:
        try:
            names = [name for name in source.value(module, listed) if isinstance(name, str)]
        except Unresolved:
            return {}
    function = module.names.get("get_quantization_config")
    scope = module
    if isinstance(function, ast.FunctionDef):
        scope = _with_locals(module, function)
        for node in ast.walk(function):
            value = getattr(node, "value", None)
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(value, ast.Dict):
                classes.update(_entries(value))
        chosen = _assigned(function)
        classes = {name: chosen.get(getattr(node, "id", ""), node) for name, node in classes.items()}
        online = _of_the_rest(function)
        if online is not None:
            classes = {**dict.fromkeys(names, online), **classes}
    try:
        old = source.value(module, module.names["DEPRECATED_QUANTIZATION_METHODS"])
    except (KeyError, Unresolved):
        old = []
    methods: dict[str, dict[str, Any]] = {}
    for name in names:
        entry: dict[str, Any] = {}
        capability = _capability(source, scope, classes[name]) if name in classes else None
        if capability is not None and capability > 0:
            entry["capability"] = capability
        if name in old:
            entry["deprecated"] = True
        methods[name] = entry
    return dict(sorted(methods.items()))


def _entries(node: ast.Dict) -> dict[str, ast.expr]:
    return {
        key.value: value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def _assigned(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """Local name → the class that it is first set to: of branches by platform the first is CUDA's."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(function):
        value = getattr(node, "value", None)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(value, ast.Name):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, value)
    return found


def _of_the_rest(function: ast.FunctionDef) -> ast.expr | None:
    """The class of names that stand in no table: those that a loop adds one by one (short names of online methods)."""
    for loop in ast.walk(function):
        for node in ast.walk(loop) if isinstance(loop, ast.For) else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setdefault":
                return node.args[1] if len(node.args) == 2 else None
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
                return node.value
    return None


def _with_locals(module: Module, function: ast.FunctionDef) -> Module:
    """The module with the imports inside a function beside its own."""
    imports = [node for node in ast.walk(function) if isinstance(node, ast.ImportFrom)]
    return Module(module.name, ast.Module([*module.tree.body, *imports], []), True)


def _capability(source: Source, module: Module, node: ast.expr) -> int | None:
    """What ``get_min_capability`` of a class returns, in it or in a class that it inherits from."""
    found = source.find_class(module, node)
    result: int | None = None
    for owner, body in source.lineage(*found) if found is not None else ():
        for part in body.body:
            if isinstance(part, ast.FunctionDef) and part.name == _MINIMUM:
                returns = [item.value for item in ast.walk(part) if isinstance(item, ast.Return) and item.value]
                try:
                    result = int(source.value(owner, returns[0])) if len(returns) == 1 else None
                except (Unresolved, TypeError, ValueError):
                    result = None
    return result
