"""Typed fields of a Kubernetes object: what the API server would read, and a sentence where it would refuse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from planner.documents.document import Problem
from planner.documents.node import Node
from planner.provenance import Fact, Position, from_file
from planner.workloads.objects import Objects

#: What templating tools leave in a file until they fill it in. Such text is unknown, not wrong.
_PLACEHOLDER_MARKS = ("$", "__", "<", "{{", "[[", "%(", "@")

_INT32_MAX = 2**31 - 1

# One manifest of a few kilobytes can mean millions of variables: aliases that repeat a container, or many containers
# that take all of a large ConfigMap. Real pod templates stay below 1,000 items, real runs far below these sums.
_ITEMS_PER_DOCUMENT = 20_000
_ITEMS_PER_RUN = 100_000
_ITEMS_PER_RUN_AND_DOCUMENT = 500
_EXPANDED_CHARACTERS = 16 * 2**20


class LimitReachedError(Exception):
    """Nothing more of a document may be read (``Reading.spend`` said so and has recorded the problem)."""


class Reading:
    """What the readers of one run share: the objects to look references up in, the problems found, and how much more
    may be read (see ``spend``)."""

    __slots__ = ("_characters", "_exceeded", "_items", "_items_of_document", "_muted", "_problems", "objects")

    def __init__(self, objects: Objects, documents: int = 1) -> None:
        self.objects = objects
        self._problems: dict[Problem, None] = {}
        self._items = _ITEMS_PER_RUN + _ITEMS_PER_RUN_AND_DOCUMENT * documents
        self._items_of_document = _ITEMS_PER_DOCUMENT
        self._exceeded = False
        self._characters = _EXPANDED_CHARACTERS
        self._muted = False

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All problems in the order found, each once (an aliased node is read more than once)."""
        return tuple(self._problems)

    def problem(self, at: Node | Position, message: str) -> None:
        """Records a problem at a node's value or at a position."""
        if self._muted:
            return
        position = at.position if isinstance(at, Node) else at
        self._problems.setdefault(Problem(position, message))

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Records no problems meanwhile: values of a chart are not yet what the API server will see."""
        before, self._muted = self._muted, True
        try:
            yield
        finally:
            self._muted = before

    def start_document(self) -> None:
        """Begins a new document's share of the limit."""
        self._items_of_document = _ITEMS_PER_DOCUMENT
        self._exceeded = self._items < 0

    def spend(self, at: Node, items: int = 1) -> bool:
        """Whether ``items`` more containers, arguments, variables or mounts may be read; a problem where not."""
        self._items -= items
        self._items_of_document -= items
        if self._items >= 0 and self._items_of_document >= 0:
            return True
        if not self._exceeded:
            self._exceeded = True
            what = "this object means" if self._items >= 0 else "the objects up to this one mean"
            self.problem(
                at,
                f"{what} too many containers, arguments, variables and mounts (YAML aliases and ConfigMaps counted in "
                "full); what follows is not read",
            )
        return False

    def spend_characters(self, characters: int) -> bool:
        """Whether that much more expanded text may be kept."""
        self._characters -= characters
        return self._characters >= 0


def is_placeholder(text: str) -> bool:
    """Whether text holds the marks of a template (``${X}``, ``__X__``, ``<X>``, ``{{ x }}``) that is not filled in."""
    return any(mark in text for mark in _PLACEHOLDER_MARKS)


def describe(node: Node) -> str:
    """What a node is, for a sentence: ``the number 8``, ``a list``, ``nothing (null)``."""
    if node.kind == "mapping":
        return "a mapping"
    if node.kind == "sequence":
        return "a list"
    value = node.value
    if node.kind == "null" or value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        text = node.text
        hint = "" if text.lower() in ("true", "false") else f" ({text} is one to kubectl and Helm, which read YAML 1.1)"
        return f"the boolean {str(value).lower()}{hint}"
    if isinstance(value, (int, float)):
        return f"the number {node.text[:40]}"
    return f"the string {_shown(node.text)}"


def _shown(text: str) -> str:
    """Text in quotes, one line, shortened."""
    return '"' + " ".join(text[:60].split()) + ('…"' if len(text) > 60 else '"')


def entries(node: Node | None) -> dict[str, Node]:
    """The fields of a mapping, null ones included; empty for anything else."""
    return dict(node.items()) if node is not None and node.kind == "mapping" else {}


def is_template(node: Node) -> bool:
    """Whether something of the wrong type is a template that is not filled in: ``${X}``, or ``{{ x }}``, which YAML
    reads as a mapping with a mapping for its key."""
    if node.kind == "scalar":
        return is_placeholder(node.text)
    if node.kind == "mapping":
        return any(key.lstrip().startswith("{") for key, _ in node.items())
    return False


def mapping(fields: dict[str, Node], key: str, reading: Reading) -> dict[str, Node]:
    """The fields of the mapping under ``key``; empty, and a problem where something else stands there."""
    node = fields.get(key)
    if node is None or node.kind == "null":
        return {}
    if node.kind != "mapping":
        if not is_template(node):
            reading.problem(node, f"{node.path} must be a mapping (`name: value` lines), and is {describe(node)}")
        return {}
    return dict(node.items())


def sequence(fields: dict[str, Node], key: str, reading: Reading, remedy: str = "") -> list[Node]:
    """The elements of the list under ``key``; empty, and a problem where something else stands there."""
    node = fields.get(key)
    if node is None or node.kind == "null":
        return []
    if node.kind != "sequence":
        if not is_template(node):
            what = f"; {remedy}" if remedy else ": write one `- ` element per item"
            reading.problem(node, f"{node.path} must be a list, and is {describe(node)}{what}")
        return []
    return list(node)


def text_of(node: Node, reading: Reading) -> str | None:
    """The text of a field of type string. A number or boolean is a problem, and its spelling is returned, so that
    reading goes on with what was meant; None for null, mappings and lists (the latter two a problem)."""
    kind = node.kind
    if kind == "null":
        return None
    if kind == "scalar":
        text = node.text
        if not node.quoted and not isinstance(node.value, str):
            if node.value is None:
                return None
            what = "bool" if isinstance(node.value, bool) else "number"
            reading.problem(
                node,
                f'{node.path} must be a string, and is {describe(node)}: put it in quotes ("{text[:40]}"); the API '
                f'server answers "cannot unmarshal {what} into Go struct field … of type string"',
            )
        return text
    if not is_template(node):
        reading.problem(node, f"{node.path} must be a string, and is {describe(node)}")
    return None


def string(fields: dict[str, Node], key: str, reading: Reading) -> str:
    """The text of the string under ``key``, empty where there is none; see ``text_of``."""
    node = fields.get(key)
    return (text_of(node, reading) or "") if node is not None else ""


def fact(fields: dict[str, Node], key: str, reading: Reading) -> Fact[str] | None:
    """The string under ``key`` and its place, None where there is none; see ``text_of``."""
    node = fields.get(key)
    text = text_of(node, reading) if node is not None else None
    return None if node is None or text is None else from_file(text, node.position)


def integer_of(node: Node, reading: Reading) -> int | None:
    """The value of a field of type integer, None where it is a placeholder or (a problem) something else."""
    value = node.value if node.kind == "scalar" else None
    if isinstance(value, bool):
        pass
    elif isinstance(value, int):
        if -_INT32_MAX - 1 <= value <= _INT32_MAX:
            return value
    elif isinstance(value, float):
        if value.is_integer() and abs(value) <= _INT32_MAX:
            return int(value)
    elif is_template(node):
        return None
    quotes = ", without quotes" if isinstance(value, str) and value.strip().isdecimal() else ""
    reading.problem(node, f"{node.path} must be a whole number{quotes}, and is {describe(node)}")
    return None


def integer(fields: dict[str, Node], key: str, reading: Reading, default: int) -> int | None:
    """The integer under ``key``: ``default`` where there is none, None where it cannot be known; see ``integer_of``."""
    node = fields.get(key)
    return default if node is None or node.kind == "null" else integer_of(node, reading)


def boolean(fields: dict[str, Node], key: str, reading: Reading) -> bool:
    """The boolean under ``key``, False where there is none or a placeholder; a problem where something else stands."""
    node = fields.get(key)
    if node is None or node.kind == "null":
        return False
    value = node.value if node.kind == "scalar" else None
    if isinstance(value, bool):
        return value
    if not is_template(node):
        reading.problem(node, f"{node.path} must be true or false, and is {describe(node)}")
    return False


def string_map(fields: dict[str, Node], key: str, reading: Reading) -> dict[str, Fact[str]]:
    """The string values of a mapping (labels, annotations, a node selector), each with its place."""
    result: dict[str, Fact[str]] = {}
    for name, node in mapping(fields, key, reading).items():
        text = text_of(node, reading)
        if text is not None:
            result[name] = from_file(text, node.position)
    return result
