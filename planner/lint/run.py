"""A lint run: files and rules → everything that a report shows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from planner.lint.evaluate import Outcome, Subject, check, evaluate, together
from planner.lint.rule import BrokenRule, Rule, built_in_rules, load_folder
from planner.report.result import LintResult

if TYPE_CHECKING:
    from planner.documents.document import FileContent, Problem
    from planner.plan import Plan
    from planner.settings import Settings


def select_rules(settings: Settings) -> tuple[Rule, ...]:
    """The rules of a run: built in and the user's own, by id or category. Raises BrokenRule for a name of no rule."""
    rules = {rule.id: rule for rule in built_in_rules()}
    for folder in settings.rules:
        if not os.path.isdir(folder):
            raise BrokenRule(f"--rules {folder}: there is no such folder")
        own = load_folder(folder)
        if not own:
            raise BrokenRule(f"--rules {folder}: no rule in this folder")
        check(own)
        rules.update({rule.id: rule for rule in own})
    names = {*rules, *(rule.category for rule in rules.values())}
    for name in (*settings.select, *settings.ignore):
        if name not in names:
            raise BrokenRule(
                f"{name!r} is neither a rule nor a category{hint(name, names)}; `planner rules` lists them"
            )
    for name in settings.parameters:
        if name not in rules:
            raise BrokenRule(f"{settings.source}: parameters of {name!r}, which is no rule{hint(name, rules)}")
    return tuple(
        rule
        for rule in rules.values()
        if (not settings.select or rule.id in settings.select or rule.category in settings.select)
        and rule.id not in settings.ignore
        and rule.category not in settings.ignore
    )


def hint(name: str, known: Iterable[str]) -> str:
    """``; did you mean X?`` where a known name is near, else nothing."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def lint_paths(
    paths: Sequence[str], settings: Settings, problems: Sequence[Problem] = (), manifests_only: bool = False
) -> LintResult:
    """Reads and lints what ``paths`` name, by default the current folder. Raises BrokenRule.

    ``manifests_only``: files that hold no Kubernetes object are passed over without a word, even where they are named.
    """
    from planner.documents.inputs import read_inputs

    rules = select_rules(settings)
    files = list(read_inputs(paths or (".",), settings.exclude, manifests_only))
    return lint(files, rules, settings, problems)


def lint(
    files: Sequence[FileContent], rules: Sequence[Rule], settings: Settings, problems: Sequence[Problem] = ()
) -> LintResult:
    """Plans everything that the files start, evaluates the rules, and sets suppressed findings apart."""
    from planner.lint.shares import in_shares, shares
    from planner.lint.suppress import collect, sift
    from planner.plan import extract_files, plan_workloads

    extraction = extract_files(files)
    workloads = extraction.workloads

    def judge(share: int, count: int) -> tuple[Outcome, int]:
        plans, engines = plan_workloads(workloads[share::count], settings, objects=extraction.objects)
        return evaluate(rules, _subjects(plans), settings.parameters), engines

    judged = in_shares(judge, shares(len(workloads)))
    outcome = together([part for part, _ in judged])
    documents = [document for content in files for document in content.documents]
    suppressions, comment_problems = collect(documents, workloads)
    unread = [problem for content in files for problem in content.problems]
    evaluated = {rule.id for rule in rules}
    sifted = sift(outcome, suppressions, evaluated, evaluated | {rule.id for rule in built_in_rules()})
    return LintResult(
        findings=sifted.findings,
        suppressed=sifted.suppressed,
        unused_suppressions=sifted.unused,
        not_evaluated=outcome.not_evaluated,
        problems=(*problems, *unread, *extraction.problems, *comment_problems),
        notices=tuple(notice for content in files for notice in content.notices),
        rules=tuple(rules),
        lines={content.file: content.lines for content in files if content.lines},
        files=len(files),
        workloads=len(workloads),
        engines=sum(engines for _, engines in judged),
        fail_on=settings.fail_on,
        strict=settings.strict,
    )


def _subjects(plans: Sequence[Plan]) -> Iterator[Subject]:
    from planner.facts import rule_facts
    from planner.facts.demand import demand_gaps
    from planner.facts.gaps import gaps

    for plan in plans:
        facts, positions = rule_facts(plan)
        workload = plan.workload
        yield Subject(
            workload=f"{workload.kind}/{workload.name}" if workload else "",
            container=plan.container.name if plan.container else "",
            facts=facts,
            positions=positions,
            unknown=(*plan.unknown, *gaps(plan, facts), *demand_gaps(plan)),
            default_position=plan.position,
        )
