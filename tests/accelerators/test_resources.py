"""How many devices a container asks for, by resource name."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import cast

import pytest

from planner.accelerators.resources import device_request, gpu_count
from planner.documents.node import Node
from planner.provenance import Unknown
from planner.workloads.workload import ClaimRequest
from tests.accelerators.pods import AT, container, pod


@pytest.mark.parametrize(
    ("limits", "count", "kind", "vendor"),
    [
        ({"nvidia.com/gpu": 8}, 8, "gpu", "nvidia"),
        ({"nvidia.com/gpu": 0}, 0, "gpu", "nvidia"),
        ({"nvidia.com/mig-1g.10gb": 2}, 2, "mig", "nvidia"),
        ({"nvidia.com/mig-1g.10gb.shared": 1}, 1, "mig", "nvidia"),
        ({"nvidia.com/gpu.shared": 1}, 1, "shared", "nvidia"),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8000, "nvidia.com/gpucores": 30}, 1, "vgpu", "nvidia"),
        ({"nvidia.com/gpu": 2, "nvidia.com/gpumem-percentage": 30}, 2, "vgpu", "nvidia"),
        ({"nvidia.com/vgpu": 1}, 1, "vgpu", "nvidia"),
        ({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 10240}, 1, "vgpu", "nvidia"),
        ({"aliyun.com/gpu-mem": 8}, 1, "vgpu", "nvidia"),
        ({"amd.com/gpu": 8}, 8, "gpu", "amd"),
        ({"habana.ai/gaudi": 8}, 8, "gaudi", "intel"),
        ({"gpu.intel.com/i915": 1}, 1, "gpu", "intel"),
        ({"gpu.intel.com/xe": 2}, 2, "gpu", "intel"),
        ({"google.com/tpu": 4}, 4, "tpu", "google"),
        ({"aws.amazon.com/neuron": 1}, 1, "neuron", "aws"),
        ({"aws.amazon.com/neuroncore": 4}, 4, "neuroncore", "aws"),
        ({"huawei.com/Ascend910": 16}, 16, "npu", "huawei"),
        ({"huawei.com/Ascend910B4-1": 1}, 1, "npu", "huawei"),
        ({"huawei.com/ascend-1980": 2}, 2, "npu", "huawei"),
    ],
)
def test_resource_names(limits: dict[str, float], count: int, kind: str, vendor: str) -> None:
    request = device_request(container(limits))
    assert request is not None
    assert request.devices is not None
    assert request.devices.value == count
    assert request.devices.position == AT
    assert (request.kind, request.vendor) == (kind, vendor)
    assert gpu_count(container(limits)) == (request.devices, next(iter(limits)), kind)


def test_no_device() -> None:
    assert gpu_count(container({"cpu": 8, "memory": 2**34, "rdma/ib": 1, "gpu.intel.com/i915_monitoring": 1})) == (
        None,
        "",
        "",
    )


def test_limits_before_requests() -> None:
    count, _, _ = gpu_count(container({"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 2}))
    assert count is not None
    assert count.value == 4
    count, _, _ = gpu_count(container({}, {"nvidia.com/gpu": 2}))
    assert count is not None
    assert count.value == 2


def test_a_zero_does_not_hide_another_device() -> None:
    count, name, _ = gpu_count(container({"nvidia.com/gpu": 0, "amd.com/gpu": 1}))
    assert count is not None
    assert (count.value, name) == (1, "amd.com/gpu")


def test_memory_limits() -> None:
    request = device_request(container({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8000}))
    assert request is not None
    assert request.memory_limit == 8000 * 2**20
    request = device_request(container({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 30}))
    assert request is not None
    assert request.memory_percent == 30
    request = device_request(container({"huawei.com/Ascend910B3": 1, "huawei.com/Ascend910B3-memory": 16384}))
    assert request is not None
    assert request.memory_limit == 16 * 2**30


@pytest.mark.parametrize("value", [0.5, math.inf, math.nan, 2.0**63, -1.0])
def test_quantities_that_count_nothing(value: float) -> None:
    assert gpu_count(container({"nvidia.com/gpu": value})) == (None, "nvidia.com/gpu", "gpu")


def test_a_placeholder_is_a_device_of_unknown_number() -> None:
    unknown = Unknown("limits.nvidia.com/gpu", "a placeholder", "render it", AT)
    assert gpu_count(container(unknown_resources=(unknown,))) == (None, "nvidia.com/gpu", "gpu")


def test_resource_claims() -> None:
    claimed = container(claims=("gpus",))
    assert gpu_count(claimed) == (None, "gpus", "claim")
    node = cast(Node, SimpleNamespace(position=AT))
    visible = pod(claim_requests=(ClaimRequest("gpus", "gpu", "gpu.nvidia.com", 2, node),))
    count, name, kind = gpu_count(claimed, visible)
    assert count is not None
    assert (count.value, name, kind) == (2, "gpu.nvidia.com", "claim")
    hidden = pod(claim_requests=(ClaimRequest("gpus", "gpu", "gpu.nvidia.com", None, node),))
    assert gpu_count(claimed, hidden) == (None, "gpu.nvidia.com", "claim")
    network = pod(claim_requests=(ClaimRequest("gpus", "nic", "dra.net", 1, node),))
    assert gpu_count(claimed, network) == (None, "", "")
