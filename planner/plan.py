"""The pipeline: documents → workloads → engines, models and accelerators → budget. A ``Plan`` is one engine start on one
kind of accelerator, with every fact that rules and reports read and with what could not be known."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.provenance import Fact, Position, Provenance, Unknown, assumed, from_file
from planner.record import NamedTuple, dataclass, field
from planner.settings import ModelNames, Settings
from planner.workloads.workload import EnvVar

if TYPE_CHECKING:
    from planner.accelerators.accelerator import Accelerator, Choice
    from planner.documents.document import FileContent, Notice, Problem
    from planner.engines.config import EffectiveConfig, EngineConfig
    from planner.engines.detect import EngineStart
    from planner.engines.dispatch import EngineModules
    from planner.memory.budget import MemoryBudget, Term
    from planner.models.architecture import ModelArchitecture
    from planner.requirement import Requirement
    from planner.workloads.extract import Extraction
    from planner.workloads.objects import Objects
    from planner.workloads.workload import Container, Pod, Workload


#: Engines whose budgets count a draft model.
_WITH_DRAFTS = ("vllm", "sglang")


class Beside(NamedTuple):
    """Another engine that runs in the same pod at the same time: in its own container, or in the background of the same
    one. ``earlier``: it stands before the plan's own in the pod."""

    engine: EngineConfig
    container: Container
    start: EngineStart
    earlier: bool = False


@dataclass(frozen=True, eq=False)
class Plan:
    """One engine start on one kind of accelerator.

    ``workload``, ``pod`` and ``container`` are None for a plan from the command line alone. ``pods`` is the number of
    pods of one engine copy; ``gpus_per_pod`` None where nothing says it. ``choice`` says what named the accelerator.
    """

    engine: EngineConfig
    workload: Workload | None = None
    pod: Pod | None = None
    container: Container | None = None
    start: EngineStart | None = None
    effective: EffectiveConfig | None = None
    model: ModelArchitecture | None = None
    model_provenance: Provenance | None = None
    gated: bool = False
    accelerator: Accelerator | None = None
    choice: Choice | None = None
    gpus_per_pod: Fact[int] | None = None
    gpu_resource: str = ""
    gpu_kind: str = ""
    pods: int = 1
    budget: MemoryBudget | None = None
    requirement: Requirement | None = None
    unknown: tuple[Unknown, ...] = ()
    #: engine starts found in the same container; more than one where a script branches or starts several servers
    starts: int = 1
    #: the demand that the settings state, and where: (plain mapping, settings file)
    demand: tuple[Mapping[str, Any], str] | None = None
    #: other engines of the pod
    beside: tuple[Beside, ...] = ()
    #: the other objects of the run, which Services, claims and routes of the workload are looked up among
    objects: Objects | None = None
    #: how names of models in its flags are resolved
    names: ModelNames = ModelNames()
    #: the draft model of speculative decoding, where it is a checkpoint of its own that is known
    draft: ModelArchitecture | None = None
    #: memory terms that somebody measured, by name
    given: Mapping[str, Term] = field(default_factory=dict)
    #: bytes of each rank's cache, taken as given
    kv_cache_memory: int | None = None

    @property
    def verdict(self) -> str:
        """``fits``, ``may-not-fit``, ``does-not-fit`` or ``unknown``."""
        return self.budget.verdict if self.budget else "unknown"

    @property
    def position(self) -> Position:
        """The place that stands for the plan as a whole."""
        if self.container is not None:
            name = self.container.node.get("name")
            return name.position if name else self.container.node.position
        return Position("<command line>", 1, 1)


class Project(NamedTuple):
    """Everything that one run has read and worked out."""

    files: tuple[FileContent, ...]
    extraction: Extraction
    plans: tuple[Plan, ...]
    problems: tuple[Problem, ...]
    notices: tuple[Notice, ...]
    engines: int


def plan_files(files: Sequence[FileContent], settings: Settings, *, kv_cache_memory: int | None = None) -> Project:
    """Plans for every engine that the files start. References between files resolve; nothing raises on bad input.

    ``kv_cache_memory``: bytes of each rank's cache, taken as given.
    """
    extraction = extract_files(files)
    plans, engines = plan_workloads(
        extraction.workloads, settings, kv_cache_memory=kv_cache_memory, objects=extraction.objects
    )
    problems = [problem for content in files for problem in content.problems]
    notices = [notice for content in files for notice in content.notices]
    return Project(tuple(files), extraction, plans, (*problems, *extraction.problems), tuple(notices), engines)


def extract_files(files: Sequence[FileContent]) -> Extraction:
    """The workloads of all files together."""
    from planner.workloads.extract import extract

    return extract([document for content in files for document in content.documents])


def plan_workloads(
    workloads: Sequence[Workload],
    settings: Settings,
    *,
    kv_cache_memory: int | None = None,
    objects: Objects | None = None,
) -> tuple[tuple[Plan, ...], int]:
    """(plans, number of engines) of some workloads; ``objects``: what else the run has, for references to it."""
    from planner.engines.detect import find_engines
    from planner.stated import starts_of

    plans: list[Plan] = []
    engines = 0
    everywhere = settings
    for workload in workloads:
        settings = everywhere.for_file(workload.document.file) if everywhere.paths else everywhere
        for pod in workload.pods:
            found = []
            for container in pod.containers:
                if container.init and not container.sidecar:
                    continue
                starts = starts_of(container, find_engines(container))
                if starts:
                    found.append((container, starts))
            engines += len(found)
            for number, (container, starts) in enumerate(found):
                # Several starts in one script are branches of a condition (leader or worker) as a rule; the first that
                # serves stands for all, and rules that count GPUs know that there are more.
                beside = _beside(workload, pod, found, number, settings)
                plans.extend(_plan_start(workload, pod, container, starts, settings, kv_cache_memory, objects, beside))
    return tuple(plans), engines


def _beside(
    workload: Workload,
    pod: Pod,
    found: Sequence[tuple[Container, Sequence[EngineStart]]],
    number: int,
    settings: Settings,
) -> tuple[Beside, ...]:
    """The engines that run beside the first start of container ``number``: those of other containers, and what its own
    script surely starts while the first runs in the background."""
    own, starts = found[number]
    others = [
        (container, their[0], index < number) for index, (container, their) in enumerate(found) if index != number
    ]
    for before, start in itertools.pairwise(starts):
        if not (before.background and before.certain and start.certain):
            break
        others.append((own, start, False))
    return tuple(
        Beside(_engine_config(workload, pod, container, start, settings), container, start, earlier)
        for container, start, earlier in others
    )


def annotation(workload: Workload, pod: Pod, name: str) -> Fact[str] | None:
    """``planner/NAME`` on the pod template, else on the object."""
    key = f"planner/{name}"
    return pod.annotations.get(key) or workload.annotations.get(key)


def _plan_start(
    workload: Workload,
    pod: Pod,
    container: Container,
    starts: Sequence[EngineStart],
    settings: Settings,
    kv_cache_memory: int | None,
    objects: Objects | None,
    beside: tuple[Beside, ...] = (),
) -> Iterator[Plan]:
    from planner.accelerators.labels import from_pod
    from planner.accelerators.resources import gpu_count
    from planner.stated import with_accelerator, with_model

    start = starts[0]
    engine = with_model(_engine_config(workload, pod, container, start, settings), container)
    gpus, resource, kind = gpu_count(container, pod)
    choice = with_accelerator(from_pod(pod, container, workload.annotations), pod)
    pods = workload.group_size
    base = Plan(
        engine=engine,
        workload=workload,
        pod=pod,
        container=container,
        start=start,
        choice=choice,
        gpus_per_pod=gpus,
        gpu_resource=resource,
        gpu_kind=kind,
        pods=pods,
        starts=max(len(starts), container.copies),
        beside=beside,
        objects=objects,
    )
    yield from _completed(base, settings, kv_cache_memory)


def _completed(base: Plan, settings: Settings, kv_cache_memory: int | None = None) -> Iterator[Plan]:
    """A start as its manifest states it → one plan for each accelerator it may land on."""
    mapped = annotation(base.workload, base.pod, "model") if base.workload and base.pod else None
    if mapped is None and settings.model:
        mapped = Fact(settings.model, Provenance("config", settings.source))
    overrides = dict(settings.models)
    if mapped is not None:
        engine_model = base.engine.model.value if base.engine.model else ""
        overrides[engine_model] = mapped.value
    yield from complete(base, settings, overrides, mapped, kv_cache_memory=kv_cache_memory)


def replanned(plan: Plan, settings: Settings, engine: EngineConfig, gpus: Fact[int] | None = None) -> tuple[Plan, ...]:
    """The start of a plan with another configuration of its engine, and with other GPUs where given: one plan for each
    accelerator it may land on."""
    from planner.record import replace

    base = replace(
        plan,
        engine=engine,
        gpus_per_pod=gpus or plan.gpus_per_pod,
        effective=None,
        model=None,
        accelerator=None,
        budget=None,
        requirement=None,
        unknown=(),
    )
    return tuple(_completed(base, settings))


def _engine_config(
    workload: Workload, pod: Pod, container: Container, start: EngineStart, settings: Settings
) -> EngineConfig:
    from planner.engines.dispatch import engine_modules
    from planner.engines.image import image_platform
    from planner.stated import platform_of

    image = container.image.value if container.image else ""
    platform = platform_of(container, pod, image_platform(image))
    files = {path: node for mount in container.mounts for path, node in mount.files}
    modules = engine_modules(start.engine)
    if modules is None:
        from planner.engines.recognised import read

        return read(start, container, files=files, platform=platform)
    return modules.parse(
        start.command_line.words,
        version=_version(workload, pod, container, settings, modules),
        image=container.image,
        env=_environment(container, start),
        files=files,
        platform=platform,
        command_line=start.command_line,
    )


def _environment(container: Container, start: EngineStart) -> dict[str, EnvVar | Fact[str]]:
    """The container's variables, with those that its start script sets laid over them, and without those that it unsets."""
    found: dict[str, EnvVar | Fact[str]] = {
        name: entry for name, entry in container.env.items() if name not in start.removed
    }
    for name, word in start.environment:
        if not word.known:
            found[name] = EnvVar(name, None, container.node, f"set by the start script: {word.reason}")
        elif word.position is not None:
            found[name] = from_file(word.text, word.position)
        else:
            found[name] = Fact(word.text, Provenance("derived", "the start script"))
    return found


def _version(
    workload: Workload, pod: Pod, container: Container, settings: Settings, modules: EngineModules
) -> Fact[str]:
    """The release: the option (what one plans to move to), annotation, the kind's own field, image tag, ``planner.yaml``,
    else the newest known, which is said so."""
    wanted = settings.engine_versions.get(modules.name)
    if wanted:
        return Fact(wanted, Provenance("option", "--engine-version"))
    stated = annotation(workload, pod, "engine-version")
    release = stated.value.strip().rpartition("==")[2].removeprefix("v") if stated is not None else ""
    # A word such as "latest" says nothing, and must not hide what the image says.
    if stated is not None and _is_version(release):
        return Fact(release, stated.provenance)
    if container.engine_version is not None:
        return container.engine_version
    image = container.image
    if image is not None:
        key, text, _ = _version_in_image(modules.name, image.value)
        if key:
            return Fact(text, Provenance("file", f"image tag ({image.position})", image.position))
    configured = settings.default_versions.get(modules.name)
    if configured:
        return Fact(configured, Provenance("config", settings.source))
    return newest(modules)


def _is_version(text: str) -> bool:
    from planner.engines.version import is_version

    return is_version(text)


def _version_in_image(engine: str, reference: str) -> tuple[tuple[int, ...] | None, str, str]:
    if engine == "vllm":
        from planner.engines.image import engine_version_from_image

        return engine_version_from_image(reference)
    from planner.engines.image_versions import version_from_image

    return version_from_image(engine, reference)


def newest(modules: EngineModules) -> Fact[str]:
    """The newest release known of an engine, as an assumption."""
    from planner.engines.dispatch import newest_release

    release = newest_release(modules)
    return assumed(
        release, f"{modules.label} {release} is assumed, the newest release known, since nothing tells the release"
    )


def complete(
    base: Plan,
    settings: Settings,
    overrides: Mapping[str, str],
    mapped: Fact[str] | None = None,
    *,
    kv_cache_memory: int | None = None,
    allow_local: bool = False,
) -> Iterator[Plan]:
    """A plan with engine and devices known so far → one plan for each accelerator it may land on."""
    from planner.engines.dispatch import engine_modules
    from planner.record import replace

    names = settings.model_names(overrides, allow_local=allow_local)
    base = replace(base, names=names, kv_cache_memory=kv_cache_memory)
    if settings.workload:
        base = replace(base, demand=(settings.workload, settings.source or "--workload"))

    engine = base.engine
    modules = engine_modules(engine.engine)
    unknown = list(engine.unknown)
    if modules is None or engine.platform not in ("cuda", "rocm"):
        what = engine.engine if modules is None else f"{engine.engine} on {engine.platform}"
        remedy = "none: this planner cannot work it out"
        unknown.append(Unknown("engine.memory", f"memory of {what} is not evaluated", remedy, base.position))
        yield replace(base, unknown=tuple(unknown))
        return
    sizes = dict(modules.size_flags)
    unknown = [gap for gap in unknown if gap.fact.removeprefix("engine.flags.") not in sizes]
    unknown += size_gaps(engine, sizes)
    model, provenance, gated = _model(base, mapped, unknown)
    accelerators = _accelerators(base, settings, unknown)
    if base.gpus_per_pod is None and base.container is not None:
        unknown.append(
            Unknown(
                "container.gpus",
                "the container asks for no GPUs by count",
                "resources.limits: {nvidia.com/gpu: N}",
                base.position,
            )
        )
    known = replace(base, model=model, model_provenance=provenance, gated=gated)
    if settings.memory or (base.pod is not None and base.workload is not None):
        stated = annotation(base.workload, base.pod, "memory") if base.workload and base.pod else None
        if settings.memory or stated:
            from planner.given import collect

            given, wrong = collect(settings.memory, settings.source, stated, base.position)
            known = replace(known, given=given)
            unknown += wrong
    if model is None:
        for accelerator in accelerators or (None,):
            yield replace(known, accelerator=accelerator, unknown=tuple(unknown))
        return
    for accelerator in accelerators or (None,):
        yield budgeted(known, modules, model, accelerator, unknown)


def _model(
    base: Plan, mapped: Fact[str] | None, unknown: list[Unknown]
) -> tuple[ModelArchitecture | None, Provenance | None, bool]:
    from planner.models.architecture import UnknownModel

    reference = base.engine.model
    if reference is None and mapped is None:
        known = [gap for gap in base.engine.unknown if gap.fact == "engine.model"]
        if not known:
            unknown.append(
                Unknown(
                    "model",
                    "the command line names no model",
                    "planner/model: ORG/NAME as an annotation",
                    base.position,
                )
            )
        else:
            unknown.append(known[0]._replace(fact="model"))
        return None, None, False
    name = reference.value if reference else ""
    try:
        found = base.names.resolve(name)
    except UnknownModel as error:
        place = reference.position if reference else base.position
        unknown.append(Unknown("model", error.reason, error.remedy, place))
        return None, None, False
    return found.architecture, found.provenance, bool(found.gated)


def _accelerators(base: Plan, settings: Settings, unknown: list[Unknown]) -> tuple[Accelerator, ...]:
    """What the plan is checked against: an option before the manifest, and an assumption only where that is silent."""
    from planner.accelerators.labels import from_name

    choice = base.choice
    if settings.accelerator:
        choice = from_name(settings.accelerator)
    elif settings.assume_accelerator and (choice is None or not (choice.accelerators or choice.named)):
        choice = from_name(settings.assume_accelerator)
    if choice is not None and choice.accelerators:
        return choice.accelerators
    remedy = "planner/accelerator: NAME as an annotation (or nvidia.com/gpu.product in nodeSelector)"
    reason = "nothing names the accelerator"
    if choice is not None:
        remedy = choice.remedy or remedy
        reason = choice.provenance_text or reason
        if choice.named:
            reason = f"{choice.named!r} is not in the accelerator catalog"
    unknown.append(Unknown("accelerator", reason, remedy, (choice.position if choice else None) or base.position))
    return ()


def budgeted(
    plan: Plan,
    modules: EngineModules,
    model: ModelArchitecture,
    accelerator: Accelerator | None,
    unknown: list[Unknown],
    *,
    capacity: bool = True,
) -> Plan:
    """The plan on one accelerator, or what an accelerator must offer where there is none. ``capacity``: with tokens and the
    longest request, which a search does not need."""
    from planner.memory.budget import MemoryBudget
    from planner.memory.kv_cache import LayoutRefused
    from planner.record import replace

    gpus = plan.gpus_per_pod.value if plan.gpus_per_pod else None
    gaps = list(unknown)
    config = modules.effective(plan.engine, model, accelerator, gpus, plan.pods)
    plan = replace(plan, draft=_draft(plan, config, gaps))
    budget = None
    requirement = None
    if not any(gap.fact == "parallel" for gap in gaps):
        try:
            if accelerator is not None:
                budget = modules.budget(
                    model, config, accelerator, gpus_per_pod=gpus, **budget_options(plan, modules, capacity=capacity)
                )
            else:
                from planner.requirement import smallest_device

                requirement = smallest_device(plan, modules, model)
        except LayoutRefused as refusal:
            # The engine refuses this layout whatever the memory is.
            budget = MemoryBudget((), None, "does-not-fit", notes=(str(refusal),))
            gaps.append(
                Unknown("budget", f"the engine refuses: {refusal}", "change the setting that it names", plan.position)
            )
    if budget is not None and budget.verdict == "unknown" and budget.notes:
        gaps.append(Unknown("engine.memory", budget.notes[-1], "none: this planner cannot work it out", plan.position))
    if budget is not None and any(gap.fact == "engine.memory" for gap in gaps):
        budget = replace(budget, verdict="unknown")
    refused = budget is not None and budget.verdict == "does-not-fit"
    if budget is not None and refused and plan.kv_cache_memory is None and _only_the_length_fails(plan, budget):
        note = "no --max-model-len is stated, and the model's own length does not fit"
        budget = replace(budget, verdict="may-not-fit", notes=(*budget.notes, note))
    return replace(
        plan,
        effective=config,
        accelerator=accelerator,
        budget=budget,
        requirement=requirement,
        unknown=tuple(gaps),
    )


def _draft(plan: Plan, config: EffectiveConfig, gaps: list[Unknown]) -> ModelArchitecture | None:
    """The draft model of speculative decoding, where it is a checkpoint of its own and the engine's budget counts it."""
    if not config.speculative_model or plan.engine.engine not in _WITH_DRAFTS:
        return None
    from planner.models.architecture import UnknownModel

    try:
        return plan.names.resolve(config.speculative_model).architecture
    except UnknownModel as error:
        # An annotation would name the model that is served.
        remedy = f"map {config.speculative_model} to a hub id under `models:` in planner.yaml"
        gaps.append(Unknown("engine.memory.draft", f"draft model: {error.reason}", remedy, plan.position))
        return None


def budget_options(plan: Plan, modules: EngineModules, *, capacity: bool = True) -> dict[str, Any]:
    """What the budget of a plan is asked with beside its configuration: measured terms, a cache of a stated size, the draft
    model, and for vLLM whether its release is only assumed."""
    options: dict[str, Any] = {"kv_cache_memory": plan.kv_cache_memory}
    if plan.given:
        options["given"] = plan.given
    if modules.name in _WITH_DRAFTS:
        options["draft"] = plan.draft
    if modules.name == "vllm":
        options["version_assumed"] = plan.engine.version_assumed
        options["capacity"] = capacity
    return options


def _only_the_length_fails(plan: Plan, budget: MemoryBudget) -> bool:
    """Whether a question without a manifest and without a length fails only by the length that the model brings along: it
    then asks what could run, and a shorter length would."""
    stated = "max-model-len" in plan.engine.flags or "kv-cache-memory-bytes" in plan.engine.flags
    room = all(rank.bytes("kv_available").high > 0 for rank in budget.ranks)
    return plan.workload is None and not stated and bool(budget.ranks) and room


def size_gaps(engine: EngineConfig, sizes: Mapping[str, str]) -> list[Unknown]:
    """The facts about memory that hang on arguments which could not be expanded, ``engine.memory`` last for all of them.

    ``sizes``: the flags that decide memory, and the fact that is not known where their value is not.

    Where words or a config file of the command line are hidden altogether, every flag that is not stated is unknown: a
    default would be a guess.
    """
    gaps: dict[str, Unknown] = {}
    hidden = next((gap for gap in engine.unknown if gap.fact == "engine.arguments"), None)
    reasons = {gap.fact: gap for gap in engine.unknown}
    for name, fact in sizes.items():
        flag = engine.flags.get(name)
        if flag is not None and not flag.known:
            cause = reasons.get(f"engine.flags.{name}")
            reason = cause.reason if cause else f"--{name} is {flag.raw!r}"
            remedy = cause.remedy if cause else f"write --{name} with a number"
            gaps.setdefault(fact, Unknown(fact, f"--{name}: {reason}", remedy, flag.value_position or flag.position))
        elif flag is None and hidden is not None:
            gaps.setdefault(fact, hidden._replace(fact=fact))
    if gaps:
        gaps["engine.memory"] = next(iter(gaps.values()))._replace(fact="engine.memory")
    return list(gaps.values())
