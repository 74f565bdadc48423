"""``planner catalog``: what is built in."""

from __future__ import annotations

import json

import click

from planner.cli.options import CannotRun


@click.command(name="catalog")
@click.argument("kind", type=click.Choice(("models", "accelerators")))
@click.argument("name", required=False)
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
def command(kind: str, name: str | None, format_: str) -> None:
    """List the models or accelerators that are known, or show those whose name holds NAME."""
    rows = _models(name) if kind == "models" else _accelerators(name)
    if format_ == "json":
        click.echo(json.dumps({"schema": "planner/v1", kind: rows}, indent=1))
        return
    if not rows:
        raise CannotRun(f"no {kind[:-1]} matches {name!r}")
    columns = list(rows[0])
    widths = {column: max(len(column), *(len(str(row[column])) for row in rows)) for column in columns}
    header: dict[str, object] = {column: column for column in columns}
    for row in (header, *rows):
        click.echo("  ".join(f"{row[column]!s:<{widths[column]}}" for column in columns).rstrip())
    click.echo(f"\n{len(rows)} {kind}")


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
