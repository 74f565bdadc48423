"""The budget of a TGI shard: a share of the device's total, of which the warm-up takes weights and peak, and blocks the rest.

Source: ``FlashCausalLM.warmup`` and ``get_free_memory`` of 3.3.7; reference on SGLang's memory, 15. Intervals are wide: no
start-up logs stand behind them.
"""

from __future__ import annotations

from planner.accelerators.accelerator import Accelerator
from planner.engines.config import EffectiveConfig
from planner.estimate import between, exactly
from planner.memory.block_pool import difference, fixed_terms, pooled
from planner.memory.budget import Input, MemoryBudget, Term
from planner.models.architecture import ModelArchitecture


def tgi_budget(
    model: ModelArchitecture,
    config: EffectiveConfig,
    accelerator: Accelerator,
    *,
    gpus_per_pod: int | None = None,
    kv_cache_memory: int | None = None,
    given: dict[str, Term] | None = None,
) -> MemoryBudget:
    """Every shard of one engine on one kind of accelerator; the cache is what is left of the share after the warm-up."""
    terms = fixed_terms(model, config, accelerator, 0)
    terms.update({name: term for name, term in (given or {}).items() if name in terms})
    utilization = config.gpu_memory_utilization
    device = terms["device"].bytes
    requested = device.times(utilization.value)
    outside = between(
        device.low - requested.low, device.expected - requested.expected, device.high - requested.high, device.basis
    )
    terms["requested"] = Term(
        "requested",
        requested,
        "device × cuda-memory-fraction × TGI_WIGGLE_ROOM",
        (Input("share", f"{utilization.value:g}", str(utilization.provenance)),),
    )
    terms["outside"] = Term("outside", outside, "device − requested: graphs, and what grows while serving")
    names = ("baseline", "weights", "activations", "non_torch")
    left = difference(requested, [terms[name].bytes for name in names])
    terms["kv_available"] = Term(
        "kv_available",
        exactly(kv_cache_memory, "given") if kv_cache_memory is not None else left,
        "given on the command line" if kv_cache_memory is not None else "requested − " + " − ".join(names),
    )
    return pooled(
        model,
        config,
        [terms],
        gpus_per_pod=gpus_per_pod,
        notes=("the peak of the warm-up is assumed: no logs of this engine stand behind it",),
    )
