"""The arguments that each SGLang release takes. Data: ``catalog/engines/sglang_flags.json``."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from typing import Any

from planner.engines.vllm_flag_table import FlagTable

_FILE = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "catalog", "engines", "sglang_flags.json"
)


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    with open(_FILE, encoding="utf-8") as file:
        document: dict[str, Any] = json.load(file)
    return document


@lru_cache(maxsize=64)
def flag_table(version: tuple[int, ...]) -> FlagTable:
    """The table of a release; a version between two releases that were read has that of the older one."""
    return FlagTable(version, _document())
