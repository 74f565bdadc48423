"""TGI: command lines, variables and defaults."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.accelerators.catalog import candidates
from planner.engines.config import EngineConfig, Word
from planner.engines.tgi import parse, parse_argv
from planner.engines.tgi_config import TGIConfig
from planner.engines.tgi_defaults import effective, parallelism
from planner.models.resolve import resolve
from planner.provenance import Position, from_default, from_file

PLACE = Position("a.yaml", 7, 3)


def config(line: str, env: dict[str, str] | None = None) -> EngineConfig:
    variables: dict[str, Any] = {name: from_file(value, PLACE) for name, value in (env or {}).items()}
    return parse_argv(shlex.split(line), version=from_default("3.3.7", "test"), env=variables)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--model-id a/b --num-shard 2", {"model-id": "a/b", "num-shard": 2}),
        ("--max-input-length=4000 --max-total-tokens 8192", {"max-input-tokens": 4000, "max-total-tokens": 8192}),
        ("--sharded false -p 80", {"sharded": False, "port": 80}),
    ],
)
def test_values(line: str, expected: dict[str, Any]) -> None:
    assert {name: flag.value for name, flag in config(line).flags.items()} == expected


def test_variables_stand_in_for_arguments() -> None:
    found = config(
        "--num-shard 2", {"MODEL_ID": "a/b", "NUM_SHARD": "4", "MAX_INPUT_LENGTH": "4000", "TRUST_REMOTE_CODE": "true"}
    )
    assert found.get("num-shard") == 2
    assert found.get("max-input-tokens") == 4000
    assert found.get("trust-remote-code") is True
    assert found.flags["max-input-tokens"].position == PLACE
    assert found.model is not None
    assert (found.model.value, found.model.position) == ("a/b", PLACE)


def test_what_it_refuses() -> None:
    messages = [message for _, message in config("--max-model-len 3 a/b", {"NUM_SHARD": "two"}).argument_problems]
    assert messages == [
        "unrecognized arguments: --max-model-len",
        "unexpected argument 'a/b'",
        "NUM_SHARD: invalid int value: 'two'",
    ]


def test_model_is_unknown_without_one() -> None:
    assert [gap.fact for gap in config("").unknown] == ["model"]


def test_program_is_no_argument() -> None:
    words = [Word(text, None) for text in ("text-generation-launcher", "--model-id", "a/b")]
    assert parse(words, version=from_default("3.3.7", "test")).argument_problems == ()


def test_shards() -> None:
    assert parallelism(config("--num-shard 4"), 8).tensor == 4
    assert parallelism(config(""), 8).tensor == 8
    assert parallelism(config("--sharded false"), 8).tensor == 1


def test_defaults() -> None:
    model, accelerator = resolve("meta-llama/Llama-3.1-8B-Instruct").architecture, candidates("L4")[0]
    found = effective(config("", {"TGI_WIGGLE_ROOM": "0.8"}), model, accelerator, 1)
    assert found.gpu_memory_utilization.value == pytest.approx(0.8)
    # 121 × 10¹² operations, of which a token takes 2 × 3 × 4096 × 14336 + 2 × 128 × 4096 × (3 × 32 + 2 × 8) in each layer.
    assert found.max_num_batched_tokens.value == 8049
    assert (found.warmup_requests, found.warmup_tokens) == (1, 8050)
    assert found.max_model_len.value == 131072
    half = effective(config("--cuda-memory-fraction 0.5 --cuda-graphs 0 --dtype float16"), model, accelerator, 1)
    assert half.gpu_memory_utilization.value == pytest.approx(0.45)
    assert half.capture_sizes == ()
    assert half.dtype.value == "float16"


def settled(
    line: str, name: str = "meta-llama/Llama-3.1-8B-Instruct", device: str = "L4", version: str = "3.3.7"
) -> TGIConfig:
    given = parse_argv(shlex.split(line), version=from_default(version, "test"))
    return effective(given, resolve(name).architecture, candidates(device)[0], 1)


@pytest.mark.parametrize(
    ("version", "share", "margin", "length", "prefill", "block"),
    [
        ("1.4.5", 1.0, 0.95, 2048, 4096, 16),
        ("2.2.0", 1.0, 0.95, 4096, 4145, 16),
        ("2.3.1", 1.0, 0.95, 4096, 4145, 1),
        ("2.4.1", 1.0, 0.9, 131072, 4096, 1),
        ("3.0.1", 0.95, 1.0, 131072, 8049, 1),
        ("3.2.3", 0.93, 1.0, 131072, 8049, 1),
        ("3.3.7", 0.9, 1.0, 131072, 8049, 1),
    ],
)
def test_defaults_by_release(version: str, share: float, margin: float, length: int, prefill: int, block: int) -> None:
    found = settled("", version=version)
    assert found.gpu_memory_utilization.value == pytest.approx(share)
    assert found.margin_of_free == pytest.approx(margin)
    assert (found.max_model_len.value, found.max_num_batched_tokens.value) == (length, prefill)
    assert found.block_size is not None
    assert found.block_size.value == block
    assert found.max_model_len_auto is (version >= "2.4")


def test_warmup_batch() -> None:
    """Prompts of the longest input fill the prefill batch, each with room for its answer."""
    found = settled("--max-batch-prefill-tokens 4096 --max-input-tokens 2000 --max-total-tokens 3000")
    assert (found.warmup_requests, found.warmup_tokens) == (3, 9000)
    one = settled("--max-batch-prefill-tokens 4096 --max-input-tokens 2000 --max-batch-size 1")
    assert (one.warmup_requests, one.warmup_tokens) == (1, 2001)


def test_blocks_follow_the_attention_of_the_model() -> None:
    def size(name: str, device: str) -> int:
        block = settled("", name, device).block_size
        assert block is not None
        return block.value

    assert size("meta-llama/Llama-3.1-8B-Instruct", "L4") == 1
    assert size("microsoft/phi-2", "L4") == 256  # heads of 80
    assert size("microsoft/phi-2", "T4") == 16


def test_prefill_default_where_nothing_is_known_of_the_card() -> None:
    assert settled("", device="RTX-3090").max_num_batched_tokens.value == 4096
    assert settled("", "TinyLlama/TinyLlama-1.1B-Chat-v1.0", "A100-80GB").max_num_batched_tokens.value == 2048


def test_online_quantization_by_bits() -> None:
    assert settled("--quantize eetq").quantization == "experts_int8"
    assert settled("--quantize bitsandbytes").quantization == "experts_int8"
    assert settled("--quantize bitsandbytes-nf4").quantization == "bitsandbytes"


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.text(max_size=20)),
    st.dictionaries(st.sampled_from(["NUM_SHARD", "MODEL_ID", "CUDA_GRAPHS"]), st.text(max_size=20)),
)
def test_never_raises(words: list[str], env: dict[str, str]) -> None:
    variables = {name: from_file(value, PLACE) for name, value in env.items()}
    found = parse_argv(words, version=from_default("x", "test"), env=variables)
    effective(found, resolve("Qwen/Qwen3-8B").architecture, None)
