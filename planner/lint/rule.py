"""Rules as files: one YAML file a rule, read without its examples when a manifest is linted."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml

from planner.data import data_path
from planner.lint.finding import SEVERITIES
from planner.record import NamedTuple

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # a PyYAML without libyaml still reads rules, only slower
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

#: The edits that a fix can name, and how sure a fix is.
EDITS = (
    "rename-flag", "remove-flag", "remove-earlier-flag", "set-flag", "model-as-positional", "copy-resource",
    "add-shared-memory", "set-image-tag",
)  # fmt: skip
SAFETIES = ("safe", "unsafe")
SCOPES = ("workload", "pod", "container", "engine", "rank")
CATEGORIES = ("memory", "parallelism", "accelerator", "engine", "kubernetes", "security")
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
#: A key at the top of a rule file.
_KEY = re.compile(r"^[A-Za-z_\"']", re.MULTILINE)
_KEYS = {
    "id", "title", "category", "scope", "for_each", "needs", "when", "severity", "violated", "cases", "at", "message",
    "why", "remedy", "references", "silenced_by", "parameters", "fix", "examples", "url",
}  # fmt: skip


#: What a rule says to people, behind what it is decided by.
_TEXTS = ("message", "why", "remedy")


class Case(NamedTuple):
    """One condition of a rule and how grave it is; the first case that holds speaks."""

    severity: str
    violated: str
    message: str = ""
    remedy: str = ""


class Fix(NamedTuple):
    """An edit that a rule proposes (``planner.suggest.fixes`` knows how to make each).

    ``safety``: ``safe`` where the edit cannot make anything worse that works now, ``unsafe`` where a person has to look.
    ``when`` is a CEL expression; ``arguments`` are templates like a message's.
    """

    edit: str
    safety: str
    title: str
    when: str = ""
    arguments: tuple[tuple[str, str], ...] = ()


class Rule(NamedTuple):
    """A rule as its file states it.

    ``needs`` names facts without which the rule is not evaluated; ``when`` says where it applies at all; ``at`` lists
    places in the order of preference; ``for_each`` is a list of the plan over which ``item`` runs; of ``fixes`` the first
    that applies is taken.
    """

    id: str
    title: str
    category: str
    scope: str
    cases: tuple[Case, ...]
    message: str
    why: str
    remedy: str
    at: tuple[str, ...]
    path: str
    when: str = ""
    for_each: str = ""
    needs: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    silenced_by: tuple[str, ...] = ()
    parameters: tuple[tuple[str, Any], ...] = ()
    url: str = ""
    fixes: tuple[Fix, ...] = ()

    @property
    def severities(self) -> tuple[str, ...]:
        """The severities it can have, the gravest first."""
        return tuple(sorted({case.severity for case in self.cases}, key=SEVERITIES.index, reverse=True))


class BrokenRule(Exception):  # noqa: N818 - shown to the rule's author as it is
    """A rule file that cannot be used; the text is ``file:line: what is wrong``."""


@cache
def built_in_rules() -> tuple[Rule, ...]:
    """The rules that ship with planner, by id, as far as an evaluation needs them: see ``whole``.

    Raises BrokenRule where a file is wrong.
    """
    rules = [load_rule(path, texts=False) for path in _files(data_path("rules"))]
    return tuple(sorted(rules, key=lambda rule: rule.id))


def whole(rule: Rule) -> Rule:
    """A rule with its texts (message, why, remedy, references), which are read when it has something to say."""
    return rule if rule.message else _whole(rule.path)


@cache
def _whole(path: str) -> Rule:
    return load_rule(path)


def load_folder(folder: str | os.PathLike[str]) -> tuple[Rule, ...]:
    """Every rule of a folder and its subfolders, by id. Raises BrokenRule for a wrong file or a repeated id."""
    rules: dict[str, Rule] = {}
    for path in sorted(_files(folder)):
        rule = load_rule(path)
        if rule.id in rules:
            raise BrokenRule(f"{path}:1: the rule id {rule.id!r} is also in {rules[rule.id].path}")
        rules[rule.id] = rule
    return tuple(rules[name] for name in sorted(rules))


def _files(folder: str | os.PathLike[str]) -> Iterator[str]:
    for where, _, names in os.walk(folder):
        for name in names:
            if name.endswith((".yaml", ".yml")):
                yield os.path.join(where, name)


def load_rule(path: str | os.PathLike[str], texts: bool = True) -> Rule:
    """One rule file. Raises BrokenRule with file and line where it is wrong.

    ``texts=False``: only what comes before the message, for files whose keys stand in the usual order.
    """
    path = os.fspath(path)
    text = _read(path)
    # The examples are the last key and the longest part; a lint run has no use for them.
    head, mark, tail = text.partition("\nmessage:")
    if not texts and mark and "\nat:" in head:
        raw: dict[str, Any] = dict.fromkeys(_TEXTS, "")
        raw.update(_parse(path, head))
        return _rule(path, text, raw)
    head, _, tail = text.partition("\nexamples:")
    raw = _parse(path, text if _KEY.search(tail) else head)
    unknown = sorted(set(raw) - _KEYS, key=str)
    if unknown:
        raise BrokenRule(
            f"{path}:{_line_of(text, unknown[0])}: unknown key {unknown[0]!r}; known are {', '.join(sorted(_KEYS))}"
        )
    for key in ("id", "title", "category", "message", "why", "remedy"):
        if not isinstance(raw.get(key), str) or not raw[key].strip():
            raise BrokenRule(f"{path}:{_line_of(text, key)}: {key!r} is missing or empty; it must be text")
    if not _ID.fullmatch(raw["id"]):
        raise BrokenRule(
            f"{path}:{_line_of(text, 'id')}: the id {raw['id']!r} must be kebab-case (such as weights-do-not-fit)"
        )
    return _rule(path, text, raw)


def _rule(path: str, text: str, raw: dict[str, Any]) -> Rule:
    scope = raw.get("scope", "engine")
    if scope not in SCOPES:
        raise BrokenRule(f"{path}:{_line_of(text, 'scope')}: the scope must be one of {', '.join(SCOPES)}")
    return Rule(
        id=raw["id"],
        title=raw["title"].strip(),
        category=raw["category"],
        scope=scope,
        cases=_cases(path, text, raw),
        message=" ".join(raw["message"].split()),
        why=raw["why"].strip(),
        remedy=" ".join(raw["remedy"].split()),
        at=_texts(path, text, raw, "at"),
        path=path,
        when=_text(path, text, raw, "when"),
        for_each=_text(path, text, raw, "for_each"),
        needs=_texts(path, text, raw, "needs"),
        references=_texts(path, text, raw, "references"),
        silenced_by=_texts(path, text, raw, "silenced_by"),
        parameters=_parameters(path, text, raw),
        url=_text(path, text, raw, "url"),
        fixes=_fixes(path, text, raw),
    )


def line_of(rule: Rule, text: str) -> int:
    """The line in the rule's file on which the value ``text`` starts, 1 where it cannot be found."""
    try:
        root = yaml.compose(_read(rule.path), _Loader)
    except (yaml.YAMLError, BrokenRule):
        return 1
    waiting = [root]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            waiting.extend(value for _, value in reversed(node.value))
        elif isinstance(node, yaml.SequenceNode):
            waiting.extend(reversed(node.value))
        elif isinstance(node, yaml.ScalarNode) and node.value == text:
            return int(node.start_mark.line) + 1
    return 1


def line_of_key(rule: Rule, key: str, text: str) -> int:
    """The line of a rule's file on which ``text`` stands at or below a key, else that of the key."""
    lines = _read(rule.path).splitlines()
    first = _line_of("\n".join(lines), key)
    return next((number for number, line in enumerate(lines[first - 1 :], first) if text in line), first)


def examples(rule: Rule) -> list[dict[str, Any]]:
    """The examples of a rule: dicts with ``violates`` and/or ``passes`` (manifests), and what their test expects."""
    found = _parse(rule.path, _read(rule.path)).get("examples") or []
    if not isinstance(found, list) or not all(isinstance(example, dict) for example in found):
        raise BrokenRule(f"{rule.path}:1: 'examples' must be a list of mappings with 'violates', 'fixed' or 'passes'")
    return found


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenRule(f"{path}:1: cannot be read: {error}") from None


def _parse(path: str, text: str) -> dict[str, Any]:
    try:
        raw = yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise BrokenRule(f"{path}:{line}: not YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date or number that is none
        raise BrokenRule(f"{path}:1: not YAML: {error}") from None
    if not isinstance(raw, dict):
        raise BrokenRule(f"{path}:1: a rule is a mapping with id, title, message …")
    return raw


def _cases(path: str, text: str, raw: dict[str, Any]) -> tuple[Case, ...]:
    entries = raw.get("cases", [{"severity": raw.get("severity"), "violated": raw.get("violated")}])
    if not isinstance(entries, list) or not entries:
        raise BrokenRule(f"{path}:{_line_of(text, 'cases')}: 'cases' must be a list")
    cases = []
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("severity") not in SEVERITIES:
            raise BrokenRule(
                f"{path}:{_line_of(text, 'severity')}: the severity must be one of {', '.join(SEVERITIES)}"
            )
        unknown = sorted(set(entry) - set(Case._fields), key=str)
        if unknown:
            raise BrokenRule(
                f"{path}:{_line_of(text, unknown[0])}: unknown key {unknown[0]!r} in a case; known are {', '.join(Case._fields)}"
            )
        if not isinstance(entry.get("violated"), str):
            raise BrokenRule(f"{path}:{_line_of(text, 'violated')}: 'violated' must be a CEL expression")
        cases.append(
            Case(
                entry["severity"],
                entry["violated"],
                " ".join(str(entry.get("message") or "").split()),
                " ".join(str(entry.get("remedy") or "").split()),
            )
        )
    return tuple(cases)


def _text(path: str, text: str, raw: dict[str, Any], key: str) -> str:
    value = raw.get(key, "")
    if not isinstance(value, str):
        raise BrokenRule(f"{path}:{_line_of(text, key)}: {key!r} must be text; quote it")
    return value


def _fixes(path: str, text: str, raw: dict[str, Any]) -> tuple[Fix, ...]:
    entries = raw.get("fix") or []
    found = []
    for entry in entries if isinstance(entries, list) else [entries]:
        arguments = entry.get("with") or {} if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(arguments, dict) or set(entry) - {*Fix._fields, "with"}:
            raise BrokenRule(f"{path}:{_line_of(text, 'fix')}: 'fix' is a mapping with edit, safety, title, when, with")
        if entry.get("edit") not in EDITS or entry.get("safety") not in SAFETIES:
            raise BrokenRule(
                f"{path}:{max(_line_of(text, 'fix'), _line_of(text, 'edit'))}: a fix has an edit ({', '.join(EDITS)}) and is safe or unsafe"
            )
        found.append(
            Fix(
                entry["edit"],
                entry["safety"],
                " ".join(str(entry.get("title") or "").split()),
                str(entry.get("when") or ""),
                tuple((str(name), str(value)) for name, value in arguments.items()),
            )
        )
    return tuple(found)


def _parameters(path: str, text: str, raw: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    value = raw.get("parameters") or {}
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise BrokenRule(f"{path}:{_line_of(text, 'parameters')}: 'parameters' must be a mapping of names to values")
    return tuple(value.items())


def _texts(path: str, text: str, raw: dict[str, Any], key: str) -> tuple[str, ...]:
    value = raw.get(key) or []
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BrokenRule(f"{path}:{_line_of(text, key)}: {key!r} must be text or a list of texts")
    return tuple(value)


def _line_of(text: str, key: str) -> int:
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip(" -").startswith(f"{key}:"):
            return number
    return 1
