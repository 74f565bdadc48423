from __future__ import annotations

from tests.workloads.planning import flag_line, gaps, plan, plans, project, summary

CLUSTER = """
      rayClusterConfig:
        headGroupSpec:
          template: {spec: {containers: [{name: head, image: rayproject/ray-llm:2.52.0}]}}
        workerGroupSpecs:
          - groupName: gpu
            replicas: 2
            template:
              spec:
                containers:
                  - name: worker
                    image: rayproject/ray-llm:2.52.0
                    resources: {limits: {nvidia.com/gpu: 8}}
    """
LLM = (
    """
    apiVersion: ray.io/v1
    kind: RayService
    metadata: {name: x}
    spec:
      serveConfigV2: |
        applications:
          - name: app
            import_path: ray.serve.llm:build_openai_app
            args:
              llm_configs:
                - model_loading_config: {model_id: r1, model_source: deepseek-ai/DeepSeek-R1}
                  accelerator_type: H100
                  deployment_config: {num_replicas: 1}
                  engine_kwargs:
                    tensor_parallel_size: 8
                    pipeline_parallel_size: 2
                    max_model_len: 16384
                    enable_prefix_caching: false
                    trust_remote_code: true
"""
    + CLUSTER
)


def test_llm_config_spans_the_pods_that_its_ranks_need():
    found = plan(LLM)
    assert summary(found) == "vllm deepseek-ai/DeepSeek-R1 8x2x1 8x2"
    assert flag_line(found, "max-model-len") == 18
    assert found.engine.get("enable-prefix-caching") is False
    assert found.engine.get("trust-remote-code") is True
    assert found.accelerator is not None
    assert found.accelerator.name.startswith("H100")
    assert found.engine.model is not None
    assert found.engine.model.position is not None
    assert (found.engine.model.position.line, found.workload.part) == (12, "r1")  # type: ignore[union-attr]


def test_small_engines_share_a_pod():
    found = plan(LLM.replace("pipeline_parallel_size: 2", "pipeline_parallel_size: 1").replace("_size: 8", "_size: 2"))
    assert summary(found).endswith("2x1x1 8x1")
    assert found.starts == 4  # so that no GPU counts as idle


def test_application_by_variables():
    text = (
        """
    apiVersion: ray.io/v1
    kind: RayService
    metadata: {name: x}
    spec:
      serveConfigV2: |
        applications:
          - name: llm
            import_path: serve:model
            runtime_env:
              pip: ["vllm==0.4.3"]
              env_vars: {MODEL_1_ID: google/gemma-7b-it, MODEL_1_TENSOR_PARALLELISM: "2", MODEL_2_ID: a/b}
"""
        + CLUSTER
    )
    first, second = plans(text)
    assert first.engine.model is not None
    assert first.engine.model.value == "google/gemma-7b-it"
    assert first.engine.get("tensor-parallel-size") == 2
    assert first.engine.version.value == "0.4.3"
    assert "serve:model" in gaps(first)
    assert second.engine.model is not None
    assert second.engine.model.value == "a/b"


def test_placeholders_are_unknown_and_no_mistake():
    text = LLM.replace("model_source: deepseek-ai/DeepSeek-R1", "model_source: $MODEL")
    found = plan(text)
    assert found.model is None


def test_broken_configuration_is_a_problem_with_its_line():
    found = project(LLM.replace("          - name: app", "          - name: [app"))
    assert [problem.position.line for problem in found.problems] == [9]
    assert "serveConfigV2" in found.problems[0].message


def test_cluster_with_an_engine_in_the_head():
    found = plan(
        """
        apiVersion: orchestration.aibrix.ai/v1alpha1
        kind: RayClusterFleet
        metadata: {name: x}
        spec:
          replicas: 1
          template:
            spec:
              headGroupSpec:
                template:
                  spec:
                    containers:
                      - name: head
                        image: vllm/vllm-openai:v0.7.1
                        command: [bash, -c, "ray start --head; vllm serve Qwen/Qwen3-8B --tensor-parallel-size 16"]
                        resources: {limits: {nvidia.com/gpu: 8}}
              workerGroupSpecs:
                - replicas: 1
                  template:
                    spec:
                      containers:
                        - name: worker
                          image: vllm/vllm-openai:v0.7.1
                          command: [bash, -c, "ray start --address $FQ_RAY_IP:6379 --block"]
                          resources: {limits: {nvidia.com/gpu: 8}}
        """
    )
    assert summary(found) == "vllm Qwen/Qwen3-8B 16x1x1 8x2"
    assert any(mount.path == "/dev/shm" for mount in found.container.mounts)  # type: ignore[union-attr]


def test_job_entrypoint():
    found = plan(
        """
        apiVersion: ray.io/v1
        kind: RayJob
        metadata: {name: x}
        spec:
          entrypoint: python -m vllm.entrypoints.openai.run_batch --model Qwen/Qwen3-8B -i in -o out
          rayClusterSpec:
            workerGroupSpecs:
              - replicas: 1
                template:
                  spec: {containers: [{name: w, image: x/y, resources: {limits: {nvidia.com/gpu: 1}}}]}
        """
    )
    assert summary(found) == "vllm Qwen/Qwen3-8B 1x1x1 1x1"


CLUSTER_OF = """
apiVersion: ray.io/v1
kind: {kind}
metadata: {{name: x, annotations: {{{annotations}}}}}
spec:
  {entrypoint}
  {cluster}:
    headGroupSpec:
      template: {{spec: {{containers: [{{name: head, image: '{image}'{head}}}]}}}}
    workerGroupSpecs:
      - replicas: 1
        template: {{spec: {{containers: [{{name: worker, image: '{image}', resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]}}}}
"""
RAY_LLM = "rayproject/ray-llm:2.52.0"
VLLM = "vllm/vllm-openai:v0.11.0"


def engines_of(
    image: str, kind: str = "RayJob", entrypoint: str = "", head: str = "", annotations: str = ""
) -> list[str]:
    """Container and engine of every plan of a cluster."""
    cluster = "rayClusterConfig" if kind == "RayService" else "rayClusterSpec"
    text = CLUSTER_OF.format(
        kind=kind,
        cluster=cluster,
        image=image,
        entrypoint=f"entrypoint: {entrypoint}" if entrypoint else "",
        head=head,
        annotations=annotations,
    )
    return [f"{found.container.name} {found.engine.engine}" for found in project(text).plans]  # type: ignore[union-attr]


def test_a_head_runs_no_engine_unless_its_command_does():
    serve = "vllm serve Qwen/Qwen3-8B"
    assert engines_of(RAY_LLM) == engines_of(RAY_LLM, "RayService") == ["worker ray-serve"]
    assert engines_of(RAY_LLM, entrypoint=serve) == ["worker vllm"]
    command = f", command: [sh, -c, 'ray start --head; {serve}']"
    assert engines_of(RAY_LLM, head=command) == ["head vllm", "worker ray-serve"]
    assert engines_of(RAY_LLM, head=", resources: {limits: {nvidia.com/gpu: 1}}")[0] == "head ray-serve"


def test_ray_starts_in_place_of_an_images_own_server():
    assert engines_of(VLLM) == []
    assert engines_of(VLLM, entrypoint="vllm serve Qwen/Qwen3-8B") == ["worker vllm"]
    kept = "ray.io/overwrite-container-cmd: 'true'"
    assert engines_of(VLLM, annotations=kept) == ["head vllm", "worker vllm"]


def test_the_pods_of_a_plain_cluster():
    text = f"""
        apiVersion: ray.io/v1
        kind: RayCluster
        metadata: {{name: x}}
        spec:
          headGroupSpec: {{template: {{spec: {{containers: [{{name: head, image: '{RAY_LLM}'}}]}}}}}}
          workerGroupSpecs:
            - replicas: 1
              template:
                spec: {{containers: [{{name: w, image: '{RAY_LLM}', resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]}}
        """
    assert [found.container.name for found in project(text).plans] == ["w"]  # type: ignore[union-attr]
