"""The cache of DeepSeek-V4: a sliding window, compressed keys and values, an indexer, and the compressors' state.

Every layer keeps a window of packed latents. A layer with compression 4 or 128 also keeps one latent per 4 or 128
tokens, and the float32 state of its compressor as a short window; compression 4 has an indexer with a compressor of its
own. Pages of different sizes lie side by side in one block. Sources: vLLM ``models/deepseek_v4`` and the packed groups of
``v1/core/kv_cache_utils.py`` (0.32), and their predecessors in 0.24.
"""

from __future__ import annotations

from planner.memory.kv_groups import Group, Layers
from planner.memory.kv_specs import Spec, Version
from planner.models.architecture import LatentAttention

BLOCK = 256
_WINDOW_BLOCK = 64
_PACKED_TOKEN = 584  # 448 FP8 + 64 rotary elements of 2 bytes + 8 scales
_PACKED_ALIGN = 576
_PLAIN_ALIGN = 512
_INDEXER_SCALE = 4
#: compression ratio → (tokens per page of compressor state, states per window)
_COMPRESSORS = {4: (4, 2), 128: (8, 1)}


def compressed_specs(attention: LatentAttention, *, packed: bool, block: int = BLOCK) -> tuple[Spec, ...]:
    """The specs of one layer, in the order in which the engine registers them. ``packed``: the FP8 layout of 584 bytes
    per latent (the default), otherwise plain 16-bit latents."""
    head = attention.kv_lora_rank + attention.rope_dim
    align = _PACKED_ALIGN if packed else _PLAIN_ALIGN
    row = _PACKED_TOKEN if packed else 2 * head
    specs = [Spec("window_latent", _WINDOW_BLOCK, row, ("window", head), reach=attention.window, align=align)]
    ratio = attention.compress_ratio
    if ratio not in _COMPRESSORS:
        return tuple(specs)
    tokens, states = _COMPRESSORS[ratio]

    def compressor(width: int, name: str) -> Spec:
        row = 2 * states * width * 4
        return Spec("window_latent", tokens, row, ("compressor", name), reach=states * ratio, align=align)

    if attention.indexer_dim:
        key = attention.indexer_dim + _INDEXER_SCALE
        specs.append(Spec("latent", block, key, ("indexer",), ratio=ratio, align=align))
        specs.append(compressor(attention.indexer_dim, "indexer"))
    specs.append(Spec("latent", block, row, ("compressed", head), ratio=ratio, align=align))
    specs.append(compressor(head, "latent"))
    return tuple(specs)


def packed_groups(layers: Layers, version: Version) -> tuple[Group, ...]:
    """Groups of layers whose pages are packed side by side; every group covers as many repeats of a layer pattern.

    Recurrent states and rings are split further rather than that they widen a block (0.33).
    """
    buckets: dict[tuple[object, ...], list[tuple[Spec, list[int]]]] = {}
    for spec, indices in layers.items():
        buckets.setdefault((spec.block, spec.family), []).append((spec, indices))
    ordered = list(buckets.values())
    legacy = version < (0, 29)
    if legacy:
        ordered.sort(key=lambda bucket: bucket[0][0].kind != "latent")
    repeats = [max(len(indices) for _, indices in bucket) for bucket in ordered]
    balanced = [len({len(indices) for _, indices in bucket}) == 1 for bucket in ordered]
    if legacy:
        per_group = _common_size(repeats, repeats[0])
        whole = [bucket[0][0].kind == "latent" for bucket in ordered]
    else:
        mixed = [n for n, ok, bucket in zip(repeats, balanced, ordered, strict=True) if ok and len(bucket) > 1]
        regular = [n for n, ok in zip(repeats, balanced, strict=True) if ok]
        per_group = _common_size(regular, max(mixed)) if mixed else 0
        whole = [not ok or not per_group for ok in balanced]
    parts = [1 if keep else -(-count // per_group) for count, keep in zip(repeats, whole, strict=True)]
    states = [bucket[0][0].kind in ("state", "ring") for bucket in ordered]
    # What a block must hold however states are split: they can go down to one in a group, the others are settled.
    least = max(
        sum(-(-len(indices) // (count if state else part)) * spec.page for spec, indices in bucket)
        for bucket, count, part, state in zip(ordered, repeats, parts, states, strict=True)
    )
    groups = []
    for bucket, count, part, state in zip(ordered, repeats, parts, states, strict=True):
        if state:
            part = max(part, -(-count // max(least // bucket[0][0].page, 1)))
        for start in range(part):
            groups.append(Group(tuple((spec, tuple(indices[start::part])) for spec, indices in bucket)))
    return _padded_like_latents(groups) if legacy else tuple(groups)


def _padded_like_latents(groups: list[Group]) -> tuple[Group, ...]:
    """Before 0.29 every page is padded to the next larger one of the compressed caches."""
    sizes = sorted({spec.page for group in groups for spec, _ in group.members if spec.kind == "latent"})
    padded = []
    for group in groups:
        members = []
        for spec, indices in group.members:
            larger = [size for size in sizes if size >= spec.page]
            members.append((spec._replace(padded=larger[0]) if larger else spec, indices))
        padded.append(Group(tuple(members)))
    return tuple(padded)


def _common_size(counts: list[int], lowest: int) -> int:
    """The group size from ``lowest`` up that wastes the fewest slots over all counts; the larger one of equals."""
    best, waste = lowest, -1
    for size in range(max(1, lowest), max(counts) + 1):
        padding = sum(-count % size for count in counts)
        if waste < 0 or padding <= waste:
            best, waste = size, padding
    return best


def bytes_per_block(groups: tuple[Group, ...], counts: list[list[int]], version: Version) -> int:
    """Bytes of one block id on a rank; ``counts``: layers on this rank of each member of each group."""
    if version >= (0, 29):
        return max(
            sum(spec.page * count for (spec, _), count in zip(group.members, group_counts, strict=True))
            for group, group_counts in zip(groups, counts, strict=True)
        )
    slots: dict[int, int] = {}
    for group, group_counts in zip(groups, counts, strict=True):
        here: dict[int, int] = {}
        for (spec, _), count in zip(group.members, group_counts, strict=True):
            here[spec.page] = here.get(spec.page, 0) + count
        for page, count in here.items():
            slots[page] = max(slots.get(page, 0), count)
    return sum(page * count for page, count in slots.items())


def admission_bytes_per_block(groups: tuple[Group, ...], counts: list[list[int]], version: Version) -> int:
    """Bytes that the start-up check of 0.20 to 0.28 counts per block: full repeats of all compressed pages (else 0)."""
    if version >= (0, 29):
        return 0
    pages = {spec.page for group in groups for spec, _ in group.members if spec.kind == "latent"}
    repeats = max((count for group_counts in counts for count in group_counts), default=0)
    return repeats * sum(pages)
