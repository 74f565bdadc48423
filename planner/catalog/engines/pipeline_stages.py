"""Which architectures of a release can be split over pipeline stages, read from syntax trees alone.

vLLM from 0.6.3 on asks whether a model's class has ``SupportsPP`` among its bases (``model_executor/models/interfaces.py``) and
whether its ``forward`` takes the tensors of the stage before; earlier releases have a list in ``config.py``. SGLang asks the
latter alone, from 0.5.5.post1 on (``model_executor/model_runner.py``). Classes are followed through the modules of the release,
over imports, aliases and both branches of an ``if``: where one platform's class has stages, none is said to lack them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from planner.catalog.engines.distribution import Distribution
from planner.record import NamedTuple

_INTERFACE = "SupportsPP"
_LIST = "_PP_SUPPORTED_MODELS"
_MODELS = "vllm.model_executor.models"
_RUNNER = "sglang/srt/model_executor/model_runner.py"


def vllm_without_stages(release: Distribution, classes: dict[str, tuple[str, str]]) -> set[str]:
    """The architectures that run on one stage only. ``classes``: architecture → (module, class) as the registry has them;
    a class that cannot be found counts as one that has stages."""
    listed = _listed(release)
    if listed:
        return set(classes) - listed
    reader = _Classes(release, "intermediate_tensors", keywords=True)
    found = set()
    for name, (module, label) in classes.items():
        one = reader.find(module if module.startswith("vllm.") else f"{_MODELS}.{module}", label)
        if one.interface is False or (one.interface is True and one.forward is False):
            found.add(name)
    return found


def sglang_without_stages(release: Distribution, classes: dict[str, tuple[str, str]]) -> set[str]:
    """As ``vllm_without_stages``; none in releases that do not ask (they run on, wrongly)."""
    asks = any(
        isinstance(node, ast.Assert) and "support_pp" in ast.unparse(node.test)
        for node in ast.walk(syntax(release.read(_RUNNER)))
    )
    reader = _Classes(release, "pp_proxy_tensors", keywords=False)
    return {name for name, place in classes.items() if reader.find(*place).forward is False} if asks else set()


def syntax(text: str | None) -> ast.Module:
    """The syntax tree of a module's text; an empty one for none. Raises SyntaxError for no Python."""
    return ast.parse((text or "").lstrip("\ufeff"))


def _listed(release: Distribution) -> set[str]:
    """The architectures that ``config.py`` lists, empty where it has no such list."""
    for node in syntax(release.read("vllm/config.py")).body:
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == _LIST for to in node.targets):
            return set(ast.literal_eval(node.value))
    return set()


def _any(answers: Iterable[bool | None]) -> bool | None:
    """True where one is, else False where one is, else None."""
    known = [answer for answer in answers if answer is not None]
    return any(known) if known else None


def _name(base: ast.expr) -> str:
    base = base.value if isinstance(base, ast.Subscript) else base
    return base.id if isinstance(base, ast.Name) else ""


def _forwards(node: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    return (item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "forward")


class _Class(NamedTuple):
    """What a name stands for: whether the interface is among its bases, and whether the ``forward`` that it has or inherits
    takes the tensors of the stage before; None where that leads out of the release."""

    interface: bool | None = None
    forward: bool | None = None


class _Classes:
    """The classes of a release by module and name."""

    def __init__(self, release: Distribution, tensors: str, *, keywords: bool) -> None:
        """``tensors``: the argument of ``forward`` that says it; ``keywords``: whether ``**`` stands for it too."""
        self._release = release
        self._tensors = tensors
        self._keywords = keywords
        self._modules: dict[str, dict[str, list[ast.AST]]] = {}
        self._found: dict[tuple[str, str], _Class] = {}

    def find(self, module: str, name: str) -> _Class:
        """What a module's name stands for."""
        if name == _INTERFACE:
            return _Class(True)
        key = (module, name)
        if key not in self._found:
            self._found[key] = _Class()  # a circle of imports leads nowhere
            several = [self._read(module, node) for node in self._names(module).get(name, ())]
            self._found[key] = _Class(_any(one.interface for one in several), _any(one.forward for one in several))
        return self._found[key]

    def _read(self, module: str, node: ast.AST) -> _Class:
        """What a node says: a class, an import, an alias, ``module.name``, ``Name[...]``, a call that makes a class of its
        arguments."""
        if isinstance(node, ast.ClassDef):
            bases = [self._read(module, base) for base in node.bases]
            # protocols declare a forward that stands behind all others
            own = [] if "Protocol" in {*map(_name, node.bases)} else [*map(self._takes, _forwards(node))]
            inherited = [base.forward for base in bases if base.forward is not None]
            return _Class(any(base.interface for base in bases), [*own, *inherited, None][0])
        if isinstance(node, ast.alias):
            source, _, name = node.name.rpartition(".")
            return self.find(source, name)
        if isinstance(node, ast.Subscript):
            return self._read(module, node.value)
        if isinstance(node, ast.Name):
            return self.find(module, node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            imported = self._names(module).get(node.value.id, ())
            several = [self.find(item.name, node.attr) for item in imported if isinstance(item, ast.alias)]
        elif isinstance(node, ast.Call):
            several = [self._read(module, argument) for argument in node.args]
        else:
            return _Class()
        return _Class(_any(one.interface for one in several), _any(one.forward for one in several))

    def _takes(self, forward: ast.FunctionDef) -> bool:
        arguments = forward.args
        named = (argument.arg for argument in (*arguments.args, *arguments.kwonlyargs))
        return self._tensors in named or (self._keywords and arguments.kwarg is not None)

    def _names(self, module: str) -> dict[str, list[ast.AST]]:
        """Everything that a module calls by each of its names; imports as aliases with absolute names."""
        if module not in self._modules:
            path = module.replace(".", "/")
            package = f"{path}/__init__.py"
            text = self._release.read(f"{path}.py")
            is_package = text is None
            names: dict[str, list[ast.AST]] = {}
            for name, node in _bound(syntax(text if text is not None else self._release.read(package))):
                if isinstance(node, ast.ImportFrom):
                    source = _source(module, is_package, node)
                    for alias in node.names:
                        item = ast.alias(f"{source}.{alias.name}" if source else alias.name)
                        names.setdefault(alias.asname or alias.name, []).append(item)
                else:
                    names.setdefault(name, []).append(node)
            self._modules[module] = names
        return self._modules[module]


def _bound(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """(name, what it stands for) at the top of a module, inside ``if`` and ``try`` too."""
    waiting: list[ast.AST] = list(tree.body)
    for node in waiting:
        if isinstance(node, (ast.If, ast.Try)):
            handlers = [item for handler in getattr(node, "handlers", []) for item in handler.body]
            waiting += [*node.body, *handlers, *node.orelse]
        elif isinstance(node, ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.ImportFrom):
            yield "", node
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value


def _source(module: str, is_package: bool, node: ast.ImportFrom) -> str:
    """The absolute name of the module that a ``from`` reads."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    parts = parts[: len(parts) - node.level + (1 if is_package else 0)]
    return ".".join([*parts, *([node.module] if node.module else [])])
