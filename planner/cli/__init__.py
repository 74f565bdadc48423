"""The command line: one module a command, loaded only when it runs."""

from __future__ import annotations

import gc
import os
import sys
from errno import ENOSPC
from typing import Any, NoReturn

#: command → what it is for; the module of the same name in this package has the click command ``command``.
COMMANDS = {
    "lint": "Check manifests: rule violations at the line that causes them.",
    "budget": "The GPU memory budget of every pod and rank, explained.",
    "suggest": "A configuration that keeps the progress reserve: a new manifest, or changes.",
    "simulate": "What the engine's scheduler does with a stream of requests.",
    "rules": "List the rules, or show one.",
    "catalog": "List the models and accelerators that are known.",
}


def main() -> None:
    """Entry point of the console scripts."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    # A run makes much and drops little: looking for cycles every 700 objects costs more than it gives back.
    gc.set_threshold(1_000_000, 20, 20)
    arguments = sys.argv[1:]
    try:
        if _is_plain_lint(arguments):
            from planner.cli.plain_lint import run

            _leave(run(arguments[1:]))
        from planner.cli.app import cli

        cli()
    except Exception as error:
        if isinstance(error, OSError) and error.errno == ENOSPC:  # nothing is written but the report
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            print(f"Error: the report could not be written: {error.strerror}", file=sys.stderr)
            sys.exit(2)
        # Python's own exit code for a crash is 1, which here means "findings"; a crash means "not checked".
        from traceback import print_exc

        print_exc()
        sys.exit(2)


def _leave(code: int) -> NoReturn:
    """Ends the process at once: taking the interpreter apart takes a tenth of the time of linting a manifest, and there
    is nothing that it would still have to close. (Not where standard output is broken: Python then says so itself.)"""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.exit(code)
    os._exit(code)


def _is_plain_lint(arguments: list[str]) -> bool:
    """Whether this is ``lint`` with nothing but paths, as hooks call it on every commit: it then runs without click,
    whose import takes as long as linting a manifest."""
    return arguments[:1] == ["lint"] and all(
        not argument.startswith("-") or argument in ("-", "--manifests-only") for argument in arguments[1:]
    )


def __getattr__(name: str) -> Any:
    """``planner.cli.cli``, the click group, without its import for those that do not need it."""
    if name == "cli":
        from planner.cli.app import cli

        return cli
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
