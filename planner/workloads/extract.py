"""Documents → workloads. The table below is where a kind is made known; its module reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import cast

from planner.documents.document import Document, Problem
from planner.documents.node import Node
from planner.record import NamedTuple
from planner.workloads.fields import LimitReachedError, Reading
from planner.workloads.objects import Objects
from planner.workloads.workload import Workload

#: (API group, kind) → module of this package with ``read(document, kind, reading) -> list[Workload]``.
#: The kind alone does not tell: several groups have a ``Model``, a ``Service`` or an ``InferenceService``.
READERS: dict[tuple[str, str], str] = {
    ("", "Pod"): "core",
    ("", "PodTemplate"): "core",
    ("", "ReplicationController"): "core",
    ("apps", "DaemonSet"): "core",
    ("apps", "Deployment"): "core",
    ("apps", "ReplicaSet"): "core",
    ("apps", "StatefulSet"): "core",
    ("extensions", "DaemonSet"): "core",
    ("extensions", "Deployment"): "core",
    ("extensions", "ReplicaSet"): "core",
    ("batch", "CronJob"): "core",
    ("batch", "Job"): "core",
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): "leaderworkerset",
    ("", "DeploymentConfig"): "openshift",
    ("apps.nvidia.com", "NIMPipeline"): "nim",
    ("apps.nvidia.com", "NIMService"): "nim",
    ("apps.openshift.io", "DeploymentConfig"): "openshift",
    ("argoproj.io", "Application"): "argo_application",
    ("argoproj.io", "ApplicationSet"): "argo_application",
    ("argoproj.io", "Rollout"): "argo_rollouts",
    ("helm.cattle.io", "HelmChart"): "helmrelease",
    ("helm.cattle.io", "HelmChartConfig"): "helmrelease",
    ("helm.toolkit.fluxcd.io", "HelmRelease"): "helmrelease",
    ("inference.llmaz.io", "BackendRuntime"): "llmaz",
    ("inference.llmaz.io", "Playground"): "llmaz",
    ("inference.llmaz.io", "Service"): "llmaz",
    ("inference.llmkube.dev", "InferenceService"): "llmkube",
    ("jobset.x-k8s.io", "JobSet"): "jobset",
    ("kaito.sh", "InferenceSet"): "kaito",
    ("kaito.sh", "Workspace"): "kaito",
    ("kubeai.org", "Model"): "kubeai",
    ("nvidia.com", "DynamoComponentDeployment"): "dynamo",
    ("nvidia.com", "DynamoGraphDeployment"): "dynamo",
    ("nvidia.com", "DynamoGraphDeploymentRequest"): "dynamo",
    ("ome.io", "ClusterServingRuntime"): "ome",
    ("ome.io", "InferenceService"): "ome",
    ("ome.io", "ServingRuntime"): "ome",
    ("orchestration.aibrix.ai", "RayClusterFleet"): "ray",
    ("orchestration.aibrix.ai", "RayClusterReplicaSet"): "ray",
    ("orchestration.aibrix.ai", "StormService"): "aibrix",
    ("production-stack.vllm.ai", "VLLMRuntime"): "production_stack",
    ("ray.io", "RayCluster"): "ray",
    ("ray.io", "RayJob"): "ray",
    ("ray.io", "RayService"): "ray",
    ("serving.knative.dev", "Configuration"): "knative",
    ("serving.knative.dev", "Revision"): "knative",
    ("serving.knative.dev", "Service"): "knative",
    ("serving.kserve.io", "ClusterServingRuntime"): "kserve",
    ("serving.kserve.io", "InferenceService"): "kserve",
    ("serving.kserve.io", "LLMInferenceService"): "llm_inference_service",
    ("serving.kserve.io", "LLMInferenceServiceConfig"): "llm_inference_service",
    ("serving.kserve.io", "ServingRuntime"): "kserve",
    ("tekton.dev", "Pipeline"): "tekton",
    ("tekton.dev", "PipelineRun"): "tekton",
    ("workload.serving.volcano.sh", "ModelBooster"): "kthena",
    ("workload.serving.volcano.sh", "ModelServing"): "kthena",
    ("workloads.x-k8s.io", "RoleBasedGroup"): "rbg",
    ("workloads.x-k8s.io", "RoleBasedGroupSet"): "rbg",
}
#: Kinds that hold other objects whole: module with ``expand(document) -> list[Document]``.
EXPANDERS: dict[tuple[str, str], str] = {
    ("", "Template"): "openshift",
    ("template.openshift.io", "Template"): "openshift",
    ("work.open-cluster-management.io", "ManifestWork"): "manifestwork",
}
#: Top-level keys that values of a Helm chart with an engine have (see ``helm_values``); documents without a kind and
#: without any of these are not looked at.
VALUES_KEYS = frozenset(
    (
        "catalog",
        "controllers",
        "decode",
        "image",
        "inferenceServer",
        "job",
        "llm",
        "model",
        "modelArtifacts",
        "models",
        "nimOperator",
        "prefill",
        "servingEngineSpec",
        "stack",
        "tensorrtLLM",
        "tgi",
        "triton",
        "vllm",
        "workload",
    )
)

_VALUES_WORDS = ("inference", "llm", "nim", "serving", "sglang", "tgi")

#: How much of a document of an unknown kind is searched for a container, and what may be in objects of one.
_NODES_SEARCHED = 3_000
_MOST_EXPANDED = 2_000

Reader = Callable[[Document, str, Reading], "list[Workload]"]
Expander = Callable[[Document], "list[Document]"]


class Extraction(NamedTuple):
    """What the documents of a run hold. ``objects`` finds what workloads refer to; ``unknown_kinds`` counts objects
    that hold containers and are of a kind that is not read."""

    workloads: tuple[Workload, ...]
    problems: tuple[Problem, ...]
    objects: Objects
    unknown_kinds: dict[str, int]


def extract(documents: Sequence[Document]) -> Extraction:
    """The workloads of all documents of one run, in order. References are looked up among all of them.

    Nothing is raised for wrong input: what the API server would refuse is in ``problems``, and the rest is read.
    """
    objects = Objects()
    reading = Reading(objects, len(documents))
    waiting: list[tuple[Document, str, str]] = []
    unknown_kinds: dict[str, int] = {}
    for document in _expanded(documents):
        kind = document.kind
        if not kind:
            if _may_be_values(document.root):
                waiting.append((document, "", "helm_values"))
            continue
        group = _group(document.api_version)
        module = READERS.get((group, kind))
        if module is None and not document.api_version:
            module = next((READERS[known, kind] for known in ("apps", "batch", "") if (known, kind) in READERS), None)
        referred = objects.refer(group, kind, document)
        if module is not None:
            waiting.append((document, kind, module))
        elif referred or objects.add(group, kind, document):
            continue
        elif _may_run_pods(group, kind) and _holds_containers(document.root):
            unknown_kinds[kind] = unknown_kinds.get(kind, 0) + 1
            waiting.append((document, kind, "by_shape"))
    workloads: list[Workload] = []
    for document, kind, module in waiting:
        reading.start_document()
        try:
            found = _reader(module)(document, kind, reading)
        except LimitReachedError:
            continue
        if found and kind and not document.api_version:
            reading.problem(document.root.get("kind") or document.root, f"this {kind} has no `apiVersion`")
        workloads.extend(found)
    objects.workloads = tuple(workloads)
    return Extraction(objects.workloads, reading.problems, objects, unknown_kinds)


def _expanded(documents: Sequence[Document]) -> Iterator[Document]:
    """The documents, with the objects inside of those that hold whole ones in their place."""
    for document in documents:
        module = EXPANDERS.get((_group(document.api_version), document.kind)) if document.kind else None
        if module is None:
            yield document
        else:
            expand = cast("Expander", import_module(f"planner.workloads.{module}").expand)
            yield from expand(document)[:_MOST_EXPANDED]


def runs_pods(document: Document) -> bool:
    """Whether an object is of a kind that runs pods, or holds containers."""
    known = (_group(document.api_version), document.kind)
    return known in READERS or known in EXPANDERS or _holds_containers(document.root)


def _may_be_values(root: Node) -> bool:
    """Whether a document without a kind has keys that values of an engine's chart have."""
    return root.kind == "mapping" and any(
        key in VALUES_KEYS or any(word in key.lower() for word in _VALUES_WORDS) for key, _ in root.items()
    )


def _reader(module: str) -> Reader:
    return cast("Reader", import_module(f"planner.workloads.{module}").read)


def _group(api_version: str) -> str:
    group, slash, _ = api_version.partition("/")
    return group if slash else ""


def _may_run_pods(group: str, kind: str) -> bool:
    """Whether a kind that is not read can hold containers: not one of Kubernetes itself, and no schema."""
    return bool(group) and kind != "CustomResourceDefinition" and group not in _OTHER_GROUPS


_OTHER_GROUPS = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "autoscaling",
        "batch",
        "gateway.networking.k8s.io",
        "kustomize.config.k8s.io",
        "monitoring.coreos.com",
        "networking.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    }
)


def _holds_containers(root: Node) -> bool:
    """Whether a ``containers`` list with an image stands within the first few thousand nodes, breadth first."""
    waiting = [root]
    for node in waiting:
        if len(waiting) > _NODES_SEARCHED:
            return False
        if node.kind == "mapping":
            for key, value in node.items():
                if key == "containers" and value.kind == "sequence" and value.get(0, "image") is not None:
                    return True
                if value.kind in ("mapping", "sequence"):
                    waiting.append(value)
        else:
            waiting.extend(element for element in node if element.kind in ("mapping", "sequence"))
    return False
