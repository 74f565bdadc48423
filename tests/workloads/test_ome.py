from __future__ import annotations

from tests.workloads.planning import gaps, plan, plans, summary

RUNTIME = """
    apiVersion: ome.io/v1beta1
    kind: ClusterServingRuntime
    metadata: {name: srt-llama}
    spec:
      engineConfig:
        runner:
          image: lmsysorg/sglang:v0.5.5
          command: [python3, -m, sglang.launch_server]
          args: [--model-path=$(MODEL_PATH), --tp-size=4]
          resources: {limits: {nvidia.com/gpu: 4}}
"""
SERVICE = """
    apiVersion: ome.io/v1beta1
    kind: InferenceService
    metadata: {name: x, namespace: n}
    spec:
      model: {name: llama-3-3-70b-instruct}
      engine: {minReplicas: 1, maxReplicas: 1}
      runtime: {name: srt-llama}
"""
MODEL = """
    apiVersion: ome.io/v1beta1
    kind: ClusterBaseModel
    metadata: {name: llama-3-3-70b-instruct}
    spec: {storage: {storageUri: hf://meta-llama/Llama-3.3-70B-Instruct}}
"""


def test_service_in_a_runtime():
    (found,) = plans(SERVICE, RUNTIME, MODEL)  # the runtime is read where it is used
    assert summary(found) == "sglang hf://meta-llama/Llama-3.3-70B-Instruct 4x1x1 4x1"
    assert found.workload is not None
    assert (found.workload.part, found.workload.replicas) == ("engine", 1)


def test_runtime_alone():
    found = plan(RUNTIME)
    assert summary(found).split()[0] == "sglang"
    assert summary(found).endswith("4x1x1 4x1")


def test_runtime_that_is_not_there():
    found = plan(SERVICE, MODEL)
    assert found.engine.engine == "sglang"
    assert found.gpus_per_pod is None
    assert "srt-llama" in gaps(found)


def test_leader_and_workers_and_a_decoder():
    runtime = """
    apiVersion: ome.io/v1beta1
    kind: ServingRuntime
    metadata: {name: x}
    spec:
      engineConfig:
        leader:
          runner: &runner
            image: lmsysorg/sglang:v0.5.5
            command: [python3, -m, sglang.launch_server, --model-path, Qwen/Qwen3-32B, --tp, "16", --nnodes, "2"]
            resources: {limits: {nvidia.com/gpu: 8}}
        worker: {size: 1, runner: *runner}
      decoderConfig:
        runner: *runner
    """
    found = plans(runtime)
    assert {(item.workload.part, item.pods) for item in found if item.workload} == {("engine", 2), ("decoder", 1)}
    assert summary(found[0]) == "sglang Qwen/Qwen3-32B 16x1x1 8x2"
