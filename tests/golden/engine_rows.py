"""Answers of vLLM's own planning code (one row each) as questions to ``planner.plan``, and where the two differ.

A row says model, device, release, arguments and the bytes available for the cache; the engine's answer is blocks, block size,
bytes of a block, tokens and concurrency as it prints them, and the bytes of weights on a rank, or why it refuses.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from planner.engines.vllm import parse_argv
from planner.memory.budget import RankBudget
from planner.plan import Plan, complete
from planner.provenance import Fact, Provenance
from planner.settings import Settings

#: The oracle's names of devices and the catalog's.
DEVICES = {
    "H100": "H100-80GB",
    "H200": "H200",
    "B200": "B200",
    "A100": "A100-80GB",
    "L40S": "L40S",
    "RTXPRO6000": "RTX-PRO-6000",
}
#: What a rank may weigh beside the engine's figure, by whether the checkpoint is quantized.
WEIGHTS_WITHIN = {False: 0.001, True: 0.005}
#: Rows whose tokens and concurrency the engine keeps for itself but does not log: with pages of several sizes side by side,
#: 0.24 to 0.26 log what the workers' groups say (``get_kv_cache_configs``), and keep what one layer of each group says
#: (``generate_scheduler_kv_cache_config``), which is a twelfth here. Public logs have the former: see
#: ``tests/memory/test_printed_tokens.py``.
NOT_LOGGED = {("0.24.0", "deepseek-v4-pro/H100/tp8/kv-fp8")}
_OPTION = Provenance("option", "test")
_OWN_FIELDS = ("kv_cache_dtype", "block_size", "tensor_parallel_size", "enable_expert_parallel")


class Difference(NamedTuple):
    """One figure in which the planner differs from the engine."""

    figure: str
    engine: Any
    planner: Any


def arguments(row: dict[str, Any]) -> list[str]:
    """The engine's command line of a row."""
    words: list[str] = []
    for flag, value in (("-tp", row["tp"]), ("-pp", row["pp"]), ("-dp", row["dp"]), ("-dcp", row["dcp"])):
        if value > 1:
            words += [flag, str(value)]
    if row["ep"]:
        words.append("--enable-expert-parallel")
    if row["kv_cache_dtype"] != "auto":
        words += ["--kv-cache-dtype", row["kv_cache_dtype"]]
    if row["block_size_given"]:
        words += ["--block-size", str(row["block_size_given"])]
    flags = dict(row["flags"])
    if row["max_model_len_given"]:
        flags["max_model_len"] = row["max_model_len_given"]
    if "/mbt" in row["id"]:
        flags["max_num_batched_tokens"] = row["max_num_batched_tokens"]
    for name, value in flags.items():
        if name in _OWN_FIELDS:
            continue
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            words.append(flag if value else "--no-" + flag[2:])
        else:
            words += [flag, json.dumps(value) if isinstance(value, (dict, list)) else str(value)]
    return words


def ask(model: str, device: str, release: str, words: list[str], available: int) -> Plan:
    """The plan of one question; ``model`` is a hub id or the path of a config.json, ``available`` bytes of each rank."""
    engine = parse_argv(words, version=Fact(release, _OPTION), model=Fact(model, _OPTION))
    settings = Settings(accelerator=DEVICES[device])
    # A name may mean several forms of a product, which differ in nothing that is asked here.
    return next(complete(Plan(engine=engine), settings, {}, kv_cache_memory=available, allow_local=True))


def rank_of(plan: Plan, row: dict[str, Any]) -> RankBudget:
    """The planner's budget of the row's rank: rows of pipelines number stages, or ranks of one stage after the other."""
    assert plan.budget is not None
    stage = 0
    if row["pp"] > 1:
        stage = row["rank"] // row["tp"] if row["rank"] >= row["pp"] else row["rank"]
        return next(rank for rank in plan.budget.ranks if rank.pipeline_rank == stage)
    return next(rank for rank in plan.budget.ranks if rank.rank == row["rank"])


def differences(plan: Plan, row: dict[str, Any]) -> list[Difference]:
    """Where a plan differs from a row. A refusal is met by any verdict but ``fits`` or by no budget at all."""
    if row.get("error"):
        return [] if plan.verdict == "does-not-fit" else [Difference("refused", row["error"], plan.verdict)]
    if plan.budget is None or plan.budget.capacity is None or not plan.budget.ranks:
        return [Difference("planned", "a plan", [gap.reason for gap in plan.unknown])]
    rank = rank_of(plan, row)
    assert rank.kv is not None
    assert rank.num_blocks is not None
    capacity = plan.budget.capacity
    figures = {
        "num_blocks": rank.num_blocks.expected,
        "block_size": rank.kv.block_size,
        "bytes_per_block": rank.kv.bytes_per_block,
        "kv_tokens": capacity.kv_tokens.expected,
    }
    logged = (row["engine_version"], row["id"]) not in NOT_LOGGED
    if not logged:
        del figures["kv_tokens"]
    if isinstance(row.get("page_size_bytes"), int):
        figures["page_size_bytes"] = rank.kv.page_bytes
    found = [
        Difference(name, row[name], value)
        for name, value in figures.items()
        if row.get(name) is not None and row[name] != value
    ]
    if row.get("max_concurrency") and logged:
        # Releases before 0.28 print two decimals, and the row holds what was printed.
        printed, value = row["max_concurrency"], capacity.max_concurrency[1]
        rounded = round(printed, 2) == printed and abs(round(value, 2) - printed) < 0.0051
        if not rounded and abs(value - printed) > 1e-6 * printed:
            found.append(Difference("max_concurrency", printed, value))
    weights = row.get("weight_bytes_rank")
    if weights:
        assert plan.model is not None
        value = rank.bytes("weights").expected
        if abs(value - weights) > WEIGHTS_WITHIN[plan.model.quantization is not None] * weights:
            found.append(Difference("weight_bytes_rank", weights, value))
    return found
