"""Facts of the engine start: flags, how it is written, effective settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.facts.places import is_gap
from planner.provenance import Position

if TYPE_CHECKING:
    from planner.engines.config import EngineConfig
    from planner.plan import Plan


#: What the engines call the longest request.
_LENGTH_FLAGS = ("max-model-len", "context-length", "max-total-tokens", "max-seq-len")

#: What the engines call the settings that messages speak of; ``data`` is the other way to use more GPUs, where there is one.
_SETTINGS = ("share", "batch", "sequences", "length", "tensor", "data", "pipeline", "eager")
_WORDS = {
    "vllm": (
        "gpu-memory-utilization", "max-num-batched-tokens", "max-num-seqs", "max-model-len", "tensor-parallel-size",
        " (or --data-parallel-size)", "pipeline-parallel-size", "enforce-eager",
    ),
    "sglang": (
        "mem-fraction-static", "chunked-prefill-size", "max-running-requests", "context-length", "tensor-parallel-size",
        " (or --data-parallel-size)", "pipeline-parallel-size", "disable-cuda-graph",
    ),
    "tgi": (
        "cuda-memory-fraction", "max-batch-prefill-tokens", "max-concurrent-requests", "max-total-tokens", "num-shard",
        "", "num-shard", "cuda-graphs 0",
    ),
    "trtllm": (
        "kv_cache_free_gpu_memory_fraction", "max_num_tokens", "max_batch_size", "max_seq_len", "tp_size", "",
        "pp_size", "extra_llm_api_options (cuda_graph_config: null)",
    ),
}  # fmt: skip


def engine_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    engine = plan.engine
    facts: dict[str, Any] = {
        "name": engine.engine,
        "version": engine.version.value,
        "version_assumed": engine.version_assumed,
        "platform": engine.platform,
        "lists": _lists(plan),
        "words": dict(zip(_SETTINGS, _WORDS.get(engine.engine, _WORDS["vllm"]), strict=True)),
        "flags": {
            name: flag.value if flag.known and flag.value is not None else "" for name, flag in engine.flags.items()
        },
        "env": {name: fact.value for name, fact in engine.env.items()},
    }
    for name, flag in engine.flags.items():
        place = flag.value_position or flag.position
        if place is not None:
            positions[f"engine.flags.{name}"] = place
        if flag.position is not None:
            positions[f"engine.flag.{name}"] = flag.position
    if engine.model is not None and engine.model.position:
        positions["engine.model"] = engine.model.position
    line = engine.command_line
    if line is not None:
        facts["shell"] = line.shell
        facts["unexpanded"] = []
        for word, variable, reason in line.unexpanded:
            if word.position:
                positions[f"engine.unexpanded[{len(facts['unexpanded'])}]"] = word.position
            facts["unexpanded"].append({"word": word.text, "variable": variable, "reason": reason})
        facts["whole_in_one"] = line.whole_in_one is not None
        if line.whole_in_one is not None:
            facts["whole_in_one_text"] = line.whole_in_one.text
            if line.whole_in_one.position:
                positions["engine.whole_in_one"] = line.whole_in_one.position
    config = plan.effective
    if config is None:
        return facts
    facts.update(
        {
            name: fact.value
            for name, fact in (
                ("dtype", config.dtype),
                ("kv_cache_dtype", config.kv_cache_dtype),
                ("max_model_len", config.max_model_len),
                ("max_num_seqs", config.max_num_seqs),
                ("max_num_batched_tokens", config.max_num_batched_tokens),
                ("gpu_memory_utilization", config.gpu_memory_utilization),
                ("enforce_eager", config.enforce_eager),
            )
            if fact is not None and not is_gap(plan, f"engine.{name}")
        }
    )
    fitted = plan.budget.fitted_length if plan.budget else None
    if fitted is not None and "max_model_len" in facts:
        # Told "auto", the engine takes the longest length that fits; it never refuses for its sake.
        facts["max_model_len"] = fitted.low
    facts["derived_max_model_len"] = config.derived_max_model_len
    # An engine that fits the length to its cache is as safe as one that somebody has told.
    facts["max_model_len_given"] = any(name in engine.flags for name in _LENGTH_FLAGS) or fitted is not None
    facts["max_model_len_allowed"] = _longer_allowed(plan.engine)
    facts["max_model_len_flag"] = next(
        (f"--{name}" for name in _LENGTH_FLAGS if name in engine.flags), "--max-model-len"
    )
    # An explicit 16-bit type is taken at its word; "auto" falls back to float16 where bfloat16 is missing.
    facts["dtype_auto_refused"] = config.version < (0, 7) and config.dtype.value == "bfloat16"
    facts["dtype_given"] = "dtype" in engine.flags
    return facts


def _longer_allowed(engine: EngineConfig) -> bool:
    """Whether the engine takes a length beyond the model's with a warning at most: where a flag rewrites the model's config, or
    a variable says so (``config/model.py`` of vLLM, ``configs/model_config.py`` of SGLang, which asked for none from 0.4.4 to
    0.4.10)."""
    if {"hf-overrides", "rope-scaling", "json-model-override-args"} & engine.flags.keys():
        return True
    if engine.engine == "sglang":
        switch = engine.env.get("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN")
        if switch is None:
            return (0, 4, 4) <= engine.version_key < (0, 5, 1)
        return switch.value.strip().lower() in ("1", "true", "yes", "y", "on", "t")
    switch = engine.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN")
    return switch is not None and switch.value.strip() not in ("", "0")


def _lists(plan: Plan) -> str:
    """Where the flags of the release are listed, as a sentence after a space; empty for engines without such tables."""
    engine = plan.engine
    if engine.engine not in ("vllm", "sglang"):
        return ""
    return f" planner catalog engines {engine.engine} {engine.version.value} lists what the release has."
