"""Since which release an engine has an architecture of its own: a model cannot have started with an earlier one.

The tables are ``schemas/engines/{vllm,sglang}_architectures.json``, made by
``python -m planner.catalog.engines.architectures``.
"""

from __future__ import annotations

import json
from functools import cache

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


@cache
def _table(engine: str) -> dict[str, list[str]]:
    with open(engine_table(f"{engine}_architectures"), encoding="utf-8") as file:
        table: dict[str, list[str]] = json.load(file)["architectures"]
    return table
