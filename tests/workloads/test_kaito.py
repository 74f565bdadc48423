from __future__ import annotations

from tests.workloads.planning import flag_line, gaps, plan, plans, summary

WORKSPACE = """
    apiVersion: kaito.sh/v1beta1
    kind: Workspace
    metadata: {name: x}
    resource:
      instanceType: Standard_NC48ads_A100_v4
      labelSelector: {matchLabels: {apps: phi-4}}
    inference:
      preset: {name: phi-4}
"""
CONFIG = """
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: c}
    data:
      inference_config.yaml: |
        max_probe_steps: 6
        vllm:
          max-model-len: 4096
          gpu-memory-utilization: 0.9
"""


def test_preset_on_a_machine_type():
    found = plan(WORKSPACE)
    assert found.engine.model is not None
    assert found.engine.model.value == "microsoft/phi-4"
    assert found.engine.model.position is not None
    assert found.engine.model.position.line == 9
    assert (found.gpus_per_pod.value, found.engine.get("tensor-parallel-size")) == (2, 2)  # type: ignore[union-attr]
    assert found.accelerator is not None
    assert found.accelerator.name.startswith("A100-80GB")
    assert "KAITO picks" in gaps(found)


def test_configuration_of_a_config_map():
    user = WORKSPACE + "      config: c\n"
    found = plan(user, CONFIG)
    assert found.engine.get("max-model-len") == 4096
    assert found.engine.flags["max-model-len"].value_position is not None
    assert found.engine.flags["max-model-len"].value_position.file == "1.yaml"
    assert flag_line(found, "max-model-len") == 9
    assert "max-model-len" not in plan(user).engine.flags


def test_several_machines_are_pipeline_stages():
    found = plan(WORKSPACE.replace("    resource:\n", "    resource:\n      count: 2\n"))
    assert found.pods == 2
    assert found.engine.get("pipeline-parallel-size") == 2
    assert found.workload is not None
    assert found.workload.connected


def test_pod_template():
    found = plan(
        """
        apiVersion: kaito.sh/v1alpha1
        kind: Workspace
        metadata: {name: x}
        resource: {instanceType: Standard_NC24ads_A100_v4}
        inference:
          template:
            spec:
              containers:
                - name: a
                  image: vllm/vllm-openai:v0.9.0
                  args: [--model, Qwen/Qwen3-8B]
                  resources: {limits: {nvidia.com/gpu: 1}}
        """
    )
    assert summary(found) == "vllm Qwen/Qwen3-8B 1x1x1 1x1"


def test_inference_set():
    found = plan(
        """
        apiVersion: kaito.sh/v1alpha1
        kind: InferenceSet
        metadata: {name: x}
        spec:
          replicas: 3
          template:
            resource: {instanceType: Standard_NV36ads_A10_v5}
            inference: {preset: {name: phi-4-mini-instruct}}
        """
    )
    assert found.workload is not None
    assert found.workload.replicas == 3
    assert found.engine.model is not None
    assert found.engine.model.value == "microsoft/Phi-4-mini-instruct"


def test_tuning_is_no_engine():
    assert not plans(WORKSPACE.replace("inference:", "tuning:"))
