"""Since which release vLLM has an architecture of its own: a model cannot have started with an earlier one.

The table is ``schemas/engines/vllm_architectures.json``, made by ``python -m planner.catalog.engines.architectures``.
"""

from __future__ import annotations

import json
from functools import lru_cache

from planner.data import engine_table
from planner.engines.version import parse_version


def supported_since(architecture: str) -> tuple[int, ...] | None:
    """The first release (from 0.6.0 on) whose registry names the architecture; None for one that no release names."""
    since = _table().get(architecture)
    return parse_version(since[0]) if since else None


def supported_until(architecture: str) -> tuple[int, ...] | None:
    """The last release whose registry names the architecture, None where the newest still does or none ever did."""
    since = _table().get(architecture)
    return parse_version(since[1]) if since and len(since) > 1 else None


@lru_cache(maxsize=1)
def _table() -> dict[str, list[str]]:
    with open(engine_table("vllm_architectures"), encoding="utf-8") as file:
        table: dict[str, list[str]] = json.load(file)["architectures"]
    return table
