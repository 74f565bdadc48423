"""The settings of one engine copy that a search may choose, and the flags that state them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.record import NamedTuple
from planner.suggest.layouts import Layout

if TYPE_CHECKING:
    from planner.accelerators.accelerator import Accelerator
    from planner.engines.config import EngineConfig
    from planner.engines.dispatch import EngineModules
    from planner.models.architecture import ModelArchitecture
    from planner.plan import Plan
    from planner.provenance import Fact
    from planner.settings import Settings

#: ``--max-cudagraph-capture-size`` exists from this release on.
CAPTURE_SIZE_SINCE = (0, 11, 1)
#: The largest batch that graphs are captured for where all of them would not fit.
FEW_GRAPHS = 8


class Knobs(NamedTuple):
    """What is chosen beside the layout. ``batched``: max-num-batched-tokens, 0 for the engine's default; ``utilization``:
    0 for the default; ``graphs``: ``all``, ``few`` (batches up to ``FEW_GRAPHS``) or ``none`` (eager); ``watermark``: share
    of the blocks, 0 for none; ``cache_dtype``: ``--kv-cache-dtype``, empty for the model's own."""

    sequences: int
    utilization: float = 0.0
    batched: int = 0
    graphs: str = "all"
    watermark: float = 0.0
    cache_dtype: str = ""


class Question(NamedTuple):
    """What a search does not change: model (its name and what it is), release, device, maximum length in tokens, the
    settings with the workload, and ``fixed``, flags that the user states."""

    modules: EngineModules
    version: Fact[str]
    model: Fact[str]
    architecture: ModelArchitecture
    accelerator: Accelerator
    settings: Settings
    length: int
    platform: str = "cuda"
    fixed: tuple[str, ...] = ()
    fixed_names: frozenset[str] = frozenset()


def flags(question: Question, layout: Layout, knobs: Knobs) -> list[tuple[str, str]]:
    """(name without dashes, value) of every flag in the order in which a manifest states them; the value is empty for a
    switch. What the user has fixed is left out."""
    found = [("tensor-parallel-size", str(layout.tensor))] if layout.tensor > 1 else []
    if layout.pipeline > 1:
        found.append(("pipeline-parallel-size", str(layout.pipeline)))
    if layout.expert:
        found.append(("enable-expert-parallel", ""))
    found.append(("max-model-len", str(question.length)))
    found.append(("max-num-seqs", str(knobs.sequences)))
    if knobs.watermark:
        found.append(("watermark", f"{knobs.watermark:g}"))
    if knobs.utilization:
        found.append(("gpu-memory-utilization", f"{knobs.utilization:g}"))
    if knobs.batched:
        found.append(("max-num-batched-tokens", str(knobs.batched)))
    if knobs.cache_dtype:
        found.append(("kv-cache-dtype", knobs.cache_dtype))
    if knobs.graphs == "few":
        found.append(("max-cudagraph-capture-size", str(FEW_GRAPHS)))
    elif knobs.graphs == "none":
        found.append(("enforce-eager", ""))
    return [pair for pair in found if pair[0] not in question.fixed_names]


def words(question: Question, layout: Layout, knobs: Knobs) -> list[str]:
    """The flags as words of a command line, the user's own behind them."""
    pairs = flags(question, layout, knobs)
    return [f"--{name}={value}" if value else f"--{name}" for name, value in pairs] + list(question.fixed)


def engine_of(question: Question, layout: Layout, knobs: Knobs) -> EngineConfig:
    """The engine start of one configuration."""
    return question.modules.parse_argv(
        words(question, layout, knobs), version=question.version, model=question.model, platform=question.platform
    )


def settled(question: Question, layout: Layout, knobs: Knobs) -> Plan:
    """A plan that goes as far as the settings in effect, without a budget: a fraction of the time."""
    from planner.plan import Plan
    from planner.provenance import Fact, Provenance
    from planner.record import replace

    gpus = Fact(layout.gpus_per_pod, Provenance("derived", "the layout that is tried"))
    base = Plan(
        engine=engine_of(question, layout, knobs),
        gpus_per_pod=gpus,
        pods=layout.pods,
        model=question.architecture,
        accelerator=question.accelerator,
        demand=(question.settings.workload, question.settings.source or "the options"),
    )
    config = question.modules.effective(
        base.engine, question.architecture, question.accelerator, layout.gpus_per_pod, layout.pods
    )
    return replace(base, effective=config)


def plan_of(question: Question, layout: Layout, knobs: Knobs, *, capacity: bool = False) -> Plan:
    """The plan of one engine copy, through the part of the pipeline that does not depend on manifests. ``capacity``: with
    tokens and the longest request, which a search does not need."""
    from planner.plan import Plan, budgeted
    from planner.provenance import Fact, Provenance

    base = Plan(
        engine=engine_of(question, layout, knobs),
        gpus_per_pod=Fact(layout.gpus_per_pod, Provenance("derived", "the layout that is tried")),
        pods=layout.pods,
        model=question.architecture,
        names=question.settings.model_names(),
        demand=(question.settings.workload, question.settings.source or "the options"),
    )
    unknown = list(base.engine.unknown)
    return budgeted(base, question.modules, question.architecture, question.accelerator, unknown, capacity=capacity)
