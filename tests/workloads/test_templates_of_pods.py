"""Kinds that hold a pod template and little else."""

from __future__ import annotations

from tests.workloads.planning import plan, plans, summary

POD = """
            spec:
              containers:
                - name: a
                  image: vllm/vllm-openai:v0.10.0
                  args: [--model, Qwen/Qwen3-8B, --tensor-parallel-size, "2"]
                  resources: {limits: {nvidia.com/gpu: 2}}
"""
WANTED = "vllm Qwen/Qwen3-8B 2x1x1 2x1"


def manifest(api: str, kind: str, *, spec: str = "", annotations: str = "") -> str:
    return f"""
        apiVersion: {api}
        kind: {kind}
        metadata: {{name: x}}
        spec:
          {spec}
          template:
            metadata: {{annotations: {{{annotations}}}}}{POD}"""


def test_deployment_config():
    found = plan(manifest("apps.openshift.io/v1", "DeploymentConfig", spec="replicas: 2"))
    assert summary(found) == WANTED
    assert found.workload is not None
    assert found.workload.replicas == 2


def test_rollout():
    found = plan(manifest("argoproj.io/v1alpha1", "Rollout", spec="replicas: 3"))
    assert summary(found) == WANTED
    assert found.workload is not None
    assert found.workload.replicas == 3


def test_rollout_of_a_deployment_is_read_there():
    found = plans(
        manifest("apps/v1", "Deployment", spec="replicas: 0"),
        """
        apiVersion: argoproj.io/v1alpha1
        kind: Rollout
        metadata: {name: y}
        spec: {replicas: 3, workloadRef: {apiVersion: apps/v1, kind: Deployment, name: x}}
        """,
    )
    assert [item.workload.kind for item in found if item.workload] == ["Deployment"]


def test_knative_service():
    bounds = 'autoscaling.knative.dev/min-scale: "2", autoscaling.knative.dev/max-scale: "2"'
    found = plan(manifest("serving.knative.dev/v1", "Service", annotations=bounds))
    assert summary(found) == WANTED
    assert found.workload is not None
    assert found.workload.replicas == 2


def test_core_service_is_no_workload():
    assert not plans("{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {ports: [{port: 80}]}}")


def test_job_set():
    found = plan(
        """
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet
        metadata: {name: x}
        spec:
          replicatedJobs:
            - name: j
              replicas: 2
              template:
                spec:
                  parallelism: 3
                  template:"""
        + POD.replace("            ", "                    ")
    )
    assert summary(found) == WANTED
    assert found.workload is not None
    assert (found.workload.part, found.workload.replicas) == ("j", 6)


def test_unknown_kind_is_read_by_its_shape():
    found = plan(manifest("example.com/v1", "Thing", spec="replicas: 2"))
    assert summary(found) == WANTED
    assert found.workload is not None
    assert found.workload.kind == "Thing"


def test_several_templates_of_an_unknown_kind():
    roles = ", ".join(
        f"{{name: {name}, replicas: 1, template: {{spec: {{containers: [{{name: a, image: vllm/vllm-openai, "
        "args: [--model, Qwen/Qwen3-8B]}]}}}"
        for name in ("prefill", "decode")
    )
    found = plans(f"{{apiVersion: example.com/v1, kind: Thing, metadata: {{name: x}}, spec: {{roles: [{roles}]}}}}")
    assert [item.workload.part for item in found if item.workload] == [
        "spec.roles[0].template",
        "spec.roles[1].template",
    ]


def test_template_of_openshift():
    found = plan(
        """
        apiVersion: template.openshift.io/v1
        kind: Template
        metadata: {name: t}
        parameters:
          - {name: MODEL, value: Qwen/Qwen3-8B}
          - {name: OTHER}
        objects:
          - apiVersion: apps/v1
            kind: Deployment
            metadata: {name: x}
            spec:
              template:
                spec:
                  containers:
                    - name: a
                      image: vllm/vllm-openai:${OTHER}
                      args: [--model, "${MODEL}"]
                      resources: {limits: {nvidia.com/gpu: 1}}
        """
    )
    assert summary(found) == "vllm Qwen/Qwen3-8B 1x1x1 1x1"
    assert found.engine.model is not None
    assert found.engine.model.position is not None
    assert found.engine.model.position.line == 18


def test_manifest_work():
    found = plan(
        """
        apiVersion: work.open-cluster-management.io/v1
        kind: ManifestWork
        metadata: {name: w}
        spec:
          workload:
            manifests:
              - apiVersion: v1
                kind: Pod
                metadata: {name: x}
                spec:
                  containers:
                    - {name: a, image: "vllm/vllm-openai:v0.10.0", args: [--model, Qwen/Qwen3-8B]}
        """
    )
    assert found.workload is not None
    assert (found.workload.kind, found.workload.name) == ("Pod", "x")
