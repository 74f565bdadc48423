"""ManifestWork (Open Cluster Management): objects for another cluster, in ``spec.workload.manifests``."""

from __future__ import annotations

from planner.documents.document import Document


def expand(document: Document) -> list[Document]:
    """The objects inside."""
    manifests = document.root.get("spec", "workload", "manifests")
    if manifests is None or manifests.kind != "sequence":
        return []
    return [
        Document(document.file, document.index, item.detached(), document.comments)
        for item in manifests
        if item.kind == "mapping"
    ]
