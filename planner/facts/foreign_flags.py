"""Flags that belong to another inference engine, and what this one calls the same thing."""

from __future__ import annotations

from planner.facts.flag_tables import TITLES, table_of
from planner.record import NamedTuple

#: Setting → what each engine calls it, without dashes. Only settings that mean the same.
_SAME: tuple[dict[str, str], ...] = (
    {"vllm": "model", "sglang": "model-path", "tgi": "model-id", "trtllm": "model", "llama.cpp": "model"},
    {"vllm": "tensor-parallel-size", "sglang": "tp-size", "tgi": "num-shard", "trtllm": "tp-size"},
    {"vllm": "pipeline-parallel-size", "sglang": "pp-size", "trtllm": "pp-size"},
    {"vllm": "data-parallel-size", "sglang": "dp-size"},
    {"vllm": "max-model-len", "sglang": "context-length", "tgi": "max-total-tokens", "trtllm": "max-seq-len",
     "llama.cpp": "ctx-size"},
    {"vllm": "gpu-memory-utilization", "sglang": "mem-fraction-static", "tgi": "cuda-memory-fraction",
     "trtllm": "kv-cache-free-gpu-memory-fraction"},
    {"vllm": "max-num-seqs", "sglang": "max-running-requests", "tgi": "max-concurrent-requests",
     "trtllm": "max-batch-size", "llama.cpp": "parallel"},
    {"vllm": "max-num-batched-tokens", "sglang": "chunked-prefill-size", "tgi": "max-batch-prefill-tokens",
     "trtllm": "max-num-tokens"},
    {"vllm": "quantization", "sglang": "quantization", "tgi": "quantize"},
    {"vllm": "enforce-eager", "sglang": "disable-cuda-graph"},
    {"vllm": "host", "sglang": "host", "tgi": "hostname", "trtllm": "host", "llama.cpp": "host"},
    {"vllm": "tokenizer", "sglang": "tokenizer-path", "trtllm": "tokenizer"},
    {"vllm": "served-model-name", "sglang": "served-model-name", "llama.cpp": "alias"},
    {"vllm": "kv-cache-memory-bytes", "sglang": "max-total-tokens"},
    {"vllm": "seed", "sglang": "random-seed", "llama.cpp": "seed"},
    {"vllm": "uvicorn-log-level", "sglang": "log-level", "trtllm": "log-level"},
    {"vllm": "no-enable-prefix-caching", "sglang": "disable-radix-cache"},
    {"vllm": "enable-auto-tool-choice"},
)  # fmt: skip
#: What an engine does without being told.
_ALWAYS = {
    ("vllm", "enable-metrics"): "vLLM serves /metrics always",
    ("vllm", "metrics"): "vLLM serves /metrics always",
}
#: Arguments of llama.cpp's server, which has no table.
_LLAMA_CPP = frozenset(
    [
        "--n-gpu-layers",
        "-ngl",
        "--gpu-layers",
        "--ctx-size",
        "--batch-size",
        "--ubatch-size",
        "--threads",
        "--threads-batch",
        "--n-predict",
        "--flash-attn",
        "--mlock",
        "--no-mmap",
        "--cont-batching",
        "--parallel",
        "--tensor-split",
        "--main-gpu",
        "--split-mode",
        "--hf-repo",
        "--hf-file",
        "--jinja",
        "--cache-type-k",
        "--cache-type-v",
        "--slots",
        "--metrics",
        "--mmproj",
        "--rope-freq-base",
        "--n-cpu-moe",
        "--defrag-thold",
    ]
)
_ORDER = ("vllm", "sglang", "tgi", "trtllm")


class Foreign(NamedTuple):
    """Whose flag it is (``owner``), and what to do (``advice``)."""

    owner: str
    advice: str


def foreign(engine: str, spelling: str) -> Foreign | None:
    """Whose flag a spelling is that ``engine`` has in no release; None where no engine is known to have it."""
    for other in _ORDER:
        if other == engine:
            continue
        table = table_of(other, (10**6,))
        option = None
        if table is not None:
            option = table.options.get(spelling) or table.inactive.get(spelling)
        if option is not None:
            names = (option.spec.name, *(alias.lstrip("-") for alias in option.spec.aliases))
            return Foreign(TITLES[other], _advice(engine, other, names))
    if engine != "llama.cpp" and spelling in _LLAMA_CPP:
        return Foreign(TITLES["llama.cpp"], _advice(engine, "llama.cpp", (spelling.lstrip("-"),)))
    return None


def _advice(engine: str, other: str, names: tuple[str, ...]) -> str:
    title = TITLES.get(engine, engine)
    for name in names:
        if (engine, name) in _ALWAYS:
            return f"Remove it: {_ALWAYS[engine, name]}"
        for setting in _SAME:
            if setting.get(other) == name and engine in setting:
                return f"{title} calls it --{setting[engine]}"
    return "Remove it"
