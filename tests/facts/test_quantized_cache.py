"""Whether a cache in FP8 would solve what is wrong: only where something is, and only where the device has kernels for it."""

from __future__ import annotations

from typing import Any

import pytest

from planner import replan
from planner.facts import rule_facts
from planner.plan import Plan
from tests.facts.plans import plan_of
from tests.rules.manifests import manifest

LLAMA = "--model=meta-llama/Llama-3.1-8B-Instruct"


def quantized(*args: str, version: str = "0.11.0", gpu: str = "NVIDIA-L4") -> dict[str, Any]:
    found: dict[str, Any] = rule_facts(plan_of(manifest((LLAMA, *args), version, gpu=gpu)))[0]["capacity"]["quantized"]
    return found


def test_the_plan_is_made_again_with_the_format() -> None:
    found = quantized("--max-model-len=50000")
    assert found["dtype"] == "fp8"
    assert found["solves"] == "one request of 50,000 tokens fits"
    plan = plan_of(manifest((LLAMA, "--max-model-len=50000", "--kv-cache-dtype=fp8"), gpu="NVIDIA-L4"))
    assert plan.budget is not None
    assert plan.budget.capacity is not None
    assert found["kv_tokens"] == plan.budget.capacity.kv_tokens.expected


def test_ampere_has_kernels_for_the_other_format() -> None:
    found = quantized("--max-model-len=50000", gpu="NVIDIA-GeForce-RTX-3090")
    assert found["dtype"] == "fp8_e5m2"


@pytest.mark.parametrize(
    "args",
    [
        ("--max-model-len=131072",),  # too long even so
        ("--max-model-len=50000", "--kv-cache-dtype=fp8"),
        ("--max-model-len=8192",),
        ("--max-model-len=8192", "--gpu-memory-utilization=0.6"),  # no cache at all
    ],
)
def test_what_it_does_not_solve(args: tuple[str, ...]) -> None:
    assert quantized(*args) == {}


def test_turing_has_no_kernels() -> None:
    assert quantized("--max-model-len=4096", "--dtype=half", gpu="Tesla-T4") == {}


def test_nothing_is_planned_again_where_nothing_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(plan: Plan, name: str, value: Any) -> None:
        raise AssertionError("planned again")

    monkeypatch.setattr(replan, "with_flag", never)
    assert quantized("--max-model-len=8192") == {}


def test_a_fallback_to_the_old_engine_is_said() -> None:
    assert "V0 engine" in quantized("--max-model-len=40000", version="0.8.5")["solves"]


def test_measured_terms_stay() -> None:
    text = manifest((LLAMA, "--max-model-len=50000"), gpu="NVIDIA-L4").replace(
        '"name": "llm"\n',
        '"name": "llm", "annotations": {"planner/memory": "{weights: {value: 15, unit: GiB, reason: a log}}"}\n',
        1,
    )
    plan = plan_of(text)
    assert plan.budget is not None
    before = plan.budget.ranks[0].bytes("weights")
    assert before.basis == "given"
    other = replan.with_flag(plan, "kv-cache-dtype", "fp8")
    assert other is not None
    assert other.budget is not None
    assert other.budget.ranks[0].bytes("weights") == before
