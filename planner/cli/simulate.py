"""``planner simulate``: what the engine's scheduler does with a stream of requests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from planner.cli.options import CannotRun, settings, shared, write

if TYPE_CHECKING:
    from planner.admission.scheduler import Requests, Scheduler
    from planner.admission.trace import Trace
    from planner.admission.workload import Workload
    from planner.plan import Plan

#: how long a step of the engine takes where the user does not say it: many decode at 20 to 50 ms
_STEP_SECONDS = 0.03
_DEFAULTS = {"block_size": 16, "max_num_seqs": 256, "max_num_batched_tokens": 8192}


@click.command(name="simulate")
@click.argument("paths", nargs=-1, metavar="[PATH…|-]")
@click.option(
    "--trace",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help='Requests, one a line: {"arrival": 0, "prompt_tokens": 800, "output_tokens": 200}, or CSV (Azure traces as they are).',
)
@click.option(
    "--arrival-unit",
    type=click.Choice(("step", "seconds")),
    help="What arrivals count: engine steps, or seconds.  [default: step; seconds where they are dates]",
)
@click.option(
    "--workload", metavar="TEXT", help="Without a trace: a workload, as planner/workload has it (JSON or YAML)."
)
@click.option(
    "--requests", type=click.IntRange(1, 1_000_000), default=1000, show_default=True, help="Requests to draw."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Which requests are drawn.")
@click.option("--num-blocks", type=click.IntRange(2), help="Blocks of the KV cache, the null block among them.")
@click.option("--block-size", type=click.IntRange(1), help="Tokens in a block.  [default: 16]")
@click.option("--max-num-seqs", type=click.IntRange(1), help="[default: 256]")
@click.option("--max-num-batched-tokens", type=click.IntRange(1), help="[default: 8192]")
@click.option("--max-model-len", type=click.IntRange(2), help="[default: as long as the cache holds]")
@click.option(
    "--watermark", type=click.FloatRange(0, 1, max_open=True), help="Share of the blocks kept free at admission."
)
@click.option(
    "--reserve-full-isl/--no-reserve-full-isl",
    default=None,
    help="Admit a request only when its whole prompt fits (vLLM from 0.19.0 on), or when its first chunk does.",
)
@click.option(
    "--prefix-caching/--no-prefix-caching",
    default=None,
    help="Reuse blocks of common prefixes and lost work.  [default: no]",
)
@click.option("--lookahead-tokens", type=click.IntRange(0, 1000), help="Slots for speculative tokens.  [default: 0]")
@click.option(
    "--step-seconds",
    type=click.FloatRange(0, min_open=True),
    help=f"How long a step takes, for arrivals in seconds.  [default: {_STEP_SECONDS}, assumed]",
)
@click.option("--prefill-rate", type=click.FloatRange(0, min_open=True), help="Prompt tokens computed in a second.")
@click.option("--engine", default="vllm", metavar="vllm==VERSION", help="The release whose scheduler is followed.")
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
@shared
def command(
    paths: tuple[str, ...],
    trace: str | None,
    arrival_unit: str | None,
    workload: str | None,
    requests: int,
    seed: int,
    num_blocks: int | None,
    step_seconds: float | None,
    prefill_rate: float | None,
    engine: str,
    format_: str,
    output: str | None,
    config: str | None,
    accelerator: str | None,
    assume_accelerator: str | None,
    model_map: tuple[str, ...],
    engine_version: tuple[str, ...],
    exclude: tuple[str, ...],
    **options: Any,
) -> None:
    """Run requests through the engine's scheduler: steps, preemptions, blocks in use over time.

    The requests come from a trace or are drawn from a workload; the engine's settings from options, or from the first
    engine in the manifests at PATH.

    \b
    planner simulate --trace requests.jsonl --num-blocks 4384 --max-model-len 8192
    planner simulate deploy/llama.yaml --requests 5000
    """
    from planner.admission.scheduler import Impossible, simulate
    from planner.report import simulation

    found = _read(trace) if trace else None
    timed = found.timed if found else False
    if arrival_unit == "step" and timed:
        raise click.BadParameter("the trace has dates and times: they count seconds", param_hint="--arrival-unit")
    notes: list[str] = []
    plan = None
    if paths:
        configured, problems = settings(config, accelerator, assume_accelerator, model_map, engine_version, exclude)
        plan = _plan(paths, configured, [problem.message for problem in problems], notes)
        base = _of_plan(plan, num_blocks)
    elif num_blocks is None:
        raise click.UsageError("--num-blocks is missing (or a PATH to manifests, from which it is worked out)")
    else:
        base = _of_options(engine, num_blocks, options, notes)
    # Options stand above what a manifest says.
    names = {"reserve_full_isl": "reserve_full_input", "lookahead_tokens": "lookahead"}
    scheduler = base._replace(**{names.get(name, name): value for name, value in options.items() if value is not None})
    demand = None
    if found is not None:
        stream = found.requests
    else:
        demand = _demand(workload, plan, scheduler)
        stream, scheduler = _draw(demand, scheduler, requests, seed, plan)
        notes.append(f"{requests:,} requests drawn from: {demand.describe()} ({demand.source})")
        timed = demand.concurrency is None and demand.rate is not None
    if timed or arrival_unit == "seconds":
        seconds = step_seconds or (demand.seconds_per_token if demand else None)
        if seconds is None:
            notes.append(f"a step takes {_STEP_SECONDS} s: assumed, --step-seconds says it")
        scheduler = scheduler._replace(
            step_seconds=seconds or _STEP_SECONDS, prefill_seconds=1 / prefill_rate if prefill_rate else 0.0
        )
    try:
        with _progress(len(stream.prompts)) as tick:
            outcome = simulate(stream, scheduler, progress=tick, timeline=format_ == "text")
    except Impossible as error:
        raise CannotRun(str(error)) from None
    if format_ == "json":
        write(simulation.render_json(outcome), output)
    else:
        write(
            simulation.render_text(outcome, scheduler, tuple(notes), plain=output is None and not _draws_blocks()),
            output,
        )


def _read(path: str) -> Trace:
    from planner.admission.trace import BadTrace, read_trace

    try:
        with click.open_file(path, encoding="utf-8", errors="replace") as lines:
            return read_trace(lines, path)
    except BadTrace as error:
        raise CannotRun(str(error)) from None
    except OSError as error:
        raise CannotRun(f"cannot read {path}: {error.strerror or error}") from None


def _plan(paths: tuple[str, ...], configured: Any, problems: list[str], notes: list[str]) -> Plan:
    """The first plan of the manifests whose cache is known."""
    from planner.documents.inputs import read_inputs
    from planner.plan import plan_files

    project = plan_files(list(read_inputs(paths, configured.exclude)), configured)
    known = [plan for plan in project.plans if plan.budget is not None and plan.budget.capacity is not None]
    if not known:
        reasons = [gap.reason for plan in project.plans for gap in plan.unknown]
        reasons += problems + [problem.message for problem in project.problems]
        raise CannotRun("no engine whose KV cache is known: " + (reasons[0] if reasons else "no engine found"))
    plan = known[0]
    where = f"{plan.workload.kind}/{plan.workload.name}" if plan.workload else "the first engine"
    device = f" on {plan.accelerator.name}" if plan.accelerator else ""
    notes.append(
        f"engine settings of {where} ({plan.position}){device}" + (", the first of several" if known[1:] else "")
    )
    return plan


def _of_plan(plan: Plan, num_blocks: int | None) -> Scheduler:
    from planner.admission.scheduler import Scheduler
    from planner.facts.demand import cache

    capacity = plan.budget.capacity if plan.budget else None
    blocks = num_blocks or (capacity.blocks.expected if capacity else 0)
    pool = cache(plan, blocks)
    if pool is None:
        raise CannotRun(f"only vLLM's scheduler is known, and this engine is {plan.engine.engine}")
    return Scheduler(
        num_blocks=blocks,
        block_size=min(growth.block_size for growth in pool.growths),
        max_num_seqs=pool.max_num_seqs,
        max_num_batched_tokens=max(pool.max_num_batched_tokens, pool.max_num_seqs),
        max_model_len=pool.max_model_len,
        watermark=pool.watermark_blocks / blocks if blocks else 0.0,
        reserve_full_input=pool.prompts_wait,
        lookahead=pool.lookahead,
        prefix_caching=pool.prefix_caching,
        growths=pool.growths,
    )


def _of_options(engine: str, num_blocks: int, options: dict[str, Any], notes: list[str]) -> Scheduler:
    from planner.admission.scheduler import Scheduler
    from planner.admission.scheduler_facts import FULL_INPUT_SINCE, WATERMARK_SINCE
    from planner.engines.version import NEWEST_VLLM, parse_version

    name, _, release = engine.partition("==")
    if name.strip().lower() != "vllm":
        raise click.BadParameter(f"{name!r}: only vLLM's scheduler is known", param_hint="--engine")
    try:
        version = parse_version(release or NEWEST_VLLM)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--engine") from None
    if version < (0, 8, 0):
        raise click.BadParameter("only the V1 scheduler is known (vLLM from 0.8.0 on)", param_hint="--engine")
    if options["watermark"] and version < WATERMARK_SINCE:
        raise click.BadParameter(f"vLLM {release} has no --watermark (from 0.24.0 on)", param_hint="--watermark")
    block = options["block_size"] or _DEFAULTS["block_size"]
    length = options["max_model_len"]
    if length is None:
        length = (num_blocks - 1) * block
        notes.append(f"max-model-len {length:,}: assumed, as long as the cache holds")
    return Scheduler(
        num_blocks=num_blocks,
        block_size=block,
        max_num_seqs=_DEFAULTS["max_num_seqs"],
        max_num_batched_tokens=_DEFAULTS["max_num_batched_tokens"],
        max_model_len=length,
        reserve_full_input=version >= FULL_INPUT_SINCE,
    )


def _demand(text: str | None, plan: Plan | None, scheduler: Scheduler) -> Workload:
    """The workload of the option, of the manifest or of the settings, else the assumed one."""
    from planner.admission.workload import BadWorkload, assumed_workload, read_workload
    from planner.facts.demand import demand, parsed

    if text is not None:
        try:
            return read_workload(parsed(text), scheduler.max_model_len, "--workload")
        except BadWorkload as error:
            raise click.BadParameter(str(error), param_hint="--workload") from None
    if plan is None:
        raise click.UsageError("--trace or --workload says which requests there are")
    found, gap = demand(plan)
    if gap is not None:
        raise CannotRun(gap.reason)
    return found or assumed_workload(scheduler.max_model_len)


def _draw(
    demand: Workload, scheduler: Scheduler, count: int, seed: int, plan: Plan | None
) -> tuple[Requests, Scheduler]:
    """Requests of the workload's share of one engine copy, and the scheduler that admits no more than there are at a
    time."""
    from planner.admission.sample import sample
    from planner.facts.demand import copies

    shares = (copies(plan) or 1) if plan else 1
    if demand.concurrency is not None:
        most = min(scheduler.max_num_seqs, -(-demand.concurrency // shares))
        scheduler = scheduler._replace(max_num_seqs=most)
    elif demand.rate is not None:
        demand = demand._replace(rate=demand.rate / shares)
    stream = sample(demand, scheduler.max_model_len, count, seed, scheduler.prefix_caching)
    return stream, scheduler


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None] | None]:
    """A bar on a terminal, nothing elsewhere: reports and logs are for reading."""
    if not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=total, label="simulating", file=sys.stderr) as bar:
        yield lambda done: bar.update(done - bar.pos)


def _draws_blocks() -> bool:
    """Whether the terminal's encoding has the characters of the drawing."""
    try:
        "▁█·".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
