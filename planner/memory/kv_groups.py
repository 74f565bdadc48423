"""From specs of layers to groups that share a block table, as vLLM's ``v1/core/kv_cache_utils.py`` forms them.

All groups draw block ids from one pool, so a block id costs the bytes of the widest group, whichever group takes it.
Sources: 0.11, 0.12, 0.19 to 0.29 and 0.32 of that file.
"""

from __future__ import annotations

from planner.memory.kv_specs import LayoutRefused, Spec, Version
from planner.record import NamedTuple

#: specs in the order of their first layer, each with the indices of its layers
Layers = dict[Spec, list[int]]


class Group(NamedTuple):
    """Layers with one block table: their specs (several where only the page sizes differ) and the layers of each."""

    members: tuple[tuple[Spec, tuple[int, ...]], ...]

    @property
    def first(self) -> Spec:
        """The spec that speaks for the group."""
        return self.members[0][0]

    @property
    def width(self) -> int:
        """Layers in the group, on all pipeline stages."""
        return sum(len(layers) for _, layers in self.members)


def form_groups(layers: Layers, *, hybrid_manager: bool, version: Version) -> tuple[Group, ...]:
    """Groups of all layers of the engine (all pipeline stages together).

    Raises ``LayoutRefused`` where the engine finds no common layout.
    """
    if not hybrid_manager:
        layers = _promote(layers)
    if not layers:
        return ()
    if len(layers) == 1:
        ((spec, indices),) = layers.items()
        return (Group(((spec, tuple(indices)),)),)
    if _uniform(layers):
        return (Group(tuple((spec, tuple(indices)) for spec, indices in layers.items())),)
    return _equal_groups(_unify_pages(layers, version), version)


def _uniform(layers: Layers) -> bool:
    """Whether all layers need the same number of token slots, so that one block table serves them all."""
    return len({(spec.block, spec.family) for spec in layers}) == 1


def _promote(layers: Layers) -> Layers:
    """Without the hybrid manager, windows and chunks beside full attention keep every token."""
    kinds = {spec.kind for spec in layers}
    if not kinds & {"full", "latent"} or len(layers) == 1 or _uniform(layers):
        return layers
    blocks = {spec.block for spec in layers if spec.kind in ("full", "latent")}
    block = blocks.pop() if len(blocks) == 1 else 0
    promoted: Layers = {}
    for spec, indices in layers.items():
        if spec.kind in ("window", "chunked"):
            spec = spec._replace(kind="full", reach=0, block=block or spec.block)
        elif spec.kind == "window_latent":
            spec = spec._replace(kind="latent", reach=0, block=block or spec.block)
        promoted.setdefault(spec, []).extend(indices)
    if not _uniform(promoted):
        raise LayoutRefused("layers of different kinds need the hybrid KV cache manager, which is disabled")
    return {spec: sorted(indices) for spec, indices in promoted.items()}


def _unify_pages(layers: Layers, version: Version) -> Layers:
    """Equal pages for all layers: longer blocks where a page divides the largest one, padding where that is allowed."""
    largest = max(spec.page for spec in layers)
    unified: Layers = {}
    for spec, indices in layers.items():
        page = spec.page
        if page != largest:
            if spec.kind == "state":
                spec = spec._replace(padded=largest)
            elif page and largest % page == 0:
                spec = spec._replace(block=spec.block * (largest // page))
            elif spec.kind not in ("latent", "window_latent") and version >= (0, 24):
                spec = spec._replace(padded=largest)
            else:
                raise LayoutRefused(f"KV cache pages of {page} and {largest} bytes cannot be made equal")
        unified.setdefault(spec, []).extend(indices)
    return unified


def _equal_groups(layers: Layers, version: Version) -> tuple[Group, ...]:
    """Groups of equal size: as many layers as the rarest kind has, or the commonest where that wastes little."""
    counts = [len(indices) for indices in layers.values()]
    size, most = min(counts), max(counts)
    slack = 1.0 if version < (0, 12) else 1.25 if version < (0, 18) else 1.5
    if most < size * slack:
        size = most
    groups: list[Group] = []
    for spec, indices in layers.items():
        parts = -(-len(indices) // size)
        groups.extend(Group(((spec, tuple(indices[part::parts])),)) for part in range(parts))
    return tuple(groups)
