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
from planner.provenance import assumed
from planner.units import GIB


def budget(engine: str, name: str, device: str, line: str = "", gpus: int = 1, **options: Any) -> MemoryBudget:
    modules = engine_modules(engine)
    assert modules is not None
    config = modules.parse_argv(shlex.split(line), version=assumed("1.0.0", "test"), model=assumed(name, "test"))
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
    left = terms["requested"] - terms["baseline"] - terms["weights"] - terms["activations"] - terms["non_torch"]
    assert terms["requested"] == pytest.approx(0.9 * terms["device"], rel=1e-6)
    assert terms["kv_available"] == left
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
    found = budget("trtllm", "Qwen/Qwen3-32B", "H100-80GB", "--tp_size 2 --pp_size 2", 4)
    assert [rank.pipeline_rank for rank in found.ranks] == [0, 0, 1, 1]
    assert found.ranks[0].bytes("weights").expected < 20 * GIB
