"""The click group of all commands."""

from __future__ import annotations

from importlib import import_module

import click

from planner import __version__
from planner.cli import COMMANDS


class _Lazy(click.Group):
    """A group that imports a command's module when the command is called for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"planner.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="planner (kv-planner)")
def cli() -> None:
    """Lint Kubernetes manifests of LLM inference engines and plan their GPU memory, without a GPU.

    Exit codes: 0 clean, 1 findings at or above --fail-on, 2 something could not be checked.
    """
