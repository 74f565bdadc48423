"""``docs/rules.md``: one section a rule, with its examples, made from the rule files.

    python -m planner.report.rule_pages            writes the page of this checkout
    python -m planner.report.rule_pages --check    exits 1 where the page is not what the rules say

A test keeps the two together; findings link to the sections.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any

from planner.lint.rule import CATEGORIES, Rule, built_in_rules, examples, whole

COMMAND = "python -m planner.report.rule_pages"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "rules.md"
_SAYS = {
    "error": "will not work",
    "warning": "works by luck, or breaks under load or later",
    "info": "good to know",
}
#: Names of cases in a collection of public reports that is no part of this project.
_CASE = re.compile(r"F\d{3}")


def render(rules: Iterable[Rule]) -> str:
    """The whole page, in Markdown."""
    ordered = sorted((whole(rule) for rule in rules), key=lambda rule: (_rank(rule.category), rule.category, rule.id))
    parts = [
        "# Rules",
        "",
        f"{len(ordered)} rules. This page is made from the files in `rules/` (`{COMMAND}`); edit those, not it.",
        "`planner rules` lists the rules, and `planner rules ID` shows one, on the command line.",
        "",
        *(f"* **{name}**: {says}." for name, says in _SAYS.items()),
        "",
        "Some rules depend on an estimate: they are errors where even its favourable end fails, warnings where only the other "
        "end does.",
        "",
        "| rule | severity | what it says |",
        "|---|---|---|",
        *(f"| [{rule.id}](#{rule.id}) | {', '.join(rule.severities)} | {_cell(rule.title)} |" for rule in ordered),
    ]
    category = ""
    for rule in ordered:
        if rule.category != category:
            category = rule.category
            parts += ["", f"## {category.capitalize()}"]
        parts += ["", *section(rule)]
    return "\n".join(parts) + "\n"


def section(rule: Rule, with_examples: bool = True) -> Iterator[str]:
    """The section of a rule, line by line: what it says, why, what to do, and its examples."""
    rule = whole(rule)
    yield f"### {rule.id}"
    yield ""
    yield f"{_prose(rule.title)}. *{', '.join(rule.severities)}*"
    yield ""
    yield _prose(" ".join(rule.why.split()))
    yield ""
    for message in dict.fromkeys(filter(None, (*(case.message for case in rule.cases), rule.message))):
        yield f"> {_prose(_template(message))}"
        yield ">"
    for remedy in dict.fromkeys(filter(None, (*(case.remedy for case in rule.cases), rule.remedy))):
        yield f"> → {_prose(_template(remedy))}"
    for fix in rule.fixes:
        option = "--fix" if fix.safety == "safe" else "--fix --unsafe-fixes"
        yield ""
        yield f"`planner lint {option}`: {_prose(_template(fix.title))}."
    if rule.parameters:
        yield ""
        yield "Parameters (in `planner.yaml`, under `parameters`):"
        yield ""
        for name, value in rule.parameters:
            yield f"* `{name}`: {value!r} by default"
    if rule.silenced_by:
        yield ""
        yield f"Not said where {_links(rule.silenced_by)} speaks of the same thing."
    sources = [reference for reference in rule.references if not _CASE.fullmatch(reference)]
    if sources:
        yield ""
        yield f"Source: {_prose('; '.join(sources))}."
    for number, example in enumerate(examples(rule) if with_examples else (), 1):
        yield ""
        yield from _example(example, number)


def _example(example: dict[str, Any], number: int) -> Iterator[str]:
    bad, good, passes = (str(example.get(key) or "") for key in ("violates", "fixed", "passes"))
    folded = number > 1 or not bad
    if folded:
        what = "Another example" if bad else "An example that does not violate it"
        yield "<details>"
        yield f"<summary>{what}</summary>"
        yield ""
    if bad:
        yield "Violates it:"
        yield ""
        yield from _fenced("yaml", bad)
    if good:
        yield ""
        yield "Repaired:"
        yield ""
        yield from _fenced("diff", _changes(bad, good) if bad else good)
    if passes:
        if bad or good:
            yield ""
            yield "Does not violate it:"
            yield ""
        yield from _fenced("yaml", passes)
    if folded:
        yield ""
        yield "</details>"


def _changes(old: str, new: str) -> str:
    """The lines that differ, with two of context around them."""
    lines = list(unified_diff(_lines(old), _lines(new), n=2, lineterm=""))[3:]
    return "\n".join(" …" if line.startswith("@@") else line.rstrip() for line in lines)


def _lines(text: str) -> list[str]:
    # The mark of the tests on the line of the finding is no part of the repair.
    return [re.sub(r"\s+# here$", "", line) for line in text.rstrip().splitlines()]


def _fenced(language: str, text: str) -> Iterator[str]:
    yield f"```{language}"
    yield from text.rstrip().splitlines()
    yield "```"


def _template(text: str) -> str:
    """A message with its fields as ‹names›."""

    def name(match: re.Match[str]) -> str:
        parts = match.group(1).split(".")
        # What a name is the name of must be said; where a number comes from need not.
        short = parts if len(parts) == 2 and parts[1] in ("id", "name", "version") else parts[1:] or parts
        return f"‹{' '.join(short).removeprefix('item ').replace('_', ' ')}›"

    return re.sub(r"\{(?:[a-z_]+\()?([A-Za-z_][\w.\-\[\]]*)\)?\}", name, text)


def _prose(text: str) -> str:
    """Text in which Markdown finds no marks of its own."""
    return re.sub(r"([\\*_<>\[\]|])", r"\\\1", " ".join(text.split()))


def _cell(text: str) -> str:
    return _prose(text)


def _links(ids: Iterable[str]) -> str:
    return ", ".join(f"[{name}](#{name})" for name in ids)


def _rank(category: str) -> int:
    return CATEGORIES.index(category) if category in CATEGORIES else len(CATEGORIES)


def main(arguments: list[str]) -> int:
    """Writes the page of the checkout, or checks it."""
    text = render(built_in_rules())
    if arguments == ["--check"]:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
            print(f"{PAGE.name} is not what the rules say; run: {COMMAND}", file=sys.stderr)
            return 1
        return 0
    if arguments:
        print(f"usage: {COMMAND} [--check]", file=sys.stderr)
        return 2
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE}: {text.count(chr(10) + '### ')} rules")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
