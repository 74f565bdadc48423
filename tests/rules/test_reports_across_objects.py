"""Public failure reports in their further forms: another object of the run that causes them, other pods of a group, other
storage. ``test_operation_failures`` has the plain ones.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from planner.report.result import LintResult
from tests.rules.deployments import TOKEN, deployment, probe, service
from tests.rules.reports import Report, assert_found, assert_not_found


def group(workers: str) -> str:
    """A LeaderWorkerSet of a gated model whose leader has a token."""
    container = (
        "            - name: vllm\n              image: vllm/vllm-openai:v0.11.0\n"
        "              command: [vllm, serve, meta-llama/Llama-3.1-405B-Instruct]\n"
        "              args: [--tensor-parallel-size=8, --pipeline-parallel-size=2, --nnodes=2{rank}]\n"
        "              resources: {{limits: {{nvidia.com/gpu: 8}}}}\n              env:\n{env}"
    )
    return (
        "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: llm}\nspec:\n"
        "  leaderWorkerTemplate:\n    size: 2\n    leaderTemplate:\n      spec:\n          containers:\n"
        + container.format(rank="", env=f"                {TOKEN}\n")
        + "    workerTemplate:\n      spec:\n          containers:\n"
        + container.format(rank=", --node-rank=1, --headless", env=f"                {workers}\n")
    )


REPORTS = {
    "F134, the Service": Report(
        "probe-port-mismatch",
        deployment("--model=Qwen/Qwen3-8B", "--port=9000", more=service("8000")),
        deployment("--model=Qwen/Qwen3-8B", "--port=9000", more=service("9000")),
    ),
    "F183": Report(
        "trust-remote-code-unpinned",
        deployment("--model=Qwen/Qwen3-8B", "--trust-remote-code"),
        deployment("--model=/models/own", "--trust-remote-code"),
        "warning",
    ),
    "F191, the workers": Report(
        "gated-model-without-token", group("- {name: HUGGING_FACE_HUB_TOKEN, value: ''}"), group(TOKEN), "warning"
    ),
    "F263": Report(
        "startup-window-too-short",
        deployment("--model=Qwen/Qwen3-Coder-480B-A35B-Instruct", "--tensor-parallel-size=16", gpus=16,
                   env="- {name: HF_HOME, value: /cache}", pod="volumes: [{name: cache, nfs: {server: efs, path: /}}]",
                   container=probe("startup", 180) + "volumeMounts: [{name: cache, mountPath: /cache}]\n"),
        deployment("--model=Qwen/Qwen3-Coder-480B-A35B-Instruct", "--tensor-parallel-size=16", gpus=16,
                   env="- {name: HF_HOME, value: /cache}", pod="volumes: [{name: cache, nfs: {server: efs, path: /}}]",
                   container=probe("startup", 360) + "volumeMounts: [{name: cache, mountPath: /cache}]\n"),
        "warning",
    ),
    "F286, the Service": Report(
        "service-env-collision",
        deployment(more=service("8000", "vllm")),
        deployment(pod="enableServiceLinks: false", more=service("8000", "vllm")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_what_failed_in_public_is_found_before(report: Report, lint_text: Callable[..., LintResult]) -> None:
    assert_found(report, lint_text(report.fails))


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_what_repairs_it_is_not_found(report: Report, lint_text: Callable[..., LintResult]) -> None:
    assert_not_found(report, lint_text(report.works))
