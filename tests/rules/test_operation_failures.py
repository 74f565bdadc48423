"""Public failure reports about operating an engine (probes, rollout, storage, users, parallel sizes), written as manifests:
each is found, and what repairs it is not.

As ``test_failures``: names are those of ``failures.jsonl`` beside the project, the manifests are our own. Reports that are
examples of a rule's file say so there (``reports``), and are not here a second time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from planner.report.result import LintResult
from tests.rules.manifests import manifest
from tests.rules.reports import Report, assert_found, assert_not_found

LLAMA = "--model=meta-llama/Llama-3.1-8B-Instruct"
LENGTH = "--max-model-len=8192"
H100X8 = {"nvidia.com/gpu": 8}
SGLANG = ("--model-path=meta-llama/Llama-3.1-8B-Instruct", "--context-length=8192", "--host=0.0.0.0")
HEALTH = {"httpGet": {"path": "/health", "port": 8000}}


def changed(
    text: str,
    container: Mapping[str, Any] | None = None,
    pod: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    **fields: Any,
) -> str:
    """A manifest of ``manifest`` with fields of its container, pod spec, spec and object added or replaced."""
    document = json.loads(text)
    document.update(fields)
    document["spec"].update(spec or {})
    inner = document["spec"]["template"]["spec"]
    inner.update(pod or {})
    inner["containers"][0].update(container or {})
    return json.dumps(document, indent=1)


def probed(text: str, kind: str, period: int, failures: int, **probe: Any) -> str:
    """A manifest with one probe of the health endpoint."""
    return changed(text, {f"{kind}Probe": {**HEALTH, "periodSeconds": period, "failureThreshold": failures, **probe}})


def shm(args: tuple[str, ...], version: str, gpus: int, **options: Any) -> Report:
    """Several GPUs without and with RAM behind /dev/shm."""
    resources = {"nvidia.com/gpu": gpus}
    return Report(
        "shared-memory-too-small",
        manifest(args, version, resources=resources, shared_memory=False, **options),
        manifest(args, version, resources=resources, **options),
    )


SCOUT = manifest(
    ("--model=meta-llama/Llama-4-Scout-17B-16E-Instruct", LENGTH, "--tensor-parallel-size=4"), "0.11.0",
    resources={"nvidia.com/gpu": 4},
)  # fmt: skip
MOE = ("--model=deepseek-ai/DeepSeek-R1", LENGTH, "--tensor-parallel-size=8")
GROUP = "leaderworkerset.x-k8s.io/v1"


SPANS = (LENGTH, "--tensor-parallel-size=8", "--pipeline-parallel-size=2", "--nnodes=2", "--node-rank=0",
         "--master-addr=llm-0")  # fmt: skip


def group(args: tuple[str, ...], version: str, size: int = 2, gpus: int = 8) -> str:
    """A LeaderWorkerSet whose pods run the same command."""
    text = manifest(args, version, resources={"nvidia.com/gpu": gpus})
    document = json.loads(text)
    template = document["spec"]["template"]
    document["spec"] = {"replicas": 1, "leaderWorkerTemplate": {"size": size, "workerTemplate": template}}
    document.update(kind="LeaderWorkerSet", apiVersion=GROUP)
    return json.dumps(document, indent=1)


def prefill(length: str) -> str:
    """Prefill workers of a Dynamo deployment, two GPUs each."""
    worker = {
        "componentType": "worker",
        "subComponentType": "prefill",
        "replicas": 4,
        "resources": {"limits": {"gpu": "2"}},
        "extraPodSpec": {
            "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L40S"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "volumes": [{"name": "models", "hostPath": {"path": "/var/lib/models"}}],
            "mainContainer": {
                "image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:vllm-0.19.0",
                "command": ["python3", "-m", "dynamo.vllm"],
                "env": [{"name": "HF_HOME", "value": "/models"}],
                "volumeMounts": [{"name": "models", "mountPath": "/models"}],
                "args": ["--model", "nvidia/Llama-3.1-70B-Instruct-FP8", "--tensor-parallel-size", "2",
                         "--max-model-len", length, "--is-prefill-worker"],
            },
        },
    }  # fmt: skip
    return json.dumps(
        {
            "apiVersion": "nvidia.com/v1alpha1",
            "kind": "DynamoGraphDeployment",
            "metadata": {"name": "llama"},
            "spec": {"services": {"VllmPrefillWorker": worker}},
        },
        indent=1,
    )


def spanning(tag: str) -> str:
    """A Dynamo component over two nodes that its annotation asks Ray for."""
    document = json.loads(prefill("8192"))
    worker = document["spec"]["services"]["VllmPrefillWorker"]
    worker.update(replicas=1, multinode={"nodeCount": 2}, resources={"limits": {"gpu": "8"}})
    worker["annotations"] = {"nvidia.com/vllm-distributed-executor-backend": "ray"}
    container = worker["extraPodSpec"]["mainContainer"]
    container["image"] = f"nvcr.io/nvidia/ai-dynamo/vllm-runtime:{tag}"
    container["args"] = ["--model=deepseek-ai/DeepSeek-R1", *MOE[1:], "--pipeline-parallel-size=2"]
    worker["extraPodSpec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-H200"}
    return json.dumps(document, indent=1)


KIMI = (
    "--model=moonshotai/Kimi-K2.5",
    "--tensor-parallel-size=8",
    "--trust-remote-code",
    "--kv-cache-dtype=fp8",
    "--gpu-memory-utilization=0.95",
)
AWQ14 = ("--model=Qwen/Qwen2.5-14B-Instruct-AWQ", "--max-num-seqs=1", "--max-model-len=16384")
SERVED = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "llm"},
        "spec": {"selector": {"app": "llm"}, "ports": [{"port": 80, "targetPort": 8000}]},
    }
)
STILL = manifest(("--model=Qwen/Qwen3-8B", LENGTH), "0.11.0")


def stack(tag: str) -> str:
    """Values of the production stack's chart, with Ray."""
    return (
        "servingEngineSpec:\n  modelSpec:\n    - name: distilgpt2\n      repository: vllm/vllm-openai\n"
        f"      tag: {tag}\n      modelURL: distilbert/distilgpt2\n      replicaCount: 1\n      requestCPU: 2\n"
        "      requestMemory: 20Gi\n      requestGPU: 1\n      vllmConfig: {tensorParallelSize: 1, pipelineParallelSize: 2}\n"
        "      shmSize: 8Gi\n      pvcStorage: 20Gi\n      raySpec: {headNode: {requestCPU: 2, requestMemory: 20Gi, requestGPU: 1}}\n"
    )


def operated(kind: str, api: str, **spec: Any) -> str:
    """An object of KServe's with one GPU."""
    return json.dumps({"apiVersion": api, "kind": kind, "metadata": {"name": "llm"}, "spec": spec}, indent=1)


def inference(**annotations: str) -> str:
    document = json.loads(
        operated(
            "InferenceService", "serving.kserve.io/v1beta1",
            predictor={
                "containers": [{
                    "name": "kserve-container", "image": "vllm/vllm-openai:v0.11.0",
                    "args": ["--model=Qwen/Qwen3-8B", LENGTH], "resources": {"limits": {"nvidia.com/gpu": 1}},
                    "ports": [{"containerPort": 8000}],
                    "startupProbe": {**HEALTH, "periodSeconds": 10, "failureThreshold": 120},
                }],
            },
        )
    )  # fmt: skip
    document["metadata"]["annotations"] = annotations
    return json.dumps(document, indent=1)


def llm_service(**spec: Any) -> str:
    container = {
        "name": "main", "image": "vllm/vllm-openai:v0.11.0", "resources": {"limits": {"nvidia.com/gpu": 1}},
        "startupProbe": {**HEALTH, "periodSeconds": 10, "failureThreshold": 120},
    }  # fmt: skip
    return operated(
        "LLMInferenceService", "serving.kserve.io/v1alpha1",
        model={"uri": "hf://Qwen/Qwen3-8B", "name": "qwen"}, replicas=1, template={"containers": [container]}, **spec,
    )  # fmt: skip


PATIENT = {"progressDeadlineSeconds": 1800}
ONE_LESS = {"rolloutStrategy": {"maxSurge": 0, "maxUnavailable": 1}}

REPORTS = {
    "F002": Report(
        "startup-window-too-short",
        probed(manifest(("--model=google/gemma-3-1b-it", LENGTH), "0.8.5"), "startup", 10, 15),
        probed(manifest(("--model=google/gemma-3-1b-it", LENGTH), "0.8.5"), "startup", 10, 60),
        "warning",
    ),
    "F016": Report("rollout-needs-spare-gpu", changed(STILL, spec={"strategy": {}}), STILL, "warning"),
    "F018": Report(
        "rollout-needs-spare-gpu",
        changed(STILL, spec={"strategy": {"type": "RollingUpdate"}}),
        changed(STILL, spec={"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}),
        "warning",
    ),
    "F025": Report(
        "kv-cache-below-one-request",
        manifest(KIMI, "0.19.0", resources=H100X8),
        manifest((*KIMI, LENGTH), "0.19.0", resources=H100X8),
    ),
    "F045": Report(
        "weights-do-not-fit",
        manifest(("--model=Qwen/Qwen2.5-14B-Instruct", LENGTH), "0.11.0", gpu="", resources={"nvidia.com/mig-3g.20gb": 1}),
        manifest(("--model=Qwen/Qwen2.5-7B-Instruct", LENGTH), "0.11.0", gpu="", resources={"nvidia.com/mig-3g.20gb": 1}),
    ),
    "F076": Report(
        "memory-headroom-too-small",
        manifest((*AWQ14, "--gpu-memory-utilization=0.98"), "0.29.0", gpu="NVIDIA-L4"),
        manifest((*AWQ14, "--gpu-memory-utilization=0.95"), "0.29.0", gpu="NVIDIA-L4"),
        "warning",
    ),
    "F134": Report(
        "probe-port-mismatch",
        probed(manifest((LLAMA, LENGTH, "--port=9000")), "readiness", 10, 3, timeoutSeconds=5),
        probed(manifest((LLAMA, LENGTH, "--port=8000")), "readiness", 10, 3, timeoutSeconds=5),
    ),
    "F137": Report(
        "probe-timeout-too-short",
        probed(probed(manifest((LLAMA, LENGTH)), "startup", 10, 90, timeoutSeconds=5), "liveness", 10, 3),
        changed(
            probed(probed(manifest((LLAMA, LENGTH)), "startup", 10, 90, timeoutSeconds=5), "liveness", 10, 3, timeoutSeconds=5),
            spec={"progressDeadlineSeconds": 3600},
        ),
        "warning",
    ),
    "F149": Report("multi-node-backend-missing", spanning("1.3.0"), spanning("1.2.0")),
    "F020": Report(
        "rollout-needs-spare-gpu",
        llm_service(**PATIENT),
        llm_service(**PATIENT, **ONE_LESS),
        "warning",
    ),
    "F148": Report("multi-node-backend-missing", stack("v0.19.0"), stack("v0.17.1")),
    "F180": Report(
        "termination-grace-too-short",
        changed(STILL, pod={"terminationGracePeriodSeconds": 30}) + "\n---\n" + SERVED,
        changed(
            STILL, {"lifecycle": {"preStop": {"exec": {"command": ["sleep", "15"]}}}},
            {"terminationGracePeriodSeconds": 60},
        ) + "\n---\n" + SERVED,
        "warning",
    ),
    "F191": Report(
        "gated-model-without-token",
        changed(manifest(("--model=meta-llama/Llama-3.1-405B-Instruct", *SPANS), "0.19.0", resources=H100X8), {"env": []}),
        manifest(("--model=meta-llama/Llama-3.1-405B-Instruct", *SPANS), "0.19.0", resources=H100X8),
        "warning",
    ),
    "F248": Report("progress-deadline-too-short", llm_service(**ONE_LESS), llm_service(**ONE_LESS, **PATIENT), "warning"),
    "F250": Report(
        "progress-deadline-too-short",
        inference(),
        inference(**{"serving.knative.dev/progress-deadline": "1800s"}),
        "warning",
    ),
    "F286": Report(
        "service-env-collision",
        manifest(("vllm serve Qwen/Qwen3-8B --max-model-len 8192 --port $VLLM_PORT",), "0.5.0.post1",
                 command=["sh", "-c"], env={"VLLM_PORT": "9000"}),
        manifest(("vllm serve Qwen/Qwen3-8B --max-model-len 8192 --port $API_PORT",), "0.5.0.post1",
                 command=["sh", "-c"], env={"API_PORT": "9000"}),
    ),
    "F004": Report(
        "startup-window-too-short",
        probed(SCOUT, "liveness", 10, 3, initialDelaySeconds=60),
        changed(probed(SCOUT, "startup", 10, 180), spec={"progressDeadlineSeconds": 3600}),
        "warning",
    ),
    "F005": Report(
        "weights-do-not-fit",
        manifest(("--model=deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "--max-model-len=12288", "--dtype=half"), "0.7.1",
                 gpu="Tesla-V100-SXM2-16GB"),
        manifest(("--model=deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "--max-model-len=12288", "--dtype=half"), "0.7.1",
                 gpu="Tesla-V100-SXM2-16GB"),
    ),
    "F008": shm((*SGLANG, "--tp=2"), "0.5.2", 2, engine="sglang"),
    "F023": Report(
        "kv-cache-below-one-request",
        prefill("131072"),
        prefill("16384"),
    ),
    "F024": Report(
        "kv-cache-below-one-request",
        manifest(("--model=Qwen/Qwen3-8B",), "0.13.0", gpu="NVIDIA-L4"),
        manifest(("--model=Qwen/Qwen3-8B", "--max-model-len=8192"), "0.13.0", gpu="NVIDIA-L4"),
    ),
    "F062": Report(
        "attention-heads-not-divisible",
        manifest(("--model=Qwen/Qwen1.5-32B-Chat", "--max-model-len=4096", "--dtype=half", "--tensor-parallel-size=6"), "0.6.3",
                 gpu="Tesla-T4", resources={"nvidia.com/gpu": 6}),
        manifest(("--model=Qwen/Qwen1.5-32B-Chat", "--max-model-len=4096", "--dtype=half", "--tensor-parallel-size=8"),
                          "0.6.3", gpu="Tesla-T4", resources=H100X8),
    ),
    "F063": Report(
        "attention-heads-not-divisible",
        manifest(("--model=Qwen/Qwen2-7B-Instruct", LENGTH, "--tensor-parallel-size=8"), "0.6.3", resources=H100X8),
        manifest(("--model=Qwen/Qwen2-7B-Instruct", LENGTH, "--tensor-parallel-size=4"), "0.6.3",
                          resources={"nvidia.com/gpu": 4}),
    ),
    "F118": Report(
        "gpu-resource-missing",
        changed(manifest((LLAMA, LENGTH), "0.9.0", gpu=""), {"resources": {}}),
        changed(manifest((LLAMA, LENGTH), "0.9.0", gpu=""), {"resources": {}}, {"runtimeClassName": "nvidia"}),
    ),
    "F128": Report(
        "multi-node-backend-missing",
        group((*MOE, "--pipeline-parallel-size=2", "--distributed-executor-backend=ray"), "0.19.0"),
        group((*MOE, "--pipeline-parallel-size=2", "--nnodes=2", "--node-rank=$(LWS_WORKER_INDEX)",
               "--master-addr=$(LWS_LEADER_ADDRESS)"), "0.19.0"),
    ),
    "F187": Report(
        "token-literal",
        manifest((LLAMA, LENGTH), env={"HF_TOKEN": "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567"}),
        changed(
            manifest((LLAMA, LENGTH)),
            {"env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}]},
        ),
    ),
    "F203": shm(("--model=meta-llama/Llama-3.1-405B-Instruct-FP8", LENGTH, "--tensor-parallel-size=8"), "0.5.3", 8),
    "F204": shm(("--model=MiniMaxAI/MiniMax-Text-01", LENGTH, "--tensor-parallel-size=8"), "0.8.3", 8, gpu="NVIDIA-H200"),
    "F227": shm((LLAMA, LENGTH, "--tensor-parallel-size=2"), "0.24.0", 2),
    "F231": shm(("--model=zai-org/glm-4-9b-chat-hf", LENGTH, "--tensor-parallel-size=2"), "0.4.3", 2,
                gpu="NVIDIA-GeForce-RTX-4090"),
    "F240": Report(
        "gpu-count-mismatch",
        manifest((*MOE, "--data-parallel-size=2"), "0.18.0", resources=H100X8),
        group((*MOE, "--data-parallel-size=2", "--data-parallel-size-local=1",
               "--data-parallel-address=$(LWS_LEADER_ADDRESS)"), "0.18.0"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_what_failed_in_public_is_found_before(report: Report, lint_text: Callable[..., LintResult]) -> None:
    assert_found(report, lint_text(report.fails))


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_what_repairs_it_is_not_found(report: Report, lint_text: Callable[..., LintResult]) -> None:
    result = lint_text(report.works)
    assert_not_found(report, result)
    assert not [f"{f.rule}: {f.message}" for f in result.findings if f.severity == "error"]
