"""``planner suggest FILE``: for every engine of the manifests the smallest changes, put into their text and linted again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from planner.lint.finding import SEVERITIES
from planner.record import NamedTuple
from planner.suggest import flag_edits
from planner.suggest.changes import GOALS, Change, Outcome, search
from planner.suggest.flag_edits import Proposal
from planner.suggest.manifests import Key, Manifests, Meant

if TYPE_CHECKING:
    from planner.lint.finding import Finding, NotEvaluated
    from planner.lint.rule import Rule
    from planner.plan import Plan
    from planner.provenance import Position
    from planner.report.result import LintResult
    from planner.settings import Settings

#: Searches of one container: each starts where the one before has ended, and the last finds nothing more.
_ROUNDS = 4


class Advice(NamedTuple):
    """What is suggested for one container. ``mended`` and ``left`` are rules; ``reasons`` says what flags cannot mend;
    ``refused`` which changes could not be put into the text, and why."""

    workload: str
    container: str
    position: Position
    changes: tuple[Change, ...]
    mended: tuple[str, ...]
    left: tuple[Finding, ...]
    reasons: tuple[str, ...]
    refused: tuple[str, ...]


class Improved(NamedTuple):
    """What became of the manifests: advice for each container that does not keep the reserve, and the engines of which
    nobody can tell whether they do, each with the fact that is missing."""

    advice: tuple[Advice, ...]
    undecided: tuple[NotEvaluated, ...]


def improve(manifests: Manifests, rules: Sequence[Rule], keep: Collection[str] = ()) -> Improved:
    """Changes the texts of ``manifests`` so that their engines keep the reserve. Raises BrokenRule."""
    every = every_rule(manifests)
    before = linted(manifests, every)
    goals = GOALS & {rule.id for rule in rules}
    wanted = {(f.workload, f.container) for f in before.findings if f.rule in goals}
    undecided = tuple(
        gap for gap in before.not_evaluated if gap.rule == "progress-reserve-missing" and gap.rule in goals
    )
    if not wanted:
        return Improved((), undecided)
    suppressed: dict[tuple[str, str], set[str]] = {}
    for finding, _ in before.suppressed:
        suppressed.setdefault((finding.workload, finding.container), set()).add(finding.rule)
    found: list[Advice] = []
    start = manifests.mark()
    for key, plans in manifests.plans().items():
        who = label(plans[0])
        if who in wanted:
            advice = _improve_one(manifests, key, every, keep, suppressed.get(who, set()) | (GOALS - goals))
            if advice.changes or advice.left or advice.refused:  # else another container of this name was meant
                found.append(advice)
    if manifests.changed and worse(everything(before), everything(linted(manifests, every))):
        # No single change does harm, or it would not have been accepted; together they might.
        manifests.back_to(start)
        reason = "all changes together would violate rules that hold now"
        found = [advice._replace(changes=(), mended=(), refused=(*advice.refused, reason)) for advice in found]
    return Improved(tuple(found), undecided)


def label(plan: Plan) -> tuple[str, str]:
    """(workload, container) as findings name them."""
    workload = plan.workload
    return f"{workload.kind}/{workload.name}" if workload else "", plan.container.name if plan.container else ""


def linted(manifests: Manifests, rules: Sequence[Rule]) -> LintResult:
    """A lint run over the texts as they are now."""
    from planner.lint.run import lint

    return lint(list(manifests.contents.values()), rules, unfiltered(manifests.settings))


def every_rule(manifests: Manifests) -> tuple[Rule, ...]:
    """All rules there are, whatever the run selects: a change must not violate one that nobody looks at now."""
    from planner.lint.run import select_rules

    return select_rules(unfiltered(manifests.settings))


def unfiltered(settings: Settings) -> Settings:
    """The settings with no rule left out, and nothing known from a baseline."""
    return settings._replace(select=(), ignore=(), baseline="")


def worse(before: Sequence[Finding], after: Sequence[Finding]) -> list[Finding]:
    """The findings that are new. Of what flags can mend, only what is graver than all that such a container had before: a
    cause that is gone no longer hides its effects."""
    known = Counter(_place(finding) for finding in before)
    gravest: dict[tuple[str, str], int] = {}
    for finding in before:
        if finding.rule in GOALS:
            who = (finding.workload, finding.container)
            gravest[who] = max(SEVERITIES.index(finding.severity), gravest.get(who, -1))
    new = []
    for finding in after:
        known[_place(finding)] -= 1
        if known[_place(finding)] >= 0:
            continue
        allowed = gravest.get((finding.workload, finding.container), -1) if finding.rule in GOALS else -1
        if SEVERITIES.index(finding.severity) > allowed:
            new.append(finding)
    return new


def everything(result: LintResult) -> list[Finding]:
    """Findings, and those that somebody has suppressed."""
    return [*result.findings, *(finding for finding, _ in result.suppressed)]


def _place(finding: Finding) -> tuple[str, str, str, str]:
    return finding.rule, finding.severity, finding.workload, finding.container


def _improve_one(
    manifests: Manifests, key: Key, rules: Sequence[Rule], keep: Collection[str], ignored: Collection[str]
) -> Advice:
    first = manifests.plans(manifests.scope(key))[key][0]
    changes: dict[str, Change] = {}
    mended: list[str] = []
    refused: list[str] = []
    impossible: set[str] = set()
    outcome = Outcome((), (), (), ())
    for _ in range(_ROUNDS):
        plans = manifests.plans(manifests.scope(key))[key]
        outcome = search(plans, manifests.settings, rules, {*keep, *impossible}, ignored)
        if not outcome.changes:
            break
        mark = manifests.mark()
        failed = _apply(manifests, key, outcome, rules)
        if failed is not None:
            manifests.back_to(mark)
            change, reason = failed
            impossible.add(change.flag)
            refused.append(f"--{change.flag} {change.after}: {reason}")
            continue
        mended += outcome.mended
        for change in outcome.changes:
            earlier = changes.get(change.flag)
            changes[change.flag] = change if earlier is None else earlier._replace(after=change.after)
    left = outcome.left
    reasons = outcome.reasons if left else ()
    if left and impossible:
        reasons = ("the text of the manifest could not be changed; set one of the flags above by hand",)
    return Advice(
        *label(first),
        first.position,
        tuple(changes.values()),
        tuple(dict.fromkeys(mended)),
        left,
        reasons,
        tuple(refused),
    )


def _apply(manifests: Manifests, key: Key, outcome: Outcome, rules: Sequence[Rule]) -> tuple[Change, str] | None:
    """Puts changes into the texts; the first that does not go, and why."""
    names = manifests.scope(key)
    before = _findings(manifests, names, rules)
    for change in outcome.changes:
        plan = manifests.plans(names)[key][0]
        reason = manifests.attempt(
            proposals(manifests, plan, change.flag, change.after),
            Meant(key, frozenset((change.flag,)), partial(has, change.flag, change.after)),
        )
        if reason:
            return change, reason
    after = _findings(manifests, names, rules)
    added = worse(before, after)
    if added:
        return outcome.changes[0], f"it would violate {added[0].rule}"
    still = Counter((f.rule, f.workload, f.container) for f in after if f.rule in outcome.mended)
    still.subtract((f.rule, f.workload, f.container) for f in before if f.rule in outcome.mended)
    workload, container = label(manifests.plans(names)[key][0])
    for rule in outcome.mended:
        if still[(rule, workload, container)] >= 0:
            return outcome.changes[0], f"it does not mend {rule} once it is in the file"
    return None


def proposals(manifests: Manifests, plan: Plan, flag: str, value: str) -> Iterator[Proposal]:
    """Edits that give a flag a value: where it stands, or anew."""
    given = plan.engine.flags.get(flag)
    files = manifests.files()
    if given is not None and given.raw is not None:
        yield from flag_edits.set_value(files, plan, given, value)
    elif given is None:
        yield from flag_edits.add(files, plan, flag, value)


def has(flag: str, value: str, plan: Plan) -> bool:
    """Whether a plan's engine was given a flag with this text."""
    given = plan.engine.flags.get(flag)
    return given is not None and given.known and given.raw == value


def _findings(manifests: Manifests, names: Collection[str], rules: Sequence[Rule]) -> list[Finding]:
    from planner.lint.run import judge_plans

    plans = [plan for group in manifests.plans(names).values() for plan in group]
    return list(judge_plans(rules, plans, unfiltered(manifests.settings)).findings)
