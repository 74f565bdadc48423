"""Attention kernels, block sizes, graph modes and cache formats by release, model and device: what vLLM refuses, and neighbours
that it takes. Those of 0.19.1, 0.24.0 and 0.32.0 were asked of the releases themselves."""

from __future__ import annotations

from typing import Any

import pytest

from planner.facts.vllm_attention import names
from tests.facts.plans import facts_of

LLAMA, LATENT = "--model=meta-llama/Llama-3.1-8B-Instruct", "--model=deepseek-ai/DeepSeek-V2-Lite-Chat"
SPARSE, HYBRID = "--model=deepseek-ai/DeepSeek-V3.2", "--model=Qwen/Qwen3-Next-80B-A3B-Instruct"
SINKS, HEADS_80, HEADS_96 = (
    "--model=openai/gpt-oss-20b",
    "--model=microsoft/phi-2",
    "--model=microsoft/Phi-3-mini-4k-instruct",
)
GEMMA = "--model=google/gemma-2-9b-it"
H100, B200, A100, L40S, T4 = (
    "NVIDIA-H100-80GB-HBM3",
    "NVIDIA-B200",
    "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-L40S",
    "Tesla-T4",
)
RTX = "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"


def backend(name: str) -> str:
    return f"--attention-backend={name}"


def cache(name: str) -> str:
    return f"--kv-cache-dtype={name}"


def found(args: tuple[str, ...], version: str, gpu: str, **options: Any) -> tuple[list[str], list[str]]:
    """(refused combinations, certain problems of the cache's format)."""
    facts, _ = facts_of(args, version, engine="vllm", gpu=gpu, resources={"nvidia.com/gpu": 8}, **options)
    problem = facts.get("kv_cache_dtype_problem") or {}
    wrong = [problem["text"]] if problem.get("text") and problem["certain"] else []
    return [item["message"] for item in facts["conflicts"] if item["refused"]], wrong


@pytest.mark.parametrize(
    ("args", "version", "gpu", "words"),
    [
        # names
        ((LLAMA, backend("XFORMERS")), "0.13.0", H100, "no attention backend of this name"),
        ((LLAMA, backend("FLASH_ATTN_VLLM_V1")), "0.32.0", H100, "no attention backend of this name"),
        ((LLAMA, '--attention-config={"backend": "XFORMERS"}'), "0.32.0", H100, "no attention backend of this name"),
        ((LLAMA, backend("flash_attn")), "0.32.0", H100, ""),
        ((LLAMA, backend("auto")), "0.18.0", H100, ""),
        ((LLAMA, backend("auto")), "0.17.1", H100, "no attention backend of this name"),
        ((LLAMA, backend("TREE_ATTN")), "0.20.0", H100, ""),
        ((LLAMA, backend("TREE_ATTN")), "0.21.0", H100, "no attention backend of this name"),
        ((LLAMA, backend("CUSTOM")), "0.32.0", H100, ""),  # a plug-in's
        ((LLAMA, backend("TORCH_SDPA")), "0.32.0", H100, "names no attention backend of decoders"),
        # latent and sparse attention
        ((LLAMA, backend("FLASHMLA")), "0.13.0", H100, "kernel for latent attention"),
        ((LLAMA, '--attention-config={"backend": "TRITON_MLA"}'), "0.32.0", A100, "kernel for latent attention"),
        ((LATENT, backend("FLASH_ATTN")), "0.24.0", H100, "has no latent attention"),
        ((HYBRID, backend("FLASHMLA")), "0.24.0", H100, "kernel for latent attention"),
        ((LATENT, backend("FLASHMLA")), "0.24.0", H100, ""),
        ((SPARSE, backend("FLASHMLA")), "0.32.0", H100, "has no sparse attention"),
        ((LATENT, backend("FLASHMLA_SPARSE")), "0.32.0", H100, "kernel for sparse attention"),
        ((SPARSE, backend("FLASHMLA_SPARSE")), "0.32.0", H100, ""),
        # models with attention of their own do not ask
        (("--model=deepseek-ai/DeepSeek-V4-Flash", backend("FLASHMLA")), "0.32.0", H100, ""),
        (("--model=XiaomiMiMo/MiMo-V2-Flash", backend("TRITON_MLA")), "0.32.0", H100, ""),
        ((LLAMA, '--attention-config={"backend": "FLASHMLA", "backend_per_kind": {"full_attention": "FLASH_ATTN"}}'),
         "0.33.0", H100, ""),
        # devices
        ((LLAMA, backend("FLASH_ATTN"), "--dtype=half"), "0.13.0", T4, "needs 8.0 or newer"),
        ((LLAMA, backend("FLASHINFER"), "--dtype=half"), "0.23.0", T4, ""),
        ((LLAMA, backend("FLASHINFER"), "--dtype=half"), "0.24.0", T4, "needs 8.0 to 12.1"),
        ((LLAMA, backend("TRITON_ATTN"), "--dtype=half"), "0.32.0", T4, ""),
        ((LATENT, backend("CUTLASS_MLA")), "0.24.0", H100, "needs 10.x"),
        ((LATENT, backend("CUTLASS_MLA")), "0.24.0", B200, ""),
        ((LATENT, backend("FLASHINFER_MLA")), "0.19.1", RTX, "needs 10.x"),
        ((LATENT, backend("FLASHMLA")), "0.19.1", B200, "needs 9.x"),
        ((LATENT, backend("FLASH_ATTN_MLA")), "0.32.0", A100, "needs 9.x"),
        ((LATENT, backend("TRITON_MLA")), "0.32.0", A100, ""),
        # head sizes
        ((HEADS_80, backend("FLASHINFER")), "0.24.0", H100, "heads of 80 elements"),
        ((HEADS_96, backend("FLASHINFER")), "0.32.0", H100, "heads of 96 elements"),
        ((HEADS_80, backend("FLASH_ATTN")), "0.24.0", H100, ""),
        ((GEMMA, backend("FLASHINFER")), "0.24.0", H100, ""),
        ((GEMMA, backend("FLEX_ATTENTION")), "0.24.0", H100, "does not cap attention logits"),
        # sinks
        ((SINKS, backend("FLASH_ATTN")), "0.24.0", A100, "no attention sinks"),
        ((SINKS, backend("FLASH_ATTN")), "0.24.0", H100, ""),
        ((SINKS, backend("FLASH_ATTN")), "0.32.0", RTX, "no attention sinks"),
        ((SINKS, backend("FLASHINFER")), "0.24.0", H100, "no attention sinks"),
        ((SINKS, backend("FLASHINFER")), "0.32.0", H100, ""),
        ((SINKS, backend("FLASHINFER")), "0.19.1", B200, ""),
        ((SINKS, backend("FLEX_ATTENTION")), "0.19.1", H100, "no attention sinks"),
        ((SINKS, backend("TRITON_ATTN")), "0.32.0", A100, ""),
        # number formats
        ((LLAMA, backend("FLASH_ATTN"), "--dtype=float32"), "0.32.0", H100, "16 bits only"),
        ((LLAMA, backend("TRITON_ATTN"), "--dtype=float32"), "0.32.0", H100, ""),
        ((LLAMA, backend("TURBOQUANT")), "0.24.0", H100, "keeps no cache in auto"),
        ((LLAMA, backend("TURBOQUANT"), cache("turboquant_k8v4")), "0.24.0", H100, "outer layers"),
    ],
)  # fmt: skip
def test_kernels(args: tuple[str, ...], version: str, gpu: str, words: str) -> None:
    conflicts, _ = found(args, version, gpu)
    assert any(words in message for message in conflicts) if words else not conflicts, conflicts


@pytest.mark.parametrize(
    ("value", "version", "words"),
    [
        ("XFORMERS", "0.6.6", ""),
        ("NONSENSE", "0.6.6", "no attention backend of this name"),
        ("NONSENSE", "0.7.3", ""),  # ignored until 0.10.0
        ("NONSENSE", "0.10.0", ""),
        ("NONSENSE", "0.10.1", "no attention backend of this name"),
        ("flash_attn", "0.10.2", "no attention backend of this name"),  # case counts
        ("flash_attn", "0.9.2", ""),
        ("FLASH_ATTN_VLLM_V1", "0.10.2", ""),
        ("FLASH_ATTN_VLLM_V1", "0.11.0", "no attention backend of this name"),
        ("FLASHINFER_VLLM_V1", "0.11.2", "no attention backend of this name"),
        ("TRITON_ATTN", "0.10.2", "no attention backend of this name"),
        ("TRITON_ATTN", "0.11.0", ""),
        ("XFORMERS", "0.11.2", ""),
        ("XFORMERS", "0.12.0", "no attention backend of this name"),
        ("PALLAS", "0.14.0", "no attention backend of this name"),
        ("TORCH_SDPA", "0.9.2", "for other platforms"),
        ("TORCH_SDPA", "0.6.6", ""),
        ("FLASHMLA", "0.9.2", ""),  # another one is taken
        ("FLASHMLA", "0.11.0", ""),
        ("FLASHMLA", "0.11.1", "kernel for latent attention"),
        ("FLASHMLA", "0.15.0", ""),  # no longer read
        ("", "0.11.0", "no attention backend of this name"),
    ],
)
def test_the_variable(value: str, version: str, words: str) -> None:
    conflicts, _ = found((LLAMA,), version, H100, env={"VLLM_ATTENTION_BACKEND": value})
    assert any(words in message for message in conflicts) if words else not conflicts, conflicts


def test_the_variable_overrides_flags() -> None:
    conflicts, _ = found((LATENT, backend("FLASH_ATTN")), "0.14.1", H100, env={"VLLM_ATTENTION_BACKEND": "FLASHMLA"})
    assert not conflicts
    assert found((LATENT, backend("FLASH_ATTN")), "0.15.1", H100, env={"VLLM_ATTENTION_BACKEND": "FLASHMLA"})[0]


def test_the_variable_is_pointed_at() -> None:
    facts, places = facts_of([LLAMA], "0.11.0", engine="vllm", env={"VLLM_ATTENTION_BACKEND": "FLASH_ATTN_VLLM_V1"})
    (conflict,) = facts["conflicts"]
    assert conflict["remedy"] == "Write FLASH_ATTN"
    assert places["engine.conflicts[0]"] is not None


def test_an_assumed_release_only_warns() -> None:
    options: dict[str, Any] = {"engine": "vllm", "image": "vllm/vllm-openai:latest", "gpu": A100}
    (conflict,) = facts_of([LATENT, backend("CUTLASS_MLA")], **options)[0]["conflicts"]
    assert not conflict["refused"]
    (conflict,) = facts_of([LLAMA, backend("XFORMERS")], **options)[0]["conflicts"]
    assert conflict["refused"]  # no release with the flag has it


def test_an_unknown_device_leaves_kernels_open() -> None:
    assert not found((LATENT, backend("CUTLASS_MLA")), "0.24.0", "")[0]
    assert found((LLAMA, backend("CUTLASS_MLA")), "0.24.0", "")[0]


@pytest.mark.parametrize(
    ("version", "name", "there"),
    [
        ("0.6.0", "NO_ATTENTION", False), ("0.6.3", "NO_ATTENTION", True), ("0.8.2", "OPENVINO", True),
        ("0.8.3", "OPENVINO", False), ("0.10.0", "CUTLASS_MLA_VLLM_V1", True), ("0.10.1", "CUTLASS_MLA", True),
        ("0.11.0", "DUAL_CHUNK_FLASH_ATTN", True), ("0.11.1", "DUAL_CHUNK_FLASH_ATTN", False), ("0.13.0", "PALLAS", True),
        ("0.15.1", "IPEX", True), ("0.16.0", "IPEX", False), ("0.33.0", "STEP5_DSA", True),
    ],
)  # fmt: skip
def test_names_by_release(version: str, name: str, there: bool) -> None:
    assert (name in names(tuple(int(part) for part in version.split(".")))) == there


@pytest.mark.parametrize(
    ("args", "size", "version", "gpu", "words"),
    [
        ((LLAMA,), 7, "0.24.0", H100, "multiples of 16"),
        ((LLAMA,), 8, "0.32.0", A100, "multiples of 16"),
        ((LLAMA,), 48, "0.24.0", H100, ""),
        ((LLAMA,), 7, "0.19.1", H100, ""),  # FlexAttention takes any
        ((LLAMA, cache("fp8")), 7, "0.19.1", H100, "multiples of 16"),  # and keeps no FP8
        ((LLAMA, backend("FLASH_ATTN")), 8, "0.19.1", H100, "FLASH_ATTN takes multiples of 16"),
        ((LLAMA, backend("FLEX_ATTENTION")), 7, "0.19.1", H100, ""),
        ((LLAMA, backend("FLEX_ATTENTION")), 7, "0.24.0", H100, "multiples of 16"),
        ((SINKS,), 8, "0.19.1", H100, "multiples of 16"),
        ((LATENT,), 8, "0.19.1", H100, "multiples of 16"),
        ((LATENT, backend("FLASHMLA")), 32, "0.24.0", H100, "FLASHMLA takes multiples of 64"),
        ((LATENT, backend("FLASHMLA")), 192, "0.24.0", H100, ""),
        ((LATENT, backend("FLASHMLA")), 16, "0.17.1", H100, ""),  # replaced by 64
        ((LATENT, backend("CUTLASS_MLA")), 64, "0.32.0", B200, "multiples of 128"),
        ((LATENT, backend("FLASHINFER_MLA")), 96, "0.32.0", B200, ""),
        ((LATENT, backend("FLASHINFER_MLA")), 48, "0.32.0", B200, "multiples of 32"),
        ((SPARSE,), 32, "0.32.0", H100, "multiples of 64"),
        ((SPARSE,), 128, "0.32.0", H100, ""),
        ((HYBRID,), 8, "0.24.0", H100, "multiples of 16"),
        ((HYBRID,), 8, "0.19.1", H100, ""),
        ((LLAMA,), 8, "0.13.0", H100, "multiples of 16"),
        ((LLAMA, backend("FLEX_ATTENTION")), 8, "0.13.0", H100, ""),
        ((LATENT,), 8, "0.13.0", H100, ""),
        ((LLAMA,), 8, "0.10.2", H100, "FlashAttention takes multiples of 16"),
        ((LLAMA,), 8, "0.10.2", T4, ""),  # the V0 engine, with xFormers
        ((LLAMA,), 8, "0.7.3", H100, ""),
        ((LLAMA,), 64, "0.6.6", H100, "at most 32"),
        ((LLAMA,), 32, "0.6.6", H100, ""),
    ],
)
def test_block_sizes(args: tuple[str, ...], size: int, version: str, gpu: str, words: str) -> None:
    half = ("--dtype=half",) if gpu == T4 else ()
    conflicts, _ = found((*args, f"--block-size={size}", *half), version, gpu)
    assert any(words in message for message in conflicts) if words else not conflicts, conflicts


@pytest.mark.parametrize(
    ("args", "mode", "version", "gpu", "refused"),
    [
        ((LLAMA, backend("FLEX_ATTENTION")), "FULL", "0.19.1", H100, True),
        ((LLAMA, backend("FLEX_ATTENTION")), "FULL", "0.20.0", H100, False),
        ((LLAMA, backend("FLEX_ATTENTION")), "FULL_AND_PIECEWISE", "0.19.1", H100, False),  # lowered
        ((LLAMA, backend("FLEX_ATTENTION")), "FULL_DECODE_ONLY", "0.19.1", H100, False),
        ((LLAMA, backend("FLEX_ATTENTION"), "--enforce-eager"), "FULL", "0.19.1", H100, False),
        ((LLAMA, backend("FLASH_ATTN")), "FULL", "0.19.1", H100, False),
        ((LATENT,), "FULL", "0.21.0", A100, True),  # Triton's is left
        ((LATENT,), "FULL", "0.22.0", A100, False),
        ((LATENT,), "FULL", "0.21.0", H100, False),
    ],
)
def test_graphs_of_whole_batches(args: tuple[str, ...], mode: str, version: str, gpu: str, refused: bool) -> None:
    conflicts, _ = found((*args, f'--compilation-config={{"cudagraph_mode": "{mode}"}}'), version, gpu)
    assert any("whole batches" in message for message in conflicts) == refused, conflicts


@pytest.mark.parametrize(
    ("args", "version", "gpu", "words"),
    [
        # the kernel that is named
        ((LLAMA, cache("fp8"), backend("FLEX_ATTENTION")), "0.32.0", H100, "FLEX_ATTENTION"),
        ((LLAMA, cache("bfloat16"), backend("FLEX_ATTENTION")), "0.32.0", H100, ""),
        ((LLAMA, cache("fp8_e5m2"), backend("FLASH_ATTN")), "0.32.0", H100, "FLASH_ATTN"),
        ((LLAMA, cache("fp8_e5m2"), backend("FLASH_ATTN")), "0.19.1", H100, ""),
        ((LLAMA, cache("fp8"), backend("FLASH_ATTN")), "0.24.0", B200, "FlashAttention has no fp8"),
        ((LLAMA, cache("fp8"), backend("FLASH_ATTN")), "0.32.0", B200, ""),
        ((LLAMA, cache("fp8"), backend("FLASH_ATTN")), "0.32.0", RTX, "FlashAttention has no fp8"),
        ((LLAMA, cache("int8_per_token_head"), backend("FLASHINFER")), "0.24.0", H100, "FLASHINFER"),
        ((LLAMA, cache("int8_per_token_head"), backend("TRITON_ATTN")), "0.24.0", H100, ""),
        ((LATENT, cache("fp8"), backend("FLASH_ATTN_MLA")), "0.24.0", H100, "FLASH_ATTN_MLA"),
        # latent attention
        ((LATENT, cache("fp8")), "0.17.1", A100, "keeps 16 bits"),
        ((LATENT, cache("fp8")), "0.17.1", H100, ""),
        ((LATENT, cache("fp8")), "0.24.0", A100, ""),
        ((LATENT, cache("fp8")), "0.32.0", A100, "compute capability 8.9"),
        ((LATENT, cache("fp8")), "0.32.0", L40S, ""),
        ((LATENT, cache("fp8_e5m2")), "0.24.0", H100, "latent attention"),
        ((LATENT, cache("nvfp4")), "0.30.0", B200, "latent attention"),
        ((SPARSE, cache("nvfp4")), "0.32.0", B200, "latent attention"),
        ((SPARSE, cache("fp8")), "0.32.0", H100, ""),
        ((LATENT, cache("turboquant_k8v4")), "0.24.0", H100, "latent attention"),
        ((LLAMA, cache("fp8_ds_mla")), "0.24.0", H100, "format of latent attention"),
        ((LLAMA, cache("nvfp4_ds_mla")), "0.32.0", H100, "format of latent attention"),
        ((LLAMA, cache("nvfp4_ds_mla")), "0.32.0", B200, ""),
        # NVFP4
        ((LLAMA, cache("nvfp4")), "0.28.0", H100, "needs compute capability 10.x"),
        ((LLAMA, cache("nvfp4")), "0.28.0", B200, ""),
        ((LLAMA, cache("nvfp4"), backend("CUSTOM")), "0.28.0", H100, ""),
        ((LLAMA, cache("nvfp4")), "0.32.0", H100, ""),
        ((SINKS, cache("nvfp4")), "0.32.0", H100, "need 10.x"),
        ((SINKS, cache("nvfp4")), "0.32.0", B200, ""),
        ((HEADS_96, cache("nvfp4")), "0.32.0", B200, "the model's heads"),
        ((LLAMA, cache("nvfp4_4over6")), "0.32.0", H100, "needs compute capability 10.x"),
        # TurboQuant and others
        ((LLAMA, cache("turboquant_k8v4")), "0.24.0", H100, ""),
        ((LLAMA, cache("turboquant_k8v4"), backend("FLASHINFER")), "0.24.0", H100, "FLASHINFER"),
        ((SINKS, cache("turboquant_k8v4")), "0.32.0", H100, "no attention sinks"),
        ((GEMMA, cache("turboquant_k8v4")), "0.32.0", H100, "no sliding windows"),
        ((HYBRID, cache("turboquant_k8v4")), "0.20.0", H100, "hybrid models"),
        ((HYBRID, cache("turboquant_k8v4")), "0.24.0", H100, ""),
        ((LLAMA, cache("ultraquant_4bit")), "0.32.0", H100, "no kernel"),
        ((LLAMA, cache("fp8_per_token_head")), "0.24.0", A100, "needs compute capability 8.9"),
        ((LLAMA, cache("fp8_per_token_head")), "0.24.0", L40S, ""),
        ((LLAMA, cache("int8_per_token_head")), "0.24.0", A100, ""),
        # the model's own 16 bits
        ((LLAMA, cache("bfloat16"), "--dtype=half"), "0.33.0", H100, "differs from the model's dtype, float16"),
        ((LLAMA, cache("bfloat16"), "--dtype=half"), "0.32.0", H100, ""),
        ((LLAMA, cache("bfloat16")), "0.33.0", H100, ""),
        ((LLAMA, cache("float16")), "0.33.0", H100, "differs from the model's dtype, bfloat16"),
    ],
)
def test_cache_formats(args: tuple[str, ...], version: str, gpu: str, words: str) -> None:
    _, wrong = found(args, version, gpu)
    assert any(words in text for text in wrong) if words else not wrong, wrong
