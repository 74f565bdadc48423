"""What SGLang's settings add to those that all engines have."""

from __future__ import annotations

from planner.engines.config import EffectiveConfig
from planner.record import dataclass


@dataclass(frozen=True, eq=False)
class SGLangConfig(EffectiveConfig):
    """The settings of an SGLang start that decide memory, after defaults.

    The shared fields hold SGLang's own settings of the same meaning: ``gpu_memory_utilization`` is mem-fraction-static,
    ``max_num_seqs`` max-running-requests, ``max_num_batched_tokens`` the prefill chunk (or max-prefill-tokens where
    chunking is off), ``block_size`` the page size, ``max_model_len`` the context length, ``capture_sizes`` the decode graphs.

    ``attention_data``: groups of ranks for data-parallel attention (they add no GPUs); ``attention_context``: ranks that split
    the prompt; ``expert_ranks``: expert parallel size; ``dense_tensor``: moe-dense-tp-size (0: as the tensor size);
    ``head_data``: whether the LM head is split over the attention group only; ``shared_replicated``: whether shared experts
    are whole on every rank.
    """

    attention_data: int = 1
    attention_context: int = 1
    expert_ranks: int = 1
    dense_tensor: int = 0
    head_data: bool = False
    shared_replicated: bool = False
    redundant_experts: int = 0
    expert_runner: str = "auto"
    """--moe-runner-backend."""
    driver_mib: int = 0
    """MiB that the driver tool reports for a device; 0 where it is not known."""
    chunk: int = 0
    """Tokens of one prefill chunk on one rank; -1: chunking is off."""
    requests_given: int | None = None
    """--max-running-requests as given (undivided), or what speculation sets in its place."""
    max_total_tokens: int | None = None
    prefill_graph_sizes: tuple[int, ...] = ()
    window_pool: bool = False
    """Whether sliding-window layers have a pool of their own."""
    window_ratio: float = 0.8
    window_ratio_given: bool = False
    state_slots: int | None = None
    """--max-mamba-cache-size."""
    state_ratio: float = 0.9
    state_dtype: str = "float32"
    conv_dtype: str = "bfloat16"
    slots_per_request: int = 1
    """State slots that a running request needs."""
    state_strategy: str = ""
    """What the prefix cache does with recurrent states; empty without either."""
    draft_steps: int = 0
    draft_topk: int = 0
    draft_tokens: int = 0
    """Tokens that one verification step looks at."""
    role: str = ""
    """``prefill`` or ``decode`` where the two are separate servers."""
    index_dtype: str = "bfloat16"
    """Element type of the keys that an indexer beside keys and values keeps (MiniMax-M3, Qwen4-Exp)."""
    request_workspace: int = 0
    """Bytes of attention work space for each request that the scheduler may run (AITER's ragged paged attention)."""
    host_tables: bool = True
    """Whether embedding tables that may stay in the host's memory do (Qwen4-Exp's n-grams)."""
    raw_sparse_rows: bool = False
    """Whether an FP8 cache of sparse attention has plain rows, without scales and 16-bit rotary parts."""
    multimodal_reserve: int = 0
    """Bytes taken out of the pool for multimodal features."""
    prealloc: int = 0
    """Bytes of symmetric memory set aside before the pool is sized."""
    kv_disabled: bool = False
    """Prefill only, without any cache."""
    older: tuple[SGLangConfig, ...] = ()
    """The same start under older releases, where nothing states the release: what they would make of it."""
