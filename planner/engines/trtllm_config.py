"""What TensorRT-LLM's settings add to those that all engines have."""

from __future__ import annotations

from planner.engines.config import EffectiveConfig
from planner.record import dataclass


@dataclass(frozen=True)
class TRTConfig(EffectiveConfig):
    """``gpu_memory_utilization`` is the fraction of the memory that is free after loading and the dummy run.

    ``expert_ranks``: ranks that share whole experts; ``max_tokens``: kv_cache_config.max_tokens, the smaller of it and what
    the fraction gives wins.
    """

    attention_data: bool = False
    """Whether every rank runs the attention of its own requests (enable_attention_dp)."""
    expert_ranks: int = 1
    max_tokens: int | None = None
    unevaluated: str = ""
    """Why the memory cannot be worked out (another backend, options that change what is loaded); empty where it can."""
