"""Memory terms that somebody measured: given by annotation or in ``planner.yaml``, each with a value, a unit and a reason.

planner/memory: |
  activations: {value: 2.1, unit: GiB, reason: profile run on our nodes, measured: start-up log of 2026-10-02}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from planner.provenance import Fact, Position, Provenance, Unknown
from planner.units import GB, GIB, KIB, MIB

if TYPE_CHECKING:
    from planner.memory.budget import Term

#: Terms that may be given; each is the memory of one rank.
TERMS = ("device", "requested", "outside", "weights", "activations", "non_torch", "graphs", "baseline", "kv_available")
#: Those of them that hold for the device they were measured on and say nothing about another.
DEVICE_TERMS = frozenset(("device", "requested", "outside", "kv_available"))
_UNITS = {"B": 1, "bytes": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "MB": 10**6, "GB": GB}
_LARGEST = 1 << 50


class GivenError(ValueError):
    """What is wrong with a given term, for people."""


def read(text: str) -> Any:
    """The mapping that an annotation holds (YAML or JSON). Raises GivenError where it is none."""
    from planner.documents.read import read_bytes

    content = read_bytes(text.encode("utf-8", "replace"), "planner/memory")
    if content.problems or not content.documents:
        raise GivenError(content.problems[0].message if content.problems else "it is empty")
    return content.documents[0].root.plain()


def terms(given: Any, source: str) -> dict[str, Term]:
    """Terms by name, with basis ``given``. Raises GivenError for a term that is not known, has no unit or no reason."""
    from planner.estimate import exactly
    from planner.memory.budget import Input, Term

    if not isinstance(given, Mapping):
        raise GivenError(
            "it must be a mapping of memory terms, such as activations: {value: 2.1, unit: GiB, reason: …}"
        )
    found = {}
    for name, entry in given.items():
        if name not in TERMS:
            raise GivenError(f"{str(name)[:60]!r} is no memory term; known are {', '.join(TERMS)}")
        if not isinstance(entry, Mapping):
            raise GivenError(f"{name} must be a mapping with value, unit and reason")
        size = _bytes(name, entry)
        reason = str(entry.get("reason") or "").strip()
        if not reason:
            raise GivenError(f"{name} needs a reason")
        measured = str(entry.get("measured") or source)
        value = f"{entry['value']} {entry['unit']}"
        found[name] = Term(name, exactly(size, "given"), f"given: {reason}", (Input(name, value, measured),))
    return found


def _bytes(name: str, entry: Mapping[str, Any]) -> int:
    value, unit = entry.get("value"), entry.get("unit")
    if unit not in _UNITS:
        raise GivenError(f"{name} needs a unit, one of {', '.join(_UNITS)}")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value * _UNITS[unit] <= _LARGEST:
        raise GivenError(f"{name} needs a value that is a number of {unit}")
    return int(value * _UNITS[unit])


def collect(
    configured: Mapping[str, Any], source: str, annotation: Fact[str] | None, place: Position | None
) -> tuple[dict[str, Term], list[Unknown]]:
    """The terms of the configuration file with those of the annotation laid over them; what is wrong as gaps."""
    gaps: list[Unknown] = []
    found: dict[str, Term] = {}
    for given, where, position in _sources(configured, source, annotation, place):
        try:
            found.update(terms(read(given) if isinstance(given, str) else given, where))
        except GivenError as error:
            remedy = "planner/memory: '{activations: {value: 2.1, unit: GiB, reason: measured}}'"
            gaps.append(Unknown("engine.memory", f"given memory terms ({where}): {error}", remedy, position))
    return found, gaps


def _sources(
    configured: Mapping[str, Any], source: str, annotation: Fact[str] | None, place: Position | None
) -> Iterator[tuple[Any, str, Position | None]]:
    if configured:
        yield configured, source or "configuration", place
    if annotation is not None:
        provenance: Provenance = annotation.provenance
        yield annotation.value, str(provenance), annotation.position or place
