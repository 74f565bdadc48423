"""Both sides of the engine's share, the free memory at the start, the sampler's warm-up, a cache of a stated size."""

from __future__ import annotations

from typing import Any

import pytest

from planner.facts.budget import budget_facts, capacity_facts
from planner.replan import with_flag
from tests.facts.plans import plan_of
from tests.rules.manifests import manifest

LLAMA = "--model=meta-llama/Llama-3.1-8B-Instruct"
L4 = "NVIDIA-L4"


def budget(*args: str, version: str = "0.11.0", gpu: str = L4, **options: Any) -> dict[str, Any]:
    return budget_facts(plan_of(manifest((LLAMA, *args), version, gpu=gpu, **options)), {})


def test_the_interval_is_where_the_verdict_changes() -> None:
    """Just above the lower bound one request fits, just below it does not; the upper bound is what the device leaves."""
    found = budget("--max-model-len=16384", "--gpu-memory-utilization=0.9")["utilization"]
    least, most = found["least"]["expected"], found["most"]["expected"]
    assert 0 < least < most < 1
    plan = plan_of(manifest((LLAMA, "--max-model-len=16384"), "0.11.0", gpu=L4))
    longest = []
    for share in (least - 0.002, least + 0.002):
        other = with_flag(plan, "gpu-memory-utilization", share)
        assert other is not None
        assert other.budget is not None
        assert other.budget.capacity is not None
        longest.append(other.budget.capacity.longest_request.expected)
    assert longest[0] < 16384 <= longest[1]
    rank = plan.budget.ranks[0]  # type: ignore[union-attr]
    late = rank.bytes("baseline").expected + rank.bytes("graphs").expected
    assert most == pytest.approx(1 - late / rank.bytes("device").expected)


def test_counted_graphs_stand_inside_the_share() -> None:
    old = budget("--max-model-len=4096")["utilization"]
    new = budget("--max-model-len=4096", version="0.24.0", env={"VLLM_USE_V2_MODEL_RUNNER": "0"})["utilization"]
    assert new["most"]["expected"] > old["most"]["expected"]


def test_a_stated_size_has_no_interval() -> None:
    found = budget("--max-model-len=4096", "--kv-cache-memory-bytes=12G")
    assert found["utilization"] == {}
    stated = found["ranks"][0]["stated_cache"]
    assert stated["size"] == 12 << 30
    assert stated["room"]["high"] < stated["size"]
    assert budget("--max-model-len=4096")["ranks"][0]["stated_cache"] == {}


@pytest.mark.parametrize(
    ("version", "checked"), [("0.7.3", False), ("0.8.5", False), ("0.9.0", False), ("0.9.1", True), ("0.24.0", True)]
)
def test_releases_that_look_at_free_memory(version: str, checked: bool) -> None:
    assert budget("--max-model-len=4096", version=version)["ranks"][0]["free_at_start"]["checked"] is checked


def test_the_sampler_needs_less_with_fewer_sequences() -> None:
    many = budget("--max-model-len=4096", "--max-num-seqs=256")["ranks"][0]["sampler"]
    few = budget("--max-model-len=4096", "--max-num-seqs=16")["ranks"][0]["sampler"]
    assert many["needed"] == pytest.approx(16 * few["needed"], rel=0.001)
    assert many["vocabulary"] == 128256


def test_only_the_last_stage_samples() -> None:
    found = budget("--max-model-len=4096", "--pipeline-parallel-size=2", resources={"nvidia.com/gpu": 2})["ranks"]
    assert [bool(rank["sampler"]) for rank in found] == [False, True]


def test_sglang_has_an_interval_of_its_own() -> None:
    text = manifest(("--model-path=meta-llama/Llama-3.1-8B-Instruct",), "0.5.2", engine="sglang")
    found = budget_facts(plan_of(text), {})["utilization"]
    assert found["flag"] == "mem-fraction-static"
    assert 0.15 < found["least"]["expected"] < 0.3 < found["most"]["expected"] < 1


def test_raising_the_share_is_advised_only_where_it_helps() -> None:
    def ways(*args: str) -> str:
        return str(capacity_facts(plan_of(manifest((LLAMA, *args), "0.11.0", gpu=L4)))["other_ways"])

    assert ways("--max-model-len=8192") == ""
    assert "raise" not in ways("--max-model-len=131072")
    assert "raise" in ways("--max-model-len=16384", "--gpu-memory-utilization=0.8")
