"""How a request's blocks grow with its tokens, group by group: what the scheduler grants, what admission asks for.

A group of full attention takes a block whenever its tokens fill one. A sliding window gives back what it has left behind,
so that its blocks stop growing. Recurrent states never grow. Sources: vLLM ``v1/core/single_type_kv_cache_manager.py``
(``get_num_blocks_to_allocate``, ``remove_skipped_blocks``) and ``v1/core/kv_cache_manager.py`` (``allocate_slots``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planner.memory.budget import KVGroup, KVPlan
from planner.record import NamedTuple


class Growth(NamedTuple):
    """One kind of block table; ``copies`` groups behave alike.

    ``block_size``: tokens of a request in one block. ``keep``: -1 where every token stays; else a request that computes n
    tokens in one step never holds more than ``ceil((keep + n) / block_size) + slack`` blocks. ``fixed`` blocks are all
    that a request ever holds (0: they grow), ``extra`` come on top. ``admission_tokens`` and ``admission_extra``: the
    bound that the engine's own check counts with (0: every token). ``shared``: whether a common prefix is kept once.
    """

    block_size: int
    keep: int = -1
    slack: int = 0
    extra: int = 0
    fixed: int = 0
    admission_tokens: int = 0
    admission_extra: int = 0
    shared: bool = True
    copies: int = 1

    def cap(self, new_tokens: int = 1) -> int:
        """The most blocks of a request that computes ``new_tokens`` in a step; 0 where nothing bounds them."""
        if self.keep < 0:
            return 0
        return -(-(self.keep + new_tokens) // self.block_size) + self.slack

    def blocks(self, slots: int, new_tokens: int = 1) -> int:
        """Blocks of one request with ``slots`` tokens, ``new_tokens`` of them from this step (one copy)."""
        if self.fixed:
            return self.fixed
        needed = -(-slots // self.block_size)
        if self.keep >= 0:
            needed = min(needed, self.cap(new_tokens))
        return needed + self.extra

    def admission_blocks(self, tokens: int) -> int:
        """Blocks that the engine asks for before it lets in a request of ``tokens`` (one copy)."""
        if self.fixed:
            return self.fixed
        if self.admission_tokens:
            tokens = min(tokens, self.admission_tokens)
        return -(-tokens // self.block_size) + self.admission_extra


def growth_of_group(group: KVGroup) -> Growth:
    """The growth of one group of a layout."""
    size = group.block_size * group.shards
    if group.kind == "cross" and group.window:
        # what an encoder's output takes, which is less than what the engine counts for it at the start
        return Growth(size, fixed=-(-group.window // size), shared=False)
    if group.fixed_blocks:
        return Growth(size, fixed=group.fixed_blocks, shared=False)
    admission = {"admission_tokens": group.held_tokens * group.shards, "admission_extra": group.extra_blocks}
    if group.kind in ("window", "window_latent") and group.window:
        # The oldest token of the window can be the last one of its block: one block more than the tokens fill.
        return Growth(size, keep=group.window - 2, slack=1, shared=False, **admission)
    if group.kind == "chunked" and group.window:
        return Growth(size, keep=group.window - 1, shared=False, **admission)
    shared = group.kind in ("full", "latent")
    return Growth(size, extra=group.extra_blocks, shared=shared, **admission)


def growths(plan: KVPlan) -> tuple[Growth, ...]:
    """The growth of all groups of a layout, equal ones put together."""
    return merged(growth_of_group(group) for group in plan.groups)


def merged(kinds: Iterable[Growth]) -> tuple[Growth, ...]:
    """Equal growths once, with the sum of their copies, in the order of their first."""
    copies: dict[Growth, int] = {}
    for kind in kinds:
        single = kind._replace(copies=1)
        copies[single] = copies.get(single, 0) + kind.copies
    return tuple(kind._replace(copies=count) for kind, count in copies.items())


def blocks_of(kinds: Sequence[Growth], slots: int, new_tokens: int = 1) -> int:
    """Blocks of one request with ``slots`` tokens over all groups, ``new_tokens`` of them from this step."""
    return sum(kind.copies * kind.blocks(slots, new_tokens) for kind in kinds)


def admission_blocks_of(kinds: Sequence[Growth], tokens: int) -> int:
    """Blocks over all groups that the engine asks for before it lets in a request of ``tokens``."""
    return sum(kind.copies * kind.admission_blocks(tokens) for kind in kinds)


def shared_blocks_of(kinds: Sequence[Growth], tokens: int) -> int:
    """Whole blocks of a common prefix of ``tokens`` that all its requests use together."""
    return sum(kind.copies * (tokens // kind.block_size) for kind in kinds if kind.shared)
