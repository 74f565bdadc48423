"""The YAML file that ``vllm serve --config FILE`` reads, with the place of every entry.

Reads YAML events instead of composing nodes, so that nesting and aliases in a hostile file cost nothing.
"""

from __future__ import annotations

import re
from typing import Any

from planner.record import NamedTuple

_MOST_EVENTS = 20_000
_DEEPEST = 20
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_INTEGER = re.compile(r"[-+]?\d[\d_]{0,30}")
_FLOAT = re.compile(r"[-+]?(?:\d[\d_]{0,30}\.[\d_]{0,30}|\.\d[\d_]{0,30})(?:[eE][-+]\d{1,4})?")


class ConfigFileError(ValueError):
    """The file cannot be read; the text says why."""


class Entry(NamedTuple):
    """One key of the file: plain value, and the character offsets of key and value in the text."""

    key: str
    value: Any
    key_offset: int
    value_offset: int


def read_entries(text: str) -> list[Entry]:
    """The top-level entries in file order. Raises ConfigFileError for what is no mapping or no YAML."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    entries: list[Entry] = []
    # One frame for each open collection: the container, and for mappings the key that waits for its value.
    frames: list[tuple[Any, list[str]]] = []
    key: tuple[str, int] | None = None
    started = 0
    count = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            count += 1
            mark = event.start_mark
            line, place = (mark.line + 1, mark.index) if mark else (0, 0)
            if count > _MOST_EVENTS:
                raise ConfigFileError("larger than planner reads")
            if isinstance(event, yaml.AliasEvent):
                raise ConfigFileError(f"line {line}: aliases are not read")
            if isinstance(event, yaml.DocumentEndEvent):
                break
            if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                if not frames and isinstance(event, yaml.SequenceStartEvent):
                    raise ConfigFileError("not a mapping of argument names to values")
                if len(frames) >= _DEEPEST:
                    raise ConfigFileError("nested too deeply")
                if len(frames) == 1 and key is None:
                    raise ConfigFileError(f"line {line}: an argument name must be a string")
                if len(frames) == 1:
                    started = place
                frames.append(({} if isinstance(event, yaml.MappingStartEvent) else [], []))
                continue
            if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                value, _ = frames.pop()
                if not frames:
                    break
                offset = started
            elif isinstance(event, yaml.ScalarEvent):
                if not frames:
                    if _scalar(event) is None:
                        break
                    raise ConfigFileError("not a mapping of argument names to values")
                container, waiting = frames[-1]
                if len(frames) == 1 and key is None:
                    key = (event.value, place)
                    continue
                if len(frames) > 1 and isinstance(container, dict) and not waiting:
                    waiting.append(event.value)
                    continue
                value, offset = _scalar(event), place
            else:
                continue
            if len(frames) == 1:
                if key is None:
                    raise ConfigFileError("an argument name must be a string")
                entries.append(Entry(key[0], value, key[1], offset))
                key = None
            else:
                container, waiting = frames[-1]
                if isinstance(container, list):
                    container.append(value)
                elif waiting:
                    container[waiting.pop()] = value
                else:
                    raise ConfigFileError("a key must be a string")
    except yaml.YAMLError as error:
        problem_mark = getattr(error, "problem_mark", None)
        where = f"line {problem_mark.line + 1}: " if problem_mark else ""
        raise ConfigFileError(f"{where}{getattr(error, 'problem', None) or 'not YAML'}") from None
    return entries


def _scalar(event: Any) -> str | int | float | bool | None:
    """A scalar as YAML 1.1 resolves it, near enough for argument values."""
    text: str = event.value
    if event.style or (event.tag and event.tag.endswith(":str")):
        return text
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    boolean = _BOOLEANS.get(text.lower())
    if boolean is not None:
        return boolean
    if _INTEGER.fullmatch(text) and not re.match(r"[-+]?0\d", text):
        return int(text.replace("_", ""))
    if _FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    return text
