"""``planner suggest FILE…``: the smallest changes of existing manifests, as a diff or written."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from planner.cli.options import CannotRun
from planner.cli.options import write as write_report

if TYPE_CHECKING:
    from planner.documents.document import Problem
    from planner.lint.finding import NotEvaluated
    from planner.settings import Settings
    from planner.suggest.existing import Advice


def run(
    paths: tuple[str, ...],
    *,
    keep: tuple[str, ...] = (),
    write: bool = False,
    settings: Settings,
    format: str = "text",
    output: str | None = None,
    problems: Sequence[Problem] = (),
) -> int:
    """Suggests changes for the manifests behind ``paths``; returns the exit code.

    A diff goes to standard output (or ``output``) and what is to be said about it to standard error; ``write`` changes
    the files instead. ``format`` ``json`` gives one object with all of it. 0: nothing is left to mend, 1: something is
    that flags cannot mend, 2: something could not be read or written.
    """
    from planner.lint.rule import BrokenRule
    from planner.lint.run import select_rules
    from planner.suggest.existing import improve
    from planner.suggest.manifests import load

    _check_names(keep)
    settings = settings._replace(baseline="")
    try:
        rules = select_rules(settings)
        manifests = load(paths, settings)
        found, undecided = improve(manifests, rules, keep)
    except BrokenRule as error:
        raise CannotRun(str(error)) from None
    wrong = [*problems, *(problem for content in manifests.contents.values() for problem in content.problems)]
    changed, diff = manifests.changed, manifests.diff()
    written: list[str] = []
    if write:
        written, failed = manifests.write()
        wrong += failed
    if format == "json":
        document = {
            "schema": "planner/v1",
            "suggestions": [_json(advice) for advice in found],
            "not_evaluated": [
                {
                    "workload": gap.workload,
                    "container": gap.container,
                    "file": gap.position.file if gap.position else None,
                    "line": gap.position.line if gap.position else None,
                    "fact": gap.fact,
                    "reason": gap.reason,
                    "remedy": gap.remedy,
                }
                for gap in undecided
            ],
            "files": list(changed),
            "written": written,
            "diff": diff,
            "errors": [
                {
                    "file": problem.position.file,
                    "line": problem.position.line,
                    "column": problem.position.column,
                    "message": problem.message,
                }
                for problem in wrong
            ],
        }
        write_report(json.dumps(document, indent=1, ensure_ascii=True) + "\n", output)
    else:
        if not write or output is not None:
            write_report(diff, output)
        sys.stdout.flush()
        sys.stderr.write(_text(found, undecided, wrong, changed, written, write))
    if wrong:
        return 2
    return int(any(advice.left for advice in found))


def _check_names(keep: Sequence[str]) -> None:
    """A slip in ``--keep`` would let go of what must not be touched."""
    from planner.lint.run import hint
    from planner.suggest.changes import known_names

    names = known_names()
    for word in keep:
        name = word.strip().lstrip("-").replace("_", "-").lower()
        if name not in names:
            raise CannotRun(
                f"--keep {word}: no flag that a suggestion changes{hint(name, names)} (those are {', '.join(sorted(names))})"
            )


def _json(advice: Advice) -> dict[str, Any]:
    return {
        "workload": advice.workload,
        "container": advice.container,
        "file": advice.position.file,
        "line": advice.position.line,
        "changes": [
            {"flag": change.flag, "before": change.before or None, "after": change.after, "given": change.given}
            for change in advice.changes
        ],
        "mends": list(advice.mended),
        "left": [
            {"rule": finding.rule, "severity": finding.severity, "message": finding.message} for finding in advice.left
        ],
        "reasons": list(advice.reasons),
        "refused": list(advice.refused),
    }


def _text(
    found: Sequence[Advice],
    undecided: Sequence[NotEvaluated],
    wrong: Sequence[Problem],
    changed: Sequence[str],
    written: Sequence[str],
    write: bool,
) -> str:
    from planner.lint.message import printable, without_commands

    lines = [f"{printable(str(problem.position))}: {printable(problem.message)}" for problem in wrong]
    for advice in found:
        who = f"{advice.workload} · {advice.container}"
        lines.append(f"{printable(str(advice.position))}: {printable(who)}")
        for change in advice.changes:
            before = printable(change.before or "not set", 60)
            if change.before and not change.given:
                before += ", the default"
            lines.append(f"    --{change.flag} {change.after} (was {before})")
        if advice.mended:
            lines.append(f"    mends {', '.join(advice.mended)}")
        lines += [f"    not changed: {printable(text)}" for text in advice.refused]
        for finding in advice.left:
            lines.append(f"    left: {finding.severity} {finding.rule}: {finding.message}")
        lines += [f"    → {printable(text)}" for text in advice.reasons]
    for gap in undecided:
        who = f"{gap.workload} · {gap.container}"
        place = printable(str(gap.position)) if gap.position else ""
        lines.append(f"{place}: {printable(who)}: not worked out: {printable(gap.fact)} is unknown: {gap.reason}")
        lines.append(f"    → {gap.remedy}")
    left = sum(1 for advice in found if advice.left)
    counts = [f"{len(changed)} file{'' if len(changed) == 1 else 's'} {'written' if write else 'to change'}"]
    if write and len(written) != len(changed):
        counts[0] = f"{len(written)} of {len(changed)} files written"
    if not found:
        counts = ["nothing to change"] if undecided else ["nothing to change: every engine keeps its reserve"]
    if left:
        counts.append(f"{left} engine{'' if left == 1 else 's'} that flags alone do not mend")
    if undecided:
        counts.append(f"{len(undecided)} engine{'' if len(undecided) == 1 else 's'} not worked out for want of a fact")
    return without_commands("\n".join([*lines, "; ".join(counts)]) + "\n")
