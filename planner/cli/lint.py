"""``planner lint``: rule violations at the line that causes them."""

from __future__ import annotations

import sys
from typing import Any

import click

from planner.cli.options import CannotRun, settings, shared, write
from planner.report.formats import MODULES, render


@click.command(name="lint")
@click.argument("paths", nargs=-1, metavar="[PATH…|-]")
@click.option("--format", "format_", type=click.Choice(tuple(MODULES)), default="text", show_default=True)
@click.option(
    "--fail-on", type=click.Choice(("info", "warning", "error")), help="Exit 1 from this severity on.  [default: error]"
)
@click.option("--strict", is_flag=True, help="Exit 2 where a rule could not be evaluated for want of a fact.")
@click.option("--select", multiple=True, metavar="RULE", help="Only these rules or categories.")
@click.option("--ignore", multiple=True, metavar="RULE", help="Not these rules or categories.")
@click.option(
    "--rules", "rule_folders", multiple=True, type=click.Path(), metavar="DIR", help="More rules, of your own."
)
@click.option("--manifests-only", is_flag=True, help="Pass over files that hold no Kubernetes object (pre-commit).")
@click.option("--color/--no-color", default=None, help="Colours; by default where stdout is a terminal.")
@click.option("--quiet", "-q", is_flag=True, help="Do not list what could not be evaluated.")
@shared
def command(
    paths: tuple[str, ...],
    format_: str,
    fail_on: str | None,
    strict: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    rule_folders: tuple[str, ...],
    manifests_only: bool,
    color: bool | None,
    quiet: bool,
    output: str | None,
    **options: Any,
) -> None:
    """Check the manifests in PATHs: files, folders, globs, or - for standard input (default: the current folder).

    \b
    planner lint deploy/
    helm template my-chart | planner lint -
    planner lint --accelerator L4 --format sarif -o planner.sarif k8s/
    """
    from planner.lint.rule import BrokenRule
    from planner.lint.run import lint_paths

    configured, config_problems = settings(**options)
    configured = configured._replace(
        select=select or configured.select,
        ignore=(*configured.ignore, *ignore),
        fail_on=fail_on or configured.fail_on,
        strict=strict or configured.strict,
        rules=(*configured.rules, *rule_folders),
    )
    try:
        result = lint_paths(paths, configured, config_problems, manifests_only)
    except BrokenRule as error:
        raise CannotRun(str(error)) from None
    if color is None:
        color = format_ == "text" and output is None and sys.stdout.isatty()
    if format_ != "text" or output is not None or result.worth_a_word(manifests_only):
        write(render(result, format_, color, quiet), output)
    sys.exit(result.exit_code)
