"""The arguments that each vLLM release takes: names, types, aliases. Data: ``schemas/engines/vllm_flags.json``."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any

from planner.data import engine_table
from planner.engines.version import parse_version
from planner.record import NamedTuple

#: From this release on every boolean ``--enable-x`` has a twin ``--disable-x`` (vllm/utils/argparse_utils.py).
_TWINS_SINCE = (0, 33, 0)


class FlagSpec(NamedTuple):
    """One argument as a release defines it.

    ``kind``: ``int``, ``float``, ``str``, ``json``, ``json-or-str``, ``kvs`` (``image=2,video=1``), ``human-int`` (32k,
    32K), ``human-int-auto`` (also ``auto``), ``list`` (one or more values of ``element``), ``optional`` (may stand
    without a value), ``optional-bool``, ``switch`` (``--x`` and ``--no-x``), ``true`` and ``false`` (no value).
    ``active``: whether the release that was asked for has it. ``since`` and ``until`` (exclusive) bound all variants.
    ``facts`` is the variant as the table states it.
    """

    name: str
    kind: str
    element: str
    append: bool
    aliases: tuple[str, ...]
    choices: tuple[str, ...]
    deprecated: bool
    since: str
    until: str
    active: bool
    facts: Mapping[str, Any] = MappingProxyType({})

    @property
    def default(self) -> Any:
        """The value without the flag; None where there is none, or where it is worked out at run time (``computed``)."""
        return self.facts.get("default", _OFF.get(self.kind))

    @property
    def takes_value(self) -> bool:
        """Whether a value follows the flag."""
        return self.kind not in ("switch", "true", "false")


#: What a flag without a value stands for when it is not there.
_OFF = {"switch": False, "true": False, "false": True}


class Option(NamedTuple):
    """What one spelling on the command line stands for."""

    spec: FlagSpec
    negated: bool


class FlagTable:
    """The argument table of one release. ``release`` is the one that was read for it: the release itself, else the newest
    before it, else the oldest of all; empty for a table that stands for all releases."""

    def __init__(self, version: tuple[int, ...], document: dict[str, Any]) -> None:
        self.version = version
        self.releases: list[str] = document.get("releases", [])
        self.release = _nearest(self.releases, version)
        self._variants: dict[str, list[dict[str, Any]]] = document["flags"]
        self.renamed: dict[str, str] = document["renamed"]
        self.flags: dict[str, FlagSpec] = {}
        self.options: dict[str, Option] = {}
        self.inactive: dict[str, Option] = {}
        twins = version >= _TWINS_SINCE
        late: list[tuple[dict[str, Option], str, Option]] = []
        # Releases share most variants of flags, so that the table of a second release costs little.
        made: dict[Any, tuple[FlagSpec, _Pairs, _Pairs]] = document.setdefault("made", {})
        for name, variants in document["flags"].items():
            place, active = _chosen(variants, version)
            key = (name, place, active, twins)
            if key not in made:
                made[key] = _spelled(name, variants, place, active, twins)
            spec, spelled, opposite = made[key]
            self.flags[name] = spec
            target = self.options if spec.active else self.inactive
            target.update(spelled)
            late += [(target, *pair) for pair in opposite]
        for target, spelling, option in late:
            target.setdefault(spelling, option)
        self._sorted: list[str] | None = None

    def starting_with(self, prefix: str) -> list[str]:
        """The spellings of this release that begin with ``prefix``, in order."""
        if self._sorted is None:
            self._sorted = sorted(self.options)
        found = []
        for index in range(bisect_left(self._sorted, prefix), len(self._sorted)):
            if not self._sorted[index].startswith(prefix):
                break
            found.append(self._sorted[index])
        return found

    @property
    def exact(self) -> bool:
        """Whether the release itself was read, not a neighbour."""
        return not self.releases or _key(self.release) == self.version

    @property
    def following(self) -> str:
        """The release after ``release``; empty where that is the newest."""
        place = self.releases.index(self.release) + 1 if self.release else 0
        return self.releases[place] if 0 < place < len(self.releases) else ""

    def ever_allowed(self, name: str) -> frozenset[str] | None:
        """The choices of all releases for a flag's value together; None where a release takes any."""
        found: set[str] = set()
        for variant in self._variants.get(name, ()):
            if "choices" not in variant:
                return None
            found.update(variant["choices"])
        return frozenset(found)

    def ever_kinds(self, name: str) -> frozenset[str]:
        """The kinds that a flag has had in all releases."""
        return frozenset(variant["kind"] for variant in self._variants.get(name, ()))

    def gone_in(self, name: str) -> str:
        """The release that removed a flag which this one no longer has; empty where it has it, or never had it before."""
        found = ""
        for variant in self._variants.get(name, ()):
            if "since" in variant and _key(variant["since"]) > self.version:
                break
            until = variant.get("until", "")
            found = until if until and _key(until) <= self.version else ""
        return found

    def added_in(self, name: str) -> str:
        """The first release after this one that has a flag; empty where there is none."""
        later = (variant["since"] for variant in self._variants.get(name, ()) if "since" in variant)
        return next((since for since in later if _key(since) > self.version), "")

    def collects(self, name: str) -> bool:
        """Whether giving a flag several times adds to it instead of replacing it."""
        spec = self.flags.get(name)
        return spec is not None and spec.append

    def has(self, name: str) -> bool:
        """Whether this release takes ``--name``."""
        spec = self.flags.get(name)
        return spec is not None and spec.active


def _chosen(variants: list[dict[str, Any]], version: tuple[int, ...]) -> tuple[int, bool]:
    """(place of the variant that holds for ``version``, whether the release has the flag); where it does not, the nearest."""
    chosen, active = 0, False
    for place, variant in enumerate(variants):
        if "since" in variant and _key(variant["since"]) > version:
            break
        chosen = place
        active = "until" not in variant or version < _key(variant["until"])
    return chosen, active


_Pairs = tuple[tuple[str, Option], ...]


def _spelled(
    name: str, variants: list[dict[str, Any]], place: int, active: bool, twins: bool
) -> tuple[FlagSpec, _Pairs, _Pairs]:
    """A variant of a flag, its spellings, and those of an opposite that gives way to a flag of that name."""
    spec = _spec(name, variants, variants[place], active)
    positive, negative = Option(spec, False), Option(spec, True)
    spellings = ["--" + name, *spec.aliases]
    spelled = [(spelling, positive) for spelling in spellings]
    opposite = []
    for spelling in spellings if spec.kind == "switch" else ():
        if not spelling.startswith("--"):
            continue
        spelled.append(("--no-" + spelling[2:], negative))
        for prefix, twin in (("--enable-", "--disable-"), ("--disable-", "--enable-")) if twins else ():
            if spelling.startswith(prefix):
                opposite.append((twin + spelling[len(prefix) :], negative))
    return spec, tuple(spelled), tuple(opposite)


def _spec(name: str, variants: list[dict[str, Any]], chosen: dict[str, Any], active: bool) -> FlagSpec:
    return FlagSpec(
        name,
        chosen["kind"],
        chosen.get("element", "str"),
        bool(chosen.get("append")),
        tuple(chosen.get("aliases", ())),
        tuple(chosen.get("choices", ())),
        bool(chosen.get("deprecated")),
        variants[0].get("since", ""),
        variants[-1].get("until", ""),
        active,
        chosen,
    )


def _nearest(releases: list[str], version: tuple[int, ...]) -> str:
    found = releases[0] if releases else ""
    for release in releases:
        if _key(release) > version:
            break
        found = release
    return found


@cache
def _key(text: str) -> tuple[int, ...]:
    return parse_version(text)


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    with open(engine_table("vllm_flags"), encoding="utf-8") as file:
        document: dict[str, Any] = json.load(file)
    return document


@lru_cache(maxsize=64)
def flag_table(version: tuple[int, ...]) -> FlagTable:
    """The table of a release; a version between two releases that were read has that of the older one."""
    return FlagTable(version, _document())
