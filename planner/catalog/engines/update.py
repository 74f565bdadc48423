"""Makes the flag tables: ``python -m planner.catalog.engines.update vllm 0.33.0``.

Reads the argument definitions and environment variables out of a release's wheel (by range requests; nothing is installed,
imported or run), puts them into the tables of this folder and says what changed. The diff of the files is what there is to
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

from planner.catalog.engines import sglang_arguments, vllm_arguments
from planner.catalog.engines.definition import NoArguments
from planner.catalog.engines.distribution import Distribution, Folder, NotPublished, Wheel, remote_wheel
from planner.catalog.engines.table import (
    Table,
    flag_document,
    flag_tables,
    variable_document,
    variable_tables,
    write_flags,
    write_variables,
)
from planner.engines.version import is_version

_FOLDER = Path(__file__).parent


class _Engine(NamedTuple):
    """How an engine's release is read."""

    package: str
    arguments: Callable[[Distribution], Table]
    variables: Callable[[Distribution], tuple[str, ...]]


ENGINES = {
    "vllm": _Engine("vllm", vllm_arguments.read_arguments, vllm_arguments.read_variables),
    "sglang": _Engine("sglang", sglang_arguments.read_arguments, sglang_arguments.read_variables),
}


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0; 1 where ``--check`` found a difference; 2 where a release could not be read."""
    parser = argparse.ArgumentParser(prog="python -m planner.catalog.engines.update", description=__doc__)
    parser.add_argument("engine", choices=sorted(ENGINES))
    parser.add_argument("releases", nargs="+", metavar="RELEASE", help="0.33.0, or all: those of the tables")
    parser.add_argument("--from", dest="folder", type=Path, help="an unpacked distribution, or a wheel, on disk")
    parser.add_argument("--check", action="store_true", help="compare only")
    options = parser.parse_args(arguments)
    engine = ENGINES[options.engine]
    flags_file, variables_file = (_FOLDER / f"{options.engine}_{what}.json" for what in ("flags", "variables"))
    document = _load(flags_file, {"engine": options.engine, "releases": [], "renamed": {}, "flags": {}})
    variables = _load(
        variables_file,
        {
            "engine": options.engine,
            "source": "the module of a release that reads environment variables",
            "releases": [],
            "variables": {},
        },
    )
    releases = document["releases"] if options.releases == ["all"] else options.releases
    if not all(is_version(release) for release in releases):
        parser.error("a release is a number such as 0.33.0")
    tables, reads = flag_tables(document), variable_tables(variables)
    read_variables: dict[str, tuple[str, ...]] = {}
    different = False
    for release in releases:
        try:
            distribution = _open(options.folder) if options.folder else remote_wheel(engine.package, release)
            table, names = engine.arguments(distribution), engine.variables(distribution)
        except (NoArguments, NotPublished, OSError) as error:
            print(f"{options.engine} {release}: {error}", file=sys.stderr)
            return 2
        changes = [*_changes(tables.get(release, {}), table), *_variable_changes(reads.get(release, ()), names)]
        different = different or bool(changes)
        print(f"{options.engine} {release}: {len(table)} flags, {len(names)} variables, {len(changes)} changes")
        for change in changes:
            print(f"  {change}")
        tables[release] = table
        read_variables[release] = names
    if options.check:
        return int(different)
    write_flags(flags_file, flag_document(document, tables))
    write_variables(variables_file, variable_document(variables, read_variables, sorted(tables)))
    return 0


def _load(path: Path, empty: dict[str, Any]) -> dict[str, Any]:
    if not path.is_file():
        return empty
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return document


def _open(path: Path) -> Distribution:
    return Folder(path) if path.is_dir() else Wheel(path)


def _changes(before: Table, after: Table) -> list[str]:
    """What differs between the table as it stands and as it was read now."""
    lines = [f"+ --{name} ({after[name]['kind']})" for name in sorted(after.keys() - before.keys())]
    lines += [f"- --{name}" for name in sorted(before.keys() - after.keys())]
    for name in sorted(after.keys() & before.keys()):
        old, new = before[name], after[name]
        parts = [
            f"{key}: {json.dumps(old.get(key))[:60]} → {json.dumps(new.get(key))[:60]}"
            for key in sorted({*old, *new})
            if old.get(key) != new.get(key) or (key in old) != (key in new)
        ]
        if parts:
            lines.append(f"~ --{name}: {'; '.join(parts)}")
    return lines


def _variable_changes(before: tuple[str, ...], after: tuple[str, ...]) -> list[str]:
    return [f"+ {name}" for name in sorted({*after} - {*before})] + [
        f"- {name}" for name in sorted({*before} - {*after})
    ]


if __name__ == "__main__":
    sys.exit(main())
