"""What several test modules share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from planner.documents.read import read_bytes
from planner.lint.run import lint, select_rules
from planner.report.result import LintResult
from planner.settings import Settings

#: Facts, golden data and the corpus, beside the project where they are at hand.
SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture
def lint_text() -> Callable[..., LintResult]:
    """Lints manifests given as text, with all rules or those that the settings select."""

    def run(*manifests: str, settings: Settings | None = None) -> LintResult:
        chosen = settings or Settings()
        files = [read_bytes(text.encode(), f"manifest-{number}.yaml") for number, text in enumerate(manifests, 1)]
        return lint(files, select_rules(chosen), chosen)

    return run
