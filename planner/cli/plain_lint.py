"""``planner lint PATH…`` without options: what ``planner.cli.lint`` does, without the import of click."""

from __future__ import annotations

import os
import sys


def run(arguments: list[str]) -> int:
    """Lints the paths among ``arguments`` (``--manifests-only`` may stand among them) and prints text; the exit code."""
    from planner.lint.rule import BrokenRule
    from planner.lint.run import lint_paths
    from planner.report.formats import render
    from planner.settings import from_working_folder

    manifests_only = "--manifests-only" in arguments
    paths = [argument for argument in arguments if argument != "--manifests-only"]
    settings, problems = from_working_folder()
    manifests_only = manifests_only or settings.manifests_only
    format_ = settings.format or "text"
    try:
        if format_ == "json":
            from planner.cli.lint_fix import with_edits

            result = with_edits(paths, settings, problems, manifests_only)
        else:
            result = lint_paths(paths, settings, problems, manifests_only)
    except BrokenRule as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    try:
        if format_ != "text" or result.worth_a_word(manifests_only):
            color = sys.stdout.isatty() if settings.color is None else settings.color
            sys.stdout.write(render(result, format_, color, settings.quiet))
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough; Python would complain once more while it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return result.exit_code
