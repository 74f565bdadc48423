"""A new deployment: what is wanted → the best configuration on each accelerator, as a manifest that lints clean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planner.record import NamedTuple
from planner.suggest.configuration import Knobs, Question, flags, settled
from planner.suggest.layouts import MOST_PODS, Layout, NodeSize, node_size
from planner.suggest.search import Choice, Found, search
from planner.units import round_up

if TYPE_CHECKING:
    from planner.accelerators.accelerator import Accelerator
    from planner.admission.workload import Workload
    from planner.lint.finding import Finding
    from planner.models.architecture import ModelArchitecture
    from planner.models.resolve import Resolved
    from planner.settings import Settings

#: Rules whose warnings, too, keep a configuration from being suggested.
RESERVE_RULES = frozenset(("progress-reserve-missing", "workload-exceeds-capacity"))
#: Where neither a length nor the longest request is stated: this many times the longest quantile.
_LENGTH_MARGIN = 4
#: vLLM's own images for AMD exist from this release on.
_ROCM_IMAGES_SINCE = (0, 14, 0)


#: Flags that cannot be fixed, and what to do instead.
_NOT_FIXED = {
    "model": "name it in front of --",
    "max-model-len": "name it in front of --",
    "port": "the Service, the probes and the engine use 8000; change the manifest",
    "host": "probes ask the pod's address; change the manifest",
    "data-parallel-size": "more copies are more replicas",
    "nnodes": "the search decides about pods",
    "node-rank": "the search decides about pods",
    "master-addr": "the search decides about pods",
    "headless": "the search decides about pods",
    "distributed-executor-backend": "the search decides about pods",
}


class CannotSuggest(ValueError):  # noqa: N818 - the request is wrong, not the program
    """What is wrong with a request, for people."""


class Wanted(NamedTuple):
    """What the user asks for. ``workload``: as ``planner/workload`` has it; ``release``: of vLLM, empty for the newest that
    has the model; ``length``: ``--max-model-len``, 0 for the longest request; ``most_gpus``: in all, 0 for any number;
    ``gpus_per_node``: 0 for what machine types have; ``fixed``: engine flags to keep as they are."""

    model: str
    accelerators: tuple[str, ...]
    workload: Mapping[str, Any]
    settings: Settings
    release: str = ""
    length: int = 0
    most_gpus: int = 0
    gpus_per_node: int = 0
    most_pods: int = MOST_PODS
    fixed: tuple[str, ...] = ()
    name: str = ""
    namespace: str = ""


class Demand(NamedTuple):
    """The demand in the terms of one model: maximum length in tokens and how it came about, requests in flight that are
    planned for, the workload."""

    length: int
    length_source: str
    in_flight: int
    workload: Workload


class Suggestion(NamedTuple):
    """The answer for one accelerator. ``choice`` is None where nothing works, and ``reasons`` then say why; otherwise they
    say what it costs beyond GPUs (FP8 cache, no graphs). ``price``: per hour in the user's currency, 0 where not known.
    ``needed``: GPUs without the limit, 0 where no number works. ``findings``: what lint still says of the manifest."""

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
    cheaper: tuple[str, ...] = ()


def suggest(wanted: Wanted) -> list[Suggestion]:
    """The best configuration on every accelerator, best first: by price where all prices are known, else by GPUs, those
    without an answer last. Raises ``CannotSuggest`` for a request that cannot be understood."""
    resolved = _resolved(wanted)
    accelerators = _accelerators(wanted)
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


def _resolved(wanted: Wanted) -> Resolved:
    from planner.models.architecture import UnknownModel
    from planner.models.resolve import resolve

    try:
        found = resolve(wanted.model, overrides=wanted.settings.models)
    except UnknownModel as error:
        raise CannotSuggest(f"{error.reason}; {error.remedy}") from None
    return found


def _accelerators(wanted: Wanted) -> list[Accelerator]:
    from planner.accelerators.catalog import candidates, united
    from planner.accelerators.catalog import suggest as near

    names = wanted.accelerators or tuple(filter(None, (wanted.settings.assume_accelerator,)))
    if not names:
        raise CannotSuggest(
            "no accelerator is named: --accelerator NAME, once or several times; planner catalog accelerators"
        )
    found: dict[str, Accelerator] = {}
    for name in names:
        meant = candidates(name)
        if not meant:
            hint = ", ".join(near(name))
            raise CannotSuggest(
                f"{name[:80]!r} is not in the accelerator catalog" + (f"; did you mean {hint}?" if hint else "")
            )
        if united(meant) is None:
            raise CannotSuggest(f"{name[:80]!r} may be {', '.join(one.name for one in meant)}: name one of these")
        found[meant[0].name] = meant[0]
    return list(found.values())


def demand_of(wanted: Wanted, model: ModelArchitecture, version: tuple[int, ...]) -> Demand:
    """Length and requests in flight for a model. Raises ``CannotSuggest``."""
    from planner.admission.workload import BadWorkload, read_workload
    from planner.engines.vllm_defaults import derived_length

    limit, key = derived_length(model, version)
    pairs = _pairs(wanted)
    try:
        workload = read_workload(wanted.workload, limit, "the options", pairs)
    except BadWorkload as error:
        raise CannotSuggest(str(error)) from None
    missing = [name for name in ("prompt_tokens", "output_tokens") if name in workload.assumed]
    if missing:
        raise CannotSuggest(
            f"--{missing[0].replace('_', '-')} is missing: quantiles of the lengths, such as p50=800,p95=4000,max=16000"
        )
    if workload.concurrency is None and workload.rate is None:
        raise CannotSuggest("say how much load there is: --concurrency N or --requests-per-second R")
    if wanted.length > limit and "hf-overrides" not in " ".join(wanted.fixed):
        raise CannotSuggest(f"--max-model-len {wanted.length:,} is more than the {limit:,} tokens of the model ({key})")
    if wanted.length:
        length, source = wanted.length, "as asked for"
    elif workload.pairs:
        length = min(limit, round_up(max(p + o for p, o in workload.pairs) + 1, 256))
        source = "the longest request of the trace"
    elif workload.prompts.open_end or workload.outputs.open_end:
        longest = workload.prompts.points[-1][1] + workload.outputs.points[-1][1]
        length = min(limit, round_up(int(_LENGTH_MARGIN * longest), 1024))
        source = f"assumed: {_LENGTH_MARGIN} times the longest quantiles, since no max is stated"
    else:
        longest = round(workload.prompts.longest + workload.outputs.longest)
        length = min(limit, round_up(longest, 256))
        source = "the longest prompt and the longest output"
        if longest > limit:
            source = f"the model's own; the longest requests ({longest:,} tokens) are cut off"
    length = max(16, length)
    in_flight = workload.at_most_in_flight(length) or 1
    return Demand(length, source, in_flight, workload)


def _pairs(wanted: Wanted) -> list[tuple[int, int]] | None:
    """The requests of a trace that the settings name."""
    from planner.admission.workload import BadWorkload
    from planner.facts.demand import trace_pairs

    trace = wanted.workload.get("trace")
    if trace is None:
        return None
    try:
        return trace_pairs(str(trace), wanted.settings.source)
    except BadWorkload as error:
        raise CannotSuggest(str(error)) from None


def release_of(wanted: Wanted, model: ModelArchitecture) -> tuple[str, str]:
    """(release, why): the one asked for, else the newest that has the model's architecture and quantization."""
    from planner.engines.version import NEWEST_VLLM, parse_version
    from planner.engines.vllm_architectures import supported_until
    from planner.engines.vllm_flag_table import flag_table
    from planner.engines.vllm_quantization import method

    asked = wanted.release or wanted.settings.engine_versions.get("vllm", "")
    asked = asked or wanted.settings.default_versions.get("vllm", "")
    if asked:
        return _known_release(asked)
    until = supported_until(model.architecture)
    newest = parse_version(NEWEST_VLLM)
    last = min(newest, until) if until else newest
    for release in reversed(flag_table(newest).releases):
        version = parse_version(release)
        known = method(model.quantization, version) if model.quantization else None
        if version <= last and (known is None or known.active):
            why = "the newest known" if version == newest else "the newest that has the model"
            return release, why
    return NEWEST_VLLM, "the newest known"


def _known_release(asked: str) -> tuple[str, str]:
    """A release that the user names, as its image is tagged. Raises ``CannotSuggest`` for one that is not known: its image
    may not exist."""
    from planner.engines.version import NEWEST_VLLM, is_version, parse_version
    from planner.engines.vllm_flag_table import flag_table

    if not is_version(asked):
        raise CannotSuggest(f"{asked[:60]!r} is no release of vLLM; it reads vllm==0.11.0")
    for release in flag_table(parse_version(NEWEST_VLLM)).releases:
        if parse_version(release) == parse_version(asked):
            return release, "as asked for"
    raise CannotSuggest(f"vLLM {asked[:60]} is no release that is known; the newest is {NEWEST_VLLM}")


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
        Fact(_model_name(wanted, resolved), Provenance("option", "--model")),
        model,
        accelerator,
        settings,
        demand.length,
        platform="rocm" if accelerator.vendor == "amd" else "cuda",
        fixed=wanted.fixed,
    )
    question = _with_fixed(question)
    node = NodeSize(wanted.gpus_per_node, "--gpus-per-node") if wanted.gpus_per_node else node_size(accelerator)
    answer = Suggestion(accelerator, question, demand, Found((), (), demand.in_flight, node))
    refused = _refused(model, accelerator, version)
    if refused:
        return answer._replace(reasons=(refused,))
    return _best(wanted, resolved, answer, node)


def _model_name(wanted: Wanted, resolved: Resolved) -> str:
    """What the engine is told: the hub id as the catalog spells it; a path or a fine-tune that the user has mapped to a
    model as it is."""
    mapped = resolved.provenance.source in ("config", "option")
    return wanted.model if mapped or resolved.catalog_id is None else resolved.catalog_id


def _refused(model: ModelArchitecture, accelerator: Accelerator, version: tuple[int, ...]) -> str:
    """Why nothing can be said for a model or a device at all; empty where something can."""
    if model.pooling:
        return f"{model.id} is a pooling model: it generates nothing, so that no request grows and no reserve is needed"
    if accelerator.kind != "gpu" or accelerator.vendor not in ("nvidia", "amd"):
        return f"the memory of vLLM on {accelerator.name} is not evaluated: only on NVIDIA and AMD GPUs"
    if accelerator.vendor == "amd" and version < _ROCM_IMAGES_SINCE:
        return "vLLM's own images for AMD exist from 0.14.0 on: name a newer --engine"
    return ""


def _with_fixed(question: Question) -> Question:
    """The question with the names and the values of the user's own flags. Raises ``CannotSuggest`` for what the release does
    not take, and for what a manifest states in other ways."""
    if not question.fixed:
        return question
    config = question.modules.parse_argv(
        list(question.fixed), version=question.version, model=question.model, platform=question.platform
    )
    if config.argument_problems:
        raise CannotSuggest(
            f"vLLM {question.version.value} does not take these flags: {config.argument_problems[0][1]}"
        )
    for name, instead in _NOT_FIXED.items():
        if name in config.flags or (name == "model" and config.positionals):
            raise CannotSuggest(f"--{name}: {instead}")
    return question._replace(fixed_names=frozenset(config.flags))


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
        for choice in (tie, tie.modest):
            if choice is None or (clean is not None and not clean.findings):
                continue
            manifest = _manifest(wanted, resolved, answer, choice)
            findings = lint_manifest(manifest, wanted.settings)
            wrong = [finding for finding in findings if _forbids(finding)]
            refused += [f"{finding.rule}: {finding.message}" for finding in wrong]
            if not wrong and (clean is None or _weight(findings) < _weight(clean.findings)):
                price = price_of(answer.accelerator, wanted.settings) * choice.gpus
                clean = answer._replace(
                    choice=choice, manifest=manifest, findings=findings, reasons=reasons, price=price
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


def _forbids(finding: Finding) -> bool:
    return finding.severity == "error" or (finding.rule in RESERVE_RULES and finding.severity == "warning")


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


def lint_manifest(text: str, settings: Settings) -> tuple[Finding, ...]:
    """What the rules say of a manifest, all that are built in and the user's own, as ``planner lint`` would."""
    from planner.documents.read import read_bytes
    from planner.lint.run import lint, select_rules
    from planner.settings import Settings

    chosen = Settings(models=settings.models, model_folders=settings.model_folders, rules=settings.rules)
    if settings.workload.get("trace") is not None:
        chosen = chosen._replace(workload=settings.workload, source=settings.source)
    return lint([read_bytes(text.encode(), "suggestion.yaml")], select_rules(chosen), chosen).findings


def _manifest(wanted: Wanted, resolved: Resolved, answer: Suggestion, choice: Choice) -> str:
    from planner.facts.startup import load_seconds
    from planner.suggest.manifest import Service, name_of, render
    from planner.suggest.node_labels import node_label

    question, plan = answer.question, choice.judged.plan
    model = resolved.architecture
    weights = model.checkpoint_bytes or _weights(choice)
    load = load_seconds(plan)
    rocm = question.platform == "rocm"
    release = question.version.value
    output = answer.demand.workload.outputs.within(question.length).longest
    demand = dict(wanted.workload)
    return render(
        Service(
            name=wanted.name or name_of(question.model.value),
            namespace=wanted.namespace,
            image=f"vllm/vllm-openai{'-rocm' if rocm else ''}:v{release}",
            model=question.model.value,
            stands_for=(resolved.catalog_id or "") if question.model.value != resolved.catalog_id else "",
            words=_words(answer, choice),
            replicas=choice.replicas,
            pods=choice.layout.pods,
            gpus_per_pod=choice.layout.gpus_per_pod,
            resource="amd.com/gpu" if rocm else "nvidia.com/gpu",
            accelerator=answer.accelerator.name,
            label=node_label(answer.accelerator),
            gated=bool(resolved.gated) and not question.model.value.startswith("/"),
            weight_bytes=weights,
            usual_load=load["usual"] if load else 600,
            longest_output=round(output),
            workload={key: value for key, value in demand.items() if key != "trace"} if "trace" not in demand else {},
            comments=_head(answer, choice),
        )
    )


def _weights(choice: Choice) -> int:
    """Bytes of the whole model as its ranks hold it, where nobody measured the checkpoint."""
    budget = choice.judged.plan.budget
    return sum(rank.bytes("weights").expected for rank in budget.ranks) if budget else 0


def _words(answer: Suggestion, choice: Choice) -> tuple[tuple[str, str], ...]:
    """The flags with a comment at those that a reader may wonder about."""
    comments = {
        "max-model-len": answer.demand.length_source,
        "max-num-seqs": f"{choice.requests:,} at a time are planned for",
        "watermark": "the reserve, kept by the engine itself",
        "enforce-eager": "graphs do not fit beside the cache",
        "max-cudagraph-capture-size": "more graphs do not fit beside the cache",
        "kv-cache-dtype": "halves the cache; changes results slightly",
    }
    if not choice.knobs.watermark:
        most = min(choice.judged.most, choice.knobs.sequences)
        comments["max-num-seqs"] = f"as many keep the reserve; {comments['max-num-seqs']}"
        if most < choice.knobs.sequences:
            comments["max-num-seqs"] = f"{choice.requests:,} at a time are planned for"
    words = [
        (f"--{name}={value}" if value else f"--{name}", comments.get(name, ""))
        for name, value in flags(answer.question, choice.layout, choice.knobs)
    ]
    return (*words, *((word, "") for word in answer.question.fixed))


def _head(answer: Suggestion, choice: Choice) -> tuple[str, ...]:
    each = f"{choice.replicas} replica{'s' if choice.replicas > 1 else ''} of {choice.layout.text}"
    return (
        f"planner suggest: {answer.question.model.value} on {answer.accelerator.name}, {each}",
        f"for {answer.demand.workload.describe()}",
    )
