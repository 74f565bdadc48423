"""Shared by the tests of this folder: text → extraction."""

from __future__ import annotations

from textwrap import dedent, indent

from planner.documents.read import read_bytes
from planner.workloads.extract import Extraction, extract
from planner.workloads.workload import Container


def extraction(*texts: str, file: str = "test.yaml") -> Extraction:
    """The extraction of one file per text; a single one is called ``file``, several ``0.yaml``, ``1.yaml`` …"""
    documents = []
    for number, text in enumerate(texts):
        name = file if len(texts) == 1 else f"{number}.yaml"
        documents.extend(read_bytes(dedent(text).encode(), name).documents)
    return extract(documents)


def deployment(container: str, pod: str = "", name: str = "llm") -> str:
    """A Deployment with one container whose fields are ``container`` and further pod fields ``pod``."""
    return (
        f"apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\nspec:\n  template:\n    spec:\n"
        + indent(dedent(pod).lstrip("\n"), " " * 6)
        + "      containers:\n      - name: vllm\n"
        + indent(dedent(container).lstrip("\n"), " " * 8)
    )


def container(text: str, pod: str = "", *others: str) -> Container:
    """The container of ``deployment(text, pod)``, read beside ``others``; no problem may be found."""
    found = extraction("\n---\n".join([deployment(text, pod), *(dedent(other) for other in others)]))
    assert not messages(found)
    return found.workloads[0].pods[0].containers[0]


def messages(found: Extraction) -> list[str]:
    """Line and sentence of each problem."""
    return [f"{problem.position.line}: {problem.message}" for problem in found.problems]
