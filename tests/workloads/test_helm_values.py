from __future__ import annotations

import pytest

from planner.documents.read import read_bytes
from planner.lint.run import lint, select_rules
from planner.plan import Plan, plan_files
from planner.settings import Settings
from tests.workloads.planning import flag_line, gaps, plan, plans, summary

LLM_D = """
multinode: false
modelArtifacts:
  uri: "hf://Qwen/Qwen3-32B"
  name: "Qwen/Qwen3-32B"
decode:
  create: true
  replicas: 2
  parallelism: {tensor: 4}
  containers:
    - name: vllm
      image: ghcr.io/llm-d/llm-d-cuda:v0.3.0
      modelCommand: vllmServe
      args: ["--max-model-len", "16384"]
      resources: {limits: {memory: 64Gi}}
prefill:
  create: false
"""
APP = """
controllers:
  vllm:
    replicas: 1
    pod:
      runtimeClassName: nvidia
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
    containers:
      app:
        image: {repository: docker.io/vllm/vllm-openai, tag: v0.11.0}
        args:
          - --model=Qwen/Qwen3-8B
          - --max-model-len=8192
        env:
          HF_HOME: /cache
          HF_TOKEN: {valueFrom: {secretKeyRef: {name: s, key: t}}}
        resources: {limits: {nvidia.com/gpu: 1}}
        probes:
          startup: {enabled: true, custom: true, spec: {failureThreshold: 60, periodSeconds: 10}}
persistence:
  shm: {type: emptyDir, medium: Memory, sizeLimit: 8Gi, globalMounts: [{path: /dev/shm}]}
  cache: {existingClaim: models, advancedMounts: {vllm: {app: [{path: /cache}]}}}
"""
OTHER = """
image: {repository: vllm/vllm-openai, tag: v0.10.1}
model: {name: Qwen/Qwen3-8B}
replicaCount: 2
maxModelLen: 8192
tensorParallelSize: 2
extraArgs: [--enforce-eager]
resources: {limits: {nvidia.com/gpu: 2}}
"""
KUBEAI = """
catalog:
  llama:
    enabled: true
    features: [TextGeneration]
    url: hf://meta-llama/Llama-3.1-8B-Instruct
    engine: VLLM
    args: [--max-model-len=16384]
    resourceProfile: nvidia-gpu-l4:1
  off: {enabled: false, url: "hf://a/b", engine: VLLM}
"""


def values(text: str, file: str = "values.yaml") -> tuple[Plan, ...]:
    return plan_files([read_bytes(text.encode(), file)], Settings()).plans


def test_llm_d():
    (found,) = values(LLM_D)
    assert summary(found) == "vllm Qwen/Qwen3-32B 4x1x1 4x1"
    assert found.engine.get("max-model-len") == 16384
    assert found.workload is not None
    assert (found.workload.part, found.workload.replicas) == ("decode", 2)


@pytest.mark.parametrize(
    ("kind", "resource", "platform"),
    [("amd", "amd.com/gpu", "rocm"), ("intel-gaudi", "habana.ai/gaudi", "gaudi"), ("google", "google.com/tpu", "tpu")],
)
def test_llm_d_accelerators(kind: str, resource: str, platform: str):
    (found,) = values(LLM_D + f"accelerator: {{type: {kind}}}\n")
    assert (found.gpu_resource, found.engine.platform) == (resource, platform)


def test_llm_d_over_several_nodes():
    text = LLM_D.replace("multinode: false", "multinode: true")
    (found,) = values(text.replace("{tensor: 4}", "{tensor: 1, data: 16, dataLocal: 8}"))
    assert summary(found) == "vllm Qwen/Qwen3-32B 1x1x16 8x2"


def test_app_template():
    (found,) = values(APP)
    assert found.container is not None
    assert summary(found) == "vllm Qwen/Qwen3-8B 1x1x1 1x1"
    assert flag_line(found, "max-model-len") == 13
    assert {mount.path: mount.kind for mount in found.container.mounts} == {
        "/dev/shm": "emptyDir",
        "/cache": "persistentVolumeClaim",
    }
    assert found.container.probes["startup"].window == 600
    assert found.container.env["HF_TOKEN"].value is None
    assert found.accelerator is not None
    assert found.accelerator.name == "L4"


def test_models_of_kubeai():
    (found,) = values(KUBEAI)
    assert summary(found) == "vllm meta-llama/Llama-3.1-8B-Instruct 1x1x1 1x1"
    assert found.workload is not None
    assert found.workload.part == "llama"


def test_unknown_chart():
    (found,) = values(OTHER)
    assert summary(found) == "vllm Qwen/Qwen3-8B 2x1x1 2x1"
    assert found.engine.get("max-model-len") == 8192
    assert found.engine.get("enforce-eager") is True
    assert "templates may add arguments" in gaps(found)


def test_unknown_chart_without_devices():
    (found,) = values(OTHER.replace("resources: {limits: {nvidia.com/gpu: 2}}", ""))
    assert found.gpus_per_pod is None
    assert found.container is not None
    assert "templates" in found.container.unknown_resources[0].reason


def test_values_without_an_engine():
    assert not values("image: {repository: nginx}\nreplicaCount: 2\nresources: {limits: {nvidia.com/gpu: 1}}\n")
    assert not values("image: {repository: lmcache/lmstack-router}\nargs: [--model, x]\n# vllm gpu\n")


def indented(text: str, by: int) -> str:
    return "".join(" " * by + line + "\n" for line in text.splitlines() if line.strip())


def test_helm_release():
    found = plan(
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: x}\nspec:\n  values:\n"
        + indented(APP, 4)
    )
    assert summary(found) == "vllm Qwen/Qwen3-8B 1x1x1 1x1"
    assert flag_line(found, "max-model-len") == 17
    assert found.workload is not None
    assert (found.workload.kind, found.workload.name) == ("HelmRelease", "x")


def test_helm_chart_of_k3s():
    found = plan(
        "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: x}\nspec:\n  valuesContent: |\n"
        + indented(OTHER, 4)
    )
    assert summary(found) == "vllm Qwen/Qwen3-8B 2x1x1 2x1"
    assert flag_line(found, "max-model-len") == 9


@pytest.mark.parametrize("key", ["valuesObject:", "values: |"])
def test_argo_application(key: str):
    text = (
        "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: x}\nspec:\n  source:\n    helm:\n"
        f"      {key}\n" + indented(OTHER, 8)
    )
    found = plan(text)
    assert summary(found) == "vllm Qwen/Qwen3-8B 2x1x1 2x1"
    assert flag_line(found, "max-model-len") == 11


def test_argo_application_set_with_several_sources():
    text = (
        "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: x}\nspec:\n  template:\n    spec:\n"
        "      sources:\n        - {ref: values}\n        - helm:\n            valuesObject:\n" + indented(OTHER, 14)
    )
    assert summary(plan(text)) == "vllm Qwen/Qwen3-8B 2x1x1 2x1"


def test_tekton():
    text = (
        "apiVersion: tekton.dev/v1\nkind: Pipeline\nmetadata: {name: x}\nspec:\n  tasks:\n    - name: t\n"
        "      params:\n        - name: values\n          value: |\n" + indented(LLM_D, 12)
    )
    assert [summary(item) for item in plans(text)] == ["vllm Qwen/Qwen3-32B 4x1x1 4x1"]


def test_broken_values_in_a_string_are_left_alone():
    text = (
        "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: x}\nspec:\n  valuesContent: |\n    vllm: [a\n"
    )
    assert not plans(text)


def test_model_as_a_flag_is_no_mistake():
    text = "image: {repository: vllm/vllm-openai, tag: v0.10.1}\nargs: [--model, Qwen/Qwen3-8B]\n# gpu\n"
    (found,) = values(text)
    assert summary(found).startswith("vllm Qwen/Qwen3-8B")
    result = lint([read_bytes(text.encode(), "values.yaml")], select_rules(Settings()), Settings())
    assert all(finding.severity != "error" for finding in result.findings)
