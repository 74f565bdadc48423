"""Which batch sizes SGLang captures as CUDA graphs.

Source: ``cuda_graph_runner.get_batch_sizes_to_capture`` up to 0.5.2, then ``ServerArgs`` and
``arg_groups/cuda_graph_hook.py``; reference on SGLang's memory, 4.2.
"""

from __future__ import annotations

Version = tuple[int, ...]

#: Sizes beyond these are typing errors; the bound keeps lists small.
_LARGEST_BATCH = 8192
_LARGEST_PREFILL = 1 << 18


def decode_sizes(version: Version, largest: int, *, speculation: bool, padding: bool = True) -> tuple[int, ...]:
    """Batches of decode graphs up to ``largest``, in order."""
    largest = min(largest, _LARGEST_BATCH)
    if largest <= 0:
        return ()
    if not padding:
        sizes = range(1, largest + 1)
        return tuple(sizes)
    if version < (0, 5, 3):
        found = _before_0_5_3(version, speculation) + list(range(160, 257, 8)) + list(range(256, largest + 1, 16))
    elif speculation:
        found = [*range(1, 9), *range(10, 33, 2), *range(40, 65, 4), *range(72, 257, 8), *range(272, largest + 1, 16)]
    else:
        found = [1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 512, 16), *range(512, largest + 1, 32)]
    kept = {size for size in found if size <= largest}
    if version >= (0, 5, 10) or not kept:
        kept.add(largest)
    return tuple(sorted(kept))


def _before_0_5_3(version: Version, speculation: bool) -> list[int]:
    if speculation:
        tail = range(40, 161, 16) if version < (0, 4, 8) else [*range(40, 64, 8), *range(80, 161, 16)]
        return [*range(1, 9), *range(10, 33, 2), *tail]
    return [1, 2, 4, 8, *range(16, 161, 8)]


def prefill_sizes(largest: int, version: Version = (0, 5, 23)) -> tuple[int, ...]:
    """Token counts of prefill graphs up to ``largest``."""
    largest = min(largest, _LARGEST_PREFILL)
    found = [*range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32)]
    if version < (0, 5, 8):
        found += [*range(640, 4097, 128), *range(4352, largest + 1, 256)]
    else:
        first = 640 if version < (0, 5, 9) else 576
        found += [*range(first, 1025, 64), *range(1280, 4097, 256), *range(4608, largest + 1, 512)]
    return tuple(size for size in found if size <= largest)
