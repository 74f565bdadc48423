"""Since when the scheduler of vLLM has its own means of keeping a reserve (``reference/vllm-memory.md`` §9.3)."""

from __future__ import annotations

#: A waiting request is admitted only when its whole prompt fits, not only its first chunk.
FULL_INPUT_SINCE = (0, 19, 0)
#: ``--watermark``: a share of the blocks that stays free when a request comes in beside others.
WATERMARK_SINCE = (0, 24, 0)
