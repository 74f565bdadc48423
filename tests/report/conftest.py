"""Results of small runs with rules of one's own, and everything that the rules' examples give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from planner.documents.read import read_bytes
from planner.lint.rule import built_in_rules, examples, load_folder
from planner.lint.run import lint, select_rules
from planner.report.result import LintResult
from planner.settings import Settings
from tests.cli import house

Lint = Callable[..., LintResult]

ROOT = Path(__file__).resolve().parents[2]


def manifests() -> Iterator[tuple[str, str]]:
    """(name, text) of every example of every rule and of ``examples/``."""
    for rule in built_in_rules():
        for number, example in enumerate(examples(rule), 1):
            for key in ("violates", "fixed", "passes"):
                if example.get(key):
                    yield f"{rule.id}-{number}-{key}.yaml", example[key]
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        yield f"examples/{path.name}", path.read_text()


@pytest.fixture
def house_lint(tmp_path: Path) -> Lint:
    """Lints manifests (file name → text) with house rules only."""
    rules = load_folder(house.write_rules(tmp_path / "house"))

    def run(files: dict[str, str], **settings: object) -> LintResult:
        contents = [read_bytes(text.encode(), name) for name, text in files.items()]
        return lint(contents, rules, Settings(**settings))  # type: ignore[arg-type]

    return run


@pytest.fixture(scope="session")
def everything() -> LintResult:
    """All examples in one run, a broken file and a suppressed finding among them: a report with all that it can hold."""
    settings = Settings()
    files = dict(manifests())
    assert len(files) > 40
    suppressed = next(
        text for name, text in files.items() if name.startswith("image-not-pinned") and "violates" in name
    )
    files["suppressed.yaml"] = suppressed.replace("# here", "# planner: ignore[image-not-pinned, gpus-idle] on purpose")
    files["broken.yaml"] = house.BROKEN
    contents = [read_bytes(text.encode(), name) for name, text in files.items()]
    return lint(contents, select_rules(settings), settings)
