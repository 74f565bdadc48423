"""The budget of a TensorRT-LLM rank (PyTorch backend): a fraction of what is free after loading and a dummy run.

Source: ``KvCacheCreator`` of ``tensorrt_llm/_torch/pyexecutor/_util.py``; reference on SGLang's memory, 16. No start-up logs
stand behind the peak of the dummy run: its interval is wide, and a verdict is given where both ends agree.
"""

from __future__ import annotations

from planner.accelerators.accelerator import Accelerator
from planner.engines.trtllm_config import TRTConfig
from planner.estimate import Estimate, exactly
from planner.memory.block_pool import difference, fixed_terms, pooled
from planner.memory.budget import Input, MemoryBudget, Term
from planner.memory.sglang_weights import Groups, split
from planner.models.architecture import ModelArchitecture
from planner.record import replace


def trtllm_budget(
    model: ModelArchitecture,
    config: TRTConfig,
    accelerator: Accelerator,
    *,
    gpus_per_pod: int | None = None,
    kv_cache_memory: int | None = None,
    given: dict[str, Term] | None = None,
) -> MemoryBudget:
    """Every rank of one engine on one kind of accelerator."""
    fraction = config.gpu_memory_utilization
    local = None
    if config.attention_data:
        tensor, experts = config.parallel.tensor, min(config.expert_ranks, config.parallel.tensor)
        local = split(model, Groups(1, tensor, tensor, experts, max(1, tensor // experts), 0, tensor, tensor))
    # The dummy run fills max_num_tokens with prompts of the longest length; a full batch of rows is the far end.
    prompt = min(max(1, config.max_model_len.value), config.max_num_batched_tokens.value)
    prompts = -(-config.max_num_batched_tokens.value // max(1, prompt))
    rows = (prompts, prompts, max(prompts, min(config.max_num_seqs.value, 2048)))
    stages = []
    for stage in range(config.parallel.pipeline):
        terms = fixed_terms(model, config, accelerator, stage, local, rows=rows)
        terms.update({name: term for name, term in (given or {}).items() if name in terms})
        # Graphs are captured before the measurement, and again after it.
        terms["graphs"] = terms["graphs"]._replace(counted=True)
        names = ("baseline", "weights", "activations", "non_torch", "graphs")
        used = [terms[name].bytes for name in names]
        device = terms["device"].bytes
        free = difference(device, used)
        pool = Estimate(
            int(free.low * fraction.value),
            int(free.expected * fraction.value),
            int(free.high * fraction.value),
            "assumed",
        )
        formula = "(device − " + " − ".join(names) + ") × free-gpu-memory-fraction"
        if config.kv_cache_memory_bytes is not None:
            most = config.kv_cache_memory_bytes.value
            pool = Estimate(min(pool.low, most), min(pool.expected, most), min(pool.high, most), "assumed")
            formula = f"the smaller of {formula} and max_gpu_total_bytes"
        if kv_cache_memory is not None:
            pool, formula = exactly(kv_cache_memory, "given"), "given on the command line"
        idle = [getattr(free, bound) - getattr(pool, bound) for bound in ("low", "expected", "high")]
        if kv_cache_memory is not None:
            idle = [free.expected - kv_cache_memory] * 3
        before = terms["baseline"].bytes
        outside = Estimate(
            max(0, min(idle) + before.low), max(0, idle[1] + before.expected), max(0, *idle) + before.high, "assumed"
        )
        terms["requested"] = Term(
            "requested",
            Estimate(
                device.low - outside.high, device.expected - outside.expected, device.high - outside.low, "assumed"
            ),
            "weights, peak, graphs and the cache",
            (Input("free-gpu-memory-fraction", f"{fraction.value:g}", str(fraction.provenance)),),
        )
        terms["outside"] = Term(
            "outside", outside, "device − requested: the context, and what the fraction leaves free"
        )
        terms["kv_available"] = Term("kv_available", pool, formula)
        stages.append(terms)
    notes = ["the peak of the dummy run is assumed: no logs of this engine stand behind it"]
    found = pooled(
        model,
        config,
        stages,
        gpus_per_pod=gpus_per_pod,
        notes=tuple(notes),
        most_tokens=config.max_tokens,
        attention_ranks=1 if config.attention_data else None,
    )
    if config.unevaluated:
        return replace(found, capacity=None, verdict="unknown", notes=(*found.notes, config.unevaluated))
    return found
