"""Options that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from planner.documents.document import Problem
    from planner.settings import Settings


class CannotRun(click.ClickException):
    """Something of the run itself is wrong (a rule, a name, a file to write): shown to people, exit code 2."""

    exit_code = 2


def shared(function: Any) -> Any:
    """``--config``, ``--accelerator``, ``--assume-accelerator``, ``--model-map``, ``--engine-version``, ``--output``."""
    for option in (
        click.option(
            "--config", type=click.Path(dir_okay=False), help="Settings file (default: the nearest planner.yaml)."
        ),
        click.option(
            "--accelerator", help="Check against this accelerator, whatever the manifest says (H100-80GB, L4 …)."
        ),
        click.option("--assume-accelerator", help="The accelerator where a manifest names none."),
        click.option(
            "--model-map",
            multiple=True,
            metavar="REFERENCE=ID",
            help="What a local path or a fine-tune is: /models/x=Qwen/Qwen3-8B.",
        ),
        click.option(
            "--engine-version",
            multiple=True,
            metavar="ENGINE=VERSION",
            help="The release to check against, whatever the image says (vllm=0.33.0).",
        ),
        click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out paths of folders that match."),
        click.option("--output", "-o", type=click.Path(dir_okay=False), help="Write to this file instead of stdout."),
    ):
        function = option(function)
    return function


def settings(
    config: str | None,
    accelerator: str | None,
    assume_accelerator: str | None,
    model_map: tuple[str, ...],
    engine_version: tuple[str, ...],
    exclude: tuple[str, ...],
) -> tuple[Settings, list[Problem]]:
    """``planner.yaml`` with the options laid over it, and what is wrong with the file.

    Raises click.BadParameter for an option that is no pair, or names an engine or a release that there is not.
    """
    from planner.settings import from_working_folder, load_config

    if config and not os.path.isfile(config):
        raise click.BadParameter(f"{config}: there is no such file", param_hint="--config")
    base, problems = load_config(config) if config else from_working_folder()
    versions = _releases(engine_version)
    mapped = _pairs(model_map, "--model-map")
    return (
        base.over_paths(
            accelerator=accelerator, assume_accelerator=assume_accelerator, models=mapped, engine_versions=versions
        )._replace(
            accelerator=accelerator or base.accelerator,
            assume_accelerator=assume_accelerator or base.assume_accelerator,
            models={**base.models, **mapped},
            engine_versions={**base.engine_versions, **versions},
            exclude=(*base.exclude, *exclude),
        ),
        problems,
    )


def _releases(values: tuple[str, ...]) -> dict[str, str]:
    """Engine → release of ``--engine-version``."""
    found = {name: value.removeprefix("v") for name, value in _pairs(values, "--engine-version").items()}
    if found:
        from planner.engines.dispatch import release_problem

        for problem in filter(None, (release_problem(name, release) for name, release in found.items())):
            raise click.BadParameter(problem, param_hint="--engine-version")
    return found


def _pairs(values: tuple[str, ...], option: str) -> dict[str, str]:
    pairs = {}
    for value in values:
        name, equals, target = value.partition("=")
        if not equals or not name or not target:
            raise click.BadParameter(f"{value!r} must read NAME=VALUE", param_hint=option)
        pairs[name] = target.lstrip("=")
    return pairs


def write(text: str, output: str | None) -> None:
    """Prints a report, or writes it to a file whole (never half a report beside an old one); ``-`` is standard output."""
    if output is None or output in ("-", "/dev/stdout"):
        click.echo(text, nl=False)
        return
    data = text.encode("utf-8", "backslashreplace")
    # A link is replaced, not followed: in a stranger's checkout it may lead anywhere.
    target = Path(output)
    temporary = target.with_name(f"{target.name[:200]}.{os.getpid()}.partial")
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(data)  # a pipe or a device
            return
        # Exclusive: whatever stands there already, a link of a stranger's checkout included, is not written through.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except (OSError, ValueError) as error:
        raise _cannot_write(output, error) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _cannot_write(output, error) from None


def _cannot_write(output: str, error: Exception) -> CannotRun:
    return CannotRun(f"cannot write {output}: {getattr(error, 'strerror', None) or error}")
