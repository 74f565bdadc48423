"""What a lint run found, before it is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.record import dataclass, field

if TYPE_CHECKING:
    from planner.documents.document import Notice, Problem
    from planner.lint.baseline import Entry, Stale
    from planner.lint.finding import Finding, NotEvaluated
    from planner.lint.rule import Rule
    from planner.lint.suppress import Suppression, Unused
    from planner.provenance import Position


@dataclass(frozen=True, eq=False)
class LintResult:
    """Everything a report may show. ``lines`` maps a file to its source lines; ``baselined`` are findings that the baseline
    knows, ``stale`` what it knows and nobody finds any more, ``baseline_kept`` what this run has not looked at;
    ``unknown_kinds`` counts the objects of kinds that are read by
    their shape alone."""

    findings: tuple[Finding, ...]
    suppressed: tuple[tuple[Finding, Suppression], ...]
    unused_suppressions: tuple[Unused, ...]
    not_evaluated: tuple[NotEvaluated, ...]
    problems: tuple[Problem, ...]
    notices: tuple[Notice, ...]
    rules: tuple[Rule, ...]
    lines: dict[str, tuple[str, ...]]
    files: int
    workloads: int
    engines: int
    fail_on: str = "error"
    strict: bool = False
    baselined: tuple[Finding, ...] = ()
    stale: tuple[Stale, ...] = ()
    baseline_kept: tuple[Entry, ...] = ()
    unknown_kinds: dict[str, int] = field(default_factory=dict)
    rule_pages: str = ""

    def pages(self) -> dict[str, str]:
        """Where more about each rule of the run can be read; see ``planner.lint.pages``."""
        from planner.lint.pages import page_of

        return {rule.id: page_of(rule, self.rule_pages) for rule in self.rules}

    @property
    def exit_code(self) -> int:
        """0 clean, 1 findings at or above ``fail_on``, 2 something could not be checked; the same in every format.

        ``strict``: what could not be evaluated is 2, and a suppression or a baseline entry without a finding is 1.
        """
        from planner.lint.finding import SEVERITIES

        if self.problems or (self.strict and self.not_evaluated):
            return 2
        if self.strictly_wrong:
            return 1
        threshold = SEVERITIES.index(self.fail_on)
        return int(any(SEVERITIES.index(finding.severity) >= threshold for finding in self.findings))

    @property
    def strictly_wrong(self) -> tuple[tuple[Position, str, str], ...]:
        """(place, name, message) of what fails a run because of ``strict`` alone, and is no finding of a rule."""
        if not self.strict:
            return ()
        return (
            *((unused.position, "unused-suppression", unused.message) for unused in self.unused_suppressions),
            *((stale.position, "stale-baseline", stale.message) for stale in self.stale),
        )

    def worth_a_word(self, manifests_only: bool) -> bool:
        """Whether to print at all: a commit without manifests costs nothing and says nothing."""
        return not manifests_only or bool(self.files or self.problems)
