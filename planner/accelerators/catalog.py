"""The accelerators that are known: one JSON file per product in ``planner/catalog/accelerators``, read when asked for.

To add one, add its file (named after the product, in lower case) and nothing else; ``schemas/catalog-accelerator.schema.json``
says what it holds. Names are matched against the names of the files, so that looking one up opens only the files it may mean.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from planner.accelerators.accelerator import Accelerator
from planner.accelerators.names import Name, parse
from planner.estimate import Estimate
from planner.record import replace
from planner.units import GIB

_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "catalog", "accelerators")
_LARGEST_FILE = 65536
#: Products this close in memory may share a name without a verdict depending on which one is meant.
_SAME_MEMORY = 0.02


def lookup(name: str) -> Accelerator | None:
    """The accelerator that a name means, None where it is not in the catalog or its memory depends on what the name leaves
    open (``A100``: 40 or 80 GB; see ``candidates``).

    ``H100-80GB`` may be the SXM or the PCIe card: the usual one is returned, its memory interval covers both, and
    ``variants`` names the others. Takes well under 1 ms.
    """
    return united(candidates(name))


def united(found: Sequence[Accelerator]) -> Accelerator | None:
    """One accelerator for several that a name may mean: the first, with a memory interval that covers all and with
    ``variants``. None where there is none, or where they differ by more than 2 % in memory or in capability."""
    if len(found) < 2:
        return found[0] if found else None
    first = found[0]
    for other in found:
        apart = abs(other.memory.expected - first.memory.expected)
        if apart > _SAME_MEMORY * first.memory.expected or other.capability != first.capability:
            return None
    low, high = min(f.memory.low for f in found), max(f.memory.high for f in found)
    memory = Estimate(low, first.memory.expected, high, first.memory.basis)
    return replace(first, memory=memory, variants=tuple(f.name for f in found[1:]))


@lru_cache(maxsize=4096)
def candidates(name: str) -> tuple[Accelerator, ...]:
    """Every accelerator that a name may mean, the most usual one first; empty where the catalog has none.

    ``A100`` gives four (40 and 80 GB, SXM and PCIe). Cards that carry a common name with an uncommon memory (modified
    4090s) are only meant by a name that states that memory.
    """
    if name.lower() in _stems():
        return (_accelerator(name.lower()),)
    asked = parse(name)
    matches = []
    for stem in _stems():
        if asked.core and all(word in stem for word in asked.core):
            full = parse(stem)
            if asked.may_mean(full) and not (asked.form and full.form and asked.form != full.form):
                matches.append((full, _product(stem)))
    if any(full.core == asked.core for full, _ in matches):
        matches = [match for match in matches if match[0].core == asked.core]
    matches = [(full, product) for full, product in matches if _is_called(product, asked, full)]
    if not asked.memory and any(not full.memory for full, _ in matches):  # RTX 4090 rather than its 48 GB sister
        matches = [match for match in matches if not match[0].memory]
    if any(full.form == asked.form for full, _ in matches):  # H200 rather than H200 NVL
        matches = [match for match in matches if match[0].form == asked.form]
    matches.sort(key=lambda match: (not match[1].get("preferred"), match[1]["name"]))
    return tuple(_accelerator(product["name"].lower()) for _, product in matches)


@lru_cache(maxsize=1)
def all_accelerators() -> tuple[Accelerator, ...]:
    """Every product of the catalog in ascending order of its expected memory, for the smallest one that works."""
    found = [_accelerator(stem) for stem in _stems()]
    return tuple(sorted(found, key=lambda accelerator: (accelerator.memory.expected, accelerator.name)))


def named(name: str) -> Accelerator:
    """The product with exactly this catalog name. Raises KeyError where there is none."""
    if name.lower() not in _stems():
        raise KeyError(name)
    return _accelerator(name.lower())


def suggest(name: str, limit: int = 3) -> tuple[str, ...]:
    """Catalog names that look like ``name``, nearest first, for error messages."""
    import difflib

    words = [word for word in parse(name).core if len(word) > 1]
    shared = [stem for stem in _stems() if any(word in stem.split("-") for word in words)]
    near = difflib.get_close_matches(name[:60].lower(), _stems(), n=limit, cutoff=0.5)
    stems = list(dict.fromkeys([*shared[:limit], *near]))[:limit]
    return tuple(str(_product(stem)["name"]) for stem in stems)


def partition_memory(name: str) -> dict[str, float | None]:
    """MIG profile → GiB that a public source reports for a partition of the product, None where none was found; empty for
    products without MIG. Raises KeyError where the catalog has no product of exactly this name."""
    if name.lower() not in _stems():
        raise KeyError(name)
    profiles: dict[str, float | None] = _product(name.lower()).get("partitions", {})
    return profiles


def _is_called(product: dict[str, Any], asked: Name, full: Name) -> bool:
    """Whether a name that states this memory and form (or none) is used for the product."""
    if asked.memory and full.memory and asked.memory != full.memory:
        return False
    if asked.memory and not full.memory:  # vendors round: 140, 141 and 144 GB are all said of the H200
        return bool(abs(asked.memory - product["marketing_gb"]) <= 0.08 * product["marketing_gb"])
    needs = product.get("requires")
    return not needs or asked.form in needs or f"{asked.memory}gb" in needs


@lru_cache(maxsize=1)
def _stems() -> tuple[str, ...]:
    return tuple(sorted(entry[:-5] for entry in os.listdir(_FOLDER) if entry.endswith(".json")))


@cache
def _product(stem: str) -> dict[str, Any]:
    # Half the time of open() over the whole catalog, which plans read where nothing names the accelerator.
    file = os.open(f"{_FOLDER}{os.sep}{stem}.json", os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        product: dict[str, Any] = json.loads(os.read(file, _LARGEST_FILE).decode())
    finally:
        os.close(file)
    return product


@cache
def _accelerator(stem: str) -> Accelerator:
    product = _product(stem)
    memory, capability = product["memory"], product.get("capability")
    major, _, minor = (capability or "").partition(".")
    low, expected, high = (round(memory[bound] * GIB) for bound in ("low_gib", "expected_gib", "high_gib"))
    return Accelerator(
        name=product["name"],
        vendor=product["vendor"],
        memory=Estimate(low, expected, high, memory["basis"]),
        capability=(int(major), int(minor)) if capability else None,
        arch=product["arch"],
        marketing=product["marketing"],
        unified=product.get("unified", False),
        low_precision=tuple(product.get("low_precision", ())),
        interconnect=product.get("interconnect", ""),
        source="; ".join(product["source"]),
        kind=product.get("kind", "gpu"),
        coherent=product.get("coherent", False),
        bandwidth_gb_s=product.get("bandwidth_gb_s", 0.0),
        partitions=tuple(product.get("partitions", ())),
        smi_mib=tuple(product.get("nvidia_smi_mib", ())),
        memory_note=memory.get("how", ""),
        note=product.get("note", ""),
    )
