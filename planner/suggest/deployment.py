"""A new deployment: what is wanted → the best configuration on each accelerator, as a manifest that lints clean."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from planner.record import NamedTuple
from planner.suggest.compose import manifest_of
from planner.suggest.configuration import Knobs, Question, settled
from planner.suggest.layouts import MOST_PODS, Layout, NodeSize, node_size
from planner.suggest.search import Choice, Found, search
from planner.suggest.wanted import (
    Demand,
    Wanted,
    accelerators_of,
    demand_of,
    model_name,
    release_of,
    resolved_model,
    with_fixed,
)

if TYPE_CHECKING:
    from planner.accelerators.accelerator import Accelerator
    from planner.lint.finding import Finding
    from planner.models.architecture import ModelArchitecture
    from planner.models.resolve import Resolved
    from planner.report.result import LintResult
    from planner.settings import Settings

#: Rules whose warnings, too, keep a configuration from being suggested.
RESERVE_RULES = frozenset(("progress-reserve-missing", "workload-exceeds-capacity"))
#: vLLM's own images for AMD exist from this release on.
_ROCM_IMAGES_SINCE = (0, 14, 0)


class Suggestion(NamedTuple):
    """The answer for one accelerator. ``choice`` is None where nothing works, and ``reasons`` then say why; otherwise they
    say what it costs beyond GPUs (FP8 cache, no graphs). ``price``: per hour in the user's currency, 0 where not known.
    ``needed``: GPUs without the limit, 0 where no number works. ``most_pods``: of a copy. ``findings``: what lint still says
    of the manifest. ``cheaper``: changes that would take fewer GPUs."""

    accelerator: Accelerator
    question: Question
    demand: Demand
    found: Found
    choice: Choice | None = None
    manifest: str = ""
    findings: tuple[Finding, ...] = ()
    reasons: tuple[str, ...] = ()
    price: float = 0.0
    needed: int = 0
    most_pods: int = MOST_PODS
    cheaper: tuple[str, ...] = ()


def suggest(wanted: Wanted) -> list[Suggestion]:
    """The best configuration on every accelerator, best first: by price where all prices are known, else by GPUs, those
    without an answer last. Raises ``CannotSuggest`` for a request that cannot be understood."""
    resolved = resolved_model(wanted)
    accelerators = accelerators_of(wanted)
    answers = [_answer(wanted, resolved, accelerator) for accelerator in accelerators]
    priced = all(answer.price for answer in answers if answer.choice is not None)
    answers.sort(key=lambda answer: _order(answer, priced))
    if answers and answers[0].choice is not None:
        from planner.suggest.cheaper import cheaper

        answers[0] = answers[0]._replace(cheaper=cheaper(answers[0], resolved.catalog_id or ""))
    return answers


def _order(answer: Suggestion, priced: bool) -> tuple[float, ...]:
    if answer.choice is None:
        return (1, answer.needed or 1 << 30)
    return (0, answer.price, answer.choice.gpus) if priced else (0, answer.choice.gpus, answer.price)


def _answer(wanted: Wanted, resolved: Resolved, accelerator: Accelerator) -> Suggestion:
    """The best configuration on one accelerator, or why there is none."""
    from planner.engines.dispatch import engine_modules
    from planner.engines.version import parse_version
    from planner.provenance import Fact, Provenance

    model = resolved.architecture
    release, why = release_of(wanted, model)
    version = parse_version(release)
    demand = demand_of(wanted, model, version)
    modules = engine_modules("vllm")
    assert modules is not None
    settings = wanted.settings._replace(
        accelerator=accelerator.name, workload=dict(wanted.workload), memory={}, engine_versions={}
    )
    question = Question(
        modules,
        Fact(release, Provenance("option", f"vLLM {release}, {why}")),
        Fact(model_name(wanted, resolved), Provenance("option", "--model")),
        model,
        accelerator,
        settings,
        demand.length,
        platform="rocm" if accelerator.vendor == "amd" else "cuda",
        fixed=wanted.fixed,
    )
    question = with_fixed(question)
    node = NodeSize(wanted.gpus_per_node, "--gpus-per-node") if wanted.gpus_per_node else node_size(accelerator)
    nothing = Found((), (), node)
    answer = Suggestion(accelerator, question, demand, nothing, most_pods=wanted.most_pods)
    refused = _refused(model, accelerator, version)
    if refused:
        return answer._replace(reasons=(refused,))
    return _best(wanted, resolved, answer, node)


def _refused(model: ModelArchitecture, accelerator: Accelerator, version: tuple[int, ...]) -> str:
    """Why nothing can be said for a model or a device at all; empty where something can."""
    if model.pooling:
        return f"{model.id} is a pooling model: it generates nothing, so that no request grows and no reserve is needed"
    if accelerator.kind != "gpu" or accelerator.vendor not in ("nvidia", "amd"):
        return f"the memory of vLLM on {accelerator.name} is not evaluated: only on NVIDIA and AMD GPUs"
    if accelerator.vendor == "amd" and version < _ROCM_IMAGES_SINCE:
        return "vLLM's own images for AMD exist from 0.14.0 on: name a newer --engine"
    return ""


def _best(wanted: Wanted, resolved: Resolved, answer: Suggestion, node: NodeSize) -> Suggestion:
    """The first configuration whose manifest lints clean; an FP8 cache only where nothing else keeps the limit of GPUs."""
    question, in_flight = answer.question, answer.demand.in_flight
    found = search(question, in_flight, node, most_pods=wanted.most_pods)
    answer = answer._replace(found=found, needed=found.choices[0].gpus if found.choices else 0)
    limit = wanted.most_gpus
    within = [choice for choice in found.choices if not limit or choice.gpus <= limit]
    reasons: tuple[str, ...] = ()
    tried: list[str] = []
    for cache_dtype, cost in other_cache_dtypes(question) if not within else ():
        other = search(question, in_flight, node, most_gpus=limit, most_pods=wanted.most_pods, cache_dtype=cache_dtype)
        if other.choices:
            without = f"{answer.needed} GPUs are needed" if answer.needed else "nothing works"
            reasons = (f"--kv-cache-dtype {cache_dtype}{cost}: without it {without}",)
            within, answer = list(other.choices), answer._replace(found=other)
            break
        tried.append(f"--kv-cache-dtype {cache_dtype} does not change that")
    clean = None
    refused: list[str] = []
    # Configurations on more GPUs are alternatives, no substitutes that nobody asked for.
    ties = [choice for choice in within if choice.gpus == within[0].gpus]
    for tie in ties:
        for choice in chain((tie,), (other() for other in tie.others)):
            manifest = manifest_of(wanted, resolved, answer, choice)
            linted = lint_manifest(manifest, wanted.settings)
            wrong = list(forbidding(linted))
            refused += wrong
            if not wrong and (clean is None or _weight(linted.findings) < _weight(clean.findings)):
                price = price_of(answer.accelerator, wanted.settings) * choice.gpus
                clean = answer._replace(
                    choice=choice, manifest=manifest, findings=linted.findings, reasons=reasons, price=price
                )
            if clean is not None and not _weight(clean.findings)[0]:
                return clean
    if clean is not None:
        return clean
    return answer._replace(reasons=tuple(dict.fromkeys(refused)) or (*_why_none(answer, limit), *tried))


def _weight(findings: tuple[Finding, ...]) -> tuple[int, int]:
    """(warnings, findings): what is left of them in a suggestion should be as little as possible."""
    return sum(finding.severity == "warning" for finding in findings), len(findings)


def other_cache_dtypes(question: Question) -> list[tuple[str, str]]:
    """(``--kv-cache-dtype``, what it costs) of the caches that may be tried where the model's own does not do: FP8 where the
    device has kernels for it, and the model's number format where the checkpoint asks for FP8."""
    from planner.facts.formats import format_facts

    if "kv-cache-dtype" in question.fixed_names or question.platform != "cuda":
        return []
    own = settled(question, Layout(1), Knobs(1)).effective
    if own is None:
        return []
    if own.kv_cache_dtype.value.startswith(("fp8", "nvfp4")) and question.architecture.kv_cache_dtype_hint:
        return [(own.dtype.value, ", twice the bytes that the checkpoint asks for")]
    if own.kv_cache_dtype.value != own.dtype.value:
        return []
    problem = format_facts(settled(question, Layout(1), Knobs(1, cache_dtype="fp8")), {}).get("kv_cache_dtype_problem")
    if problem is None or problem["text"]:
        return []
    return [("fp8", ", which changes results slightly")]


def forbidding(linted: LintResult) -> Iterator[str]:
    """What keeps a manifest from being suggested: errors, warnings about the reserve, and a reserve that cannot be told."""
    for finding in linted.findings:
        if finding.severity == "error" or (finding.rule in RESERVE_RULES and finding.severity == "warning"):
            yield f"{finding.rule}: {finding.message}"
    for problem in linted.problems:
        yield f"{problem.position}: {problem.message}"
    if not linted.engines:
        yield "no engine is found in the manifest"
    for gap in linted.not_evaluated:
        if gap.rule in RESERVE_RULES:
            yield f"{gap.rule} cannot be evaluated: {gap.reason}"


def _why_none(answer: Suggestion, limit: int) -> tuple[str, ...]:
    """What is missing, with numbers: GPUs where a limit stands in the way, else why the largest copies do not serve."""
    if answer.needed:
        best = answer.found.choices[0] if answer.found.choices else None
        layout = f": {best.replicas} × {best.layout.text}" if best else ""
        return (f"{answer.needed} GPUs are needed{layout}; --max-gpus allows {limit}",)
    attempts = answer.found.attempts
    if not attempts:
        return ("no way to spread the model over GPUs: its heads or layers do not divide",)
    last = attempts[-1]
    first = attempts[0]
    if first.reason == last.reason:
        return (last.reason,)
    reasons = [f"{last.layout.text}: {last.reason}"]
    if first.layout != last.layout:
        reasons.append(f"{first.layout.text}: {first.reason}")
    return tuple(reasons)


def price_of(accelerator: Accelerator, settings: Settings) -> float:
    """The price of one GPU and hour that ``planner.yaml`` states, in its currency; 0 where it states none."""
    from planner.accelerators.catalog import candidates

    for name, price in settings.prices.items():
        if name.lower() == accelerator.name.lower() or accelerator.name in [one.name for one in candidates(name)]:
            return price
    return 0.0


def lint_manifest(text: str, settings: Settings) -> LintResult:
    """What the rules say of a manifest, all that are built in and the user's own, as ``planner lint`` would."""
    from planner.documents.read import read_bytes
    from planner.lint.run import lint, select_rules
    from planner.settings import Settings

    chosen = Settings(models=settings.models, model_folders=settings.model_folders, rules=settings.rules)
    if settings.workload.get("trace") is not None:
        chosen = chosen._replace(workload=settings.workload, source=settings.source)
    return lint([read_bytes(text.encode(), "suggestion.yaml")], select_rules(chosen), chosen)
