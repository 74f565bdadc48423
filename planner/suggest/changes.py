"""The smallest set of flag changes with which an engine of an existing manifest starts and keeps its progress reserve.

Every candidate is planned and judged by the rules themselves. Sets are tried by their number of changes, and among those
of one size by their harm to who uses the deployment; within a set each value is as mild as the others allow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from planner.lint.finding import SEVERITIES
from planner.record import NamedTuple, replace

if TYPE_CHECKING:
    from planner.lint.finding import Finding
    from planner.lint.rule import Rule
    from planner.plan import Plan
    from planner.provenance import Fact
    from planner.settings import Settings

#: What flags can mend. Violations of other rules stay as they are, and must not become more.
GOALS = frozenset(
    (
        "weights-do-not-fit", "no-kv-cache-memory", "kv-cache-below-one-request", "fits-no-known-accelerator",
        "no-feasible-utilization", "memory-headroom-too-small", "utilization-above-free-memory", "max-model-len-unset",
        "max-model-len-exceeds-model", "progress-reserve-missing", "workload-exceeds-capacity", "sampler-warmup-may-not-fit",
        "multimodal-profile-may-not-fit",
    )
)  # fmt: skip
#: Rules that a change of memory flags could newly violate, beside those of the category memory.
_TOUCHED = frozenset(
    (
        "conflicting-flags", "invalid-flag-value", "kv-cache-dtype-unsupported", "attention-heads-not-divisible",
        "gpu-count-mismatch", "gpus-idle", "shared-memory-too-small", "unknown-flag", "mig-with-tensor-parallel",
    )
)  # fmt: skip

#: What a person may call a flag in ``--keep``, beside its name in either engine.
_SAME = (
    ("max-model-len", "context-length"),
    ("max-num-seqs", "max-running-requests"),
    ("gpu-memory-utilization", "mem-fraction-static"),
    ("max-num-batched-tokens", "chunked-prefill-size"),
    ("tensor-parallel-size", "tp-size", "tp"),
)
#: What a suggestion leaves, if there is any way to: requests at a time, tokens of the length, and the share of the length
#: that is there now (its denominator). Less than the last bounds is no use to anybody: then it takes more than flags.
_GENEROUS, _MODEST, _ANY = (8, 8192, 8), (4, 2048, 16), (2, 1024, 64)
#: The order of the search: bounds and number of changes. Few changes go before generous bounds, except that two
#: tolerable changes are better than one that leaves next to nothing.
_STAGES = (
    (_GENEROUS, 1), (_GENEROUS, 2), (_MODEST, 1), (_MODEST, 2), (_GENEROUS, 3), (_MODEST, 3), (_ANY, 1), (_ANY, 2), (_ANY, 3),
)  # fmt: skip
#: A share of the device that no suggestion goes beyond.
_MOST_UTILIZATION = 0.97


#: Levers that can make something else worse.
_OPTIONAL = frozenset(
    (
        "gpu-memory-utilization", "mem-fraction-static", "tensor-parallel-size", "kv-cache-dtype", "watermark",
        "max-num-batched-tokens", "chunked-prefill-size",
    )
)  # fmt: skip


class Change(NamedTuple):
    """One flag: its value now, as far as it is known, and the one that is suggested."""

    flag: str
    before: str
    after: str
    given: bool


class Lever(NamedTuple):
    """A flag that may change and the values it may have, from the mildest to the strongest."""

    flag: str
    values: tuple[Any, ...]


class Outcome(NamedTuple):
    """What a search found. ``changes`` is empty where nothing has to change or nothing helps; ``mended`` and ``left`` are
    rules (with the findings that are left); ``reasons`` say with numbers what flags cannot mend."""

    changes: tuple[Change, ...]
    mended: tuple[str, ...]
    left: tuple[Finding, ...]
    reasons: tuple[str, ...]


class Trial:
    """The plans of one container under other values of its flags, judged by the rules."""

    def __init__(
        self, plans: Sequence[Plan], settings: Settings, rules: Sequence[Rule], ignored: Collection[str]
    ) -> None:
        self.plan = plans[0]
        self._settings = settings
        self._own = settings.for_file(self.plan.position.file)
        self._rules = [rule for rule in rules if rule.category == "memory" or rule.id in _TOUCHED or rule.id in GOALS]
        self._ignored = ignored
        self._judged: dict[tuple[tuple[str, Any], ...], tuple[Finding, ...]] = {}
        self.base = self.findings({})
        self._allowed = _worst(self.base)

    def plans(self, values: Mapping[str, Any], gpus: Fact[int] | None = None) -> tuple[Plan, ...]:
        """The plans with some flags set to other values."""
        from planner.plan import replanned

        return replanned(self.plan, self._own, with_flags(self.plan, values), gpus)

    def findings(self, values: Mapping[str, Any], gpus: Fact[int] | None = None) -> tuple[Finding, ...]:
        """What the rules say of the plans with these values."""
        from planner.lint.run import judge_plans

        key = (*sorted(values.items()), ("", gpus.value if gpus else None))
        if key not in self._judged:
            outcome = judge_plans(self._rules, self.plans(values, gpus), self._settings)
            self._judged[key] = tuple(finding for finding in outcome.findings if finding.rule not in self._ignored)
        return self._judged[key]

    def missed(self, values: Mapping[str, Any], level: int) -> bool:
        """Whether a set of values misses its aim: ``level`` 0 is no finding of the goals at all, 1 neither an error nor a
        warning, 2 no error; and nothing new or graver than before in any case."""
        found = self.findings(values)
        worst = _worst(found)
        if any(grave > self._allowed.get(rule, -1) for rule, grave in worst.items() if rule not in GOALS):
            return True
        if any(grave > max(self._allowed.get(rule, -1), level - 1) for rule, grave in worst.items()):
            return True
        return any(rule in GOALS and grave >= level for rule, grave in worst.items())


def _worst(findings: Sequence[Finding]) -> dict[str, int]:
    worst: dict[str, int] = {}
    for finding in findings:
        grave = SEVERITIES.index(finding.severity)
        worst[finding.rule] = max(grave, worst.get(finding.rule, -1))
    return worst


def with_flags(plan: Plan, values: Mapping[str, Any]) -> Any:
    """The engine's configuration with some flags set, as if they had been given so."""
    from planner.engines.config import FlagValue

    engine = plan.engine
    if not values:
        return engine
    flags = dict(engine.flags)
    for name, value in values.items():
        old = flags.get(name)
        position = old.position if old is not None else plan.position
        flags[name] = FlagValue(
            name, value, f"--{name}", str(value), position, old.value_position if old is not None else position
        )
    given = [*(flag for flag in engine.given if flag.name not in values), *(flags[name] for name in values)]
    return replace(engine, flags=flags, given=tuple(given))


def search(
    plans: Sequence[Plan],
    settings: Settings,
    rules: Sequence[Rule],
    keep: Collection[str] = (),
    ignored: Collection[str] = (),
) -> Outcome:
    """The smallest change of one container's engine after which the goals hold on every accelerator that it may land on.

    ``keep``: flags that stay; ``ignored``: rules whose findings somebody has suppressed here.
    """
    trial = Trial(plans, settings, rules, ignored)
    goals = [finding for finding in trial.base if finding.rule in GOALS]
    if not goals:
        return Outcome((), (), (), ())
    best: dict[str, Any] | None = None
    gravest = max(SEVERITIES.index(finding.severity) for finding in goals)
    if trial.plan.effective is not None and not _fixed_size(trial.plan):
        for level in range(gravest + 1):
            best = _smallest(trial, keep, level)
            if best is not None:
                break
    values = best or {}
    left = tuple(finding for finding in trial.findings(values) if finding.rule in GOALS)
    rest = {finding.rule for finding in left}
    mended = tuple(dict.fromkeys(finding.rule for finding in goals if finding.rule not in rest))
    reasons: tuple[str, ...] = ()
    if left:
        from planner.suggest.beyond_flags import reasons_of

        reasons = tuple(reasons_of(trial, values, left, keep))
    return Outcome(tuple(_change(trial.plan, name, value) for name, value in values.items()), mended, left, reasons)


def _fixed_size(plan: Plan) -> bool:
    """Whether what decides memory is hidden, so that no value could be judged."""
    return any(gap.fact in ("parallel", "model", "engine.memory") for gap in plan.unknown)


def _change(plan: Plan, name: str, value: Any) -> Change:
    flag = plan.engine.flags.get(name)
    if flag is not None:
        return Change(name, flag.raw or "", spelled(value), True)
    return Change(name, _default_of(plan, name), spelled(value), False)


def _default_of(plan: Plan, name: str) -> str:
    effective = plan.effective
    if effective is None:
        return ""
    facts: dict[str, Fact[Any]] = {
        "max-model-len": effective.max_model_len, "context-length": effective.max_model_len,
        "max-num-seqs": effective.max_num_seqs, "max-running-requests": effective.max_num_seqs,
        "max-num-batched-tokens": effective.max_num_batched_tokens, "chunked-prefill-size": effective.max_num_batched_tokens,
        "gpu-memory-utilization": effective.gpu_memory_utilization, "mem-fraction-static": effective.gpu_memory_utilization,
        "kv-cache-dtype": effective.kv_cache_dtype,
    }  # fmt: skip
    if name == "tensor-parallel-size":
        return str(effective.parallel.tensor)
    fact = facts.get(name)
    return spelled(fact.value) if fact is not None else ""


def spelled(value: Any) -> str:
    """A value as it stands on a command line."""
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def known_names() -> frozenset[str]:
    """What may stand in ``--keep``: the flags that a suggestion can change, by every name."""
    return frozenset((*(name for names in _SAME for name in names), "watermark", "kv-cache-dtype"))


def kept(name: str, keep: Collection[str]) -> bool:
    """Whether a flag is among those that must not be touched, by its name in any engine."""
    wanted = {word.strip().lstrip("-").replace("_", "-").lower() for word in keep}
    return name in wanted or any(name in names and wanted & set(names) for names in _SAME)


# -- the search --------------------------------------------------------------------------------------------------------


def _smallest(trial: Trial, keep: Collection[str], level: int) -> dict[str, Any] | None:
    """The first set of values, by number and harm, that reaches a level; generous bounds first."""
    usable: dict[tuple[int, int, int], list[Lever]] = {}
    hopeless: bool | None = None
    for bounds, size in _STAGES:
        if size > 2:
            # Many sets to try: first, whether all levers together would do.
            hopeless = _hopeless(trial, keep, level) if hopeless is None else hopeless
            if hopeless:
                continue
        if bounds not in usable:
            levers = _levers(trial, *bounds)
            usable[bounds] = [lever for lever in levers if lever.values and not kept(lever.flag, keep)]
        for chosen in combinations(usable[bounds], size):
            if len({lever.flag for lever in chosen}) < size:
                continue
            values = {lever.flag: lever.values[-1] for lever in chosen}
            if not trial.missed(values, level):
                return _mildest(trial, chosen, values, level)
    return None


def _hopeless(trial: Trial, keep: Collection[str], level: int) -> bool:
    """Whether not even all levers together, each at its strongest, reach a level: a search of every set would find nothing.

    Values exclude each other or are not supported (a share that goes up or down, another cache type, idle GPUs), so that
    these are tried in every combination.
    """
    levers = [lever for lever in _levers(trial, *_ANY) if lever.values and not kept(lever.flag, keep)]
    always = {lever.flag: lever.values[-1] for lever in levers if lever.flag not in _OPTIONAL}
    optional = [lever for lever in levers if lever.flag in _OPTIONAL]
    for size in range(len(optional) + 1):
        for chosen in combinations(optional, size):
            if len({lever.flag for lever in chosen}) < size:
                continue
            if not trial.missed({**always, **{lever.flag: lever.values[-1] for lever in chosen}}, level):
                return False
    return True


def _mildest(trial: Trial, chosen: Sequence[Lever], values: dict[str, Any], level: int) -> dict[str, Any]:
    """The mildest values of a set that still reach the level, what does most harm first."""
    for lever in reversed(chosen):
        low, high = 0, len(lever.values) - 1
        while low < high:
            middle = (low + high) // 2
            if trial.missed({**values, lever.flag: lever.values[middle]}, level):
                low = middle + 1
            else:
                high = middle
        if not trial.missed({**values, lever.flag: lever.values[high]}, level):
            values = {**values, lever.flag: lever.values[high]}
    return values


def _levers(trial: Trial, requests: int, tokens: int, part: int) -> Iterator[Lever]:
    """What may change, from what does least harm to what does most."""
    plan = trial.plan
    effective = plan.effective
    if effective is None:
        return
    engine = "sglang" if "sglang" in plan.engine.engine else "vllm" if "vllm" in plan.engine.engine else ""
    if not engine:
        return
    sglang = engine == "sglang"
    length, wanted = _wanted(plan)
    seqs, utilization = effective.max_num_seqs.value, effective.gpu_memory_utilization.value
    fewest = max(wanted, requests)
    yield Lever(
        "max-running-requests" if sglang else "max-num-seqs",
        tuple(count for count in _counts() if fewest <= count < seqs),
    )
    if not sglang and _takes(plan, "watermark") and "watermark" not in plan.engine.flags:
        yield Lever("watermark", (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3))
    share = "mem-fraction-static" if sglang else "gpu-memory-utilization"
    if "kv-cache-memory-bytes" not in plan.engine.flags:
        steps = [round(utilization + step / 100, 3) for step in range(1, 31)]
        yield Lever(share, _feasible(trial, share, [step for step in steps if step <= _MOST_UTILIZATION]))
        yield Lever(
            share, tuple(round(utilization - step / 100, 3) for step in range(1, 21) if utilization - step / 100 >= 0.5)
        )
    yield Lever("tensor-parallel-size", tuple(_wider(plan)))
    batched = effective.max_num_batched_tokens.value
    least = (
        max(512, seqs if not sglang else 0)
        if effective.chunked_prefill.value or sglang
        else effective.max_model_len.value
    )
    yield Lever(
        "chunked-prefill-size" if sglang else "max-num-batched-tokens",
        tuple(size for size in (16384, 8192, 4096, 2048, 1024, 512) if least <= size < batched),
    )
    longest = effective.max_model_len.value
    shortest = max(length, min(tokens, longest), longest // part)
    if not effective.max_model_len_auto:
        yield Lever(
            "context-length" if sglang else "max-model-len",
            tuple(size for size in _lengths(longest) if size >= shortest),
        )
    if not str(effective.kv_cache_dtype.value).startswith("fp8"):
        yield Lever("kv-cache-dtype", ("fp8_e5m2",) if sglang else ("fp8",))


def _counts() -> list[int]:
    """Numbers of sequences as people write them, the largest first."""
    found = [*range(1, 33), *range(36, 65, 4), *range(72, 257, 8), *range(272, 513, 16), *range(576, 4097, 64)]
    return found[::-1]


def _lengths(most: int) -> list[int]:
    """Lengths below ``most``: multiples of 1024, and few short ones."""
    return [*range((most - 1) // 1024 * 1024, 1023, -1024), 768, 512]


def _wanted(plan: Plan) -> tuple[int, int]:
    """(tokens of the longest declared request, declared requests at a time in one engine copy); 0 where none is declared."""
    from planner.facts.admission import admission
    from planner.facts.demand import demand

    workload, _ = demand(plan)
    if workload is None or plan.effective is None or workload.lengths_assumed:
        longest = 0
    else:
        cap = plan.effective.max_model_len.value
        longest = min(cap, int(workload.prompts.longest) + int(workload.outputs.longest))
    found = admission(plan)
    return longest, (found.per_copy or 0) if found is not None else 0


def _takes(plan: Plan, name: str) -> bool:
    """Whether this release of vLLM has a flag."""
    from planner.engines.vllm_flag_table import flag_table

    return flag_table(plan.engine.version_key).has(name)


def _feasible(trial: Trial, flag: str, steps: Sequence[float]) -> tuple[float, ...]:
    """The shares up to the last one that violates no rule anew: beyond it what lives outside the share has no room."""
    before = _worst(trial.base)
    usable = []
    for step in steps:
        found = _worst(trial.findings({flag: step}))
        if any(
            grave > before.get(rule, -1)
            for rule, grave in found.items()
            if rule in ("memory-headroom-too-small", "utilization-above-free-memory", "no-feasible-utilization")
            or rule not in GOALS
        ):
            break
        usable.append(step)
    return tuple(usable)


def _wider(plan: Plan) -> Iterator[int]:
    """Tensor parallel sizes that use GPUs which the pod asks for and the engine leaves idle."""
    gpus, effective = plan.gpus_per_pod, plan.effective
    if gpus is None or effective is None or plan.pods != 1 or plan.starts != 1:
        return
    parallel = effective.parallel
    size = parallel.tensor * 2
    while size * parallel.groups <= gpus.value and size <= 64:
        if gpus.value % (size * parallel.groups) == 0:
            yield size
        size *= 2
