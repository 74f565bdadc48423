"""What an image reference tells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.engines.image import (
    ImageRef,
    engine_version_from_image,
    image_platform,
    is_pinned,
    is_placeholder,
    parse_image,
    sets_no_variables,
)
from planner.engines.version import parse_version


@pytest.mark.parametrize(
    ("ref", "parts"),
    [
        ("vllm/vllm-openai:v0.11.0", ("docker.io", "vllm/vllm-openai", "v0.11.0", "")),
        ("docker.io/vllm/vllm-openai", ("docker.io", "vllm/vllm-openai", "", "")),
        ("ubuntu:22.04", ("docker.io", "library/ubuntu", "22.04", "")),
        ("localhost:5000/a/b:c@sha256:ff", ("localhost:5000", "a/b", "c", "sha256:ff")),
        ("registry.example:5000/a", ("registry.example:5000", "a", "", "")),
        ("nvcr.io/nvidia/vllm:25.09-py3", ("nvcr.io", "nvidia/vllm", "25.09-py3", "")),
        ("", ("docker.io", "", "", "")),
    ],
)
def test_parts(ref: str, parts: tuple[str, str, str, str]) -> None:
    assert parse_image(ref) == ImageRef(*parts)


@pytest.mark.parametrize(
    ("ref", "key", "text"),
    [
        ("vllm/vllm-openai:v0.11.0", (0, 11, 0), "0.11.0"),
        ("vllm/vllm-openai:0.11.0-cu129", (0, 11, 0), "0.11.0"),
        ("vllm/vllm-openai:v0.6.3.post1", (0, 6, 3, 1), "0.6.3.post1"),
        ("vllm/vllm-openai:0.10.1.1", (0, 10, 1, 1), "0.10.1.1"),
        ("vllm/vllm-openai:v0.27.1@sha256:ab", (0, 27, 1), "0.27.1"),
        ("vllm/vllm-omni:v0.20.0", (0, 20, 0), "0.20.0"),
        ("vllm/vllm-openai-cpu:v0.23.0", (0, 23, 0), "0.23.0"),
        ("rocm/vllm:rocm6.4.1_vllm_0.9.1_20250702", (0, 9, 1), "0.9.1"),
        ("registry.example/aibrix/vllm-openai:lmcache-v0.8.5-20250418", (0, 8, 5), "0.8.5"),
        ("ghcr.io/x/vllm-openai:v0.10.0-cu128-nixl-v0.4.1-lmcache-0.3.2", (0, 10, 0), "0.10.0"),
        ("1.dkr.ecr.eu-west-1.amazonaws.com/vllm:0.10.2-gpu-py312-cu129-ubuntu22.04", (0, 10, 2), "0.10.2"),
        ("public.ecr.aws/x/ray-2.41.0-py310-cu118-vllm0.7.0:latest", (0, 7, 0), "0.7.0"),
        ("public.ecr.aws/neuron/pytorch-inference-vllm-neuronx:0.9.1-neuronx-py311-sdk2.26.1", (0, 9, 1), "0.9.1"),
        ("quay.io/x/vllm-openai-ubi9:0.4.2", (0, 4, 2), "0.4.2"),
        ("intel/vllm:0.10.0-xpu", (0, 10, 0), "0.10.0"),
    ],
)
def test_version(ref: str, key: tuple[int, ...], text: str) -> None:
    found, spelled, reason = engine_version_from_image(ref)
    assert (found, spelled) == (key, text)
    assert reason


def test_release_candidates_sort_before_their_release() -> None:
    candidate = engine_version_from_image("quay.io/ascend/vllm-ascend:v0.11.0rc1-a3")[0]
    assert candidate is not None
    assert (0, 10, 2) < candidate < (0, 11, 0)


@pytest.mark.parametrize(
    "ref",
    [
        "vllm/vllm-openai",
        "vllm/vllm-openai:latest",
        "vllm/vllm-openai:cu130-nightly",
        "vllm/vllm-openai:gemma4",
        "vllm/vllm-openai@sha256:0123",
        "nvcr.io/nvidia/vllm:25.09-py3",
        "ghcr.io/llm-d/llm-d-cuda:v0.3.0",
        "registry.redhat.io/rhaiis/vllm-cuda-rhel9:3.2.1",
        "opea/vllm-gaudi:1.22.0",
        "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.5.0",  # no release that the support matrix lists
        "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.3.0-kimi-k2.6-dev.1",
        "nvcr.io/nvidia/ai-dynamo/kubernetes-operator:0.8.0",
        "nvcr.io/nvidia/ai-dynamo/vllm-runtime:my-tag",
        "example.org/ai-dynamo/vllm-runtime:0.8.0",
        "lmcache/vllm-openai:v0.3.9",
        "quay.io/x/vllm-dev-pplx:0.0.19",
        "quay.io/x/vllm-cpu-openai-ubi9:0.3",
        "ghcr.io/acme/vllm-server:1.2.3",
        "us-docker.pkg.dev/x/pytorch-vllm-serve:20250312_0916_RC01",
        "$(vllm-image)",
        "vllm/vllm-openai:<VLLM_TAG>",
        "",
    ],
)
def test_version_is_unknown(ref: str) -> None:
    key, text, reason = engine_version_from_image(ref)
    assert (key, text) == (None, "")
    assert reason


@pytest.mark.parametrize(
    ("ref", "pinned"),
    [
        ("vllm/vllm-openai", False),
        ("vllm/vllm-openai:latest", False),
        ("vllm/vllm-openai:nightly", False),
        ("vllm/vllm-openai:cu130-nightly", False),
        ("vllm/vllm-openai:main", False),
        ("a/b:dev", False),
        ("vllm/vllm-openai:v0.11.0", True),
        ("vllm/vllm-openai:latest@sha256:0123", True),
        ("vllm/vllm-openai:nightly-0123456789abcdef0123456789abcdef01234567", True),
        ("vllm/vllm-openai:sha-0a51ea5", True),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda-b10236", True),
        ("nvcr.io/nvidia/vllm:25.09-py3", True),
        ("replaced-by-kustomize", True),
        ("${IMAGE}", True),
    ],
)
def test_pinned(ref: str, pinned: bool) -> None:
    assert is_pinned(ref) is pinned


@pytest.mark.parametrize(
    ("ref", "platform"),
    [
        ("vllm/vllm-openai:v0.11.0", "cuda"),
        ("vllm/vllm-openai-rocm:nightly", "rocm"),
        ("rocm/vllm:latest", "rocm"),
        ("vllm/vllm-tpu:nightly", "tpu"),
        ("opea/vllm-gaudi:1.22.0", "gaudi"),
        ("vault.habana.ai/gaudi-docker/1.19.0/habanalabs/vllm-fork:latest", "gaudi"),
        ("public.ecr.aws/neuron/pytorch-inference-vllm-neuronx:0.9.1", "neuron"),
        ("quay.io/ascend/vllm-ascend:v0.11.0rc1", "ascend"),
        ("docker.io/lmsysorg/sglang:v0.5.6-cann8.3.rc1-910b", "ascend"),
        ("intel/vllm:0.10.0-xpu", "xpu"),
        ("public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.9.1", "cpu"),
        ("docker.io/vllm/vllm-openai-cpu:v0.23.0", "cpu"),
        ("$(vllm-spyre-image)", "spyre"),
        ("acme/gpucpuless:1", "cuda"),
        ("opea/vllm:latest", "cpu"),
        ("opea/vllm-gaudi:1.4", "gaudi"),
    ],
)
def test_platform(ref: str, platform: str) -> None:
    assert image_platform(ref) == platform


def test_placeholders() -> None:
    for ref in (
        "",
        "$(image)",
        "${A}/b:${C}",
        "V_IMAGE_NAME",
        "my-registry/vllm:my-tag",
        "<your-image>",
        "{{ .image }}",
    ):
        assert is_placeholder(ref), ref
    assert not is_placeholder("vllm/vllm-openai:v0.11.0")
    assert sets_no_variables("vllm/vllm-openai:v0.11.0")
    assert not sets_no_variables("acme/own:1")


@given(st.text(alphabet="abvl0123456789.:/@-_${}<> \n", max_size=60))
def test_no_reference_breaks(ref: str) -> None:
    parse_image(ref)
    engine_version_from_image(ref)
    assert isinstance(is_pinned(ref), bool)
    assert image_platform(ref)


@pytest.mark.parametrize(
    ("tag", "version"),
    [("0.7.1", "0.11.0"), ("v0.8.1", "0.12.0"), ("0.8.1-cuda13", "0.12.0"), ("1.2.0-cuda12.9-arm64", "0.20.1"),
     ("1.3.0", "0.23.0"), ("1.4.2-enterprise", "0.26.0")],
)  # fmt: skip
def test_an_image_of_dynamo_holds_the_vllm_that_its_support_matrix_lists(tag: str, version: str) -> None:
    key, text, reason = engine_version_from_image(f"nvcr.io/nvidia/ai-dynamo/vllm-runtime:{tag}")
    assert (key, text) == (parse_version(version), version)
    assert "Dynamo" in reason
