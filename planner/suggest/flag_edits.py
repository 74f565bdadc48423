"""Edits that set, add, rename or take out one flag of an engine's command line, wherever it stands: an item of a list, two
items, a word of a shell script, a variable's value, a typed field.

Every function gives proposals, the likeliest first; which of them does what was meant is found by reading the result again
(``planner.suggest.manifests``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from planner.documents.tree import Mapping, Scalar, Sequence
from planner.record import NamedTuple
from planner.suggest import yaml_edits
from planner.suggest.patch import Edit
from planner.suggest.places import Place, Places, own, raw_of
from planner.suggest.verify import ADDITIONAL, Expected, plain, words_of

if TYPE_CHECKING:
    from planner.engines.config import FlagValue, Word
    from planner.plan import Plan
    from planner.provenance import Position

_REFERENCE = re.compile(r"\$\((\w+)\)|\$\{(\w+)(?::?[-=]([^}]*))?\}|\$(\w+)")
#: A quote of the shell, as scripts, double-quoted strings and single-quoted strings write it.
_OPENING_QUOTE = re.compile(r"""''|\\?["']|""")
_KEY = re.compile(r"([a-z][a-z0-9_-]*):[ \t]+[^\s#]")
_FLAG = re.compile(r"--[A-Za-z][\w.-]*")
#: What may stand behind a word of a shell script.
_WORD_ENDS = re.compile(r"[ \t]*(\\)?[ \t]*(\r?\n|\Z)")


class Proposal(NamedTuple):
    """Edits of one file, and what they are meant to change in its documents."""

    file: str
    edits: tuple[Edit, ...]
    expected: tuple[Expected, ...]


class Files(NamedTuple):
    """The text and the scalars of every file that may be edited, by the name that positions show."""

    texts: dict[str, str]
    places: dict[str, Places]

    def find(self, position: Position | None) -> tuple[str, Places, int, Place] | None:
        """(text, scalars of the file, index, scalar) of a position; None where it is in no file that may be edited."""
        if position is None or position.file not in self.texts:
            return None
        places = self.places[position.file]
        index = places.index(position)
        place = places.at(index)
        return None if place is None else (self.texts[position.file], places, index, place)


def set_value(files: Files, plan: Plan, flag: FlagValue, value: str) -> Iterator[Proposal]:
    """Another value for a flag that is given with one."""
    raw = flag.raw
    if not raw or raw == value:
        return
    place = flag.value_position or flag.position
    found = files.find(place)
    if found is None or place is None:
        return
    text, _, index, holder = found
    written = text[index:]
    head = flag.spelling.partition("=")[0]
    start = index
    if written.startswith(head + "="):
        start = index + len(head) + 1
    at = start + len(_OPENING_QUOTE.match(text, start).group())  # type: ignore[union-attr]
    if text.startswith(raw, at) and at + len(raw) <= max(holder.scalar[4], at):
        yield Proposal(place.file, (Edit(at, at + len(raw), value),), (Expected("text", raw, value),))
    reference = _REFERENCE.match(text, at)
    if reference is not None:
        yield from _set_variable(files, plan, place.file, holder, reference, raw, value)
    if holder.scalar[0] == raw:  # a typed field, a variable's value
        edit = yaml_edits.replace_scalar(text, holder.scalar, value)
        if edit is not None:
            yield Proposal(place.file, (edit,), (Expected("text", raw, value),))


def _set_variable(
    files: Files, plan: Plan, file: str, holder: Place, reference: re.Match[str], raw: str, value: str
) -> Iterator[Proposal]:
    """Where the value comes out of a variable: the container's own, one of the script, or the reference's default."""
    name = next(group for number, group in enumerate(reference.groups(), 1) if group is not None and number != 3)
    text = files.texts[file]
    assigned = re.compile(rf"(?<![\w$]){re.escape(name)}=(\\?[\"']?){re.escape(raw)}(?![\w.-])")
    for match in assigned.finditer(text, holder.scalar[3], holder.scalar[4]):
        start = match.end(1)
        yield Proposal(file, (Edit(start, start + len(raw), value),), (Expected("text", raw, value),))
    if reference.group(3) == raw:
        yield Proposal(file, (Edit(reference.start(3), reference.end(3), value),), (Expected("text", raw, value),))
    variable = plan.container.env.get(name) if plan.container is not None else None
    if variable is None or variable.value != raw or variable.node.kind != "scalar":
        return
    found = files.find(variable.node.position)
    if found is None or not own(variable.node, found[1].source):
        return
    scalar = raw_of(variable.node)
    if isinstance(scalar, tuple) and scalar[0] == raw:
        edit = yaml_edits.replace_scalar(found[0], scalar, value)
        if edit is not None:
            yield Proposal(variable.node.position.file, (edit,), (Expected("text", raw, value),))


def rename(files: Files, flag: FlagValue, name: str) -> Iterator[Proposal]:
    """Another name (with its dashes) for a flag as it is spelled."""
    found = files.find(flag.position)
    if found is None or flag.position is None:
        return
    text, _, index, _ = found
    head = flag.spelling.partition("=")[0]
    if text.startswith(head, index):
        yield Proposal(flag.position.file, (Edit(index, index + len(head), name),), (Expected("text", head, name),))


# -- adding ------------------------------------------------------------------------------------------------------------


def add(files: Files, plan: Plan, name: str, value: str | None) -> Iterator[Proposal]:
    """A flag (name without dashes) that is not there yet, in the style of those that are; ``value`` None for a switch."""
    line = plan.engine.command_line
    words = [word for word in line.words if not word.source.startswith("config:")] if line is not None else []
    tried: set[int] = set()
    for word in reversed(words):
        found = files.find(word.position)
        if found is None or word.position is None:
            continue
        text, _, _, place = found
        if place.scalar[3] in tried:
            continue
        tried.add(place.scalar[3])
        file = word.position.file
        if isinstance(place.parent, Mapping) and (place.is_key or not _holds_words(place.scalar, words)):
            yield from _add_field(file, text, place.parent, name, value)
        if isinstance(place.parent, Sequence) and _is_argument(place.scalar, word):
            yield from _add_item(file, text, place.parent, name, value)
        elif not place.is_key:
            yield from _add_word(files, file, text, place, words, name, value)
    form = f"--{name}" if value is None else f"--{name}={value}"
    if plan.workload is not None and plan.workload.kind == "LLMInferenceService":
        yield from _add_variable(files, plan, form)
    yield from _add_list(files, plan, words, form)


def _add_list(files: Files, plan: Plan, words: list[Word], form: str) -> Iterator[Proposal]:
    """A list of arguments where there is none: in the container, or beside the field that names the model."""
    tried: set[int] = set()
    for position in (plan.position, *(word.position for word in words[:3])):
        found = files.find(position)
        parent = found[3].parent if found is not None else None
        if found is None or position is None or not isinstance(parent, Mapping) or parent.start in tried:
            continue
        tried.add(parent.start)
        homes: list[tuple[str, object]] = [("args", [form])]
        if "modelURL" in parent.pairs:  # the production stack's chart
            homes.insert(0, ("vllmConfig", {"extraArgs": [form]}))
        for key, content in homes:
            edit = yaml_edits.insert_pair(found[0], parent, key, content)
            if edit is not None:
                yield Proposal(position.file, (edit,), (Expected("pairs", {}, {key: content}),))


def _add_variable(files: Files, plan: Plan, form: str) -> Iterator[Proposal]:
    """The variable whose words the preset of the kind appends, where the manifest has no arguments of its own."""
    container = plan.container
    if container is None or ADDITIONAL in container.env:
        return
    found = files.find(plan.position)
    if found is None or not isinstance(found[3].parent, Mapping):
        return
    edit, expected = put_item(found[0], found[3].parent, "env", {"name": ADDITIONAL, "value": form})
    if edit is not None:
        yield Proposal(plan.position.file, (edit,), (expected,))


def put_item(text: str, mapping: Mapping, key: str, item: dict[str, Any]) -> tuple[Edit | None, Expected]:
    """An item behind those of the list under a key, or the key with a list of it; no edit where the layout is not
    understood."""
    existing = mapping.pairs.get(key)
    if existing is not None and isinstance(existing[1], Sequence):
        return yaml_edits.insert_items(text, existing[1], [item]), Expected("items", [], [item])
    return yaml_edits.insert_pair(text, mapping, key, [item]), Expected("pairs", {}, {key: [item]})


def _holds_words(scalar: Scalar, words: list[Word]) -> bool:
    return any(character.isspace() for character in scalar[0].strip()) or len(words) == 1


def _is_argument(scalar: Scalar, word: Word) -> bool:
    """Whether a scalar is one argument, rather than a script that holds many."""
    content = scalar[0]
    return content.strip() == word.text or (
        "$" in content and not any(character.isspace() for character in content.strip())
    )


def _two_words(names: list[str]) -> bool:
    """Whether flags and values stand apart in a list of words."""
    joined = sum(1 for text in names if text.startswith("--") and "=" in text)
    apart = sum(
        1
        for text, following in zip(names, [*names[1:], "-"], strict=True)
        if _FLAG.fullmatch(text) and not following.startswith("-")
    )
    return apart > joined


def _add_item(file: str, text: str, sequence: Sequence, name: str, value: str | None) -> Iterator[Proposal]:
    scalars = [item for item in sequence.items if isinstance(item, tuple)]
    contents = [item[0] for item in scalars]
    flags = [item for item in scalars if item[0].startswith("-")]
    styles = [item[1] for item in flags if item[1] in ("", "'", '"')] or [scalars[-1][1] if scalars else ""]
    style = max(dict.fromkeys(styles), key=styles.count)
    like = next((item for item in reversed(flags or scalars) if item[1] == style), None)
    forms = [[f"--{name}"]] if value is None else [[f"--{name}={value}"], [f"--{name}", value]]
    if value is not None and _two_words(contents):
        forms.reverse()
    for form in forms:
        edit = yaml_edits.insert_items(text, sequence, form, like)
        if edit is not None:
            yield Proposal(file, (edit,), (Expected("items", [], list(form)),))


def _add_field(file: str, text: str, mapping: Mapping, name: str, value: str | None) -> Iterator[Proposal]:
    """A typed field that an operator makes a flag of, spelled as its neighbours are."""
    keys = list(mapping.pairs)
    camel = any(re.search(r"[a-z][A-Z]", key) for key in keys)
    spellings = [name, name.replace("-", "_"), re.sub(r"-(\w)", lambda match: match.group(1).upper(), name)]
    if camel:
        spellings.reverse()
    elif any("_" in key for key in keys):
        spellings = [spellings[1], spellings[0], spellings[2]]
    plain: object = True
    if value is not None:
        plain = int(value) if value.isdecimal() else float(value) if re.fullmatch(r"\d*\.\d+", value) else value
    for spelling in dict.fromkeys(spellings):
        edit = yaml_edits.insert_pair(text, mapping, spelling, plain)
        if edit is not None:
            kind = plain if isinstance(plain, str) else (type(plain).__name__, str(plain))
            yield Proposal(file, (edit,), (Expected("pairs", {}, {spelling: kind}),))


def _add_word(
    files: Files, file: str, text: str, place: Place, words: list[Word], name: str, value: str | None
) -> Iterator[Proposal]:
    """Words of a shell script, or of a string that is split into words: in front of the last flag that stands in it, on a
    line of their own where that one has its own."""
    inside = [
        (found[2], word)
        for word in words
        if (found := files.find(word.position)) is not None and found[3].scalar[3] == place.scalar[3]
    ]
    texts = [word.text for _, word in inside]
    joined = not _two_words(texts) and any(text.startswith("--") and "=" in text for text in texts)
    forms = [f"--{name}"] if value is None else [f"--{name}={value}", f"--{name} {value}"]
    if value is not None and not joined:
        forms.reverse()
    flags = [(index, word) for index, word in inside if text.startswith("--", index)]
    for form in forms:
        for index, _ in reversed(flags[-3:]):
            start = text.rfind("\n", 0, index) + 1
            before = text[start:index]
            if not before.strip():
                ending = _line_ending(text, start)
                yield _inserted(file, index, f"{form}{ending}{before}", form)
            yield _inserted(file, index, f"{form} ", form)
    for index, _ in reversed(inside):
        key = _KEY.match(text, index)  # YAML in a string: a typed field beside this one
        start = text.rfind("\n", 0, index) + 1
        if key is not None and not text[start:index].strip():
            spelling = name.replace("-", "_") if "_" in key.group(1) or "-" not in key.group(1) else name
            form = f"{spelling}: {'true' if value is None else value}"
            yield _inserted(file, index, form + yaml_edits.line_end(text) + text[start:index], form)
    for form in forms:
        for index, word in reversed(inside[-3:]):
            if text.startswith(word.text, index):
                end = index + len(word.text)
                yield _inserted(file, end, f" {form}", form)


def _inserted(file: str, index: int, text: str, form: str) -> Proposal:
    return Proposal(file, (Edit(index, index, text),), (Expected("words", [], form.split()),))


def _line_ending(text: str, start: int) -> str:
    """How a line of flags ends before the next one: as the line above does, with a backslash in scripts."""
    above = text[text.rfind("\n", 0, max(0, start - 1)) + 1 : start].rstrip("\r\n")
    kept = above.rstrip()
    return (above[len(kept[:-1].rstrip()) :] if kept.endswith("\\") else "") + yaml_edits.line_end(text)


# -- taking out --------------------------------------------------------------------------------------------------------


def remove(files: Files, flag: FlagValue) -> Iterator[Proposal]:
    """Takes a flag and its value out."""
    found = files.find(flag.position)
    if found is None or flag.position is None:
        return
    text, _, index, place = found
    file = flag.position.file
    content = place.scalar[0]
    head = flag.spelling.partition("=")[0]
    if (
        isinstance(place.parent, Sequence)
        and content.startswith(head)
        and not any(c.isspace() for c in content.strip())
    ):
        apart = flag.value_position is not None and flag.value_position != flag.position
        edit = yaml_edits.remove_items(text, place.parent, place.number, 2 if apart else 1)
        if edit is not None:
            gone = [
                item[0]
                for item in place.parent.items[place.number : place.number + 1 + apart]
                if isinstance(item, tuple)
            ]
            yield Proposal(file, (edit,), (Expected("items", gone, []),))
        return
    if isinstance(place.parent, Mapping) and place.is_key:
        edit = yaml_edits.remove_pair(text, place.parent, place.key)
        if edit is not None:
            value = plain(place.parent.pairs[place.key][1])
            yield Proposal(file, (edit,), (Expected("pairs", {place.key: value}, {}),))
        return
    yield from _remove_word(file, text, index, place, flag, head)


def _remove_word(file: str, text: str, index: int, place: Place, flag: FlagValue, head: str) -> Iterator[Proposal]:
    raw = re.escape(flag.raw) if flag.raw else ""
    value = rf"(?:=|[ \t]+)(?P<quote>''|\\?[\"']?){raw}(?P=quote)" if raw else ""
    stop = place.scalar[4] - (place.scalar[1] in ("'", '"'))
    match = re.compile(re.escape(head) + value + r"(?![^\s\\])").match(text, index, stop)
    if match is None:
        return
    start, end = match.span()
    line = text.rfind("\n", 0, start) + 1
    ends = _WORD_ENDS.match(text, end)
    if not text[line:start].strip() and ends is not None and ends.group(2):
        if ends.group(1) or not _continued(text, line):
            yield _cut(file, text, place, line, ends.end())
        else:  # the last line of a command: the one above no longer goes on
            above = text.rfind("\\", 0, line)
            stop = above
            while stop > 0 and text[stop - 1] in " \t":
                stop -= 1
            yield _cut(file, text, place, stop, end)
    behind = end
    while behind < len(text) and text[behind] in " \t":
        behind += 1
    if behind > end and (ends is None or not ends.group(1)):
        yield _cut(file, text, place, start, behind)
    before = start
    while before > 0 and text[before - 1] in " \t":
        before -= 1
    yield _cut(file, text, place, before, end)


def _continued(text: str, line: int) -> bool:
    """Whether the line above goes on with a backslash."""
    return text[:line].rstrip("\r\n").rstrip(" \t").endswith("\\") if line else False


def _cut(file: str, text: str, place: Place, start: int, end: int) -> Proposal:
    gone = text[start:end]
    quote = place.scalar[1]
    if quote in ("'", '"'):
        gone = gone.replace("''" if quote == "'" else '\\"', quote)
    return Proposal(file, (Edit(start, end, ""),), (Expected("words", words_of(gone), []),))
