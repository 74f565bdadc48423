"""The pre-commit hook: what the file promises exists, and the entry does right by the files of a commit."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from planner.cli import cli
from tests.cli import house

ROOT = Path(__file__).resolve().parents[2]
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
ENTRY = shlex.split(HOOKS[0]["entry"])


def hook(*files: str) -> Result:
    """What pre-commit runs: the entry with the changed files behind it."""
    return CliRunner().invoke(cli, [*ENTRY[1:], *files], catch_exceptions=False)


@pytest.fixture
def commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_file_has_what_pre_commit_asks_for() -> None:
    assert [entry["id"] for entry in HOOKS] == ["planner"]
    (entry,) = HOOKS
    assert {"id", "name", "entry", "language"} <= set(entry)
    assert entry["language"] == "python"
    assert set(entry["types_or"]) == {"yaml", "json"}
    assert entry["require_serial"] is True, "files of one commit refer to one another"
    assert entry.get("pass_filenames", True)


def test_the_entry_is_a_command_of_the_package_with_options_that_exist() -> None:
    scripts = re.search(r"\[project\.scripts\]\n((?:[^\[\n].*\n)+)", (ROOT / "pyproject.toml").read_text())
    assert scripts
    assert re.search(rf"^{re.escape(ENTRY[0])} = ", scripts.group(1), re.MULTILINE)
    usage = CliRunner().invoke(cli, [ENTRY[1], "--help"]).stdout
    options = ENTRY[2:]
    assert options
    for option in options:
        assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", usage), option


def test_the_hook_of_the_readme_exists() -> None:
    readme = (ROOT / "README.md").read_text()
    block = next(text for text in re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL) if "hooks:" in text)
    assert [entry["id"] for entry in yaml.safe_load(block)["repos"][0]["hooks"]] == [HOOKS[0]["id"]]


def test_a_commit_of_other_yaml_is_silent(commit: Path) -> None:
    (commit / ".github" / "workflows").mkdir(parents=True)
    workflow = commit / ".github" / "workflows" / "ci.yml"
    workflow.write_text("on: push\njobs:\n  build:\n    runs-on: x\n    steps: [{run: make}]\n")
    (commit / "package.json").write_text('{"name": "x"}')
    result = hook(".github/workflows/ci.yml", "package.json")
    assert (result.exit_code, result.output) == (0, "")


def test_a_bad_manifest_fails_the_commit(commit: Path) -> None:
    text = (ROOT / "examples" / "llama-8b-on-l4.yaml").read_text()
    (commit / "a b.yaml").write_text(text)
    result = hook("a b.yaml")
    assert result.exit_code == 1
    assert "kv-cache-below-one-request" in result.output
    (commit / "a b.yaml").write_text(text.replace("131072", "8192"))
    assert hook("a b.yaml").exit_code == 0


def test_a_broken_manifest_fails_the_commit(commit: Path) -> None:
    (commit / "a.yaml").write_text(house.BROKEN)
    assert hook("a.yaml").exit_code == 2


def test_only_the_files_of_the_commit_are_read(commit: Path) -> None:
    (commit / "old.yaml").write_text(house.BROKEN)
    (commit / "new.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
    assert hook("new.yaml").exit_code == 0


def test_the_settings_of_the_repository_count(commit: Path) -> None:
    (commit / "a.yaml").write_text((ROOT / "examples" / "llama-8b-on-l4.yaml").read_text())
    (commit / "planner.yaml").write_text("ignore: [memory]\n")
    assert hook("planner.yaml", "a.yaml").exit_code == 0
