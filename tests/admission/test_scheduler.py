"""The simulated scheduler against vLLM's own, and against the same rules walked through step by step."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.admission.growth import Growth
from planner.admission.scheduler import Impossible, Outcome, Requests, Scheduler, simulate
from tests.admission import reference_scheduler
from tests.conftest import SHARED

GOLDEN = SHARED / "golden" / "scheduler.jsonl"
DIGEST = Path(__file__).parents[1] / "golden" / "scheduler-digest.jsonl"
FIGURES = ("steps", "preemptions", "peak_blocks", "mean_blocks", "peak_running", "recomputed_tokens")


def _cases(path: Path) -> list[Any]:
    if not path.is_file():
        return []
    return [pytest.param(case, id=case["id"]) for case in map(json.loads, path.read_text().splitlines())]


def _run(case: dict[str, Any]) -> Outcome:
    columns = [list(column) for column in zip(*case["requests"], strict=True)]
    names = ("num_blocks", "block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len", "watermark")
    return simulate(Requests(*columns), Scheduler(**{name: case[name] for name in names}))


def figures(outcome: Outcome) -> dict[str, float]:
    return {name: getattr(outcome, name) for name in FIGURES}


@pytest.mark.skipif(not GOLDEN.is_file(), reason="the golden data is not at hand")
@pytest.mark.parametrize("case", _cases(GOLDEN))
def test_it_does_what_the_engine_did(case: dict[str, Any]) -> None:
    assert figures(_run(case)) == case["expected"]


@pytest.mark.parametrize("case", _cases(DIGEST))
def test_it_does_what_the_engine_did_in_the_cases_that_are_kept_here(case: dict[str, Any]) -> None:
    """``jq -c 'select(.id | IN("heavy-1-15", "fixed-1-17", "uniform-1-12", "reason-1-16"))' golden/scheduler.jsonl``"""
    assert figures(_run(case)) == case["expected"]


def test_the_digest_is_here() -> None:
    assert len(_cases(DIGEST)) == 4


@st.composite
def _streams(draw: st.DrawFn, prefixes: bool = False) -> tuple[Requests, Scheduler]:
    size = draw(st.sampled_from([1, 4, 16]))
    limit = draw(st.integers(20, 200))
    lengths = st.integers(1, limit - 2)
    rows = draw(
        st.lists(st.tuples(st.integers(0, 60), lengths, st.integers(1, 80)), min_size=1, max_size=25).map(sorted)
    )
    seqs = draw(st.integers(1, 12))
    common = draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows))) if prefixes else []
    scheduler = Scheduler(
        num_blocks=limit // size + 2 + draw(st.integers(0, 60 * 16 // size)),
        block_size=size,
        max_num_seqs=seqs,
        # With a chunk smaller than a block, requests are let in and preempted for ever; nobody configures that.
        max_num_batched_tokens=draw(st.integers(max(seqs, 2 * size if prefixes else 1), 150)),
        max_model_len=limit,
        watermark=draw(st.sampled_from([0.0, 0.05, 0.3])),
        reserve_full_input=draw(st.booleans()),
        lookahead=draw(st.sampled_from([0, 0, 3])),
        prefix_caching=prefixes,
    )
    shared = [(number, 24 * number if p > 24 * number else 0) for number, (_, p, _) in zip(common, rows, strict=False)]
    return Requests(*map(list, zip(*rows, strict=True)), shared), scheduler  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None)
@given(_streams())
def test_jumping_gives_what_walking_gives(stream: tuple[Requests, Scheduler]) -> None:
    requests, scheduler = stream
    outcome = simulate(requests, scheduler)
    assert not outcome.rejected
    assert outcome.finished == len(requests.prompts)
    assert figures(outcome) == reference_scheduler.run(requests, scheduler)


HYBRIDS = [
    (Growth(16), Growth(16, keep=62, slack=1, copies=5)),  # windows beside full attention, one block size
    (Growth(32), Growth(16, keep=46, slack=1, copies=2)),  # block sizes that differ
    (Growth(48), Growth(48, fixed=1, copies=3)),  # recurrent states
    (Growth(16, keep=63),),  # chunks alone
]


@settings(max_examples=80, deadline=None)
@given(_streams(), st.sampled_from(HYBRIDS))
def test_groups_that_grow_in_their_own_way(stream: tuple[Requests, Scheduler], growths: tuple[Growth, ...]) -> None:
    requests, scheduler = stream
    scheduler = scheduler._replace(growths=growths, num_blocks=scheduler.num_blocks + 120, lookahead=0)
    outcome = simulate(requests, scheduler)
    assume(not outcome.rejected)
    assert figures(outcome) == reference_scheduler.run(requests, scheduler)


@settings(max_examples=80, deadline=None)
@given(_streams(prefixes=True))
def test_with_a_prefix_cache_it_stays_close(stream: tuple[Requests, Scheduler]) -> None:
    """The order of free blocks is modelled, not kept: what was touched in the middle of the queue shifts the rest."""
    requests, scheduler = stream
    outcome = simulate(requests, scheduler)
    walked = reference_scheduler.run(requests, scheduler)
    assert outcome.finished == len(requests.prompts)
    assert outcome.steps == pytest.approx(walked["steps"], rel=0.15, abs=4)
    assert outcome.peak_blocks == pytest.approx(walked["peak_blocks"], rel=0.1, abs=8)
    assert outcome.preemptions == pytest.approx(walked["preemptions"], rel=0.3, abs=5)


def test_a_common_prefix_is_held_once() -> None:
    requests = Requests([0] * 8, [1000] * 8, [10] * 8, [(1, 960)] * 8)
    scheduler = Scheduler(1000, 16, 8, 8192, 4096, prefix_caching=True)
    shared = simulate(requests, scheduler)
    apart = simulate(requests, scheduler._replace(prefix_caching=False))
    assert shared.peak_blocks == 1 + 60 + 8 * 4  # the null block, the prefix, 50 own tokens each
    assert apart.peak_blocks == 1 + 8 * 64


def test_lost_work_that_is_still_cached_is_not_computed_again() -> None:
    requests = Requests([0, 0], [100, 100], [300, 300])
    scheduler = Scheduler(40, 16, 2, 512, 512)
    assert simulate(requests, scheduler).preemptions == 1
    assert simulate(requests, scheduler).recomputed_tokens > 200
    # All free blocks but the victim's own are taken first, and then the victim's from its end.
    cached = simulate(requests, scheduler._replace(prefix_caching=True))
    assert cached.preemptions == 1
    assert cached.recomputed_tokens < 200


def test_what_can_never_finish_is_named_and_left_out() -> None:
    requests = Requests([0, 0, 0], [100, 5000, 900], [10, 10, 1000])
    outcome = simulate(requests, Scheduler(64, 16, 4, 512, 4096))
    assert outcome.finished == 1
    assert [number for number, _ in outcome.rejected] == [1, 2]
    assert "max-model-len" in outcome.rejected[0][1]
    assert "119 blocks" in outcome.rejected[1][1]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"num_blocks": 1}, "null block"),
        ({"block_size": 0}, "block size"),
        ({"watermark": 1.0}, "watermark"),
        ({"max_num_batched_tokens": 3}, "max-num-batched-tokens"),
    ],
)
def test_settings_that_no_engine_takes(change: dict[str, Any], word: str) -> None:
    with pytest.raises(Impossible, match=word):
        simulate(Requests([0], [5], [5]), Scheduler(64, 16, 4, 512, 4096)._replace(**change))


def test_arrivals_in_seconds_wait_for_the_clock() -> None:
    requests = Requests([0.0, 10.0], [10, 10], [5, 5])
    outcome = simulate(requests, Scheduler(64, 16, 4, 512, 4096, step_seconds=0.1, prefill_seconds=0.001))
    assert outcome.steps == 10
    assert outcome.clock == pytest.approx(10.0 + 5 * 0.1 + 10 * 0.001)


def test_ten_thousand_requests_take_seconds() -> None:
    """Under pressure: half of the requests are preempted. Generous, since the machine may be busy."""
    numbers = range(10_000)
    requests = Requests([n * 3 for n in numbers], [500 + n % 700 for n in numbers], [300 + n % 900 for n in numbers])
    start = perf_counter()
    outcome = simulate(requests, Scheduler(8000, 16, 256, 8192, 8192))
    assert outcome.finished == 10_000
    assert outcome.preemptions > 1000
    assert perf_counter() - start < 4
