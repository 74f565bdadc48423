"""What a memory limit must hold: per rank or in total, as each engine's release counts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from planner.documents.read import read_bytes
from planner.facts import rule_facts
from planner.plan import plan_files
from planner.report.result import LintResult
from planner.settings import Settings
from tests.facts.plans import plan_of
from tests.rules.manifests import manifest

GIB = 1 << 30
MODEL = "--model=Qwen/Qwen2.5-72B-Instruct"  # 135.4 GiB in 16 bits


def needed(*args: str, version: str = "0.11.0", gpus: int = 1, **options: Any) -> tuple[float, float]:
    """(low, high) beyond what the server, its ranks and their queues need, in GiB."""
    text = manifest(args, version, resources={"nvidia.com/gpu": gpus, "memory": "64Gi"}, **options)
    (item,) = rule_facts(plan_of(text))[0]["container"]["host_memory"]
    queues = 0.25 if gpus > 1 else 0
    low, high = item["low"] / GIB - 0.5 - 0.5 * gpus - queues, item["high"] / GIB - 2 - 3 * gpus - queues
    return round(low, 2), round(high, 2)


TP4 = ("--tensor-parallel-size=4", "--max-model-len=4096")
LMCACHE = '--kv-transfer-config={"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'


@pytest.mark.parametrize(
    ("args", "version", "env", "low"),
    [
        ((), "0.11.0", {}, 0),
        (("--cpu-offload-gb=20",), "0.11.0", {}, 80),  # of each GPU
        (("--swap-space=8",), "0.11.0", {}, 0),  # V1 allocates none
        (("--swap-space=8",), "0.6.3", {}, 32),  # of each GPU
        ((), "0.6.3", {}, 16),  # 4 GiB of each GPU by default
        (("--swap-space=0",), "0.6.3", {}, 0),
        (("--kv-offloading-size=40",), "0.12.0", {}, 40),  # of all ranks
        (("--kv-offloading-size=40", "--kv-offloading-backend=lmcache"), "0.12.0", {}, 0),
        ((LMCACHE,), "0.11.0", {"LMCACHE_MAX_LOCAL_CPU_SIZE": "20"}, 80),  # of each worker
        ((LMCACHE,), "0.11.0", {"LMCACHE_MAX_LOCAL_CPU_SIZE": "20", "LMCACHE_LOCAL_CPU": "False"}, 0),
        ((), "0.11.0", {"LMCACHE_MAX_LOCAL_CPU_SIZE": "20"}, 0),  # nobody reads it
    ],
)
def test_what_vllm_keeps_on_the_host(args: tuple[str, ...], version: str, env: dict[str, str], low: float) -> None:
    assert needed(MODEL, *TP4, *args, version=version, gpus=4, env=env)[0] == low


def test_no_more_weights_are_offloaded_than_there_are() -> None:
    low, _ = needed("--model=Qwen/Qwen2.5-7B-Instruct", "--max-model-len=4096", "--cpu-offload-gb=400")
    assert 13 < low < 15


def test_lmcache_keeps_five_gib_where_nothing_is_said_and_that_is_no_certainty() -> None:
    assert needed(MODEL, *TP4, LMCACHE, gpus=4) == (0, 20)


@pytest.mark.parametrize(
    ("args", "version", "gib"),
    [
        (("--enable-hierarchical-cache", "--hicache-size=30"), "0.5.5", 2 * 30e9 / GIB),  # GB, of each rank
        (("--hicache-size=30",), "0.5.5", 0),  # not switched on
        (("--cpu-offload-gb=10",), "0.5.5", 20),
    ],
)
def test_what_sglang_keeps_on_the_host(args: tuple[str, ...], version: str, gib: float) -> None:
    low, _ = needed(
        "--model-path=Qwen/Qwen2.5-72B-Instruct", "--tp=2", "--context-length=4096", *args,
        version=version, gpus=2, engine="sglang",
    )  # fmt: skip
    assert low == pytest.approx(gib, abs=0.01)


def test_the_hierarchical_cache_is_twice_that_of_the_device_by_default() -> None:
    text = manifest(
        ("--model-path=meta-llama/Llama-3.1-8B-Instruct", "--context-length=4096", "--enable-hierarchical-cache"),
        "0.5.5", engine="sglang", resources={"nvidia.com/gpu": 1, "memory": "64Gi"},
    )  # fmt: skip
    plan = plan_of(text)
    assert plan.budget is not None
    pool = plan.budget.ranks[0].bytes("kv_available")
    (item,) = rule_facts(plan)[0]["container"]["host_memory"]
    assert item["low"] == GIB + 2 * pool.low


def test_a_limit_below_the_weights_kills_nothing(lint_text: Callable[..., LintResult]) -> None:
    """Weights that are mapped from files are page cache (F287)."""
    text = manifest((MODEL, *TP4), resources={"nvidia.com/gpu": 4, "memory": "32Gi"})
    assert "host-memory-too-small" not in {finding.rule for finding in lint_text(text).findings}


def test_a_pod_of_a_group_holds_its_own_ranks_only() -> None:
    """16 ranks over two pods: each pod has eight."""
    text = manifest(
        (MODEL, "--tensor-parallel-size=8", "--pipeline-parallel-size=2", "--max-model-len=4096", "--nnodes=2",
         "--kv-offloading-size=100"),
        "0.12.0", resources={"nvidia.com/gpu": 8, "memory": "64Gi"},
    )  # fmt: skip
    text = text.replace('"kind": "Deployment"', '"kind": "LeaderWorkerSet"').replace(
        "apps/v1", "leaderworkerset.x-k8s.io/v1"
    )
    text = text.replace('"template":', '"leaderWorkerTemplate": {"size": 2, "workerTemplate":').rstrip()[:-1] + "}}"
    plan = plan_files([read_bytes(text.encode(), "m.yaml")], Settings()).plans[0]
    assert plan.pods == 2
    (item,) = rule_facts(plan)[0]["container"]["host_memory"]
    assert item["low"] / GIB == 0.5 + 8 * 0.5 + 0.25 + 50


@pytest.mark.parametrize(
    ("limit", "space", "severity"),
    [("12Gi", "", "error"), ("20Gi", "", ""), ("20Gi", "8", "error"), ("32Gi", "8", "")],
)
def test_on_the_cpu_the_weights_and_the_cache_are_in_memory(
    limit: str, space: str, severity: str, lint_text: Callable[..., LintResult]
) -> None:
    """The weights of Qwen2.5-7B-Instruct take 14.2 GiB."""
    text = manifest(
        ("--model=Qwen/Qwen2.5-7B-Instruct", "--max-model-len=4096"), gpu="", image="vllm/vllm-openai-cpu:v0.11.0",
        resources={"memory": limit, "cpu": 16}, env={"VLLM_CPU_KVCACHE_SPACE": space} if space else {},
    )  # fmt: skip
    found = [f.severity for f in lint_text(text).findings if f.rule == "host-memory-too-small"]
    assert "".join(found) == severity


def test_other_platforms_and_unknown_sizes_are_left_alone() -> None:
    small = {"nvidia.com/gpu": 1, "memory": "1Gi"}
    for text in (
        manifest((MODEL,), resources=small, image="vllm/vllm-tpu:v0.11.0"),
        manifest((MODEL, "--tensor-parallel-size=$TP"), resources=small),
    ):
        assert rule_facts(plan_of(text))[0]["container"]["host_memory"] == []
