"""``planner catalog``: what is built in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import click

from planner.cli.options import CannotRun


@click.command(name="catalog")
@click.argument("kind", type=click.Choice(("models", "accelerators", "engines")))
@click.argument("names", nargs=-1, metavar="[NAME…]")
@click.option(
    "--diff", nargs=2, metavar="OLD NEW", default=None, help="Engines: what an upgrade from OLD to NEW changes."
)
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
def command(kind: str, names: tuple[str, ...], diff: tuple[str, str] | None, format_: str) -> None:
    """List the models or accelerators that are known, or show those whose name holds NAME; and the flags of engines.

    \b
    planner catalog models qwen3
    planner catalog engines vllm 0.11.0                  the flags of a release
    planner catalog engines vllm 0.11.0 kv-cache-dtype   one of them, with its choices
    planner catalog engines vllm --diff 0.10.2 0.11.0    what an upgrade changes
    """
    if kind == "engines":
        _engines(names, diff, format_)
        return
    if diff is not None or len(names) > 1:
        raise CannotRun(f"{kind} take one NAME and no --diff")
    name = names[0] if names else None
    rows = _models(name) if kind == "models" else _accelerators(name)
    if format_ == "json":
        click.echo(json.dumps({"schema": "planner/v1", kind: rows}, indent=1))
        return
    if not rows:
        raise CannotRun(f"no {kind[:-1]} matches {name!r}")
    _print(rows)
    click.echo(f"\n{len(rows)} {kind}")


def _print(rows: Sequence[Mapping[str, object]]) -> None:
    """Rows of the same columns, aligned; the last column may be as long as it is."""
    columns = list(rows[0])
    widths = {column: max(len(column), *(len(str(row[column])) for row in rows)) for column in columns}
    header: dict[str, object] = {column: column for column in columns}
    for row in (header, *rows):
        click.echo("  ".join(f"{row[column]!s:<{widths[column]}}" for column in columns).rstrip())


def _engines(names: tuple[str, ...], diff: tuple[str, str] | None, format_: str) -> None:
    from planner.engines.version import NEWEST_VLLM
    from planner.report import engine_tables

    if not names:
        raise CannotRun(f"name an engine: {' or '.join(engine_tables.ENGINES)}, such as: vllm {NEWEST_VLLM}")
    engine, *rest = names
    if engine not in engine_tables.ENGINES:
        raise CannotRun(f"no table of {engine!r}; there are tables of {' and '.join(engine_tables.ENGINES)}")
    if len(rest) > 2 or (diff is not None and rest):
        raise CannotRun("engines take an engine, a release and a flag, or an engine and --diff OLD NEW")
    try:
        if diff is not None:
            rows, note = engine_tables.difference_rows(engine, *diff)
            found = {"engine": engine, "before": diff[0], "after": diff[1], "changes": rows}
            total = f"{len(rows)} changes from {engine} {diff[0]} to {diff[1]}"
        else:
            release = rest[0] if rest else engine_tables.newest(engine)
            rows, note = engine_tables.release_rows(engine, release, rest[1] if len(rest) > 1 else "")
            variables = engine_tables.variable_names(engine, release)
            found = {"engine": engine, "release": release, "flags": rows, "variables": variables}
            count = f"{len(rows)} flag{'s' if len(rows) != 1 else ''}"
            total = f"{count} of {engine} {release}"
            # Early releases of SGLang read variables all over their code, and none is on record.
            total += f", which reads {len(variables)} variables of the environment" if variables else ""
    except engine_tables.NoSuchRelease as error:
        raise CannotRun(str(error)) from None
    if format_ == "json":
        click.echo(json.dumps({"schema": "planner/v1", **found, "note": note}, indent=1))
        return
    if len(rows) == 1 and diff is None:
        for key, value in rows[0].items():
            click.echo(f"{key + ':':<10}{value}".rstrip())
    elif rows:
        _print(rows)
    click.echo(f"\n{total}" + (f"\n{note}" if note else ""))


def _models(name: str | None) -> list[dict[str, object]]:
    from planner import catalog
    from planner.models.architecture import UnknownModel
    from planner.models.resolve import resolve

    rows: list[dict[str, object]] = []
    for model_id in map(catalog.spelled, catalog.model_keys()):
        if name and name.lower() not in model_id.lower():
            continue
        try:
            found = resolve(model_id).architecture
        except UnknownModel:
            continue
        rows.append(
            {
                "id": found.id,
                "architecture": found.architecture,
                "parameters": f"{found.parameters / 1e9:.2f}B",
                "layers": found.num_layers,
                "max_length": found.derived_max_len,
                "quantization": found.quantization or "-",
            }
        )
    return rows


def _accelerators(name: str | None) -> list[dict[str, object]]:
    from planner.accelerators.catalog import all_accelerators
    from planner.units import format_gib

    return [
        {
            "name": accelerator.name,
            "vendor": accelerator.vendor,
            "memory": format_gib(accelerator.memory.expected),
            "basis": accelerator.memory.basis,
            "capability": ".".join(map(str, accelerator.capability)) if accelerator.capability else accelerator.arch,
        }
        for accelerator in all_accelerators()
        if not name or name.lower() in accelerator.name.lower()
    ]
