"""Command lines that operators make of typed fields: ``maxModelLen: 4096`` → ``--max-model-len 4096``, each word with the
place of its field."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator

from planner.documents.derived import key_at, text_at
from planner.documents.node import Node
from planner.provenance import Position
from planner.workloads.workload import HIDDEN, Arg

#: Acronyms that a split at capital letters takes apart.
_REJOINED = (("lo-ra", "lora"), ("d-type", "dtype"), ("v-llm", "vllm"))
_WORD = re.compile(r"""(?s)(?:[^\s'"\\]|'[^']*'|"(?:[^"\\]|\\.)*"|\\.)+""")
_PART = re.compile(r"""(?s)[^\s'"\\]+|'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""")
#: Longer texts are no argument lists.
_LONGEST = 64 * 1024
_MOST_WORDS = 2_000
#: Booleans that are on by default in some release, so that ``false`` has to be said.
_SWITCHED_OFF = frozenset(("enable-prefix-caching", "enable-chunked-prefill", "async-scheduling"))


def words(at: Node, *texts: str) -> list[Arg]:
    """Arguments that an operator adds on its own; they stand where ``at`` does."""
    return [Arg(text, text_at(at, text)) for text in texts]


def hidden(at: Node, reason: str) -> Arg:
    """Stands for arguments that are not known."""
    return Arg(HIDDEN, text_at(at, HIDDEN), reason)


def option(name: str, value: Node) -> list[Arg]:
    """``--name value`` of a typed field: the name stands at the key, the value at the value.

    ``true`` is the flag alone; ``false`` is nothing, or ``--no-name`` for what an engine may have on by default; null is
    nothing; what is nested becomes JSON.
    """
    kind = value.kind
    if kind == "null":
        return []
    if kind in ("mapping", "sequence"):
        text = json.dumps(value.plain(), default=str)
        return [Arg(f"--{name}", key_at(value, f"--{name}")), Arg(text, text_at(value, text))]
    if isinstance(value.value, bool) and not value.quoted:
        flag = f"--{name}" if value.value else f"--no-{name}" if name in _SWITCHED_OFF else ""
        return [Arg(flag, key_at(value, flag))] if flag else []
    return [Arg(f"--{name}", key_at(value, f"--{name}")), Arg(value.text, value)]


def options(fields: Iterable[tuple[str, Node]], skipped: Collection[str] = ()) -> list[Arg]:
    """The options of typed fields whose names are the flags' in camel case, with underscores or with hyphens."""
    found: list[Arg] = []
    for name, value in fields:
        if name not in skipped and len(found) < _MOST_WORDS:
            found += option(flag_name(name), value)
    return found


def flag_name(field: str) -> str:
    """``gpuMemoryUtilization`` and ``gpu_memory_utilization`` → ``gpu-memory-utilization``."""
    name = (
        re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", field[:100].lstrip("-"))
        .lower()
        .replace("_", "-")
    )
    for apart, together in _REJOINED:
        name = name.replace(apart, together)
    return name


def listed(node: Node | None) -> list[Arg]:
    """The elements of a list of arguments; the words of one string."""
    if node is None:
        return []
    if node.kind == "scalar":
        return list(split(node))
    return [Arg(item.text, item) for item in list(node)[:_MOST_WORDS] if item.kind == "scalar"]


def split(node: Node) -> Iterator[Arg]:
    """The words of a string as a shell splits them, quotes taken off; nothing is expanded."""
    text = node.text
    if len(text) > _LONGEST:
        yield hidden(node, "a longer text than planner reads as arguments")
        return
    for number, word in enumerate(_WORD.finditer(text)):
        if number >= _MOST_WORDS:
            return
        parts = []
        for part in _PART.finditer(word.group()):
            single, double, escaped = part.groups()
            if single is not None:
                parts.append(single)
            elif double is not None:
                parts.append(re.sub(r'(?s)\\(["\\$`])', r"\1", double).replace("\\\n", ""))
            elif escaped is not None:
                parts.append("" if escaped == "\n" else escaped)
            else:
                parts.append(part.group())
        joined = "".join(parts)
        if joined or word.group() != "\\\n":
            yield Arg(joined, text_at(node, joined, word.start()))


def names(arguments: Iterable[Arg], *flags: str) -> bool:
    """Whether one of the flags (without dashes, hyphens inside) is among the arguments."""
    return any(
        argument.text.startswith("-") and argument.text.lstrip("-").partition("=")[0].replace("_", "-") in flags
        for argument in arguments
    )


def position_of(node: Node | None) -> Position | None:
    """The place of a node, if there is one."""
    return node.position if node is not None else None
