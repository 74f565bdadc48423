"""What a user wants of a new deployment, in the terms of one model: release, length, requests in flight, devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planner.record import NamedTuple
from planner.suggest.configuration import Question
from planner.suggest.layouts import MOST_PODS
from planner.units import round_up

if TYPE_CHECKING:
    from planner.accelerators.accelerator import Accelerator
    from planner.admission.workload import Workload
    from planner.models.architecture import ModelArchitecture
    from planner.models.resolve import Resolved
    from planner.settings import Settings

#: Where neither a length nor the longest request is stated: this many times the longest quantile.
_LENGTH_MARGIN = 4
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


def resolved_model(wanted: Wanted) -> Resolved:
    """The model. Raises ``CannotSuggest`` for one that is not known."""
    from planner.models.architecture import UnknownModel

    try:
        found = wanted.settings.model_names().resolve(wanted.model)
    except UnknownModel as error:
        raise CannotSuggest(f"{error.reason}; {error.remedy}") from None
    return found


def accelerators_of(wanted: Wanted) -> list[Accelerator]:
    """The devices to compare, each one product of the catalog. Raises ``CannotSuggest`` for a name of none or of several."""
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
    from planner.facts.demand import trace_demand

    trace = wanted.workload.get("trace")
    if trace is None:
        return None
    try:
        return trace_demand(str(trace), wanted.settings.source)[0]
    except BadWorkload as error:
        raise CannotSuggest(str(error)) from None


def release_of(wanted: Wanted, model: ModelArchitecture) -> tuple[str, str]:
    """(release, why): the one asked for, else the newest that has the model's architecture and quantization."""
    from planner.engines.architectures import supported_until
    from planner.engines.version import NEWEST_VLLM, parse_version
    from planner.engines.vllm_flag_table import flag_table
    from planner.engines.vllm_quantization import method

    asked = wanted.release or wanted.settings.engine_versions.get("vllm", "")
    asked = asked or wanted.settings.default_versions.get("vllm", "")
    if asked:
        return _known_release(asked)
    until = supported_until("vllm", model.architecture)
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


def model_name(wanted: Wanted, resolved: Resolved) -> str:
    """What the engine is told: the hub id as the catalog spells it; a path or a fine-tune that the user has mapped to a
    model as it is."""
    mapped = resolved.provenance.source in ("config", "option")
    return wanted.model if mapped or resolved.catalog_id is None else resolved.catalog_id


def with_fixed(question: Question) -> Question:
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
