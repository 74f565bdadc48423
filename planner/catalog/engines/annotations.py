"""What a type annotation says about the values of a field: the shapes that vLLM's and SGLang's parsers tell apart."""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

from planner.catalog.engines.source import Module, Source, Unresolved

#: pydantic's names for numbers with a bound: type, lower bound (exclusive), lower bound (inclusive).
_BOUNDED = {
    "PositiveInt": ("int", {"gt": 0}),
    "NonNegativeInt": ("int", {"ge": 0}),
    "PositiveFloat": ("float", {"gt": 0}),
    "NonNegativeFloat": ("float", {"ge": 0}),
}
_BOUNDS = ("gt", "ge", "lt", "le")
_DEEPEST = 20


class Shape(NamedTuple):
    """One alternative of a type: ``kind`` is ``bool``, ``int``, ``float``, ``str``, ``none``, ``dict``, ``literal``,
    ``list``, ``tuple``, ``dataclass`` or ``other``. ``options`` are those of a literal (None: they are not constants),
    ``elements`` the shapes of a collection's elements, ``length`` that of a tuple that has one."""

    kind: str
    options: tuple[Any, ...] | None = ()
    elements: tuple[Shape, ...] = ()
    length: int = 0
    #: the class of a dataclass has its own reader of the command line (``from_cli``)
    own_reader: bool = False


class Annotation(NamedTuple):
    """The alternatives of an annotation, and the bounds (``gt``, ``ge``, ``lt``, ``le``) that it puts on numbers."""

    shapes: tuple[Shape, ...]
    bounds: dict[str, float]

    def has(self, kind: str) -> bool:
        """Whether one of the alternatives is of this kind."""
        return any(shape.kind == kind for shape in self.shapes)

    def first(self, kind: str) -> Shape | None:
        """The first alternative of this kind."""
        return next((shape for shape in self.shapes if shape.kind == kind), None)


def read_annotation(source: Source, module: Module, node: ast.expr) -> Annotation:
    """What an annotation allows, with names followed through the release."""
    bounds: dict[str, float] = {}
    return Annotation(tuple(_shapes(source, module, node, bounds, 0)), bounds)


def field_bounds(source: Source, module: Module, default: ast.expr | None) -> dict[str, float]:
    """The bounds of ``Field(default=…, ge=1, le=…)``."""
    found: dict[str, float] = {}
    if isinstance(default, ast.Call) and ast.unparse(default.func).endswith("Field"):
        _take_bounds(source, module, default, found)
    return found


def _take_bounds(source: Source, module: Module, call: ast.Call, bounds: dict[str, float]) -> None:
    for keyword in call.keywords:
        if keyword.arg in _BOUNDS:
            try:
                value = source.value(module, keyword.value)
            except Unresolved:
                continue
            if isinstance(value, (int, float)):
                bounds[keyword.arg] = value


def _shapes(source: Source, module: Module, node: ast.AST, bounds: dict[str, float], depth: int) -> list[Shape]:
    if depth > _DEEPEST:
        return [Shape("other")]
    if isinstance(node, ast.Constant):
        if node.value is None:
            return [Shape("none")]
        if isinstance(node.value, str):
            try:
                return _shapes(source, module, ast.parse(node.value, mode="eval").body, bounds, depth + 1)
            except SyntaxError:
                return [Shape("other")]
        return [Shape("other")]
    if isinstance(node, ast.BinOp):
        return [
            *_shapes(source, module, node.left, bounds, depth + 1),
            *_shapes(source, module, node.right, bounds, depth + 1),
        ]
    if isinstance(node, ast.Subscript):
        return _generic(source, module, node, bounds, depth)
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _named(source, module, node, bounds, depth)
    return [Shape("other")]


def _generic(source: Source, module: Module, node: ast.Subscript, bounds: dict[str, float], depth: int) -> list[Shape]:
    head = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if head == "Optional":
        return [*_shapes(source, module, parts[0], bounds, depth + 1), Shape("none")]
    if head == "Union":
        return [shape for part in parts for shape in _shapes(source, module, part, bounds, depth + 1)]
    if head in ("Annotated", "InitVar", "SkipValidation", "ClassVar", "A"):
        for part in parts[1:]:
            if isinstance(part, ast.Call):
                _take_bounds(source, module, part, bounds)
        return _shapes(source, module, parts[0], bounds, depth + 1)
    if head == "Literal":
        options = source.literal_options(module, node)
        return [Shape("literal", tuple(options) if options is not None else None)]
    if head in ("list", "List", "set", "Set", "Sequence", "Collection", "frozenset"):
        return [Shape("list", elements=tuple(_shapes(source, module, parts[0], {}, depth + 1)))]
    if head in ("tuple", "Tuple"):
        open_end = any(isinstance(part, ast.Constant) and part.value is Ellipsis for part in parts)
        elements = tuple(_shapes(source, module, parts[0], {}, depth + 1))
        return [Shape("list", elements=elements)] if open_end else [Shape("tuple", (), elements, len(parts))]
    if head in ("dict", "Dict", "Mapping", "MutableMapping"):
        return [Shape("dict")]
    return [Shape("other")]


def _named(
    source: Source, module: Module, node: ast.Name | ast.Attribute, bounds: dict[str, float], depth: int
) -> list[Shape]:
    name = node.attr if isinstance(node, ast.Attribute) else node.id
    if name in ("bool", "int", "float", "str"):
        return [Shape(name)]
    if name in _BOUNDED:
        kind, limits = _BOUNDED[name]
        bounds.update(limits)
        return [Shape(kind)]
    if name in ("dict", "Dict"):
        return [Shape("dict")]
    if name in ("list", "List", "set", "tuple"):
        return [Shape("list", elements=(Shape("str"),))]
    found = source.find(module, name)
    if found is None:
        return [Shape("other")]
    if isinstance(found.node, ast.ClassDef):
        return [_class(source, found.module, found.node)]
    if isinstance(found.node, (ast.Subscript, ast.BinOp, ast.Name, ast.Attribute)):
        return _shapes(source, found.module, found.node, bounds, depth + 1)
    return [Shape("other")]


def _class(source: Source, module: Module, node: ast.ClassDef) -> Shape:
    decorators = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
    if "dataclass" in decorators or "config" in decorators:
        own = any(isinstance(part, ast.FunctionDef) and part.name == "from_cli" for part in node.body)
        return Shape("dataclass", own_reader=own)
    bases = " ".join(ast.unparse(base) for _, owner in source.lineage(module, node) for base in owner.bases)
    if "TypedDict" not in bases and any(word in bases for word in ("dict", "Dict")):
        return Shape("dict")
    return Shape("other")
