from __future__ import annotations

import pytest

from planner.facts.parallel import parallel_facts
from tests.workloads.planning import flag_line, gaps, plan, plans, summary

ALPHA = """
    apiVersion: nvidia.com/v1alpha1
    kind: DynamoGraphDeployment
    metadata: {name: x}
    spec:
      backendFramework: vllm
      envs: [{name: SHARED, value: "1"}]
      pvcs: [{name: cache, create: false}]
      services:
        Frontend:
          componentType: frontend
          replicas: 1
          extraPodSpec: {mainContainer: {image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.7.0}}
        Decode:
          componentType: worker
          subComponentType: decode
          replicas: 3
          multinode: {nodeCount: 2}
          resources: {limits: {gpu: "8"}}
          envs: [{name: OWN, value: "2"}]
          volumeMounts: [{name: cache, mountPoint: /models}]
          extraPodSpec:
            nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
            mainContainer:
              image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.7.0
              command: [python3, -m, dynamo.vllm]
              args:
                - --model
                - Qwen/Qwen3-32B
                - --tensor-parallel-size
                - "16"
"""
BETA = """
    apiVersion: nvidia.com/v1beta1
    kind: DynamoGraphDeployment
    metadata: {name: x}
    spec:
      backendFramework: sglang
      env: [{name: SHARED, value: "1"}]
      components:
        - name: prefill
          type: prefill
          replicas: 2
          podTemplate:
            spec:
              containers:
                - name: main
                  image: nvcr.io/nvidia/ai-dynamo/sglang-runtime:1.0.0
                  command: [python3, -m, dynamo.sglang]
                  args: [--model-path, Qwen/Qwen3-8B, --tp, "2"]
                  resources: {limits: {nvidia.com/gpu: 2}}
        - name: frontend
          type: frontend
          podTemplate: {spec: {containers: [{name: main, image: nvcr.io/nvidia/ai-dynamo/sglang-runtime:1.0.0}]}}
"""


def test_services_of_the_older_form():
    found = plan(ALPHA)  # the frontend is no engine
    assert found.workload is not None
    assert found.container is not None
    assert summary(found) == "vllm Qwen/Qwen3-32B 16x1x1 8x2"
    assert (found.workload.part, found.workload.replicas) == ("Decode", 3)
    assert flag_line(found, "tensor-parallel-size") == 31
    assert found.gpus_per_pod is not None
    assert found.gpus_per_pod.position is not None
    assert found.gpus_per_pod.position.line == 19
    assert {name: item.value for name, item in found.container.env.items()} == {"SHARED": "1", "OWN": "2"}
    mounts = {mount.path: (mount.kind, mount.source) for mount in found.container.mounts}
    assert mounts["/models"] == ("persistentVolumeClaim", "cache")
    assert mounts["/dev/shm"][0] == "emptyDir"


def test_operator_connects_the_nodes():
    found = plan(ALPHA)
    facts = parallel_facts(found, {})
    assert (facts["backend"], facts["backend_problem"]) == ("other", "")


def test_channel_of_a_compute_domain_is_no_network():
    plain = parallel_facts(plan(ALPHA), {})
    claim = (
        "resourceClaims: [{name: c, resourceClaimTemplateName: x-compute-domain-channel}]\n            mainContainer:"
    )
    domain = parallel_facts(
        plan(ALPHA.replace("mainContainer:\n              image", f"{claim}\n              image")), {}
    )
    assert (plain["fabric_between_pods"], domain["fabric_between_pods"]) == (False, True)


def test_shared_memory_can_be_turned_off():
    found = plan(
        ALPHA.replace("          multinode:", "          sharedMemory: {disabled: true}\n          multinode:")
    )
    assert found.container is not None
    assert all(mount.path != "/dev/shm" for mount in found.container.mounts)


def test_components_of_the_newer_form():
    found = plan(BETA)
    assert summary(found) == "sglang Qwen/Qwen3-8B 2x1x1 2x1"
    assert found.workload is not None
    assert found.workload.part == "prefill"
    assert found.container is not None
    assert found.container.env["SHARED"].value == "1"


def test_gpu_type_names_the_resource():
    found = plan(
        ALPHA.replace('{gpu: "8"}', '{gpu: "4", gpuType: gpu.intel.com/xe}').replace("nodeCount: 2", "nodeCount: 4")
    )
    assert found.gpu_resource == "gpu.intel.com/xe"


@pytest.mark.parametrize("count", ["${NODES}", "many", "-1"])
def test_node_count_that_is_not_known(count: str):
    found = plan(ALPHA.replace("nodeCount: 2", f'nodeCount: "{count}"'))
    assert found.workload is not None
    assert not found.workload.group_size_known


def test_opaque_command_is_an_engine_by_its_backend():
    found = plan(ALPHA.replace("[python3, -m, dynamo.vllm]", "[/scripts/run.sh]"))
    assert found.engine.engine in ("vllm", "dynamo-vllm")


def test_request():
    found = plan(
        """
        apiVersion: nvidia.com/v1beta1
        kind: DynamoGraphDeploymentRequest
        metadata: {name: x}
        spec:
          model: Qwen/Qwen3-0.6B
          backend: vllm
          hardware: {gpuSku: h200_sxm}
        """
    )
    assert found.engine.model is not None
    assert found.engine.model.value == "Qwen/Qwen3-0.6B"
    assert found.gpus_per_pod is None
    assert "profile run" in gaps(found)
    assert found.accelerator is not None
    assert found.accelerator.name.startswith("H200")


def test_component_deployment_of_its_own():
    found = plans(
        """
        apiVersion: nvidia.com/v1alpha1
        kind: DynamoComponentDeployment
        metadata: {name: x}
        spec:
          serviceName: Worker
          componentType: worker
          resources: {limits: {gpu: "1"}}
          extraPodSpec:
            mainContainer:
              image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.7.0
              command: [python3, -m, dynamo.vllm]
              args: [--model, Qwen/Qwen3-8B]
        """
    )
    assert [summary(item) for item in found] == ["vllm Qwen/Qwen3-8B 1x1x1 1x1"]
