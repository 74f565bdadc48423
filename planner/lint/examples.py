"""The examples of a rule are its tests: what violates it is found, at the marked line; what does not is evaluated and passes."""

from __future__ import annotations

from planner.documents.read import read_bytes
from planner.lint.rule import Rule, examples, line_of_key, whole
from planner.lint.run import lint
from planner.settings import Settings

#: Marks the line that a finding points at.
MARK = "# here"


def check_examples(rule: Rule) -> tuple[int, list[str]]:
    """(number of manifests in the examples, what is wrong with them as ``file:line: …``). Raises BrokenRule where the rule
    cannot be evaluated."""
    rule = whole(rule)
    count = 0
    wrong: list[str] = []
    listed = examples(rule)
    where = f"{rule.path}:{line_of_key(rule, 'examples', 'examples')}: rule {rule.id}"
    if not any(example.get("violates") for example in listed) or not any(
        example.get("fixed") or example.get("passes") for example in listed
    ):
        wrong.append(f"{where}: it needs an example that violates it, and one that is fixed or passes")
    for number, example in enumerate(listed, 1):
        for key in ("violates", "fixed", "passes"):
            text = example.get(key)
            if isinstance(text, str) and text:
                count += 1
                wrong += [f"{where}, example {number} ({key}): {what}" for what in _wrong(rule, text, key, example)]
    return count, wrong


def _wrong(rule: Rule, text: str, key: str, example: dict[str, object]) -> list[str]:
    content = read_bytes(text.encode("utf-8", "replace"), "example.yaml")
    result = lint([content], [rule], Settings())
    problems = [f"line {problem.position.line}: {problem.message}" for problem in result.problems]
    found = [finding for finding in result.findings if finding.rule == rule.id]
    if problems:
        return problems
    if key != "violates":
        said = [f"line {finding.position.line} violates it: {finding.message}" for finding in found]
        return said + [f"it is not evaluated: {gap.fact} is unknown, {gap.reason}" for gap in result.not_evaluated[:1]]
    if not found:
        gap = result.not_evaluated[0] if result.not_evaluated else None
        return [f"nothing is found: {gap.fact} is unknown, {gap.reason}" if gap else "nothing is found"]
    marked = [number for number, line in enumerate(text.splitlines(), 1) if line.rstrip().endswith(MARK)]
    lines = [finding.position.line for finding in found]
    if marked and lines != marked:
        return [f"found at line {', '.join(map(str, lines))}, marked is {', '.join(map(str, marked))}"]
    severity = example.get("severity", rule.severities[0])
    if found[0].severity != severity:
        return [f"found as {found[0].severity}, expected is {severity} (severity: in the example says otherwise)"]
    return []
