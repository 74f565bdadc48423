"""Edits of YAML and JSON text at the nodes of a composed tree: items and pairs put in or taken out in the style that stands
there already. Nothing here is sure to be right on every layout: whoever edits reads the result again and compares
(``planner.suggest.verify``)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence as Many
from typing import Any

from planner.documents.scalars import resolve
from planner.documents.tree import Mapping, Raw, Scalar, Sequence, start_of
from planner.suggest.patch import Edit

#: A line that only opens list items: ``  - ``, with an anchor or a tag behind.
_DASH = re.compile(r"([ ]*)-([ ]+)(?:[&!][^\s,\[\]{}]*[ ]+)*")
#: Text that is the same plain and quoted, in block and in flow style.
_PLAIN = re.compile(
    r"[A-Za-z0-9_./](?:[A-Za-z0-9_./@+-]|:(?=[A-Za-z0-9/]))*|--?[A-Za-z0-9](?:[A-Za-z0-9_./@+=-]|:(?=[A-Za-z0-9/]))*"
)


def line_end(text: str) -> str:
    """How the lines of a text end."""
    index = text.find("\n")
    return "\r\n" if index > 0 and text[index - 1] == "\r" else "\n"


def end_of(raw: Raw, text: str) -> int:
    """Where the last character of a node ends; the line breaks behind a block scalar are none of it."""
    start, end = (raw[3], raw[4]) if isinstance(raw, tuple) else (raw.start, raw.end)
    while end > start and text[end - 1].isspace():
        end -= 1
    return end


def _line_start(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


def _line_stop(text: str, index: int) -> int:
    """Where the line of an index ends, before its line break."""
    stop = text.find("\n", index)
    if stop < 0:
        return len(text)
    return stop - 1 if stop > index and text[stop - 1] == "\r" else stop


def spelled(value: str, style: str) -> str | None:
    """A string as a scalar of a style: plain, ``'`` or ``"``; plain gives way to quotes where it would be no string. None
    where no such scalar can hold it."""
    if not value.isprintable():
        return None
    if style not in ("'", '"') and _PLAIN.fullmatch(value) and resolve(value, True, None) == value:
        return value
    if style == "'":
        return "'" + value.replace("'", "''") + "'"
    return json.dumps(value, ensure_ascii=False)


def _plain_value(value: Any) -> str:
    """A value on one line, as flow style has it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_plain_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_plain_value, value)) + "]"
    if isinstance(value, str):
        return spelled(value, "") or '""'
    return json.dumps(value)


def _json_value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _block(value: dict[str, Any]) -> list[str]:
    """The lines of a mapping in block style, without indentation."""
    lines: list[str] = []
    for key, item in value.items():
        if isinstance(item, dict) and item:
            lines += [f"{key}:", *("  " + line for line in _block(item))]
        elif isinstance(item, list) and item and all(isinstance(entry, dict) for entry in item):
            lines.append(f"{key}:")
            for entry in item:
                first, *rest = _block(entry)
                lines += ["  - " + first, *("    " + line for line in rest)]
        else:
            lines.append(f"{key}: {_plain_value(item)}")
    return lines


def insert_items(
    text: str, sequence: Sequence, values: Many[str | dict[str, Any]], like: Scalar | None = None
) -> Edit | None:
    """Items behind the last one of a list, with the quotes of ``like``. None where the layout is not understood."""
    if not sequence.items:
        return None
    items = _written(text, sequence, values, like)
    if items is None:
        return None
    end = end_of(sequence.items[-1], text)
    if sequence.flow:
        separator = _separator(text, sequence)
        return Edit(end, end, "".join(separator + item for item in items))
    return _lines_behind(text, end, items)


def insert_before(text: str, sequence: Sequence, number: int, value: str, like: Scalar | None = None) -> Edit | None:
    """An item in front of another one of a list. None where the layout is not understood."""
    items = _written(text, sequence, [value], like)
    start = start_of(sequence.items[number])
    if items is None:
        return None
    if sequence.flow:
        return Edit(start, start, items[0] + ", ")
    line = _line_start(text, start)
    if _DASH.fullmatch(text, line, start) is None:
        return None
    return Edit(line, line, items[0] + line_end(text))


def _written(
    text: str, sequence: Sequence, values: Many[str | dict[str, Any]], like: Scalar | None
) -> list[str] | None:
    """Items as the list has them: whole lines of a block list, what stands between commas in flow style."""
    style = like[1] if like is not None else ""
    items: list[str] = []
    if sequence.flow:
        is_json = _is_json(text, sequence)
        for value in values:
            if isinstance(value, dict):
                items.append(_json_value(value) if is_json else _plain_value(value))
            else:
                item = spelled(value, '"' if is_json else style)
                if item is None:
                    return None
                items.append(item)
        return items
    dash = _dash(text, sequence)
    if dash is None:
        return None
    indent, gap = dash
    for value in values:
        if isinstance(value, dict):
            first, *rest = _block(value)
            items += [f"{indent}-{gap}{first}", *(f"{indent} {gap}{line}" for line in rest)]
        else:
            item = spelled(value, style)
            if item is None:
                return None
            items.append(f"{indent}-{gap}{item}")
    return items


def _lines_behind(text: str, index: int, lines: list[str]) -> Edit:
    """Lines below the one that holds the character before an index."""
    stop = _line_stop(text, index)
    end = line_end(text)
    return Edit(stop, stop, "".join(end + line for line in lines))


def _is_json(text: str, raw: Mapping | Sequence) -> bool:
    """Whether a flow collection is written as JSON: every key and every string in double quotes."""
    return raw.flow and text.lstrip("\ufeff \t\r\n")[:1] in ("{", "[")


def _separator(text: str, collection: Mapping | Sequence) -> str:
    """What stands between the last two elements of a flow collection."""
    spans: list[tuple[int, int]]
    if isinstance(collection, Sequence):
        spans = [(start_of(item), end_of(item, text)) for item in collection.items]
    else:
        spans = [(key[3], end_of(value, text)) for key, value in collection.pairs.values()]
    if len(spans) > 1:
        between = text[spans[-2][1] : spans[-1][0]]
        if re.fullmatch(r"\s*,\s*", between):
            return between.lstrip() if "\n" not in between.partition(",")[0] else between
    before = text[collection.start + 1 : spans[0][0]]
    return "," + before if re.fullmatch(r"\r?\n[ \t]*", before) else ", "


def _dash(text: str, sequence: Sequence) -> tuple[str, str] | None:
    """(indentation, blanks behind the dash) of the items of a block list, by the last item that stands on a line of its own."""
    for item in reversed(sequence.items):
        start = start_of(item)
        match = _DASH.fullmatch(text, _line_start(text, start), start)
        if match is not None:
            return match.group(1), match.group(2)
    return None


def remove_items(text: str, sequence: Sequence, first: int, count: int) -> Edit | None:
    """Takes items out of a list, the lines of a block list with the comments on them. None where nothing would be left, or
    the layout is not understood."""
    items = sequence.items
    last = first + count - 1
    if count < 1 or last >= len(items) or count == len(items):
        return None
    if sequence.flow:
        if last + 1 < len(items):
            return Edit(start_of(items[first]), start_of(items[last + 1]), "")
        return Edit(end_of(items[first - 1], text), end_of(items[last], text), "")
    start = _line_start(text, start_of(items[first]))
    if _DASH.fullmatch(text, start, start_of(items[first])) is None:
        return None
    stop = text.find("\n", end_of(items[last], text))
    if stop >= 0:
        return Edit(start, stop + 1, "")
    # The last line of a text without a line break at its end: the one before becomes its last.
    return Edit(start - (2 if text[start - 2 : start] == "\r\n" else 1), len(text), "")


def insert_pair(text: str, mapping: Mapping, key: str, value: Any) -> Edit | None:
    """A key and its value behind the last pair of a mapping. None where the layout is not understood."""
    own = [pair for pair in mapping.pairs.values() if mapping.start <= pair[0][3] < mapping.end]
    if not own or key in mapping.pairs:
        return None
    last_key, last_value = own[-1]
    if mapping.flow:
        written = (
            f"{json.dumps(key)}: {_json_value(value)}" if _is_json(text, mapping) else f"{key}: {_plain_value(value)}"
        )
        end = max(end_of(last_value, text), last_key[4])
        return Edit(end, end, _separator(text, mapping) + written)
    indent = " " * (own[0][0][3] - _line_start(text, own[0][0][3]))
    end = max(end_of(last_value, text), last_key[4])
    lines = [indent + line for line in _block({key: value})]
    return _lines_behind(text, end, lines)


def remove_pair(text: str, mapping: Mapping, key: str) -> Edit | None:
    """Takes a key and its value out of a mapping. None where nothing would be left, or the layout is not understood."""
    names = list(mapping.pairs)
    if key not in names or len(names) == 1:
        return None
    number = names.index(key)
    name, value = mapping.pairs[key]
    if mapping.flow:
        if number + 1 < len(names):
            return Edit(name[3], mapping.pairs[names[number + 1]][0][3], "")
        return Edit(end_of(mapping.pairs[names[number - 1]][1], text), end_of(value, text), "")
    start = _line_start(text, name[3])
    if text[start : name[3]].strip(" "):
        return None
    stop = text.find("\n", max(end_of(value, text), name[4]))
    if stop >= 0:
        return Edit(start, stop + 1, "")
    return Edit(start - (2 if text[start - 2 : start] == "\r\n" else 1), len(text), "")


def replace_scalar(text: str, scalar: Scalar, value: str) -> Edit | None:
    """Another content for a scalar on one line, in its own quotes; a plain one must stay what it is (number or text)."""
    content, style, tag, start, end = scalar
    if style in ("|", ">") or end <= start or "\n" in text[start:end]:
        return None
    if style:
        written = spelled(value, style)
        return None if written is None else Edit(start, end, written)
    if not _PLAIN.fullmatch(value) or type(resolve(value, True, tag)) is not type(resolve(content, True, tag)):
        return None
    return Edit(start, end, value)
