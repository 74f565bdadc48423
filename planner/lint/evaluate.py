"""Rules over the facts of a plan → findings, and what could not be decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from planner.lint.cel import NotKnown, RuleError, Runtime, in_range
from planner.lint.finding import SEVERITIES, Finding, NotEvaluated, ProposedFix
from planner.lint.message import FUNCTIONS, calls, fields, fill, look_up, printable
from planner.lint.rule import BrokenRule, Rule, line_of, line_of_key, whole
from planner.provenance import Position, Unknown
from planner.record import NamedTuple

#: What rules may name. ``item`` is bound by ``for_each``, ``rank`` runs over the ranks in scope ``rank``.
VARIABLES = (
    "workload", "pod", "container", "engine", "model", "accelerator", "parallel", "budget", "rank", "capacity", "reserve",
    "item", "parameters",
)  # fmt: skip


class Subject(NamedTuple):
    """What the rules look at: the facts of one engine on one accelerator.

    ``facts`` has a mapping for each of ``VARIABLES``; ``positions`` maps dotted paths of facts to places; ``unknown``
    lists the facts that are missing, with reasons.
    """

    workload: str
    container: str
    facts: dict[str, Any]
    positions: Mapping[str, Position]
    unknown: Sequence[Unknown]
    default_position: Position


class Outcome(NamedTuple):
    """Everything that evaluation found, in file order and without repetitions. ``silenced``: (rule, file) of violations
    that a cause speaks for."""

    findings: tuple[Finding, ...]
    not_evaluated: tuple[NotEvaluated, ...]
    silenced: frozenset[tuple[str, str]] = frozenset()


@cache
def _runtime() -> Runtime:
    """The expressions of a process, compiled once, however often rules are evaluated."""
    return Runtime(VARIABLES, checked=False)


def evaluate(
    rules: Sequence[Rule], subjects: Iterable[Subject], parameters: Mapping[str, Mapping[str, Any]] | None = None
) -> Outcome:
    """Every rule over every subject. ``parameters`` overrides those of rules, by rule id.

    Raises BrokenRule where an expression is wrong: a rule that cannot be evaluated must not look like a pass.
    """
    runtime = _runtime()
    findings: dict[tuple[Any, ...], Finding] = {}
    missing: dict[tuple[Any, ...], NotEvaluated] = {}
    silenced: set[tuple[str, str]] = set()
    ordered = _causes_first(rules)
    for subject in subjects:
        reported: dict[tuple[str, int], int] = {}
        bound_cache: dict[Any, Any] = {}
        plain = in_range(subject.facts)
        for rule in ordered:
            settings = {**dict(rule.parameters), **((parameters or {}).get(rule.id) or {})}
            for number, extra, place in _instances(rule, subject):
                facts = subject.facts
                if extra or settings:
                    facts = {**subject.facts, **(extra or {}), "parameters": settings}
                key = (number, rule.for_each, rule.scope, rule.id if settings else "")
                if key not in bound_cache:
                    bound_cache[key] = runtime.bind({**plain, **in_range({**(extra or {}), "parameters": settings})})
                case_number, gap = _judge(rule, subject, runtime, bound_cache[key], listed=extra is not None)
                if gap is not None:
                    missing.setdefault((rule.id, subject.workload, subject.container, gap.fact, gap.position), gap)
                elif case_number is not None:
                    grave = SEVERITIES.index(rule.cases[case_number].severity)
                    # A cause speaks for its effects, unless the effect is the graver of the two.
                    silent = any(reported.get((cause, number), -1) >= grave for cause in rule.silenced_by)
                    for place_of_rule in {number, -1}:
                        key_of_rule = (rule.id, place_of_rule)
                        reported[key_of_rule] = max(grave, reported.get(key_of_rule, -1))
                    if silent:
                        silenced.add((rule.id, subject.default_position.file))
                    else:
                        finding = _finding(rule, case_number, subject, facts, place, (extra or {}).get("item"))
                        if whole(rule).fixes:
                            fixes = tuple(_fixes(whole(rule), facts, runtime, bound_cache[key]))
                            finding = finding._replace(fixes=fixes)
                        findings.setdefault((finding.rule, finding.position, finding.message), finding)
    return together([Outcome(tuple(findings.values()), tuple(missing.values()), frozenset(silenced))])


def together(outcomes: Sequence[Outcome]) -> Outcome:
    """One outcome of several shares of a run: in file order and without repetitions, however the run was shared."""
    findings = {(f.rule, f.position, f.message): f for part in outcomes for f in part.findings}
    missing = {
        (g.rule, g.workload, g.container, g.fact, g.position): g for part in outcomes for g in part.not_evaluated
    }
    return Outcome(
        tuple(sorted(findings.values(), key=lambda finding: finding.sort_key)),
        tuple(sorted(missing.values(), key=lambda gap: gap.sort_key)),
        frozenset().union(*(part.silenced for part in outcomes)),
    )


def check(rules: Iterable[Rule]) -> None:
    """Compiles every expression, whether or not an input will come to it. Raises BrokenRule for the first wrong one."""
    runtime = Runtime(VARIABLES)
    for rule in rules:
        if rule.for_each and rule.for_each.partition(".")[0] not in VARIABLES:
            raise broken(rule, rule.for_each, f"for_each must name a list of {', '.join(VARIABLES)}")
        for expression in filter(
            None, (rule.when, *(case.violated for case in rule.cases), *(fix.when for fix in rule.fixes))
        ):
            try:
                runtime.compile(expression)
            except RuleError as error:
                raise broken(rule, expression, error) from None
        said = {
            key: [getattr(rule, key), *(getattr(case, key) for case in rule.cases)] for key in ("message", "remedy")
        }
        said["fix"] = [text for fix in rule.fixes for text in (fix.title, *dict(fix.arguments).values())]
        for key, templates in said.items():
            for template in filter(None, templates):
                for function, path in calls(template):
                    if path.partition(".")[0] not in VARIABLES:
                        raise _no_field(rule, key, path, f"a field starts with one of {', '.join(VARIABLES)}")
                    if function and function not in FUNCTIONS:
                        raise _no_field(rule, key, function, f"functions are {', '.join(FUNCTIONS)}")


def _no_field(rule: Rule, key: str, name: str, known: str) -> BrokenRule:
    return BrokenRule(f"{rule.path}:{line_of_key(rule, key, name)}: rule {rule.id}: {key}: {{{name}}}: {known}")


def broken(rule: Rule, expression: str, error: object) -> BrokenRule:
    """A rule's error at the line of the expression that is wrong, with CEL's own message."""
    return BrokenRule(f"{rule.path}:{line_of(rule, expression)}: rule {rule.id}: {expression.strip()}: {error}")


def _causes_first(rules: Sequence[Rule]) -> list[Rule]:
    """Rules in an order in which those that silence others come before them."""
    by_id = {rule.id: rule for rule in rules}
    done: dict[str, Rule] = {}

    def visit(rule: Rule, trail: tuple[str, ...]) -> None:
        if rule.id in done or rule.id in trail:
            return
        for cause in rule.silenced_by:
            if cause in by_id:
                visit(by_id[cause], (*trail, rule.id))
        done[rule.id] = rule

    for rule in rules:
        visit(rule, ())
    return list(done.values())


def _instances(rule: Rule, subject: Subject) -> Iterable[tuple[int, dict[str, Any] | None, str]]:
    """(number, extra variables, path prefix of the instance) of everything that a rule is evaluated for; None for the
    variables where the list to run over is itself not known."""
    if rule.for_each:
        items = look_up(subject.facts, rule.for_each)
        if not isinstance(items, list):
            yield -1, None, ""
            return
        for number, item in enumerate(items):
            yield number, {"item": item}, f"{rule.for_each}[{number}]"
    elif rule.scope == "rank":
        for number, rank in enumerate(subject.facts.get("budget", {}).get("ranks") or [{}]):
            yield number, {"rank": rank}, ""
    else:
        yield -1, {}, ""


def _judge(
    rule: Rule, subject: Subject, runtime: Runtime, bound: Any, listed: bool
) -> tuple[int | None, NotEvaluated | None]:
    """The number of the case that holds, or what is missing to tell."""
    expression = rule.when
    try:
        if rule.when and not runtime.evaluate(rule.when, bound):
            return None, None
        for need in rule.needs:
            for unknown in subject.unknown:
                if unknown.fact == need or unknown.fact.startswith(need + "."):
                    return None, _gap(rule, subject, unknown)
        if not listed:
            raise NotKnown(rule.for_each.rpartition(".")[2])
        for number, case in enumerate(rule.cases):
            expression = case.violated
            if runtime.evaluate(expression, bound):
                return number, None
    except NotKnown as error:
        return None, _gap(rule, subject, _explain(str(error), expression if listed else rule.for_each, subject.unknown))
    except RuleError as error:
        raise broken(rule, expression, error) from None
    return None, None


def _explain(key: str, expression: str, unknown: Sequence[Unknown]) -> Unknown:
    """The reason for a missing key: the first unknown fact that the expression depends on."""
    for candidate in unknown:
        if candidate.fact in expression or candidate.fact.rpartition(".")[2] == key:
            return candidate
    roots = [
        candidate for candidate in unknown if candidate.fact.partition(".")[0] in ("model", "accelerator", "engine")
    ]
    if roots:
        return roots[0]
    return Unknown(key, f"the plan has no value for {key!r}", "planner budget --explain shows what is known")


def _named(item: dict[str, Any]) -> str:
    from planner.lint.identity import subject

    return printable(subject(item), 200)


def _gap(rule: Rule, subject: Subject, unknown: Unknown) -> NotEvaluated:
    return NotEvaluated(
        rule.id,
        subject.workload,
        subject.container,
        unknown.fact,
        printable(unknown.reason),
        printable(unknown.remedy),
        unknown.position or subject.default_position,
    )


def _fixes(rule: Rule, facts: dict[str, Any], runtime: Runtime, bound: Any) -> Iterator[ProposedFix]:
    """The fixes whose condition holds, with their arguments filled in; one that lacks a fact is none."""
    for fix in rule.fixes:
        try:
            if fix.when and not runtime.evaluate(fix.when, bound):
                continue
        except NotKnown:
            continue
        except RuleError as error:
            raise broken(rule, fix.when, error) from None
        if all(look_up(facts, path) is not None for _, template in fix.arguments for path in fields(template)):
            arguments = tuple((name, fill(template, facts)) for name, template in fix.arguments)
            yield ProposedFix(fix.edit, fix.safety, fill(fix.title, facts), arguments)


def _finding(rule: Rule, number: int, subject: Subject, facts: dict[str, Any], place: str, item: Any) -> Finding:
    rule = whole(rule)
    case = rule.cases[number]
    position = subject.default_position
    for path in (f"{place}" if place else "", *rule.at):
        if path and path in subject.positions:
            position = subject.positions[path]
            break
    return Finding(
        rule=rule.id,
        severity=case.severity,
        message=fill(case.message or rule.message, facts),
        position=position,
        workload=subject.workload,
        container=subject.container,
        remedy=fill(case.remedy or rule.remedy, facts),
        title=rule.title,
        anchors=tuple(
            anchor
            for key in (
                *(path.replace("engine.flags.", "engine.flag.") for path in rule.at),
                "container.name",
                "workload",
            )
            if (anchor := subject.positions.get(key)) is not None
        ),
        subject=_named(item) if isinstance(item, dict) else "",
    )
