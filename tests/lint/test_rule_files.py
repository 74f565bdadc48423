"""Rule files of one's own: what is wrong in one is told with file and line, and nothing in one is passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.lint.evaluate import check
from planner.lint.rule import BrokenRule, built_in_rules, examples, load_folder, load_rule
from planner.lint.run import select_rules
from planner.settings import Settings
from tests.cli import house

RULE = house.rule("own")


def write(folder: Path, text: str, name: str = "own.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_rule_is_read_as_it_is_written(tmp_path: Path) -> None:
    rule = load_rule(
        write(
            tmp_path,
            RULE.replace("severity: error\nviolated: workload.name == 'own'\n", "")
            + "scope: rank\nwhen: 'true'\nneeds: model\nsilenced_by: [other]\nparameters: {a: [1, 2]}\nreferences: [x]\n"
            "cases:\n  - severity: info\n    violated: 'true'\n  - {severity: error, violated: 'false', message: m, remedy: r}\n"
            "examples:\n  - violates: |\n      kind: Pod\n".replace("scope: rank\n", ""),
        )
    )
    assert (rule.id, rule.category, rule.scope, rule.when) == ("house-own", "house", "engine", "true")
    assert (rule.needs, rule.silenced_by, rule.references) == (("model",), ("other",), ("x",))
    assert rule.parameters == (("a", [1, 2]),)
    assert rule.severities == ("error", "info")
    assert rule.cases[1].message == "m"
    assert examples(rule) == [{"violates": "kind: Pod\n"}]


def test_keys_behind_the_examples_count_too(tmp_path: Path) -> None:
    """The examples are skipped when a manifest is linted; what stands behind them must not be."""
    rule = load_rule(write(tmp_path, RULE + "examples:\n- violates: |\n    kind: Pod\nwhen: workload.name == 'x'\n"))
    assert rule.when == "workload.name == 'x'"
    with pytest.raises(BrokenRule, match="unknown key 'whenn'"):
        load_rule(write(tmp_path, RULE + "examples: []\nwhenn: x\n"))


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("id: house-own", "id: House_Own", 1, "kebab-case"),
        ("id: house-own\n", "", 1, "'id' is missing or empty"),
        ("title: A name that the house does not like", "title: ''", 2, "'title' is missing or empty"),
        ("title: A name that the house does not like", "title: [a]", 2, "'title' is missing or empty"),
        ("scope: engine", "scope: planet", 4, "the scope must be one of"),
        ("severity: error", "severity: grave", 5, "the severity must be one of info, warning, error"),
        ("severity: error", "severity: [error]", 5, "the severity must be one of"),
        ("violated: workload.name == 'own'", "violated: true", 6, "'violated' must be a CEL expression"),
        ("violated: workload.name == 'own'", "violated: [a]", 6, "'violated' must be a CEL expression"),
        ("violated: workload.name == 'own'", "violate: x", 6, "unknown key 'violate'"),
        ("at: [container.name]", "at: {a: b}", 7, "'at' must be text or a list of texts"),
        ("at: [container.name]", "at: [1]", 7, "'at' must be text or a list of texts"),
        ("at: [container.name]", "when: true", 7, "'when' must be text; quote it"),
        ("at: [container.name]", "for_each: [a]", 7, "'for_each' must be text; quote it"),
        ("at: [container.name]", "parameters: [a]", 7, "'parameters' must be a mapping"),
        ("at: [container.name]", "cases: []", 7, "'cases' must be a list"),
        ("at: [container.name]", "cases: [{severity: info, violatd: x}]", 6, "unknown key 'violatd' in a case"),
        ("at: [container.name]", "cases: [a]", 5, "the severity must be one of"),
        ("at: [container.name]", "1: 2\nx: y", 7, "unknown key 1"),
        ("at: [container.name]", "at: [container.name", 8, "not YAML"),
        ("at: [container.name]", "\tat: x", 7, "not YAML"),
        ("at: [container.name]", "at: 2024-99-99", 1, "not YAML"),
        ("at: [container.name]", "? [a, b]\n: c", 7, "not YAML"),
        ("at: [container.name]", "at: !!python/object/apply:os.system [x]", 7, "not YAML"),
    ],
)
def test_what_is_wrong_has_a_file_and_a_line(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    assert RULE.count(old) == 1
    path = write(tmp_path, RULE.replace(old, new))
    with pytest.raises(BrokenRule) as error:
        load_rule(path)
    assert str(error.value).startswith(f"{path}:")
    assert says in str(error.value)
    if says != "unknown key 'violatd' in a case":
        assert str(error.value).startswith(f"{path}:{line}:"), str(error.value)


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"\xe9", b"[" * 3000])
def test_bytes_that_are_no_text_are_a_broken_rule(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "own.yaml"
    path.write_bytes(data)
    with pytest.raises(BrokenRule):
        load_rule(path)


def test_a_repeated_id_is_told(tmp_path: Path) -> None:
    write(tmp_path, RULE, "a.yaml")
    write(tmp_path, RULE, "b.yml")
    with pytest.raises(BrokenRule, match=r"b\.yml:1: the rule id 'house-own' is also in .*a\.yaml"):
        load_folder(tmp_path)


def test_an_own_rule_may_replace_a_built_in_one(tmp_path: Path) -> None:
    write(tmp_path, RULE.replace("house-own", "image-not-pinned"))
    chosen = {rule.id: rule for rule in select_rules(Settings(rules=(str(tmp_path),)))}
    assert chosen["image-not-pinned"].category == "house"
    assert len(chosen) == len(built_in_rules())


def test_every_expression_of_the_built_in_rules_compiles() -> None:
    check(built_in_rules())


def test_for_each_must_name_a_list_of_the_plan(tmp_path: Path) -> None:
    rule = load_rule(write(tmp_path, RULE + "for_each: everything.here\n"))
    with pytest.raises(BrokenRule, match=r"own\.yaml:11: .*for_each must name a list"):
        check([rule])


def test_the_line_of_an_expression_in_a_block(tmp_path: Path) -> None:
    text = RULE.replace("violated: workload.name == 'own'", "violated: >-\n  workload.name ==\n  nowhere").replace(
        "at: [container.name]\n", "when: &x has(workload.name)\nneeds: []\nparameters: {a: &a [*a]}\n"
    )
    with pytest.raises(BrokenRule, match=r"own\.yaml:6: rule house-own: .*undeclared reference to 'nowhere'"):
        check([load_rule(write(tmp_path, text))])
