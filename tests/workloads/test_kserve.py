from __future__ import annotations

from tests.workloads.planning import flag_line, gaps, plan, plans, project, summary

SERVICE = """
    apiVersion: serving.kserve.io/v1beta1
    kind: InferenceService
    metadata: {name: llama}
    spec:
      predictor:
        minReplicas: 2
        maxReplicas: 2
        model:
          modelFormat: {name: vLLM}
          runtime: ours
          storageUri: hf://Qwen/Qwen2.5-7B-Instruct
          args: [--max-model-len=4096]
          resources: {limits: {nvidia.com/gpu: "1"}}
        nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
    """
RUNTIME = """
    apiVersion: serving.kserve.io/v1alpha1
    kind: ServingRuntime
    metadata: {name: ours}
    spec:
      supportedModelFormats: [{name: vLLM}]
      containers:
        - name: kserve-container
          image: vllm/vllm-openai:v0.9.2
          command: [python, -m, vllm.entrypoints.openai.api_server]
          args: ["--model=/mnt/models", "--served-model-name={{.Name}}", "--max-num-seqs=64"]
          env: [{name: VLLM_LOGGING_LEVEL, value: INFO}]
          volumeMounts: [{name: shm, mountPath: /dev/shm}]
      volumes: [{name: shm, emptyDir: {medium: Memory}}]
    """


def test_runtime_and_service_in_two_files():
    found = plan(SERVICE, RUNTIME)
    assert summary(found) == "vllm hf://Qwen/Qwen2.5-7B-Instruct 1x1x1 1x1"
    assert found.model is not None
    assert found.engine.version.value == "0.9.2"
    assert found.engine.get("max-num-seqs") == 64
    assert found.engine.get("max-model-len") == 4096
    assert found.engine.get("served-model-name") == ["llama"]
    place = found.engine.flags["max-num-seqs"].value_position
    assert place is not None
    assert (place.file, place.line) == ("1.yaml", 11)
    assert found.engine.flags["max-model-len"].value_position.file == "0.yaml"  # type: ignore[union-attr]
    assert found.accelerator is not None
    assert found.accelerator.name == "L4"
    assert found.workload is not None
    assert (found.workload.kind, found.workload.replicas) == ("InferenceService", 2)
    assert found.container is not None
    assert not found.container.unknown_resources
    assert found.container.env["VLLM_LOGGING_LEVEL"].value == "INFO"
    assert found.container.mounts[0].path == "/dev/shm"


def test_runtime_that_is_not_there_makes_arguments_unknown():
    found = plan(SERVICE)
    assert found.engine.engine == "vllm"
    assert found.engine.model is not None
    assert found.engine.model.value == "hf://Qwen/Qwen2.5-7B-Instruct"
    assert "ServingRuntime ours" in gaps(found)
    assert found.verdict == "unknown"


def test_runtime_alone_is_a_preset():
    found = plan(RUNTIME)
    assert summary(found) == "vllm /mnt/models 1x1x1 ?x1"
    assert found.container is not None
    assert "asks for devices" in found.container.unknown_resources[0].reason


def test_runtime_of_the_same_file_by_format():
    service = SERVICE.replace("          runtime: ours\n", "")
    assert plan(service + "---" + RUNTIME).engine.get("max-num-seqs") == 64
    assert len(plans(service, RUNTIME)) == 2  # in another file nothing says that it is meant


def test_huggingface_server():
    found = plan(
        """
        apiVersion: serving.kserve.io/v1beta1
        kind: InferenceService
        metadata: {name: x}
        spec:
          predictor:
            model:
              modelFormat: {name: huggingface}
              args: [--model_name=llama3, --model_id=meta-llama/Llama-3.2-1B-Instruct]
              resources: {limits: {nvidia.com/gpu: 1}}
        """
    )
    assert summary(found) == "huggingfaceserver meta-llama/Llama-3.2-1B-Instruct 1x1x1 1x1"


def test_nim_and_other_formats():
    service = SERVICE.replace("args: [--max-model-len=4096]", "")
    text = service.replace("runtime: ours", "runtime: nvidia-nim-llama")
    assert plan(text).engine.engine == "nim"
    assert not plans(service.replace("runtime: ours", "runtime: sk").replace("vLLM", "sklearn"))
    by_arguments = plan(SERVICE.replace("vLLM", "custom"))
    assert (by_arguments.engine.engine, by_arguments.verdict) == ("vllm", "unknown")


def test_worker_spec_is_a_group():
    found = plan(
        """
        apiVersion: serving.kserve.io/v1beta1
        kind: InferenceService
        metadata: {name: x}
        spec:
          predictor:
            model:
              modelFormat: {name: huggingface}
              storageUri: pvc://claim/llama
            workerSpec:
              pipelineParallelSize: 2
              tensorParallelSize: 4
        """
    )
    assert summary(found) == "huggingfaceserver pvc://claim/llama 4x2x1 4x2"


def test_worker_spec_of_a_runtime_sets_the_variables():
    runtime = """
        apiVersion: serving.kserve.io/v1alpha1
        kind: ServingRuntime
        metadata: {name: multi}
        spec:
          containers:
            - name: kserve-container
              image: vllm/vllm-openai:v0.11.2
              command: [vllm, serve]
              args: [/mnt/models, --tensor-parallel-size=$(TENSOR_PARALLEL_SIZE), --pipeline-parallel-size=$(PIPELINE_PARALLEL_SIZE)]
          workerSpec:
            pipelineParallelSize: 2
            tensorParallelSize: 8
            containers: [{name: worker-container, command: [sleep, infinity]}]
        """
    found = plan(runtime)
    assert summary(found) == "vllm /mnt/models 8x2x1 ?x2"
    assert flag_line(found, "tensor-parallel-size") == 10
    assert [pod.count for pod in found.workload.pods] == [1, 1]  # type: ignore[union-attr]


def test_own_container():
    found = plan(
        """
        apiVersion: serving.kserve.io/v1beta1
        kind: InferenceService
        metadata: {name: x}
        spec:
          predictor:
            containers:
              - name: kserve-container
                image: vllm/vllm-openai:v0.9.2
                args: [--model, Qwen/Qwen3-8B, --port, "8080"]
                resources: {limits: {nvidia.com/gpu: 1}}
        """
    )
    assert summary(found) == "vllm Qwen/Qwen3-8B 1x1x1 1x1"


def test_wrong_types_are_problems():
    found = project(SERVICE.replace("args: [--max-model-len=4096]", "args: [1, 2]"))
    assert [problem.position.line for problem in found.problems] == [13, 13]


def test_a_runtime_of_the_same_name_that_no_service_means_is_read_for_itself():
    other = RUNTIME.replace("{name: ours}", "{name: ours, namespace: b}").replace("v0.9.2", "v0.8.5")
    found = plans(SERVICE.replace("{name: llama}", "{name: llama, namespace: a}"), RUNTIME, other)
    assert [(one.workload.kind, one.engine.version.value) for one in found if one.workload is not None] == [
        ("InferenceService", "0.9.2"),
        ("ServingRuntime", "0.8.5"),
    ]
