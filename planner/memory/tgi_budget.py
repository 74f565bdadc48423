"""The budget of a TGI shard: a share of the device's total, of which the warm-up takes weights and peak, and blocks the rest.

The warm-up allocates the cache of its own batch first and counts it to the blocks, so that a start fails only where that
batch does not fit on the device; the share decides how many blocks come on top. Graphs that do not fit are left out.
Source: ``FlashCausalLM.warmup``, ``get_free_memory`` and the router's ``warmup`` of 3.3.7; reference on SGLang's memory, 15.
No start-up logs stand behind the peak of the warm-up: its interval is wide, and a verdict is given where both ends agree.
"""

from __future__ import annotations

from planner.accelerators.accelerator import Accelerator
from planner.engines.tgi_config import TGIConfig
from planner.estimate import Estimate, exactly
from planner.memory.block_pool import difference, fixed_terms, pooled, token_bytes
from planner.memory.budget import Input, MemoryBudget, Term
from planner.models.architecture import ModelArchitecture
from planner.units import format_bytes


def tgi_budget(
    model: ModelArchitecture,
    config: TGIConfig,
    accelerator: Accelerator,
    *,
    gpus_per_pod: int | None = None,
    kv_cache_memory: int | None = None,
    given: dict[str, Term] | None = None,
) -> MemoryBudget:
    """Every shard of one engine on one kind of accelerator; the cache is what is left of the share after the warm-up, or the
    warm-up's own where that is more. A negative cache says by how much the warm-up does not fit on the device."""
    requests = config.warmup_requests
    rows = (requests, requests, requests)
    if config.prefill_logprobs:
        tokens = config.max_num_batched_tokens.value
        rows = (tokens, tokens, tokens)
    terms = fixed_terms(model, config, accelerator, 0, rows=rows)
    terms.update({name: term for name, term in (given or {}).items() if name in terms})
    cell, _, _ = token_bytes(model, config.parallel.tensor, config.kv_cache_dtype.value, range(model.num_layers))
    batch = config.warmup_tokens * cell
    utilization, whole = config.gpu_memory_utilization, config.memory_fraction
    device = terms["device"].bytes
    share = device.times(utilization.value)
    # The margin binds the blocks alone: the process may take the whole fraction.
    requested = Estimate(share.low, share.expected, int(device.high * whole), device.basis)
    terms["requested"] = Term(
        "requested",
        requested,
        "device × cuda-memory-fraction × TGI_WIGGLE_ROOM; at most device × cuda-memory-fraction",
        (Input("share", f"{utilization.value:g}", str(utilization.provenance)),),
    )
    terms["outside"] = Term(
        "outside",
        Estimate(
            max(0, device.low - share.low), device.expected - share.expected, device.high - share.low, device.basis
        ),
        "device − requested: graphs, and what grows while serving",
    )
    names = ("baseline", "weights", "activations", "non_torch")
    used = [terms[name].bytes for name in names]
    if kv_cache_memory is not None:
        terms["kv_available"] = Term("kv_available", exactly(kv_cache_memory, "given"), "given on the command line")
    else:
        left = difference(share, used)
        room = difference(device.times(whole), [*used, exactly(batch, "derived")])
        if config.margin_of_free < 1:
            left = room.times(config.margin_of_free).plus(exactly(batch, "derived"))
        sizes = [
            max(batch, getattr(left, bound)) if getattr(room, bound) >= 0 else getattr(room, bound)
            for bound in ("low", "expected", "high")
        ]
        terms["kv_available"] = Term(
            "kv_available",
            Estimate(sizes[0], sizes[1], sizes[2], "assumed"),
            "share − " + " − ".join(names) + ", at least the warm-up batch; below zero: what that batch lacks",
            (
                Input(
                    "warm-up batch",
                    f"{config.warmup_tokens:,} tokens, {format_bytes(batch)}",
                    f"{requests:,} prompts of max-batch-prefill-tokens, with max-total-tokens where that is given",
                ),
            ),
        )
    return pooled(
        model,
        config,
        [terms],
        gpus_per_pod=gpus_per_pod,
        notes=("the peak of the warm-up is assumed: no logs of this engine stand behind it",),
    )
