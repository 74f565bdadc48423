"""Sentences for what libyaml refuses: what is wrong, where, and what to do about it."""

from __future__ import annotations

import re
from typing import Final

_TAB: Final = "a tab cannot indent YAML; use spaces"
#: libyaml's words → ours. ``{opened}`` is the line on which the enclosing construct began.
_SENTENCES: Final = {
    "could not find expected ':'": "this line is neither a 'key: value' nor the continuation of a value",
    "did not find expected key": "the indentation does not match the block that began on line {opened}",
    "did not find expected '-' indicator": "the indentation does not match the list that began on line {opened}",
    "block sequence entries are not allowed in this context": "a '- ' where no list can start; check the indentation",
    "block mapping entries are not allowed in this context": "a '? ' where no mapping can start",
    "mapping keys are not allowed in this context": "a '? ' where no key can stand",
    "did not find expected ',' or ']'": "a list that was opened with '[' on line {opened} lacks a ',' or ']' here",
    "did not find expected ',' or '}'": "a mapping that was opened with '{' on line {opened} lacks a ',' or '}' here",
    "did not find expected node content": "a value is missing here",
    "found unexpected end of stream": "this quote is never closed",
    "found unexpected document indicator": "this quote is not closed in its document",
    "found unknown escape character": "an unknown escape after '\\' in a double-quoted string; use single quotes, or '\\\\'",
    "did not find expected hexdecimal number": "an escape in a double-quoted string lacks its hexadecimal digits",
    "found invalid Unicode character escape code": "an escape in a double-quoted string names no character",
    "found undefined tag handle": "a tag with a handle that nothing declares",
    "found incompatible YAML document": "a %YAML version that is not 1.1 or 1.2",
    "found duplicate %YAML directive": "a second %YAML directive",
    "found duplicate %TAG directive": "a second %TAG directive for the same handle",
    "found unknown directive name": "an unknown % directive; quote a value that starts with '%'",
    "did not find expected <document start>": "text after the end of the document; a '---' line or indentation is missing",
    "did not find expected <stream-start>": "the file does not start like YAML",
    "exceeded maximum nesting depth": "nested too deeply",
    "did not find expected comment or line break": "text after '|' or '>'; the block starts on the next line",
    "found a tab character where an indentation space is expected": _TAB,
    "found a tab character that violates indentation": _TAB,
    "found an indentation indicator equal to 0": "an indentation of 0 after '|' or '>'",
    "did not find expected whitespace or line break": "text right behind a tag; a space is missing",
    "did not find expected alphabetic or numeric character": "an '&' or '*' without a name; quote a value that starts with it",
    "did not find expected '!'": "a tag without its closing '!'",
    "did not find expected tag URI": "a '!' that names no tag; quote a value that starts with '!'",
}
_CONFLICT: Final = re.compile(r"^(?:<{7}|\|{7}|>{7})(?:[ \t].*)?\r?$", re.MULTILINE)


def explain(text: str, index: int, problem: str, opened: int) -> str:
    """Our sentence for libyaml's ``problem`` at character ``index``; ``opened`` is the line of its context (from 1)."""
    found = text[index : index + 1]
    before = text[max(text.rfind("\n", 0, index) + 1, index - 1000) : index]
    if problem == "found character that cannot start any token":
        return _TAB if found == "\t" else f"{found!r} cannot start a value; quote it"
    if problem == "mapping values are not allowed in this context":
        if ": " in before or before.lstrip().startswith("- - "):
            return "a second ': ' on the line; quote the value"
        return "a key where none can stand; check the indentation, and the ':' of the line above"
    if problem == "did not find expected key":
        if before.rstrip(" \t").endswith(("'", '"')):
            return "text after a closing quote; quote the whole value"
        if found == ":":
            return "a value without a key"
        if text.startswith(("- ", "-\n"), index):
            return "a '- ' where a 'key: value' is expected; check the indentation"
    if problem == "did not find expected node content" and found and found in "]},%@`":
        return f"{found!r} where a value is expected; quote it"
    sentence = _SENTENCES.get(problem)
    return problem if sentence is None else sentence.replace("{opened}", str(opened))


def conflict_marker(text: str, start: int, end: int) -> int | None:
    """The index of the first merge conflict marker at the start of a line between two indices."""
    match = _CONFLICT.search(text, start, end)
    return None if match is None else match.start()
