"""What TGI's settings add to those that all engines have."""

from __future__ import annotations

from planner.engines.config import EffectiveConfig
from planner.record import dataclass


@dataclass(frozen=True, eq=False)
class TGIConfig(EffectiveConfig):
    """``gpu_memory_utilization`` is cuda-memory-fraction × TGI_WIGGLE_ROOM, the share that blocks are sized by (up to 2.4
    cuda-memory-fraction alone, and ``margin_of_free`` is the margin on what is free beside the warm-up).

    ``memory_fraction``: what the process may take at all (cuda-memory-fraction). ``warmup_requests``, ``warmup_tokens``: the
    largest prefill batch, and the cache tokens that are allocated for it before anything is measured. ``prefill_logprobs``:
    whether the warm-up computes logits for every token of it.
    """

    memory_fraction: float = 1.0
    margin_of_free: float = 1.0
    warmup_requests: int = 1
    warmup_tokens: int = 0
    prefill_logprobs: bool = False
