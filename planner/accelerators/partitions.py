"""Parts of a device: MIG slices, vGPU shares, AMD compute partitions, time slices."""

from __future__ import annotations

import re

from planner.accelerators.accelerator import Accelerator
from planner.accelerators.catalog import candidates, partition_memory
from planner.accelerators.names import MAX_LENGTH
from planner.estimate import Estimate
from planner.record import replace
from planner.units import GIB

_PROFILE = re.compile(
    r"(?:.{0,20}mig[-_])?(?:\d{1,2}c\.)?(\d{1,2})g\.(\d{1,3})gb((?:[+.](?:me|gfx|all))*)", re.IGNORECASE
)
#: What a slice keeps of its share of the memory: public figures lie between 0.916 (H200 1g.18gb) and 1.0 (H100 7g.80gb).
_KEPT = (0.91, 0.975, 1.0)


def canonical_profile(profile: str) -> str:
    """A MIG profile as nvidia-smi spells it: ``mig-1g.10gb.me``, ``nvidia.com/mig-1g.10gb.me`` and ``1g.10gb+ME`` are all
    ``1g.10gb+me``. Empty where the text is none."""
    match = _PROFILE.fullmatch(profile.strip()[:60])
    return f"{int(match[1])}g.{int(match[2])}gb{match[3].lower().replace('.', '+')}" if match else ""


def resolve(name: str) -> tuple[Accelerator, ...]:
    """Every accelerator that a name with an optional MIG profile and an optional ``-SHARED`` may mean, as GPU Feature
    Discovery labels nodes (``NVIDIA-H200-MIG-1g.18gb-SHARED``) and people write them (``H100 MIG 1g.10gb``).

    Empty where the catalog has no such product, or no product of that name has the profile.
    """
    text = name.strip()[:MAX_LENGTH]
    shared = text.upper().endswith("-SHARED")
    text = text[: -len("-SHARED")] if shared else text
    sliced = re.search(r"[\s,/:_-]+(?:MIG[\s_-]*)?(\d{1,2}g\.\d{1,3}gb[+.a-z]{0,8})$", text, re.IGNORECASE)
    found = candidates(text[: sliced.start()] if sliced else text)
    if sliced:
        found = tuple(partition(product, sliced[1]) for product in found if has_profile(product, sliced[1]))
    return tuple(time_shared(product) for product in found) if shared else found


def has_profile(product: Accelerator, profile: str) -> bool:
    """Whether a product of the catalog can be cut into slices of a MIG profile."""
    wanted = canonical_profile(profile)
    return bool(wanted) and (wanted in product.partitions or wanted.split("+")[0] in product.partitions)


def partition(product: Accelerator, profile: str) -> Accelerator:
    """A MIG slice of a product, with the memory that a process sees in it.

    The memory is a public figure where one exists (basis ``measured``), otherwise the slice's share of the product's
    memory less what slices are seen to keep (``assumed``). Raises ValueError where the product has no such profile.
    """
    wanted = canonical_profile(profile)
    known = partition_memory(product.name)
    if not wanted or (wanted not in known and wanted.split("+")[0] not in known):
        profiles = ", ".join(known) or "none"
        raise ValueError(f"{product.name} has no MIG profile {profile[:60]!r}; its profiles: {profiles}")
    reported = known.get(wanted, known.get(wanted.split("+")[0]))
    if reported:
        size = min(round(reported * GIB), product.memory.high)
        memory = Estimate(round(size * 0.99), size, size, "measured")
        how = f"{reported:g} GiB in public reports of this slice"
    else:
        share = _memory_share(wanted, known)
        low, expected, high = (round(product.memory.expected * share * kept) for kept in _KEPT)
        memory = Estimate(low, expected, high, "assumed")
        how = f"{share:g} of the product's memory, less the 0-9 % that slices of other products keep"
    return replace(
        product, name=f"{product.name} MIG {wanted}", memory=memory, partition=wanted, memory_note=how, partitions=()
    )


def limited(product: Accelerator, limit: int, by: str) -> Accelerator:
    """A share of a product that a vGPU layer limits to ``limit`` bytes; ``by`` says which (``HAMi nvidia.com/gpumem``).

    The layer reports the limit as the device's total memory. A limit above the device's memory changes nothing.
    """
    if limit >= product.memory.high:
        return replace(product, partition=by, shared=True)
    memory = Estimate(limit, limit, limit, "given")
    return replace(product, name=f"{product.name} vGPU", memory=memory, partition=by, shared=True, memory_note=by)


def fraction(product: Accelerator, share: float, by: str) -> Accelerator:
    """A fixed fraction of a device (0 < ``share`` ≤ 1) that a cloud or a vGPU layer sells as one; ``by`` says which."""
    memory = Estimate(
        round(product.memory.low * share * _KEPT[0]),
        round(product.memory.expected * share * _KEPT[1]),
        round(product.memory.high * share),
        "assumed",
    )
    how = f"{share:.3g} of the device, less the 0-9 % that shares of devices keep"
    return replace(product, name=f"{product.name} share", memory=memory, partition=by, memory_note=how, partitions=())


def time_shared(product: Accelerator) -> Accelerator:
    """The device while other pods may use it too (time slicing, MPS): same memory, not all of it free."""
    return replace(product, shared=True)


def _memory_share(profile: str, profiles: dict[str, float | None]) -> float:
    """The part of the product's memory that belongs to a profile, in eighths (A30 and RTX PRO 6000: quarters).

    The largest profile owns all memory slices; sizes in the names are rounded, hence the rounding to whole slices.
    """
    sizes = [(int(m[1]), int(m[2])) for m in map(_PROFILE.fullmatch, profiles) if m]
    compute, whole = max(sizes)
    slices = 8 if compute == 7 else compute
    match = _PROFILE.fullmatch(profile)
    size = int(match[2]) if match else whole
    return max(1, round(size / whole * slices)) / slices
