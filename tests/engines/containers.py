"""Containers for tests, read from manifests as the program reads them."""

from __future__ import annotations

import json
from typing import Any

from planner.documents.read import read_bytes
from planner.engines.command import program_starts
from planner.engines.pieces import KNOWN, text_of
from planner.workloads.extract import extract
from planner.workloads.workload import Container

VLLM = "vllm/vllm-openai:v0.11.0"


def containers_of(manifest: str) -> list[Container]:
    """All containers of a manifest."""
    content = read_bytes(manifest.encode(), "manifest.yaml")
    workloads = extract(content.documents).workloads
    return [container for workload in workloads for pod in workload.pods for container in pod.containers]


def container_of(manifest: str) -> Container:
    """The first container of a manifest."""
    return containers_of(manifest)[0]


def container(
    command: list[str] | None = None,
    args: list[str] | None = None,
    env: dict[str, str | None] | None = None,
    image: str | None = VLLM,
    **more: Any,
) -> Container:
    """A container of a pod; a variable whose value is None comes from a Secret."""
    variables: list[dict[str, Any]] = [
        {"name": name, "value": value}
        if value is not None
        else {"name": name, "valueFrom": {"secretKeyRef": {"name": "secret", "key": name}}}
        for name, value in (env or {}).items()
    ]
    fields: dict[str, Any] = {"name": "engine", "image": image, "command": command, "args": args, "env": variables}
    spec = {"containers": [{key: value for key, value in {**fields, **more}.items() if value is not None}]}
    return container_of(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}))


def started(script: str, *arguments: str, shell: str = "bash", **more: Any) -> list[list[str]]:
    """The programs that a script starts, each as its words; unknown ones marked with a question mark in front."""
    return words_of(container([shell, "-c", script, *arguments], **more))


def words_of(box: Container) -> list[list[str]]:
    """The programs that a container starts, each as its words."""
    return [
        [("" if all(piece.state == KNOWN for piece in field) else "?") + text_of(field) for field in start.words]
        for start in program_starts(box).starts
    ]
