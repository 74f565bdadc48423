"""The environment variables that releases read. Data: ``schemas/engines/ENGINE_variables.json``."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from planner.data import engine_table
from planner.engines.version import parse_version
from planner.record import NamedTuple

#: Engines that have a table.
ENGINES = ("vllm", "sglang")


class Variable(NamedTuple):
    """A variable as a release has it. ``read``: whether it reads it; ``until``: the release that stopped reading it before
    this one; ``since``: the next release after it that reads it; ``instead``: the flag that does its work now."""

    name: str
    read: bool
    until: str
    since: str
    instead: str


@lru_cache(maxsize=2)
def _document(engine: str) -> dict[str, Any]:
    with open(engine_table(f"{engine}_variables"), encoding="utf-8") as file:
        document: dict[str, Any] = json.load(file)
    return document


def variable(engine: str, name: str, version: tuple[int, ...]) -> Variable | None:
    """A variable by name; None where no release of the engine reads it. Variables that the package reads outside of the
    module that declares them count as read by every release."""
    document = _document(engine)
    if name in document.get("elsewhere", ()):
        return Variable(name, True, "", "", "")
    ranges = document["variables"].get(name)
    if ranges is None:
        return None
    until = ""
    for entry in ranges:
        if "since" in entry and parse_version(entry["since"]) > version:
            return Variable(name, False, until, "" if until else entry["since"], document["renamed"].get(name, ""))
        until = entry.get("until", "")
        if not until or version < parse_version(until):
            return Variable(name, True, "", "", "")
    return Variable(name, False, until, "", document["renamed"].get(name, ""))


@lru_cache(maxsize=8)
def first_release(engine: str) -> tuple[int, ...]:
    """The oldest release whose variables are known: one before it reads what nobody knows."""
    document = _document(engine)
    for release in document["releases"]:
        place = parse_version(release)
        if any(_read_in(ranges, place) for ranges in document["variables"].values()):
            return place
    return ()


def _read_in(ranges: list[dict[str, Any]], place: tuple[int, ...]) -> bool:
    return any(
        ("since" not in entry or parse_version(entry["since"]) <= place)
        and ("until" not in entry or place < parse_version(entry["until"]))
        for entry in ranges
    )


def names(engine: str) -> tuple[str, ...]:
    """Every variable that any release of the engine reads."""
    return tuple(_document(engine)["variables"])
