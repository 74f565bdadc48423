"""Memory outside the allocator, by device, ranks and release."""

from __future__ import annotations

import pytest

from planner.memory.runtime import baseline, device_class, link_kind, non_torch
from planner.units import GIB
from tests.memory.starts import start

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize(
    ("gpu", "kind"),
    [("RTX-3090", "ampere"), ("L40S", "ampere"), ("H200", "hopper"), ("B200", "blackwell"), ("RTX-5090", "blackwell")]
    + [("MI300X", "rocm"), ("GB10", "unified"), ("Jetson-AGX-Orin-64GB", "unified")],
)
def test_device_classes(gpu: str, kind: str) -> None:
    assert device_class(start(LLAMA, gpu, "0.17.1").accelerator) == kind


@pytest.mark.parametrize(
    ("gpu", "version", "flags", "printed"),
    [
        ("H100-80GB", "0.11.0", "", 0.13),
        ("A100-40GB-SXM", "0.11.0", "", 0.02),
        ("B200", "0.11.0", "", 0.23),
        ("H100-80GB", "0.11.0", "--tensor-parallel-size 2", 0.54),
        ("RTX-4090", "0.7.2", "--tensor-parallel-size 2", 0.25),
        ("RTX-3090", "0.6.4.post1", "", 0.35),
    ],
)
def test_printed_values_lie_in_the_interval(gpu: str, version: str, flags: str, printed: float) -> None:
    of = start(LLAMA, gpu, version, flags)
    low, _, high, _ = non_torch(of.config, of.accelerator, of.model).bytes
    assert low - 0.005 * GIB <= printed * GIB <= high


def test_links() -> None:
    two, eight = "--tensor-parallel-size 2", "--tensor-parallel-size 8"
    kinds = [
        link_kind(of.config, of.accelerator)
        for of in (
            start(LLAMA, "H100-80GB", "0.17.1"),
            start(LLAMA, "L40S", "0.17.1", two),
            start(LLAMA, "H100-80GB-SXM", "0.17.1", two),
            start(LLAMA, "H100-80GB-SXM", "0.17.1", eight),
            start(LLAMA, "H100-80GB-PCIe", "0.17.1", two),
            start(LLAMA, "H100-80GB-SXM", "0.30.0", eight),
        )
    ]
    assert kinds == ["", "pcie", "pair", "mesh", "pcie", "mesh_later"]


def test_whole_device_is_charged_by_early_releases() -> None:
    """V0 until 0.6.6 and V1 until 0.9.1 take what others use on the device for their own."""
    early, late = start(LLAMA, "RTX-3090", "0.8.5"), start(LLAMA, "RTX-3090", "0.9.2")
    assert early.config.runner == late.config.runner == "v1"
    more = (
        non_torch(early.config, early.accelerator).bytes.expected
        - non_torch(late.config, late.accelerator).bytes.expected
    )
    assert more > 0.2 * GIB


def test_state_of_the_second_runner_is_charged_from_0_27() -> None:
    """Counts (4 B), prompt mask and grammar bitmask (a bit each) per sequence and vocabulary entry."""
    of = start(LLAMA, "H100-80GB", "0.30.0")
    assert of.config.runner == "v2"
    state = (
        non_torch(of.config, of.accelerator, of.model).bytes.expected
        - non_torch(of.config, of.accelerator).bytes.expected
    )
    assert state == 1024 * (4 * 128256 + 2 * (128256 // 8))
    before = start(LLAMA, "H100-80GB", "0.25.1")
    assert non_torch(before.config, before.accelerator, before.model) == non_torch(before.config, before.accelerator)


def test_baseline_of_unified_and_coherent_devices() -> None:
    """GB10 logs: 7 to 10.5 of 120 GiB in use; GH200: the page cache may sit in the device's memory."""
    spark = start(LLAMA, "GB10", "0.17.1")
    low, expected, high, _ = baseline(spark.config, spark.accelerator).bytes
    assert low < 7 * GIB < expected < 10.5 * GIB < high
    grace, hopper = start(LLAMA, "GH200-96GB", "0.17.1"), start(LLAMA, "H100-80GB", "0.17.1")
    assert baseline(grace.config, grace.accelerator).bytes.high > 6 * GIB
    assert baseline(hopper.config, hopper.accelerator).bytes.high < GIB


def test_communicators_are_outside_from_0_11() -> None:
    flags = "--tensor-parallel-size 4"
    before, after = start(LLAMA, "L40S", "0.10.2", flags), start(LLAMA, "L40S", "0.11.0", flags)
    assert (
        baseline(before.config, before.accelerator).bytes.expected
        < baseline(after.config, after.accelerator).bytes.expected
    )


def test_attention_workspace() -> None:
    """FlashInfer's buffer: 8192 tokens × 32 heads × 128 × 16 B = 0.5 GiB with an fp8 cache on an L4, none without."""
    flags = "--max-num-batched-tokens 8192 --kv-cache-dtype "
    fp8 = start("Qwen/Qwen3-8B-FP8", "L4", "0.33.0", flags + "fp8")
    auto = start("Qwen/Qwen3-8B-FP8", "L4", "0.33.0", flags + "auto")
    more = [
        bound - other
        for bound, other in zip(
            non_torch(fp8.config, fp8.accelerator, fp8.model).bytes[:3],
            non_torch(auto.config, auto.accelerator, auto.model).bytes[:3],
            strict=True,
        )
    ]
    assert more == [0, GIB // 2, GIB // 2]
