from __future__ import annotations

from textwrap import dedent

import pytest

from planner.documents.read import read_bytes
from planner.plan import Plan, plan_files
from planner.settings import Settings
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


def runtime(version: str, name: str = "vllm") -> str:
    return f"""
        apiVersion: inference.llmaz.io/v1alpha1
        kind: BackendRuntime
        metadata: {{name: {name}}}
        spec:
          image: vllm/vllm-openai
          version: {version}
          command: [python3, -m, vllm.entrypoints.openai.api_server]
          recommendedConfigs: [{{name: default, args: [--max-num-seqs, "64"]}}]
    """


def read(files: dict[str, str]) -> dict[str, Plan]:
    """``KIND FOLDER`` → plan of the files of one run."""
    found = plan_files([read_bytes(dedent(text).encode(), name) for name, text in files.items()], Settings()).plans
    return {f"{one.workload.kind} {one.position.file.partition('/')[0]}": one for one in found if one.workload}


def test_the_runtime_of_the_same_folder_is_the_one_that_is_meant():
    """Each playground has its own; the one of a test, which nothing uses, is read for itself."""
    playground = PLAYGROUND + "---\n" + MODEL
    found = read(
        {
            "a/playground.yaml": playground,
            "a/runtime.yaml": runtime("v0.7.3"),
            "b/all.yaml": playground + "---" + runtime("v0.9.2"),
            "test/runtime.yaml": runtime("v0.6.0"),
        }
    )
    assert {name: one.engine.version.value for name, one in found.items()} == {
        "Playground a": "0.7.3",
        "Playground b": "0.9.2",
        "BackendRuntime test": "0.6.0",
    }


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        (
            ("test",),
            "llmaz brings along a BackendRuntime vllm, and test/runtime.yaml in another folder defines one too",
        ),
        (("test", "chart"), "several files that were read define a BackendRuntime vllm, and none is nearer"),
    ],
)
def test_which_runtime_is_meant_may_not_be_known(others, reason):
    """Then neither the runtime's version nor its arguments are taken, and none is guessed."""
    files = {f"{folder}/runtime.yaml": runtime("v0.6.0") for folder in others}
    found = read({"docs/playground.yaml": PLAYGROUND + "---\n" + MODEL, **files})
    assert set(found) == {"Playground docs", *(f"BackendRuntime {folder}" for folder in others)}
    engine = found["Playground docs"].engine
    assert engine.engine == "vllm"
    assert engine.version_assumed
    assert engine.get("max-num-seqs") is None
    assert engine.get("max-model-len") == 4096
    assert any(gap.fact == "engine.arguments" and reason in gap.reason for gap in engine.unknown), engine.unknown


def test_a_runtime_of_another_name_is_the_one_of_the_run():
    playground = PLAYGROUND.replace("backendName: vllm", "backendName: ours") + "---\n" + MODEL
    found = read({"docs/playground.yaml": playground, "runtimes/ours.yaml": runtime("v0.9.2", "ours")})
    assert {name: one.engine.version.value for name, one in found.items()} == {"Playground docs": "0.9.2"}


def test_the_pods_of_a_service_know_their_place_as_those_of_any_leader_worker_set():
    text = """
        apiVersion: inference.llmaz.io/v1alpha1
        kind: Service
        metadata: {name: x}
        spec:
          modelClaims: {models: [{name: qwen}]}
          workloadTemplate:
            leaderWorkerTemplate:
              size: 2
              workerTemplate:
                spec:
                  containers:
                    - name: m
                      image: lmsysorg/sglang:v0.5.12
                      command: [python3, -m, sglang.launch_server, --model-path, Qwen/Qwen2-7B-Instruct, --tp, "2"]
                      args: [--nnodes, $(LWS_GROUP_SIZE), --node-rank, $(LWS_WORKER_INDEX)]
                      resources: {limits: {nvidia.com/gpu: 1}}
        """
    found = plans(text)
    assert [(one.engine.get("nnodes"), one.engine.get("node-rank")) for one in found] == [(2, 0), (2, 1)]
