"""863 answers of vLLM's own planning code (0.32.0, 0.24.0, 0.19.1): blocks, block size, pages, tokens, concurrency.

Made by ``shared/golden/oracle/kv_oracle.py`` and ``real_engine.py`` (commands in the README beside them). The rows come
from the oracle's use of the V2 runner's spec collection, so they are planned with ``runner="v2"``.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from planner.engines.config import EffectiveConfig
from planner.memory.budget import KVPlan
from planner.memory.kv_cache import LayoutRefused, admits, blocks_over_ranks, kv_plan, longest_of_plans, report
from planner.models.architecture import ModelArchitecture, UnknownModel
from tests.golden.engine_rows import NOT_LOGGED
from tests.memory.kv_architectures import of_config
from tests.memory.kv_rows import CAPABILITY, config_of_row

GOLDEN = Path(__file__).resolve().parents[2].parent / "shared" / "golden"

pytestmark = pytest.mark.skipif(not (GOLDEN / "engine.jsonl").is_file(), reason="golden data is not beside the project")

#: refusals that have nothing to do with the cache: the vocabulary is not divisible, a quantization group is cut
ELSEWHERE = {"phi-4/H100/tp5/kv-auto", "qwen2.5-72b-awq/H100/tp2/kv-auto/tp-not-aligned"}


def _rows() -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """The rows of each case, one per pipeline stage."""
    cases: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    with (GOLDEN / "engine.jsonl").open() as lines:
        for line in lines:
            row = json.loads(line)
            cases[(row["engine_version"], row["via"], row["id"])].append(row)
    return cases


def _config_json(row: dict[str, Any]) -> dict[str, Any]:
    if row["via"] == "engine":
        return dict(row["config"])
    return dict(json.loads((GOLDEN / "oracle" / "configs" / f"{row['model']}.json").read_text()))


def _stages(layers: int, pipeline: int) -> list[range]:
    """The split of 0.8 and later: the remainder goes to the last stages but one."""
    sizes = [layers // pipeline] * pipeline
    for stage in range(layers % pipeline):
        sizes[-2 - stage] += 1
    starts = [sum(sizes[:i]) for i in range(pipeline + 1)]
    return [range(starts[i], starts[i + 1]) for i in range(pipeline)]


def _differences(
    row: dict[str, Any], plans: list[KVPlan], available: list[int], config: EffectiveConfig
) -> dict[str, tuple[Any, Any]]:
    """Field → (ours, the engine's) where they differ."""
    stage = (row["rank"] or 0) // row["tp"]
    plan = plans[stage]
    override = config.num_gpu_blocks_override.value if config.num_gpu_blocks_override else None
    blocks = blocks_over_ranks(plans, available, config.version, override)
    tokens, concurrency = report(plan, blocks, config)
    automatic = row["max_model_len_given"] == -1

    def group(kind: str, block: int, page: int, layers: int) -> tuple[int, int, int]:
        # with --max-model-len auto a state's nominal block is still the length before it was fitted
        return (0 if automatic and kind in ("state", "MambaSpec") else block, page, layers)

    ours: dict[str, Any] = {
        "num_blocks": blocks,
        "block_size": plan.block_size,
        "groups": sorted(group(g.kind, g.block_size, g.page_bytes, g.layers) for g in plan.groups),
        "kv_tokens": tokens,
        "admitted": all(admits(p, a, config.version, override=override) for p, a in zip(plans, available, strict=True)),
    }
    theirs: dict[str, Any] = {
        "num_blocks": row["num_blocks"],
        "block_size": row["block_size"],
        "groups": sorted(group(g["type"], g["block_size"], g["page_size_bytes"], g["layers"]) for g in row["groups"]),
        "kv_tokens": row["kv_tokens"],
        "admitted": True,
    }
    if "bytes_per_block" in row:
        ours["bytes_per_block"], theirs["bytes_per_block"] = plan.bytes_per_block, row["bytes_per_block"]
    digits = 2 if "kv_tokens_from" in row else 9  # old versions are read off a log line
    ours["concurrency"], theirs["concurrency"] = round(concurrency, digits), round(row["max_concurrency"], digits)
    if automatic:
        ours["fitted_length"] = longest_of_plans(plans, available, config.version, 1 << 24)
        theirs["fitted_length"] = row["max_model_len"]
    unlogged = ("kv_tokens", "concurrency") if (row["engine_version"], row["id"]) in NOT_LOGGED else ()
    return {n: (ours[n], theirs[n]) for n in theirs if ours[n] != theirs[n] and n not in unlogged}


def _check(model: ModelArchitecture, row: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, tuple[Any, Any]]:
    config = config_of_row(row, model)
    stages = _stages(model.num_layers, row["pp"])
    several = len(rows) == row["pp"]
    available = [r.get("available_bytes") for r in rows] if several else [row.get("available_bytes")] * row["pp"]
    try:
        plans = [kv_plan(model, config, stage, CAPABILITY.get(row["gpu"]), part) for stage, part in enumerate(stages)]
    except LayoutRefused as refusal:
        return {} if "error" in row else {"refused": (refusal.reason, None)}
    if "error" not in row:
        return _differences(row, plans, [size or 0 for size in available], config)
    if row.get("available_bytes") is None:
        return {"refused": (None, row["error"][:80])}
    sizes = [size or 0 for size in available]
    if all(admits(plan, size, config.version) for plan, size in zip(plans, sizes, strict=True)):
        return {"refused": (None, row["error"][:80])}
    stated = re.search(r"estimated maximum model length is (\d+)", row["error"])
    expected = int(stated.group(1)) if stated else 0
    longest = longest_of_plans(plans, sizes, config.version, row["max_model_len"])
    return {} if longest == expected else {"longest": (longest, expected)}


def test_every_answer_of_the_engine() -> None:
    misses: list[str] = []
    fields: Counter[str] = Counter()
    total = 0
    for rows in _rows().values():
        for row in rows:
            total += 1
            differences = _check(of_config(_config_json(row), row["model"]), row, rows)
            if differences and row["id"] not in ELSEWHERE:
                fields.update(differences)
                misses.append(f"{row['engine_version']} {row['id']}: {differences}")
    assert total == 863
    assert not misses, f"{len(misses)} of {total}, {dict(fields)}:\n" + "\n".join(misses[:20])


def test_architectures_read_from_config_give_the_same_answers() -> None:
    config = pytest.importorskip("planner.models.config")
    known: Counter[bool] = Counter()
    misses: list[str] = []
    models: dict[str, ModelArchitecture | None] = {}
    for rows in _rows().values():
        for row in rows:
            name = row["id"] if row["via"] == "engine" else row["model"]
            if name not in models:
                raw = _config_json(row)
                try:
                    models[name] = config.architecture(raw, quant_config=raw.pop("_hf_quant_config", None), id=name)
                except UnknownModel:
                    models[name] = None
            model = models[name]
            known[model is not None] += 1
            if model is None or row["id"] in ELSEWHERE:
                continue
            differences = _check(model, row, rows)
            if differences:
                misses.append(f"{row['engine_version']} {row['id']}: {differences}")
    assert known[True] >= 100
    assert len(misses) <= 0.01 * known[True], f"{len(misses)} of {known[True]}:\n" + "\n".join(misses[:20])
