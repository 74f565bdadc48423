"""Which modules of a model a quantization config means: exact names, parts of names, wildcards and regular expressions.

Checkpoints spell the same module in several ways (``model.language_model.layers.3.…``, ``language_model.model.layers.3.…``,
``backbone.layers.3.…``). Names are brought to one spelling, ``model.layers.3.…``, and sorted by layer, so that asking
for one layer looks only at what was said about that layer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from planner.models.architecture import UnknownModel

_LAYER = re.compile(r"^(?P<before>.*?)(?:^|(?<=\.))layers\.(?P<index>\d{1,4})(?P<after>(?:[.*].*)?)$")
_EXPERT = re.compile(r"\bexperts\.\d{1,5}(?=\.|$)")
_OTHER_STACKS = re.compile(r"visual|vision|audio|mtp|encoder|nextn|draft|image|adapter")
_SPELLINGS = (
    "model.layers.",
    "model.language_model.layers.",
    "language_model.model.layers.",
    "backbone.layers.",
    "layers.",
)
#: Fused modules of the engine, by the first of their parts in the checkpoint.
FUSED = {
    "q_proj": "qkv_proj",
    "gate_proj": "gate_up_proj",
    "w1": "w13",
    "q_a_proj": "fused_qkv_a_proj",
    "in_proj_qkv": "in_proj_qkvz",
}
_STEPS = 20_000
Pattern = tuple[str, Any]


class ModulePatterns:
    """A set of modules. ``mode`` says how plain names are meant: ``exact``, ``substring`` or ``suffix``; names that start
    with ``re:`` are regular expressions (compressed-tensors), names with ``*`` are wildcards where ``wildcards`` is set."""

    __slots__ = ("_memo", "general", "layered", "mode", "per_layer")

    def __init__(self, names: Iterable[str], mode: str = "exact", wildcards: bool = False) -> None:
        """Sort ``names`` by layer. Raises UnknownModel for a regular expression that could take long to evaluate."""
        self.mode = mode
        self.per_layer: dict[int, dict[Pattern, None]] = {}
        self.general: dict[Pattern, None] = {}
        self.layered = False  # whether a general pattern may tell one layer from another
        self._memo: dict[str, bool] = {}
        steps = 0
        for name in names:
            if name.startswith("re:"):
                pattern, cost = bounded_regex(name[3:])
                steps += cost
                if steps > _STEPS:
                    raise UnknownModel(
                        "the quantization config's patterns are too many to evaluate", "shorten its ignore list"
                    )
                self.general[("regex", pattern)] = None
                self.layered = self.layered or bool(re.search(r"layers\W*[(\[\d]", name))
                continue
            index, rest = split_layer(name)
            kind = "glob" if wildcards and "*" in rest else mode
            if index is None:
                self.general[(kind, rest)] = None
            else:
                entries = self.per_layer.setdefault(index, {})
                if kind == "glob" and rest.endswith("*") and "*" not in rest[:-1]:
                    kind, rest = "prefix", rest[:-1]
                elif kind == "substring":
                    kind = "prefix"
                entries[(kind, rest)] = None

    def __bool__(self) -> bool:
        return bool(self.general or self.per_layer)

    def layer_key(self, index: int) -> Any:
        """Equal keys of two layers mean that the same modules of both are in the set."""
        return index if self.layered else tuple(self.per_layer.get(index, ()))

    def __contains__(self, path: str) -> bool:
        known = self._memo.get(path)
        if known is None:
            known = self._memo[path] = self._matches(path)
        return known

    def _matches(self, path: str) -> bool:
        index, suffix = split_layer(path)
        fused = _fused_name(suffix)
        if index is not None:
            for kind, text in self.per_layer.get(index, ()):
                if _layer_match(kind, text, suffix) or (fused and _layer_match(kind, text, fused)):
                    return True
        return any(_general_match(kind, text, path, index, suffix) for kind, text in self.general) or bool(
            fused and any(_general_match(k, t, path[: -len(suffix)] + fused, index, fused) for k, t in self.general)
        )


def split_layer(name: str) -> tuple[int | None, str]:
    """Layer index and the rest of a decoder module's name; (None, name) for modules outside the decoder layers."""
    match = _LAYER.match(name) if "layers." in name else None
    if match is None or _OTHER_STACKS.search(match["before"]):
        return None, name
    after = match["after"]
    return int(match["index"]), _EXPERT.sub("experts", after[1:] if after.startswith(".") else after)


def _fused_name(suffix: str) -> str:
    head, dot, last = suffix.rpartition(".")
    fused = FUSED.get(last)
    return f"{head}{dot}{fused}" if fused else ""


def _layer_match(kind: str, text: str, suffix: str) -> bool:
    if not text:  # the whole layer is named
        return kind != "exact"
    if suffix.endswith("experts") and text.startswith(suffix + "."):  # one expert is named: all are meant
        return True
    if kind == "prefix":
        return suffix.startswith(text)
    if kind == "glob":
        return fnmatchcase(suffix, text)
    if kind == "suffix":
        return suffix == text or suffix.endswith("." + text)
    return suffix == text


def _general_match(kind: str, text: Any, path: str, index: int | None, suffix: str) -> bool:
    if kind == "exact":
        return bool(path == text) or _within(path, text)
    if kind == "substring":
        return text in path
    if kind == "suffix":
        return bool(path == text or path.endswith("." + text))
    names = [path] if index is None else [f"{spelling}{index}.{suffix}" for spelling in _SPELLINGS]
    if kind == "glob":
        return any(fnmatchcase(name, text) for name in names)
    return any(text.match(name) for name in names)


def _within(path: str, text: str) -> bool:
    """Whether a name means a tower as a whole (``model.visual``) that the module lies in: files leave such towers at 16 bits
    as they are, and published lists name all their modules (or, shortened, the tower)."""
    tower = text.removeprefix("model.")
    return bool(_OTHER_STACKS.match(tower)) and path.removeprefix("model.").startswith(tower + ".")


def bounded_regex(source: str) -> tuple[re.Pattern[str], int]:
    """A compiled expression and a bound of the steps it takes on one name.

    Raises UnknownModel for what could take more than polynomial time (a repeated group with a repetition or a choice
    inside, a back reference) or is no expression at all: the file is a stranger's.
    """
    quantifiers, stack = 0, [False]
    position, length = 0, len(source)
    refusal = UnknownModel(
        f"the pattern {source[:60]!r} of the quantization config is not evaluated", "simplify the pattern"
    )
    if length > 400:
        raise refusal
    while position < length:
        char = source[position]
        if char == "\\":
            if position + 1 < length and source[position + 1].isdecimal():
                raise refusal
            position += 2
            continue
        if char == "[":
            end = source.find("]", position + 2)
            position = (end if end > 0 else length) + 1
            continue
        if char == "(":
            if source.startswith("(?P=", position) or source.startswith("(?(", position):
                raise refusal
            stack.append(False)
        elif char == "|":
            stack[-1] = True
        elif char == ")":
            repeated = stack.pop() if len(stack) > 1 else False
            if repeated and position + 1 < length and source[position + 1] in "*+{":
                raise refusal
            stack[-1] = stack[-1] or repeated
        elif char in "*+{":
            quantifiers += 1
            stack[-1] = True
        elif char == "?" and source[position - 1 : position] not in ("(", "*", "+", "}"):
            stack[-1] = True
        position += 1
    if quantifiers > 5:
        raise refusal
    try:
        return re.compile(source), (1, 1, 20, 300, 4000, 12_000)[quantifiers]
    except (re.error, OverflowError, RecursionError):
        raise refusal from None
