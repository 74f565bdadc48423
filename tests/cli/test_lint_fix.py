"""``planner lint --fix``, ``--unsafe-fixes`` and ``--diff``."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from planner.data import data_folder
from tests.cli.conftest import Run
from tests.suggest.editing import pod

MODEL = "--model=meta-llama/Llama-3.1-8B-Instruct"
TEXT = pod(f"args:\n  - {MODEL}\n  - --max-model-len=4096\n  - --max-num-seq=4  # few\n  - --enforce-eagre\n")
ONLY = ("--ignore", "kubernetes", "--ignore", "toleration-missing", "--ignore", "security")


def test_fix_makes_the_safe_fixes_and_reports_what_is_left(run: Run, folder: Path) -> None:
    (folder / "llm.yaml").write_text(TEXT)
    result = run("lint", "--fix", *ONLY, "llm.yaml")
    assert result.exit_code == 1
    assert (
        "llm.yaml:18:15: fixed abbreviated-flag: Write --max-num-seqs for --max-num-seq\n1 fixed in 1 file"
        in result.stderr
    )
    assert "unknown-flag" in result.stdout
    assert "abbreviated-flag" not in result.stdout
    assert (folder / "llm.yaml").read_text() == TEXT.replace("--max-num-seq=", "--max-num-seqs=")
    again = run("lint", "--fix", *ONLY, "llm.yaml")
    assert "0 fixed in 0 files" in again.stderr


def test_unsafe_fixes(run: Run, folder: Path) -> None:
    (folder / "llm.yaml").write_text(TEXT)
    result = run("lint", "--fix", "--unsafe-fixes", *ONLY, "llm.yaml")
    assert result.exit_code == 0
    assert "--enforce-eager\n" in (folder / "llm.yaml").read_text()


def test_diff_shows_and_changes_nothing(run: Run, folder: Path) -> None:
    (folder / "llm.yaml").write_text(TEXT)
    result = run("lint", "--diff", *ONLY, "llm.yaml")
    assert result.exit_code == 1
    assert "-            - --max-num-seq=4  # few\n+            - --max-num-seqs=4  # few\n" in result.stdout
    assert "enforce-eager\n" not in result.stdout
    assert (folder / "llm.yaml").read_text() == TEXT
    more = run("lint", "--diff", "--unsafe-fixes", *ONLY, "llm.yaml")
    assert "+            - --enforce-eager\n" in more.stdout


def test_unsafe_fixes_alone_say_what_they_are_for(run: Run, folder: Path) -> None:
    (folder / "llm.yaml").write_text(TEXT)
    result = run("lint", "--unsafe-fixes", "llm.yaml")
    assert result.exit_code == 2
    assert "--fix" in result.stderr
    assert (folder / "llm.yaml").read_text() == TEXT


def test_json_findings_carry_the_fix(run: Run, folder: Path) -> None:
    (folder / "llm.yaml").write_text(TEXT)
    document = json.loads(run("lint", "--format", "json", *ONLY, "llm.yaml").stdout)
    jsonschema.validate(document, json.loads((data_folder("schemas") / "lint.schema.json").read_text()))
    fixes = {finding["rule"]: finding["fix"] for finding in document["findings"]}
    assert fixes["abbreviated-flag"]["edits"] == [
        {"file": "llm.yaml", "line": 18, "column": 15, "end_line": 18, "end_column": 28, "text": "--max-num-seqs"}
    ]
    assert fixes["unknown-flag"]["safety"] == "unsafe"


def test_standard_input_cannot_be_fixed(run: Run) -> None:
    result = run("lint", "--fix", *ONLY, "-", stdin=TEXT)
    assert result.exit_code == 2
    assert "not written: it is standard input" in result.stdout
    assert "abbreviated-flag" in result.stdout


def test_only_selected_rules_are_fixed(run: Run, folder: Path) -> None:
    (folder / "llm.yaml").write_text(TEXT)
    run("lint", "--fix", "--unsafe-fixes", "--select", "unknown-flag", "llm.yaml")
    text = (folder / "llm.yaml").read_text()
    assert "--enforce-eager\n" in text
    assert "--max-num-seq=4" in text


def test_a_rule_of_ones_own_can_bring_a_fix(run: Run, folder: Path) -> None:
    (folder / "house").mkdir()
    (folder / "house" / "eager.yaml").write_text(
        """id: eager
title: The house runs eagerly
category: engine
severity: warning
violated: "!('enforce-eager' in engine.flags) && engine.max_num_seqs > 2"
at: [container.args]
message: No more than two at a time.
why: Because.
remedy: Set it.
fix:
  edit: set-flag
  safety: safe
  title: Set --max-num-seqs 2
  with: {flag: max-num-seqs, value: "2"}
examples: [{violates: x, passes: y}]
"""
    )
    text = TEXT.replace("            - --max-num-seq=4  # few\n", "").replace("            - --enforce-eagre\n", "")
    (folder / "llm.yaml").write_text(text)
    result = run("lint", "--rules", "house", "--select", "eager", "--fix", "llm.yaml")
    assert result.exit_code == 0
    assert "            - --max-num-seqs=2\n" in (folder / "llm.yaml").read_text()


def test_a_fix_that_is_none_is_an_error_of_the_rule(run: Run, folder: Path) -> None:
    (folder / "house").mkdir()
    (folder / "house" / "x.yaml").write_text(
        "id: x\ntitle: x\ncategory: engine\nseverity: info\nviolated: 'true'\nat: [container.args]\nmessage: x\nwhy: x\n"
        "remedy: x\nfix: {edit: rm-rf, safety: safe, title: x}\n"
    )
    (folder / "llm.yaml").write_text(TEXT)
    result = run("lint", "--rules", "house", "llm.yaml")
    assert result.exit_code == 2
    assert "house/x.yaml:10" in result.stderr
    assert "rename-flag" in result.stderr
