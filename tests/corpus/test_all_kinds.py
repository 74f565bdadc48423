"""Every form that a deployment has in public repositories: engines of all kinds are recognised, with their model, parallel
sizes and GPU count, and values files are read.

Skips where the corpus is not at hand. ``python -m tests.corpus.test_all_kinds`` prints the figures and every miss.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import pytest

from planner.documents.read import read_path
from planner.engines.recognised import sizes
from planner.facts.parallel import sizes_of
from planner.plan import Plan, Project, plan_files
from planner.settings import Settings
from tests.conftest import SHARED

MANIFESTS = SHARED / "corpus" / "manifests"
#: What the index calls an engine → what planner may call it.
ENGINES = {
    "vllm": {"vllm", "vllm-omni"},
    "vllm (ray serve)": {"vllm", "ray-serve"},
    "vllm (kaito)": {"vllm", "transformers"},
    "vllm (kthena)": {"vllm"},
    "hfserver": {"huggingfaceserver"},
    "sglang (ome)": {"sglang"},
    "llamacpp": {"llama.cpp"},
    "dynamo:vllm": {"dynamo-vllm", "vllm"},
    "dynamo:sglang": {"dynamo-sglang", "sglang"},
    "dynamo:trtllm": {"dynamo-trtllm", "trtllm"},
    "trtllm": {"trtllm", "triton"},  # by itself, or inside of Triton
}
#: Files whose sizes or GPUs the index does not state because an operator derives them, with (tensor, GPUs).
DERIVED = {
    "kaito-project--kaito--inference-kaito-workspace-llama-3-3-70b-instruct": (2, 2),  # GPUs of the machine type
    "defilantech--llmkube--inferenceservice-qwen36-35b-fp8-cpu-offload": (2, 2),  # the operator's TP is the GPU count
    "kserve--kserve--llmisvc-managed-dra-llm-inference-service-managed-dra-multi-device": (1, 2),  # an annotation
    "kserve--website--multi-node-isvc-0": (1, 1),  # KServe gives each pod tensorParallelSize GPUs
    "nvidia--k8s-nim-operator--auto-creation-example1-llm": (1, 1),  # draResources
    "nvidia--k8s-nim-operator--advanced-multi-node-multi-node-nimservice": (8, 8),  # multiNode.parallelism
    "wxsms--dynamo--backends-trtllm-disagg-multinode": (8, 4),  # the engine's file in a ConfigMap
    "wxsms--dynamo--disagg-wide-ep-gb200": (4, 4),
    "wxsms--dynamo--glm-5-2-sglang-agg-h200-agentic": (8, 8),
    "wxsms--dynamo--trtllm-agg-hopper": (4, 4),
    "inference-sim--tektonc-data-collection--tektoncsample-full-stack-pipeline": (4, 4),
    "opendatahub-io--odh-model-controller--runtimes-vllm-vllm-multinode-template": (1, None),
    "wxsms--dynamo--vllm-xpu-disagg-xpu-dra": (1, 1),
}
#: Broken files: merge conflict markers leave nothing to read.
BROKEN = {"sgl-project--sglang--k8s-distributed-sts"}

pytestmark = pytest.mark.skipif(
    not MANIFESTS.is_dir(), reason="the corpus of public manifests is not beside the project"
)


class Check(NamedTuple):
    """One file of the index that runs an engine, and what was read of it."""

    slug: str
    recognised: bool
    model: bool
    tensor: bool
    gpus: bool
    seen: str


@lru_cache(maxsize=2)
def projects(split: str) -> dict[str, Project]:
    return {
        path.stem: plan_files([read_path(path, path.name)], Settings())
        for path in sorted((MANIFESTS / split).glob("*.yaml"))
    }


def rows(split: str) -> Iterator[dict[str, Any]]:
    for line in (MANIFESTS / "index.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["split"] == split and row["engine"] and row["slug"] not in BROKEN:
            yield row


def checks(split: str = "dev") -> Iterator[Check]:
    for row in rows(split):
        names = [name.strip() for name in row["engine"].split(",")]
        wanted = set().union(*(ENGINES.get(name, {name}) for name in names))
        plans = [plan for plan in projects(split)[row["slug"]].plans if plan.engine.engine in wanted]
        tensor, gpus = DERIVED.get(row["slug"], (0, 0))
        yield Check(
            row["slug"],
            bool(plans),
            any(_model(plan, row["model"]) for plan in plans),
            any(_tensor(plan, row["tp"], tensor) for plan in plans),
            any(_gpus(plan, row["gpu_resource"], gpus) for plan in plans),
            "; ".join(sorted({_seen(plan) for plan in plans})),
        )


def _sizes(plan: Plan) -> int | None:
    """The tensor parallel size as far as it is stated; where arguments are hidden, what is stated of it."""
    found = sizes_of(plan) or sizes(plan.engine)
    return found.tensor if found else None


def _seen(plan: Plan) -> str:
    return (
        f"{plan.engine.engine}: model {plan.engine.model.value if plan.engine.model else None}, "
        f"tp {_sizes(plan)}, gpus {plan.gpus_per_pod.value if plan.gpus_per_pod else None} {plan.gpu_resource}"
    )


def _variable(text: str) -> bool:
    return bool(re.search(r"[$<>]|__|^V_|/V_|\{\{", text))


def _plain(text: str) -> str:
    text = re.sub(r"^(?:hf|modelscope)://|^nim:(?:nvcr\.io/nim/)?|^ome model:", "", text)
    return re.sub(r"^kaito preset:", "", text).rstrip("/").lower()


def _model(plan: Plan, models: list[str]) -> bool:
    """The index holds the reference as written, and what its variable stands for where the file says so."""
    found = plan.engine.model.value if plan.engine.model else None
    stated = [model for model in models if not _variable(model)]
    if not stated or stated == ["/mnt/models"]:
        prefixes = [re.sub(r"\$.*", "", model) for model in models]
        return found is None or not models or _variable(found) or any(prefix in found for prefix in prefixes)
    if found is None:
        return False
    names = {_plain(model) for model in stated}
    # A preset of an operator stands for a model of the hub; a path has the variable's value at its end.
    return _plain(found) in names or any(_plain(found).endswith("/" + name) for name in names)


def _tensor(plan: Plan, stated: list[str], derived: int) -> bool:
    numbers = {int(text) for text in stated if text.isdigit()}
    if derived:
        return _sizes(plan) == derived
    if stated and not numbers:
        return True  # a variable: known where the file gives it a value, unknown where it does not
    found = _sizes(plan)
    if any(not text.isdigit() for text in stated) and found is not None:
        return True
    return found is not None and found in (numbers or {1})


def _gpus(plan: Plan, stated: list[str], derived: int | None) -> bool:
    count = plan.gpus_per_pod.value if plan.gpus_per_pod else None
    if derived is None or derived:
        return count == derived
    counts = {
        int(match.group(1))
        for text in stated
        if (match := re.fullmatch(r"(?!custom|cpu)[\w./-]+: ?(\d+)(?: \(\w+\))?|(?!cpu)[\w.-]+:\d+", text))
        and match.group(1)
    }
    counts |= {int(text.rpartition(":")[2]) for text in stated if re.fullmatch(r"[a-z]+-[\w.-]+:\d+", text)}
    if not counts:
        return count is None or bool(plan.container and plan.container.claims)
    return count in counts


def share(found: list[Check], field: str) -> float:
    return sum(bool(getattr(check, field)) for check in found) / len(found)


@pytest.mark.parametrize(("field", "target"), [("recognised", 0.97), ("model", 0.95), ("tensor", 0.95), ("gpus", 0.95)])
def test_engines_of_every_kind_are_read_right(field: str, target: float) -> None:
    found = list(checks())
    assert len(found) >= 190
    misses = [f"{check.slug}: {check.seen}" for check in found if not getattr(check, field)]
    assert share(found, field) >= target, misses


def test_engines_in_values_files_are_recognised() -> None:
    found = list(checks("values"))
    assert len(found) >= 15
    assert share(found, "recognised") >= 0.95, [check.slug for check in found if not check.recognised]
    models = {
        slug: {plan.engine.model.value for plan in project.plans if plan.engine.model}
        for slug, project in projects("values").items()
    }
    for line in (MANIFESTS / "index.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["split"] == "values" and row["model"]:
            assert row["model"][0] in models[row["slug"]], row["slug"]


if __name__ == "__main__":
    for part in ("dev", "values"):
        everything = list(checks(part))
        print(f"{part}: {len(everything)} files with an engine")
        for name in ("recognised", "model", "tensor", "gpus") if part == "dev" else ("recognised",):
            print(f"  {name:<11} {share(everything, name):.1%}")
            for check in everything:
                if not getattr(check, name):
                    print(f"      {check.slug}: {check.seen}")
        kinds = Counter(
            workload.kind for project in projects(part).values() for workload in project.extraction.workloads
        )
        print("  workloads:", ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
