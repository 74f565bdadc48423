"""SGLang's start-up logs against the plan: every record of the log corpus that states what a figure needs.

The scoring tool asks for records that name a GPU, eight of them. Weights and tokens of a printed pool don't hang on the GPU, and
where a log prints the memory that was free before loading, that is the device: more records can be held against the plan so.
Command lines are the scoring tool's own, with the settings that a record states without dashes.
"""

from __future__ import annotations

import importlib.util
import json
import re
import statistics
from functools import cache
from typing import Any

import pytest

from planner.accelerators.accelerator import Accelerator
from planner.accelerators.catalog import candidates
from planner.engines.sglang import NEWEST_SGLANG, parse_argv
from planner.engines.sglang_defaults import effective
from planner.estimate import exactly
from planner.memory.budget import MemoryBudget, Term
from planner.memory.sglang_budget import sglang_budget
from planner.models.architecture import ModelArchitecture, UnknownModel
from planner.models.resolve import resolve
from planner.provenance import assumed
from planner.record import replace
from planner.units import GIB
from tests.conftest import SHARED

LOGS = SHARED / "corpus" / "logs" / "sglang.jsonl"
TOOL = SHARED / "tools" / "score_logs.py"
#: Settings of a record that are written as words, without dashes: the tool passes none of them.
_WORDS = ("mem-fraction-static", "cuda-graph-max-bs", "page-size", "quantization")

pytestmark = pytest.mark.skipif(not (LOGS.exists() and TOOL.exists()), reason="the corpus is not at hand")


@cache
def _tool() -> Any:
    spec = importlib.util.spec_from_file_location("score_logs", TOOL)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def _model(name: str | None) -> ModelArchitecture | None:
    try:
        return resolve(name).architecture if name else None
    except UnknownModel:
        return None


def _records() -> list[dict[str, Any]]:
    found = [_tool().printed(json.loads(line)) for line in LOGS.read_text().splitlines() if line.strip()]
    return [record for record in found if _model(record.get("model"))]


def _budget(record: dict[str, Any], accelerator: Accelerator, **options: Any) -> MemoryBudget:
    of = _model(record["model"])
    assert of is not None
    words = _tool().arguments({**record, "gpu": accelerator.name})
    words = words[words.index("--") + 1 :]
    flags = record.get("flags")
    if isinstance(flags, str) and "--" not in flags:
        for name in _WORDS:
            stated = re.search(name.replace("-", "[-_]") + r"[ =](\w[\w.]*)", flags)
            words += [f"--{name}", stated[1]] if stated else []
    release = re.match(
        r"[\d.]+\d(?:\.?post\d+)?", str(record.get("engine_version") or record.get("nearest_release_by_fields"))
    )
    config = parse_argv(
        words,
        version=assumed(release[0] if release else NEWEST_SGLANG, "record"),
        model=assumed(record["model"], "record"),
    )
    gpus = (record.get("tp") or 1) * (record.get("pp") or 1)
    return sglang_budget(of, effective(config, of, accelerator, gpus), accelerator, gpus_per_pod=gpus, **options)


def _device(record: dict[str, Any]) -> Accelerator:
    """Any device where the record names none: neither weights nor tokens of a given pool hang on it."""
    return candidates(record.get("gpu") or "H200")[0]


def _error(planned: float, printed: float) -> float:
    return abs(planned / printed - 1)


def _names_its_checkpoint(record: dict[str, Any]) -> bool:
    """Not so where a record of a 16-bit checkpoint states a quantization that only another checkpoint has."""
    of = _model(record["model"])
    return of is not None and not (record.get("quantization") == "modelopt_fp4" and not of.quantization)


def test_weights() -> None:
    errors = {
        record["id"]: _error(
            _budget(record, _device(record)).ranks[0].bytes("weights").expected, record["weights_gib"] * GIB
        )
        for record in _records()
        if record.get("weights_gib") and _names_its_checkpoint(record)
    }
    assert len(errors) >= 8
    assert statistics.median(errors.values()) < 0.015, errors


def test_tokens_of_printed_pools() -> None:
    """From the size of the pool that the log prints, to the rounding of two decimals."""
    errors = {}
    for record in _records():
        if record.get("kv_available_gib") and record.get("kv_tokens"):
            found = _budget(record, _device(record), kv_cache_memory=int(record["kv_available_gib"] * GIB)).capacity
            assert found is not None
            errors[record["id"]] = _error(found.kv_tokens.expected, record["kv_tokens"])
    assert len(errors) >= 7
    assert sum(error < 0.01 for error in errors.values()) >= 0.9 * len(errors), errors
    assert statistics.median(errors.values()) < 0.001, errors


def test_tokens_end_to_end() -> None:
    """From the command line and the device, or the memory that was free before loading where that is printed."""
    errors = {}
    for record in _records():
        if not record.get("kv_tokens"):
            continue
        free, options = _free(record), {}
        accelerator = _device(record)
        if free and not record.get("gpu"):
            accelerator = replace(accelerator, memory=exactly(int(free * GIB), "given"))
            options["given"] = {"baseline": Term("baseline", exactly(0, "given"), "not in the memory given")}
        elif not record.get("gpu"):
            continue
        found = _budget(record, accelerator, **options).capacity
        assert found is not None
        errors[record["id"]] = _error(found.kv_tokens.expected, record["kv_tokens"])
    assert len(errors) >= 9
    assert statistics.median(errors.values()) < 0.05, errors


def _free(record: dict[str, Any]) -> float | None:
    """GiB that were free before the weights were loaded."""
    before, after, weights = (record.get(key) for key in ("avail_before_load_gb", "avail_after_load_gb", "weights_gib"))
    if before or not after:
        return before
    if weights is None:
        weights = _budget(record, _device(record)).ranks[0].bytes("weights").expected / GIB
    return float(after + weights)
