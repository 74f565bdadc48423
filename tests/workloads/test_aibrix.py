from __future__ import annotations

from tests.workloads.planning import plans, summary

STORM = """
    apiVersion: orchestration.aibrix.ai/v1alpha1
    kind: StormService
    metadata: {name: x}
    spec:
      replicas: 2
      template:
        spec:
          roles:
            - name: prefill
              replicas: 1
              podGroupSize: 2
              template:
                spec:
                  containers:
                    - name: p
                      image: aibrix/vllm-openai:v0.10.2
                      command: [sh, -c]
                      args:
                        - >-
                          vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 --nnodes 2
                          --node-rank $POD_GROUP_INDEX --master-addr $ADDRESS
                      resources: {limits: {nvidia.com/gpu: 1}}
            - name: decode
              replicas: 3
              template:
                spec:
                  containers:
                    - name: d
                      image: aibrix/vllm-openai:v0.10.2
                      command: [vllm, serve, Qwen/Qwen3-8B]
                      resources: {limits: {nvidia.com/gpu: 1}}
"""


def test_roles_are_engines_of_their_own():
    prefill, decode = plans(STORM)
    assert summary(prefill) == "vllm Qwen/Qwen3-8B 2x1x1 1x2"
    assert summary(decode) == "vllm Qwen/Qwen3-8B 1x1x1 1x1"
    assert prefill.workload is not None
    assert decode.workload is not None
    assert (prefill.workload.part, prefill.workload.replicas) == ("prefill", 2)
    assert (decode.workload.part, decode.workload.replicas) == ("decode", 6)


def test_group_of_unknown_size():
    prefill, _ = plans(STORM.replace("podGroupSize: 2", "podGroupSize: ${SIZE}"))
    assert prefill.workload is not None
    assert not prefill.workload.group_size_known
