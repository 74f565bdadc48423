from __future__ import annotations

from planner.documents.read import read_bytes
from planner.plan import Plan, plan_files
from planner.settings import Settings
from tests.workloads.planning import flag_line, plan, plans, summary

RUNTIME = """
    apiVersion: production-stack.vllm.ai/v1alpha1
    kind: VLLMRuntime
    metadata: {name: x}
    spec:
      model:
        modelURL: meta-llama/Llama-3.1-8B
        maxModelLen: 4096
        dtype: bfloat16
        maxNumSeqs: 32
      vllmConfig:
        tensorParallelSize: 2
        gpuMemoryUtilization: "0.8"
        extraArgs: [--disable-log-requests]
        v1: true
      deploymentConfig:
        resources: {cpu: "10", memory: 32Gi, gpu: "2"}
        image: {registry: docker.io, name: "lmcache/vllm-openai:2025-05-27-v1"}
        replicas: 3
"""
VALUES = """
servingEngineSpec:
  runtimeClassName: nvidia
  startupProbe: {failureThreshold: 60, periodSeconds: 10, httpGet: {path: /health, port: 8000}}
  modelSpec:
    - name: llama
      repository: vllm/vllm-openai
      tag: v0.10.0
      modelURL: meta-llama/Llama-3.1-8B-Instruct
      replicaCount: 2
      requestCPU: 8
      requestMemory: 32Gi
      requestGPU: 2
      vllmConfig:
        maxModelLen: 8192
        tensorParallelSize: 2
        extraArgs: ["--gpu-memory-utilization", "0.92"]
      nodeSelectorTerms:
        - matchExpressions:
            - {key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-L40S]}
    - name: second
      repository: vllm/vllm-openai
      tag: v0.10.0
      modelURL: Qwen/Qwen3-8B
      requestGPU: 1
      raySpec: {headNode: {requestCPU: 2}}
      vllmConfig: {pipelineParallelSize: 2}
routerSpec: {repository: lmcache/lmstack-router}
"""


def values(text: str, file: str = "values.yaml") -> tuple[Plan, ...]:
    return plan_files([read_bytes(text.encode(), file)], Settings()).plans


def test_runtime():
    found = plan(RUNTIME)
    assert found.workload is not None
    assert summary(found) == "vllm meta-llama/Llama-3.1-8B 2x1x1 2x1"
    assert (found.engine.get("max-model-len"), found.engine.get("max-num-seqs")) == (4096, 32)
    assert (flag_line(found, "max-model-len"), flag_line(found, "gpu-memory-utilization")) == (8, 13)
    assert found.workload.replicas == 3
    assert found.engine.env["VLLM_USE_V1"].value == "1"


def test_values():
    first, second = values(VALUES)
    assert first.workload is not None
    assert first.container is not None
    assert summary(first) == "vllm meta-llama/Llama-3.1-8B-Instruct 2x1x1 2x1"
    assert flag_line(first, "max-model-len") == 15
    assert (first.workload.kind, first.workload.name, first.workload.part) == ("HelmValues", "values.yaml", "llama")
    assert first.accelerator is not None
    assert first.accelerator.name == "L40S"
    assert first.engine.get("enable-prefix-caching") is False  # the chart says so where the values do not
    assert first.container.probes["startup"].window == 600
    assert second.engine.get("distributed-executor-backend") == "ray"
    assert summary(second) == "vllm Qwen/Qwen3-8B 1x2x1 1x2"


def test_values_are_known_by_their_keys_in_any_file():
    assert len(values(VALUES, "prod/llama.yaml")) == 2
    assert not values(VALUES.replace("servingEngineSpec", "otherSpec"), "prod/llama.yaml")


def test_shared_memory_only_with_tensor_parallel():
    first, _ = values(VALUES.replace("        tensorParallelSize: 2\n", ""))
    assert first.container is not None
    assert not first.container.mounts


def test_engine_turned_off():
    assert not values(VALUES.replace("  runtimeClassName: nvidia", "  enableEngine: false"))


def test_runtime_with_an_autoscaler():
    found = plans(RUNTIME + "      autoscalingConfig: {enabled: true, maxReplicas: 5}\n")
    assert found[0].workload is not None
    assert found[0].workload.replicas is None
