from __future__ import annotations

from tests.workloads.planning import flag_line, plan, plans, summary


def test_booster():
    found = plan(
        """
        apiVersion: workload.serving.volcano.sh/v1alpha1
        kind: ModelBooster
        metadata: {name: x}
        spec:
          backend:
            name: b
            type: vLLM
            modelURI: hf://Qwen/Qwen2.5-7B-Instruct
            env: [{name: HF_ENDPOINT, value: https://hf-mirror.com}]
            workers:
              - type: server
                image: vllm/vllm-openai:v0.9.0
                replicas: 1
                pods: 1
                config:
                  served-model-name: q
                  max-model-len: 8192
                  tensor-parallel-size: 2
                  enforce-eager: ""
                resources: {limits: {nvidia.com/gpu: 2}}
        """
    )
    assert summary(found) == "vllm Qwen/Qwen2.5-7B-Instruct 2x1x1 2x1"
    assert flag_line(found, "max-model-len") == 18
    assert found.container is not None
    assert found.container.env["HF_ENDPOINT"].value == "https://hf-mirror.com"


def test_prefill_and_decode_are_apart():
    worker = "{type: %s, image: vllm/vllm-openai:v0.9.0, pods: 1, resources: {limits: {nvidia.com/gpu: 1}}}"
    found = plans(
        f"""
        apiVersion: workload.serving.volcano.sh/v1alpha1
        kind: ModelBooster
        metadata: {{name: x}}
        spec:
          backend:
            type: vLLMDisaggregated
            modelURI: hf://Qwen/Qwen3-8B
            workers: [{worker % "prefill"}, {worker % "decode"}]
        """
    )
    assert [item.workload.part for item in found if item.workload] == ["prefill", "decode"]


def test_serving():
    found = plans(
        """
        apiVersion: workload.serving.volcano.sh/v1alpha1
        kind: ModelServing
        metadata: {name: x}
        spec:
          replicas: 2
          template:
            roles:
              - name: all
                replicas: 3
                workerReplicas: 1
                entryTemplate:
                  spec:
                    containers:
                      - name: leader
                        image: vllm/vllm-openai:v0.9.0
                        command: [sh, -c]
                        args:
                          - >-
                            bash /vllm-workspace/examples/online_serving/multi-node-serving.sh leader
                            --ray_cluster_size=2;
                            vllm serve meta-llama/Llama-3.1-405B-Instruct --tensor-parallel-size 8
                            --pipeline-parallel-size 2
                        resources: {limits: {nvidia.com/gpu: 8}}
                workerTemplate:
                  spec:
                    containers:
                      - name: worker
                        image: vllm/vllm-openai:v0.9.0
                        command: [sh, -c, "bash multi-node-serving.sh worker --ray_address=$(ENTRY_ADDRESS)"]
                        resources: {limits: {nvidia.com/gpu: 8}}
        """
    )
    assert [summary(item) for item in found] == ["vllm meta-llama/Llama-3.1-405B-Instruct 8x2x1 8x2"]
    assert found[0].workload is not None
    assert (found[0].workload.replicas, found[0].workload.group_size, found[0].workload.part) == (6, 2, "all")
