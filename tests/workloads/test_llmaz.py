from __future__ import annotations

from tests.workloads.planning import plan, plans, summary

MODEL = """
    apiVersion: llmaz.io/v1alpha1
    kind: OpenModel
    metadata: {name: qwen}
    spec:
      familyName: qwen2
      source: {modelHub: {modelID: Qwen/Qwen2-7B-Instruct}}
      inferenceConfig:
        flavors:
          - name: a100
            limits: {nvidia.com/gpu: 2}
            params: {TP: "2", PP: "1"}
            nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}
"""
PLAYGROUND = """
    apiVersion: inference.llmaz.io/v1alpha1
    kind: Playground
    metadata: {name: x}
    spec:
      replicas: 1
      modelClaim: {modelName: qwen}
      backendRuntimeConfig:
        backendName: vllm
        args: [--max-model-len, "4096"]
"""


def test_playground_with_its_model():
    found = plan(PLAYGROUND, MODEL)
    assert summary(found) == "vllm Qwen/Qwen2-7B-Instruct 2x1x1 2x1"
    assert found.engine.get("max-model-len") == 4096
    assert found.accelerator is not None
    assert found.accelerator.name.startswith("A100")


def test_playground_without_its_model():
    found = plan(PLAYGROUND)
    assert summary(found) == "vllm qwen 1x1x1 ?x1"
    assert found.container is not None
    assert "OpenModel" in found.container.unknown_resources[0].reason


def test_backend_runtime():
    runtime = """
    apiVersion: inference.llmaz.io/v1alpha1
    kind: BackendRuntime
    metadata: {name: vllm}
    spec:
      image: vllm/vllm-openai
      version: v0.7.3
      command: [python3, -m, vllm.entrypoints.openai.api_server]
      recommendedConfigs:
        - name: default
          args: [--model, "{{`{{ .ModelPath }}`}}", --max-num-seqs, "64"]
    """
    found = plan(PLAYGROUND, MODEL, runtime)
    assert summary(found) == "vllm Qwen/Qwen2-7B-Instruct 2x1x1 2x1"
    assert found.engine.version.value == "0.7.3"
    assert found.engine.get("max-num-seqs") == 64
    assert plan(runtime).engine.engine == "vllm"


def test_service():
    found = plans(
        """
        apiVersion: inference.llmaz.io/v1alpha1
        kind: Service
        metadata: {name: x}
        spec:
          modelClaims: {models: [{name: qwen, role: main}]}
          workloadTemplate:
            replicas: 2
            leaderWorkerTemplate:
              size: 1
              workerTemplate:
                spec:
                  containers:
                    - name: m
                      image: vllm/vllm-openai:v0.7.3
                      command: [vllm, serve, Qwen/Qwen2-7B-Instruct]
                      resources: {limits: {nvidia.com/gpu: 1}}
        """
    )
    assert [summary(item) for item in found] == ["vllm Qwen/Qwen2-7B-Instruct 1x1x1 1x1"]
