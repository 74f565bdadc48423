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
    assert (found.warmup_requests, found.warmup_tokens) == (1, 8049)
    assert found.max_model_len.value == 131072
    half = effective(config("--cuda-memory-fraction 0.5 --cuda-graphs 0 --dtype float16"), model, accelerator, 1)
    assert half.gpu_memory_utilization.value == pytest.approx(0.45)
    assert half.capture_sizes == ()
    assert half.dtype.value == "float16"


def settled(
    line: str,
    name: str = "meta-llama/Llama-3.1-8B-Instruct",
    device: str = "L4",
    version: str = "3.3.7",
    env: dict[str, str] | None = None,
) -> TGIConfig:
    variables = {variable: from_file(value, PLACE) for variable, value in (env or {}).items()}
    given = parse_argv(shlex.split(line), version=from_default(version, "test"), env=variables)
    return effective(given, resolve(name).architecture, candidates(device)[0], 1)


@pytest.mark.parametrize(
    ("version", "share", "margin", "length", "prefill", "block"),
    [
        ("1.4.5", 1.0, 0.95, 2048, 4096, 16),
        ("2.2.0", 1.0, 0.95, 4096, 4145, 16),
        ("2.3.1", 1.0, 0.95, 4096, 4145, 1),
        ("2.4.1", 1.0, 0.9, 4096, 4096, 1),  # prompts are not split, so that none is longer than the warm-up's
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
    assert found.max_model_len_auto is (version >= "3")


def test_warmup_batch() -> None:
    """Prompts of the longest input fill the prefill batch, each with room for its answer."""
    found = settled("--max-batch-prefill-tokens 4096 --max-input-tokens 2000 --max-total-tokens 3000")
    assert (found.warmup_requests, found.warmup_tokens) == (3, 3 * 2999)  # the last token of an answer is not kept
    one = settled("--max-batch-prefill-tokens 4096 --max-input-tokens 2000 --max-batch-size 1")
    assert (one.warmup_requests, one.warmup_tokens) == (1, 2000)


def test_blocks_follow_the_attention_of_the_model() -> None:
    def size(name: str, device: str) -> int:
        block = settled("", name, device).block_size
        assert block is not None
        return block.value

    assert size("meta-llama/Llama-3.1-8B-Instruct", "L4") == 1
    assert size("microsoft/phi-2", "L4") == 256  # heads of 80
    assert size("microsoft/phi-2", "T4") == 16


@pytest.mark.parametrize(
    ("version", "env", "size", "read"),
    [
        ("2.1.0", {"FLASH_DECODING": "1"}, 16, False),  # came with 2.1.1
        ("2.1.1", {"FLASH_DECODING": "true"}, 256, True),
        ("2.2.0", {"FLASH_DECODING": "True"}, 256, True),
        ("2.2.0", {"FLASH_DECODING": "TRUE"}, 16, False),
        ("2.2.0", {"FLASH_DECODING": "0"}, 16, False),
        ("2.2.0", {"ATTENTION": "flashdecoding"}, 16, False),  # came with 2.3
        ("2.3.0", {"FLASH_DECODING": "1"}, 1, False),
        ("2.3.0", {"ATTENTION": "paged"}, 16, True),
        ("3.3.7", {"ATTENTION": "flashdecoding"}, 256, True),
        ("3.3.7", {"ATTENTION": "flashdecoding-ipex"}, 64, True),
    ],
)
def test_blocks_follow_the_variable_that_the_release_reads(
    version: str, env: dict[str, str], size: int, read: bool
) -> None:
    block = settled("", version=version, env=env).block_size
    assert block is not None
    assert block.value == size
    assert block.position == (PLACE if read else None)


def test_blocks_of_models_that_a_release_serves_otherwise() -> None:
    def size(version: str, name: str, device: str = "L4") -> int:
        block = settled("", name, device, version).block_size
        assert block is not None
        return block.value

    assert [size(version, "google/gemma-2-9b-it") for version in ("2.1.1", "2.2.0", "2.3.1", "2.4.1")] == [
        16,
        256,
        256,
        1,
    ]
    assert [size(version, "microsoft/phi-2", "T4") for version in ("2.3.0", "2.3.1")] == [256, 16]


def test_warmup_batch_takes_whole_blocks() -> None:
    flags = "--max-batch-prefill-tokens 4096 --max-input-tokens 2000 --max-total-tokens 3000"
    assert settled(flags, env={"ATTENTION": "flashdecoding"}).warmup_tokens == 3 * 3072
    assert settled(flags, env={"ATTENTION": "paged"}).warmup_tokens == 3 * 3008
    # Prompts of 2,000, 2,000 and 96 tokens.
    open_ended = "--max-batch-prefill-tokens 4096 --max-input-tokens 2000"
    assert settled(open_ended, env={"ATTENTION": "flashdecoding"}).warmup_tokens == 2 * 2048 + 256


@pytest.mark.parametrize(
    ("version", "env", "prefix", "chunked"),
    [
        ("2.2.0", {"PREFIX_CACHING": "1", "PREFILL_CHUNKING": "1"}, False, False),
        ("2.3.1", {"USE_PREFIX_CACHING": "0", "PREFILL_CHUNKING": "1"}, False, False),
        ("2.3.1", {"PREFIX_CACHING": "0"}, True, False),
        ("2.4.1", {}, True, False),
        ("2.4.1", {"PREFILL_CHUNKING": "true"}, True, True),
        ("3.3.7", {}, True, True),
        ("3.3.7", {"PREFILL_CHUNKING": "0", "PREFIX_CACHING": "false"}, False, False),
        ("3.3.7", {"ATTENTION": "paged"}, False, False),
    ],
)
def test_prefixes_and_split_prompts(version: str, env: dict[str, str], prefix: bool, chunked: bool) -> None:
    found = settled("", version=version, env=env)
    assert (found.prefix_caching.value, found.chunked_prefill.value) == (prefix, chunked)
    if version >= "2.4":
        # A release that splits no prompt serves none longer than its warm-up has seen.
        assert found.max_model_len_auto is chunked
        assert found.max_model_len.value == (131072 if chunked else found.max_num_batched_tokens.value)


def test_a_variable_of_unknown_value_is_a_gap() -> None:
    class Unset:
        value, secret, reason = None, False, "in a ConfigMap that was not read"
        node = None

    found = parse_argv(
        ["--model-id", "a/b"], version=from_default("3.3.7", "test"), env={"ATTENTION": Unset(), "OTHER": Unset()}
    )
    assert [gap.fact for gap in found.unknown] == ["engine.env.ATTENTION"]


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
