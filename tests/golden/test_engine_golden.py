"""The whole way from a command line to blocks and weights, against answers of vLLM's own planning code.

All answers where ``shared/golden`` stands beside the project; a digest of them, over catalog models, everywhere.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from planner.plan import Plan
from tests.golden.engine_rows import Difference, ask, differences
from tests.golden.engine_rows import arguments as arguments_of

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parents[1].parent / "shared" / "golden"
DIGEST = json.loads((HERE / "engine-digest.json").read_text("utf-8"))
MORE = json.loads((HERE / "oracle-digest.json").read_text("utf-8"))["rows"]
#: Bytes for rows of a refusal that names none: enough for anything, so that the planner must refuse for the same reason.
_PLENTY = 1 << 45
_LAYOUT = ("num_blocks", "block_size", "bytes_per_block", "page_size_bytes", "kv_tokens", "max_concurrency")


@cache
def _missed() -> tuple[int, int, list[tuple[dict[str, Any], Difference]]]:
    """(rows with a plan, refusals, what differs)."""
    cases: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in (GOLDEN / "engine.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        if row["via"] != "engine":  # tiny models on the CPU platform, whose memory is not planned
            cases.setdefault((row["engine_version"], row["id"]), []).append(row)
    found: list[tuple[dict[str, Any], Difference]] = []
    for rows in cases.values():
        plan = _plan(rows)
        for row in rows:
            found += [(row, difference) for difference in differences(plan, row)]
    refused = sum(bool(row.get("error")) for rows in cases.values() for row in rows)
    return sum(map(len, cases.values())) - refused, refused, found


def _plan(rows: list[dict[str, Any]]) -> Plan:
    """The plan of one case. Where its stages have unequal memory, the memory of the stage that decides is given."""
    config = GOLDEN / "oracle" / "configs" / f"{rows[0]['model']}.json"
    words = arguments_of(rows[0])
    sizes = sorted({row.get("available_bytes") or _PLENTY for row in rows})
    plans = [ask(str(config), rows[0]["gpu"], rows[0]["engine_version"], words, size) for size in sizes]
    wanted = rows[0].get("num_blocks")
    for plan in plans[1:]:
        count = plan.budget.ranks[0].num_blocks if plan.budget and plan.budget.ranks else None
        if count is not None and count.expected == wanted:
            return plan
    return plans[0]


@pytest.mark.skipif(not (GOLDEN / "engine.jsonl").is_file(), reason="shared/golden is not there")
def test_every_answer_of_the_engine() -> None:
    planned, refused, missed = _missed()
    assert planned > 700
    assert refused > 50
    counts = Counter(difference.figure for _, difference in missed)
    told = [(row["engine_version"], row["id"], row["rank"], *difference) for row, difference in missed]
    assert not counts["planned"], [each for each in told if each[3] == "planned"]
    assert not counts["refused"], [each for each in told if each[3] == "refused"]
    for figure in _LAYOUT:
        assert counts[figure] <= 0.01 * planned, [each for each in told if each[3] == figure]
    assert counts["weight_bytes_rank"] <= 0.02 * planned, [each for each in told if each[3] == "weight_bytes_rank"]


@pytest.mark.parametrize("row", DIGEST["rows"], ids=lambda row: f"{row['engine_version']}-{row['id']}")
def test_digest(row: dict[str, Any]) -> None:
    plan = ask(row["catalog"], row["gpu"], row["engine_version"], row["arguments"], row["available_bytes"])
    assert plan.model is not None, plan.unknown
    assert differences(plan, row) == []


@pytest.mark.parametrize("name", sorted({row["catalog"] for row in MORE}))
def test_further_answers(name: str) -> None:
    for row in MORE:
        if row["catalog"] == name:
            plan = ask(name, row["gpu"], row["engine_version"], row["arguments"], row["available_bytes"])
            assert differences(plan, row) == [], row["id"]


def test_the_digest_covers_what_differs() -> None:
    rows = DIGEST["rows"]
    assert 50 <= len(rows) <= 90
    assert {row["engine_version"] for row in rows} == {"0.19.1", "0.24.0", "0.32.0"}
    assert {row["gpu"] for row in rows} == {"H100", "H200", "B200", "A100", "L40S", "RTXPRO6000"}
    assert sum("error" in row for row in rows) >= 4
    assert len({row["catalog"] for row in rows}) >= 25
    assert "engine_digest" in DIGEST["made_by"]
