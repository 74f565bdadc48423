from __future__ import annotations

from tests.workloads.planning import flag_line, plan, plans, summary

MODEL = """
    apiVersion: inference.llmkube.dev/v1alpha1
    kind: Model
    metadata: {name: m}
    spec:
      source: Qwen/Qwen2.5-32B-Instruct-AWQ
      hardware: {accelerator: cuda, gpu: {enabled: true, count: 2, vendor: nvidia}}
"""
SERVICE = """
    apiVersion: inference.llmkube.dev/v1alpha1
    kind: InferenceService
    metadata: {name: x}
    spec:
      modelRef: m
      runtime: vllm
      image: vllm/vllm-openai:v0.10.0
      parallelSlots: 8
      vllmConfig:
        maxModelLen: 8192
        quantization: awq
        enablePrefixCaching: true
      resources: {gpu: 2, memory: 32Gi}
      extraArgs: [--gpu-memory-utilization, "0.92"]
"""


def test_typed_fields_become_flags():
    found = plan(SERVICE, MODEL)
    assert summary(found) == "vllm Qwen/Qwen2.5-32B-Instruct-AWQ 2x1x1 2x1"
    assert found.engine.get("max-model-len") == 8192
    assert found.engine.get("max-num-seqs") == 8
    assert found.engine.get("gpu-memory-utilization") == 0.92
    assert found.engine.get("enable-prefix-caching") is True
    assert (flag_line(found, "max-model-len"), flag_line(found, "quantization")) == (11, 12)
    assert found.pod is not None
    assert "nvidia.com/gpu" in found.pod.tolerations


def test_gpu_count_of_the_model():
    found = plan(SERVICE.replace("gpu: 2, ", ""), MODEL)
    assert summary(found).endswith("2x1x1 2x1")
    assert found.gpus_per_pod is not None
    assert found.gpus_per_pod.position is not None
    assert found.gpus_per_pod.position.file == "1.yaml"


def test_without_the_model_its_devices_are_unknown():
    found = plan(SERVICE.replace("gpu: 2, ", ""))
    assert found.gpus_per_pod is None
    assert found.container is not None
    assert "Model" in found.container.unknown_resources[0].reason


def test_other_runtimes_and_vendors():
    llama = SERVICE.replace("runtime: vllm", "runtime: llamacpp").replace(
        "vllm/vllm-openai:v0.10.0", "x/llama.cpp:server"
    )
    assert plan(llama, MODEL).engine.engine == "llama.cpp"
    amd = plan(SERVICE, MODEL.replace("vendor: nvidia", "vendor: amd").replace("cuda", "rocm"))
    assert (amd.gpu_resource, amd.engine.platform) == ("amd.com/gpu", "rocm")


def test_operator_has_a_startup_probe():
    probe = "      probeOverrides: {liveness: {httpGet: {path: /health, port: 8000}}}\n      parallelSlots: 8"
    found = plan(SERVICE.replace("      parallelSlots: 8", probe), MODEL)
    assert found.container is not None
    assert found.container.probes["startup"].window == 1800


def test_group_tells_it_from_kserve():
    assert not plans(SERVICE.replace("inference.llmkube.dev", "example.com"), MODEL)
