from __future__ import annotations

import pytest

from tests.workloads.reading import container, deployment, extraction, messages


def test_command_and_args_keep_text_and_place():
    found = container("""
        image: vllm/vllm-openai:v0.11.0
        workingDir: /app
        command: ["vllm", "serve"]
        args:
        - Qwen/Qwen3-8B
        - |
          two
          lines
        """)
    assert found.image is not None
    assert found.image.value == "vllm/vllm-openai:v0.11.0"
    assert str(found.image.position) == "test.yaml:10:16"
    assert found.command is not None
    assert found.args is not None
    assert [arg.text for arg in found.command] == ["vllm", "serve"]
    assert [arg.text for arg in found.args] == ["Qwen/Qwen3-8B", "two\nlines\n"]
    assert found.args[0].node.position.line == 14
    assert found.working_dir == "/app"


@pytest.mark.parametrize("text", ["args:\n", "args: ~\n", "args: []\n", "tty: true\n"])
def test_no_arguments_mean_those_of_the_image(text):
    assert container(text).args is None


def test_one_string_in_place_of_a_list():
    found = extraction(deployment('args: "--model x --max-model-len 4096"\n'))
    args = found.workloads[0].pods[0].containers[0].args
    assert args is not None
    assert [arg.text for arg in args] == ["--model x --max-model-len 4096"]
    (message,) = messages(found)
    assert message.startswith("10: spec.template.spec.containers[0].args must be a list of strings, and is the string")


def test_numbers_booleans_and_mappings_among_the_arguments():
    found = extraction(
        deployment("""
        args: [--port, 8000, --flash-attn, on, --ratio, 0.9, --x, "8", 0.0.0.0, 2024-01-01, ~]
        command:
        - --model: x
        """)
    )
    args = found.workloads[0].pods[0].containers[0].args
    assert args is not None
    assert [arg.text for arg in args] == [
        *("--port", "8000", "--flash-attn", "on", "--ratio", "0.9", "--x", "8", "0.0.0.0", "2024-01-01", "")
    ]
    problems = messages(found)
    assert [text.partition(" must")[0] for text in problems] == [
        "12: spec.template.spec.containers[0].command[0]",
        "10: spec.template.spec.containers[0].args[1]",
        "10: spec.template.spec.containers[0].args[3]",
        "10: spec.template.spec.containers[0].args[5]",
    ]


def test_placeholders_are_unknown_and_no_problem():
    found = extraction(
        """
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: x}
        spec:
          replicas: ${REPLICAS}
          template:
            metadata:
              labels: ${LABELS}
            spec:
              hostIPC: ${IPC}
              tolerations: ${TOLERATIONS}
              containers:
              - name: vllm
                args: ${ARGS}
                env: __ENV__
                ports: [{containerPort: <port>}]
                resources:
                  limits: {nvidia.com/gpu: "${GPUS}", memory: "{{ memory }}"}
                livenessProbe: {httpGet: {port: $(PORT)}, periodSeconds: "${PERIOD}", failureThreshold: 4}
              - __SIDECAR__
        """
    )
    assert not found.problems
    (workload,) = found.workloads
    assert workload.replicas is None
    (vllm,) = workload.pods[0].containers
    assert vllm.args is not None
    assert vllm.args[0].text == "${ARGS}"
    assert [unknown.fact for unknown in vllm.unknown_resources] == ["limits.nvidia.com/gpu", "limits.memory"]
    assert not vllm.limits
    assert vllm.probes["liveness"].unknown == ("periodSeconds",)
    assert vllm.probes["liveness"].failure_threshold == 4
    assert vllm.probes["liveness"].port == ""


@pytest.mark.parametrize(
    ("containers", "sentence"),
    [
        ("containers: ~", "is empty: a pod needs at least one container"),
        ("containers:", "is empty"),
        ("containers: []", "is empty"),
        ("containers: {name: x, image: img}", "must be a list, and is a mapping; write `- name"),
        ("containers: text", 'must be a list, and is the string "text"'),
        ("containers: [{image: img}]", "has no `name`"),
        ("containers: [{name: a}, {name: a}]", "are called a"),
        ("containers: [{name: a}]\n      initContainers: [{name: a}]", "are called a"),
        ("containers: [vllm]", "must be a mapping with `name` and `image`"),
        ("containers: [~]", "must be a mapping with `name` and `image`, and is nothing (null)"),
        ("containers: [{name: 8}]", 'put it in quotes ("8")'),
        ("containers: [{name: a, resources: {limits: {nvidia.com/gpu: x}}}]", "must be a quantity"),
        ("containers: [{name: a, resources: {limits: {nvidia.com/gpu: 0.5}}}]", "must be a whole number"),
        ("containers: [{name: a, resources: {limits: {memory: 16GB}}}]", "(write 16Gi for binary units)"),
        ("containers: [{name: a, resources: {limits: {memory: -1}}}]", "must not be negative"),
        ("containers: [{name: a, resources: {limits: [memory]}}]", "must be a mapping"),
        ("containers: [{name: a, ports: [{containerPort: '8000'}]}]", "whole number, without quotes"),
        ("containers: [{name: a, livenessProbe: {httpGet: {port: '8000'}}}]", "takes for a port name"),
        ("containers: [{name: a, livenessProbe: {periodSeconds: soon}}]", "must be a whole number"),
        ("containers: [{name: a, livenessProbe: {periodSeconds: -1}}]", "must not be negative"),
        ("containers: [{name: a}]\n      nodeSelector: {gpu: true}", "is the boolean true: put it in quotes"),
        ("containers: [{name: a}]\n      hostIPC: 'true'", "must be true or false"),
        ("containers: [{name: a}]\n      volumes: [cache]", "must be a mapping with a `name` and a source"),
    ],
)
def test_wrong_types(containers, sentence):
    found = extraction(
        f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: x}}\nspec:\n  template:\n    spec:\n      {containers}\n"
    )
    assert len(found.workloads) == 1
    (message,) = messages(found)
    assert sentence in message
    assert int(message.partition(":")[0]) >= 7


def test_resources_probes_and_ports():
    found = container("""
        ports: [{name: http, containerPort: 8000}, {containerPort: 9000}]
        resources:
          limits: {nvidia.com/gpu: 2, memory: 16Gi, cpu: 1500m}
          requests: {cpu: "1"}
          claims: [{name: gpus}]
        startupProbe: {httpGet: {path: /health, port: http}, failureThreshold: 60, periodSeconds: 5}
        livenessProbe: {tcpSocket: {port: 8000}, initialDelaySeconds: 7}
        readinessProbe: {exec: {command: [curl]}, periodSeconds: 0, timeoutSeconds: 3}
        """)
    assert found.ports == (("http", 8000), ("", 9000))
    assert {name: fact.value for name, fact in found.limits.items()} == {
        "nvidia.com/gpu": 2.0,
        "memory": 16 * 2**30,
        "cpu": 1.5,
    }
    assert found.limits["nvidia.com/gpu"].position is not None
    assert found.limits["nvidia.com/gpu"].position.line == 12
    assert {name: fact.value for name, fact in found.requests.items()} == {"cpu": 1.0}
    assert found.claims == ("gpus",)
    startup, liveness, readiness = (found.probes[kind] for kind in ("startup", "liveness", "readiness"))
    assert (startup.handler, startup.port, startup.path, startup.window) == ("http", "http", "/health", 300)
    assert (startup.timeout, startup.initial_delay) == (1, 0)
    assert (liveness.handler, liveness.port, liveness.window) == ("tcp", "8000", 7 + 10 * 3)
    assert (readiness.handler, readiness.period, readiness.timeout) == ("exec", 10, 3)


def test_init_containers_and_sidecars():
    found = extraction(
        deployment(
            "image: a\n",
            """
            initContainers:
            - {name: download, image: b}
            - {name: proxy, image: c, restartPolicy: Always}
            """,
        )
    )
    assert [(item.name, item.init, item.sidecar) for item in found.workloads[0].pods[0].containers] == [
        ("vllm", False, False),
        ("download", True, False),
        ("proxy", True, True),
    ]


def test_scheduling():
    pod = (
        extraction(
            deployment(
                "image: a\n",
                """
                nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
                hostIPC: true
                runtimeClassName: nvidia
                tolerations: [{key: nvidia.com/gpu, operator: Exists}, {operator: Exists}, {}]
                affinity:
                  nodeAffinity:
                    requiredDuringSchedulingIgnoredDuringExecution:
                      nodeSelectorTerms:
                      - matchExpressions:
                        - {key: gpu, operator: In, values: [H100, H200]}
                        - {key: zone, operator: Exists}
                      - matchExpressions: [{key: mem, operator: Gt, values: ["40"]}]
                      - {}
                """,
            )
        )
        .workloads[0]
        .pods[0]
    )
    assert pod.node_selector["cloud.google.com/gke-accelerator"].value == "nvidia-l4"
    assert (pod.host_ipc, pod.runtime_class, pod.tolerations) == (True, "nvidia", ("nvidia.com/gpu", "*"))
    assert [[requirement[:3] for requirement in term] for term in pod.affinity] == [
        [("gpu", "In", ("H100", "H200")), ("zone", "Exists", ())],
        [("mem", "Gt", ("40",))],
    ]
    assert pod.affinity[0][0][3].line == 17


def test_labels_and_annotations_of_object_and_template():
    text = deployment("image: a\n").replace(
        "metadata:\n  name: llm",
        "metadata:\n  name: llm\n  labels: {a: b}\n  annotations: {planner/model: one, planner/ignore: x}",
    )
    text = text.replace("template:", "template:\n    metadata: {labels: {c: d}, annotations: {planner/model: two}}")
    (workload,) = extraction(text).workloads
    (pod,) = workload.pods
    for both in (workload.annotations, pod.annotations):
        assert {key: fact.value for key, fact in both.items()} == {"planner/model": "two", "planner/ignore": "x"}
    assert workload.annotations["planner/ignore"].position is not None
    assert workload.annotations["planner/ignore"].position.line == 6
    assert (workload.labels, pod.labels) == ({"a": "b"}, {"c": "d"})


def test_kustomize_patches():
    found = extraction(
        """
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: x}
        spec: {replicas: 3}
        ---
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: x}
        spec:
          template:
            spec:
              containers:
              - {name: proxy, $patch: delete}
              - name: vllm
                env: [{name: A, $patch: delete}, {name: B, value: c}]
        """
    )
    assert not found.problems
    (workload,) = found.workloads
    (container,) = workload.pods[0].containers
    assert (container.name, container.image, list(container.env)) == ("vllm", None, ["B"])
