"""Devices that several processes use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from planner.documents.read import read_bytes
from planner.facts import rule_facts
from planner.facts.sharing import share_of
from planner.plan import plan_files
from planner.report.result import LintResult
from planner.settings import Settings
from tests.facts.plans import LLAMA, plan_of
from tests.rules.manifests import manifest

A = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192 --port 8000"
B = "vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 8192 --port 8001"


def sharing(text: str) -> list[dict[str, Any]]:
    plans = plan_files([read_bytes(text.encode(), "m.yaml")], Settings()).plans
    return [rule_facts(plan)[0]["container"]["sharing"] for plan in plans]


def script(text: str, **options: Any) -> dict[str, Any]:
    (found,) = sharing(manifest((text,), "0.9.2", command=["/bin/sh", "-c"], **options))
    return found


def test_two_servers_in_the_background_share_the_devices() -> None:
    found = script(f"{A} &\n{B} &\nwait")
    assert found["certain"]
    assert found["total"] > found["least"] > 1.8
    assert script(f"{A} --gpu-memory-utilization 0.4 &\n{B} --gpu-memory-utilization=0.5")["total"] < 1


def test_the_share_has_another_name_in_newer_releases() -> None:
    """--device-memory-utilization is the same argument from vLLM 0.31.0 on (engine/arg_utils.py); before, there is none."""
    text = manifest(
        (f"{A} --device-memory-utilization 0.4 &\n{B} --device_memory_utilization=0.5 &\nwait",),
        "0.32.0",
        command=["/bin/sh", "-c"],
    )
    (found,) = sharing(text)
    assert 0.9 < found["least"] < found["total"] < 1
    one = plan_of(manifest((LLAMA, "--device-memory-utilization=0.4"), "0.32.0"))
    assert one.effective is not None
    assert share_of(one.engine, one) == share_of(one.engine) == one.effective.gpu_memory_utilization.value == 0.4
    old = plan_of(manifest((LLAMA, "--device-memory-utilization=0.4"), "0.19.0"))
    assert old.effective is not None
    assert share_of(old.engine, old) == share_of(old.engine) == old.effective.gpu_memory_utilization.value == 0.9


@pytest.mark.parametrize(
    "text",
    [
        f"{A}\n{B}",  # the second starts when the first has ended
        f"{A} || {B}",
        f"if [ $ROLE = a ]; then {A} & else {B} & fi\nwait",
        f"CUDA_VISIBLE_DEVICES=0 {A} &\nCUDA_VISIBLE_DEVICES=1 {B} &\nwait",
        f"CUDA_VISIBLE_DEVICES=$FIRST {A} &\nCUDA_VISIBLE_DEVICES=$SECOND {B} &\nwait",
        f"{A} &\nsleep 60; kill $!\n{B}",
        f"{A} &\nwait $!\n{B} &\nwait",
        "python3 -m sglang.launch_server --model-path a/b --base-gpu-id 0 &\n"
        "python3 -m sglang.launch_server --model-path a/b --port 1 --base-gpu-id 1 &\nwait",
    ],
)
def test_servers_that_do_not_run_on_the_same_devices_at_once(text: str) -> None:
    assert script(text) == {}


def test_the_same_devices_by_name_are_shared() -> None:
    found = script(f"CUDA_VISIBLE_DEVICES=0 {A} &\nCUDA_VISIBLE_DEVICES=0 {B} &\nwait")
    assert found["certain"]


def test_a_share_that_is_not_known_is_not_guessed() -> None:
    found = script(f"{A} --gpu-memory-utilization $SHARE &\n{B} &\nwait")
    assert "total" not in found
    assert found["most"] == 1.0


def test_and_the_rule_says_what_is_missing(lint_text: Callable[..., LintResult]) -> None:
    text = manifest((f"{A} --gpu-memory-utilization $SHARE &\n{B} &\nwait",), "0.9.2", command=["/bin/sh", "-c"])
    (gap,) = [gap for gap in lint_text(text).not_evaluated if gap.rule == "shared-gpu-overcommitted"]
    assert "what one of them takes" in gap.reason
    assert "--gpu-memory-utilization" in gap.remedy


@pytest.mark.parametrize("count", ["9" * 5000, "²", "-1", "", "0"])
def test_a_label_that_counts_nothing(count: str) -> None:
    selector = {"nvidia.com/gpu.product": "NVIDIA-L4-SHARED", "nvidia.com/gpu.replicas": count}
    assert sliced(selector)["most"] == 0.5


POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: two}}
spec:
  containers:
    - name: a
      image: vllm/vllm-openai:v0.11.0
      args: [--model=Qwen/Qwen3-8B, --gpu-memory-utilization=0.6]
      {first}
    - name: b
      image: vllm/vllm-openai:v0.11.0
      args: [--model=Qwen/Qwen3-4B, --gpu-memory-utilization=0.6]
      {second}
"""
OWN = "resources: {limits: {nvidia.com/gpu: 1}}"
ALL = "env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]"


def test_containers_that_each_ask_for_devices_have_their_own() -> None:
    assert sharing(POD.format(first=OWN, second=OWN)) == [{}, {}]


def test_containers_that_see_every_device_share_them_and_one_of_them_says_so() -> None:
    first, second = sharing(POD.format(first=ALL, second=ALL))
    assert first["certain"]
    assert first["total"] > 1.2
    assert second == {}


def test_a_container_that_looks_past_the_device_plugin_may_share() -> None:
    first, _ = sharing(POD.format(first=OWN, second=ALL))
    assert not first["certain"]


def sliced(selector: dict[str, str], *args: str, resource: str = "nvidia.com/gpu") -> dict[str, Any]:
    import json

    text = json.loads(manifest(("--model=Qwen/Qwen3-4B", "--max-model-len=4096", *args), resources={resource: 1}))
    text["spec"]["template"]["spec"]["nodeSelector"] = selector
    (found,) = sharing(json.dumps(text))
    return found


def test_labels_say_how_many_pods_share_a_device() -> None:
    gke = {
        "cloud.google.com/gke-accelerator": "nvidia-l4",
        "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing",
        "cloud.google.com/gke-max-shared-clients-per-gpu": "4",
    }
    found = sliced(gke)
    assert (found["most"], found["total"], found["certain"]) == (0.25, 0.9, False)
    assert sliced({"nvidia.com/gpu.product": "NVIDIA-L4-SHARED"}, "--gpu-memory-utilization=0.4")["total"] == 0.4
    assert sliced({**gke, "cloud.google.com/gke-gpu-sharing-strategy": "mps"}) == {}
    assert sliced({"nvidia.com/gpu.product": "NVIDIA-L4"}) == {}


def test_a_limit_of_hami_is_the_device_that_the_engine_sees() -> None:
    """Its layer reports the limit as the device's memory: a share of it cannot exceed it, a cache of a stated size can."""
    text = manifest(
        ("--model=Qwen/Qwen3-4B", "--max-model-len=4096"),
        gpu="NVIDIA-L4",
        resources={"nvidia.com/gpu": 1, "nvidia.com/gpumem": 12000},
    )
    assert sharing(text) == [{}]
    (stated,) = sharing(text.replace('"--max-model-len=4096"', '"--max-model-len=4096", "--kv-cache-memory-bytes=8G"'))
    assert stated["certain"]
    assert stated["least"] > 1


def test_a_fraction_that_the_scheduler_only_books(lint_text: Callable[..., LintResult]) -> None:
    text = """\
apiVersion: v1
kind: Pod
metadata: {name: a, annotations: {gpu-fraction: "0.5"}}
spec:
  schedulerName: kai-scheduler
  containers:
    - name: a
      image: vllm/vllm-openai:v0.11.0
      args: [--model=Qwen/Qwen3-8B]
"""
    (found,) = [f for f in lint_text(text).findings if f.rule == "shared-gpu-overcommitted"]
    assert found.severity == "warning"
    assert "0.5" in found.message
    assert "shared-gpu-overcommitted" not in {f.rule for f in lint_text(text.replace("kai-", "runai-")).findings}
