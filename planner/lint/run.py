"""A lint run: files and rules → everything that a report shows."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from planner.lint.evaluate import Outcome, Subject, check, evaluate, together
from planner.lint.rule import BrokenRule, Rule, built_in_rules, load_folder
from planner.report.result import LintResult

if TYPE_CHECKING:
    from planner.documents.document import FileContent, Notice, Problem
    from planner.plan import Plan
    from planner.provenance import Position
    from planner.render.inputs import Rendered
    from planner.settings import Settings


def select_rules(settings: Settings) -> tuple[Rule, ...]:
    """The rules of a run: built in and the user's own, by id or category; where settings differ by path, those of all
    paths. Raises BrokenRule for a name of no rule."""
    rules = {rule.id: rule for rule in built_in_rules()}
    for folder in settings.rules:
        if not os.path.isdir(folder):
            raise BrokenRule(f"--rules {folder}: there is no such folder")
        own = load_folder(folder)
        if not own:
            raise BrokenRule(f"--rules {folder}: no rule in this folder")
        check(own)
        rules.update({rule.id: rule for rule in own})
    _check_names(rules, settings)
    if not settings.paths:
        return chosen(rules.values(), settings)
    narrowed = [settings, *(settings._replace(**_only_select(entry.values)) for entry in settings.paths)]
    wanted = {rule.id for one in narrowed for rule in chosen(rules.values(), one)}
    return tuple(rule for rule in rules.values() if rule.id in wanted)


def chosen(rules: Iterable[Rule], settings: Settings) -> tuple[Rule, ...]:
    """Those of some rules that the settings select and do not ignore."""
    return tuple(
        rule
        for rule in rules
        if (not settings.select or rule.id in settings.select or rule.category in settings.select)
        and rule.id not in settings.ignore
        and rule.category not in settings.ignore
    )


def _only_select(values: dict[str, Any]) -> dict[str, Any]:
    return {"select": values["select"]} if "select" in values else {}


def _check_names(rules: dict[str, Rule], settings: Settings) -> None:
    """Raises BrokenRule, with the place in the settings file, for a name that is none of a rule or category."""
    names = {*rules, *(rule.category for rule in rules.values())}

    def at(setting: str, name: str) -> str:
        place = settings.places.get(f"{setting}: {name}")
        return f"{place}: " if place else ""

    for one in (settings._asdict(), *(entry.values for entry in settings.paths)):
        for setting in ("select", "ignore"):
            for name in one.get(setting, ()):
                if name not in names:
                    raise BrokenRule(
                        f"{at(setting, name)}{name!r} is neither a rule nor a category{hint(name, names)}; "
                        "`planner rules` lists them"
                    )
        for setting in ("parameters", "severity"):
            for name in one.get(setting, ()):
                if name not in rules:
                    raise BrokenRule(f"{at(setting, name)}{setting} of {name!r}, which is no rule{hint(name, rules)}")


def hint(name: str, known: Iterable[str]) -> str:
    """``; did you mean X?`` where a known name is near, else nothing."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def lint_paths(
    paths: Sequence[str],
    settings: Settings,
    problems: Sequence[Problem] = (),
    manifests_only: bool = False,
    values: Sequence[str] | None = None,
) -> LintResult:
    """Reads and lints what ``paths`` name, by default the current folder. Raises BrokenRule.

    ``manifests_only``: files that hold no Kubernetes object are passed over without a word, even where they are named.
    ``values``: kustomizations and charts are rendered, the latter with these files of values; None: they are not.
    """
    from planner.documents.inputs import read_inputs

    rules = select_rules(settings)
    files = list(read_inputs(paths or (".",), settings.exclude, manifests_only, values is not None))
    if values is None:
        return lint(files, rules, settings, problems)
    from planner.render.inputs import render

    rendered = render(files, values)
    return lint(rendered.files, rules, settings, problems, rendered)


def lint(
    files: Sequence[FileContent],
    rules: Sequence[Rule],
    settings: Settings,
    problems: Sequence[Problem] = (),
    rendered: Rendered | None = None,
) -> LintResult:
    """Plans everything that the files start, evaluates the rules, and sets suppressed findings apart. ``rendered`` leads
    from what was rendered among the files to what people edit."""
    from planner.lint.shares import in_shares, shares
    from planner.lint.suppress import collect, sift
    from planner.plan import extract_files, plan_workloads

    extraction = extract_files(files)
    workloads = extraction.workloads

    def judge(share: int, count: int) -> tuple[Outcome, int, set[str]]:
        plans, engines = plan_workloads(workloads[share::count], settings, objects=extraction.objects)
        return judge_plans(rules, plans, settings), engines, {plan.position.file for plan in plans}

    judged = in_shares(judge, shares(len(workloads)))
    outcome = together([part for part, _, _ in judged])
    documents = [document for content in files for document in content.documents]
    lines = {content.file: content.lines for content in files if content.lines}
    names = {content.file for content in files}
    if rendered is not None:
        outcome = rendered.outcome(outcome)
        documents += rendered.documents
        names.update(*rendered.sources.values())

    def locate(position: Position) -> Position:
        return position if rendered is None else rendered.locate(position)

    suppressions, comment_problems = collect(documents, workloads)
    unread = [problem for content in files for problem in content.problems]
    if rendered is not None:
        lines.update(rendered.lines)
    known = {*(rule.id for rule in rules), *(rule.id for rule in built_in_rules())}
    evaluated = _evaluated(rules, settings)
    sifted = sift(outcome, suppressions, evaluated, known)
    against = None
    if settings.baseline:
        from planner.lint.baseline import compare

        against = compare(settings.baseline, sifted.findings, outcome, names, evaluated)
        unread += against.problems
    return LintResult(
        findings=against.new if against else sifted.findings,
        suppressed=tuple((one, wish._replace(position=locate(wish.position))) for one, wish in sifted.suppressed),
        unused_suppressions=tuple(one._replace(position=locate(one.position)) for one in sifted.unused),
        not_evaluated=outcome.not_evaluated,
        problems=(
            *problems,
            *(
                one._replace(position=locate(one.position))
                for one in (*unread, *extraction.problems, *comment_problems)
            ),
        ),
        notices=tuple(_notices(files, {file for _, _, own in judged for file in own})),
        rules=tuple(rules),
        lines=lines,
        files=sum(not _is_aside(content) for content in files),
        workloads=len(workloads),
        engines=sum(engines for _, engines, _ in judged),
        fail_on=settings.fail_on,
        strict=settings.strict,
        baselined=against.known if against else (),
        stale=against.stale if against else (),
        baseline_kept=against.kept if against else (),
        unknown_kinds=extraction.unknown_kinds,
        rule_pages=settings.rule_pages,
    )


def _notices(files: Sequence[FileContent], with_engines: set[str]) -> Iterator[Notice]:
    """What was left out on purpose. That a kustomization was not rendered is worth saying where it reads a file that
    starts an engine."""
    real: set[str] | None = None
    known: dict[str, FileContent] = {}
    for content in files:
        for notice in content.notices:
            if _is_kustomization(notice):
                if not with_engines:
                    continue
                from planner.render.inputs import top_of
                from planner.render.kustomize import names_read

                real = {os.path.realpath(file) for file in with_engines} if real is None else real
                if real.isdisjoint(names_read(content.file, content.file, top_of(content.file), known)):
                    continue
            yield notice


def _is_kustomization(notice: Notice) -> bool:
    from planner.documents.kustomizations import NOT_RENDERED

    return notice.message == NOT_RENDERED


def _is_aside(content: FileContent) -> bool:
    """Whether an input is here only to say that it is a kustomization."""
    return not (content.documents or content.problems) and any(map(_is_kustomization, content.notices))


def judge_plans(rules: Sequence[Rule], plans: Sequence[Plan], settings: Settings) -> Outcome:
    """What the rules say of plans, each by the settings of its file; suppressions not looked at."""
    return together([_judged(rules, part, own) for own, part in _by_settings(plans, settings)])


def _by_settings(plans: Sequence[Plan], settings: Settings) -> Iterator[tuple[Settings, Sequence[Plan]]]:
    """Plans in groups of the same settings; one group where these do not differ by path."""
    if not settings.paths:
        yield settings, plans
        return
    by_file: dict[str, list[Plan]] = {}
    for plan in plans:
        by_file.setdefault(plan.position.file, []).append(plan)
    for file, part in by_file.items():
        yield settings.for_file(file), part


def _judged(rules: Sequence[Rule], plans: Sequence[Plan], settings: Settings) -> Outcome:
    """What the rules say of plans, with the severities that the settings give to them."""
    if settings.paths:
        rules = chosen(rules, settings)
    outcome = evaluate(rules, _subjects(plans), settings.parameters)
    if not settings.severity:
        return outcome
    findings = (f._replace(severity=settings.severity.get(f.rule, f.severity)) for f in outcome.findings)
    return outcome._replace(findings=tuple(findings))


def _evaluated(rules: Sequence[Rule], settings: Settings) -> Callable[[str], Collection[str]]:
    """The ids of the rules that are evaluated for a file."""
    everywhere = frozenset(rule.id for rule in rules)
    if not settings.paths:
        return lambda file: everywhere
    return cache(lambda file: frozenset(rule.id for rule in chosen(rules, settings.for_file(file))))


def _subjects(plans: Sequence[Plan]) -> Iterator[Subject]:
    from planner.facts import rule_facts
    from planner.facts.demand import demand_gaps
    from planner.facts.gaps import gaps
    from planner.facts.serving import serving_gaps

    for plan in plans:
        facts, positions = rule_facts(plan)
        workload = plan.workload
        yield Subject(
            workload=f"{workload.kind}/{workload.name}" if workload else "",
            container=plan.container.name if plan.container else "",
            facts=facts,
            positions=positions,
            unknown=(*plan.unknown, *gaps(plan, facts), *demand_gaps(plan, facts), *serving_gaps(plan, facts)),
            default_position=plan.position,
        )
