"""Traces of requests as JSON lines and CSV."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.admission.trace import BadTrace, read_trace

AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
"""


def test_json_lines_in_any_order_come_back_in_the_order_of_arrival() -> None:
    lines = [
        '{"arrival": 7, "prompt_tokens": 30, "output_tokens": 3}',
        "",
        '{"arrival": 2, "prompt_tokens": 10, "output_tokens": 1, "prefix": "system", "prefix_tokens": 8}',
    ]
    requests, timed = read_trace(lines)
    assert not timed
    assert (requests.arrivals, requests.prompts, requests.outputs) == ([2, 7], [10, 30], [1, 3])
    assert [tokens for _, tokens in requests.prefixes] == [8, 0]


def test_the_azure_trace_is_read_as_it_is() -> None:
    requests, timed = read_trace(AZURE.splitlines())
    assert timed
    assert requests.prompts == [374, 396, 879]
    assert requests.outputs == [44, 109, 55]
    assert requests.arrivals == pytest.approx([0.0, 4.314579, 4.541877])


def test_other_columns_do_not_matter_and_cells_may_be_quoted() -> None:
    requests, _ = read_trace(["model;Output Tokens;prompt_tokens", 'a;"12";7'])
    assert (requests.arrivals, requests.prompts, requests.outputs) == ([0], [7], [12])


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "holds no request"),
        (['{"arrival": 0, "prompt_tokens": 5}'], "trace:1: output_tokens is missing"),
        (['{"arrival": 0, "prompt_tokens": -5, "output_tokens": 1}'], "must be from 1"),
        (['{"arrival": 0, "prompt_tokens": 1.5, "output_tokens": 1}'], "not a whole number"),
        (['{"arrival": NaN, "prompt_tokens": 1, "output_tokens": 1}'], "arrival"),
        (['{"arrival": "soon", "prompt_tokens": 1, "output_tokens": 1}'], "neither a number nor a date"),
        (["{"], "no JSON"),
        (["[" * 50_000], "no JSON"),
        (["a,b", "1,2"], "no column for prompt_tokens"),
        (["prompt_tokens,output_tokens", "1"], "trace:2: 1 cells"),
        (['{"prompt_tokens": 1e30, "output_tokens": 1}'], "it must be from"),
        (["x" * 200_000], "is no request"),
    ],
)
def test_what_is_no_trace_is_said_with_its_line(lines: list[str], words: str) -> None:
    with pytest.raises(BadTrace, match=words.replace("[", r"\[")):
        read_trace(lines)


@given(st.lists(st.text(max_size=40), max_size=5))
def test_no_text_crashes_it(lines: list[str]) -> None:
    with suppress(BadTrace):
        assert read_trace(lines).requests.prompts
