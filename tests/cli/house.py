"""A small house rule set and manifests that violate it: what the command line does with findings is tested apart from
what the built-in rules find."""

from __future__ import annotations

from pathlib import Path

RULE = """\
id: house-{name}
title: A name that the house does not like
category: house
scope: engine
severity: {severity}
violated: {violated}
at: [container.name]
message: The workload is called {{workload.name}}.
why: It is a test.
remedy: Call it otherwise.
"""

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
spec:
  selector: {{matchLabels: {{app: llm}}}}
  template:
    metadata: {{labels: {{app: llm}}}}
    spec:
      nodeSelector: {{nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.11.0
          args:
            - --model=meta-llama/Llama-3.1-8B-Instruct
            - --max-model-len=8192
          resources: {{limits: {{nvidia.com/gpu: 1}}}}
"""
#: The line of the container's name in MANIFEST.
NAME_LINE = 12

BROKEN = "apiVersion: v1\nkind: Pod\nmetadata: {name: x\n"


def manifest(name: str) -> str:
    """A deployment of an engine; ``error``, ``warning`` and ``info`` violate the house rule of that severity."""
    return MANIFEST.format(name=name)


def rule(name: str, severity: str = "error", violated: str | None = None) -> str:
    """The text of a rule file."""
    return RULE.format(name=name, severity=severity, violated=violated or f"workload.name == '{name}'")


def write_rules(folder: Path) -> Path:
    """House rules of all severities, and one that needs a fact which no plan has."""
    folder.mkdir()
    for severity in ("error", "warning", "info"):
        (folder / f"house-{severity}.yaml").write_text(rule(severity, severity))
    return folder


def write_unknown_rule(folder: Path) -> Path:
    """A rule that can never be evaluated."""
    folder.mkdir()
    (folder / "house-unknown.yaml").write_text(rule("unknown", violated="workload.no_such_fact > 1"))
    return folder
