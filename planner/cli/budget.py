"""``planner budget``: the memory of every pod and rank, term by term."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from planner.cli.options import CannotRun, settings, shared, write

if TYPE_CHECKING:
    from planner.plan import Plan
    from planner.settings import Settings


@click.command(name="budget")
@click.argument("arguments", nargs=-1, metavar="[PATH…|-] | -- ENGINE FLAGS…")
@click.option("--engine", help="Without a manifest: the engine and its release, vllm==0.11.0.")
@click.option("--model", help="Without a manifest: a hub id, a folder with config.json, or a config.json.")
@click.option("--gpus", type=click.IntRange(1, 100_000), help="Without a manifest: GPUs of the engine.")
@click.option(
    "--pods", type=click.IntRange(1, 10_000), default=1, help="Without a manifest: pods that the GPUs are spread over."
)
@click.option(
    "--kv-cache-memory",
    type=click.IntRange(0),
    metavar="BYTES",
    help="Take this as the memory available for the KV cache of each rank.",
)
@click.option(
    "--workload",
    metavar="TEXT",
    help="The demand, as planner/workload has it (JSON or YAML), whatever the manifest says.",
)
@click.option(
    "--trace",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Requests that are the demand: JSON lines or CSV (Azure traces as they are); dates and times give their rate.",
)
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--explain", is_flag=True, help="Every term: formula, numbers, sources, and what makes it grow.")
@click.option("--strict", is_flag=True, help="Exit 2 where a budget could not be worked out for want of a fact.")
@shared
def command(
    arguments: tuple[str, ...],
    engine: str | None,
    model: str | None,
    gpus: int | None,
    pods: int,
    kv_cache_memory: int | None,
    workload: str | None,
    trace: str | None,
    format_: str,
    explain: bool,
    strict: bool,
    output: str | None,
    **options: Any,
) -> None:
    """The GPU memory budget of manifests, or of a configuration given by options and engine flags.

    \b
    planner budget deploy/llama.yaml --explain
    planner budget --engine vllm==0.11.0 --model Qwen/Qwen3-8B --accelerator L4 -- --max-model-len 8192
    """
    configured, problems = settings(**options)
    if engine is not None or model is not None:
        plans = _from_options(engine or "vllm", model, gpus, pods, kv_cache_memory, arguments, configured)
    else:
        from planner.documents.inputs import read_inputs
        from planner.plan import plan_files

        files = list(read_inputs(arguments or (".",), configured.exclude))
        project = plan_files(files, configured, kv_cache_memory=kv_cache_memory)
        plans = list(project.plans)
        problems = [*problems, *project.problems]
    if workload is not None or trace is not None:
        plans = _with_demand(plans, workload, trace)
    from planner.report import budget as report

    write(
        report.render_json(plans, problems) if format_ == "json" else report.render_text(plans, problems, explain),
        output,
    )
    undecided = any(plan.unknown and plan.verdict == "unknown" for plan in plans)
    sys.exit(2 if problems or (strict and undecided) else 0)


def _with_demand(plans: list[Plan], workload: str | None, trace: str | None) -> list[Plan]:
    """The plans with the demand of the options, which comes before what manifests and settings state."""
    from planner.admission.workload import BadWorkload, read_workload
    from planner.facts.demand import demand, parsed
    from planner.record import replace

    try:
        stated = parsed(workload) if workload is not None else {}
        read_workload(stated, 1 << 20)
    except BadWorkload as error:
        raise click.BadParameter(str(error), param_hint="--workload") from None
    source = "--workload" if workload is not None else "--trace"
    if trace is not None:
        stated = {**stated, "trace": trace}
    plans = [replace(plan, demand=(stated, source)) for plan in plans]
    for plan in plans:
        gap = demand(plan)[1]
        if gap is not None:
            raise CannotRun(gap.reason)
    return plans


def _from_options(
    engine: str,
    model: str | None,
    gpus: int | None,
    pods: int,
    kv_cache_memory: int | None,
    flags: tuple[str, ...],
    configured: Settings,
) -> list[Plan]:
    """A plan without a manifest: options say what a manifest would."""
    from planner.engines.config import EngineConfig
    from planner.engines.dispatch import engine_modules
    from planner.plan import Plan, complete, newest
    from planner.provenance import Fact, Provenance, assumed

    name, _, version = engine.partition("==")
    name = name.strip().lower()
    option = Provenance("option", "--model")
    reference = Fact(model, option) if model else None
    count = Fact(max(1, gpus // pods), Provenance("option", "--gpus")) if gpus else None
    modules = engine_modules(name)
    if modules is None:
        config = EngineConfig(name, assumed(version, "--engine"), (), reference, {})
    else:
        release = (version or {**configured.default_versions, **configured.engine_versions}.get(name, "")).removeprefix(
            "v"
        )
        stated = Fact(release, Provenance("option", "--engine")) if release else newest(modules)
        platform = _platform(configured.accelerator or configured.assume_accelerator)
        config = modules.parse_argv(list(flags), version=stated, model=reference, platform=platform)
    base = Plan(engine=config, gpus_per_pod=count, pods=pods)
    return list(
        complete(
            base, configured, configured.models, None, kv_cache_memory=kv_cache_memory, allow_local=model is not None
        )
    )


def _platform(accelerator: str) -> str:
    """The vLLM platform of an accelerator: AMD's is another build of the engine."""
    from planner.accelerators.labels import from_name

    found = from_name(accelerator).accelerators if accelerator else ()
    vendors = {candidate.vendor for candidate in found}
    known = {
        "nvidia": "cuda",
        "amd": "rocm",
        "intel": "xpu",
        "google": "tpu",
        "habana": "gaudi",
        "aws": "neuron",
        "huawei": "ascend",
    }
    return known.get(next(iter(vendors)), "cuda") if len(vendors) == 1 else "cuda"
