"""Releases out of image references."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.engines.image_versions import version_from_image


@pytest.mark.parametrize(
    ("engine", "ref", "expected"),
    [
        ("sglang", "lmsysorg/sglang:v0.4.6-cu124", "0.4.6"),
        ("sglang", "lmsysorg/sglang:v0.4.6.post5-cu124", "0.4.6.post5"),
        ("sglang", "docker.io/lmsysorg/sglang:v0.5.12-cu130", "0.5.12"),
        ("sglang", "lmsysorg/sglang:v0.5.12-rocm700-mi30x", "0.5.12"),
        ("sglang", "lmsysorg/sglang-rocm:v0.5.12-rocm720-mi35x-20260517", "0.5.12"),
        ("sglang", "lmsysorg/sglang:v0.5.9rc1", "0.5.9rc1"),
        ("sglang", "registry.local/mirror/sglang:0.5.3", "0.5.3"),
        ("sglang", "registry.local/llm:sglang-0.5.3-cuda", "0.5.3"),
        ("dynamo-sglang", "lmsysorg/sglang:v0.5.12", "0.5.12"),
        ("tgi", "ghcr.io/huggingface/text-generation-inference:3.3.7", "3.3.7"),
        ("tgi", "ghcr.io/huggingface/text-generation-inference:2.4.1-rocm", "2.4.1"),
        ("trtllm", "nvcr.io/nvidia/tensorrt-llm/release:1.0.0rc4", "1.0.0rc4"),
        ("vllm", "vllm/vllm-openai:v0.11.0", "0.11.0"),
        ("sglang", "nvcr.io/nvidia/ai-dynamo/sglang-runtime:1.3.0", "0.5.14"),
        ("dynamo-sglang", "nvcr.io/nvidia/ai-dynamo/sglang-runtime:0.9.1-cuda13", "0.5.8"),
        ("trtllm", "nvcr.io/nvidia/ai-dynamo/tensorrtllm-runtime:1.3.0", "1.3.0rc19"),
    ],
)
def test_tags_that_tell(engine: str, ref: str, expected: str) -> None:
    key, text, reason = version_from_image(engine, ref)
    assert text == expected
    assert key
    assert reason


@pytest.mark.parametrize(
    ("engine", "ref", "words"),
    [
        ("sglang", "lmsysorg/sglang:latest", "names no version"),
        ("sglang", "lmsysorg/sglang:nightly-dev-cu13-20260710-cfc66e05", "names no version"),
        ("sglang", "lmsysorg/sglang:deepseek-v4-hopper", "names no version"),
        ("sglang", "lmsysorg/sglang", "no tag"),
        ("sglang", "nvcr.io/nvidia/sglang:25.10-py3", "NVIDIA numbers"),
        ("sglang", "nvcr.io/nvidia/ai-dynamo/sglang-runtime:0.7.0", "Dynamo"),  # two pages disagree
        ("sglang", "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.6.1", "Dynamo"),
        ("sglang", "registry.local/my-llm:1.2.3", "need not be SGLang's"),
        ("sglang", "$(IMAGE)", "placeholder"),
        ("tgi", "ghcr.io/huggingface/text-generation-inference:sha-1734540", "names no version"),
    ],
)
def test_tags_that_do_not(engine: str, ref: str, words: str) -> None:
    key, text, reason = version_from_image(engine, ref)
    assert (key, text) == (None, "")
    assert words in reason


@given(st.sampled_from(["sglang", "tgi", "trtllm", "vllm", "ollama"]), st.text(max_size=80))
def test_never_raises(engine: str, ref: str) -> None:
    version_from_image(engine, ref)
