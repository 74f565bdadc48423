"""Tokens that public start-up logs print, from the memory that they print and the flags that were really given.

A log prints two decimals of a GiB: the tokens must lie between those of both ends of what rounds to it (and within 0.03 %
of them, which is two blocks of the largest pool here).
"""

from __future__ import annotations

import pytest

from planner.memory.kv_cache import kv_plan, num_blocks, report
from planner.memory.vllm_budget import vllm_budget
from planner.units import GIB
from tests.memory.starts import start

GLM51 = "lukealonso/GLM-5.1-NVFP4-MTP"
MTP3 = """--speculative-config {"method":"mtp","num_speculative_tokens":3}"""
GLM51_FLAGS = "-tp 8 --max-model-len 202752 --max-num-seqs 64 --max-num-batched-tokens 8192 --kv-cache-dtype fp8"


@pytest.mark.parametrize(
    ("model", "gpu", "version", "flags", "available", "printed"),
    [
        # Recurrent layers keep one state while prefixes are not cached, which is the default until 0.27.
        ("moonshotai/Kimi-K3", "H200", "0.27.1", "-tp 16 --max-model-len 29696", 0.82, 30_062),
        (
            "Qwen/qwen3.6-35b-a3b-nvfp4",
            "RTX-5090",
            "0.24.0",
            "--max-model-len 131072 --max-num-seqs 1 --max-num-batched-tokens 8192 --kv-cache-dtype fp8 --enable-prefix-caching",
            5.98,
            567_978,
        ),
        (
            "Qwen/Qwen3.8-Flash-Next",
            "H100-80GB",
            "0.31.1",
            "-tp 8 --enable-expert-parallel --max-model-len 262144 --max-num-seqs 64 --max-num-batched-tokens 8192 "
            "--no-enable-prefix-caching --language-model-only",
            37.37,
            3_046_184,
        ),
        # Pages of several sizes side by side, counted by the workers' groups before 0.27.
        (
            "nvidia/DeepSeek-V4-Flash-NVFP4",
            "RTX-PRO-6000",
            "0.24.0",
            f"-tp 2 --max-model-len 131072 --max-num-batched-tokens 2048 {MTP3.replace('3}', '1}')}",
            5.14,
            546_872,
        ),
        (
            "zai-org/GLM-5.3-Flash",
            "H100-80GB",
            "0.30.0",
            "-tp 8 --enable-expert-parallel --max-model-len 262144 --max-num-seqs 256 --max-num-batched-tokens 8192",
            23.26,
            2_099_654,
        ),
        # Decode context parallelism splits the tokens over ranks, draft layers have a cache of their own.
        (GLM51, "RTX-PRO-6000", "0.20.2", GLM51_FLAGS, 19.55, 341_504),
        (GLM51, "RTX-PRO-6000", "0.20.2", f"{GLM51_FLAGS} {MTP3}", 18.51, 319_232),
        (GLM51, "RTX-PRO-6000", "0.20.2", f"{GLM51_FLAGS} --decode-context-parallel-size 2", 19.47, 680_192),
        (GLM51, "RTX-PRO-6000", "0.20.2", f"{GLM51_FLAGS} --decode-context-parallel-size 2 {MTP3}", 18.42, 635_520),
        (GLM51, "RTX-PRO-6000", "0.20.2", f"{GLM51_FLAGS} --decode-context-parallel-size 8", 19.47, 2_720_768),
        (GLM51, "RTX-PRO-6000", "0.20.2", f"{GLM51_FLAGS} --decode-context-parallel-size 8 {MTP3}", 14.15, 1_952_256),
        (GLM51, "RTX-PRO-6000", "0.20.2", f"{GLM51_FLAGS} --decode-context-parallel-size 4 {MTP3}", 18.42, 1_271_040),
    ],
)
def test_tokens(model: str, gpu: str, version: str, flags: str, available: float, printed: int) -> None:
    of = start(model, gpu, version, flags)
    plan = kv_plan(of.model, of.config, 0, of.accelerator.capability)
    ends = [
        report(plan, num_blocks(plan, int((available + off) * GIB), of.config.version), of.config)[0]
        for off in (-0.005, 0.005)
    ]
    assert ends[0] * 0.9997 <= printed <= ends[1] * 1.0003


@pytest.mark.parametrize(
    ("model", "gpu", "version", "states"),
    [
        ("Qwen/Qwen3.5-27B", "H100-80GB", "0.27.1", 1),  # prefixes are not cached by default
        ("Qwen/Qwen3.5-27B", "H100-80GB", "0.28.0", 2),
        ("Qwen/Qwen3.5-27B", "H100-80GB", "0.32.0", 2),
        ("Qwen/Qwen3.5-27B", "H100-80GB", "0.33.0", 3),  # FlashInfer's delta rule saves states inside a prefill
        ("Qwen/Qwen3.5-27B", "A100-80GB", "0.33.0", 2),
        ("moonshotai/Kimi-K3", "H200", "0.28.0", 2),
        ("moonshotai/Kimi-K3", "H200", "0.29.0", 3),
        ("moonshotai/Kimi-K3", "A100-80GB", "0.29.0", 2),
        ("zai-org/GLM-5.3-Flash", "H200", "0.31.0", 2),
        ("zai-org/GLM-5.3-Flash", "H200", "0.32.0", 3),
    ],
)
def test_states_that_a_request_holds(model: str, gpu: str, version: str, states: int) -> None:
    of = start(model, gpu, version, "-tp 8")
    plan = kv_plan(of.model, of.config, 0, of.accelerator.capability)
    assert {group.fixed_blocks for group in plan.groups if group.kind == "state"} == {states}


@pytest.mark.parametrize(
    ("model", "gpu", "version", "flags", "low", "high"),
    [
        # 715,072 tokens on 8 H200 (vLLM's recipe of the model, 2025-11).
        ("moonshotai/Kimi-K2-Thinking", "H200", "0.11.2", "-tp 8", 0.98 * 715_072, 1.02 * 715_072),
        # 6,361,156 tokens on 24 H200 in three stages (2026-08).
        (
            "moonshotai/Kimi-K3",
            "H200",
            "0.27.1",
            "-tp 8 -pp 3 --max-model-len 1048576 --gpu-memory-utilization 0.93",
            0.97 * 6_361_156,
            1.03 * 6_361_156,
        ),
    ],
)
def test_tokens_end_to_end(model: str, gpu: str, version: str, flags: str, low: float, high: float) -> None:
    """Without the printed memory: public starts that no coefficient was fitted to."""
    of = start(model, gpu, version, flags)
    capacity = vllm_budget(of.model, of.config, of.accelerator).capacity
    assert capacity is not None
    assert low <= capacity.kv_tokens.expected <= high
