"""Makes ``engine-digest.json``: ``python -m tests.golden.engine_digest ../shared/golden``.

Takes answers of vLLM's own planning code for models of the catalog, a few of each model so that every device, release and
kind of argument occurs, and keeps the facts alone. A row whose answer the planner does not meet is not taken and is named.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.golden.engine_rows import arguments, ask, differences

OUTPUT = Path(__file__).with_name("engine-digest.json")
#: The oracle's names of models and the catalog's.
CATALOG = {
    "deepseek-v2-lite": "deepseek-ai/DeepSeek-V2-Lite",
    "deepseek-v3.1-nvfp4": "nvidia/DeepSeek-V3.1-NVFP4",
    "deepseek-v3": "deepseek-ai/DeepSeek-V3",
    "deepseek-v4-flash-nvfp4": "nvidia/DeepSeek-V4-Flash-NVFP4",
    "deepseek-v4-pro": "deepseek-ai/DeepSeek-V4-Pro",
    "falcon-h1-7b": "tiiuae/Falcon-H1-7B-Instruct",
    "gemma-2-9b": "google/gemma-2-9b-it",
    "gemma-3-27b": "google/gemma-3-27b-it",
    "gemma-4-26b-a4b": "google/gemma-4-26B-A4B-it",
    "glm-4.5-air": "zai-org/GLM-4.5-Air",
    "glm-5.1-fp8": "zai-org/GLM-5.1-FP8",
    "glm-5.2-fp8": "zai-org/GLM-5.2-FP8",
    "gpt-oss-120b": "openai/gpt-oss-120b",
    "gpt-oss-20b": "openai/gpt-oss-20b",
    "granite-4.0-h-small": "ibm-granite/granite-4.0-h-small",
    "jamba-v0.1": "ai21labs/Jamba-v0.1",
    "kimi-k3": "moonshotai/Kimi-K3",
    "llama-3.1-70b": "meta-llama/Llama-3.1-70B-Instruct",
    "llama-3.1-8b": "meta-llama/Llama-3.1-8B-Instruct",
    "llama-3.1-8b-w4a16": "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16",
    "llama-3.1-8b-w8a8": "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8",
    "llama-3.2-1b": "meta-llama/Llama-3.2-1B-Instruct",
    "llama-4-scout-17b-16e": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "mistral-7b-v0.1": "mistralai/Mistral-7B-v0.1",
    "mistral-7b-v0.3": "mistralai/Mistral-7B-Instruct-v0.3",
    "mixtral-8x22b-v0.1": "mistralai/Mixtral-8x22B-v0.1",
    "nemotron-nano-9b-v2": "nvidia/NVIDIA-Nemotron-Nano-9B-v2",
    "phi-4": "microsoft/phi-4",
    "qwen2.5-72b-awq": "Qwen/Qwen2.5-72B-Instruct-AWQ",
    "qwen2.5-vl-7b": "Qwen/Qwen2.5-VL-7B-Instruct",
    "qwen3-0.6b": "Qwen/Qwen3-0.6B",
    "qwen3-235b-a22b": "Qwen/Qwen3-235B-A22B",
    "qwen3-30b-a3b": "Qwen/Qwen3-30B-A3B",
    "qwen3-30b-a3b-fp8": "Qwen/Qwen3-30B-A3B-FP8",
    "qwen3-32b-fp8": "Qwen/Qwen3-32B-FP8",
    "qwen3-next-80b-a3b": "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "qwen3.5-27b": "Qwen/Qwen3.5-27B",
}
FACTS = (
    "id", "engine_version", "gpu", "tp", "pp", "rank", "available_bytes", "num_blocks", "block_size", "bytes_per_block",
    "page_size_bytes", "kv_tokens", "max_concurrency", "weight_bytes_rank",
)  # fmt: skip
_PLENTY = 1 << 45
_EACH_MODEL, _ALL = 2, 72


def kind(row: dict[str, Any]) -> tuple[Any, ...]:
    """What a row adds to the digest."""
    return (row["engine_version"], row["gpu"], row["id"].split("/", 2)[2], bool(row.get("error")))


def chosen(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the digest: rarer arguments, devices and releases first, at most a few of each model."""
    taken: list[dict[str, Any]] = []
    per_model: dict[str, int] = {}
    seen: dict[Any, int] = {}
    pool = [row for row in rows if row["model"] in CATALOG and row["via"] == "function" and row["rank"] == 0]
    while pool and len(taken) < _ALL:
        pool.sort(
            key=lambda row: (
                per_model.get(row["model"], 0),
                not row.get("error"),
                sum(seen.get(part, 0) for part in kind(row)),
                row["id"],
                row["engine_version"],
            )
        )
        row = pool.pop(0)
        if per_model.get(row["model"], 0) >= _EACH_MODEL:
            break
        row = {**row, "available_bytes": row.get("available_bytes") or _PLENTY}
        plan = ask(CATALOG[row["model"]], row["gpu"], row["engine_version"], arguments(row), row["available_bytes"])
        missed = differences(plan, row) if plan.model is not None else ["not in the catalog"]
        if missed:
            print(f"left out {row['engine_version']} {row['id']}: {missed[0]}"[:160], file=sys.stderr)
            continue
        taken.append(row)
        per_model[row["model"]] = per_model.get(row["model"], 0) + 1
        for part in kind(row):
            seen[part] = seen.get(part, 0) + 1
    return taken


def main() -> None:
    """Reads ``engine.jsonl`` in the folder of the first argument and writes the digest."""
    source = Path(sys.argv[1]) / "engine.jsonl"
    rows = chosen([json.loads(line) for line in source.read_text("utf-8").splitlines()])
    kept = []
    for row in rows:
        facts = {name: row[name] for name in FACTS if row.get(name) is not None}
        facts["catalog"] = CATALOG[row["model"]]
        facts["arguments"] = arguments(row)
        if row.get("error"):
            facts["error"] = row["error"].split(":")[0]
        kept.append(facts)
    kept.sort(key=lambda row: (row["catalog"], row["engine_version"], row["id"]))
    head = {
        "made_by": "python -m tests.golden.engine_digest ../shared/golden",
        "source": "answers of vLLM 0.19.1, 0.24.0 and 0.32.0: config, attention backend choice and KV cache planning",
    }
    lines = ",\n".join("  " + json.dumps(row, sort_keys=True) for row in kept)
    OUTPUT.write_text(json.dumps(head, indent=1)[:-2] + ',\n "rows": [\n' + lines + "\n ]\n}\n", encoding="utf-8")
    print(f"{len(kept)} rows, {len({row['catalog'] for row in kept})} models")


if __name__ == "__main__":
    main()
