"""Weight bytes against the engine's own figures (shared/golden/engine.jsonl), where the folder is there."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from planner.accelerators.accelerator import Accelerator
from planner.engines.config import Parallelism
from planner.estimate import Estimate
from planner.memory.weights import rank_weights
from planner.models.architecture import ModelArchitecture
from planner.models.config import architecture

GOLDEN = Path(__file__).resolve().parents[2].parent / "shared" / "golden"
CAPABILITY = {"H100": (9, 0), "H200": (9, 0), "B200": (10, 0), "A100": (8, 0), "L40S": (8, 9), "RTXPRO6000": (12, 0)}
#: Rows that cannot be reached, with the reason: model → (versions, why).
OUT_OF_REACH = {
    "qwen2.5-72b-gptq-int8": "before 0.32 the engine reads the quantized modules off the weight files, which the oracle lacks",
    "qwen2.5-7b-gptq-int4": "the same",
    "qwen3-30b-a3b-gptq-int4": "the same; in 0.32 the oracle could not finish loading, so order tables are still counted",
    "deepseek-v2-lite": "a workspace of 128 MiB that only the first model of the oracle's process allocates",
    "deepseek-v3": "dp 16: the oracle could not finish loading, so the absorbed matrices are missing",
    "glm-5.2-nvfp4": "the oracle could not finish loading on B200; workspaces of the first model in its process",
}
pytestmark = pytest.mark.skipif(not (GOLDEN / "engine.jsonl").is_file(), reason="shared/golden is not there")


@cache
def model(name: str) -> ModelArchitecture:
    return architecture(json.loads((GOLDEN / "oracle" / "configs" / f"{name}.json").read_text()), id=name)


@cache
def rows() -> tuple[dict[str, Any], ...]:
    lines = (GOLDEN / "engine.jsonl").read_text().splitlines()
    return tuple(row for row in map(json.loads, lines) if row.get("weight_bytes_rank"))


def deviation(row: dict[str, Any]) -> float:
    device = Accelerator(row["gpu"], "nvidia", Estimate(0, 0, 0), CAPABILITY[row["gpu"]], "")
    term = rank_weights(
        model(row["model"]),
        Parallelism(row["tp"], row["pp"], row["dp"], expert=row["ep"], context=row["dcp"]),
        row["rank"] % row["tp"],
        row["rank"] // row["tp"],
        engine_version=tuple(map(int, row["engine_version"].split("."))),
        dtype=row["dtype"],
        accelerator=device,
        expert_rank=row["rank"] % row["tp"],
        max_num_batched_tokens=row["max_num_batched_tokens"],
    )
    return term.bytes.expected / row["weight_bytes_rank"] - 1


def test_weight_bytes_of_every_row() -> None:
    missed: dict[str, list[str]] = {}
    for row in rows():
        limit = 0.005 if model(row["model"]).quantization else 0.001
        if abs(off := deviation(row)) > limit:
            where = f"{row['engine_version']} {row['gpu']} tp{row['tp']} pp{row['pp']} dp{row['dp']}: {off:+.3%}"
            missed.setdefault(row["model"], []).append(where)
    count = sum(map(len, missed.values()))
    assert len(rows()) > 800
    assert count <= 0.02 * len(rows()), missed
    assert set(missed) <= set(OUT_OF_REACH), missed


def test_parameter_counts_are_equal() -> None:
    checked = set()
    for row in rows():
        counted = row["n_params"]
        if not isinstance(counted, int) or row["gpu"] == "B200":  # there the oracle counts expert padding too
            continue
        if row["model"] == "gemma-3n-e4b-text" and row["engine_version"] != "0.32.0":
            continue  # older engines hold unused projections in the layers that share caches
        assert model(row["model"]).parameters == counted, row["model"]
        checked.add(row["model"])
    assert len(checked) > 45
