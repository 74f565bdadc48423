"""EngineConfig → EffectiveConfig: what vLLM makes of its arguments, against facts of the releases and golden data."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.accelerators.accelerator import Accelerator
from planner.engines.config import EffectiveConfig, Parallelism
from planner.engines.vllm import parse_argv
from planner.engines.vllm_defaults import derived_length, effective, parallelism
from planner.estimate import exactly
from planner.models.architecture import (
    ChunkedLocal,
    Format,
    FullAttention,
    LatentAttention,
    Layer,
    ModelArchitecture,
    RecurrentState,
    SlidingWindow,
    UnknownModel,
)
from planner.models.config import architecture
from planner.provenance import from_default
from planner.units import GIB

SHARED = Path(__file__).resolve().parents[2].parent / "shared"

FULL = FullAttention(32, 8, 128, 128)
WINDOW = SlidingWindow(32, 8, 128, 128, 1024)
CHUNKED = ChunkedLocal(32, 8, 128, 128, 8192)
STATE = RecurrentState("mamba2", ())
LATENT = LatentAttention(128, 512, 64, 128, 128)
SPARSE = LatentAttention(128, 512, 64, 128, 128, indexer_dim=128)

GPUS = {
    "T4": ((7, 5), 14.6),
    "L4": ((8, 9), 22.0),
    "L40S": ((8, 9), 44.4),
    "A100": ((8, 0), 79.25),
    "H100": ((9, 0), 79.2),
    "H200": ((9, 0), 139.8),
    "B200": ((10, 0), 178.4),
    "RTXPRO6000": ((12, 0), 95.0),
    "GB10": ((12, 1), 119.0),
}


def gpu(name: str | None) -> Accelerator | None:
    if name is None:
        return None
    capability, memory = GPUS[name]
    return Accelerator(name, "nvidia", exactly(int(memory * GIB)), capability, "")


def model(*attentions: Any, **changes: Any) -> ModelArchitecture:
    """A small dense Llama unless told otherwise."""
    facts: dict[str, Any] = {
        "id": "org/name",
        "architecture": "LlamaForCausalLM",
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_size": 4096,
        "vocab_size": 128256,
        "layers": tuple(Layer(a, ()) for a in (attentions or (FULL,))),
        "embedding": None,
        "head": None,
        "tied_embeddings": False,
        "formats": {"model": Format("model")},
        "derived_max_len": 131072,
        "max_len_key": "max_position_embeddings",
        "rope_type": "default",
        "heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
    }
    return ModelArchitecture(**{**facts, **changes})


def settle(
    line: str = "",
    version: str = "0.11.0",
    on: str | None = "H100",
    what: ModelArchitecture | None = None,
    env: dict[str, str] | None = None,
    platform: str = "cuda",
) -> EffectiveConfig:
    facts = {name: from_default(value, "test") for name, value in (env or {}).items()}
    config = parse_argv(line.split(), version=from_default(version, "test"), env=facts, platform=platform)
    return effective(config, what or model(), gpu(on), 1)


# ---- batches -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "on", "tokens", "sequences"),
    [
        ("0.6.3.post1", "H100", 131072, 256),
        ("0.8.0", "H100", 8192, 1024),
        ("0.8.0", "A100", 2048, 1024),
        ("0.8.3", "L4", 2048, 1024),
        ("0.8.4", "L4", 2048, 256),
        ("0.8.5", "L4", 2048, 256),
        ("0.8.5", "A100", 8192, 1024),
        ("0.9.0", "A100", 2048, 256),
        ("0.11.0", "H100", 8192, 1024),
        ("0.11.0", "L40S", 2048, 256),
        ("0.27.1", "B200", 8192, 1024),
        ("0.28.0", "B200", 16384, 1024),
        ("0.28.0", "H200", 8192, 1024),
        ("0.32.0", "GB10", 8192, 1024),
        ("0.33.0", "GB10", 2048, 256),
    ],
)
def test_batch_defaults(version: str, on: str, tokens: int, sequences: int) -> None:
    what = model(WINDOW) if version.startswith("0.6") else model()
    found = settle("", version, on, what)
    assert (found.max_num_batched_tokens.value, found.max_num_seqs.value) == (tokens, sequences)
    assert found.max_num_batched_tokens.provenance.source == "engine-default"


def test_unknown_accelerator_is_the_small_tier_and_says_so() -> None:
    found = settle("", "0.11.0", None)
    assert (found.max_num_batched_tokens.value, found.max_num_seqs.value) == (2048, 256)
    for fact in (found.max_num_batched_tokens, found.max_num_seqs):
        assert fact.provenance.source == "assumption"
        assert "accelerator is not known" in fact.provenance.text


@pytest.mark.parametrize(
    ("line", "version", "tokens", "sequences"),
    [
        ("--max-model-len 4 --max-num-seqs 8", "0.20.0", 32, 8),
        ("--max-num-batched-tokens 512", "0.11.1", 512, 512),
        ("--max-num-batched-tokens 512", "0.10.0", 512, 1024),
        ("--max-num-batched-tokens 512", "0.11.0", 512, 512),
        ("--no-enable-chunked-prefill", "0.20.0", 131072, 1024),
        ("--performance-mode throughput", "0.20.0", 16384, 2048),
        ("--performance-mode throughput --max-num-seqs 16", "0.20.0", 16384, 16),
        ("--max-num-batched-tokens 100 --max-num-seqs 200", "0.20.0", 100, 200),
    ],
)
def test_batches_settle_in_order(line: str, version: str, tokens: int, sequences: int) -> None:
    found = settle(line, version)
    assert (found.max_num_batched_tokens.value, found.max_num_seqs.value) == (tokens, sequences)


def test_experts_in_batches() -> None:
    line = "-dp 8 --enable-expert-parallel --all2all-backend deepep_low_latency"
    found = settle(line, "0.24.0", "H200", model(num_experts=256))
    assert (found.max_num_batched_tokens.value, found.max_num_seqs.value) == (256, 256)
    assert settle(line, "0.24.0", "H200").max_num_batched_tokens.value == 8192


@pytest.mark.parametrize(
    ("version", "line", "architecture", "batches"),
    [
        ("0.25.1", "", "LlamaForCausalLM", 1),
        ("0.26.0", "", "LlamaForCausalLM", 2),
        ("0.26.0", "--no-async-scheduling", "LlamaForCausalLM", 1),
        ("0.26.0", "-pp 2", "LlamaForCausalLM", 3),
        ("0.26.0", "-pp 4", "MixtralForCausalLM", 4),
        ("0.32.0", "-pp 4", "MixtralForCausalLM", 5),
    ],
)
def test_tokens_in_flight(version: str, line: str, architecture: str, batches: int) -> None:
    what = model(architecture=architecture, num_experts=8 if "Mixtral" in architecture else 0)
    found = settle(line, version, "H100", what)
    assert found.max_num_batched_tokens_in_flight == batches * 8192


# ---- lengths -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "version", "length"),
    [
        ({}, (0, 11, 0), 131072),
        ({"derived_max_len": 0}, (0, 11, 0), 2048),
        ({"rope_type": "llama3", "rope_factor": 8.0}, (0, 11, 0), 131072),
        ({"rope_type": "linear", "rope_factor": 4.0, "derived_max_len": 4096}, (0, 33, 0), 16384),
        ({"rope_type": "dynamic", "rope_factor": 2.0, "derived_max_len": 4096}, (0, 11, 0), 8192),
        ({"rope_type": "yarn", "rope_factor": 4.0, "original_max_len": 32768}, (0, 29, 0), 131072),
        (
            {"rope_type": "yarn", "rope_factor": 4.0, "original_max_len": 32768, "derived_max_len": 32768},
            (0, 29, 0),
            131072,
        ),
        (
            {"rope_type": "yarn", "rope_factor": 4.0, "original_max_len": 32768, "derived_max_len": 32768},
            (0, 30, 0),
            32768,
        ),
        ({"rope_type": "linear", "rope_factor": 8.0, "model_type": "gemma3_text"}, (0, 11, 0), 131072),
    ],
)
def test_derived_length(changes: dict[str, Any], version: tuple[int, ...], length: int) -> None:
    assert derived_length(model(**changes), version)[0] == length


def test_model_length() -> None:
    given_length = settle("--max-model-len 32K", "0.20.0").max_model_len
    assert given_length.value == 32768
    assert given_length.provenance.source == "option"
    phi = model(rope_type="longrope", rope_factor=1.0, original_max_len=4096)
    assert settle("", "0.11.0", what=phi).max_model_len.value == 131072
    assert settle("", "0.11.1", what=phi).max_model_len.value == 4096
    automatic = settle("--max-model-len auto", "0.20.0")
    assert automatic.max_model_len_auto
    assert automatic.max_model_len.value == 131072
    assert not settle("", "0.20.0").max_model_len_auto


# ---- types -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "version", "on", "changes", "dtype"),
    [
        ("", "0.11.0", "H100", {}, "bfloat16"),
        ("", "0.11.0", "T4", {}, "float16"),
        ("", "0.8.5", "T4", {}, "bfloat16"),
        ("--dtype bfloat16", "0.11.0", "T4", {}, "bfloat16"),
        ("--dtype half", "0.11.0", "H100", {}, "float16"),
        ("--dtype float", "0.11.0", "H100", {}, "float32"),
        ("", "0.8.5", "H100", {"dtype": "float32"}, "float16"),
        ("", "0.8.5", "H100", {"dtype": "float32", "model_type": "gemma2"}, "bfloat16"),
        ("", "0.11.0", "H100", {"dtype": "float32"}, "bfloat16"),
        ("", "0.11.0", "T4", {"dtype": "float32"}, "float16"),
        ("", "0.11.0", "H100", {"dtype": "float32", "pooling": True}, "float16"),
    ],
)
def test_dtype(line: str, version: str, on: str, changes: dict[str, Any], dtype: str) -> None:
    assert settle(line, version, on, model(**changes)).dtype.value == dtype


@pytest.mark.parametrize(
    ("line", "version", "quantization", "hint", "dtype"),
    [
        ("", "0.13.0", "modelopt", "fp8", "bfloat16"),
        ("", "0.14.0", "modelopt", "fp8", "fp8"),
        ("", "0.22.1", "modelopt_fp4", "nvfp4", "bfloat16"),
        ("", "0.23.0", "modelopt_fp4", "nvfp4", "nvfp4"),
        ("", "0.15.0", "compressed-tensors", "fp8", "bfloat16"),
        ("", "0.15.1", "compressed-tensors", "fp8", "fp8"),
        ("--kv-cache-dtype bfloat16", "0.19.1", "compressed-tensors", "fp8", "fp8"),
        ("--kv-cache-dtype bfloat16", "0.22.1", "compressed-tensors", "fp8", "bfloat16"),
        ("--kv-cache-dtype bfloat16", "0.19.1", "modelopt", "fp8", "bfloat16"),
        ("--kv-cache-dtype fp8_e5m2", "0.11.0", None, None, "fp8_e5m2"),
        ("--kv-cache-dtype auto", "0.11.0", None, None, "bfloat16"),
    ],
)
def test_cache_dtype(line: str, version: str, quantization: str | None, hint: str | None, dtype: str) -> None:
    what = model(quantization=quantization, kv_cache_dtype_hint=hint)
    assert settle(line, version, what=what).kv_cache_dtype.value == dtype


@pytest.mark.parametrize(
    ("line", "version", "on", "dtype"),
    [
        ("", "0.11.0", "H200", "fp8_ds_mla"),
        ("", "0.11.1", "H200", "bfloat16"),
        ("--kv-cache-dtype fp8", "0.17.1", "H200", "fp8_ds_mla"),
        ("--kv-cache-dtype fp8", "0.32.0", "H200", "fp8_ds_mla"),
        ("--kv-cache-dtype fp8", "0.32.0", "B200", "fp8"),
    ],
)
def test_cache_dtype_of_sparse_attention(line: str, version: str, on: str, dtype: str) -> None:
    assert settle(line, version, on, model(SPARSE, heads=128)).kv_cache_dtype.value == dtype


# ---- block size --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "line", "version", "on", "size"),
    [
        (model(), "", "0.11.0", "H100", 16),
        (model(), "--block-size 32", "0.11.0", "H100", 32),
        (model(LATENT), "", "0.11.0", "H100", 64),
        (model(LATENT), "", "0.11.0", "B200", 128),
        (model(LATENT), "", "0.17.1", "B200", 64),
        (model(LATENT), "", "0.17.1", "A100", 16),
        (model(LATENT), "", "0.32.0", "H100", 16),
        (model(LATENT), "--kv-cache-dtype fp8", "0.32.0", "H100", 64),
        (model(LATENT), "", "0.32.0", "B200", 32),
        (model(SPARSE), "", "0.32.0", "H100", 64),
    ],
)
def test_block_size(what: ModelArchitecture, line: str, version: str, on: str, size: int) -> None:
    found = settle(line, version, on, what).block_size
    assert found is not None
    assert found.value == size
    assert found.provenance.source == ("option" if line.startswith("--block") else "engine-default")


# ---- graphs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "version", "mode"),
    [
        ("", "0.7.3", "full_decode_only"),
        ("", "0.10.0", "piecewise"),
        ("", "0.11.0", "full_and_piecewise"),
        ("--enforce-eager", "0.11.0", "none"),
        ("-O0", "0.11.0", "none"),
        ("-O0", "0.13.0", "none"),
        ("-O1", "0.13.0", "piecewise"),
        ("-O2", "0.13.0", "full_and_piecewise"),
        ("-cc.cudagraph_mode=FULL_DECODE_ONLY", "0.13.0", "full_decode_only"),
        ("-cc.mode=0", "0.13.0", "none"),
        ("-cc.mode=0", "0.33.0", "full_decode_only"),
    ],
)
def test_graph_mode(line: str, version: str, mode: str) -> None:
    assert settle(line, version).cudagraph_mode == mode


@pytest.mark.parametrize(
    ("line", "version", "on", "count", "last"),
    [
        ("", "0.7.3", "H100", 35, 256),
        ("", "0.8.5", "H100", 67, 512),
        ("--max-num-seqs 256", "0.20.0", "H100", 51, 512),
        ("--max-num-seqs 1024", "0.20.0", "H100", 51, 512),
        ("--max-num-seqs 8", "0.20.0", "H100", 5, 16),
        ("--max-num-seqs 100", "0.32.0", "H100", 28, 200),
        ("--max-num-seqs 100", "0.33.0", "H100", 29, 200),
        ("", "0.28.0", "B200", 83, 1024),
        ("--max-num-batched-tokens 100 --max-num-seqs 100", "0.20.0", "H100", 16, 100),
        ("--max-num-batched-tokens 100 --max-num-seqs 100", "0.19.1", "H100", 15, 96),
        ("--cudagraph-capture-sizes 1 2 4 8", "0.20.0", "H100", 4, 8),
        ("--cuda-graph-sizes 64", "0.11.0", "H100", 11, 64),
        ("--max-cudagraph-capture-size 64", "0.20.0", "H100", 11, 64),
        ("--enforce-eager", "0.20.0", "H100", 0, None),
    ],
)
def test_capture_sizes(line: str, version: str, on: str, count: int, last: int | None) -> None:
    found = settle(line, version, on, model(WINDOW) if version == "0.7.3" else None).capture_sizes
    assert (len(found), found[-1] if found else None) == (count, last)
    assert list(found) == sorted(set(found))


def test_capture_sizes_with_drafts() -> None:
    line = "--max-num-seqs 4 --speculative-config.method mtp --speculative-config.num_speculative_tokens 2"
    first = settle(line, "0.20.0").capture_sizes
    assert all(size % 3 == 0 for size in first)
    assert first[-1] == 24
    second = settle(line, "0.32.0").capture_sizes
    assert {3, 6, 12} <= set(second)


# ---- caches, scheduling, generations -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "line", "version", "prefix", "mode"),
    [
        (model(), "", "0.7.3", False, "none"),
        (model(), "", "0.11.0", True, "none"),
        (model(), "--no-enable-prefix-caching", "0.11.0", False, "none"),
        (model(FULL, STATE), "", "0.25.1", False, "none"),
        # 0.26 and 0.27 support it for hybrids, but leave it off unless it is asked for (arg_utils.py of 0.27.1).
        (model(FULL, STATE, model_type="nemotron_h"), "", "0.27.1", False, "none"),
        (model(FULL, STATE, model_type="nemotron_h"), "--enable-prefix-caching", "0.26.0", True, "all"),
        (model(FULL, STATE, model_type="qwen3_next"), "--enable-prefix-caching", "0.27.1", True, "align"),
        (model(FULL, STATE, model_type="qwen3_next"), "", "0.28.0", True, "align"),
        (model(FULL, STATE, model_type="nemotron_h"), "", "0.28.0", True, "align"),
        (model(FULL, STATE, model_type="nemotron_h"), "--enable-prefix-caching", "0.20.0", True, "all"),
        (model(FULL, STATE), "--no-enable-prefix-caching", "0.32.0", False, "none"),
        (model(encoder_decoder=True), "", "0.11.0", False, "none"),
    ],
)
def test_prefix_caching(what: ModelArchitecture, line: str, version: str, prefix: bool, mode: str) -> None:
    found = settle(line, version, what=what)
    assert (found.prefix_caching.value, found.mamba_cache_mode) == (prefix, mode)


@pytest.mark.parametrize(
    ("what", "line", "version", "env", "on"),
    [
        (model(FULL, WINDOW), "", "0.9.0", {}, False),
        (model(FULL, WINDOW), "", "0.9.1", {}, True),
        (model(FULL, WINDOW), "--disable-hybrid-kv-cache-manager", "0.20.0", {}, False),
        (model(), """--kv-transfer-config {"kv_connector":"NixlConnector"}""", "0.20.0", {}, False),
        (model(), """--kv-transfer-config {"kv_connector":"NixlConnector"}""", "0.22.1", {}, True),
        (model(), """--kv-transfer-config {"kv_connector":"LMCacheConnectorV1"}""", "0.22.1", {}, False),
        (
            model(),
            """--no-disable-hybrid-kv-cache-manager --kv-transfer-config {"kv_connector":"LMCacheConnectorV1"}""",
            "0.14.0",
            {},
            True,
        ),
        (model(FULL, CHUNKED), "", "0.11.0", {}, False),
        (model(FULL, CHUNKED), "", "0.11.0", {"VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE": "1"}, True),
        (model(FULL, CHUNKED), "", "0.20.0", {}, True),
        (model(FULL, CHUNKED), "", "0.20.0", {"VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE": "0"}, False),
    ],
)
def test_hybrid_manager(what: ModelArchitecture, line: str, version: str, env: dict[str, str], on: bool) -> None:
    assert settle(line, version, what=what, env=env).hybrid_kv_cache_manager.value is on


@pytest.mark.parametrize(
    ("what", "line", "version", "on", "env", "runner"),
    [
        (model(), "", "0.7.3", "H100", {}, "v0"),
        (model(), "", "0.7.3", "H100", {"VLLM_USE_V1": "1"}, "v1"),
        (model(), "", "0.8.5", "H100", {}, "v1"),
        (model(), "", "0.8.5", "T4", {}, "v0"),
        (model(), "", "0.8.5", "H100", {"VLLM_USE_V1": "0"}, "v0"),
        (model(), "--kv-cache-dtype fp8", "0.8.5", "H100", {}, "v1"),
        (model(), "--kv-cache-dtype fp8", "0.8.5", "L40S", {}, "v0"),
        (model(), "--num-scheduler-steps 8", "0.9.2", "H100", {}, "v0"),
        (model(), "", "0.11.0", "T4", {"VLLM_USE_V1": "0"}, "v1"),
        (model(), "", "0.21.0", "H100", {}, "v1"),
        (model(), "", "0.21.0", "H100", {"VLLM_USE_V2_MODEL_RUNNER": "1"}, "v2"),
        (model(), "", "0.22.1", "H100", {}, "v1"),
        (model(architecture="Qwen3ForCausalLM"), "", "0.22.1", "H100", {}, "v2"),
        (model(architecture="Qwen3ForCausalLM", quantization="fp8"), "", "0.22.1", "H100", {}, "v1"),
        (model(), "", "0.23.0", "H100", {}, "v2"),
        (model(quantization="fp8"), "", "0.24.0", "H100", {}, "v2"),
        (model(FULL, STATE, architecture="X"), "", "0.26.0", "H100", {}, "v1"),
        (model(architecture="MixtralForCausalLM", num_experts=8), "", "0.28.0", "H100", {}, "v1"),
        (model(architecture="MixtralForCausalLM", num_experts=8), "", "0.29.0", "H100", {}, "v2"),
        (model(), "--speculative-config.method ngram", "0.29.0", "H100", {}, "v1"),
        (model(), "--speculative-config.method ngram", "0.33.0", "H100", {}, "v2"),
    ],
)
def test_runner(what: ModelArchitecture, line: str, version: str, on: str, env: dict[str, str], runner: str) -> None:
    assert settle(line, version, on, what, env).runner == runner


@pytest.mark.parametrize(
    ("line", "version", "what", "on"),
    [
        ("", "0.13.0", model(), False),
        ("--async-scheduling", "0.13.0", model(), True),
        ("", "0.14.0", model(), True),
        ("-pp 2", "0.14.0", model(), False),
        ("", "0.14.0", model(pooling=True), False),
        ("--distributed-executor-backend ray", "0.20.0", model(), False),
        ("--speculative-config.method ngram", "0.20.0", model(), False),
        ("--speculative-config.method eagle3", "0.20.0", model(), True),
    ],
)
def test_async_scheduling(line: str, version: str, what: ModelArchitecture, on: bool) -> None:
    assert settle(line, version, what=what).async_scheduling.value is on


def test_speculative() -> None:
    found = settle(
        """--speculative-config {"method":"deepseek_mtp"}""", "0.20.0", what=model(mtp_layers=(Layer(FULL, ()),))
    )
    assert (found.speculative_method, found.speculative_tokens) == ("mtp", 1)
    found = settle("--speculative-model org/EAGLE3-x --num-speculative-tokens 5", "0.8.0")
    assert (found.speculative_method, found.speculative_model, found.speculative_tokens) == (
        "eagle3",
        "org/EAGLE3-x",
        5,
    )
    found = settle("--spec-model org/small --spec-tokens 3", "0.22.0")
    assert (found.speculative_method, found.speculative_tokens) == ("draft_model", 3)
    assert settle().speculative_method == ""


def test_other_settings() -> None:
    found = settle(
        "--enable-lora --max-lora-rank 64 --cpu-offload-gb 10 --kv-cache-memory-bytes 25g --num-gpu-blocks-override 100"
        " --skip-mm-profiling --enable-eplb --eplb-config.num_redundant_experts 32 --mamba-ssm-cache-dtype float32"
        " --quantization fp8",
        "0.20.0",
    )
    assert found.lora == (1, 64)
    assert found.cpu_offload_gib == 10.0
    assert found.kv_cache_memory_bytes is not None
    assert found.kv_cache_memory_bytes.value == 25 * 10**9
    assert found.num_gpu_blocks_override is not None
    assert found.num_gpu_blocks_override.value == 100
    assert not found.multimodal_profiled
    assert found.eplb_redundant == 32
    assert found.mamba_ssm_cache_dtype == "float32"
    assert found.quantization == "fp8"
    assert (settle("", "0.19.1").gpu_memory_utilization.value, found.gpu_memory_utilization.value) == (0.9, 0.92)
    assert settle("--device-memory-utilization 0.5", "0.33.0").gpu_memory_utilization.value == 0.5
    assert [settle("", v).sampler for v in ("0.16.0", "0.17.0", "0.21.0")] == ["torch", "triton", "flashinfer"]


# ---- parallelism -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "gpus", "pods", "expected"),
    [
        ("", None, 1, Parallelism()),
        ("-tp 4 -pp 2 -ep", 8, 1, Parallelism(tensor=4, pipeline=2, expert=True)),
        ("-tp 2 -dp 4", 8, 1, Parallelism(tensor=2, data=4, data_local=4)),
        ("-tp 1 -dp 16", 8, 2, Parallelism(data=16, data_local=8)),
        ("-dp 16", None, 2, Parallelism(data=16, data_local=8)),
        ("-dp 16 -dpl 4", 8, 2, Parallelism(data=16, data_local=4)),
        ("-dp 16 --data-parallel-rank 3", 8, 16, Parallelism(data=16, data_local=1)),
        ("-tp 8 -dcp 4 -pcp 2", 16, 1, Parallelism(tensor=8, context=4, prefill_context=2)),
        ("-tp 0 -pp -3", 1, 1, Parallelism()),
    ],
)
def test_parallelism(line: str, gpus: int | None, pods: int, expected: Parallelism) -> None:
    config = parse_argv(line.split(), version=from_default("0.16.0", "test"))
    assert parallelism(config, gpus, pods) == expected


def test_unknown_flag_values_are_assumptions() -> None:
    config = parse_argv(["--max-num-seqs", "many", "--max-model-len", "long"], version=from_default("0.11.0", "test"))
    found = effective(config, model(), gpu("H100"), 1)
    assert found.max_num_seqs.provenance.source == "assumption"
    assert "--max-model-len is not known" in found.max_model_len.provenance.text


_WORDS = st.sampled_from(
    [
        "--max-model-len", "--max-num-seqs", "--max-num-batched-tokens", "-tp", "-dp", "--block-size", "0", "-1", "1", "7",
        "99999999999999999999", "4611686018427387904", "nan", "1e308", "--gpu-memory-utilization", "--speculative-config",
        '{"num_speculative_tokens": 1e400, "method": 3}', '{"cudagraph_capture_sizes": [1, "x", -4, null]}', "-O",
        "--compilation-config", "--kv-transfer-config", '{"kv_connector": {"a": 1}}', "--limit-mm-per-prompt", '{"image": []}',
        "--eplb-config", "--enable-eplb", "--cuda-graph-sizes", "--kv-cache-dtype", "fp8", "--dtype", "half", "--enable-lora",
    ]
)  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(
    st.lists(_WORDS, max_size=10),
    st.sampled_from(["0.6.0", "0.7.3", "0.8.5", "0.10.2", "0.11.0", "0.15.1", "0.22.1", "0.27.1", "0.33.0"]),
    st.sampled_from([None, *GPUS]),
    st.sampled_from(
        [model(), model(LATENT), model(SPARSE), model(FULL, STATE), model(FULL, CHUNKED), model(pooling=True)]
    ),
)
def test_random_flags_never_raise(words: list[str], version: str, on: str | None, what: ModelArchitecture) -> None:
    found = effective(parse_argv(words, version=from_default(version, "test")), what, gpu(on), 8, 2)
    assert found.max_model_len.value > 0
    assert found.max_num_seqs.value > 0
    assert found.max_num_batched_tokens.value > 0
    assert found.block_size is not None
    assert len(found.capture_sizes) <= 5000
    assert found.parallel.data_local <= found.parallel.data


# ---- golden ------------------------------------------------------------------------------------------------------


@cache
def golden_model(name: str) -> ModelArchitecture | None:
    config = json.loads((SHARED / "golden" / "oracle" / "configs" / f"{name}.json").read_text())
    try:
        return architecture(config, config.get("_hf_quant_config"), name)
    except UnknownModel:
        return None


def golden_line(row: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for key, flag in (
        ("tp", "tensor-parallel-size"),
        ("pp", "pipeline-parallel-size"),
        ("dp", "data-parallel-size"),
        ("dcp", "decode-context-parallel-size"),
        ("max_model_len_given", "max-model-len"),
        ("block_size_given", "block-size"),
        ("kv_cache_dtype", "kv-cache-dtype"),
    ):
        if row[key] not in (None, "auto") and not (row[key] == 1 and len(key) <= 3):
            words += [f"--{flag}", str(row[key])]
    if row["ep"]:
        words.append("--enable-expert-parallel")
    for key, value in row["flags"].items():
        name = key.replace("_", "-")
        words += [f"--{'' if value else 'no-'}{name}"] if isinstance(value, bool) else [f"--{name}", str(value)]
    if row["gpu"] == "H100" and row["max_num_batched_tokens"] != 8192 and "max_num_batched_tokens" not in row["flags"]:
        words += ["--max-num-batched-tokens", str(row["max_num_batched_tokens"])]  # the rows of the batch size study
    return words


@pytest.mark.skipif(not (SHARED / "golden").is_dir(), reason="the golden data stand beside the project")
def test_golden_rows() -> None:
    checked: dict[str, int] = {}
    wrong: list[str] = []
    with (SHARED / "golden" / "engine.jsonl").open() as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        what = golden_model(row["model"]) if row["via"] == "function" and row.get("max_model_len") else None
        if what is None:
            continue
        config = parse_argv(golden_line(row), version=from_default(row["engine_version"], "golden"))
        assert not config.argument_problems, (row["id"], config.argument_problems)
        found = effective(config, what, gpu(row["gpu"]), row["tp"] * row["pp"])
        expected: dict[str, tuple[Any, Any]] = {
            "max_num_batched_tokens": (found.max_num_batched_tokens.value, row["max_num_batched_tokens"]),
            "max_num_seqs": (found.max_num_seqs.value, row["max_num_seqs"]),
            "max_in_flight_tokens": (found.max_num_batched_tokens_in_flight, row["max_in_flight_tokens"]),
            "async_scheduling": (found.async_scheduling.value, row["async_scheduling"]),
            "dtype": (found.dtype.value, row["dtype"]),
            "prefix_caching": (found.prefix_caching.value, row.get("prefix_caching")),
            "mamba_cache_mode": (found.mamba_cache_mode, row.get("mamba_cache_mode")),
        }
        if not found.max_model_len_auto:
            expected["max_model_len"] = (found.max_model_len.value, row["max_model_len"])
        if not row["is_hybrid"] and found.block_size is not None and not row["model"].startswith("deepseek-v4"):
            expected["block_size"] = (found.block_size.value, row.get("block_size"))
        if row.get("groups") and "INDEXER" not in str(row["attn_backends"]):
            stored = {
                spec["dtype"] for group in row["groups"] for spec in [group, *group.get("of", [])] if "dtype" in spec
            }
            packed = found.kv_cache_dtype.value.startswith(("turboquant", "int8_per", "fp8_per"))
            if not packed and not any(group["type"] == "MambaSpec" for group in row["groups"]):
                expected["kv_cache_dtype"] = (
                    found.kv_cache_dtype.value not in ("bfloat16", "float16"),
                    not stored & {"bfloat16", "float16"},
                )
        for name, (mine, theirs) in expected.items():
            if theirs is not None:
                checked[name] = checked.get(name, 0) + 1
                if mine != theirs:
                    wrong.append(f"{row['engine_version']} {row['id']}: {name} {mine}, not {theirs}")
    assert not wrong, "\n".join(wrong[:20])
    assert min(checked.values()) > 100, checked
