from __future__ import annotations

from planner.facts.parallel import parallel_facts
from tests.workloads.planning import plan, plans, summary

SERVICE = """
    apiVersion: apps.nvidia.com/v1alpha1
    kind: NIMService
    metadata: {name: x}
    spec:
      image:
        repository: nvcr.io/nim/meta/llama-3.1-70b-instruct
        tag: "1.8.3"
      replicas: 2
      livenessProbe: {enabled: true, probe: {httpGet: {path: /v1/health/live, port: api}, failureThreshold: 3}}
      resources: {limits: {nvidia.com/gpu: 4}}
"""


def test_service():
    found = plan(SERVICE)
    assert found.container is not None
    assert summary(found) == "nim meta/llama-3.1-70b-instruct 1x1x1 4x1"
    assert found.container.image is not None
    assert found.container.image.value == "nvcr.io/nim/meta/llama-3.1-70b-instruct:1.8.3"
    assert any(mount.path == "/dev/shm" for mount in found.container.mounts)


def test_operator_has_a_startup_probe():
    probes = plan(SERVICE).container.probes  # type: ignore[union-attr]
    assert probes["startup"].window == 1840
    off = plan(SERVICE.replace("      replicas: 2", "      startupProbe: {enabled: false}"))
    assert "startup" not in off.container.probes  # type: ignore[union-attr]


def test_nodes_serve_together():
    several = "      multiNode: {parallelism: {tensor: 8, pipeline: 2}}\n      replicas: 1"
    found = plan(SERVICE.replace("      replicas: 2", several).replace("gpu: 4", "gpu: 8"))
    assert summary(found) == "nim meta/llama-3.1-70b-instruct 8x2x1 8x2"
    assert found.workload is not None
    assert found.workload.connected
    assert parallel_facts(found, {}) == {}  # what NIM makes of it is not modelled


def test_model_of_an_image_for_any_model():
    own = "      env: [{name: NIM_MODEL_NAME, value: hf://Qwen/Qwen3-8B}]\n      resources:"
    text = SERVICE.replace("nim/meta/llama-3.1-70b-instruct", "nim/nvidia/llm-nim").replace("      resources:", own)
    assert summary(plan(text)) == "nim hf://Qwen/Qwen3-8B 1x1x1 4x1"


def test_profile_of_the_cache():
    cache = """
    apiVersion: apps.nvidia.com/v1alpha1
    kind: NIMCache
    metadata: {name: c}
    spec: {source: {ngc: {model: {tensorParallelism: "4", engine: tensorrt_llm}}}}
    """
    user = SERVICE.replace("      replicas: 2", "      storage: {nimCache: {name: c}}")
    assert summary(plan(user, cache)) == "nim meta/llama-3.1-70b-instruct 4x1x1 4x1"
    assert summary(plan(user)).split()[2] == "1x1x1"


def test_pipeline():
    found = plans(
        """
        apiVersion: apps.nvidia.com/v1alpha1
        kind: NIMPipeline
        metadata: {name: x}
        spec:
          services:
            - name: a
              enabled: true
              spec:
                image: {repository: nvcr.io/nim/meta/llama-3.2-1b-instruct, tag: 1.8.3}
                resources: {limits: {nvidia.com/gpu: 1}}
            - name: b
              enabled: false
              spec: {image: {repository: nvcr.io/nim/nvidia/nv-rerankqa, tag: 1.3.1}}
        """
    )
    assert [(item.workload.part, summary(item)) for item in found if item.workload] == [
        ("a", "nim meta/llama-3.2-1b-instruct 1x1x1 1x1")
    ]


def test_devices_by_claims():
    text = SERVICE.replace(
        "resources: {limits: {nvidia.com/gpu: 4}}",
        "draResources: [{claimCreationSpec: {devices: [{name: g, deviceClassName: gpu.nvidia.com, count: 2}]}}]",
    )
    assert summary(plan(text)).endswith("2x1")
