"""The quantization methods of vLLM's releases. Data: ``schemas/engines/vllm_quantization.json``."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from planner.data import engine_table
from planner.engines.version import parse_version
from planner.record import NamedTuple


class Method(NamedTuple):
    """A method as a release has it. ``active``: whether it has it at all; ``until`` the release that removed it, empty where
    it is there or never was. ``capability``: ten times CUDA's major plus the minor number that it needs, 0 for none.
    ``deprecated``: refused without ``--allow-deprecated-quantization``."""

    name: str
    active: bool
    until: str
    capability: int
    deprecated: bool


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    with open(engine_table("vllm_quantization"), encoding="utf-8") as file:
        document: dict[str, Any] = json.load(file)
    return document


def method(name: str, version: tuple[int, ...]) -> Method | None:
    """A method by the engine's name for it; None where no release has it. A release that was not read has the methods of
    the one before it."""
    variants = _document()["methods"].get(name)
    if variants is None:
        return None
    chosen, active, until = variants[0], False, ""
    for variant in variants:
        if "since" in variant and parse_version(variant["since"]) > version:
            break
        chosen = variant
        active = "until" not in variant or version < parse_version(variant["until"])
        until = "" if active else variant["until"]
    return Method(name, active, until, chosen.get("capability", 0), bool(chosen.get("deprecated")))
