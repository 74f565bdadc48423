"""What would take fewer GPUs than a suggestion: an FP8 cache, a quantized checkpoint, a shorter maximum length."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.record import replace
from planner.suggest.configuration import Knobs, Question, settled
from planner.suggest.layouts import Layout
from planner.suggest.search import fewest_gpus

if TYPE_CHECKING:
    from planner.models.architecture import ModelArchitecture
    from planner.suggest.deployment import Suggestion

#: How names of quantized checkpoints say so, the formats that change results least first.
_FORMATS = ("fp8", "w8a8", "int8", "w4a16", "awq", "gptq", "int4", "4bit", "nvfp4", "mxfp4")
#: All that may stand behind a model's name in that of its quantized checkpoint.
_WORDS = frozenset(
    (
        *_FORMATS,
        "",
        "quantized",
        "dynamic",
        "static",
        "pertensor",
        "block",
        "kv",
        "channel",
        "tensor",
        "per",
        "g128",
        "w8a16",
    )
)
#: Whose quantized checkpoints are named first, among equal ones.
_ORGANISATIONS = ("redhatai", "nvidia", "qwen")
#: Methods that vLLM's builds for AMD have kernels for.
_ON_AMD = ("fp8", "awq", "gptq", "compressed-tensors")
#: Quantized checkpoints that are tried.
_MOST_CHECKPOINTS = 2


def cheaper(answer: Suggestion, catalog_id: str) -> tuple[str, ...]:
    """One sentence for each change that would take fewer GPUs; nothing where one GPU is enough as it is."""
    choice = answer.choice
    if choice is None or choice.gpus == 1:
        return ()
    return tuple(_changes(answer, catalog_id, choice.gpus))


def _changes(answer: Suggestion, catalog_id: str, gpus: int) -> Iterator[str]:
    from planner.suggest.deployment import other_cache_dtypes

    question, choice = answer.question, answer.choice
    for cache_dtype, cost in other_cache_dtypes(question):
        fewer = _fewer(answer, gpus, cache_dtype) if choice is not None and not choice.knobs.cache_dtype else 0
        if fewer:
            yield f"--kv-cache-dtype {cache_dtype}{cost}: {_count(fewer)}"
    for other in _quantized(answer, catalog_id):
        fact = replace(question.model, value=other.id)
        fewer = _fewer(answer._replace(question=question._replace(model=fact, architecture=other)), gpus)
        if fewer:
            yield f"the quantized checkpoint {other.id}: {_count(fewer)}"
    # A copy over several pods has so many layouts that the answer would take as long as the search itself.
    shorter = _shorter(answer) if choice is not None and choice.layout.pods == 1 else 0
    if shorter:
        fewer = _fewer(answer._replace(question=question._replace(length=shorter)), gpus)
        if fewer:
            yield f"--max-model-len {shorter}, which refuses the longest requests: {_count(fewer)}"


def _count(gpus: int) -> str:
    return f"{gpus} GPU{'s' if gpus > 1 else ''}"


def _fewer(answer: Suggestion, gpus: int, cache_dtype: str = "") -> int:
    """GPUs that a changed question takes, 0 where these are no fewer."""
    return fewest_gpus(
        answer.question, answer.demand.in_flight, answer.found.node, gpus - 1, answer.most_pods, cache_dtype
    )


def _shorter(answer: Suggestion) -> int:
    """A length for all but one request in twenty of each kind, a multiple of 1024; 0 where it is not much shorter."""
    workload = answer.demand.workload.within(answer.question.length)
    length = workload.prompts.quantile(0.95) + workload.outputs.quantile(0.95)
    rounded = -(-int(length) // 1024) * 1024
    return rounded if rounded * 1.5 < answer.question.length else 0


def _quantized(answer: Suggestion, catalog_id: str) -> list[ModelArchitecture]:
    """Quantized checkpoints of the same model that the catalog has: the same shape, fewer bytes, run by this release."""
    from planner import catalog
    from planner.models.architecture import UnknownModel
    from planner.models.resolve import resolve

    own = answer.choice.judged.plan.model if answer.choice else None
    if own is None or not catalog_id:
        return []
    organisation, _, base = catalog_id.lower().partition("/")
    named = []
    for key in catalog.model_keys():
        owner, _, name = key.partition("/")
        rest = name.removeprefix(base)
        kind = next((place for place, word in enumerate(_FORMATS) if word in rest), None)
        # What else stands there names another model (a tuned one, a larger length).
        if rest == name or kind is None or not _WORDS.issuperset(re.split(r"[-_.]", rest)):
            continue
        trusted = owner == organisation or owner in _ORGANISATIONS
        named.append((kind, not trusted, owner != organisation, key))
    found: list[ModelArchitecture] = []
    seen: set[bool] = set()
    for kind, *_, key in sorted(named):
        if own.quantization and kind < _FORMATS.index("w4a16"):
            continue
        try:
            other = resolve(key)
        except UnknownModel:
            continue
        # One of eight bits, unless the model has these, and one of four.
        eight_bits = kind < _FORMATS.index("w4a16")
        if eight_bits not in seen and _same(own, other.architecture) and _runs(answer.question, other.architecture):
            seen.add(eight_bits)
            found.append(other.architecture)
        if len(found) == _MOST_CHECKPOINTS:
            break
    return found


def _runs(question: Question, model: ModelArchitecture) -> bool:
    """Whether release and device have kernels for a checkpoint's format, as far as the rules know."""
    from planner.facts.formats import format_facts

    if question.platform != "cuda":
        return model.quantization in _ON_AMD and not any("fp4" in form.name for form in model.formats.values())
    plan = settled(question._replace(architecture=model), Layout(1), Knobs(1))
    problem = format_facts(plan, {}).get("quantization_problem")
    return problem is not None and not problem["text"]


def _same(one: ModelArchitecture, other: ModelArchitecture) -> bool:
    return (
        one.architecture == other.architecture
        and one.num_layers == other.num_layers
        and one.hidden_size == other.hidden_size
        and bool(other.quantization)
    )
