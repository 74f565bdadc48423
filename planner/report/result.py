"""What a lint run found, before it is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.record import dataclass

if TYPE_CHECKING:
    from planner.documents.document import Notice, Problem
    from planner.lint.finding import Finding, NotEvaluated
    from planner.lint.rule import Rule
    from planner.lint.suppress import Suppression, Unused


@dataclass(frozen=True, eq=False)
class LintResult:
    """Everything a report may show. ``lines`` maps a file to its source lines."""

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

    @property
    def exit_code(self) -> int:
        """0 clean, 1 findings at or above ``fail_on``, 2 something could not be checked; the same in every format."""
        from planner.lint.finding import SEVERITIES

        if self.problems or (self.strict and self.not_evaluated):
            return 2
        threshold = SEVERITIES.index(self.fail_on)
        return int(any(SEVERITIES.index(finding.severity) >= threshold for finding in self.findings))

    def worth_a_word(self, manifests_only: bool) -> bool:
        """Whether to print at all: a commit without manifests costs nothing and says nothing."""
        return not manifests_only or bool(self.files or self.problems)
