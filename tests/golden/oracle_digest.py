"""Makes ``oracle-digest.json``: ``python -m tests.golden.oracle_digest ROWS.jsonl…``.

The rows are further answers of vLLM's own planning code, asked with the oracle of ``shared/golden/oracle`` about models that
``engine.jsonl`` has not: the configs beside the oracle (``cases.py --gpu H100`` and ``B200``) and those of
``shared/reference/model-configs`` (as ``ref-ORG--NAME``, at one and two GPUs), each merged with its ``hf_quant_config.json``.
Kept are the facts of models that the catalog has too. A row whose answer the planner does not meet is not taken and is named.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.golden.engine_digest import FACTS
from tests.golden.engine_rows import arguments, ask, differences

OUTPUT = Path(__file__).with_name("oracle-digest.json")
#: The oracle's names of models and the catalog's.
CATALOG = {
    "deepseek-v3.2": "deepseek-ai/DeepSeek-V3.2",
    "deepseek-v4-flash": "deepseek-ai/DeepSeek-V4-Flash",
    "gemma-3-12b": "google/gemma-3-12b-it",
    "gemma-4-26b-a4b-nvfp4": "nvidia/Gemma-4-26B-A4B-NVFP4",
    "glm-5-fp8": "zai-org/GLM-5-FP8",
    "glm-5-nvfp4": "nvidia/GLM-5-NVFP4",
    "granite-4.0-h-tiny": "ibm-granite/granite-4.0-h-tiny",
    "kimi-k2": "moonshotai/Kimi-K2-Instruct",
    "kimi-k2.5": "moonshotai/Kimi-K2.5",
    "kimi-k2.5-nvfp4": "nvidia/Kimi-K2.5-NVFP4",
    "llama-3.1-405b": "meta-llama/Meta-Llama-3.1-405B",
    "llama-3.1-70b-fp8": "nvidia/Llama-3.1-70B-Instruct-FP8",
    "mimo-7b-base": "XiaomiMiMo/MiMo-7B-Base",
    "mimo-v2-flash": "XiaomiMiMo/MiMo-V2-Flash",
    "minimax-m2.5": "MiniMaxAI/MiniMax-M2.5",
    "minimax-m2.7": "MiniMaxAI/MiniMax-M2.7",
    "mistral-small-24b": "mistralai/Mistral-Small-24B-Instruct-2501",
    "mixtral-8x7b-v0.1": "mistralai/Mixtral-8x7B-v0.1",
    "nemotron-3-ultra-550b-a55b-bf16": "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16",
    "nemotron-h-56b-base-8k": "nvidia/Nemotron-H-56B-Base-8K",
    "phi-3-mini-4k": "microsoft/Phi-3-mini-4k-instruct",
    "qwen2.5-72b": "Qwen/Qwen2.5-72B-Instruct",
    "qwen2.5-7b": "Qwen/Qwen2.5-7B-Instruct",
    "qwen2.5-7b-awq": "Qwen/Qwen2.5-7B-Instruct-AWQ",
    "qwen3-235b-a22b-nvfp4": "nvidia/Qwen3-235B-A22B-NVFP4",
    "qwen3-32b": "Qwen/Qwen3-32B",
    "qwen3-coder-480b-a35b": "Qwen/Qwen3-Coder-480B-A35B-Instruct",
    "qwen3-vl-235b-a22b": "Qwen/Qwen3-VL-235B-A22B-Instruct",
    "qwen3-vl-30b-a3b": "Qwen/Qwen3-VL-30B-A3B-Instruct",
    "qwen3-vl-8b": "Qwen/Qwen3-VL-8B-Instruct",
    "qwen3.5-122b-a10b-nvfp4": "nvidia/Qwen3.5-122B-A10B-NVFP4",
    "qwen3.5-397b-a17b-nvfp4": "nvidia/Qwen3.5-397B-A17B-NVFP4",
    "qwen3.6-35b-a3b-nvfp4": "nvidia/Qwen3.6-35B-A3B-NVFP4",
}
_PLENTY = 1 << 45
#: What the engine says of a configuration, rather than of the machine it was asked on.
_REFUSALS = ("ValueError: To serve", "ValueError: No available", "ValueError: No valid", "ValueError: The output_size",
             "AssertionError: DeepseekV4")  # fmt: skip


def name_of(model: str) -> str | None:
    """The catalog's name of a model of the oracle; None where it has none."""
    if model.startswith("ref-"):
        return model[4:].replace("--", "/", 1)
    return CATALOG.get(model)


def main() -> None:
    """Reads the files of the arguments and writes the digest."""
    kept, missed = [], 0
    for path in sys.argv[1:]:
        for line in Path(path).read_text("utf-8").splitlines():
            row = {"flags": {}, "block_size_given": None, "max_model_len_given": None, **json.loads(line)}
            name = name_of(row["model"])
            if name is None or row["rank"] not in (0, None) or "/uneven" in row["id"]:
                continue
            if row.get("error") and (row["model"].startswith("ref-") or not row["error"].startswith(_REFUSALS)):
                continue  # code that has to be fetched, or libraries that are too new for the release or missing
            row["available_bytes"] = row.get("available_bytes") or _PLENTY
            plan = ask(name, row["gpu"], row["engine_version"], arguments(row), row["available_bytes"])
            off = differences(plan, row) if plan.model is not None else ["not in the catalog"]
            if off:
                missed += 1
                print(f"left out {row['id']}: {off[0]}"[:180], file=sys.stderr)
                continue
            kept.append(_facts(row, name))
    kept.sort(key=lambda row: (row["catalog"], row["id"]))
    head = {
        "made_by": "python -m tests.golden.oracle_digest ROWS.jsonl…",
        "source": "answers of vLLM 0.19.1, 0.24.0 and 0.32.0: config, attention backend, KV cache plan, weights on meta",
    }
    lines = ",\n".join("  " + json.dumps(row, sort_keys=True) for row in kept)
    OUTPUT.write_text(json.dumps(head, indent=1)[:-2] + ',\n "rows": [\n' + lines + "\n ]\n}\n", encoding="utf-8")
    print(f"{len(kept)} rows of {len({row['catalog'] for row in kept})} models, {missed} left out", file=sys.stderr)


def _facts(row: dict[str, Any], name: str) -> dict[str, Any]:
    facts = {key: row[key] for key in FACTS if row.get(key) is not None}
    facts.update(catalog=name, arguments=arguments(row))
    if row.get("error"):
        facts["error"] = row["error"].split(":")[0]
    return facts


if __name__ == "__main__":
    main()
