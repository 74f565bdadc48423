"""Tables of single releases ↔ the document that holds them all (``vllm_flags.json``, ``vllm_variables.json``).

The document lists for each flag its *variants* in order of releases; every table comes out of it again unchanged, so that
adding a release, or reading one anew, needs none of the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.engines.version import parse_version

Table = dict[str, dict[str, Any]]


def flag_tables(document: Mapping[str, Any]) -> dict[str, Table]:
    """Release → flag → its definition there."""
    tables: dict[str, Table] = {release: {} for release in document["releases"]}
    for name, variants in document["flags"].items():
        for release, place in ((release, parse_version(release)) for release in document["releases"]):
            for variant in variants:
                if _holds(variant, place):
                    tables[release][name] = {
                        key: value for key, value in variant.items() if key not in ("since", "until")
                    }
    return tables


def _holds(variant: Mapping[str, Any], place: tuple[int, ...]) -> bool:
    return ("since" not in variant or parse_version(variant["since"]) <= place) and (
        "until" not in variant or place < parse_version(variant["until"])
    )


def flag_document(previous: Mapping[str, Any], tables: Mapping[str, Table]) -> dict[str, Any]:
    """The document of tables by release; what people wrote into the previous one (engine, source, renamed) stays."""
    releases = sorted(tables, key=parse_version)
    names = sorted({name for table in tables.values() for name in table})
    flags = {name: _variants(name, releases, tables) for name in names}
    renamed = {old: new for old, new in previous.get("renamed", {}).items() if old in flags}
    return {
        "engine": previous["engine"],
        "source": f"argument definitions of the published wheels, read without importing them; releases {releases[0]} "
        f"to {releases[-1]}",
        "releases": releases,
        "renamed": renamed,
        "flags": flags,
    }


def _variants(name: str, releases: list[str], tables: Mapping[str, Table]) -> list[dict[str, Any]]:
    variants: list[dict[str, Any]] = []
    last: dict[str, Any] | None = None
    for release in releases:
        now = tables[release].get(name)
        if now == last:
            continue
        if last is not None:
            variants[-1]["until"] = release
        if now is not None:
            variants.append({"since": release, **now} if release != releases[0] else dict(now))
        last = now
    return variants


def write_flags(path: Path, document: Mapping[str, Any]) -> None:
    """One flag a line, so that a new release shows as the lines of the flags that it changes."""
    head = [f" {_json(key)}: {_json(document[key])}," for key in ("engine", "source", "releases", "renamed")]
    _write(path, [*head, ' "flags": {'], document["flags"], [" }"])


def entry_tables(document: Mapping[str, Any], key: str) -> dict[str, Table]:
    """Release → entry → its facts there, of a document that lists ``variables`` or ``methods`` under ``key``."""
    return flag_tables({"releases": document["releases"], "flags": document[key]})


def entry_document(previous: Mapping[str, Any], key: str, tables: Mapping[str, Table]) -> dict[str, Any]:
    """The document of such tables; what people wrote into the previous one stays."""
    releases = sorted(tables, key=parse_version)
    names = sorted({name for table in tables.values() for name in table})
    kept = {name: value for name, value in previous.items() if name not in ("releases", key)}
    return {**kept, "releases": releases, key: {name: _variants(name, releases, tables) for name in names}}


def write_entries(path: Path, document: Mapping[str, Any], key: str) -> None:
    """One entry a line."""
    head = [f" {_json(name)}: {_json(value)}," for name, value in document.items() if name != key]
    _write(path, [*head, f' "{key}": {{'], document[key], [" }"])


def _write(path: Path, head: list[str], entries: Mapping[str, Any], tail: list[str]) -> None:
    last = len(entries) - 1
    lines = [
        f"  {_json(name)}: {_json(entry)}{',' if number < last else ''}"
        for number, (name, entry) in enumerate(entries.items())
    ]
    path.write_text("\n".join(["{", *head, *lines, *tail, "}", ""]), "utf-8")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
