"""Makes the flag tables: ``python -m planner.catalog.engines.update vllm 0.33.0``.

Reads the argument definitions and environment variables out of a release's wheel (by range requests; nothing is installed,
imported or run), puts them into the tables of ``schemas/engines`` and says what changed. The diff of the files is what there is to
review. ``--from FOLDER`` reads an unpacked distribution or a wheel on disk instead; ``--check`` changes nothing and fails
where a release differs from the tables.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from planner.catalog.engines import sglang_arguments, vllm_arguments, vllm_quantization
from planner.catalog.engines.definition import NoArguments
from planner.catalog.engines.distribution import Distribution, Folder, NotPublished, Wheel, remote_wheel
from planner.catalog.engines.table import Table, entry_document, entry_tables, flag_document, flag_tables, write_entries
from planner.catalog.engines.table import write_flags as write_flag_file
from planner.data import data_folder
from planner.engines.version import is_version

_FOLDER = data_folder("schemas") / "engines"


class _Part(NamedTuple):
    """One table of an engine: the key of its file, what it is read by, and what stands in a new file."""

    key: str
    read: Callable[[Distribution], Table]
    source: str


def _names(read: Callable[[Distribution], tuple[str, ...]]) -> Callable[[Distribution], Table]:
    return lambda distribution: {name: {} for name in read(distribution)}


#: engine → (package on the index, its tables)
ENGINES = {
    "vllm": (
        "vllm",
        (
            _Part("flags", vllm_arguments.read_arguments, ""),
            _Part("variables", _names(vllm_arguments.read_variables), "vllm/envs.py of the published wheels"),
            _Part(
                "methods",
                vllm_quantization.read_methods,
                "vllm/model_executor/layers/quantization of the published wheels",
            ),
        ),
    ),
    "sglang": (
        "sglang",
        (
            _Part("flags", sglang_arguments.read_arguments, ""),
            _Part(
                "variables", _names(sglang_arguments.read_variables), "sglang/srt/environ.py of the published wheels"
            ),
        ),
    ),
}
_FILES = {"flags": "flags", "variables": "variables", "methods": "quantization"}


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0; 1 where ``--check`` found a difference; 2 where a release could not be read."""
    parser = argparse.ArgumentParser(prog="python -m planner.catalog.engines.update", description=__doc__)
    parser.add_argument("engine", choices=sorted(ENGINES))
    parser.add_argument("releases", nargs="+", metavar="RELEASE", help="0.33.0, or all: those of the tables")
    parser.add_argument("--from", dest="folder", type=Path, help="an unpacked distribution, or a wheel, on disk")
    parser.add_argument("--check", action="store_true", help="compare only")
    options = parser.parse_args(arguments)
    package, parts = ENGINES[options.engine]
    documents = {part.key: _load(options.engine, part) for part in parts}
    tables = {
        key: flag_tables(document) if key == "flags" else entry_tables(document, key)
        for key, document in documents.items()
    }
    releases = documents["flags"]["releases"] if options.releases == ["all"] else options.releases
    if not all(is_version(release) for release in releases):
        parser.error("a release is a number such as 0.33.0")
    different = False
    for release in releases:
        try:
            distribution = _open(options.folder) if options.folder else remote_wheel(package, release)
            read = {part.key: part.read(distribution) for part in parts}
        except (NoArguments, NotPublished, OSError) as error:
            print(f"{options.engine} {release}: {error}", file=sys.stderr)
            return 2
        changes = [line for key, table in read.items() for line in _changes(key, tables[key].get(release, {}), table)]
        different = different or bool(changes)
        counts = ", ".join(f"{len(table)} {key}" for key, table in read.items())
        print(f"{options.engine} {release}: {counts}, {len(changes)} changes")
        for change in changes:
            print(f"  {change}")
        for key, table in read.items():
            tables[key][release] = table
    if options.check:
        return int(different)
    for part in parts:
        path = _path(options.engine, part.key)
        if part.key == "flags":
            write_flag_file(path, flag_document(documents["flags"], tables["flags"]))
        else:
            write_entries(path, entry_document(documents[part.key], part.key, tables[part.key]), part.key)
    return 0


def _path(engine: str, key: str) -> Path:
    return _FOLDER / f"{engine}_{_FILES[key]}.json"


def _load(engine: str, part: _Part) -> dict[str, Any]:
    path = _path(engine, part.key)
    if not path.is_file():
        return {"engine": engine, "source": part.source, "renamed": {}, "releases": [], part.key: {}}
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return document


def _open(path: Path) -> Distribution:
    return Folder(path) if path.is_dir() else Wheel(path)


def _changes(key: str, before: Table, after: Table) -> list[str]:
    """What differs between the table as it stands and as it was read now."""
    dashes = "--" if key == "flags" else ""
    lines = [
        f"+ {dashes}{name} {after[name].get('kind', '')}".rstrip() for name in sorted(after.keys() - before.keys())
    ]
    lines += [f"- {dashes}{name}" for name in sorted(before.keys() - after.keys())]
    for name in sorted(after.keys() & before.keys()):
        old, new = before[name], after[name]
        parts = [
            f"{fact}: {json.dumps(old.get(fact))[:60]} → {json.dumps(new.get(fact))[:60]}"
            for fact in sorted({*old, *new})
            if old.get(fact) != new.get(fact) or (fact in old) != (fact in new)
        ]
        if parts:
            lines.append(f"~ {dashes}{name}: {'; '.join(parts)}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
