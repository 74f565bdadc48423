"""What connects the pods of one engine, where the rules' examples do not reach."""

from __future__ import annotations

import json

import pytest

from planner.facts import rule_facts
from tests.facts.plans import plan_of
from tests.rules.deployments import deployment

SERVE = "vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2"


def inline(script: str, env: str = "") -> str:
    return deployment(json.dumps(f"{script}\n{SERVE}"), container="command: [bash, -c]", env=env)


def mounted(script: str) -> str:
    return deployment(
        "/s/start.sh",
        container="command: [bash]\nvolumeMounts: [{name: s, mountPath: /s}]",
        pod="volumes: [{name: s, configMap: {name: s}}]",
        env="",
        more="---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: s, namespace: llm}\n"
        f"data: {{start.sh: {json.dumps(f'{script}; {SERVE}')}}}\n",
    )


@pytest.mark.parametrize(
    ("text", "backend"),
    [
        (inline(":"), ""),
        (inline("ray start --head"), "ray"),
        (mounted(":"), ""),
        (mounted("ray start --head"), "ray"),
        (inline(":", env="- {name: RAY_ADDRESS, value: 'head:6379'}"), "ray"),
        (inline("export RAY_ADDRESS=$(cat /head)"), "ray"),
    ],
)
def test_a_ray_cluster_by_script_or_variable(text: str, backend: str) -> None:
    assert rule_facts(plan_of(text))[0]["parallel"]["backend"] == backend
