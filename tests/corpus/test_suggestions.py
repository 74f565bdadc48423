"""Changes of public manifests: every engine is mended or the report says why not, no line is touched without a changed value,
and every object elsewhere stays what it was.

Skips where the corpus is not at hand. ``python -m tests.corpus.test_suggestions`` prints what is suggested, and the figures.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.documents.read import read_path
from planner.lint.run import select_rules
from planner.settings import Settings
from planner.suggest.changes import GOALS
from planner.suggest.existing import Advice, improve, linted
from planner.suggest.fixes import fix_all
from planner.suggest.manifests import Manifests, load
from tests.conftest import SHARED
from tests.suggest.editing import changed_lines

MANIFESTS = SHARED / "corpus" / "manifests"
#: Most manifests name no GPU; on a small one there is more to change.
SETTINGS = Settings(assume_accelerator="L4")
#: A chart that ignores the key with the arguments, so that nothing here is an engine's command line.
NO_PLACE = {"vllm-project--production-stack--deployment-on-cloud-oci-production-stack-specification"}

pytestmark = pytest.mark.skipif(
    not MANIFESTS.is_dir(), reason="the corpus of public manifests is not beside the project"
)


def paths() -> list[Path]:
    """A hundred files of the development set, and those with values of charts."""
    files = sorted((MANIFESTS / "dev").glob("*.yaml"))
    return [*files[:: max(1, len(files) // 100)][:100], *sorted((MANIFESTS / "values").glob("*.yaml"))]


def suggested(path: Path) -> tuple[Manifests, tuple[Advice, ...]]:
    found = load([str(path)], SETTINGS)
    return found, improve(found, select_rules(SETTINGS)).advice


def check_texts(before: str, after: str, most_new: int) -> None:
    """Lines that are gone come back with another value, or are the only ones that changed; new ones are few."""
    gone, added = changed_lines(before, after)
    assert len(added) - len(gone) <= most_new
    assert not set(map(str.strip, gone)) & set(map(str.strip, added)) - {""}, "a line was moved or laid out anew"
    if "%" not in before[:1] and "{{" not in before:
        old = list(yaml.load_all(before, yaml.CSafeLoader))
        new = list(yaml.load_all(after, yaml.CSafeLoader))
        assert len(old) == len(new)
        for one, other in zip(old, new, strict=True):
            assert without_commands(one) == without_commands(other)


def without_commands(data: Any) -> Any:
    """Plain data without what an engine is told: arguments, scripts, variables and fields of engines."""
    if isinstance(data, dict):
        return {key: without_commands(value) for key, value in data.items() if key not in COMMANDS}
    if isinstance(data, list):
        return [without_commands(item) for item in data]
    return data


COMMANDS = {"args", "command", "env", "extraArgs", "vllmConfig", "serveConfigV2", "maxModelLen", "data", "extraEnvVars"}


@pytest.mark.parametrize("path", paths(), ids=lambda path: path.stem[-60:])
def test_what_is_written_changes_values_and_nothing_else(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    shutil.copyfile(path, copy)
    found, advice = suggested(copy)
    text = copy.read_bytes().decode("utf-8-sig")
    for one in advice:
        assert not one.left or one.reasons, "something is left and nobody says why"
        assert not one.refused or path.stem in NO_PLACE, one.refused
    if not found.changed:
        assert found.diff() == ""
        return
    written, failed = found.write()
    assert (written, failed) == ([str(copy)], [])
    after = copy.read_bytes().decode("utf-8-sig")
    changes = sum(len(one.changes) for one in advice)
    check_texts(text, after, 3 * changes)
    again, more = suggested(copy)
    assert again.diff() == ""
    left = {(one.workload, finding.rule) for one in more for finding in one.left}
    result = linted(again, select_rules(SETTINGS))
    assert {(f.workload, f.rule) for f in result.findings if f.rule in GOALS} <= left
    assert not {p.position.line for p in result.problems} - {p.position.line for p in read_path(path, "x").problems}


@pytest.mark.parametrize("path", paths()[::3], ids=lambda path: path.stem[-60:])
def test_fixes_of_rules_touch_what_they_mend(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    shutil.copyfile(path, copy)
    found = load([str(copy)], SETTINGS)
    before = {(f.rule, f.severity) for f in linted(found, select_rules(SETTINGS)).findings}
    made = fix_all(found, select_rules(SETTINGS), unsafe=False)
    assert bool(made) == bool(found.changed)
    if made:
        found.write()
        after = load([str(copy)], SETTINGS)
        assert {(f.rule, f.severity) for f in linted(after, select_rules(SETTINGS)).findings} <= before
        assert fix_all(after, select_rules(SETTINGS), unsafe=False) == ()


if __name__ == "__main__":
    changed = mended = unmended = 0
    for file in sorted((MANIFESTS / "dev").glob("*.yaml")):
        manifests_, advice_ = suggested(file)
        changed += bool(manifests_.changed)
        for item in advice_:
            mended += not item.left
            unmended += bool(item.left)
            print(
                file.stem[-70:], [f"{c.flag} {c.before} → {c.after}" for c in item.changes], item.reasons, item.refused
            )
    print(f"{changed} files changed; {mended} engines mended, {unmended} not by flags alone")
