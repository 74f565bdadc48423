"""``planner budget`` for people (a bar for each kind of rank) and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from planner.lint.message import printable, without_commands
from planner.report.reserve import reserve_lines
from planner.units import format_bytes, format_gib

if TYPE_CHECKING:
    from planner.documents.document import Problem
    from planner.engines.config import EffectiveConfig
    from planner.memory.budget import RankBudget
    from planner.plan import Plan
    from planner.provenance import Fact

_WIDTH = 60
#: Terms drawn in the bar, from the left, and their letters.
_BAR = (
    ("weights", "W"),
    ("activations", "A"),
    ("non_torch", "N"),
    ("graphs", "G"),
    ("kv_available", "k"),
    ("outside", "."),
)
_LABELS = {
    "device": "device memory",
    "outside": "outside the engine's share",
    "requested": "requested by the engine",
    "weights": "weights",
    "activations": "peak activations",
    "non_torch": "non-torch memory",
    "graphs": "CUDA graphs",
    "kv_available": "KV cache",
    "baseline": "context and communicators",
}


def render_json(plans: Sequence[Plan], problems: Sequence[Problem]) -> str:
    """All plans as one JSON object in the contract's form."""
    from planner.report.plan_json import plan_json

    document = {
        "schema": "planner/v1",
        "plans": [plan_json(plan) for plan in plans],
        "errors": [
            {"file": p.position.file, "line": p.position.line, "column": p.position.column, "message": p.message}
            for p in problems
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


def render_text(plans: Sequence[Plan], problems: Sequence[Problem], explain: bool = False) -> str:
    """All plans, one after the other."""
    lines = [f"{printable(str(p.position))}: cannot check: {printable(p.message)}" for p in problems]
    for plan in plans:
        lines.extend(_plan(plan, explain))
        lines.append("")
    if not plans:
        lines.append("no engine found: nothing in the inputs runs an inference engine")
    return without_commands("\n".join(lines) + "\n")


def _plan(plan: Plan, explain: bool) -> Iterator[str]:
    yield _title(plan)
    engine = plan.engine
    if engine.version.value:
        yield f"  engine       {engine.engine} {printable(engine.version.value)}  ({printable(str(engine.version.provenance))})"
    if plan.model is not None:
        model = plan.model
        yield (
            f"  model        {printable(model.id)}  {model.architecture}, {model.parameters / 1e9:.2f}B parameters, "
            f"{model.num_layers} layers, {model.quantization or model.dtype}"
        )
    if plan.accelerator is not None:
        gpus = f"{plan.gpus_per_pod.value} × " if plan.gpus_per_pod else ""
        pods = f" in each of {plan.pods} pods" if plan.pods > 1 else ""
        source = plan.choice.provenance_text if plan.choice and plan.choice.provenance_text else "given"
        yield f"  accelerator  {gpus}{plan.accelerator.name}{pods}  ({printable(source)})"
    config = plan.effective
    if config is not None:
        sizes = config.parallel
        yield (
            f"  parallel     tensor {sizes.tensor}, pipeline {sizes.pipeline}, data {sizes.data}"
            + (", experts spread" if sizes.expert else "")
        )
        settings = list(_settings(config))
        width = max(23, *(len(name) for name, _ in settings))
        for name, fact in settings:
            yield f"  {name:<{width}} {printable(_shown(fact.value)):>10}  ({printable(str(fact.provenance))})"
    if plan.budget is not None:
        seen = set()
        for rank in plan.budget.ranks:
            if rank.pipeline_rank in seen:
                continue
            seen.add(rank.pipeline_rank)
            same = sum(other.pipeline_rank == rank.pipeline_rank for other in plan.budget.ranks)
            yield from _rank(rank, same, explain)
        yield from _capacity(plan)
        yield from reserve_lines(plan, explain)
    elif plan.requirement is not None:
        yield from _requirement(plan)
    for gap in plan.unknown:
        yield f"  unknown: {printable(gap.fact)}: {printable(gap.reason)}"
        yield f"           → {printable(gap.remedy)}"
    for note in plan.budget.notes if plan.budget else ():
        yield f"  note: {printable(note)}"
    yield f"  verdict: {plan.verdict}"


def _settings(config: EffectiveConfig) -> Iterator[tuple[str, Fact[Any]]]:
    """The settings that decide memory: an engine's own names where it has them."""
    if config.own:
        for name, fact in config.own:
            yield name.replace("_", "-"), fact
    else:
        yield "max-model-len", config.max_model_len
        yield "max-num-seqs", config.max_num_seqs
        yield "max-num-batched-tokens", config.max_num_batched_tokens
        yield "gpu-memory-utilization", config.gpu_memory_utilization
    yield "kv-cache-dtype", config.kv_cache_dtype


def _shown(value: Any) -> str:
    """A value for people: lists of sizes are counted."""
    if isinstance(value, list):
        return f"{len(value)} sizes" if value else "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _title(plan: Plan) -> str:
    if plan.workload is None:
        return "command line"
    workload = plan.workload
    container = plan.container.name if plan.container else ""
    place = f"{workload.document.file}:{plan.position.line}"
    return printable(f"{place}  {workload.kind}/{workload.name} · {container}")


def _rank(rank: RankBudget, same: int, explain: bool) -> Iterator[str]:
    which = f"rank {rank.rank}" if same == 1 else f"{same} ranks like rank {rank.rank}"
    yield f"  {which}, pipeline stage {rank.pipeline_rank}"
    yield f"    [{_bar(rank)}]  W weights  A activations  N non-torch  G graphs  k KV cache  . outside"
    order = ("device", "outside", "requested", "weights", "activations", "non_torch", "graphs", "kv_available")
    for name in (*order, *(name for name in rank.terms if name not in order)):
        term = rank.terms[name]
        estimate = term.bytes
        span = (
            f"{format_gib(estimate.low)} … {format_gib(estimate.high)}"
            if estimate.low != estimate.high
            else "exact value"
        )
        label = _LABELS.get(name) or name.replace("_", " ")
        note = "" if term.counted else "  (not subtracted by this version: it must fit outside)"
        yield f"    {label:<27}{format_gib(estimate.expected):>12}   {span}, {estimate.basis}{note}"
        if explain:
            if term.formula:
                yield f"        = {printable(term.formula)}"
            for item in term.inputs:
                yield f"          {printable(item.name)} = {printable(item.value)}  ({printable(item.source)})"
            for what, how in term.grows_with:
                yield f"          grows with {what}: {printable(how)}"
    kv = rank.kv
    if kv is not None:
        blocks = f"{rank.num_blocks.expected:,} blocks of " if rank.num_blocks else ""
        yield (
            f"    blocks: {blocks}{kv.block_size} tokens, {format_bytes(kv.bytes_per_block)} each; "
            f"{format_bytes(kv.bytes_per_token)} per token of a growing request"
        )
        if explain:
            for group in kv.groups:
                yield (
                    f"          group {group.kind}: {group.layers} layers, block {group.block_size}, page "
                    f"{group.page_bytes:,} B, {group.blocks_per_request:,} blocks per request of the maximum length"
                )


def _bar(rank: RankBudget) -> str:
    device = max(1, rank.terms["device"].bytes.expected)
    drawn = ""
    for name, letter in _BAR:
        term = rank.terms[name]
        if name == "graphs" and not term.counted:
            continue
        size = max(0, term.bytes.expected)
        drawn += letter * min(_WIDTH, round(size / device * _WIDTH))
    return (drawn + " " * _WIDTH)[:_WIDTH]


def _capacity(plan: Plan) -> Iterator[str]:
    capacity = plan.budget.capacity if plan.budget else None
    config = plan.effective
    if capacity is None or config is None:
        return
    tokens = capacity.kv_tokens
    yield f"  KV cache: {tokens.expected:,} tokens as the engine reports it ({tokens.low:,} … {tokens.high:,})"
    low, expected, high = capacity.max_concurrency
    fitted = plan.budget.fitted_length if plan.budget else None
    length = fitted.expected if fitted else config.max_model_len.value
    yield f"  concurrency at max-model-len {length:,}: {expected:.2f} ({low:.2f} … {high:.2f})"
    longest = capacity.longest_request
    yield f"  longest request that fits: {longest.expected:,} tokens ({longest.low:,} … {longest.high:,})"


def _requirement(plan: Plan) -> Iterator[str]:
    need = plan.requirement
    if need is None:
        return
    if not need.accelerators:
        yield f"  no accelerator of the catalog holds this: the largest is {need.largest_name} with {format_gib(need.largest_known)}"
        return
    yield (
        f"  smallest device memory that works: about {format_gib(need.expected)} "
        f"(surely from {format_gib(need.high)} on): {', '.join(need.accelerators[:12])}"
        + (" …" if len(need.accelerators) > 12 else "")
    )
