"""One argument as a release's source defines it, and what argparse makes of the words of its definition."""

from __future__ import annotations

import ast
import re
from typing import Any

from planner.catalog.engines.source import Module, Source, Unresolved

#: Longer lists of choices name plug-ins or models rather than settings.
_MOST_CHOICES = 60
_LONGEST_DEFAULT = 160

#: Words of a help text or a message that say that the argument itself, not one of its values, is going away.
_DEPRECATED = re.compile(
    r"\A\W*(?:note\W+)?(?:\[?deprecat|this (?:flag|argument|option|field|parameter|config)\b[^.]{0,40}\bis deprecated|"
    r"[`\"']?--[\w-]+[`\"']? is deprecated|\w+ \(--[\w-]+\) is deprecated)",
    re.IGNORECASE,
)
_REMOVAL = re.compile(
    r"removed (?:in|from|by)(?: the)?(?: vllm| version| release)* v?(\d+\.\d+(?:\.\d+)?)", re.IGNORECASE
)


class NoArguments(Exception):  # noqa: N818 - shown as it is
    """The source is not laid out as the reader knows it; the argument says what was not found."""


class Definition:
    """What one ``add_argument`` call says, keyword by keyword; ``variant`` puts it into the form of the flag table."""

    def __init__(self, kind: str = "") -> None:
        self.kind = kind
        self.element = ""
        self.action = ""
        self.nargs: Any = None
        self.nargs_given = False
        self.constant = False
        self.choices: list[Any] | None = None
        self.default: Any = None
        self.default_known = False
        self.deprecated = False
        self.removal = ""
        self.replacement = ""
        self.bounds: dict[str, float] = {}

    def copy(self) -> Definition:
        """A copy whose changes do not touch this one."""
        other = Definition()
        other.__dict__.update(self.__dict__)
        other.bounds = dict(self.bounds)
        other.choices = list(self.choices) if self.choices is not None else None
        return other

    # ---- keywords -----------------------------------------------------------------------------------------------

    def take(self, source: Source, module: Module, keyword: str, value: ast.expr, scope: dict[str, Any]) -> None:
        """One keyword of ``add_argument`` or of the dictionary that is unpacked into it."""
        text = ast.unparse(value)
        if keyword == "type":
            self.kind = type_kind(text)
        elif keyword == "action":
            self.take_action(text)
        elif keyword == "nargs":
            self.nargs, self.nargs_given = _constant(source, module, value, scope), True
        elif keyword == "const":
            self.constant = True
        elif keyword == "choices":
            found = _constant(source, module, value, scope)
            self.choices = list(found) if isinstance(found, (list, dict)) else None
        elif keyword == "default":
            try:
                self.default, self.default_known = source.value(module, value, scope), True
            except Unresolved:
                self.default, self.default_known = None, False
        elif keyword == "deprecated":
            self.deprecated = self.deprecated or _constant(source, module, value, scope) is True
        elif keyword in ("help", "error_message"):
            said = _constant(source, module, value, scope)
            self.take_text(said if isinstance(said, str) else "")
        elif keyword == "new_flag":
            said = _constant(source, module, value, scope)
            self.replacement = said.lstrip("-") if isinstance(said, str) else ""

    def take_action(self, text: str) -> None:
        """The action, by its name or by the class that stands for it."""
        name = text.strip("'\"").rpartition(".")[2]
        if "BooleanOptional" in name:
            self.action = "switch"
        elif name in ("store_true", "store_false", "append", "extend"):
            self.action = {"store_true": "true", "store_false": "false"}.get(name, "append")
        elif "StoreBoolean" in name:
            self.action = "optional-bool"
        elif name.startswith("Deprecated"):
            self.deprecated = True
            if "StoreTrue" in name or name == "DeprecatedAction" or ("StoreConst" in name and not self.nargs_given):
                self.action = "true"
        else:
            self.action = ""

    def take_text(self, text: str) -> None:
        """Whether a help text says that the argument is deprecated, and the release that it is said to go with."""
        start = " ".join(text.split())[:400]
        if _DEPRECATED.match(start):
            self.deprecated = True
            removal = _REMOVAL.search(start)
            if removal:
                number = removal.group(1)
                self.removal = number if number.count(".") == 2 else f"{number}.0"

    # ---- result -------------------------------------------------------------------------------------------------

    def variant(self, aliases: list[str]) -> dict[str, Any]:
        """The definition as a variant of the flag table (``schemas/engine-flags.schema.json``)."""
        kind, element, count = self.kind or "str", "", 0
        if self.action in ("switch", "true", "false", "optional-bool"):
            kind = self.action
        elif self.nargs in ("+", "*") or isinstance(self.nargs, int):
            element = kind if kind in ("int", "float") else ""
            kind, count = "list", self.nargs if isinstance(self.nargs, int) else 0
        elif self.nargs == "?":
            kind = "optional"
        result: dict[str, Any] = {"kind": kind}
        if element:
            result["element"] = element
        if count:
            result["count"] = count
        if self.action == "append":
            result["append"] = True
        if aliases:
            result["aliases"] = aliases
        choices = sorted({str(choice) for choice in self.choices or () if choice is not None})
        if choices and len(choices) <= _MOST_CHOICES:
            result["choices"] = choices
        if self.deprecated:
            result["deprecated"] = True
            if self.removal:
                result["removal"] = self.removal
        if self.bounds and kind in ("int", "float", "human-int", "human-int-auto"):
            result["range"] = {name: self.bounds[name] for name in sorted(self.bounds)}
        usual = {"true": False, "switch": False, "false": True}.get(kind)
        if kind in ("true", "false"):
            pass
        elif not self.default_known or not _plain(self.default):
            result["computed"] = True
        elif self.default != usual or self.default is not usual:
            result["default"] = self.default
        return result


def type_kind(text: str) -> str:
    """The kind that a ``type=`` expression converts to, by the converters of vLLM, SGLang and argparse."""
    if "human_readable_int_or_auto" in text:
        return "human-int-auto"
    if "human_readable_int" in text or "parse_token_count" in text or "int_with_suffix" in text:
        return "human-int"
    if "union_dict_and_str" in text:
        return "json-or-str"
    if "nullable_kvs" in text:
        return "kvs"
    if text == "bool":
        return "optional-bool"
    if (
        "json" in text.lower()
        or "cuda_graph_config" in text
        or "from_cli" in text
        or re.search(r"\w(?:Config|ConfigArgs)\b", text)
    ):
        return "json"
    for name in ("int", "float"):
        if re.search(rf"(?<!\w){name}(?!\w)|_{name}\b", text) and not text.startswith("lambda"):
            return name
    return "str"


def _constant(source: Source, module: Module, value: ast.expr, scope: dict[str, Any]) -> Any:
    try:
        return source.value(module, value, scope)
    except Unresolved:
        return None


def _plain(value: Any) -> bool:
    """Whether a default is short plain data, the same in JSON as in Python."""
    if value is None or isinstance(value, (bool, int, float)):
        return True
    if isinstance(value, str):
        return len(value) <= _LONGEST_DEFAULT
    if isinstance(value, list):
        return len(value) <= 16 and all(isinstance(item, (bool, int, float, str)) for item in value)
    return isinstance(value, dict) and not value
