"""``planner lint --fix``, ``--diff``, and the edits that findings carry in JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.cli.options import write

if TYPE_CHECKING:
    from planner.documents.document import Problem
    from planner.report.result import LintResult
    from planner.settings import Settings


def run(
    paths: Sequence[str],
    settings: Settings,
    problems: Sequence[Problem],
    manifests_only: bool,
    unsafe: bool,
    diff: bool,
    output: str | None,
) -> LintResult:
    """Makes the fixes of rules and returns the result of what is left; what was fixed goes to standard error.

    ``diff``: the files stay as they are, the changes are printed, and the result is that of the files as they are. Raises
    BrokenRule.
    """
    from planner.lint.message import printable, without_commands
    from planner.lint.run import lint, select_rules
    from planner.suggest.fixes import fix_all
    from planner.suggest.manifests import load

    rules = select_rules(settings)
    manifests = load(paths or (".",), settings, manifests_only)
    before = list(manifests.contents.values())
    fixed = fix_all(manifests, rules, unsafe)
    if diff:
        write(manifests.diff(), output)
        return lint(before, rules, settings, problems)
    written, failed = manifests.write()
    lines = [
        f"{printable(str(one.finding.position))}: fixed {one.finding.rule}: {printable(one.fix.title)}"
        for one in fixed
        if one.finding.position.file in written
    ]
    lines.append(f"{len(lines)} fixed in {len(written)} file{'' if len(written) == 1 else 's'}")
    sys.stderr.write(without_commands("\n".join(lines) + "\n"))
    names = {problem.position.file for problem in failed}
    after = [old if old.file in names else new for old, new in zip(before, manifests.contents.values(), strict=True)]
    return lint(after, rules, settings, (*problems, *failed))


def with_edits(
    paths: Sequence[str], settings: Settings, problems: Sequence[Problem], manifests_only: bool
) -> LintResult:
    """What ``planner.lint.run.lint_paths`` gives, with ``fix`` of every finding that an edit of text would mend. Raises
    BrokenRule."""
    from planner.lint.run import lint, select_rules
    from planner.suggest.fixes import with_fixes
    from planner.suggest.manifests import load

    rules = select_rules(settings)
    manifests = load(paths or (".",), settings, manifests_only)
    result = lint(list(manifests.contents.values()), rules, settings, problems)
    return with_fixes(manifests, result)
