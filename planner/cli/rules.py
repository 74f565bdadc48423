"""``planner rules``: the rules, or one of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from planner.cli.options import CannotRun

if TYPE_CHECKING:
    from planner.lint.rule import Rule


@click.command(name="rules")
@click.argument("rule_id", required=False, metavar="[ID]")
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option(
    "--rules", "rule_folders", multiple=True, type=click.Path(), metavar="DIR", help="More rules, of your own."
)
@click.option("--test", "test", is_flag=True, help="Check the examples of the rules in --rules: they are their tests.")
def command(rule_id: str | None, format_: str, rule_folders: tuple[str, ...], test: bool) -> None:
    """List the rules, or show the one with this ID: what it says, why, how to fix it, and its examples."""
    from planner.lint.rule import BrokenRule, whole
    from planner.lint.run import hint, select_rules
    from planner.settings import Settings

    if test:
        _test(rule_folders)
    try:
        rules = {rule.id: whole(rule) for rule in select_rules(Settings(rules=rule_folders))}
        if rule_id is not None:
            if rule_id not in rules:
                raise CannotRun(f"there is no rule {rule_id!r}{hint(rule_id, rules)}")
            click.echo(_json([rules[rule_id]], True) if format_ == "json" else _page(rules[rule_id]))
            return
    except BrokenRule as error:
        raise CannotRun(str(error)) from None
    if format_ == "json":
        click.echo(_json(list(rules.values()), False))
        return
    width = max(len(name) for name in rules)
    category = ""
    for rule in sorted(rules.values(), key=lambda r: (r.category, r.id)):
        if rule.category != category:
            category = rule.category
            click.echo(f"{category}")
        click.echo(f"  {rule.id:<{width}}  {'/'.join(s[0].upper() for s in rule.severities):<4} {rule.title}")
    click.echo(f"\n{len(rules)} rules. E error, W warning, I info. planner rules ID shows one.")


def _test(folders: tuple[str, ...]) -> NoReturn:
    """Says which examples of one's own rules are not what they promise; exit code 1 where there is one."""
    from planner.lint.examples import check_examples
    from planner.lint.rule import BrokenRule, load_folder
    from planner.lint.run import select_rules
    from planner.settings import Settings

    if not folders:
        raise click.UsageError("--test checks the rules of --rules DIR")
    try:
        select_rules(Settings(rules=folders))
        rules = [rule for folder in folders for rule in load_folder(folder)]
        checked = [(rule, check_examples(rule)) for rule in rules]
    except BrokenRule as error:
        raise CannotRun(str(error)) from None
    wrong = [text for _, (_, texts) in checked for text in texts]
    for text in wrong:
        click.echo(text)
    examples = sum(count for _, (count, _) in checked)
    click.echo(f"{len(rules)} rule{'' if len(rules) == 1 else 's'}, {examples} examples, {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


def _page(rule: Rule) -> str:
    from planner.lint.rule import examples

    parts = [f"{rule.id}  ({rule.category}, {'/'.join(rule.severities)})", "", rule.title, "", f"Says:  {rule.message}"]
    parts += ["", "Why:   " + " ".join(rule.why.split()), "", f"Fix:   {rule.remedy}"]
    for fix in rule.fixes:
        parts.append(
            f"       {fix.title} ({fix.safety}: planner lint --fix{'' if fix.safety == 'safe' else ' --unsafe-fixes'})"
        )
    if rule.references:
        parts += ["", "See:   " + "; ".join(rule.references)]
    parts += ["", f"Quiet: # planner: ignore[{rule.id}] reason    (on the line, or on the container's name)"]
    for number, example in enumerate(examples(rule), 1):
        for kind, label in (("violates", "violates"), ("fixed", "fixed"), ("passes", "does not violate")):
            if example.get(kind):
                parts += [
                    "",
                    f"Example {number}, {label}:",
                    "",
                    *("    " + line for line in str(example[kind]).rstrip().splitlines()),
                ]
    return "\n".join(parts)


def _json(rules: list[Rule], with_examples: bool) -> str:
    import json

    from planner.lint.pages import page_of
    from planner.lint.rule import examples

    found = []
    for rule in rules:
        entry: dict[str, Any] = {
            "id": rule.id,
            "title": rule.title,
            "category": rule.category,
            "severities": list(rule.severities),
            "scope": rule.scope,
            "message": rule.message,
            "why": rule.why,
            "remedy": rule.remedy,
            "fixes": [{"title": fix.title, "safety": fix.safety} for fix in rule.fixes],
            "references": list(rule.references),
            "url": page_of(rule),
        }
        if with_examples:
            entry["examples"] = examples(rule)
        found.append(entry)
    return json.dumps({"schema": "planner/v1", "rules": found}, indent=1)
