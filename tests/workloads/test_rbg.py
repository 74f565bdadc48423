from __future__ import annotations

from tests.workloads.planning import plan, plans, summary

TEMPLATE = """
              metadata: {labels: {a: b}}
              spec:
                containers:
                  - name: engine
                    image: lmsysorg/sglang:v0.5.5
                    command: [python3, -m, sglang.launch_server, --model-path, Qwen/Qwen3-8B, --tp, "2"]
                    resources: {limits: {nvidia.com/gpu: 2}}
"""


def test_roles():
    found = plans(
        """
        apiVersion: workloads.x-k8s.io/v1alpha1
        kind: RoleBasedGroup
        metadata: {name: x}
        spec:
          roles:
            - name: router
              replicas: 1
              template: {spec: {containers: [{name: r, image: x/router}]}}
            - name: decode
              replicas: 2
              template:"""
        + TEMPLATE.replace("              ", "                ")
    )
    assert [summary(item) for item in found] == ["sglang Qwen/Qwen3-8B 2x1x1 2x1"]
    assert found[0].workload is not None
    assert (found[0].workload.part, found[0].workload.replicas) == ("decode", 2)


def test_template_with_a_patch_for_a_group():
    found = plan(
        """
        apiVersion: workloads.x-k8s.io/v1alpha2
        kind: RoleBasedGroup
        metadata: {name: x}
        spec:
          roleTemplates:
            - name: base
              template:"""
        + TEMPLATE.replace("              ", "                ")
        + """
          roles:
            - name: decode
              replicas: 1
              leaderWorkerPattern:
                size: 2
                templateRef:
                  name: base
                  patch:
                    spec:
                      containers:
                        - name: engine
                          command:
                            - python3
                            - -m
                            - sglang.launch_server
                            - --model-path=Qwen/Qwen3-32B
                            - --tp=4
                            - --nnodes=2
                            - --node-rank=$(RBG_LWP_WORKER_INDEX)
                            - --dist-init-addr=$(RBG_LWP_LEADER_ADDRESS):6379
        """
    )
    assert summary(found) == "sglang Qwen/Qwen3-32B 4x1x1 2x2"
    assert found.workload is not None
    assert [(pod.role, pod.count) for pod in found.workload.pods] == [("leader", 1)]


def test_set():
    found = plan(
        """
        apiVersion: workloads.x-k8s.io/v1alpha1
        kind: RoleBasedGroupSet
        metadata: {name: x}
        spec:
          replicas: 2
          template:
            roles:
              - name: decode
                replicas: 1
                template:"""
        + TEMPLATE.replace("              ", "                  ")
    )
    assert summary(found) == "sglang Qwen/Qwen3-8B 2x1x1 2x1"
