"""Where the page of a rule is: a section of ``docs/rules.md`` for those built in, whatever its author says for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.data import data_path

if TYPE_CHECKING:
    from planner.lint.rule import Rule

#: Inside planner's own repository; ``rule-pages`` in ``planner.yaml`` says where yours publishes it.
RULE_PAGES = "docs/rules.md"


def page_of(rule: Rule, published: str = "") -> str:
    """The address of a rule's page, empty where there is none; ``published``: where ``docs/rules.md`` can be read."""
    if rule.url:
        return rule.url
    return f"{published or RULE_PAGES}#{rule.id}" if rule.path.startswith(data_path("rules")) else ""


def is_link(page: str) -> bool:
    """Whether a page is an address that a reader can open from anywhere."""
    return page.startswith(("https://", "http://"))
