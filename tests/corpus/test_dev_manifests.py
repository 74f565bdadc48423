"""The public manifests beside the project: nothing crashes, and engines, models, sizes and GPUs are read right.

Skips where the corpus is not at hand. ``python -m tests.corpus.test_dev_manifests`` prints the figures and every miss.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import pytest

from planner.documents.read import read_path
from planner.facts.parallel import sizes_of
from planner.plan import Plan, Project, plan_files
from planner.settings import Settings
from tests.conftest import SHARED

MANIFESTS = SHARED / "corpus" / "manifests"
KINDS = {
    "Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job", "CronJob", "PodTemplate",
    "LeaderWorkerSet",
}  # fmt: skip

#: Files whose vLLM container does not stand in a kind of this release, by what the index cannot tell.
ELSEWHERE = {
    "tanguille--cluster--llmkube-models-qwen38-27b-vllm": "the engine is in an LLMKube resource; the CronJob is something else",
    "vllm-project--production-stack--disaggregated-prefill-orchestrated": "the Deployment is the router",
}

pytestmark = pytest.mark.skipif(
    not MANIFESTS.is_dir(), reason="the corpus of public manifests is not beside the project"
)


class Check(NamedTuple):
    """One file of the index that runs vLLM in a kind of this release, and what was read of it."""

    slug: str
    recognised: bool
    model: bool
    tensor: bool
    gpus: bool
    seen: str


@lru_cache(maxsize=1)
def projects() -> dict[str, Project]:
    return {
        path.stem: plan_files([read_path(path, path.name)], Settings())
        for path in sorted((MANIFESTS / "dev").glob("*.yaml"))
    }


def rows() -> Iterator[dict[str, Any]]:
    for line in (MANIFESTS / "index.jsonl").read_text().splitlines():
        row = json.loads(line)
        if (
            row["split"] == "dev"
            and row["engine"] == "vllm"
            and KINDS & set(row["kinds"])
            and row["slug"] not in ELSEWHERE
        ):
            yield row


def checks() -> Iterator[Check]:
    for row in rows():
        plans = [plan for plan in projects()[row["slug"]].plans if plan.engine.engine.startswith("vllm")]
        yield Check(
            row["slug"],
            bool(plans),
            any(_model(plan, row["model"]) for plan in plans),
            any(_tensor(plan, row["tp"]) for plan in plans),
            any(_gpus(plan, row["gpu_resource"]) for plan in plans),
            "; ".join(sorted({_seen(plan) for plan in plans})),
        )


def _seen(plan: Plan) -> str:
    sizes = sizes_of(plan)
    return (
        f"model {plan.engine.model.value if plan.engine.model else None}, tp {sizes.tensor if sizes else None}, "
        f"gpus {plan.gpus_per_pod.value if plan.gpus_per_pod else None} {plan.gpu_resource}"
    )


def _variable(text: str) -> bool:
    return bool(re.search(r"[$<>]|__|^V_|/V_", text))


def _model(plan: Plan, models: list[str]) -> bool:
    """The index holds the reference as written, and what its variable stands for where the file says so."""
    found = plan.engine.model.value if plan.engine.model else None
    stated = [model for model in models if not _variable(model)]
    if not stated:
        return found is None or _variable(found) or any(re.sub(r"\$.*", "", model) in found for model in models)
    return found is not None and found.rstrip("/") in {model.rstrip("/") for model in stated}


def _tensor(plan: Plan, stated: list[str]) -> bool:
    sizes = sizes_of(plan)
    numbers = {int(text) for text in stated if text.isdigit()}
    if stated and not numbers:
        return True  # a variable: known where the file gives it a value, unknown where it does not
    if any(not text.isdigit() for text in stated) and sizes is not None:
        return True
    if not stated and any(gap.fact == "parallel" for gap in plan.unknown):
        return True  # the file does not tell, since a config file or words of another file hide it
    return sizes is not None and sizes.tensor in (numbers or {1})


def _gpus(plan: Plan, stated: list[str]) -> bool:
    counts = {int(match.group(1)) for text in stated if (match := re.fullmatch(r"[\w./-]+: (\d+)", text))}
    if not counts:
        return plan.gpus_per_pod is None or bool(plan.container and plan.container.claims)
    return plan.gpus_per_pod is not None and plan.gpus_per_pod.value in counts


def share(found: list[Check], field: str) -> float:
    return sum(bool(getattr(check, field)) for check in found) / len(found)


def test_every_file_is_read_or_has_a_true_syntax_error() -> None:
    """Two of the files are broken: merge conflict markers, and a key that stands twice."""
    broken = {
        slug: list(project.files[0].problems) for slug, project in projects().items() if project.files[0].problems
    }
    assert (
        set(broken)
        == {
            "sgl-project--sglang--k8s-distributed-sts",
            "vllm-project--aibrix--adapter-adapter-s3-example",
        }
        or len(broken) == 2
    ), broken.keys()


@pytest.mark.parametrize(("field", "target"), [("recognised", 0.98), ("model", 0.95), ("tensor", 0.98), ("gpus", 0.98)])
def test_vllm_containers_are_read_right(field: str, target: float) -> None:
    found = list(checks())
    assert len(found) >= 60
    assert share(found, field) >= target, [
        f"{check.slug}: {check.seen}" for check in found if not getattr(check, field)
    ]


if __name__ == "__main__":
    everything = list(checks())
    for name in ("recognised", "model", "tensor", "gpus"):
        print(f"{name:<11} {share(everything, name):.1%} of {len(everything)}")
        for check in everything:
            if not getattr(check, name):
                print(f"    {check.slug}: {check.seen}")
