"""Budgets of engines with one pool of blocks: TGI and TensorRT-LLM."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from planner.accelerators.catalog import candidates
from planner.engines.dispatch import engine_modules
from planner.memory.block_pool import token_bytes
from planner.memory.budget import MemoryBudget
from planner.models.resolve import resolve
from planner.provenance import assumed, from_default
from planner.units import GIB

LLAMA_8B, LLAMA_70B = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"
NEWEST = {"tgi": "3.3.7", "trtllm": "1.0.0"}


def budget(
    engine: str, name: str, device: str, line: str = "", version: str = "", *, gpus: int = 1, **options: Any
) -> MemoryBudget:
    modules = engine_modules(engine)
    assert modules is not None
    release = from_default(version or NEWEST[engine], "test")
    config = modules.parse_argv(shlex.split(line), version=release, model=assumed(name, "test"))
    model, accelerator = resolve(name).architecture, candidates(device)[0]
    settled = modules.effective(config, model, accelerator, gpus, 1)
    return modules.budget(model, settled, accelerator, gpus_per_pod=gpus, **options)


def test_bytes_per_token() -> None:
    model = resolve("Qwen/Qwen3-8B").architecture
    assert token_bytes(model, 1, "bfloat16", range(36)) == (36 * 8 * 256 * 2, 36, "")
    assert token_bytes(model, 16, "fp8_e4m3", range(36)) == (36 * 256, 36, "")
    latent = resolve("deepseek-ai/DeepSeek-V3").architecture
    assert token_bytes(latent, 8, "bfloat16", range(61))[0] == 70_272


def test_tgi_subtracts_from_a_share_of_the_total() -> None:
    found = budget("tgi", "meta-llama/Llama-3.1-8B-Instruct", "L4")
    terms = {name: term.bytes.expected for name, term in found.ranks[0].terms.items()}
    left = int(0.9 * terms["device"]) - terms["baseline"] - terms["weights"] - terms["activations"] - terms["non_torch"]
    assert terms["requested"] == pytest.approx(0.9 * terms["device"], rel=1e-6)
    assert terms["kv_available"] == pytest.approx(left, abs=2)
    assert found.capacity is not None
    assert found.capacity.kv_tokens.low < found.capacity.kv_tokens.expected < found.capacity.kv_tokens.high


def test_trtllm_takes_a_fraction_of_what_is_free() -> None:
    half = budget("trtllm", "Qwen/Qwen3-8B", "H100-80GB", "--free_gpu_memory_fraction 0.45")
    whole = budget("trtllm", "Qwen/Qwen3-8B", "H100-80GB", "--free_gpu_memory_fraction 0.9")
    sizes = [found.ranks[0].bytes("kv_available").expected for found in (half, whole)]
    assert sizes[1] == pytest.approx(2 * sizes[0], rel=1e-6)


@pytest.mark.parametrize("engine", ["tgi", "trtllm"])
def test_verdicts(engine: str) -> None:
    assert budget(engine, "meta-llama/Llama-3.1-70B-Instruct", "L4").verdict == "does-not-fit"
    assert budget(engine, "Qwen/Qwen3-8B", "H100-80GB").verdict == "fits"


@pytest.mark.parametrize("engine", ["tgi", "trtllm"])
def test_caches_that_are_not_known_have_no_verdict(engine: str) -> None:
    found = budget(engine, "Qwen/Qwen3.5-9B", "H100-80GB")
    assert (found.verdict, found.capacity) == ("unknown", None)
    assert any("recurrent" in note for note in found.notes)


def test_stages_and_shards() -> None:
    found = budget("trtllm", "Qwen/Qwen3-32B", "H100-80GB", "--tp_size 2 --pp_size 2", gpus=4)
    assert [rank.pipeline_rank for rank in found.ranks] == [0, 0, 1, 1]
    assert found.ranks[0].bytes("weights").expected < 20 * GIB


@pytest.mark.parametrize("engine", ["tgi", "trtllm"])
@pytest.mark.parametrize(
    ("name", "device", "verdict"),
    [
        (LLAMA_8B, "H100-80GB", "fits"),
        (LLAMA_8B, "L40S", "fits"),
        (LLAMA_8B, "T4", "does-not-fit"),
        (LLAMA_70B, "H100-80GB", "does-not-fit"),
    ],
)
def test_verdict_where_both_ends_agree(engine: str, name: str, device: str, verdict: str) -> None:
    found = budget(engine, name, device)
    assert found.verdict == verdict
    for rank in found.ranks:
        for term in rank.terms.values():
            assert term.bytes.low <= term.bytes.expected <= term.bytes.high, term.name


def test_tgi_cache_is_at_least_the_warm_up_batch() -> None:
    """The blocks of the warm-up are counted back, so that a small share still starts."""
    found = budget("tgi", LLAMA_8B, "L4", "--cuda-memory-fraction 0.75 --max-batch-prefill-tokens 1024")
    size = found.ranks[0].bytes("kv_available")
    assert size.expected == 1024 * 131_072
    assert found.capacity is not None
    assert found.capacity.kv_tokens.expected == 1024


def test_tgi_fails_where_the_warm_up_batch_has_no_room() -> None:
    line = "--max-input-tokens 100 --max-total-tokens 131072 --max-batch-prefill-tokens 4096"
    found = budget("tgi", LLAMA_8B, "H100-80GB", line)  # 41 prompts with an answer of 131,072 tokens each
    assert found.verdict == "does-not-fit"
    assert found.ranks[0].bytes("kv_available").high < 0


def test_tgi_tokens_of_a_public_start() -> None:
    """Mistral-7B on an A10G: "Setting max batch total tokens to 43808" (an Amazon SageMaker HyperPod tutorial, TGI 2)."""
    found = budget("tgi", "mistralai/Mistral-7B-Instruct-v0.1", "A10G", "", "2.2.0").capacity
    assert found is not None
    assert found.kv_tokens.expected == pytest.approx(43_808, rel=0.1)
    assert found.kv_tokens.low <= 43_808 <= found.kv_tokens.high


def test_tgi_lowers_the_length_to_the_pool() -> None:
    found = budget("tgi", LLAMA_8B, "L4")
    assert found.fitted_length is not None
    assert found.capacity is not None
    assert found.fitted_length.expected == found.capacity.kv_tokens.expected < 131_072
    stated = budget("tgi", LLAMA_8B, "L4", "--max-total-tokens 8192")
    assert stated.fitted_length is None


def test_trtllm_cache_is_a_fraction_of_what_is_free() -> None:
    terms = budget("trtllm", LLAMA_8B, "H100-80GB", "--kv_cache_free_gpu_memory_fraction 0.5").ranks[0].terms
    used = sum(terms[n].bytes.expected for n in ("baseline", "weights", "activations", "non_torch", "graphs"))
    free = terms["device"].bytes.expected - used
    assert terms["kv_available"].bytes.expected == pytest.approx(free / 2, rel=1e-6)
    assert terms["outside"].bytes.expected == pytest.approx(free / 2 + terms["baseline"].bytes.expected, rel=1e-6)


def test_trtllm_cache_of_a_public_start() -> None:
    """DeepSeek-R1 on eight H200: "Peak memory … 91.46 GiB, available KV cache memory … 41.11 GiB, fraction is set 0.85, kv
    size is 35136. device total memory 139.81 GiB"."""
    line = "--tp_size 8 --kv_cache_free_gpu_memory_fraction 0.85 --kv-cache-dtype fp8"
    found = budget("trtllm", "deepseek-ai/DeepSeek-R1", "H200", line)
    pool, plan = found.ranks[0].bytes("kv_available"), found.ranks[0].kv
    assert pool.low <= 41.11 * GIB <= pool.high
    assert plan is not None
    assert plan.bytes_per_token == 35_136


@pytest.mark.parametrize(
    ("line", "version", "reason"),
    [
        ("--backend tensorrt", "1.0.0", "backend tensorrt"),
        ("", "0.19.0", "before 1.0"),
    ],
)
def test_trtllm_says_what_it_does_not_evaluate(line: str, version: str, reason: str) -> None:
    found = budget("trtllm", LLAMA_8B, "H100-80GB", line, version)
    assert found.verdict == "unknown"
    assert reason in found.notes[-1]


@pytest.mark.parametrize("engine", ["tgi", "trtllm"])
def test_given_cache(engine: str) -> None:
    found = budget(engine, LLAMA_8B, "H100-80GB", kv_cache_memory=131_072 * 6400)
    assert found.capacity is not None
    assert found.capacity.kv_tokens.expected == 6400
    assert found.verdict == "fits"
