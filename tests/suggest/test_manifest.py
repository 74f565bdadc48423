"""What manifests of suggestions are made of."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, strategies

from planner.suggest.manifest import name_of, scalar, volume_bytes
from planner.units import GIB


@given(strategies.text(min_size=1, max_size=40))
def test_a_scalar_is_read_back_as_the_same_text(text: str) -> None:
    document = f"- {scalar(text)}\n- {{key: {scalar(text)}}}\n"
    assert yaml.safe_load(document) == [text, {"key": text}]


@pytest.mark.parametrize(
    "text",
    [
        "--max-model-len=8192",
        "Qwen/Qwen3-8B",
        "$(LWS_LEADER_ADDRESS)",
        "NVIDIA-L4",
        '--x={"a": 1}',
        "1e3",
        "no",
        "0x10",
        "a: b",
    ],
)
def test_words_of_command_lines(text: str) -> None:
    assert yaml.safe_load(f"- {scalar(text)}") == [text]


@pytest.mark.parametrize("text", ["--max-model-len=8192", "Qwen/Qwen3-8B", "vllm/vllm-openai:v0.33.0", "NVIDIA-L4"])
def test_what_is_plain_needs_no_quotes(text: str) -> None:
    assert scalar(text) == text


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("Qwen/Qwen3-8B", "qwen3-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3-1-8b-instruct"),
        ("x/01-model", "llm-01-model"),
        ("x/vLLM", "vllm-llm"),
        ("x/" + "a" * 90, "a" * 40),
        ("/models/", "llm"),
    ],
)
def test_names_of_objects(model: str, name: str) -> None:
    assert name_of(model) == name


def test_a_claim_is_larger_than_the_weights() -> None:
    for weights in (GIB // 2, 15 * GIB, 750 * GIB):
        assert 1.15 * weights < volume_bytes(weights) <= 1.15 * weights + 8 * GIB
        assert volume_bytes(weights) % (5 * GIB) == 0
