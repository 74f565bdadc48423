"""The demand on a plan and the cache that meets it: from manifest, settings and budget to what ``admission`` counts with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.facts.flag_tables import TITLES
from planner.provenance import Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.admission.capacity import Cache
    from planner.admission.workload import Workload
    from planner.plan import Plan
    from planner.provenance import Position

#: speculative methods whose drafter has a cache of its own, which takes slots ahead of the tokens that are sure
_DRAFTING = ("eagle", "mtp", "draft", "dflash", "medusa")
_LARGEST_TEXT = 20_000
_REMEDY = (
    'planner/workload: \'{"concurrency": 32, "prompt_tokens": "p50=800,p95=4000", "output_tokens": "p50=200,p95=800"}\''
)


def demand(plan: Plan) -> tuple[Workload | None, Unknown | None]:
    """(workload, what is wrong with the one that is stated): from the annotation ``planner/workload``, else from the
    settings, else assumed from the maximum length; one that an option states comes before all. (None, None) where that length
    is not known."""
    from planner.admission.workload import BadWorkload, assumed_workload, read_workload

    if plan.effective is None:
        return None, None
    length = plan.effective.max_model_len.value
    position = plan.position
    pairs = rate = None
    try:
        stated = None if _by_option(plan) else _annotated(plan)
        if stated is not None:
            value, position, source = stated
        else:
            if plan.demand is None:
                return assumed_workload(length), None
            value, source = plan.demand
            if value.get("trace") is not None:
                pairs, rate = trace_demand(str(value["trace"]), source)
        return read_workload(value, length, source, pairs, rate), None
    except BadWorkload as error:
        return None, Unknown("reserve", f"planner/workload cannot be read: {error}", _REMEDY, position)


def _by_option(plan: Plan) -> bool:
    """Whether an option of the command line states the demand."""
    return plan.demand is not None and plan.demand[1].startswith("--")


def demand_position(plan: Plan) -> Position | None:
    """Where the manifest states the workload."""
    from planner.plan import annotation

    if plan.workload is None or plan.pod is None:
        return None
    fact = annotation(plan.workload, plan.pod, "workload")
    return fact.position if fact is not None else None


def demand_gaps(plan: Plan, facts: Mapping[str, Any]) -> tuple[Unknown, ...]:
    """The workload as an unknown fact where one is stated that cannot be read; admission as one where the engine's is not
    known. ``facts``: those of the plan, whose reserve tells that the workload was read."""
    engine = plan.engine.engine
    if plan.budget is not None and engine in TITLES and engine != "vllm":
        reason = f"how {TITLES[engine]} lets requests in and takes their memory back is not worked out"
        return (Unknown("reserve", reason, "none: planner knows vLLM's scheduler alone", plan.position),)
    if facts.get("reserve"):
        return ()
    stated = demand_position(plan) is not None or plan.demand is not None
    gap = demand(plan)[1] if stated else None
    capacity = plan.budget.capacity if plan.budget is not None else None
    if gap is None and capacity is not None and capacity.blocks.high < 1:
        gap = Unknown("reserve", "no block is left for the KV cache", "mend what leaves none", plan.position)
    return (gap,) if gap is not None else ()


def _annotated(plan: Plan) -> tuple[Any, Any, str] | None:
    """(plain data, position, source) of the annotation."""
    from planner.plan import annotation

    if plan.workload is None or plan.pod is None:
        return None
    fact = annotation(plan.workload, plan.pod, "workload")
    if fact is None:
        return None
    return parsed(fact.value), fact.position or plan.position, f"planner/workload ({fact.position})"


def parsed(text: str) -> Any:
    """The plain data of a workload written as JSON or YAML. Raises ``BadWorkload``."""
    from planner.admission.workload import BadWorkload
    from planner.documents.read import read_bytes

    if len(text) > _LARGEST_TEXT:
        raise BadWorkload(f"{len(text):,} characters are no workload")
    content = read_bytes(text.encode("utf-8", "replace"), "planner/workload")
    if content.problems or content.notices or len(content.documents) != 1:
        raise BadWorkload(
            content.problems[0].message if content.problems else "it must be one mapping, in YAML or JSON"
        )
    return content.documents[0].root.plain()


def trace_demand(path: str, settings: str) -> tuple[list[tuple[int, int]], float | None]:
    """(prompt, output) tokens of a trace, and its requests a second where it has dates and times. Settings name a file beside
    them or below, nothing else; an option (``--trace``) any file. Raises ``BadWorkload``."""
    from planner.admission.trace import BadTrace, read_trace
    from planner.admission.workload import BadWorkload

    try:
        if settings.startswith("--"):
            with open(path, encoding="utf-8", errors="replace") as lines:
                trace = read_trace(lines, path[:100])
        else:
            trace = read_trace(_lines_beside(path, settings), path[:100])
    except BadTrace as error:
        raise BadWorkload(f"trace: {error}") from None
    except OSError as error:
        raise BadWorkload(f"trace: {path[:100]}: {error.strerror or error}") from None
    requests = trace.requests
    span = requests.arrivals[-1] - requests.arrivals[0]
    rate = (len(requests.arrivals) - 1) / span if trace.timed and span > 0 else None
    return list(zip(requests.prompts, requests.outputs, strict=True)), rate


def _lines_beside(path: str, settings: str) -> list[str]:
    """The lines of a file beside the settings or below. Raises ``BadWorkload`` for any other."""
    import os

    from planner.admission.workload import BadWorkload
    from planner.documents.read import load

    folder = os.path.realpath(os.path.dirname(settings) or ".")
    target = os.path.realpath(os.path.join(folder, path))
    if not target.startswith(folder.rstrip(os.sep) + os.sep):
        raise BadWorkload(f"trace: {path[:100]} lies outside the folder of {os.path.basename(settings)}")
    data = load(target, path)
    if not isinstance(data, bytes):
        raise BadWorkload(f"trace: {path[:100]}: {data.message}")
    return data.decode("utf-8", "replace").splitlines()


def cache(plan: Plan, blocks: int) -> Cache | None:
    """The pool of one engine copy with ``blocks`` blocks in all, and how this release's scheduler treats it; None where
    the layout or the scheduler is not known."""
    from planner.admission.capacity import Cache
    from planner.admission.growth import growths
    from planner.admission.scheduler_facts import FULL_INPUT_SINCE, WATERMARK_SINCE

    config, budget = plan.effective, plan.budget
    if config is None or budget is None or not budget.ranks or plan.engine.engine != "vllm":
        return None
    kv = budget.ranks[budget.tightest].kv
    if kv is None or not kv.groups:
        return None
    v0 = config.runner == "v0" or config.version < (0, 8)
    flags = plan.engine
    watermark = 0.0
    if v0:
        watermark = 0.01
    elif config.version >= WATERMARK_SINCE:
        watermark = _fraction(flags.get("watermark"))
    whole = flags.get("scheduler-reserve-full-isl")
    method = config.speculative_method
    drafting = any(name in method for name in _DRAFTING)
    return Cache(
        blocks=max(0, blocks if v0 else blocks - 1),
        growths=growths(kv),
        max_num_seqs=config.max_num_seqs.value,
        max_model_len=config.max_model_len.value,
        max_num_batched_tokens=config.max_num_batched_tokens.value,
        watermark_blocks=int(watermark * blocks),
        prompts_wait=v0 or (config.version >= FULL_INPUT_SINCE and whole is not False),
        lookahead=config.speculative_tokens + ("dflash" in method) if drafting else 0,
        prefix_caching=config.prefix_caching.value,
        copies=copies(plan) or 1,
    )


def copies(plan: Plan) -> int | None:
    """Engine copies of the deployment: replicas (an autoscaler's most) times data parallel copies; None where nothing
    says how many replicas there are."""
    workload, config = plan.workload, plan.effective
    data = config.parallel.data if config else 1
    if workload is None:
        return max(1, data)
    replicas = workload.max_replicas or workload.replicas
    return max(1, replicas) * max(1, data) if replicas is not None else None


def _fraction(value: Any) -> float:
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1
    return float(value) if known else 0.0
