from __future__ import annotations

import pytest

from tests.workloads.reading import extraction, messages

POD = "containers: [{name: vllm, image: a}]"


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "replicas"),
    [
        ("v1", "Pod", POD, 1),
        ("apps/v1", "Deployment", f"{{replicas: 3, template: {{spec: {{{POD}}}}}}}", 3),
        ("apps/v1", "Deployment", f"{{template: {{spec: {{{POD}}}}}}}", 1),
        ("apps/v1", "Deployment", f"{{replicas: 0, template: {{spec: {{{POD}}}}}}}", 0),
        ("extensions/v1beta1", "Deployment", f"{{template: {{spec: {{{POD}}}}}}}", 1),
        ("apps/v1", "StatefulSet", f"{{replicas: 2, template: {{spec: {{{POD}}}}}}}", 2),
        ("apps/v1", "ReplicaSet", f"{{template: {{spec: {{{POD}}}}}}}", 1),
        ("v1", "ReplicationController", f"{{replicas: 4, template: {{spec: {{{POD}}}}}}}", 4),
        ("apps/v1", "DaemonSet", f"{{template: {{spec: {{{POD}}}}}}}", None),
        ("batch/v1", "Job", f"{{template: {{spec: {{{POD}}}}}}}", 1),
        ("batch/v1", "Job", f"{{parallelism: 4, completions: 3, template: {{spec: {{{POD}}}}}}}", 3),
        ("batch/v1", "Job", f"{{parallelism: 4, template: {{spec: {{{POD}}}}}}}", 4),
        ("batch/v1", "CronJob", f"{{jobTemplate: {{spec: {{parallelism: 2, template: {{spec: {{{POD}}}}}}}}}}}", 2),
    ],
)
def test_kinds(api_version, kind, spec, replicas):
    spec = spec if spec.startswith("{") else f"{{{spec}}}"
    found = extraction(
        f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: x, namespace: n, labels: {{a: b}}}}\nspec: {spec}\n"
    )
    assert not found.problems
    (workload,) = found.workloads
    assert (workload.kind, workload.api_version, workload.name, workload.namespace) == (kind, api_version, "x", "n")
    assert (workload.replicas, workload.group_size, workload.labels) == (replicas, 1, {"a": "b"})
    (pod,) = workload.pods
    assert (pod.role, pod.count, [item.name for item in pod.containers]) == ("pod", 1, ["vllm"])
    assert pod.spec is not None
    assert pod.spec.get("containers", 0, "image") is not None
    assert workload.spec is not None


def test_pod_template_and_pod_metadata():
    found = extraction(
        f"""
        apiVersion: v1
        kind: PodTemplate
        metadata: {{name: x}}
        template: {{metadata: {{labels: {{c: d}}}}, spec: {{{POD}}}}}
        ---
        apiVersion: v1
        kind: Pod
        metadata: {{name: y, labels: {{e: f}}, annotations: {{g: h}}}}
        spec: {{{POD}}}
        """
    )
    template, pod = found.workloads
    assert (template.replicas, template.pods[0].labels) == (None, {"c": "d"})
    assert (pod.pods[0].labels, pod.annotations["g"].value) == ({"e": "f"}, "h")


def test_annotations_of_the_job_template():
    found = extraction(
        f"""
        apiVersion: batch/v1
        kind: CronJob
        metadata: {{name: x, annotations: {{a: cron, b: cron}}}}
        spec: {{jobTemplate: {{metadata: {{annotations: {{b: job}}}}, spec: {{template: {{spec: {{{POD}}}}}}}}}}}
        """
    )
    assert {key: fact.value for key, fact in found.workloads[0].annotations.items()} == {"a": "cron", "b": "job"}


@pytest.mark.parametrize(
    ("replicas", "sentence"),
    [('"2"', "whole number, without quotes"), ("two", "must be a whole number"), ("1.5", "whole"), ("true", "boolean")],
)
def test_replicas_of_another_type(replicas, sentence):
    found = extraction(
        f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: x}}\nspec: {{replicas: {replicas}, "
        f"template: {{spec: {{{POD}}}}}}}\n"
    )
    assert found.workloads[0].replicas is None
    (message,) = messages(found)
    assert message.startswith("4: spec.replicas ")
    assert sentence in message


def test_spec_or_template_of_another_type():
    found = extraction(
        """
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: x}
        spec: [a]
        ---
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: y}
        spec: {template: text}
        """
    )
    assert not found.workloads
    assert [message.partition(" must")[0] for message in messages(found)] == ["5: spec", "10: spec.template"]


def test_autoscalers_decide_the_replicas():
    deployment = f"""
        apiVersion: apps/v1
        kind: Deployment
        metadata: {{name: NAME}}
        spec: {{replicas: 2, template: {{spec: {{{POD}}}}}}}
        """
    found = extraction(
        deployment.replace("NAME", "one"),
        deployment.replace("NAME", "two"),
        deployment.replace("NAME", "three"),
        """
        apiVersion: autoscaling/v2
        kind: HorizontalPodAutoscaler
        metadata: {name: h}
        spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: one}, maxReplicas: 5}
        ---
        apiVersion: keda.sh/v1alpha1
        kind: ScaledObject
        metadata: {name: s}
        spec: {scaleTargetRef: {name: two}, minReplicaCount: 2, maxReplicaCount: 9}
        ---
        apiVersion: autoscaling/v2
        kind: HorizontalPodAutoscaler
        metadata: {name: i}
        spec: {scaleTargetRef: {kind: StatefulSet, name: three}, maxReplicas: 5}
        """,
    )
    assert [(item.name, item.replicas, item.min_replicas, item.max_replicas) for item in found.workloads] == [
        ("one", None, 1, 5),
        ("two", None, 2, 9),
        ("three", 2, None, None),
    ]
