"""The search itself: what it promises about its answers."""

from __future__ import annotations

from typing import Any

import pytest

from planner.engines.dispatch import engine_modules
from planner.models.resolve import resolve
from planner.provenance import Fact, Provenance
from planner.settings import Settings
from planner.suggest.configuration import Knobs, Question, plan_of, settled
from planner.suggest.evaluate import Judge, utilization_limit
from planner.suggest.layouts import Layout, node_size
from planner.suggest.search import _Seeker, search

OPTION = Provenance("option", "test")
LENGTHS = {"prompt_tokens": "p50=800,p95=4000,max=16000", "output_tokens": "p50=200,p95=800,max=2000"}


def question(model: str, accelerator: str, release: str = "0.33.0", length: int = 18_176, **load: Any) -> Question:
    from planner.accelerators.catalog import named

    modules = engine_modules("vllm")
    assert modules is not None
    return Question(
        modules,
        Fact(release, OPTION),
        Fact(model, OPTION),
        resolve(model).architecture,
        named(accelerator),
        Settings(workload={**LENGTHS, **load}),
        length,
    )


@pytest.mark.parametrize("release", ["0.11.0", "0.18.1", "0.24.0", "0.33.0"])
@pytest.mark.parametrize(("model", "accelerator"), [("Qwen/Qwen3-8B", "L4"), ("Qwen/Qwen3-0.6B", "RTX-4090")])
@pytest.mark.parametrize("graphs", ["all", "none"])
def test_the_largest_share_is_the_largest_that_surely_starts(
    model: str, accelerator: str, release: str, graphs: str
) -> None:
    asked = question(model, accelerator, release, 2048, concurrency=4)
    knobs = Knobs(8, batched=2048, graphs=graphs)
    limit = utilization_limit(settled(asked, Layout(1), knobs))
    judge = Judge()
    assert judge(plan_of(asked, Layout(1), knobs._replace(utilization=limit))).starts
    if limit < 0.95:
        assert not judge(plan_of(asked, Layout(1), knobs._replace(utilization=limit + 0.02))).starts


def test_more_load_never_takes_fewer_gpus() -> None:
    gpus = []
    for concurrency in (1, 4, 12, 30, 80, 200):
        asked = question("Qwen/Qwen3-8B", "L4", concurrency=concurrency)
        found = search(asked, concurrency, node_size(asked.accelerator), alternatives=False)
        assert found.choices[0].replicas * found.choices[0].requests >= concurrency
        gpus.append(found.choices[0].gpus)
    assert gpus == sorted(gpus)
    assert gpus[0] == 1


def test_keeps_says_what_most_says_but_for_one() -> None:
    asked = question("Qwen/Qwen3-8B", "A100-80GB-SXM", concurrency=32)
    for share in (0.5, 0.92):
        judged = Judge()(plan_of(asked, Layout(1), Knobs(256, utilization=share)))
        answers = [judged.keeps(requests) for requests in range(1, 200)]
        assert answers == sorted(answers, reverse=True)
        assert abs(sum(answers) - min(199, judged.most)) <= 1


def test_a_limit_of_gpus_is_kept() -> None:
    asked = question("meta-llama/Llama-3.1-70B-Instruct", "L4", concurrency=50)
    found = search(asked, 50, node_size(asked.accelerator), most_gpus=8, alternatives=False)
    assert all(choice.gpus <= 8 for choice in found.choices)
    assert search(asked, 50, node_size(asked.accelerator), most_gpus=6).choices == ()


def test_the_engine_keeps_the_reserve_where_it_can() -> None:
    asked = question("Qwen/Qwen3-8B", "H100-80GB-SXM", "0.33.0", concurrency=120)
    choice = search(asked, 120, node_size(asked.accelerator), alternatives=False).choices[0]
    assert choice.knobs.watermark > 0
    assert choice.knobs.sequences > 120
    before = search(
        question("Qwen/Qwen3-8B", "H100-80GB-SXM", "0.18.1", concurrency=120), 120, node_size(asked.accelerator)
    )
    assert before.choices[0].knobs.watermark == 0


def test_whole_experts_where_cut_ones_are_refused() -> None:
    """The experts of Qwen3-235B in blocks of FP8: 1536 inputs are 12 blocks, which eight ranks cannot share."""
    asked = question("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "L40S", concurrency=8)
    found = search(asked, 8, node_size(asked.accelerator), alternatives=False)
    layout = found.choices[0].layout
    assert layout.tensor <= 4 or layout.expert


def test_no_stages_where_the_release_has_none_for_the_model() -> None:
    """GPT-OSS was first split over pipeline stages in 0.10.2."""

    def stages(release: str) -> set[int]:
        seeker = _Seeker(question("openai/gpt-oss-120b", "L40S", release, concurrency=4), 4, "")
        return {layout.pipeline for layout in seeker.layouts(4, 8, 1)}

    assert stages("0.10.1") == {1}
    assert stages("0.10.2") > {1}
