"""Devices that an engine's own image does not run on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from planner.documents.read import read_bytes
from planner.lint.finding import Finding
from planner.lint.run import lint, select_rules
from planner.settings import Settings
from tests.facts.plans import facts_of
from tests.rules.manifests import manifest

QWEN = ("--model=Qwen/Qwen2.5-1.5B-Instruct", "--max-model-len=4096")
SGLANG = ("--model-path=Qwen/Qwen2.5-1.5B-Instruct", "--context-length=4096", "--host=0.0.0.0")
V100, P100, T4, A10 = "Tesla-V100-SXM2-32GB", "Tesla-P100-PCIE-16GB", "Tesla-T4", "NVIDIA-A10"
LABEL = "nvidia.com/gpu.product"


def problem(
    version: str, gpu: str, engine: str = "vllm", args: tuple[str, ...] = QWEN, **options: Any
) -> dict[str, Any]:
    facts, _ = facts_of(args, version, engine=engine, gpu=gpu, **options)
    found: dict[str, Any] = facts["accelerator_problem"]
    return found


def findings(text: str, settings: Settings | None = None) -> dict[str, str]:
    return {finding.rule: finding.severity for finding in lint_text(text, settings)}


def messages(text: str, rule: str) -> list[str]:
    return [finding.message for finding in lint_text(text) if finding.rule == rule]


def lint_text(text: str, settings: Settings | None = None) -> Sequence[Finding]:
    chosen = settings or Settings()
    return lint([read_bytes(text.encode(), "m.yaml")], select_rules(chosen), chosen).findings


def allowing(*gpus: str, version: str = "0.6.3", further: tuple[dict[str, Any], ...] = ()) -> str:
    """A Deployment whose required affinity allows these products, or the terms ``further``."""
    document = json.loads(manifest((*QWEN, "--dtype=half"), version, gpu=""))
    terms = [{"matchExpressions": [{"key": LABEL, "operator": "In", "values": list(gpus)}]}, *further]
    document["spec"]["template"]["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    return json.dumps(document)


@pytest.mark.parametrize(
    ("version", "gpu", "text"),
    [
        ("0.6.3", P100, "vLLM 0.6.3 has no kernels in its image for GPUs below compute capability 7.0; P100-16GB has 6.0"),
        ("0.33.0", V100, "vLLM 0.33.0 has no kernels in its image for GPUs below compute capability 7.5; V100-32GB has 7.0"),
        ("0.6.3", "Tesla-K80", "vLLM 0.6.3 has no kernels in its image for GPUs below compute capability 7.0; K80 has 3.7"),
        ("0.6.3", V100, ""),
        ("0.19.1", V100, ""),
        ("0.33.0", T4, ""),
    ],
)  # fmt: skip
def test_vllm(version: str, gpu: str, text: str) -> None:
    found = problem(version, gpu)
    assert found["text"] == text
    assert found["certain"]


def test_a_name_of_two_products_gives_one_finding() -> None:
    assert messages(manifest(QWEN, "0.6.3", gpu="Tesla-M40"), "accelerator-unsupported") == [
        "vLLM 0.6.3 has no kernels in its image for GPUs below compute capability 7.0; M40-12GB or M40-24GB has 5.2."
    ]


def test_the_remedy_names_the_newest_release_that_supports_the_device() -> None:
    assert problem("0.33.0", V100)["remedy"] == (
        "Run vLLM 0.19.1, the newest release that supports it, or use a GPU of compute capability 7.5 or newer"
    )
    assert problem("0.33.0", P100)["remedy"] == "Use a GPU of compute capability 7.5 or newer"


def test_other_engines() -> None:
    assert problem("0.5.18", V100, "sglang", SGLANG)["text"] == (
        "SGLang 0.5.18 refuses GPUs below compute capability 7.5; V100-32GB has 7.0"
    )
    assert not problem("0.5.18", T4, "sglang", SGLANG)["text"]
    assert problem("1.2.0", T4, "trtllm", ("Qwen/Qwen2.5-1.5B-Instruct",))["text"]
    assert not problem("3.3.0", P100, "tgi", ("--model-id=Qwen/Qwen2.5-1.5B-Instruct",))["text"]


def test_an_assumed_release_only_warns_unless_no_release_runs() -> None:
    assert not problem("", V100, image="vllm/vllm-openai:latest")["certain"]
    assert problem("", P100, image="vllm/vllm-openai:latest")["certain"]


def test_builds_of_ones_own_other_platforms_and_devices_are_left_alone() -> None:
    assert not problem("", P100, image="example.com/team/vllm:v0.6.3")["text"]
    assert "accelerator_problem" not in facts_of(QWEN, gpu=P100, engine="vllm", image="vllm/vllm-openai-cpu:v0.11.0")[0]
    assert not problem("0.6.3", P100, args=(*QWEN, "--device=cpu"))["text"]
    assert "accelerator_problem" not in facts_of(QWEN, "0.6.3", gpu="", engine="vllm")[0]


def test_a_pod_that_may_land_on_a_device_that_works_is_left_alone() -> None:
    assert "accelerator-unsupported" in findings(allowing(P100, "Tesla-P4"))
    assert "accelerator-unsupported" not in findings(allowing(P100, T4))
    anything = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    assert "accelerator-unsupported" not in findings(allowing(P100, further=(anything,)))


def test_an_option_names_the_device() -> None:
    text = manifest(QWEN, "0.6.3", gpu=T4)
    assert "accelerator-unsupported" in findings(text, Settings(accelerator="P100-16GB"))
    assert "accelerator-unsupported" not in findings(text)


def test_formats_of_the_device_are_causes_of_their_own() -> None:
    """Another image, or an older one, would leave them."""
    args = (*QWEN, "--dtype=bfloat16", "--quantization=fp8", "--kv-cache-dtype=fp8_e4m3")
    formats = {"dtype-unsupported", "quantization-unsupported", "kv-cache-dtype-unsupported"}
    assert {"accelerator-unsupported", *formats} <= set(findings(manifest(args, "0.33.0", gpu=V100)))
    found = findings(manifest(args, "0.19.1", gpu=V100))
    assert "accelerator-unsupported" not in found
    assert formats <= set(found)


def test_products_without_kernels_are_not_proposed() -> None:
    (said,) = messages(manifest((*QWEN, "--dtype=half"), "0.33.0", gpu=""), "accelerator-unknown")
    assert "RTX-2060" in said
    assert "M60" not in said
    assert "P4," not in said
