"""``planner lint``: rule violations at the line that causes them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from planner.cli.options import CannotRun, settings, shared, write
from planner.report.formats import MODULES
from planner.report.formats import render as report

if TYPE_CHECKING:
    from planner.documents.document import Problem
    from planner.settings import Settings


@click.command(name="lint")
@click.argument("paths", nargs=-1, metavar="[PATH…|-]")
@click.option("--format", "format_", type=click.Choice(tuple(MODULES)), help="[default: text]")
@click.option(
    "--fail-on", type=click.Choice(("info", "warning", "error")), help="Exit 1 from this severity on.  [default: error]"
)
@click.option(
    "--strict",
    is_flag=True,
    help="Exit 2 where a rule could not be evaluated for want of a fact, 1 for suppressions and baseline entries without "
    "a finding.",
)
@click.option("--select", multiple=True, metavar="RULE", help="Only these rules or categories.")
@click.option("--ignore", multiple=True, metavar="RULE", help="Not these rules or categories.")
@click.option(
    "--rules", "rule_folders", multiple=True, type=click.Path(), metavar="DIR", help="More rules, of your own."
)
@click.option(
    "--baseline",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Findings that are known and do not fail the run.",
)
@click.option(
    "--write-baseline",
    is_flag=True,
    help="Write what is found to the baseline (default: planner-baseline.json) and fail for nothing of it.",
)
@click.option(
    "--render", is_flag=True, help="Render kustomizations (kustomize or kubectl) and charts (helm); nothing is fetched."
)
@click.option(
    "--values",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Values for --render of charts.",
)
@click.option("--fix", "fix", is_flag=True, help="Make the safe fixes of rules in the files, then report what is left.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: also those that a person has to look at.")
@click.option("--diff", "diff", is_flag=True, help="Show what --fix would change, and change nothing.")
@click.option("--manifests-only", is_flag=True, help="Pass over files that hold no Kubernetes object (pre-commit).")
@click.option("--color/--no-color", default=None, help="Colours; by default where stdout is a terminal.")
@click.option("--quiet", "-q", is_flag=True, help="Do not list what could not be evaluated.")
@shared
def command(
    paths: tuple[str, ...],
    format_: str | None,
    fail_on: str | None,
    strict: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    rule_folders: tuple[str, ...],
    baseline: str | None,
    write_baseline: bool,
    render: bool,
    values: tuple[str, ...],
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
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

    if values and not render:
        raise click.UsageError("--values are for charts, which are rendered with --render only")
    rendering = values if render else None
    configured, config_problems = settings(**options)
    configured = configured.over_paths(select=select)._replace(
        select=select or configured.select,
        ignore=(*configured.ignore, *ignore),
        fail_on=fail_on or configured.fail_on,
        strict=strict or configured.strict,
        rules=(*configured.rules, *rule_folders),
        baseline=baseline or configured.baseline,
    )
    manifests_only = manifests_only or configured.manifests_only
    if write_baseline:
        _write_baseline(paths, configured, config_problems, manifests_only, rendering)
    format_ = format_ or configured.format or "text"
    try:
        if unsafe_fixes and not (fix or diff):
            raise click.UsageError("--unsafe-fixes goes with --fix or --diff")
        if render and (fix or diff):
            raise click.UsageError("what --render makes is no file to fix: leave one of the two out")
        if fix or diff:
            from planner.cli.lint_fix import run as fixed

            result = fixed(paths, configured, config_problems, manifests_only, unsafe_fixes, diff, output)
        elif format_ == "json" and not render:
            from planner.cli.lint_fix import with_edits

            result = with_edits(paths, configured, config_problems, manifests_only)
        else:
            result = lint_paths(paths, configured, config_problems, manifests_only, rendering)
    except BrokenRule as error:
        raise CannotRun(str(error)) from None
    if diff:
        sys.exit(result.exit_code)
    if color is None:
        color = configured.color
    if color is None:
        color = format_ == "text" and output is None and sys.stdout.isatty()
    if format_ != "text" or output is not None or result.worth_a_word(manifests_only):
        write(report(result, format_, color, quiet or configured.quiet), output)
    sys.exit(result.exit_code)


def _write_baseline(
    paths: tuple[str, ...],
    configured: Settings,
    problems: list[Problem],
    manifests_only: bool,
    rendering: tuple[str, ...] | None,
) -> NoReturn:
    """Makes everything that a run finds known. What it could not check is said, and is no part of the baseline."""
    from planner.lint.baseline import DEFAULT_NAME, text_of
    from planner.lint.rule import BrokenRule
    from planner.lint.run import lint_paths
    from planner.report.text import problem_line

    path = configured.baseline or DEFAULT_NAME
    old = path if os.path.lexists(path) else ""
    try:
        result = lint_paths(paths, configured._replace(baseline=old), problems, manifests_only, rendering)
    except BrokenRule as error:
        raise CannotRun(str(error)) from None
    for problem in result.problems:
        click.echo(problem_line(problem), err=True)
    text, count = text_of((*result.findings, *result.baselined), result.baseline_kept, path)
    write(text, path)
    click.echo(f"{path}: {count} finding{'' if count == 1 else 's'} known from now on")
    sys.exit(2 if result.problems else 0)
