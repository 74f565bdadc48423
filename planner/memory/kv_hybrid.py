"""Recurrent state as cache pages, and the block size that lets attention and state share one pool.

A state has a fixed size, whatever the length of the sequence. The engine makes the attention block so long that its page
holds one layer's state, and pads the state's page to it. Sources: vLLM ``model_executor/layers/mamba/mamba_utils.py``
(shapes), ``platforms/interface.py`` (0.20 and later) and ``model_executor/models/config.py`` (before).
"""

from __future__ import annotations

import math

from planner.memory.kv_specs import LayoutRefused, Spec, Version, element_bytes
from planner.models.architecture import RecurrentState, StateShape

#: the block that prefix caching uses for a Mamba-1 layer, which has no chunk of its own
_MAMBA1_CHUNK = 1024


def state_bytes(
    state: RecurrentState,
    *,
    tensor: int,
    model_dtype: str,
    cache_dtype: str = "auto",
    ssm_dtype: str = "auto",
    speculative_tokens: int = 0,
) -> int:
    """Bytes of one layer's state on one rank, all of its tensors.

    ``cache_dtype`` and ``ssm_dtype`` are ``--mamba-cache-dtype`` and ``--mamba-ssm-cache-dtype``. Raises
    ``LayoutRefused`` where tensor parallelism does not divide a dimension.
    """
    conv = model_dtype if cache_dtype in ("auto", "") else cache_dtype
    total = 0
    for part in state.states:
        if part.role == "ssm" and ssm_dtype not in ("auto", ""):
            dtype = ssm_dtype
        else:
            dtype = conv if part.dtype == "model" else part.dtype
        total += _elements(state, part, tensor, speculative_tokens) * element_bytes(dtype)
    return total


def _elements(state: RecurrentState, part: StateShape, tensor: int, speculative_tokens: int) -> int:
    """Elements of one state tensor on one rank."""
    shape = list(part.shape)
    if 0 <= part.lookahead_dim < len(shape):
        shape[part.lookahead_dim] += speculative_tokens
    if 0 <= part.shard_dim < len(shape) and tensor > 1:
        size = shape[part.shard_dim]
        if part.role == "conv" and state.kind == "mamba2" and state.groups and state.groups % tensor:
            if state.groups != 1:
                raise LayoutRefused(
                    f"{state.groups} state groups can neither be divided by tensor parallelism {tensor} nor copied"
                )
            # a single group is copied to every rank
            size += 2 * (tensor - state.groups) * state.group_state
        if size % tensor:
            raise LayoutRefused(f"a recurrent state dimension of {size} is not divisible by {tensor} ranks")
        shape[part.shard_dim] = size // tensor
    return math.prod(shape)


def state_block_counts(mode: str, speculative_tokens: int, version: Version) -> tuple[int, int]:
    """(fixed, extra) blocks that one request needs of a state group; fixed 0: one for every block of its tokens.

    ``mode`` is ``mamba_cache_mode``: ``none`` keeps the running state only, ``align`` the last two block boundaries,
    ``all`` (0.15 to 0.31) every one.
    """
    if version < (0, 12):
        return 1, 0
    if mode == "all":
        return 0, speculative_tokens if version >= (0, 24) else 0
    if mode == "align":
        return 2 + speculative_tokens, 0
    return 1 + speculative_tokens, 0


def aligned_block(
    *,
    state: int,
    token: int,
    block: int,
    user_block: bool,
    kernel_block: int,
    latent: bool,
    chunk: int,
    every_block: bool,
    capability: tuple[int, int] | None,
    head_dim: int,
    version: Version,
) -> int:
    """The block size (tokens) at which an attention page of ``token`` bytes per token holds a state of ``state`` bytes.

    ``block`` is the block size before (the user's or the backend's); from 0.20 on it is the granule, before that only a
    lower bound. ``every_block``: the state is kept at every block (mode ``all``), which rounds to the kernel's chunk.
    """
    if version >= (0, 20):
        granule = max(kernel_block, block)
        if latent and version >= (0, 27):
            granule = max(granule, 128)
    elif latent:
        granule = 64
    else:
        wide = capability is not None and capability[0] == 10 and head_dim == 256 and (0, 11, 1) <= version < (0, 18)
        granule = 32 if wide else 16
    if every_block:
        step = math.lcm(chunk or _MAMBA1_CHUNK, granule)
        tokens = -(-state // token)
        needed = step * -(-tokens // step)
    else:
        needed = granule * -(-state // (granule * token))
    if version >= (0, 30):
        needed = kernel_block * -(-needed // kernel_block)
    if version < (0, 20) and not user_block:
        return max(16, needed)
    return max(block, needed)


def state_spec(state: RecurrentState, size: int, page: int, block: int, fixed: int, extra: int) -> Spec:
    """The spec of one recurrent layer: ``size`` bytes of state in a page of ``page``, renewed every ``block`` tokens."""
    copied = all(part.shard_dim < 0 for part in state.states)
    return Spec("state", block, size, (state.kind, copied), padded=page, fixed=fixed, extra=extra)
