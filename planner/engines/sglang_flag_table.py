"""The arguments that each SGLang release takes. Data: ``schemas/engines/sglang_flags.json``."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from planner.data import engine_table
from planner.engines.vllm_flag_table import FlagTable


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    with open(engine_table("sglang_flags"), encoding="utf-8") as file:
        document: dict[str, Any] = json.load(file)
    return document


@lru_cache(maxsize=64)
def flag_table(version: tuple[int, ...]) -> FlagTable:
    """The table of a release; a version between two releases that were read has that of the older one."""
    return FlagTable(version, _document())
