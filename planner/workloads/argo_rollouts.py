"""Argo Rollouts: a Rollout with its own pod template, or with that of a Deployment (``spec.workloadRef``)."""

from __future__ import annotations

from planner.documents.document import Document
from planner.workloads.fields import Reading
from planner.workloads.typed import deployment_like
from planner.workloads.workload import Workload


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The workload of a Rollout. With ``workloadRef`` the Deployment is read where it stands, and nothing here."""
    return deployment_like(document, kind, reading)
