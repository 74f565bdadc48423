"""Fixes of rules: each is made on an example of its rule, is gone afterwards, and leaves the rest of the text alone."""

from __future__ import annotations

from typing import Any

import pytest

from planner.lint.rule import Rule, built_in_rules, examples, whole
from planner.lint.run import select_rules
from planner.settings import Settings
from planner.suggest.existing import linted
from planner.suggest.fixes import _EDITS, fix_all, with_fixes
from planner.suggest.patch import Edit, applied
from tests.suggest.editing import changed_lines, manifests, pod

RULES = [rule for rule in map(whole, built_in_rules()) if rule.fixes]
MODEL = "--model=meta-llama/Llama-3.1-8B-Instruct"


def fixed(text: str, unsafe: bool = False, settings: Settings | None = None) -> tuple[str, list[str]]:
    """(the text after all fixes, the rules that were fixed)."""
    found = manifests(text, settings=settings)
    made = fix_all(found, select_rules(found.settings), unsafe)
    return found.texts["a.yaml"], [one.finding.rule for one in made]


def test_every_edit_that_a_rule_may_name_can_be_made() -> None:
    from planner.lint.rule import EDITS

    assert set(EDITS) == set(_EDITS)


@pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])
def test_an_example_of_the_rule_is_mended(rule: Rule) -> None:
    mended = 0
    for example in examples(rule):
        before = manifests(example["violates"])
        rules = select_rules(before.settings)
        had = {(f.rule, f.severity) for f in linted(before, rules).findings}
        text, made = fixed(example["violates"], unsafe=True, settings=Settings(select=(rule.id,)))
        if rule.id not in made:
            assert text == example["violates"]
            continue
        mended += 1
        after = linted(manifests(text), rules)
        assert rule.id not in {f.rule for f in after.findings}
        assert {(f.rule, f.severity) for f in after.findings} <= had
        gone, added = changed_lines(example["violates"], text)
        assert 0 < len(gone) + len(added) <= 10
        assert fixed(text, unsafe=True, settings=Settings(select=(rule.id,))) == (text, [])
    assert mended > 0


def test_safe_fixes_only_unless_asked() -> None:
    text = pod(f"args:\n  - {MODEL}\n  - --max-model-len=4096\n  - --max-num-seqs=4\n  - --enforce-eagre\n")
    assert fixed(text) == (text, [])
    after, made = fixed(text, unsafe=True)
    assert made == ["unknown-flag"]
    assert changed_lines(text, after) == (["            - --enforce-eagre"], ["            - --enforce-eager"])


def test_what_is_suppressed_is_not_fixed() -> None:
    text = pod(
        f"args:\n  - {MODEL}\n  - --max-num-seq=4  # planner: ignore[abbreviated-flag] as it is\n  - --max-model-len=4096\n"
    )
    assert fixed(text) == (text, [])
    assert fixed(text.replace("planner: ignore", "ignore"))[1] == ["abbreviated-flag"]


def test_several_fixes_of_one_container_are_made_one_after_the_other() -> None:
    text = pod(
        f"command: [vllm, serve]\nargs:\n  - --port=8000\n  - --port=8001  # this one\n  - {MODEL}\n"
        "  - --max-num-seq=4\n  - --max-model-len=4096\n  - --disable-log-requests\n"
    ).replace("v0.24.0", "v0.10.2")
    after, made = fixed(text)
    assert sorted(made) == ["abbreviated-flag", "deprecated-flag", "duplicate-flag"]
    assert changed_lines(text, after) == (
        ["            - --port=8000", "            - --max-num-seq=4", "            - --disable-log-requests"],
        ["            - --max-num-seqs=4", "            - --no-enable-log-requests"],
    )


def test_the_model_becomes_the_first_argument_in_lists_and_scripts() -> None:
    listed = pod("command: [vllm, serve]\nargs: [--max-num-seqs, '4', --model, m/llama, --port, '80']").replace(
        "0.24.0", "0.10.2"
    )
    after, made = fixed(listed.replace("m/llama", MODEL[8:]))
    assert made == ["conflicting-flags"]
    assert f"args: [{MODEL[8:]}, --max-num-seqs, '4', --port, '80']" in after
    script = pod(
        "command: [sh, -c]\nargs:\n  - |\n    exec vllm serve \\\n      --port 80 \\\n"
        f"      --model {MODEL[8:]} \\\n      --max-num-seqs 4\n"
    ).replace("0.24.0", "0.10.2")
    after, made = fixed(script)
    assert made == ["conflicting-flags"]
    assert (
        f"    exec vllm serve {MODEL[8:]} \\\n                --port 80 \\\n                --max-num-seqs 4\n" in after
    )


def test_a_volume_that_the_pod_declares_already_is_mounted() -> None:
    text = pod(f"args: [{MODEL}, --tensor-parallel-size=2, --max-model-len=4096, --max-num-seqs=4]").replace(
        "gpu: 1", "gpu: 2"
    )
    text += "      volumes: [{name: ram, emptyDir: {medium: Memory}}]\n"
    after, made = fixed(text)
    assert made == ["shared-memory-too-small"]
    assert changed_lines(text, after) == (
        [],
        ["          volumeMounts:", "            - name: ram", "              mountPath: /dev/shm"],
    )


def test_a_fix_that_would_violate_another_rule_is_not_made() -> None:
    """Eight GiB of shared memory in a container of six: nothing that is found anew is accepted."""
    text = pod("args: [--max-num-seq=4, --max-num-seqs=8, --max-model-len=4096, " + MODEL + "]")
    after, made = fixed(text)
    result = linted(manifests(after), select_rules(Settings()))
    before = linted(manifests(text), select_rules(Settings()))
    assert {f.rule for f in result.findings} < {f.rule for f in before.findings}
    assert made


def test_findings_carry_the_edits_that_mend_them() -> None:
    text = pod(f"args:\n  - {MODEL}\n  - --max-num-seq=4  # few\n  - --max-model-len=4096\n").replace("\n", "\r\n")
    found = manifests(text)
    rules = select_rules(found.settings)
    result = with_fixes(found, linted(found, rules))
    assert found.texts["a.yaml"] == text
    (finding,) = [finding for finding in result.findings if finding.rule == "abbreviated-flag"]
    fix: dict[str, Any] = finding.fix or {}
    assert (fix["title"], fix["safety"]) == ("Write --max-num-seqs for --max-num-seq", "safe")
    lines = text.split("\r\n")

    def index(line: int, column: int) -> int:
        return sum(len(one) + 2 for one in lines[: line - 1]) + column - 1

    edits = [
        Edit(index(e["line"], e["column"]), index(e["end_line"], e["end_column"]), e["text"]) for e in fix["edits"]
    ]
    assert applied(text, edits) == text.replace("--max-num-seq=4", "--max-num-seqs=4")
    others = [finding.rule for finding in result.findings if finding.fix is None]
    assert "toleration-missing" in others


def test_a_replacement_with_another_meaning_is_no_fix() -> None:
    """Renamed is not the same as equal: the new flag may want another kind of value, or mean the opposite."""
    text = pod(f"args: [{MODEL}, --num-speculative-tokens=5, --max-model-len=4096, --max-num-seqs=4]")
    after, made = fixed(text)
    assert (after, made) == (text, [])
