"""``planner simulate``: what the engine's scheduler does with a stream of requests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from planner.cli.options import CannotRun, write

if TYPE_CHECKING:
    from planner.admission.scheduler import Scheduler
    from planner.admission.trace import Trace

#: how long a step of the engine takes where the user does not say it: many decode at 20 to 50 ms
_STEP_SECONDS = 0.03


@click.command(name="simulate")
@click.option(
    "--trace",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    required=True,
    metavar="FILE",
    help='Requests, one a line: {"arrival": 0, "prompt_tokens": 800, "output_tokens": 200}, or CSV (Azure traces as they are).',
)
@click.option(
    "--arrival-unit",
    type=click.Choice(("step", "seconds")),
    help="What arrivals count: engine steps, or seconds.  [default: step; seconds where they are dates]",
)
@click.option(
    "--num-blocks", type=click.IntRange(2), required=True, help="Blocks of the KV cache, the null block among them."
)
@click.option("--block-size", type=click.IntRange(1), default=16, show_default=True, help="Tokens in a block.")
@click.option("--max-num-seqs", type=click.IntRange(1), default=256, show_default=True)
@click.option("--max-num-batched-tokens", type=click.IntRange(1), default=8192, show_default=True)
@click.option("--max-model-len", type=click.IntRange(1), help="[default: as long as the cache holds]")
@click.option(
    "--watermark",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    help="Share of the blocks kept free at admission.",
)
@click.option(
    "--reserve-full-isl/--no-reserve-full-isl",
    default=None,
    help="Admit a request only when its whole prompt fits (vLLM from 0.19.0 on), or when its first chunk does.",
)
@click.option(
    "--prefix-caching/--no-prefix-caching", default=False, help="Reuse blocks of common prefixes and lost work."
)
@click.option("--lookahead-tokens", type=click.IntRange(0, 1000), default=0, help="Slots for speculative tokens.")
@click.option(
    "--step-seconds",
    type=click.FloatRange(0, min_open=True),
    help=f"How long a step takes, for arrivals in seconds.  [default: {_STEP_SECONDS}, assumed]",
)
@click.option("--prefill-rate", type=click.FloatRange(0, min_open=True), help="Prompt tokens computed in a second.")
@click.option("--engine", default="vllm", metavar="vllm==VERSION", help="The release whose scheduler is followed.")
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--output", "-o", type=click.Path(dir_okay=False), help="Write to this file instead of stdout.")
def command(
    trace: str,
    arrival_unit: str | None,
    format_: str,
    output: str | None,
    **options: Any,
) -> None:
    """Run a trace through the engine's scheduler: steps, preemptions, blocks in use over time.

    \b
    planner simulate --trace requests.jsonl --num-blocks 4384 --max-model-len 8192
    """
    from planner.admission.scheduler import Impossible, simulate

    found = _read(trace)
    unit = arrival_unit or ("seconds" if found.timed else "step")
    if unit == "step" and found.timed:
        raise click.BadParameter("the trace has dates and times: they count seconds", param_hint="--arrival-unit")
    scheduler, notes = _scheduler(unit, **options)
    try:
        with _progress(len(found.requests.prompts)) as tick:
            outcome = simulate(found.requests, scheduler, progress=tick, timeline=format_ == "text")
    except Impossible as error:
        raise CannotRun(str(error)) from None
    from planner.report import simulation

    if format_ == "json":
        write(simulation.render_json(outcome), output)
    else:
        write(simulation.render_text(outcome, scheduler, notes, plain=output is None and not _draws_blocks()), output)


def _read(path: str) -> Trace:
    from planner.admission.trace import BadTrace, read_trace

    try:
        with click.open_file(path, encoding="utf-8", errors="replace") as lines:
            return read_trace(lines, path)
    except BadTrace as error:
        raise CannotRun(str(error)) from None
    except OSError as error:
        raise CannotRun(f"cannot read {path}: {error.strerror or error}") from None


def _scheduler(
    unit: str,
    engine: str,
    num_blocks: int,
    block_size: int,
    max_model_len: int | None,
    watermark: float,
    reserve_full_isl: bool | None,
    lookahead_tokens: int,
    step_seconds: float | None,
    prefill_rate: float | None,
    **options: Any,
) -> tuple[Scheduler, tuple[str, ...]]:
    """The settings of the engine, and what was assumed for want of an option."""
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
    if watermark and version < WATERMARK_SINCE:
        raise click.BadParameter(f"vLLM {release} has no --watermark (from 0.24.0 on)", param_hint="--watermark")
    notes = []
    if unit == "seconds" and step_seconds is None:
        notes.append(f"a step takes {_STEP_SECONDS} s: assumed, --step-seconds says it")
    if max_model_len is None:
        max_model_len = (num_blocks - 1) * block_size
        notes.append(f"max-model-len {max_model_len:,}: assumed, as long as the cache holds")
    timed = unit == "seconds"
    scheduler = Scheduler(
        num_blocks=num_blocks,
        block_size=block_size,
        max_model_len=max_model_len,
        watermark=watermark,
        reserve_full_input=version >= FULL_INPUT_SINCE if reserve_full_isl is None else reserve_full_isl,
        lookahead=lookahead_tokens,
        step_seconds=(step_seconds or _STEP_SECONDS) if timed else 0.0,
        prefill_seconds=1 / prefill_rate if timed and prefill_rate else 0.0,
        **options,
    )
    return scheduler, tuple(notes)


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
