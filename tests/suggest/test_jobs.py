"""Random jobs: every suggestion lints clean, and no smaller number of GPUs would do.

``PLANNER_SUGGEST_JOBS=300`` runs all of them.
"""

from __future__ import annotations

import os
import time

import pytest
import yaml

from planner.settings import Settings
from planner.suggest.deployment import RESERVE_RULES, Suggestion, lint_manifest, suggest
from tests.suggest.brute_force import works_on_fewer
from tests.suggest.jobs import jobs

JOBS = int(os.environ.get("PLANNER_SUGGEST_JOBS", "40"))
#: Jobs whose answer is checked by trying everything: those with few GPUs, since what is tried grows with the square.
CHECKED, MOST_GPUS = max(6, JOBS // 10), 5


@pytest.fixture(scope="module")
def answers() -> list[tuple[Suggestion, float]]:
    """(answer, CPU seconds) of every job."""
    found = []
    for wanted in jobs(JOBS):
        start = time.process_time()
        (answer,) = suggest(wanted)
        found.append((answer, time.process_time() - start))
    return found


def test_every_suggestion_lints_clean_or_says_why_there_is_none(answers: list[tuple[Suggestion, float]]) -> None:
    for answer, _ in answers:
        who = f"{answer.question.model.value} on {answer.accelerator.name}"
        if answer.choice is None:
            assert answer.reasons, who
            assert any(character.isdigit() for reason in answer.reasons for character in reason) or any(
                word in reason
                for reason in answer.reasons
                for word in ("pooling", "not evaluated", "do not divide", "no KV cache")
            ), who
            continue
        linted = lint_manifest(answer.manifest, Settings())
        findings = linted.findings
        assert findings == answer.findings, who
        assert linted.problems == (), who
        assert linted.engines == (2 if answer.choice.layout.pods > 1 else 1), who
        assert not [gap for gap in linted.not_evaluated if gap.rule in RESERVE_RULES], who
        assert not [f for f in findings if f.severity == "error" or f.rule in RESERVE_RULES], who
        kinds = [document["kind"] for document in yaml.safe_load_all(answer.manifest)]
        assert kinds == [
            "PersistentVolumeClaim",
            "LeaderWorkerSet" if answer.choice.layout.pods > 1 else "Deployment",
            "Service",
        ]
    assert sum(answer.choice is not None for answer, _ in answers) > len(answers) / 2


def test_the_planned_requests_run_at_a_time(answers: list[tuple[Suggestion, float]]) -> None:
    for answer, _ in answers:
        choice = answer.choice
        if choice is not None:
            assert choice.replicas * choice.requests >= answer.demand.in_flight
            assert choice.judged.keeps(choice.requests)
            assert choice.knobs.sequences >= choice.requests


def test_a_job_takes_less_than_a_second(answers: list[tuple[Suggestion, float]]) -> None:
    seconds = sorted(taken for _, taken in answers)
    assert seconds[len(seconds) // 2] < 0.5
    assert seconds[-1] < 2  # one second on an idle machine; CPU time doubles beside seven others


def test_no_smaller_number_of_gpus_would_do(answers: list[tuple[Suggestion, float]]) -> None:
    checked = [
        answer
        for answer, _ in answers
        if answer.choice is not None and 1 < answer.choice.gpus <= MOST_GPUS and not answer.choice.knobs.cache_dtype
    ][:CHECKED]
    assert len(checked) >= min(5, CHECKED)
    for answer in checked:
        assert answer.choice is not None
        better = works_on_fewer(answer, answer.choice.gpus)
        assert not better, f"{answer.question.model.value} on {answer.accelerator.name}: {better}"
