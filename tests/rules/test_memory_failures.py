"""Public failure reports about GPU memory, written as manifests: each is found, and what repairs it is not.

As ``test_failures``: names are those of ``failures.jsonl`` beside the project, the manifests are our own. Where a report leaves
something open (the GPU, a length), the manifest has a value with which the cause that it states applies.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from planner.report.result import LintResult
from tests.rules.manifests import manifest
from tests.rules.reports import Report, assert_found, assert_not_found

LLAMA = "--model=meta-llama/Llama-3.1-8B-Instruct"
LENGTH = "--max-model-len=8192"
VL72 = (
    "--model=Qwen/Qwen2.5-VL-72B-Instruct-AWQ",
    "--max-model-len=32768",
    "--max-num-seqs=1",
    "--tensor-parallel-size=2",
)
PIXELS = '--mm-processor-kwargs={"max_pixels": 1003520}'
V0 = {"VLLM_USE_V1": "0"}
TWO = {"nvidia.com/gpu": 2}
AWQ32 = ("--model=Qwen/Qwen2.5-32B-Instruct-AWQ", "--max-model-len=15000", "--tensor-parallel-size=2")


def script(*commands: str) -> str:
    """A container that starts servers beside each other."""
    text = "\n".join([*(f"{command} &" for command in commands), "wait"])
    return manifest((text,), "0.9.2", gpu="NVIDIA-A100-SXM4-80GB", command=["/bin/sh", "-c"])


def serve(port: int, flags: str = "") -> str:
    return f"vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192 --port {port} {flags}"


REPORTS = {
    "F021": Report(
        "shared-gpu-overcommitted",
        manifest(("--model=BAAI/bge-m3",), "0.10.1", gpu="NVIDIA-L4", resources={"nvidia.com/gpu.shared": 1}),
        manifest(("--model=BAAI/bge-m3", "--gpu-memory-utilization=0.25"), "0.10.1", gpu="NVIDIA-L4",
                 resources={"nvidia.com/gpu.shared": 1}),
        "warning",
    ),
    "F022": Report(
        "shared-gpu-overcommitted",
        script(serve(8000), serve(8001)),
        script(serve(8000, "--gpu-memory-utilization 0.45"), serve(8001, "--gpu-memory-utilization 0.45")),
    ),
    "F028": Report(
        "multimodal-profile-may-not-fit",
        manifest(("--model=meta-llama/Llama-3.2-11B-Vision-Instruct", LENGTH, "--gpu-memory-utilization=0.9"), "0.6.3",
                 gpu="NVIDIA-H100-NVL"),
        manifest(("--model=meta-llama/Llama-3.2-11B-Vision-Instruct", LENGTH, "--gpu-memory-utilization=0.9",
                  "--max-num-seqs=16", "--enforce-eager"), "0.6.3", gpu="NVIDIA-H100-NVL"),
        "warning",
    ),
    "F066": Report(
        "sampler-warmup-may-not-fit",
        manifest(AWQ32, "0.8.0", gpu="NVIDIA-GeForce-RTX-3090", resources=TWO),
        manifest((*AWQ32, "--max-num-seqs=64"), "0.8.0", gpu="NVIDIA-GeForce-RTX-3090", resources=TWO),
        "warning",
    ),
    "F067": Report(
        "no-feasible-utilization",
        manifest(("--model=openai/gpt-oss-120b",), "0.11.0"),
        manifest(("--model=openai/gpt-oss-120b", "--tensor-parallel-size=2"), "0.11.0", resources=TWO),
        "warning",
    ),
    "F074": Report(
        "memory-headroom-too-small",
        manifest((LLAMA, "--dtype=half", "--max-model-len=40000", "--tensor-parallel-size=2", "--gpu-memory-utilization=0.95"),
                 "0.6.4.post1", gpu="Tesla-V100-SXM2-16GB", resources=TWO),
        manifest((LLAMA, "--dtype=half", "--max-model-len=40000", "--tensor-parallel-size=2", "--gpu-memory-utilization=0.90"),
                 "0.6.4.post1", gpu="Tesla-V100-SXM2-16GB", resources=TWO),
        "warning",
    ),
    "F233": Report(
        "multimodal-profile-may-not-fit",
        manifest((*VL72, "--gpu-memory-utilization=0.95", '--limit-mm-per-prompt={"image": 12, "video": 0}'), "0.8.5",
                 gpu="NVIDIA-L40S", resources=TWO, env=V0),
        manifest((*VL72, "--gpu-memory-utilization=0.95", '--limit-mm-per-prompt={"image": 12, "video": 0}', PIXELS), "0.8.5",
                 gpu="NVIDIA-L40S", resources=TWO, env=V0),
        "warning",
    ),
    "F235": Report(
        "multimodal-profile-may-not-fit",
        manifest((*VL72, '--limit-mm-per-prompt={"image": 10, "video": 1}'), "0.9.0.1", gpu="NVIDIA-L40S", resources=TWO,
                 env=V0),
        manifest((*VL72, '--limit-mm-per-prompt={"image": 1, "video": 0}', PIXELS), "0.9.0.1", gpu="NVIDIA-L40S",
                 resources=TWO, env=V0),
        "warning",
    ),
}  # fmt: skip


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_what_failed_in_public_is_found_before(report: Report, lint_text: Callable[..., LintResult]) -> None:
    assert_found(report, lint_text(report.fails))


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_what_repairs_it_is_not_found(report: Report, lint_text: Callable[..., LintResult]) -> None:
    assert_not_found(report, lint_text(report.works))
