"""The demand on a manifest, the facts for rules, and the contract's ``reserve``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.documents.read import read_bytes
from planner.facts.admission import admission, percent, reserve_facts, reserve_json
from planner.facts.demand import demand, demand_gaps
from planner.plan import Plan, plan_files
from planner.settings import Settings, load_config

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: llm
  annotations: {annotations}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: llm}}}}
  template:
    metadata: {{labels: {{app: llm}}}}
    spec:
      nodeSelector: {{nvidia.com/gpu.product: NVIDIA-L4}}
      containers:
        - name: vllm
          image: vllm/vllm-openai:{version}
          args: [--model=Qwen/Qwen3-8B, --max-model-len=16384{flags}]
          resources: {{limits: {{nvidia.com/gpu: 1}}}}
"""
STATED = {"concurrency": 8, "prompt_tokens": "p50=800,p95=3000,max=6000", "output_tokens": "p50=200,p95=800,max=2000"}


def plan(
    stated: Any = None,
    *,
    replicas: Any = 1,
    version: str = "v0.24.0",
    flags: str = "",
    settings: Settings | None = None,
) -> Plan:
    annotations = {"planner/workload": stated if isinstance(stated, str) else json.dumps(stated)} if stated else {}
    text = MANIFEST.format(annotations=json.dumps(annotations), replicas=replicas, version=version, flags=flags)
    return plan_files([read_bytes(text.encode(), "m.yaml")], settings or Settings()).plans[0]


def test_a_stated_workload_decides_what_runs() -> None:
    facts = reserve_facts(plan(STATED), {})
    assert facts["stated"]
    assert facts["deliberate"]
    assert facts["running"] == 8
    assert facts["missing"] == 0
    assert facts["risk"] <= 0.01
    assert facts["held"] + facts["reserved"] == facts["needed"] <= facts["blocks"]["expected"]
    assert facts["demand"]["per_copy"] == 8


def test_yaml_in_the_annotation_and_its_place() -> None:
    positions: dict[str, Any] = {}
    found = reserve_facts(plan("concurrency: 8\nprompt_tokens: {p50: 800, max: 6000}\noutput_tokens: 300\n"), positions)
    assert found["running"] == 8
    assert positions["workload.demand"].line == 5


def test_without_one_the_running_set_is_all_that_the_engine_lets_in() -> None:
    facts = reserve_facts(plan(), {})
    assert (facts["stated"], facts["deliberate"], facts["running"]) == (False, False, 256)
    assert facts["assumed"] == "assumed "
    assert "demand" not in facts
    by_hand = reserve_facts(plan(flags=", --max-num-seqs=4"), {})
    assert (by_hand["stated"], by_hand["deliberate"], by_hand["running"]) == (False, True, 4)


def test_replicas_share_the_demand() -> None:
    assert reserve_facts(plan({**STATED, "concurrency": 100}, replicas=4), {})["demand"]["per_copy"] == 25


@pytest.mark.parametrize(
    ("stated", "words"),
    [("{", "cannot be read"), ({"concurrency": -1}, "more than zero"), ("x" * 30_000, "no workload")],
)
def test_a_workload_that_cannot_be_read_is_an_unknown_fact(stated: Any, words: str) -> None:
    wrong = plan(stated)
    workload, gap = demand(wrong)
    assert workload is None
    assert gap is not None
    assert words in gap.reason
    assert "planner/workload" in gap.remedy
    assert reserve_facts(wrong, {}) == {}
    assert reserve_json(wrong) == {}


def test_the_scheduler_of_the_release() -> None:
    def cache(version: str, flags: str = "") -> Any:
        found = admission(plan(STATED, version=version, flags=flags))
        assert found is not None
        return found.cache

    old, middle, new = cache("v0.18.0"), cache("v0.19.0"), cache("v0.24.0", ", --watermark=0.1")
    assert (old.prompts_wait, middle.prompts_wait, new.prompts_wait) == (False, True, True)
    assert (old.watermark_blocks, middle.watermark_blocks) == (0, 0)
    assert new.watermark_blocks == (new.blocks + 1) // 10
    assert not cache("v0.24.0", ", --no-scheduler-reserve-full-isl").prompts_wait
    v0 = cache("v0.7.0")
    assert v0.watermark_blocks == v0.blocks // 100  # no null block, and one per cent kept


def test_the_contract() -> None:
    found = reserve_json(plan(STATED, replicas=2))
    assert json.loads(json.dumps(found)) == found
    assert found["risk"]["low"] <= found["risk"]["expected"] <= found["risk"]["high"] <= 0.02
    assert set(found["policies"]) == {"next-step", "finish-longest", "quantile", "worst-case"}
    assert found["blocks_available"] + found["blocks_reserved"] == found["blocks"]["expected"]
    assert found["capacity"]["deployment_mix_requests_at_risk"] == 2 * found["capacity"]["mix_requests_at_risk"]
    assert found["outside_bytes"]["low"] <= found["outside_bytes"]["high"]


def test_settings_state_the_demand_and_may_name_a_trace_beside_them(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_text('{"prompt_tokens": 700, "output_tokens": 60}\n' * 3)
    (tmp_path / "planner.yaml").write_text("workload: {concurrency: 5, trace: trace.jsonl}\n")
    settings, problems = load_config(tmp_path / "planner.yaml")
    assert not problems
    workload, gap = demand(plan(settings=settings))
    assert gap is None
    assert workload is not None
    assert (workload.concurrency, workload.pairs) == (5, ((700, 60),) * 3)
    # What a workload says itself comes first.
    stated, _ = demand(plan(STATED, settings=settings))
    assert stated is not None
    assert stated.concurrency == 8


@pytest.mark.parametrize("path", ["../outside.jsonl", "/etc/hostname", "missing.jsonl", "folder"])
def test_no_other_file_is_read(tmp_path: Path, path: str) -> None:
    inside = tmp_path / "inside"
    (inside / "folder").mkdir(parents=True)
    (tmp_path / "outside.jsonl").write_text('{"prompt_tokens": 700, "output_tokens": 60}\n')
    (inside / "planner.yaml").write_text(f"workload: {{trace: {path}}}\n")
    settings, _ = load_config(inside / "planner.yaml")
    workload, gap = demand(plan(settings=settings))
    assert workload is None
    assert gap is not None
    assert gap.reason.startswith("planner/workload cannot be read: trace: ")


@pytest.mark.parametrize(
    ("share", "text"),
    [(1.0, "all but certain"), (0.123, "12 %"), (0.0123, "1 %"), (0.0004, "0.04 %"), (0, "below 0.01 %")],
)
def test_probabilities_for_people(share: float, text: str) -> None:
    assert percent(share) == text


def test_the_policy_of_the_workload_decides() -> None:
    held = {policy: reserve_json(plan({**STATED, "policy": policy})) for policy in ("next-step", "worst-case")}
    for policy, found in held.items():
        assert found["policy"] == policy
        assert found["blocks_reserved"] == found["policies"][policy]["reserved"]
    assert held["next-step"]["suggested"]["max_num_seqs"] > held["worst-case"]["suggested"]["max_num_seqs"]
    assert held["worst-case"]["suggested"]["watermark"] is None


def test_the_deployment_is_all_copies_together() -> None:
    one, three = (reserve_json(plan(STATED, replicas=count))["capacity"] for count in (1, 3))
    for name in ("full_length_requests", "mix_requests", "mix_tokens"):
        assert three["deployment"][name] == pytest.approx(3 * one["deployment"][name], abs=0.03)
    assert one["deployment"]["full_length_requests"] == one["full_length_requests"]


def test_a_scheduler_that_is_not_known_is_said_so() -> None:
    text = MANIFEST.format(annotations="{}", replicas=1, version="x", flags="").replace(
        "vllm/vllm-openai:x", "lmsysorg/sglang:v0.5.2"
    )
    text = text.replace("args: [--model=", "args: [python3, -m, sglang.launch_server, --model-path=").replace(
        "--max-model-len", "--context-length"
    )
    found = plan_files([read_bytes(text.encode(), "m.yaml")], Settings()).plans[0]
    assert found.engine.engine == "sglang"
    (gap,) = demand_gaps(found, {})
    assert "SGLang" in gap.reason
