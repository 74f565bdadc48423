from __future__ import annotations

import time

import pytest

from planner.workloads.references import expand
from planner.workloads.workload import EnvVar
from tests.workloads.reading import container, deployment, extraction, messages

CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data:
  MODEL: Qwen/Qwen3-8B
  TP: "2"
"""


def test_values_and_references_in_order():
    env = container("""
        env:
        - {name: A, value: "1"}
        - {name: B, value: "a=$(A) b=$(B) later=$(C)"}
        - {name: C, value: "3"}
        - {name: A, value: "2"}
        """).env
    assert {name: variable.value for name, variable in env.items()} == {
        "A": "2",
        "B": "a=1 b=$(B) later=$(C)",
        "C": "3",
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("$(A)", "1"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A}", "$A ${A}"),
        ("$(A", "$(A"),
        ("$(A) $(", "1 $("),
        ("$(NONE)", "$(NONE)"),
        ("cost: 5$", "cost: 5$"),
        ("$()", "$()"),
    ],
)
def test_expansion_follows_the_kubelet(text, value):
    assert expand(text, {"A": EnvVar("A", "1", None)}) == (value, "", False)  # type: ignore[arg-type]


def test_expansion_of_hostile_text_is_linear():
    started = time.perf_counter()
    expand("$(" * 200_000, {})
    expand("$(" * 200_000 + ")", {})
    expand("$(A)" * 100_000, {})
    assert time.perf_counter() - started < 1


def test_doubling_variables_end_as_unknown():
    lines = ["env:", '- {name: V0, value: "xxxxxxxxxx"}']
    lines += [f'- {{name: V{i}, value: "$(V{i - 1})$(V{i - 1})"}}' for i in range(1, 60)]
    env = container("\n".join(lines) + "\n").env
    assert env["V3"].value == "x" * 80
    assert env["V59"].value is None
    assert "128 KiB" in env["V59"].reason


def test_config_map_key_of_the_same_input():
    env = container(
        """
        env:
        - name: MODEL
          valueFrom: {configMapKeyRef: {name: settings, key: MODEL}}
        - name: NO_KEY
          valueFrom: {configMapKeyRef: {name: settings, key: NOPE}}
        - name: OPTIONAL
          valueFrom: {configMapKeyRef: {name: settings, key: NOPE, optional: true}}
        - name: ELSEWHERE
          valueFrom: {configMapKeyRef: {name: other, key: A}}
        - name: JOINED
          value: --model $(MODEL)
        - name: UNKNOWN
          value: x$(ELSEWHERE)
        """,
        "",
        CONFIG,
    ).env
    assert env["MODEL"].value == "Qwen/Qwen3-8B"
    assert env["MODEL"].node.path == "data.MODEL"
    assert env["JOINED"].value == "--model Qwen/Qwen3-8B"
    assert env["NO_KEY"].value is None
    assert "no such key" in env["NO_KEY"].reason
    assert "OPTIONAL" not in env
    assert env["ELSEWHERE"].value is None
    assert "other is not among the files" in env["ELSEWHERE"].reason
    assert env["UNKNOWN"].value is None
    assert env["UNKNOWN"].reason.startswith("$(ELSEWHERE) is the key A")


def test_secrets_are_never_values():
    found = container(
        """
        envFrom: [{secretRef: {name: hub, optional: true}}, {secretRef: {name: gone}}]
        env:
        - name: TOKEN
          valueFrom: {secretKeyRef: {name: hub, key: token}}
        - name: HEADER
          value: Bearer $(TOKEN)
        """,
        "",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: hub}\nstringData: {HF_TOKEN: very-secret}\n",
    )
    assert found.env["HF_TOKEN"].value is None
    assert found.env["HF_TOKEN"].secret
    assert found.env["TOKEN"].value is None
    assert found.env["TOKEN"].secret
    assert found.env["HEADER"].value is None
    assert found.env["HEADER"].secret
    assert "very-secret" not in repr([variable[:2] + variable[3:] for variable in found.env.values()])
    assert found.env_unknown == ("Secret gone",)


def test_env_from_with_prefix_and_env_over_it():
    found = container(
        """
        envFrom:
        - {prefix: X_, configMapRef: {name: settings}}
        - configMapRef: {name: settings}
        - configMapRef: {name: absent}
        env:
        - {name: TP, value: "4"}
        - {name: ARGS, value: "--tp $(X_TP)"}
        - {name: MAYBE, value: "$(FROM_ABSENT)"}
        """,
        "",
        CONFIG,
    )
    values = {name: variable.value for name, variable in found.env.items()}
    assert values == {
        "X_MODEL": "Qwen/Qwen3-8B",
        "X_TP": "2",
        "MODEL": "Qwen/Qwen3-8B",
        "TP": "4",
        "ARGS": "--tp 2",
        "MAYBE": None,
    }
    assert found.env_unknown == ("ConfigMap absent",)
    assert "ConfigMap absent" in found.env["MAYBE"].reason


def test_variables_of_services_may_exist():
    env = container('env: [{name: URL, value: "http://$(ROUTER_SERVICE_HOST)"}]\n').env
    assert env["URL"].value is None
    assert "Service" in env["URL"].reason


def test_fields_of_the_pod():
    text = deployment("""
        env:
        - {name: NS, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
        - {name: TIER, valueFrom: {fieldRef: {fieldPath: "metadata.labels['tier']"}}}
        - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        """).replace("template:\n", "template:\n    metadata: {labels: {tier: gpu}}\n")
    env = (
        extraction(text.replace("name: llm", "name: llm\n  namespace: serving")).workloads[0].pods[0].containers[0].env
    )
    assert env["NS"].value == "serving"
    assert env["TIER"].value == "gpu"
    assert env["IP"].value is None
    assert "status.podIP" in env["IP"].reason
    assert env["NAME"].value is None


def test_resources_through_the_downward_api():
    env = container("""
        resources: {limits: {memory: 10Gi, cpu: 1500m}, requests: {memory: 1Gi}}
        env:
        - {name: MEM, valueFrom: {resourceFieldRef: {resource: limits.memory}}}
        - {name: MEM_MI, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
        - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
        - {name: CPU_M, valueFrom: {resourceFieldRef: {containerName: vllm, resource: limits.cpu, divisor: 1m}}}
        - {name: REQ, valueFrom: {resourceFieldRef: {resource: requests.cpu}}}
        - {name: DISK, valueFrom: {resourceFieldRef: {resource: limits.ephemeral-storage}}}
        - {name: ODD, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1e-300}}}
        """).env
    values = {name: variable.value for name, variable in env.items()}
    assert values == {
        "MEM": "10737418240",
        "MEM_MI": "10240",
        "CPU": "2",
        "CPU_M": "1500",
        "REQ": "2",
        "DISK": None,
        "ODD": None,
    }


def test_wrong_entries_are_problems_and_the_rest_is_read():
    found = extraction(
        deployment("""
        env:
        - {name: PORT, value: 8000}
        - {name: DEBUG, value: on}
        - {value: x}
        - just-text
        - {name: LIST, value: [1]}
        - {name: EMPTY, value: }
        - {name: QUOTED, value: "8000"}
        """)
    )
    env = found.workloads[0].pods[0].containers[0].env
    values = {name: variable.value for name, variable in env.items()}
    assert values == {"PORT": "8000", "DEBUG": "on", "LIST": None, "EMPTY": "", "QUOTED": "8000"}
    lines = messages(found)
    assert len(lines) == 5
    assert lines[0].startswith(
        "11: spec.template.spec.containers[0].env[0].value must be a string, and is the number 8000"
    )
    assert "cannot unmarshal number" in lines[0]
    assert "the boolean true (on is one to kubectl" in lines[1]
    assert "has no `name`" in lines[2]
    assert 'and is the string "just-text"' in lines[3]
    assert "is a list" in lines[4]


def test_a_config_map_with_numbers_is_named_where_it_is_used():
    number = CONFIG.replace('"2"', "2")
    assert not extraction(number).problems
    found = extraction(deployment("envFrom: [{configMapRef: {name: settings}}]\n"), number)
    assert found.workloads[0].pods[0].containers[0].env["TP"].value == "2"
    (problem,) = found.problems
    assert problem.position.file == "1.yaml"
    assert "data.TP must be a string" in problem.message
