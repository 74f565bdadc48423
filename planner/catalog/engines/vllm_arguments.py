"""The arguments of ``vllm serve`` and its environment variables, as the source of a release defines them.

Since 0.8.5 most arguments are made from the annotations of configuration classes by ``get_kwargs`` of ``vllm/engine/
arg_utils.py``, which is followed here; before, and for the rest still, each is a literal ``add_argument`` call. Which
special cases a release's ``get_kwargs`` has is read from its own text.
"""

from __future__ import annotations

import ast
import copy
import re
from typing import Any, NamedTuple, TypeGuard

from planner.catalog.engines.annotations import Annotation, Shape, field_bounds, read_annotation
from planner.catalog.engines.definition import Definition, NoArguments
from planner.catalog.engines.distribution import Distribution
from planner.catalog.engines.source import Field, Module, Source, Unresolved

_ENGINE = "vllm.engine.arg_utils"
#: The server's own arguments stand in a module of this name, which has moved three times.
_FRONTEND = ("vllm/entrypoints", "cli_args.py")
#: Where the sub-command ``serve`` adds arguments of its own, by age.
_SERVE = ("vllm.entrypoints.cli.serve", "vllm.scripts")
_ENVIRONMENT = "vllm.envs"
#: Flags whose values are names that classes register under, and the packages that hold those classes, by age.
_REGISTERED = {
    "tool-call-parser": ("vllm/tool_parsers", "vllm/entrypoints/openai/tool_parsers"),
    "reasoning-parser": ("vllm/reasoning", "vllm/entrypoints/openai/reasoning_parsers"),
}


class _Conversion(NamedTuple):
    """The special cases of a release's ``get_kwargs``: names of fields that take 32k or 32K (``auto`` too), whether
    dataclasses come first, bare optional flags, and the first form (0.8.3) that takes only the plain type."""

    human: frozenset[str]
    human_or_auto: frozenset[str]
    dataclass_first: bool
    bare_optional: bool
    plain: bool


def read_arguments(distribution: Distribution) -> dict[str, dict[str, Any]]:
    """Argument (without dashes, hyphens inside) → its variant. Raises NoArguments where the source is laid out anew."""
    source = Source(distribution)
    engine = source.module(_ENGINE)
    if engine is None:
        raise NoArguments(f"{_ENGINE} is not in the release")
    walk = _Walk(source, _conversion(engine))
    for class_name in ("EngineArgs", "AsyncEngineArgs"):
        node = engine.names.get(class_name)
        if isinstance(node, ast.ClassDef):
            walk.method(engine, node, "add_cli_args")
    folder, file = _FRONTEND
    for path in distribution.under(folder):
        if path.rpartition("/")[2] != file:
            continue
        module = source.module(path.removesuffix(".py").replace("/", "."))
        if module is None:
            continue
        function = module.names.get("make_arg_parser")
        if isinstance(function, ast.FunctionDef):
            walk.function(module, function)
        frontend = module.names.get("FrontendArgs")
        if isinstance(frontend, ast.ClassDef):
            walk.frontend(module, frontend)
    for name in _SERVE:
        module = source.module(name)
        for function in ast.walk(module.tree) if module is not None else ():
            if isinstance(function, ast.FunctionDef):
                walk.function(module, function, only="serve_parser")  # type: ignore[arg-type]
    if len(walk.found) < 50:
        raise NoArguments(f"only {len(walk.found)} arguments found: the definitions have moved")
    result = {name: definition.variant(aliases) for name, (definition, aliases) in sorted(walk.found.items())}
    for name, folders in _REGISTERED.items():
        registered = _registered(source, folders)
        if name in result and registered:
            # Not "choices": a plug-in that another flag names may register more.
            result[name].pop("choices", None)
            result[name]["registered"] = registered
    return result


def _registered(source: Source, folders: tuple[str, ...]) -> list[str]:
    """The names that the classes of a package register under: keys of a table, or arguments of a decorator."""
    found: set[str] = set()
    for folder in folders:
        for path in source.distribution.under(folder):
            if path.rpartition("/")[0] != folder:
                continue
            dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            module = source.module(dotted)
            if module is None:
                continue
            for name, node in module.names.items():
                if name.endswith("_TO_REGISTER") and isinstance(node, ast.Dict):
                    found.update(_key(key) for key in node.keys if key is not None)
                elif isinstance(node, ast.ClassDef):
                    found.update(_decorator_names(source, module, node))
        if found:
            break
    return sorted(found - {""})


def _decorator_names(source: Source, module: Module, node: ast.ClassDef) -> set[str]:
    names: set[str] = set()
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith(".register_module"):
            for argument in (*decorator.args, *(keyword.value for keyword in decorator.keywords)):
                try:
                    value = source.value(module, argument)
                except Unresolved:
                    continue
                names.update(item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str))
    return names


def read_variables(distribution: Distribution) -> tuple[str, ...]:
    """The environment variables that ``vllm/envs.py`` of a release reads, in order."""
    source = Source(distribution)
    module = source.module(_ENVIRONMENT)
    if module is None:
        return ()
    found: set[str] = set()
    table = module.names.get("environment_variables")
    if isinstance(table, ast.Dict):
        found.update(key.value for key in table.keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("os.getenv", "os.environ.get") and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                found.add(name.value)
    return tuple(sorted(name for name in found if re.fullmatch(r"[A-Z][A-Z0-9_]*", name)))


def _conversion(engine: Module) -> _Conversion:
    """What this release's ``get_kwargs`` treats specially."""
    function = engine.names.get("_compute_kwargs") or engine.names.get("get_kwargs")
    if function is None:
        return _Conversion(frozenset(), frozenset(), False, False, True)
    human: set[str] = set()
    either: set[str] = set()
    named_sets = {
        ast.unparse(node.targets[0]): node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Set)
    }
    for node in ast.walk(function):
        if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
            continue
        right = node.test.comparators[0]
        values = named_sets.get(ast.unparse(right), right)
        names = (
            [item.value for item in values.elts if isinstance(item, ast.Constant)]
            if isinstance(values, (ast.Set, ast.Tuple, ast.List))
            else [values.value]
            if isinstance(values, ast.Constant)
            else []
        )
        body = " ".join(ast.unparse(statement) for statement in node.body if isinstance(statement, ast.Assign))
        if "human_readable_int_or_auto" in body:
            either.update(map(str, names))
        elif "human_readable_int" in body:
            human.update(map(str, names))
    text = ast.unparse(function)
    return _Conversion(frozenset(human), frozenset(either), "is_dataclass" in text, "'?'" in text, False)


class _Walk:
    """Reads functions that define arguments, statement by statement, both branches of every condition."""

    def __init__(self, source: Source, conversion: _Conversion) -> None:
        self.source = source
        self.conversion = conversion
        self.found: dict[str, tuple[Definition, list[str]]] = {}
        self.classes: dict[str, dict[str, Definition]] = {}
        self.single: dict[str, Definition] = {}

    def method(self, module: Module, owner: ast.ClassDef, name: str) -> None:
        for node in owner.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                self.function(module, node)

    def function(self, module: Module, node: ast.FunctionDef, only: str = "") -> None:
        """All definitions of a function; ``only`` those on the parser of this name."""
        self.classes, self.single = {}, {}
        self._statements(module, node.body, only)

    def frontend(self, module: Module, node: ast.ClassDef) -> None:
        """The arguments of the server's own dataclass, with the changes that its methods make to them."""
        kwargs = self._definitions(module, node)
        extra: dict[str, list[str]] = {}
        for owner, body in self.source.lineage(module, node):
            for part in body.body:
                if isinstance(part, ast.FunctionDef) and part.name in ("add_cli_args", "_customize_cli_kwargs"):
                    self.classes = {"frontend_kwargs": kwargs}
                    for statement in ast.walk(part):
                        self._change(owner, statement, extra)
        for name, definition in kwargs.items():
            self._add(["--" + name.replace("_", "-"), *extra.get(name, [])], definition)

    # ---- statements ---------------------------------------------------------------------------------------------

    def _statements(self, module: Module, body: list[ast.stmt], only: str) -> None:
        for statement in body:
            if isinstance(statement, ast.For):
                for turn in _turns(statement):
                    self._statements(module, turn, only)
                continue
            if isinstance(statement, (ast.If, ast.With, ast.Try)):
                self._statements(module, statement.body, only)
                self._statements(module, getattr(statement, "orelse", []), only)
                continue
            if isinstance(statement, ast.FunctionDef):
                continue
            self._assign(module, statement)
            self._change(module, statement, {})
            for node in ast.walk(statement):
                if _adds_argument(node, only):
                    self._call(module, node)

    def _assign(self, module: Module, node: ast.stmt) -> None:
        """``x_kwargs = get_kwargs(XConfig)`` and ``x = get_kwargs(XConfig)["name"]``."""
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            return
        name, value = node.targets[0].id, node.value
        if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("get_kwargs") and value.args:
            found = self.source.find_class(module, value.args[0])
            if found is None:
                raise NoArguments(f"{module.name}: the class of {ast.unparse(value)} is not in the release")
            self.classes[name] = self._definitions(*found)
        elif isinstance(value, ast.Subscript):
            definition = self._looked_up(module, value)
            if definition is not None:
                self.single[name] = definition.copy()

    def _change(self, module: Module, node: ast.AST, extra: dict[str, list[str]]) -> None:
        """``x_kwargs["name"]["type"] = …`` and its like: deletions, removed choices, updates."""
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            target = node.targets[0]
            definition, field = self._target(module, target.value)
            keyword = _key(target.slice)
            if definition is not None and keyword == "flags":
                try:
                    extra[field] = list(self.source.value(module, node.value))
                except Unresolved:
                    return
            elif definition is not None:
                definition.take(self.source, module, keyword, node.value, {})
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
            definition, _ = self._target(module, node.target.value)
            if definition is not None and _key(node.target.slice) == "choices":
                # joined with what only running the release would tell
                definition.choices = None
        elif isinstance(node, ast.Delete):
            for deleted in node.targets:
                if isinstance(deleted, ast.Subscript):
                    definition, _ = self._target(module, deleted.value)
                    if definition is not None and _key(deleted.slice) == "nargs":
                        definition.nargs = None
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            self._call_on(module, node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._change(module, node.value, extra)

    def _call_on(self, module: Module, node: ast.Call) -> None:
        """``x_kwargs["name"].update(…)``, ``.pop("nargs")`` and ``x_kwargs["name"]["choices"].remove(…)``."""
        assert isinstance(node.func, ast.Attribute)
        owner, method = node.func.value, node.func.attr
        if method == "remove" and isinstance(owner, ast.Subscript) and _key(owner.slice) == "choices" and node.args:
            definition, _ = self._target(module, owner.value)
            try:
                removed = self.source.value(module, node.args[0])
            except Unresolved:
                return
            if definition is not None and definition.choices is not None and removed in definition.choices:
                definition.choices.remove(removed)
        elif method in ("update", "pop") and isinstance(owner, ast.Subscript):
            definition, _ = self._target(module, owner)
            if definition is None:
                return
            if method == "pop" and node.args and _key(node.args[0]) == "nargs":
                definition.nargs = None
            for keyword in node.keywords if method == "update" else ():
                if keyword.arg:
                    definition.take(self.source, module, keyword.arg, keyword.value, {})
            for argument in node.args if method == "update" else ():
                if isinstance(argument, ast.Dict):
                    for key, value in zip(argument.keys, argument.values, strict=True):
                        if key is not None:
                            definition.take(self.source, module, _key(key), value, {})

    def _target(self, module: Module, node: ast.expr) -> tuple[Definition | None, str]:
        """The definition that ``x_kwargs["name"]`` holds, and the name."""
        if isinstance(node, ast.Name) and node.id in self.single:
            return self.single[node.id], node.id
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in self.classes:
            name = _key(node.slice)
            return self.classes[node.value.id].get(name), name
        return None, ""

    def _looked_up(self, module: Module, node: ast.expr) -> Definition | None:
        """The definition that an unpacked expression stands for."""
        if isinstance(node, ast.Name):
            return self.single.get(node.id)
        if not isinstance(node, ast.Subscript):
            return None
        definition, _ = self._target(module, node)
        if definition is not None:
            return definition
        if isinstance(node.value, ast.Name) and node.value.id in self.classes:
            raise NoArguments(f"{module.name}: {ast.unparse(node)} names no field")
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func).endswith("get_kwargs"):
            found = self.source.find_class(module, node.value.args[0])
            if found is not None:
                return self._definitions(*found).get(_key(node.slice))
        return None

    def _call(self, module: Module, node: ast.Call) -> None:
        """One ``add_argument`` call."""
        options = [_key(argument) for argument in node.args]
        if not any(option.startswith("-") for option in options):
            return
        definition = Definition()
        for keyword in node.keywords:
            if keyword.arg is None:
                definition = self._unpacked(module, keyword.value, definition)
        for keyword in node.keywords:
            if keyword.arg is not None:
                definition.take(self.source, module, keyword.arg, keyword.value, {})
        if not any(keyword.arg in ("default", None) for keyword in node.keywords):
            definition.default, definition.default_known = None, True
        self._add(options, definition)

    def _unpacked(self, module: Module, value: ast.expr, definition: Definition) -> Definition:
        """``**x_kwargs["name"]`` or ``**{**x_kwargs["name"], "default": None}``."""
        found = self._looked_up(module, value)
        if found is not None:
            return found.copy()
        if not isinstance(value, ast.Dict):
            raise NoArguments(f"{module.name}: cannot tell what **{ast.unparse(value)[:60]} holds")
        for key, item in zip(value.keys, value.values, strict=True):
            if key is None:
                definition = self._unpacked(module, item, definition)
            else:
                definition.take(self.source, module, _key(key), item, {})
        return definition

    def _add(self, options: list[str], definition: Definition) -> None:
        options = [option for option in options if option.startswith("-")]
        name = next((option for option in options if option.startswith("--")), options[0])
        self.found[name.lstrip("-").replace("_", "-")] = (definition, [item for item in options if item != name])

    # ---- classes ------------------------------------------------------------------------------------------------

    def _definitions(self, module: Module, node: ast.ClassDef) -> dict[str, Definition]:
        """What ``get_kwargs`` makes of a configuration class: field → definition."""
        return {name: self._from_field(name, field) for name, field in self.source.fields(module, node).items()}

    def _from_field(self, name: str, field: Field) -> Definition:
        annotation = read_annotation(self.source, field.module, field.annotation)
        definition = Definition()
        definition.bounds = {**annotation.bounds, **field_bounds(self.source, field.module, field.default)}
        definition.take_text(field.doc)
        try:
            definition.default, definition.default_known = self.source.default(field), True
        except Unresolved:
            definition.default_known = False
        if self.conversion.plain:
            _plain(definition, annotation)
        else:
            self._by_shape(definition, annotation, name)
        return definition

    def _by_shape(self, definition: Definition, annotation: Annotation, name: str) -> None:
        """The order of the cases is that of ``get_kwargs``."""
        kinds = {shape.kind for shape in annotation.shapes}
        if self.conversion.dataclass_first and annotation.has("dataclass"):
            definition.kind = "json"
        elif self.conversion.bare_optional and kinds == {"bool", "str", "none"}:
            definition.nargs, definition.kind = "?", "str"
        elif annotation.has("bool"):
            definition.action = "switch"
        elif annotation.has("literal"):
            _literal(definition, annotation)
        elif annotation.has("tuple") or annotation.has("list"):
            _collection(definition, annotation.first("tuple") or annotation.first("list"))
        elif annotation.has("int"):
            definition.kind = (
                "human-int-auto"
                if name in self.conversion.human_or_auto
                else "human-int"
                if name in self.conversion.human
                else "int"
            )
        elif annotation.has("float"):
            definition.kind = "float"
        elif annotation.has("dict"):
            union = annotation.has("str") or annotation.has("other") or annotation.has("dataclass")
            definition.kind = "json-or-str" if union else "json"
        else:
            definition.kind = "json" if annotation.has("dataclass") else "str"


def _literal(definition: Definition, annotation: Annotation) -> None:
    """``Literal`` options are choices, unless any other text is allowed as well."""
    shapes = [shape for shape in annotation.shapes if shape.kind == "literal"]
    options = [option for shape in shapes for option in shape.options or ()]
    number = bool(options) and all(isinstance(option, int) and not isinstance(option, bool) for option in options)
    definition.kind = "int" if number else "str"
    if not annotation.has("str") and all(shape.options is not None for shape in shapes):
        definition.choices = options


def _collection(definition: Definition, shape: Shape | None) -> None:
    if shape is None:
        return
    kinds = {element.kind for element in shape.elements}
    definition.kind = "int" if kinds == {"int"} else "float" if kinds == {"float"} else "str"
    if kinds == {"literal"} and shape.elements[0].options:
        _literal(definition, Annotation(shape.elements, {}))
    definition.nargs = shape.length if shape.kind == "tuple" else "+"


def _plain(definition: Definition, annotation: Annotation) -> None:
    """The first ``get_kwargs`` (0.8.3, 0.8.4): any optional or text-or-other type is text, the rest the plain type."""
    if len(annotation.shapes) == 1 and annotation.shapes[0].kind in ("int", "float"):
        definition.kind = annotation.shapes[0].kind
    else:
        definition.kind = "str"


def _adds_argument(node: ast.AST, parser: str) -> TypeGuard[ast.Call]:
    """Whether a node is an ``add_argument`` call, on the parser of this name where one is named."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "add_argument"
        and (not parser or ast.unparse(node.func.value) == parser)
    )


class _Bind(ast.NodeTransformer):
    """Puts expressions in the place of names."""

    def __init__(self, names: dict[str, ast.expr]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.names.get(node.id, node)


def _turns(loop: ast.For) -> list[list[ast.stmt]]:
    """The body of a loop over a literal list, once for each of its items with the loop's names filled in."""
    if not isinstance(loop.iter, (ast.List, ast.Tuple)):
        return [loop.body]
    targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
    turns = []
    for item in loop.iter.elts:
        values = item.elts if isinstance(item, ast.Tuple) and len(targets) > 1 else [item]
        names = {
            target.id: value for target, value in zip(targets, values, strict=False) if isinstance(target, ast.Name)
        }
        turns.append([_Bind(names).visit(copy.deepcopy(statement)) for statement in loop.body])
    return turns


def _key(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
