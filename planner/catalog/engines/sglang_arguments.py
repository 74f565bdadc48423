"""The arguments of ``sglang serve`` and its environment variables, as the source of a release defines them.

Up to 0.5.x every argument is a literal ``add_argument`` call of ``ServerArgs.add_cli_args``; later ones stand as annotations
(``A[int, Arg(help=…, aliases=…)]``) on ``ServerArgs`` and on the records of ``arg_groups/fields``.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from planner.catalog.engines.annotations import read_annotation
from planner.catalog.engines.definition import Definition, NoArguments, type_kind
from planner.catalog.engines.distribution import Distribution
from planner.catalog.engines.source import Module, Source, Unresolved

_SERVER = "sglang.srt.server_args"
_FIELDS = "sglang/srt/arg_groups/fields"
_ENVIRONMENT = "sglang.srt.environ"

#: A setting that releases name differently goes by one name through all of them, the other spelling is an alias.
_ONE_NAME = {
    "tp-size": "tensor-parallel-size",
    "dp-size": "data-parallel-size",
    "pp-size": "pipeline-parallel-size",
    "ep-size": "expert-parallel-size",
    "ep": "expert-parallel-size",
    "attention-context-parallel-size": "attn-cp-size",
    "moe-data-parallel-size": "moe-dp-size",
}


def read_arguments(distribution: Distribution) -> dict[str, dict[str, Any]]:
    """Argument (without dashes, hyphens inside) → its variant. Raises NoArguments where the source is laid out anew."""
    source = Source(distribution)
    server = source.module(_SERVER)
    classes = [part for part in server.tree.body if isinstance(part, ast.ClassDef)] if server is not None else []
    # by its definition: the name is bound anew below the class
    node = next((part for part in classes if part.name == "ServerArgs"), None)
    if server is None or node is None:
        raise NoArguments(f"{_SERVER}.ServerArgs is not in the release")
    reader = _Reader(source)
    for path in distribution.under(_FIELDS):
        module = source.module(path.removesuffix(".py").replace("/", "."))
        for record in module.tree.body if module is not None else ():
            if isinstance(record, ast.ClassDef) and module is not None:
                reader.record(module, record)
    reader.record(server, node)
    for function in node.body:
        if isinstance(function, ast.FunctionDef) and ("cli" in function.name or "_add_" in function.name):
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(".add_argument"):
                    reader.call(server, call)
    if len(reader.found) < 50:
        raise NoArguments(f"only {len(reader.found)} arguments found: the definitions have moved")
    return dict(sorted(reader.found.items()))


def read_variables(distribution: Distribution) -> tuple[str, ...]:
    """The environment variables that ``sglang/srt/environ.py`` declares; none in releases before that file."""
    module = Source(distribution).module(_ENVIRONMENT)
    if module is None:
        return ()
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
                    found.update(target.id for target in statement.targets if isinstance(target, ast.Name))
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.startswith(("SGL_", "SGLANG_"))
        ):
            found.add(node.value)
    return tuple(sorted(name for name in found if re.fullmatch(r"[A-Z][A-Z0-9_]+", name)))


class _Reader:
    """Collects definitions by their one name."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.found: dict[str, dict[str, Any]] = {}

    def call(self, module: Module, node: ast.Call) -> None:
        """One ``add_argument`` call."""
        options = [option for option in (self._text(module, argument) for argument in node.args) if option]
        definition = Definition()
        keywords = sorted(node.keywords, key=lambda keyword: keyword.arg == "action")  # nargs first
        for keyword in keywords:
            if keyword.arg is not None:
                definition.take(self.source, module, keyword.arg, keyword.value, {})
        if not any(keyword.arg == "default" for keyword in node.keywords):
            definition.default, definition.default_known = None, True
        self._add(options, definition)

    def record(self, module: Module, node: ast.ClassDef) -> None:
        """The annotated fields of a class."""
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                annotation = statement.annotation
                if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) in ("A", "Annotated"):
                    self._field(module, statement.target.id, annotation, statement.value)

    def _field(self, module: Module, name: str, annotation: ast.Subscript, default: ast.expr | None) -> None:
        parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        keywords: dict[str, ast.expr] | None = None
        for part in parts[1:]:
            if isinstance(part, ast.Call) and ast.unparse(part.func) == "Arg":
                keywords = {keyword.arg: keyword.value for keyword in part.keywords if keyword.arg}
                break
            if isinstance(part, (ast.JoinedStr, ast.BinOp)) or (
                isinstance(part, ast.Constant) and isinstance(part.value, str)
            ):
                keywords = {"help": part}
                break
        if keywords is None or self._value(module, keywords.get("no_cli")) is True:
            return
        definition = Definition()
        self._type(module, definition, parts[0], keywords)
        for key in ("choices", "help", "nargs"):
            if key in keywords:
                definition.take(self.source, module, key, keywords[key], {})
        if "action" in keywords:
            extra = keywords.get("action_kwargs")
            if isinstance(extra, ast.Dict):
                for key_node, value in zip(extra.keys, extra.values, strict=True):
                    definition.take(self.source, module, self._text(module, key_node), value, {})
            definition.take(self.source, module, "action", keywords["action"], {})
        if default is not None:
            definition.take(self.source, module, "default", default, {})
        spelled = self._text(module, keywords.get("cli_name")) or "--" + name.replace("_", "-")
        aliases = self._value(module, keywords.get("aliases"))
        self._add([spelled, *(aliases if isinstance(aliases, list) else [])], definition)

    def _type(self, module: Module, definition: Definition, node: ast.expr, keywords: dict[str, ast.expr]) -> None:
        if "action" in keywords:
            return
        if "type_parser" in keywords:
            definition.kind = type_kind(ast.unparse(keywords["type_parser"]))
            return
        shapes = [shape for shape in read_annotation(self.source, module, node).shapes if shape.kind != "none"]
        first = shapes[0] if len(shapes) == 1 else None
        if first is None:
            return
        if first.kind == "bool":
            definition.action = "true"
        elif first.kind == "literal" and first.options:
            definition.kind = "int" if isinstance(first.options[0], int) else "str"
            definition.choices = list(first.options)
        elif first.kind == "list":
            element = first.elements[0].kind if len(first.elements) == 1 else ""
            definition.kind = element if element in ("int", "float") else "str"
            definition.nargs = "+"
        elif first.kind in ("int", "float"):
            definition.kind = first.kind

    def _add(self, options: list[str], definition: Definition) -> None:
        options = [option for option in options if option.startswith("-")]
        if not options:
            return
        spelled = next((option for option in options if option.startswith("--")), options[0])
        own = spelled.lstrip("-").replace("_", "-")
        name = _ONE_NAME.get(own, own)
        aliases = {option for option in options if option != "--" + name}
        self.found[name] = definition.variant(sorted(aliases))

    def _text(self, module: Module, node: ast.expr | None) -> str:
        value = self._value(module, node)
        return value if isinstance(value, str) else ""

    def _value(self, module: Module, node: ast.expr | None) -> Any:
        if node is None:
            return None
        try:
            return self.source.value(module, node)
        except Unresolved:
            return None
