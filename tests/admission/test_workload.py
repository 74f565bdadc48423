"""The demand: read, assumed, and in strata."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.admission.workload import BadWorkload, assumed_workload, read_workload

STATED = {
    "concurrency": 32,
    "requests_per_second": 4,
    "prompt_tokens": {"p50": 800, "p95": 4000, "max": 16000},
    "output_tokens": {"p50": 200, "p95": 800, "max": 2000},
    "shared_prefix_tokens": 500,
    "risk": 0.01,
}


def test_the_example_of_the_contract() -> None:
    workload = read_workload(STATED, 32768, "planner.yaml")
    assert (workload.concurrency, workload.rate, workload.shared_prefix_tokens, workload.risk) == (32, None, 500, 0.01)
    assert workload.assumed == ()
    assert workload.describe().startswith("32 requests at a time, prompts p50 800, p95 4,000, max 16,000")


def test_the_assumed_lengths_are_those_of_the_contract() -> None:
    """Median 1/16, 95th percentile 1/4, maximum 1/1 of max-model-len, prompt and output half each."""
    workload = assumed_workload(32768)
    for lengths in (workload.prompts, workload.outputs):
        assert [round(lengths.quantile(share)) for share in (0.5, 0.95, 1)] == [1024, 4096, 16384]
    assert workload.lengths_assumed
    assert workload.in_flight(32768) is None


def test_what_is_not_stated_is_assumed_and_said_so() -> None:
    workload = read_workload({"prompt-tokens": 100}, 4096)
    assert workload.assumed == ("concurrency", "output_tokens")
    assert not workload.lengths_assumed


def test_a_rate_is_a_number_in_flight() -> None:
    workload = read_workload({"requests_per_second": 4, "output_tokens": 500, "seconds_per_token": 0.02}, 4096)
    assert workload.in_flight(4096) == 40  # 4 a second, 10 seconds each
    assert workload.at_most_in_flight(4096) == 51
    assert "seconds_per_token" in read_workload({"requests_per_second": 4}, 4096).assumed


@given(st.integers(2, 200_000), st.integers(1, 100_000), st.integers(1, 100_000))
def test_no_request_is_longer_than_the_model(length: int, prompt: int, output: int) -> None:
    workload = read_workload({"prompt_tokens": f"p50={prompt}", "output_tokens": f"p50={output}"}, length)
    requests = workload.requests(length)
    assert sum(request.weight for request in requests) == pytest.approx(1)
    assert all(r.prompt >= 1 and r.output >= 1 and r.prompt + r.output <= length for r in requests)


def test_a_trace_says_how_prompts_and_outputs_go_together() -> None:
    pairs = [(10, 1000)] * 300 + [(5000, 20)] * 300
    workload = read_workload({"trace": "t.csv", "concurrency": 4}, 8192, pairs=pairs)
    requests = workload.requests(8192)
    assert {(r.prompt, r.output) for r in requests} == {(10, 1000), (5000, 20)}
    assert len(requests) == 256


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "a workload is a mapping"),
        ({"concurency": 3}, "'concurency' is no key of a workload"),
        ({"concurrency": 0}, "concurrency: 0 must be more than zero"),
        ({"concurrency": 1.5}, "no number of requests"),
        ({"concurrency": "x"}, "concurrency: 'x' is no number"),
        ({"risk": 2}, "risk: 2 must be from 0 to 1"),
        ({"risk": 0}, "risk: 0 must be above 0"),
        ({"policy": "luck"}, "policy: 'luck' is none"),
        ({"prompt_tokens": {"p50": 5, "max": 1}}, "prompt_tokens: max is 1"),
        ({"trace": "/etc/passwd"}, "trace: a file is read only where"),
        ({"requests_per_second": float("inf")}, "is no number"),
    ],
)
def test_what_is_wrong_is_said_with_its_key(value: Any, words: str) -> None:
    with pytest.raises(BadWorkload, match=words):
        read_workload(value, 4096)


def test_percent_signs_are_understood() -> None:
    workload = read_workload({"risk": "5%", "shared_prefix_share": "80 %"}, 4096)
    assert (workload.risk, workload.shared_prefix_share) == (0.05, 0.8)


def test_the_rate_of_a_trace_counts_where_nobody_states_a_demand() -> None:
    pairs = [(100, 500)] * 20
    found = read_workload({"trace": "t.csv", "seconds_per_token": 0.02}, 4096, pairs=pairs, trace_rate=4.0)
    assert (found.rate, found.in_flight(4096)) == (4.0, 40)
    assert "concurrency" not in found.assumed
    stated = read_workload({"trace": "t.csv", "concurrency": 7}, 4096, pairs=pairs, trace_rate=4.0)
    assert (stated.rate, stated.in_flight(4096)) == (None, 7)
