"""What torch's caching allocator holds for the tensors of a model: whole segments, of which some ends stay unused.

SGLang prints the memory of loading as a difference of free device memory, so that it counts segments, not tensors. Source:
``c10/cuda/CUDACachingAllocator.cpp``; public start-up logs bear the result out to 0.3 %.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from planner.units import MIB, round_up

#: Tensors up to this size share small segments, all others large ones.
_SMALL = MIB
_SMALL_SEGMENT, _LARGE_SEGMENT = 2 * MIB, 20 * MIB
#: Tensors from this size on have a segment of their own, in steps.
_OWN, _STEP = 10 * MIB, 2 * MIB
_GRAIN = 512


class Segments:
    """Segments as tensors are allocated one after the other, none of them freed. ``held``: bytes of all segments;
    ``used``: bytes of the tensors."""

    def __init__(self) -> None:
        self.held = 0
        self.used = 0
        self._small: list[int] = []
        self._large: list[int] = []

    def take(self, sizes: Iterable[int]) -> None:
        """Allocate tensors of these sizes in bytes, each from the smallest free block that holds it."""
        for size in sizes:
            if size <= 0:
                continue
            self.used += size
            rounded = round_up(size, _GRAIN)
            small = rounded <= _SMALL
            free = self._small if small else self._large
            place = bisect_left(free, rounded)
            if place < len(free):
                block = free.pop(place)
            else:
                block = _SMALL_SEGMENT if small else _LARGE_SEGMENT if rounded < _OWN else round_up(rounded, _STEP)
                self.held += block
            rest = block - rounded
            if rest >= _GRAIN if small else rest > _SMALL:
                insort(free, rest)

    @property
    def spare(self) -> int:
        """Bytes of segments that no tensor takes."""
        return self.held - self.used
