from __future__ import annotations

from tests.workloads.planning import flag_line, gaps, plan, plans, summary


def service(spec: str, kind: str = "LLMInferenceService") -> str:
    return f"""
apiVersion: serving.kserve.io/v1alpha2
kind: {kind}
metadata:
  name: x
  annotations: {{serving.kserve.io/exp-dra-device-count: "2"}}
spec:
  model: {{uri: "hf://Qwen/Qwen2.5-7B-Instruct", name: Qwen/Qwen2.5-7B-Instruct}}
{spec}
"""


GPU = "resources: {limits: {nvidia.com/gpu: '1'}}"


def test_preset_command_with_additional_arguments():
    found = plan(
        service(
            f"""
  template:
    containers:
      - name: main
        {GPU}
        env:
          - name: VLLM_ADDITIONAL_ARGS
            value: >-
              --max-model-len 4096
              --kv-events-config '{{"a": "b c"}}'
"""
        )
    )
    assert summary(found) == "vllm hf://Qwen/Qwen2.5-7B-Instruct 1x1x1 1x1"
    assert found.engine.get("max-model-len") == 4096
    assert flag_line(found, "max-model-len") == 17
    assert found.engine.get("kv-events-config") == {"a": "b c"}
    assert found.engine.model is not None
    assert found.engine.model.position is not None
    assert found.engine.model.position.line == 8


def test_what_the_shell_of_the_preset_expands_is_unknown():
    found = plan(
        service(
            f"""
  template:
    containers:
      - name: main
        {GPU}
        env: [{{name: VLLM_ADDITIONAL_ARGS, value: "--max-num-seqs $N"}}]
"""
        )
    )
    assert "--max-num-seqs" in gaps(found)
    assert found.engine.command_line is not None
    assert not found.engine.command_line.unexpanded


def test_without_a_template():
    assert summary(plan(service("  replicas: 2"))) == "vllm hf://Qwen/Qwen2.5-7B-Instruct 1x1x1 ?x1"


def test_groups_and_prefill():
    found = plans(
        service(
            f"""
  parallelism: {{tensor: 4, data: 8, dataLocal: 2}}
  template: {{containers: [{{name: main, {GPU}}}]}}
  worker: {{containers: [{{name: main, {GPU}}}]}}
  prefill:
    replicas: 3
    parallelism: {{tensor: 2}}
    template: {{containers: [{{name: main, resources: {{limits: {{nvidia.com/gpu: 2}}}}}}]}}
"""
        )
    )
    assert [summary(item).split(" ", 2)[2] for item in found] == ["4x1x8 1x4", "2x1x1 2x1"]
    assert [item.workload.part for item in found] == ["", "prefill"]  # type: ignore[union-attr]
    assert found[1].workload.replicas == 3  # type: ignore[union-attr]
    assert flag_line(found[0], "tensor-parallel-size") == 10


def test_preset_under_a_service():
    preset = service(
        """
  template:
    containers:
      - name: main
        image: vllm/vllm-openai:v0.10.0
        command: [vllm, serve, /mnt/models]
        args: [--max-num-seqs, "8"]
""",
        "LLMInferenceServiceConfig",
    ).replace("  model:", "  was:")
    user = service(f"  baseRefs: [{{name: x}}]\n  template: {{containers: [{{name: main, {GPU}}}]}}")
    found = plans(user, preset)
    assert found[0].engine.get("max-num-seqs") == 8
    assert found[0].engine.version.value == "0.10.0"
    assert summary(found[0]) == "vllm hf://Qwen/Qwen2.5-7B-Instruct 1x1x1 1x1"
    assert summary(found[1]) == "vllm /mnt/models 1x1x1 ?x1"  # the preset itself


def test_devices_by_annotation():
    text = service("  template: {containers: [{name: main}]}").replace(
        "exp-dra-device-count:", "exp-dra-device-class: gpu.nvidia.com, serving.kserve.io/exp-dra-device-count:"
    )
    found = plan(text)
    assert (found.gpus_per_pod.value, found.gpu_resource) == (2, "gpu.nvidia.com")  # type: ignore[union-attr]
