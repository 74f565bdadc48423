"""``planner suggest``: a configuration that keeps the progress reserve: a new manifest, or changes to old ones."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from planner.cli.options import CannotRun, settings, write

if TYPE_CHECKING:
    from planner.settings import Settings

FORMATS = ("text", "json")


@click.command(name="suggest")
@click.argument("arguments", nargs=-1, metavar="[PATH…|-] | -- ENGINE FLAGS…")
@click.option("--model", help="New deployment: a hub id.")
@click.option("--accelerator", multiple=True, help="The GPU to run on; several are compared.")
@click.option(
    "--engine", metavar="vllm==VERSION", help="New deployment: the release.  [default: the newest that has the model]"
)
@click.option("--concurrency", type=click.IntRange(1), help="New deployment: requests in flight at a time.")
@click.option("--requests-per-second", type=click.FloatRange(0, min_open=True), help="… or their rate.")
@click.option("--seconds-per-token", type=click.FloatRange(0, min_open=True), help="With a rate: of one output token.")
@click.option("--prompt-tokens", metavar="LENGTHS", help="New deployment: p50=800,p95=4000,max=16000.")
@click.option("--output-tokens", metavar="LENGTHS", help="New deployment: p50=200,p95=800,max=2000.")
@click.option("--shared-prefix-tokens", type=click.IntRange(0), help="Tokens that all prompts begin with.")
@click.option(
    "--risk", type=click.FloatRange(0, 0.5, min_open=True), help="Accepted risk of a preemption.  [default: 0.01]"
)
@click.option(
    "--policy",
    type=click.Choice(("next-step", "finish-longest", "quantile", "worst-case")),
    help="The reserve to keep.  [default: the larger of finish-longest and quantile]",
)
@click.option("--max-model-len", type=click.IntRange(16), help="[default: the longest prompt and output]")
@click.option("--max-gpus", type=click.IntRange(1), help="GPUs in all.")
@click.option("--gpus-per-node", type=click.IntRange(1, 64), help="[default: those of known machine types]")
@click.option("--max-pods", type=click.IntRange(1, 8), default=8, show_default=True, help="Pods of one engine copy.")
@click.option("--name", help="New deployment: name of the objects.  [default: the model's]")
@click.option("--namespace", help="New deployment: their namespace.")
@click.option("--keep", multiple=True, metavar="FLAG", help="With PATHs: do not touch this flag.")
@click.option("--write", "write_", is_flag=True, help="With PATHs: apply the changes to the files.")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--config", type=click.Path(dir_okay=False), help="Settings file (default: the nearest planner.yaml).")
@click.option("--assume-accelerator", help="With PATHs: the accelerator where a manifest names none.")
@click.option("--model-map", multiple=True, metavar="REFERENCE=ID", help="What a local path or a fine-tune is.")
@click.option(
    "--engine-version", multiple=True, metavar="ENGINE=VERSION", help="The release where the image does not tell."
)
@click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out paths of folders that match.")
@click.option("--output", "-o", type=click.Path(dir_okay=False), help="Write to this file instead of stdout.")
def command(
    arguments: tuple[str, ...],
    accelerator: tuple[str, ...],
    keep: tuple[str, ...],
    write_: bool,
    format_: str,
    output: str | None,
    config: str | None,
    assume_accelerator: str | None,
    model_map: tuple[str, ...],
    engine_version: tuple[str, ...],
    exclude: tuple[str, ...],
    **wanted: Any,
) -> None:
    """A configuration that keeps the progress reserve, on the fewest GPUs: a new manifest, or changes to manifests.

    The manifest goes to standard output, ready for kubectl; the reasons for it go to standard error.

    \b
    planner suggest --model Qwen/Qwen3-8B --accelerator L4 --accelerator H100-80GB --concurrency 32 \\
        --prompt-tokens p50=800,p95=4000,max=16000 --output-tokens p50=200,p95=800,max=2000 > llm.yaml
    planner suggest deploy/ --keep max-model-len --write

    Exit codes: 0 a suggestion, 1 none exists (it says why), 2 something could not be checked.
    """
    one = accelerator[0] if len(accelerator) == 1 else None
    configured, problems = settings(config, one, assume_accelerator, model_map, engine_version, exclude)
    if wanted["model"] is None:
        if len(accelerator) > 1:
            raise click.UsageError("several accelerators are compared for a new deployment only: --model")
        if not arguments:
            raise click.UsageError("name manifests (planner suggest deploy/), or a new deployment with --model")
        from planner.cli.suggest_files import run

        sys.exit(
            run(
                arguments,
                keep=keep,
                write=write_,
                settings=configured,
                format=format_,
                output=output,
                problems=problems,
            )
        )
    if keep or write_:
        raise click.UsageError("--keep and --write belong to manifests: name their PATHs, without --model")
    if problems:
        raise CannotRun("; ".join(f"{problem.position}: {problem.message}" for problem in problems))
    sys.exit(_new(arguments, accelerator, format_, output, configured, wanted))


def _new(
    fixed: tuple[str, ...],
    accelerators: tuple[str, ...],
    format_: str,
    output: str | None,
    configured: Settings,
    options: dict[str, Any],
) -> int:
    from planner.lint.rule import BrokenRule
    from planner.suggest.deployment import suggest
    from planner.suggest.wanted import CannotSuggest, Wanted

    if fixed and not fixed[0].startswith("-"):
        raise click.UsageError(f"{fixed[0]!r}: a new deployment takes engine flags behind --, and no paths")
    wanted = Wanted(
        model=options["model"],
        accelerators=accelerators,
        workload=_workload(configured, options),
        settings=configured,
        release=_release(options["engine"]),
        length=options["max_model_len"] or 0,
        most_gpus=options["max_gpus"] or 0,
        gpus_per_node=options["gpus_per_node"] or 0,
        most_pods=options["max_pods"],
        fixed=fixed,
        name=_label(options["name"], "--name"),
        namespace=_label(options["namespace"], "--namespace"),
    )
    try:
        answers = suggest(wanted)
    except (CannotSuggest, BrokenRule) as error:
        raise CannotRun(str(error)) from None
    from planner.suggest.explain import as_json, render_text

    if format_ == "json":
        write(json.dumps(as_json(answers), indent=1, ensure_ascii=True) + "\n", output)
    else:
        click.echo(render_text(answers), nl=False, err=True)
        if answers[0].choice is not None:
            write(answers[0].manifest, output)
    return 0 if answers[0].choice is not None else 1


def _workload(configured: Settings, options: dict[str, Any]) -> dict[str, Any]:
    """The demand of ``planner.yaml`` with the options laid over it."""
    names = (
        "concurrency",
        "requests_per_second",
        "seconds_per_token",
        "prompt_tokens",
        "output_tokens",
        "shared_prefix_tokens",
        "risk",
        "policy",
    )
    demand = {name.replace("-", "_"): value for name, value in configured.workload.items()}
    if options["concurrency"] is not None and options["requests_per_second"] is not None:
        raise click.UsageError("--concurrency and --requests-per-second say the same in two ways: give one")
    given = {name: options[name] for name in names if options[name] is not None}
    if "concurrency" in given or "requests_per_second" in given:
        demand.pop("concurrency", None)
        demand.pop("requests_per_second", None)
    if "prompt_tokens" in given or "output_tokens" in given:
        demand.pop("trace", None)
    return {**demand, **given}


def _release(engine: str | None) -> str:
    name, _, version = (engine or "").partition("==")
    if engine and name.strip().lower() != "vllm":
        raise click.BadParameter(f"{name!r}: only vLLM's scheduler is known", param_hint="--engine")
    return version.strip().removeprefix("v")


def _label(text: str | None, option: str) -> str:
    """A name that Kubernetes takes for a Service (RFC 1035) and with a suffix for the others."""
    import re

    if text is not None and not re.fullmatch(r"[a-z](?:[a-z0-9-]{0,50}[a-z0-9])?", text):
        raise click.BadParameter(f"{text[:60]!r} must be lower-case letters, digits and hyphens", param_hint=option)
    return text or ""
