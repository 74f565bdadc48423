"""Every kind and values file that planner promises to read, each as small as people write it: the engine is found with its
model, its sizes and its GPUs, and nothing is wrong with it."""

from __future__ import annotations

import pytest

from planner.documents.read import read_bytes
from planner.plan import Plan, plan_files
from planner.settings import Settings
from tests.workloads.planning import summary

ENGINE = (
    "name: e, image: 'vllm/vllm-openai:v0.11.0', args: [--model=Qwen/Qwen3-8B, --tensor-parallel-size=2],"
    " resources: {limits: {nvidia.com/gpu: 2}}"
)
POD = f"spec: {{containers: [{{{ENGINE}}}]}}"
#: What a reader of POD finds.
FOUND = "vllm Qwen/Qwen3-8B 2x1x1 2x1"
RAY = (
    "headGroupSpec: {template: {spec: {containers: [{name: h, image: 'rayproject/ray-llm:2.52.0'}]}}}, "
    "workerGroupSpecs: [{groupName: g, replicas: 1, template: {spec: {containers: [{name: w, image: "
    "'rayproject/ray-llm:2.52.0', resources: {limits: {nvidia.com/gpu: 2}}}]}}}]"
)
SERVE = (
    "applications: [{name: a, import_path: 'ray.serve.llm:build_openai_app', args: {llm_configs: [{model_loading_config: "
    "{model_id: m, model_source: Qwen/Qwen3-8B}, engine_kwargs: {tensor_parallel_size: 2}}]}}]"
)
SPEC = "vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2"

#: name → (manifests, what is found of each engine)
KINDS: dict[str, tuple[str, list[str]]] = {
    **{
        kind: (f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\nspec: {{template: {{{POD}}}}}\n", [FOUND])
        for kind, version in {
            "Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "ReplicaSet": "apps/v1",
            "ReplicationController": "v1", "Job": "batch/v1", "DeploymentConfig": "apps.openshift.io/v1",
            "Rollout": "argoproj.io/v1alpha1",
        }.items()
    },
    "Pod": (f"apiVersion: v1\nkind: Pod\nmetadata: {{name: x}}\n{POD}\n", [FOUND]),
    "CronJob": (
        f"apiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: x}}\nspec: {{jobTemplate: {{spec: {{template: {{{POD}}}}}}}}}\n",
        [FOUND],
    ),
    "LeaderWorkerSet": (
        "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: x}\n"
        f"spec: {{leaderWorkerTemplate: {{size: 2, workerTemplate: {{{POD}}}}}}}\n".replace("size=2", "size=4"),
        ["vllm Qwen/Qwen3-8B 4x1x1 2x2"] * 2,  # leader and worker
    ),
    "JobSet": (
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: x}\n"
        f"spec: {{replicatedJobs: [{{name: j, template: {{spec: {{template: {{{POD}}}}}}}}}]}}\n",
        [FOUND],
    ),
    "KServe InferenceService": (
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: x}\n"
        "spec: {predictor: {model: {modelFormat: {name: huggingface}, args: [--tensor-parallel-size=2], "
        "storageUri: 'hf://Qwen/Qwen3-8B', resources: {limits: {nvidia.com/gpu: 2}}, runtime: r}}}\n---\n"
        "apiVersion: serving.kserve.io/v1alpha1\nkind: ServingRuntime\nmetadata: {name: r}\n"
        "spec: {supportedModelFormats: [{name: huggingface}], containers: [{name: kserve-container, "
        "image: 'vllm/vllm-openai:v0.11.0', args: [--model=/mnt/models]}]}\n",
        ["vllm hf://Qwen/Qwen3-8B 2x1x1 2x1"],
    ),
    "KServe InferenceService, its own container": (
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: x}\n"
        f"spec: {{predictor: {{containers: [{{{ENGINE.replace('name: e', 'name: kserve-container')}}}]}}}}\n",
        [FOUND],
    ),
    **{
        f"KServe {kind}": (
            f"apiVersion: serving.kserve.io/v1alpha1\nkind: {kind}\nmetadata: {{name: r}}\n"
            f"spec: {{supportedModelFormats: [{{name: vllm}}], containers: [{{{ENGINE}}}]}}\n",
            [FOUND],
        )
        for kind in ("ServingRuntime", "ClusterServingRuntime")
    },
    **{
        f"KServe {kind}": (
            f"apiVersion: serving.kserve.io/v1alpha1\nkind: {kind}\nmetadata: {{name: x}}\n"
            "spec: {model: {uri: 'hf://Qwen/Qwen3-8B', name: q}, template: {containers: [{name: main, image: "
            "'vllm/vllm-openai:v0.11.0', args: [--tensor-parallel-size=2], resources: {limits: {nvidia.com/gpu: 2}}}]}}\n",
            ["vllm hf://Qwen/Qwen3-8B 2x1x1 2x1"],
        )
        for kind in ("LLMInferenceService", "LLMInferenceServiceConfig")
    },
    "RayService, engine_kwargs in serveConfigV2": (
        f"apiVersion: ray.io/v1\nkind: RayService\nmetadata: {{name: x}}\nspec:\n  serveConfigV2: |\n    {SERVE}\n"
        f"  rayClusterConfig: {{{RAY}}}\n",
        [FOUND],
    ),
    "RayService, variables": (
        "apiVersion: ray.io/v1\nkind: RayService\nmetadata: {name: x}\nspec:\n  serveConfigV2: |\n"
        "    applications: [{name: a, import_path: 'serve:model', runtime_env: {env_vars: {MODEL_ID: Qwen/Qwen3-8B, "
        "TENSOR_PARALLELISM: '2'}}}]\n"
        f"  rayClusterConfig: {{{RAY.replace('rayproject/ray-llm:2.52.0', 'vllm/vllm-openai:v0.11.0')}}}\n",
        ["vllm Qwen/Qwen3-8B 2x1x1 2x1"],
    ),
    "RayCluster": (
        "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: x}\nspec: {headGroupSpec: {template: {spec: {containers: "
        f"[{{name: h, image: 'vllm/vllm-openai:v0.11.0', command: [sh, -c], args: ['ray start --head; {SPEC}'], "
        "resources: {limits: {nvidia.com/gpu: 2}}}]}}}, workerGroupSpecs: []}\n",
        [FOUND],
    ),
    "RayJob": (
        "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: x}\n"
        f"spec: {{entrypoint: '{SPEC}', rayClusterSpec: {{{RAY.replace('ray-llm:2.52.0', 'ray:2.52.0-gpu')}}}}}\n",
        [FOUND],
    ),
    "DynamoGraphDeployment v1alpha1": (
        "apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeployment\nmetadata: {name: x}\nspec: {services: {"
        "Frontend: {componentType: frontend, extraPodSpec: {mainContainer: {image: 'nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.7.0'}}}, "
        + ", ".join(
            f"{name}: {{componentType: worker, subComponentType: {name}, resources: {{limits: {{gpu: '2'}}}}, extraPodSpec: "
            "{mainContainer: {image: 'nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.7.0', command: [python3, -m, dynamo.vllm], "
            "args: [--model, Qwen/Qwen3-8B, --tensor-parallel-size, '2']}}}"
            for name in ("prefill", "decode")
        )
        + "}}\n",
        ["vllm Qwen/Qwen3-8B 2x1x1 2x1"] * 2,
    ),
    "DynamoGraphDeployment v1beta1, multinode": (
        "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: x}\nspec: {components: [{name: d, "
        "type: decode, multinode: {nodeCount: 2}, podTemplate: {spec: {containers: [{name: main, image: "
        "'nvcr.io/nvidia/ai-dynamo/sglang-runtime:1.0.0', command: [python3, -m, dynamo.sglang], "
        "args: [--model-path, Qwen/Qwen3-8B, --tp, '4'], resources: {limits: {nvidia.com/gpu: 2}}}]}}}]}\n",
        ["sglang Qwen/Qwen3-8B 4x1x1 2x2"],
    ),
    "NIMService and NIMCache": (
        "apiVersion: apps.nvidia.com/v1alpha1\nkind: NIMService\nmetadata: {name: x}\nspec: {image: {repository: "
        "nvcr.io/nim/meta/llama-3.1-8b-instruct, tag: 1.8.3}, storage: {nimCache: {name: c}}, replicas: 1, "
        "resources: {limits: {nvidia.com/gpu: 1}}}\n---\n"
        "apiVersion: apps.nvidia.com/v1alpha1\nkind: NIMCache\nmetadata: {name: c}\nspec: {source: {ngc: {modelPuller: "
        "'nvcr.io/nim/meta/llama-3.1-8b-instruct:1.8.3', pullSecret: s, authSecret: a, model: {engine: vllm, "
        "tensorParallelism: '1'}}}, storage: {pvc: {create: true, size: 50Gi}}}\n",
        ["nim meta/llama-3.1-8b-instruct 1x1x1 1x1"],
    ),
    "KubeAI Model": (
        "apiVersion: kubeai.org/v1\nkind: Model\nmetadata: {name: x}\nspec: {features: [TextGeneration], url: "
        "'hf://Qwen/Qwen3-8B', engine: VLLM, args: [--tensor-parallel-size=2], resourceProfile: 'nvidia-gpu-l4:2'}\n",
        ["vllm Qwen/Qwen3-8B 2x1x1 2x1"],
    ),
    "KAITO Workspace": (
        "apiVersion: kaito.sh/v1beta1\nkind: Workspace\nmetadata: {name: x}\nresource: {instanceType: "
        "Standard_NC48ads_A100_v4, labelSelector: {matchLabels: {a: b}}}\ninference: {preset: {name: phi-4}}\n",
        ["vllm microsoft/phi-4 2x1x1 2x1"],
    ),
    "AIBrix StormService": (
        "apiVersion: orchestration.aibrix.ai/v1alpha1\nkind: StormService\nmetadata: {name: x}\nspec: {replicas: 1, template: "
        f"{{spec: {{roles: [{{name: prefill, replicas: 1, template: {{{POD}}}}}, {{name: decode, replicas: 1, template: "
        f"{{{POD}}}}}]}}}}}}\n",
        [FOUND, FOUND],
    ),
    "AIBrix RayClusterFleet": (
        "apiVersion: orchestration.aibrix.ai/v1alpha1\nkind: RayClusterFleet\nmetadata: {name: x}\nspec: {replicas: 1, template: "
        "{spec: {headGroupSpec: {template: {spec: {containers: [{name: h, image: 'vllm/vllm-openai:v0.11.0', command: "
        f"[sh, -c], args: ['ray start --head; {SPEC}'], resources: {{limits: {{nvidia.com/gpu: 2}}}}}}]}}}}}}, "
        "workerGroupSpecs: []}}}\n",
        [FOUND],
    ),
    "kthena ModelServing": (
        "apiVersion: workload.serving.volcano.sh/v1alpha1\nkind: ModelServing\nmetadata: {name: x}\nspec: {replicas: 1, "
        f"template: {{roles: [{{name: r, replicas: 1, workerReplicas: 0, entryTemplate: {{{POD}}}}}]}}}}\n",
        [FOUND],
    ),
    "kthena ModelBooster": (
        "apiVersion: workload.serving.volcano.sh/v1alpha1\nkind: ModelBooster\nmetadata: {name: x}\nspec: {backend: {name: b, "
        "type: vLLM, modelURI: 'hf://Qwen/Qwen3-8B', workers: [{type: server, image: 'vllm/vllm-openai:v0.11.0', replicas: 1, "
        "pods: 1, config: {tensor-parallel-size: 2}, resources: {limits: {nvidia.com/gpu: 2}}}]}}\n",
        [FOUND],
    ),
    "OME InferenceService and ServingRuntime": (
        "apiVersion: ome.io/v1beta1\nkind: InferenceService\nmetadata: {name: x}\nspec: {model: {name: m}, engine: "
        "{minReplicas: 1}, runtime: {name: r}}\n---\napiVersion: ome.io/v1beta1\nkind: ClusterServingRuntime\n"
        "metadata: {name: r}\nspec: {engineConfig: {runner: {image: 'lmsysorg/sglang:v0.5.5', command: [python3, -m, "
        "sglang.launch_server], args: [--model-path=Qwen/Qwen3-8B, --tp-size=2], resources: {limits: {nvidia.com/gpu: 2}}}}}\n",
        ["sglang Qwen/Qwen3-8B 2x1x1 2x1"],
    ),
    "llmaz Playground": (
        "apiVersion: inference.llmaz.io/v1alpha1\nkind: Playground\nmetadata: {name: x}\nspec: {replicas: 1, modelClaim: "
        "{modelName: q}, backendRuntimeConfig: {backendName: vllm}}\n---\napiVersion: llmaz.io/v1alpha1\nkind: OpenModel\n"
        "metadata: {name: q}\nspec: {familyName: q, source: {modelHub: {modelID: Qwen/Qwen3-8B}}, inferenceConfig: {flavors: "
        "[{name: f, limits: {nvidia.com/gpu: 2}, params: {TP: '2'}}]}}\n",
        [FOUND],
    ),
    "llmaz BackendRuntime": (
        "apiVersion: inference.llmaz.io/v1alpha1\nkind: BackendRuntime\nmetadata: {name: vllm}\nspec: {image: vllm/vllm-openai, "
        "version: v0.11.0, command: [python3, -m, vllm.entrypoints.openai.api_server], recommendedConfigs: [{name: default, "
        "args: [--model, Qwen/Qwen3-8B, --tensor-parallel-size, '2'], resources: {limits: {cpu: 8}}}]}\n",
        ["vllm Qwen/Qwen3-8B 2x1x1 ?x1"],
    ),
    "production-stack VLLMRuntime": (
        "apiVersion: production-stack.vllm.ai/v1alpha1\nkind: VLLMRuntime\nmetadata: {name: x}\nspec: {model: {modelURL: "
        "Qwen/Qwen3-8B}, vllmConfig: {tensorParallelSize: 2}, deploymentConfig: {resources: {gpu: '2'}, image: {registry: "
        "docker.io, name: 'vllm/vllm-openai:v0.11.0'}, replicas: 1}}\n",
        [FOUND],
    ),
    "RoleBasedGroup": (
        "apiVersion: workloads.x-k8s.io/v1alpha1\nkind: RoleBasedGroup\nmetadata: {name: x}\nspec: {roles: [{name: d, "
        f"replicas: 1, template: {{{POD}}}}}]}}\n",
        [FOUND],
    ),
    "Knative Service": (
        "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: x}\n" f"spec: {{template: {{{POD}}}}}\n",
        [FOUND],
    ),
    "OpenShift Template": (
        "apiVersion: template.openshift.io/v1\nkind: Template\nmetadata: {name: x}\nparameters: [{name: TP, value: '2'}]\n"
        "objects: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {template: "
        f"{{{POD}}}}}}}]\n".replace("--tensor-parallel-size=2", "'--tensor-parallel-size=${TP}'"),
        [FOUND],
    ),
    "a kind that nobody knows": (
        f"apiVersion: example.org/v1\nkind: Thing\nmetadata: {{name: x}}\nspec: {{parts: [{{worker: {{{POD}}}}}]}}\n",
        ["vllm Qwen/Qwen3-8B 2x1x1 2x1"],
    ),
    "a List": (
        f"apiVersion: v1\nkind: List\nitems: [{{apiVersion: v1, kind: Pod, metadata: {{name: x}}, {POD}}}]\n",
        [FOUND],
    ),
    "Flux HelmRelease": (
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: x}\nspec: {chart: {spec: {chart: "
        "vllm-stack}}, values: {servingEngineSpec: {modelSpec: [{name: q, repository: vllm/vllm-openai, tag: v0.11.0, modelURL: "
        "Qwen/Qwen3-8B, replicaCount: 1, requestGPU: 2, vllmConfig: {tensorParallelSize: 2}}]}}}\n",
        [FOUND],
    ),
    **{
        f"Argo CD Application, {key}": (
            "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: x}\nspec:\n  source:\n    chart: vllm-stack\n"
            f"    helm:\n      {key}:{mark}\n        servingEngineSpec:\n          modelSpec:\n            - name: q\n"
            "              repository: vllm/vllm-openai\n              tag: v0.11.0\n              modelURL: Qwen/Qwen3-8B\n"
            "              requestGPU: 2\n              vllmConfig: {tensorParallelSize: 2}\n",
            [FOUND],
        )
        for key, mark in (("valuesObject", ""), ("values", " |"))
    },
    "values.yaml of production-stack": (
        "servingEngineSpec: {modelSpec: [{name: q, repository: vllm/vllm-openai, tag: v0.11.0, modelURL: Qwen/Qwen3-8B, "
        "replicaCount: 1, requestGPU: 2, vllmConfig: {tensorParallelSize: 2}}]}\n",
        [FOUND],
    ),
    "values.yaml of llm-d modelservice": (
        "modelArtifacts: {uri: 'hf://Qwen/Qwen3-8B', name: Qwen/Qwen3-8B}\ndecode: {create: true, replicas: 1, parallelism: "
        "{tensor: 2}, containers: [{name: vllm, image: 'ghcr.io/llm-d/llm-d-cuda:v0.3.0', modelCommand: vllmServe}]}\n",
        ["vllm Qwen/Qwen3-8B 2x1x1 2x1"],
    ),
    "values.yaml of vLLM's own chart": (
        "image: {repository: vllm/vllm-openai, tag: v0.11.0, command: [vllm, serve, /data/, --served-model-name, q, "
        "--tensor-parallel-size, '2']}\nresources: {limits: {nvidia.com/gpu: 2}}\nreplicaCount: 1\n",
        ["vllm /data/ 2x1x1 2x1"],
    ),
    "values.yaml of KubeAI": (
        "catalog: {q: {enabled: true, features: [TextGeneration], url: 'hf://Qwen/Qwen3-8B', engine: VLLM, args: "
        "[--tensor-parallel-size=2], resourceProfile: 'nvidia-gpu-l4:2'}}\n",
        ["vllm Qwen/Qwen3-8B 2x1x1 2x1"],
    ),
}  # fmt: skip


def plans_of(name: str) -> tuple[Plan, ...]:
    text, _ = KINDS[name]
    found = plan_files(
        [read_bytes(text.encode(), "values.yaml" if name.startswith("values") else "a.yaml")], Settings()
    )
    assert [str(problem.position) + problem.message for problem in found.problems] == []
    assert found.extraction.unknown_kinds == ({"Thing": 1} if "nobody knows" in name else {})
    return found.plans


@pytest.mark.parametrize("name", KINDS)
def test_the_engine_is_read(name: str) -> None:
    assert [summary(plan) for plan in plans_of(name)] == KINDS[name][1]


@pytest.mark.parametrize("name", KINDS)
def test_a_finding_would_have_a_place_in_the_file(name: str) -> None:
    lines = len(KINDS[name][0].splitlines())
    for plan in plans_of(name):
        assert plan.workload is not None
        assert 1 <= plan.position.line <= lines
        for flag in plan.engine.flags.values():
            place = flag.value_position or flag.position
            assert place is None or 1 <= place.line <= lines
