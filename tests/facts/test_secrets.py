"""Tokens and keys in plain text: where they are looked for, and what is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.documents.read import read_bytes
from planner.facts import rule_facts
from planner.lint.run import lint, select_rules
from planner.plan import plan_files
from planner.settings import Settings
from tests.rules.deployments import deployment

TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
VOLUME = "volumes: [{name: s, configMap: {name: s}}]"


def literals(text: str) -> list[tuple[str, int | None]]:
    """(where it is, its line) of the secrets around the engine of a manifest."""
    plan = plan_files([read_bytes(text.encode(), "m.yaml")], Settings()).plans[0]
    facts, positions = rule_facts(plan)
    found: list[dict[str, Any]] = facts["container"]["literal_secrets"]
    places = [positions.get(f"container.literal_secrets[{number}]") for number in range(len(found))]
    return [(item["where"], place.line if place else None) for item, place in zip(found, places, strict=True)]


def wheres(text: str) -> list[str]:
    return [where for where, _ in literals(text)]


def init(env: str = "", words: str = "[]") -> str:
    return deployment(env="", pod=f"initContainers: [{{name: get, image: python, args: {words}, env: [{env}]}}]")


def script(line: str) -> str:
    return deployment(json.dumps(f"{line}\nexec vllm serve Qwen/Qwen3-8B"), env="", container="command: [bash, -c]")


def job(env: str, kind: str = "Job") -> str:
    pod = f"{{spec: {{containers: [{{name: get, image: python, env: [{env}]}}]}}}}"
    spec = f"{{template: {pod}}}" if kind == "Job" else f"{{jobTemplate: {{spec: {{template: {pod}}}}}}}"
    return deployment(env="", more=f"---\napiVersion: batch/v1\nkind: {kind}\nmetadata: {{name: get}}\nspec: {spec}\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (init(f"{{name: HF_TOKEN, value: {TOKEN}}}"), ["variable HF_TOKEN"]),
        (init("{name: HF_TOKEN, value: some-long-token-123}"), ["variable HF_TOKEN"]),
        (init("{name: HF_TOKEN, value: your-token-here}"), []),
        (init("{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: a, key: b}}}"), []),
        (
            init("{name: OPENAI_API_KEY, value: local-key-for-vllm}"),
            [],
        ),  # beside an engine; any key does for a local server
        (init(words=f"[download, --token, {TOKEN}]"), ["the command"]),
        (init(words="[download, --token, hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx]"), []),
        (init(words="[--sk-learn-pipeline-with-a-long-name, sk-learn-pipeline-with-a-long-name]"), []),
        (init(words="[hf_quantization_of_the_whole_model, hf_quantizationofthewholemodel]"), []),
        (script(f"export HF_TOKEN={TOKEN}"), ["variable HF_TOKEN"]),
        (script("export VLLM_API_KEY=correct-horse-battery"), ["variable VLLM_API_KEY"]),
        (script("export VLLM_API_KEY=$(cat /run/secrets/key)"), []),
        (script(f"hf auth login --token {TOKEN}"), ["the command"]),
        (job(f"{{name: HF_TOKEN, value: {TOKEN}}}"), ["variable HF_TOKEN"]),
        (job(f"{{name: HF_TOKEN, value: {TOKEN}}}", "CronJob"), ["variable HF_TOKEN"]),
    ],
)
def test_where_secrets_are_looked_for(text: str, expected: list[str]) -> None:
    assert wheres(text) == expected


def test_a_mounted_script_that_holds_a_token() -> None:
    text = deployment(
        "/s/start.sh",
        env="",
        pod=VOLUME,
        container="command: [bash]\nvolumeMounts: [{name: s, mountPath: /s}]",
        more="---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: s, namespace: llm}\ndata:\n  start.sh: |\n"
        f"    huggingface-cli login --token {TOKEN}\n    exec vllm serve Qwen/Qwen3-8B\n",
    )
    line = next(number for number, line in enumerate(text.splitlines(), 1) if TOKEN in line)
    assert literals(text) == [("the file start.sh of the ConfigMap s", line)]


def secret(value: str, field: str = "stringData", name: str = "hf") -> str:
    return f"---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: llm}}\n{field}: {{token: '{value}'}}\n"


@pytest.mark.parametrize(
    ("value", "field", "name", "found"),
    [
        (TOKEN, "stringData", "hf", True),
        (TOKEN, "stringData", "other", False),  # the engine has nothing to do with it
        ("aGZfQWJDZEVmR2hJaktsTW5PcFFyU3RVdld4WXowMTIzNDU2Nw==", "data", "hf", False),
        ("<your-hf-access-token-value>", "stringData", "hf", False),
        ("hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "stringData", "hf", False),
        ("hf_abcdefghijklmnopqrstuvwxyzabcdefgh", "stringData", "hf", False),
        ("${HF_TOKEN}", "stringData", "hf", False),
        ("a-word-that-may-be-anything", "stringData", "hf", False),
    ],
)
def test_secrets_that_are_committed_as_they_are(value: str, field: str, name: str, found: bool) -> None:
    assert wheres(deployment(more=secret(value, field, name))) == (["the key token of the Secret hf"] if found else [])


@pytest.mark.parametrize(
    "options",
    [
        {"env": "", "container": "envFrom: [{secretRef: {name: hf}}]"},
        {
            "env": "",
            "pod": "volumes: [{name: t, secret: {secretName: hf}}]",
            "container": "volumeMounts: [{name: t, mountPath: /t}]",
        },
    ],
)
def test_other_ways_to_a_secret(options: dict[str, str]) -> None:
    assert wheres(deployment(more=secret(TOKEN), **options)) == ["the key token of the Secret hf"]


def test_a_committed_secret_is_a_warning_and_its_value_is_not_shown() -> None:
    result = lint([read_bytes(deployment(more=secret(TOKEN)).encode(), "m.yaml")], select_rules(Settings()), Settings())
    (finding,) = (finding for finding in result.findings if finding.rule == "token-literal")
    assert (finding.severity, finding.message) == (
        "warning",
        "the key token of the Secret hf holds a token in plain text.",
    )
    assert "Sealed Secrets" in finding.remedy
    assert TOKEN not in str(finding._replace(fixes=()))
