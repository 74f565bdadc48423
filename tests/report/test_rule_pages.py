"""``docs/rules.md`` is what the rule files say, and findings link to its sections."""

from __future__ import annotations

import json
import re

import pytest

from planner.lint.rule import Rule, built_in_rules, examples, whole
from planner.report import json_report, rule_pages, sarif, text
from planner.report.result import LintResult
from planner.settings import Settings
from tests.cli import house
from tests.report.conftest import Lint

PAGE = rule_pages.PAGE.read_text(encoding="utf-8") if rule_pages.PAGE.is_file() else ""
RULES = built_in_rules()


def test_the_page_is_what_the_rules_say() -> None:
    assert rule_pages.render(RULES) == PAGE, f"a rule has changed and docs/rules.md has not: run {rule_pages.COMMAND}"


def test_every_rule_has_a_section_and_every_link_a_target() -> None:
    sections = re.findall(r"^### (\S+)$", PAGE, re.MULTILINE)
    assert sorted(sections) == [rule.id for rule in RULES]
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE)) == set(sections)


@pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])
def test_a_section_has_all_that_a_reader_needs(rule: Rule) -> None:
    lines = list(rule_pages.section(rule))
    assert lines[0] == f"### {rule.id}"
    body = "\n".join(lines)
    assert body.count("```") % 2 == 0
    assert body.count("<details>") == body.count("</details>")
    for example in examples(rule):
        for key in ("violates", "passes"):
            for line in str(example.get(key) or "").rstrip().splitlines():
                assert line in lines
    assert not re.search(r"(?<![\w{]){[a-z_(]+[.\w()]*}", re.sub(r"```.*?```", "", body, flags=re.DOTALL)), (
        "a raw field"
    )
    assert not re.search(r"\bF\d{3}\b", body), "a case of a collection that readers do not have"
    assert all(word in body.replace("\\", "") for word in whole(rule).title.split())


def test_what_is_repaired_is_shown_as_the_lines_that_differ() -> None:
    body = "\n".join(rule_pages.section(next(rule for rule in RULES if rule.id == "kv-cache-below-one-request")))
    block = re.search(r"```diff\n(.*?)```", body, re.DOTALL)
    assert block
    assert "-            - --max-model-len=131072\n+            - --max-model-len=8192\n" in block.group(1)
    assert "kind: Deployment" not in block.group(1)


def test_the_command_checks_and_writes(tmp_path: object, monkeypatch: pytest.MonkeyPatch, capsys: object) -> None:
    page = tmp_path / "docs" / "rules.md"  # type: ignore[operator]
    monkeypatch.setattr(rule_pages, "PAGE", page)
    assert rule_pages.main(["--check"]) == 1
    assert rule_pages.main([]) == 0
    assert rule_pages.main(["--check"]) == 0
    assert page.read_text() == rule_pages.render(RULES)
    page.write_text(page.read_text().replace("Rules", "Laws", 1))
    assert rule_pages.main(["--check"]) == 1
    assert rule_pages.main(["--nonsense"]) == 2


def test_findings_link_to_their_section(everything: LintResult, house_lint: Lint) -> None:
    for finding in json.loads(json_report.render(everything))["findings"]:
        assert finding["url"] == f"docs/rules.md#{finding['rule']}"
    own = json.loads(json_report.render(house_lint({"a.yaml": house.manifest("error")})))
    assert own["findings"][0]["url"] == "", "a rule of one's own has the page that its author gives it"
    log = json.loads(sarif.render(everything))
    for rule in log["runs"][0]["tool"]["driver"]["rules"]:
        assert "helpUri" not in rule, "a relative one would lead nowhere"
        assert rule["help"]["markdown"].startswith(f"### {rule['id']}\n")


def test_rule_pages_says_where_they_are_published(lint_text: Lint) -> None:
    base = "https://git.example.org/planner/docs/rules.md"
    result = lint_text(house.manifest("m").replace("v0.11.0", "latest"), settings=Settings(rule_pages=base))
    page = f"{base}#image-not-pinned"
    assert page in [finding["url"] for finding in json.loads(json_report.render(result))["findings"]]
    assert f"\n      {page}\n" in text.render(result)
    rules = json.loads(sarif.render(result))["runs"][0]["tool"]["driver"]["rules"]
    assert {rule["helpUri"] for rule in rules} == {f"{base}#{rule.id}" for rule in RULES}
