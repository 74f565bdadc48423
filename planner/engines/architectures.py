"""Since which release an engine has an architecture of its own: a model cannot have started with an earlier one.

The tables are ``schemas/engines/{vllm,sglang}_architectures.json``, made by
``python -m planner.catalog.engines.architectures``.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from planner.data import engine_table
from planner.engines.version import parse_version


def supported_since(engine: str, architecture: str) -> tuple[int, ...] | None:
    """The first release of the table that has the architecture; None for one that no release has."""
    since = _table(engine).get(architecture)
    return parse_version(since[0]) if since else None


def supported_until(engine: str, architecture: str) -> tuple[int, ...] | None:
    """The last release that has the architecture, None where the newest still does or none ever did."""
    since = _table(engine).get(architecture)
    return parse_version(since[1]) if since and len(since) > 1 else None


def stages_since(engine: str, architecture: str, version: tuple[int, ...]) -> str | None:
    """The release from which on an architecture can be split over pipeline stages, where this one cannot: empty where
    none can yet, None where this one can or is not in the table."""
    table = _file(engine)
    bounds = table["one_stage"].get(architecture, ())
    for first, last in zip(bounds[::2], [*bounds[1::2], table["releases"][-1]], strict=False):
        if parse_version(first) <= version <= parse_version(last):
            until = supported_until(engine, architecture)
            later = [] if parse_version(last) == until else table["releases"][table["releases"].index(last) + 1 :]
            return later[0] if later else ""
    return None


def _table(engine: str) -> dict[str, list[str]]:
    table: dict[str, list[str]] = _file(engine)["architectures"]
    return table


@cache
def _file(engine: str) -> dict[str, Any]:
    with open(engine_table(f"{engine}_architectures"), encoding="utf-8") as file:
        table: dict[str, Any] = json.load(file)
    return table
