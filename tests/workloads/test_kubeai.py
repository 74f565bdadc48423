from __future__ import annotations

from tests.workloads.planning import flag_line, gaps, plan, summary

MODEL = """
    apiVersion: kubeai.org/v1
    kind: Model
    metadata: {{name: m}}
    spec:
      url: hf://Qwen/Qwen2.5-7B-Instruct
      engine: {engine}
      args:
        - --max-model-len=8192
        - --tensor-parallel-size=2
      env: {{VLLM_USE_V1: "1"}}
      resourceProfile: {profile}
      minReplicas: 0
    """


def test_profile_gives_devices_and_accelerator():
    found = plan(MODEL.format(engine="VLLM", profile="nvidia-gpu-l4:2"))
    assert summary(found) == "vllm Qwen/Qwen2.5-7B-Instruct 2x1x1 2x1"
    assert found.accelerator is not None
    assert found.accelerator.name == "L4"
    assert found.gpus_per_pod is not None
    assert found.gpus_per_pod.position is not None
    assert found.gpus_per_pod.position.line == 12
    assert flag_line(found, "max-model-len") == 9
    assert found.engine.model is not None
    assert found.engine.model.position is not None
    assert found.engine.model.position.line == 6
    assert found.engine.env["VLLM_USE_V1"].value == "1"
    assert found.workload is not None
    assert found.workload.replicas is None


def test_shared_memory_is_the_operators():
    found = plan(MODEL.format(engine="VLLM", profile="nvidia-gpu-l4:2"))
    assert found.container is not None
    assert [(mount.path, mount.medium) for mount in found.container.mounts] == [("/dev/shm", "Memory")]


def test_vendors():
    assert plan(MODEL.format(engine="VLLM", profile="amd-gpu-mi300x:8")).engine.platform == "rocm"
    cpu = plan(MODEL.format(engine="VLLM", profile="cpu:6"))
    assert (cpu.engine.platform, cpu.gpus_per_pod) == ("cpu", None)


def test_unknown_profile_is_unknown():
    found = plan(MODEL.format(engine="VLLM", profile="our-gpus:2"))
    assert found.gpus_per_pod is None
    assert found.container is not None
    assert "our-gpus" in found.container.unknown_resources[0].reason


def test_other_engines_are_recognised():
    plain = MODEL.replace("        - --max-model-len=8192\n        - --tensor-parallel-size=2\n", "")
    assert plan(plain.format(engine="OLlama", profile="nvidia-gpu-l4:1")).engine.engine == "ollama"
    whisper = plan(plain.format(engine="FasterWhisper", profile="nvidia-gpu-l4:1"))
    assert whisper.engine.engine == "fasterwhisper"
    assert "not evaluated" in gaps(whisper)
