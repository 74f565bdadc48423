"""TensorRT-LLM: command lines, YAML options and defaults."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.engines.config import EngineConfig, Word
from planner.engines.trtllm import parse, parse_argv
from planner.engines.trtllm_defaults import effective, parallelism
from planner.models.resolve import resolve
from planner.provenance import Position, from_default

OPTIONS = """\
tensor_parallel_size: 8
moe_expert_parallel_size: 4
enable_attention_dp: true
max_batch_size: 64
kv_cache_config:
  free_gpu_memory_fraction: 0.8
  dtype: fp8
  max_tokens: 100000
cuda_graph_config:
  enable_padding: true
"""


class File:
    """A stand-in for the node of a mounted file."""

    def __init__(self, text: str) -> None:
        self.text = text

    def position_at(self, offset: int) -> Position:
        return Position("options.yaml", self.text[:offset].count("\n") + 1, 1)


def config(line: str, options: str | None = None) -> EngineConfig:
    words = [Word(text, None) for text in shlex.split(line)]
    files: dict[str, Any] = {"/o.yaml": File(options)} if options is not None else {}
    return parse(words, version=from_default("1.0.0", "test"), files=files)


@pytest.mark.parametrize(
    "line",
    [
        "trtllm-serve serve a/b --tp_size 4 --kv_cache_free_gpu_memory_fraction 0.8",
        "trtllm-serve a/b --tp_size 4 --free_gpu_memory_fraction=0.8",
        "serve a/b --tensor-parallel-size 4 --kv-cache-free-gpu-memory-fraction 0.8",
    ],
)
def test_values(line: str) -> None:
    found = config(line)
    assert found.model is not None
    assert found.model.value == "a/b"
    assert found.get("tp-size") == 4
    assert found.get("kv-cache-free-gpu-memory-fraction") == 0.8
    assert found.argument_problems == ()


def test_options_override_the_command_line() -> None:
    found = config("trtllm-serve a/b --tp_size 2 --max_batch_size 8 --extra_llm_api_options /o.yaml", OPTIONS)
    assert found.get("tp-size") == 8
    assert found.get("max-batch-size") == 64
    assert found.get("kv-cache-free-gpu-memory-fraction") == 0.8
    assert found.get("kv-cache-max-tokens") == 100000
    assert found.flags["tp-size"].position == Position("options.yaml", 1, 1)
    assert parallelism(found).tensor == 8


def test_options_that_are_missing_hide_arguments() -> None:
    found = config("trtllm-serve a/b --config /elsewhere.yaml")
    assert "engine.arguments" in {gap.fact for gap in found.unknown}


def test_options_that_are_no_yaml() -> None:
    assert "options file" in config("trtllm-serve a/b --config /o.yaml", "- 1\n").argument_problems[0][1]


def test_defaults() -> None:
    model = resolve("Qwen/Qwen3-32B").architecture
    found = effective(config("trtllm-serve a/b --config /o.yaml", OPTIONS), model, None)
    assert (found.attention_data, found.expert_ranks, found.max_tokens) == (True, 4, 100000)
    assert found.kv_cache_dtype.value == "fp8_e4m3"
    plain = effective(config("trtllm-serve a/b"), model, None)
    assert plain.gpu_memory_utilization.value == 0.9
    assert plain.block_size is not None
    assert plain.block_size.value == 32
    assert plain.max_num_batched_tokens.value == 8192


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=20)), st.text(max_size=60))
def test_never_raises(words: list[str], options: str) -> None:
    files: dict[str, Any] = {"/o.yaml": File(options)}
    line = [Word(text, None) for text in ("trtllm-serve", "--config", "/o.yaml", *words)]
    found = parse(line, version=from_default("1.0.0", "test"), files=files)
    effective(found, resolve("Qwen/Qwen3-8B").architecture, None)
    parse_argv(words, version=from_default("1.0.0", "test"))
