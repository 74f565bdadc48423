"""The reasoning behind suggestions, for people and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from planner.lint.message import printable
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.suggest.deployment import Suggestion
    from planner.suggest.search import Choice

_TERMS = (("weights", "weights"), ("activations", "activations"), ("non_torch", "runtime"), ("graphs", "graphs"))
_GRAPHS = {"few": "few CUDA graphs", "none": "no CUDA graphs"}
#: Alternatives and failed layouts that are shown.
_MOST_SHOWN = 3


def render_text(answers: Sequence[Suggestion]) -> str:
    """Table of the accelerators, then the reasons for the best one; for one without an answer, what is missing."""
    lines = list(_title(answers[0]))
    if len(answers) > 1:
        lines += ["", *_table(answers)]
    best = answers[0]
    if best.choice is not None:
        lines += ["", *_reasons(best, best.choice)]
    for answer in answers:
        if answer.choice is None:
            lines += ["", f"{answer.accelerator.name}: no suggestion"]
            lines += [f"  {printable(reason)}" for reason in answer.reasons]
    return "\n".join(lines) + "\n"


def _title(answer: Suggestion) -> Iterator[str]:
    question, demand = answer.question, answer.demand
    yield f"{printable(question.model.value)} on vLLM {question.version.value}, for {printable(demand.workload.describe())}"
    yield f"  max-model-len {question.length:,}: {demand.length_source}"
    if demand.workload.concurrency is None:
        seconds = "; 0.03 s a token is assumed" if "seconds_per_token" in demand.workload.assumed else ""
        yield f"  {demand.in_flight:,} requests in flight are exceeded one time in twenty{seconds}"


def _table(answers: Sequence[Suggestion]) -> Iterator[str]:
    """One line for each accelerator, best first."""
    priced = any(answer.price for answer in answers)
    head = f"{'accelerator':<24} {'GPUs':>5}  {'replicas':>8}  {'each':<44} {'requests with reserve':>21}"
    yield head + (f"  {'price per hour':>14}" if priced else "")
    for answer in answers:
        choice = answer.choice
        if choice is None:
            needed = f"{answer.needed} GPUs needed" if answer.needed else "none works"
            yield f"{answer.accelerator.name:<24} {'-':>5}  {'-':>8}  {needed}"
            continue
        serves = choice.judged.most * choice.replicas
        price = f"  {answer.price:>14,.2f}" if answer.price else f"  {'not stated':>14}" if priced else ""
        yield (
            f"{answer.accelerator.name:<24} {choice.gpus:>5}  {choice.replicas:>8}  {choice.layout.text:<44} "
            f"{serves:>21,}{price}"
        )


def _reasons(answer: Suggestion, choice: Choice) -> Iterator[str]:
    price = f", {answer.price:,.2f} an hour" if answer.price else ""
    yield f"{answer.accelerator.name}: {_shape(choice)}{price}"
    yield from (f"  {printable(reason)}" for reason in answer.reasons)
    yield f"  node       {answer.found.node.source}"
    yield from _budget(choice)
    yield from _reserve(answer, choice)
    yield "  settings"
    yield from _settings(answer, choice)
    others = [other for other in answer.found.choices if other is not choice][:_MOST_SHOWN]
    if others:
        yield "  next best"
        for other in others:
            graphs = f", {_GRAPHS[other.knobs.graphs]}" if other.knobs.graphs in _GRAPHS else ""
            yield (f"    {_shape(other)}{graphs}, {other.judged.most * other.replicas:,} requests with the reserve")
    failed = [attempt for attempt in answer.found.attempts if attempt.layout.gpus < choice.layout.gpus]
    if failed:
        yield "  too few"
        yield from (f"    {attempt.layout.text}: {printable(attempt.reason)}" for attempt in failed[-_MOST_SHOWN:])
    if answer.cheaper:
        yield "  cheaper"
        yield from (f"    {printable(line)}" for line in answer.cheaper)
    for finding in answer.findings:
        yield f"  lint       {finding.severity} {finding.rule}: {printable(finding.message)}"


def _shape(choice: Choice) -> str:
    if choice.replicas == 1:
        return choice.layout.text
    return f"{choice.gpus} GPUs, {choice.replicas} replicas of {choice.layout.text}"


def _budget(choice: Choice) -> Iterator[str]:
    budget = choice.judged.plan.budget
    if budget is None or not budget.ranks:
        return
    rank = budget.ranks[budget.tightest]
    counted = [label for name, label in _TERMS if rank.terms[name].counted]
    names = [name for name, _ in _TERMS if rank.terms[name].counted]
    parts = " + ".join(
        f"{label} {format_gib(rank.bytes(name).expected)}" for name, label in zip(names, counted, strict=True)
    )
    yield (
        f"  budget     a GPU has {format_gib(rank.bytes('device').expected)}, of which the engine takes "
        f"{format_gib(rank.bytes('requested').expected)}: {parts} + KV cache {format_gib(rank.bytes('kv_available').expected)}"
    )


def _reserve(answer: Suggestion, choice: Choice) -> Iterator[str]:
    from planner.admission.reserve import progress
    from planner.facts.admission import percent

    judged = choice.judged
    if judged.cache is None or judged.mix is None or judged.workload is None:
        return
    found = progress(judged.cache, judged.mix, choice.requests, judged.workload.risk)
    required = found.required
    yield (
        f"  reserve    {choice.requests:,} requests in each copy hold {required.held:,} of {judged.cache.blocks:,} blocks on "
        f"average, and {required.reserved:,} are kept for their progress ({required.policy})"
    )
    yield (
        f"             risk of a preemption per turnover {percent(found.overflow.risk)} (wanted "
        f"{percent(judged.workload.risk)}); up to {judged.most:,} requests a copy keep it"
    )


def _settings(answer: Suggestion, choice: Choice) -> Iterator[str]:
    from planner.suggest.compose import cache_cost
    from planner.suggest.configuration import flags

    knobs, requests = choice.knobs, choice.requests
    config = choice.judged.plan.effective
    why = {
        "max-num-seqs": f"{requests:,} a copy are planned for, {choice.judged.most:,} keep the reserve",
        "gpu-memory-utilization": "what stays outside surely holds context and communicators",
        "max-num-batched-tokens": "the engine's default on this device",
        "watermark": "the engine itself keeps these blocks free when it lets a request in",
        "kv-cache-dtype": cache_cost(knobs.cache_dtype),
        "max-cudagraph-capture-size": "more graphs do not fit beside the cache that the requests need",
        "enforce-eager": "graphs do not fit beside the cache that the requests need; decoding is slower",
        "pipeline-parallel-size": "stages run one after the other: more latency than tensor parallel",
    }
    if knobs.watermark:
        why["max-num-seqs"] = f"{requests:,} a copy are planned for; beyond them the watermark decides how many run"
    default = _default_batch(answer, choice)
    if knobs.batched and default and knobs.batched < default:
        why["max-num-batched-tokens"] = f"below the default of {default:,}: smaller peaks leave more for the cache"
    for name, value in flags(answer.question, choice.layout, knobs):
        reason = f"  {why[name]}" if name in why else ""
        shown = f"--{name}{'=' + value if value else ''}"
        yield f"    {shown:<34}{reason}".rstrip()
    for word in answer.question.fixed:
        yield f"    {printable(word):<34}  as asked for"
    if config is not None and not knobs.watermark:
        from planner.admission.scheduler_facts import FULL_INPUT_SINCE

        if config.version >= FULL_INPUT_SINCE:
            yield "    admission waits until a whole prompt fits: this release's default, which the reserve counts with"


def _default_batch(answer: Suggestion, choice: Choice) -> int:
    from planner.suggest.configuration import settled

    if not choice.knobs.batched:
        return 0
    config = settled(answer.question, choice.layout, choice.knobs._replace(batched=0)).effective
    return config.max_num_batched_tokens.value if config else 0


def as_json(answers: Sequence[Suggestion]) -> dict[str, Any]:
    """All answers as plain data; bytes and tokens are integers, ``manifest`` is YAML."""
    return {"schema": "planner/v1", "suggestions": [_answer_json(answer) for answer in answers]}


def _answer_json(answer: Suggestion) -> dict[str, Any]:
    choice, question = answer.choice, answer.question
    found: dict[str, Any] = {
        "model": question.model.value,
        "engine": {"name": "vllm", "version": question.version.value},
        "accelerator": answer.accelerator.name,
        "works": choice is not None,
        "gpus": choice.gpus if choice else None,
        "gpus_needed": answer.needed or None,
        "price_per_hour": answer.price or None,
        "max_model_len": question.length,
        "in_flight": answer.demand.in_flight,
        "gpus_per_node": answer.found.node.gpus,
        "reasons": list(answer.reasons),
        "cheaper": list(answer.cheaper),
        "attempts": [{"layout": _layout(a.layout), "reason": a.reason} for a in answer.found.attempts],
    }
    if choice is not None:
        found["configuration"] = _choice_json(answer, choice)
        found["alternatives"] = [_choice_json(answer, other) for other in answer.found.choices if other is not choice]
        found["findings"] = [
            {"rule": f.rule, "severity": f.severity, "message": f.message, "line": f.position.line}
            for f in answer.findings
        ]
        found["manifest"] = answer.manifest
    return found


def _layout(layout: Any) -> dict[str, Any]:
    return {
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
        "expert": layout.expert,
        "pods": layout.pods,
        "gpus_per_pod": layout.gpus_per_pod,
    }


def _choice_json(answer: Suggestion, choice: Choice) -> dict[str, Any]:
    from planner.suggest.configuration import flags

    pairs = flags(answer.question, choice.layout, choice.knobs)
    return {
        "gpus": choice.gpus,
        "replicas": choice.replicas,
        "requests_per_replica": choice.requests,
        "requests_with_reserve": choice.judged.most * choice.replicas,
        "layout": _layout(choice.layout),
        "flags": {name: value or True for name, value in pairs},
    }
