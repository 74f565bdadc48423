"""Names, constants and classes of Python source that is read, never imported or run.

A ``Source`` parses the modules of one release as they are asked for and follows their imports of each other, the way the
interpreter would: the last assignment counts, and of ``if TYPE_CHECKING`` the branch that is there at run time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from planner.catalog.engines.distribution import Distribution

_DEEPEST = 40


class Unresolved(Exception):  # noqa: N818 - the ordinary outcome of an expression that only runs
    """An expression whose value does not stand in the source (a call, an environment variable, another package)."""


class Name(NamedTuple):
    """What a name stands for: a node and the module it stands in."""

    module: Module
    node: ast.AST


class Field(NamedTuple):
    """One field of a class with annotations. ``default`` is None where it has none; ``doc`` is the text below it."""

    module: Module
    annotation: ast.expr
    default: ast.expr | None
    doc: str


class Module:
    """One parsed module: its top-level names."""

    def __init__(self, name: str, tree: ast.Module, package: bool) -> None:
        self.name = name
        self.tree = tree
        self.names: dict[str, ast.AST] = {}
        self.imports: dict[str, tuple[str, str]] = {}
        self.starred: list[str] = []
        self._package = package
        self._collect(tree.body)

    def _collect(self, body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                self._bind(node.name, node)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self._bind(target.id, node.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                self._bind(node.target.id, node.value)
            elif isinstance(node, ast.ImportFrom):
                self._import(node)
            elif isinstance(node, ast.If):
                # First what only type checkers see, so that what runs overrides it.
                checking = "TYPE_CHECKING" in ast.unparse(node.test)
                first, second = (node.body, node.orelse) if checking else (node.orelse, node.body)
                self._collect(first)
                self._collect(second)
            elif isinstance(node, ast.Try):
                self._collect(node.body)

    def _bind(self, name: str, node: ast.AST) -> None:
        self.names[name] = node
        self.imports.pop(name, None)

    def _import(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            parts = self.name.split(".")
            kept = parts[: len(parts) - node.level + (1 if self._package else 0)]
            base = ".".join([*kept, *([base] if base else [])])
        for alias in node.names:
            if alias.name == "*":
                self.starred.append(base)
                continue
            self.names.pop(alias.asname or alias.name, None)
            self.imports[alias.asname or alias.name] = (base, alias.name)


class Source:
    """The modules of one release, and what their expressions come to."""

    def __init__(self, distribution: Distribution) -> None:
        self.distribution = distribution
        self._modules: dict[str, Module | None] = {}

    # ---- modules and names ------------------------------------------------------------------------------------------

    def module(self, name: str) -> Module | None:
        """A module of the release by its dotted name; None where there is none, or where it is no Python of today."""
        if name not in self._modules:
            self._modules[name] = self._load(name)
        return self._modules[name]

    def _load(self, name: str) -> Module | None:
        path = name.replace(".", "/")
        for candidate, package in ((f"{path}.py", False), (f"{path}/__init__.py", True)):
            text = self.distribution.read(candidate)
            if text is not None:
                try:
                    return Module(name, ast.parse(text), package)
                except (SyntaxError, ValueError, RecursionError):
                    return None
        return None

    def find(self, module: Module, name: str, depth: int = 0) -> Name | None:
        """What a name of a module stands for, through imports inside the release."""
        if name in module.names:
            return Name(module, module.names[name])
        if depth > _DEEPEST:
            return None
        places = [module.imports[name]] if name in module.imports else [(base, name) for base in module.starred]
        for base, original in places:
            other = self.module(base)
            found = self.find(other, original, depth + 1) if other is not None else None
            if found is not None:
                return found
        return None

    def find_class(self, module: Module, expression: ast.expr) -> tuple[Module, ast.ClassDef] | None:
        """The class that an expression names."""
        name = expression.attr if isinstance(expression, ast.Attribute) else getattr(expression, "id", "")
        found = self.find(module, name) if name else None
        if found is not None and isinstance(found.node, (ast.Name, ast.Attribute)):
            return self.find_class(found.module, found.node)
        if found is None or not isinstance(found.node, ast.ClassDef):
            return None
        return found.module, found.node

    # ---- classes ----------------------------------------------------------------------------------------------------

    def lineage(self, module: Module, node: ast.ClassDef, depth: int = 0) -> Iterator[tuple[Module, ast.ClassDef]]:
        """A class after those that it inherits from, as far as they are in the release."""
        for base in node.bases if depth < _DEEPEST else ():
            found = self.find_class(module, base)
            if found is not None:
                yield from self.lineage(*found, depth + 1)
        yield module, node

    def fields(self, module: Module, node: ast.ClassDef) -> dict[str, Field]:
        """The annotated fields of a class with those it inherits, in order."""
        result: dict[str, Field] = {}
        for owner, body in self.lineage(module, node):
            for index, statement in enumerate(body.body):
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    following = body.body[index + 1] if index + 1 < len(body.body) else None
                    result[statement.target.id] = Field(
                        owner, statement.annotation, statement.value, _text_of(following)
                    )
        return result

    def is_enum(self, module: Module, node: ast.ClassDef) -> bool:
        """Whether a class is an enumeration."""
        return any("Enum" in ast.unparse(base) for _, owner in self.lineage(module, node) for base in owner.bases)

    def members(self, module: Module, node: ast.ClassDef) -> dict[str, Any]:
        """The members of an enumeration whose values are literal."""
        result = {}
        for statement in node.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                name = statement.targets[0].id
                try:
                    result[name] = self.value(module, statement.value)
                except Unresolved:
                    if "auto" in ast.unparse(statement.value):
                        result[name] = name.lower()
        return result

    # ---- values -----------------------------------------------------------------------------------------------------

    def value(self, module: Module, node: ast.AST, scope: Mapping[str, Any] | None = None, depth: int = 0) -> Any:
        """The value of a constant expression. Raises Unresolved for anything that would have to run."""
        if depth > _DEEPEST:
            raise Unresolved("nested too deeply")
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return self._items(module, node.elts, scope, depth)
        if isinstance(node, ast.Dict):
            if any(key is None for key in node.keys):
                raise Unresolved("a merged dictionary")
            return {
                self.value(module, key, scope, depth + 1): self.value(module, item, scope, depth + 1)
                for key, item in zip(node.keys, node.values, strict=True)
                if key is not None
            }
        if isinstance(node, ast.UnaryOp):
            operand = self.value(module, node.operand, scope, depth + 1)
            if isinstance(node.op, ast.USub) and isinstance(operand, (int, float)):
                return -operand
            if isinstance(node.op, ast.Not):
                return not operand
        if isinstance(node, ast.BinOp):
            return self._operation(module, node, scope, depth)
        if isinstance(node, ast.JoinedStr):
            return self._formatted(module, node, scope, depth)
        if isinstance(node, ast.Name):
            if scope is not None and node.id in scope:
                return scope[node.id]
            found = self.find(module, node.id)
            if found is not None and isinstance(found.node, ast.ClassDef) and self.is_enum(found.module, found.node):
                return list(self.members(found.module, found.node).values())
            if found is not None and isinstance(found.node, ast.expr):
                return self.value(found.module, found.node, None, depth + 1)
        if isinstance(node, ast.Attribute):
            return self._attribute(module, node, scope, depth)
        if isinstance(node, ast.Call):
            return self._call(module, node, scope, depth)
        if isinstance(node, ast.ListComp) and len(node.generators) == 1:
            return self._comprehension(module, node, scope, depth)
        if isinstance(node, ast.Subscript):
            options = self.literal_options(module, node, depth)
            if options is not None:
                return options
        raise Unresolved(ast.unparse(node)[:60])

    def literal_options(self, module: Module, node: ast.AST, depth: int = 0) -> list[Any] | None:
        """The options of a ``Literal[…]`` type or of a name of one; None where it is none."""
        if depth > _DEEPEST:
            return None
        if isinstance(node, ast.Name):
            found = self.find(module, node.id)
            return self.literal_options(found.module, found.node, depth + 1) if found else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            left = self.literal_options(module, node.left, depth + 1)
            right = self.literal_options(module, node.right, depth + 1)
            return [*left, *right] if left is not None and right is not None else None
        if not isinstance(node, ast.Subscript):
            return None
        head = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if head in ("Annotated", "Optional"):
            return self.literal_options(module, parts[0], depth + 1)
        if head != "Literal":
            return None
        options: list[Any] = []
        for part in parts:
            nested = self.literal_options(module, part, depth + 1)
            if nested is not None:
                options += nested
                continue
            try:
                options.append(self.value(module, part, None, depth + 1))
            except Unresolved:
                return None
        return options

    def _items(self, module: Module, parts: list[ast.expr], scope: Mapping[str, Any] | None, depth: int) -> list[Any]:
        items: list[Any] = []
        for part in parts:
            if isinstance(part, ast.Starred):
                items += self._iterated(module, part.value, scope, depth)
            else:
                items.append(self.value(module, part, scope, depth + 1))
        return items

    def _iterated(self, module: Module, node: ast.expr, scope: Mapping[str, Any] | None, depth: int) -> list[Any]:
        """What iterating over an expression gives; of a dictionary only the keys need be constant."""
        found = self.find(module, node.id) if isinstance(node, ast.Name) else None
        if found is not None and isinstance(found.node, ast.Dict):
            keys = [key for key in found.node.keys if key is not None]
            return [self.value(found.module, key, None, depth + 1) for key in keys]
        return list(self.value(module, node, scope, depth + 1))

    def _operation(self, module: Module, node: ast.BinOp, scope: Mapping[str, Any] | None, depth: int) -> Any:
        left = self.value(module, node.left, scope, depth + 1)
        right = self.value(module, node.right, scope, depth + 1)
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if isinstance(node.op, ast.Add) and (numbers or type(left) is type(right)):
            return left + right
        if numbers and isinstance(node.op, ast.Mult):
            return left * right
        if numbers and isinstance(node.op, ast.Sub):
            return left - right
        if numbers and isinstance(node.op, ast.Div) and right:
            return left / right
        if isinstance(left, int) and isinstance(right, int) and 0 <= right <= 64:
            if isinstance(node.op, ast.LShift):
                return left << right
            if isinstance(node.op, ast.Pow) and abs(left) <= 1024:
                return left**right
        raise Unresolved(ast.unparse(node)[:60])

    def _formatted(self, module: Module, node: ast.JoinedStr, scope: Mapping[str, Any] | None, depth: int) -> str:
        parts = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                try:
                    parts.append(str(self.value(module, part.value, scope, depth + 1)))
                except Unresolved:
                    parts.append("…")
            else:
                parts.append(str(self.value(module, part, scope, depth + 1)))
        return "".join(parts)

    def _attribute(self, module: Module, node: ast.Attribute, scope: Mapping[str, Any] | None, depth: int) -> Any:
        if scope is not None and isinstance(node.value, ast.Name) and node.value.id in scope and node.attr == "value":
            return scope[node.value.id]
        owner: ast.expr = node.value
        attribute = node.attr
        if attribute == "value" and isinstance(owner, ast.Attribute):
            attribute, owner = owner.attr, owner.value
        found = self.find_class(module, owner)
        if found is None:
            raise Unresolved(ast.unparse(node)[:60])
        if self.is_enum(*found):
            members = self.members(*found)
            if attribute in members:
                return members[attribute]
        field = self.fields(*found).get(attribute)
        if field is not None:
            return self.default(field, depth + 1)
        for owner_module, body in self.lineage(*found):
            for statement in body.body:
                if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == attribute:
                    return self.value(owner_module, statement.value, None, depth + 1)
        raise Unresolved(ast.unparse(node)[:60])

    def default(self, field: Field, depth: int = 0) -> Any:
        """The default of a field: a constant, or what a simple factory makes. Raises Unresolved without one."""
        if field.default is None:
            raise Unresolved("no default")
        node = field.default
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("Field", "field", "get_field"):
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            if "default" in given:
                return self.value(field.module, given["default"], None, depth + 1)
            factory = given.get("default_factory")
            if isinstance(factory, ast.Lambda):
                return self.value(field.module, factory.body, None, depth + 1)
            if isinstance(factory, ast.Name) and factory.id in ("list", "dict", "set"):
                return {} if factory.id == "dict" else []
            if node.args and not isinstance(node.args[0], ast.Name) and factory is None:
                return self.value(field.module, node.args[0], None, depth + 1)
            raise Unresolved(ast.unparse(node)[:60])
        return self.value(field.module, node, None, depth + 1)

    def _call(self, module: Module, node: ast.Call, scope: Mapping[str, Any] | None, depth: int) -> Any:
        name = ast.unparse(node.func).rpartition(".")[2]
        if name == "get_args" and node.args:
            options = self.literal_options(module, node.args[0], depth + 1)
            if options is not None:
                return options
        if name in ("list", "tuple", "sorted", "set", "frozenset") and len(node.args) == 1:
            items = self.value(module, node.args[0], scope, depth + 1)
            if isinstance(items, (list, dict)):
                return sorted(items, key=str) if name == "sorted" else list(items)
        if name in ("list", "tuple", "dict", "set") and not node.args and not node.keywords:
            return {} if name == "dict" else []
        if name == "keys" and isinstance(node.func, ast.Attribute):
            return list(self.value(module, node.func.value, scope, depth + 1))
        if name in ("int", "float", "str") and len(node.args) == 1:
            value = self.value(module, node.args[0], scope, depth + 1)
            if isinstance(value, (int, float, str)):
                return {"int": int, "float": float, "str": str}[name](value)
        raise Unresolved(ast.unparse(node)[:60])

    def _comprehension(self, module: Module, node: ast.ListComp, scope: Mapping[str, Any] | None, depth: int) -> Any:
        generator = node.generators[0]
        if generator.ifs or not isinstance(generator.target, ast.Name):
            raise Unresolved(ast.unparse(node)[:60])
        items = self.value(module, generator.iter, scope, depth + 1)
        if not isinstance(items, list):
            raise Unresolved(ast.unparse(node)[:60])
        return [self.value(module, node.elt, {**(scope or {}), generator.target.id: item}, depth + 1) for item in items]


def _text_of(statement: ast.stmt | None) -> str:
    """The text of a string that stands alone (the documentation of the field above it)."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return value if isinstance(value, str) else ""
    return ""
