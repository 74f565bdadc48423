"""Formats of cache and weights by device, backend and release."""

from __future__ import annotations

from typing import Any

import pytest

from tests.facts.plans import facts_of

SMALL = "--model=Qwen/Qwen2.5-1.5B-Instruct"
A100, H100, L4, T4 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4", "Tesla-T4"


def problem(fact: str, *args: str, version: str = "0.11.0", **options: Any) -> dict[str, Any] | None:
    facts, _ = facts_of([SMALL, *args] if not any("--model" in arg for arg in args) else list(args), version,
                        engine="vllm", **options)  # fmt: skip
    found: dict[str, Any] | None = facts.get(fact)
    return found


@pytest.mark.parametrize(
    ("dtype", "gpu", "version", "outcome"),
    [
        ("fp8", A100, "0.10.2", ""),  # V0 converts by itself
        ("fp8", A100, "0.11.0", "error"),
        ("fp8_e4m3", A100, "0.19.0", "warning"),  # FlashInfer only
        ("fp8_e5m2", A100, "0.11.0", ""),
        ("fp8_e5m2", A100, "0.19.0", ""),
        ("fp8_e5m2", A100, "0.33.0", ""),
        ("fp8", L4, "0.11.0", ""),
        ("fp8", H100, "0.33.0", ""),
        ("fp8", T4, "0.23.0", ""),
        ("fp8", T4, "0.24.0", "error"),
        ("fp8_e5m2", T4, "0.33.0", "error"),
        ("fp8_e4m3", "Tesla-V100-SXM2-32GB", "0.12.0", "error"),
        ("auto", T4, "0.33.0", ""),
        ("octave_k3v4", H100, "0.33.0", "error"),
    ],
)
def test_cache_formats(dtype: str, gpu: str, version: str, outcome: str) -> None:
    found = problem("kv_cache_dtype_problem", f"--kv-cache-dtype={dtype}", version=version, gpu=gpu)
    assert found is not None
    assert bool(found["text"]) == bool(outcome), found
    if outcome:
        assert ("error" if found["certain"] else "warning") == outcome


def test_the_backend_decides() -> None:
    def text(*args: str, **options: Any) -> str:
        found = problem("kv_cache_dtype_problem", "--kv-cache-dtype=fp8", *args, **options)
        assert found is not None
        return str(found["text"])

    flashinfer = {"env": {"VLLM_ATTENTION_BACKEND": "FLASHINFER"}}
    assert not text(version="0.11.0", gpu=A100, **flashinfer)
    assert not text("--attention-backend=FLASHINFER", version="0.19.0", gpu=A100)
    assert "Triton" in text("--attention-backend=TRITON_ATTN", version="0.19.0", gpu=A100)
    assert "FlashAttention" in text("--attention-backend=FLASH_ATTN", version="0.19.0", gpu=L4)
    # the variable is gone in 0.15.0
    assert text(version="0.19.0", gpu=A100, **flashinfer)
    # multi-head latent attention has other kernels: FlashMLA on Hopper, elsewhere Triton's, which keeps FP8 from 0.18 on
    assert not text("--model=deepseek-ai/DeepSeek-V2-Lite-Chat", version="0.11.0", gpu=H100)
    assert "keeps 16 bits" in text("--model=deepseek-ai/DeepSeek-V2-Lite-Chat", version="0.11.0", gpu=A100)
    assert not text("--model=deepseek-ai/DeepSeek-V2-Lite-Chat", version="0.19.0", gpu=A100)


def test_an_unknown_device_leaves_the_cache_open() -> None:
    assert problem("kv_cache_dtype_problem", "--kv-cache-dtype=fp8", gpu="") is None
    assert problem("kv_cache_dtype_problem", gpu="") == {"text": "", "remedy": "", "certain": True}


@pytest.mark.parametrize(
    ("args", "gpu", "version", "wrong"),
    [
        (("--quantization=fp8",), A100, "0.11.0", False),  # weight-only
        (("--quantization=fp8",), T4, "0.11.0", True),
        (("--quantization=fp8",), T4, "0.33.0", False),
        (("--quantization=awq_marlin",), T4, "0.11.0", True),
        (("--model=Qwen/Qwen2.5-7B-Instruct-AWQ",), T4, "0.11.0", False),
        (("--model=Qwen/Qwen3-30B-A3B-FP8",), A100, "0.8.5", True),
        (("--model=Qwen/Qwen3-30B-A3B-FP8",), A100, "0.11.0", False),  # GLM-4.6-FP8 runs so in public
        (("--model=Qwen/Qwen3-30B-A3B-FP8",), L4, "0.8.5", False),
        (("--quantization=bitsandbytes",), L4, "0.27.1", False),
        (("--quantization=bitsandbytes",), L4, "0.28.0", True),
        (("--quantization=gguf",), L4, "0.24.0", True),
        (("--quantization=fbgemm_fp8",), L4, "0.33.0", True),
        (("--quantization=fbgemm_fp8", "--allow-deprecated-quantization"), L4, "0.33.0", False),
        (("--quantization=of-a-plugin",), L4, "0.33.0", True),  # which the engine's own image does not hold
        ((), T4, "0.33.0", False),
    ],
)
def test_quantization_by_device_and_release(args: tuple[str, ...], gpu: str, version: str, wrong: bool) -> None:
    found = problem("quantization_problem", *args, version=version, gpu=gpu)
    assert found is not None
    assert bool(found["text"]) == wrong, found


@pytest.mark.parametrize(
    ("model", "asked", "wrong"),
    [
        ("Qwen/Qwen3-30B-A3B-FP8", "fp8", False),
        ("Qwen/Qwen3-30B-A3B-FP8", "awq", True),
        ("Qwen/Qwen3-30B-A3B-FP8", "gguf", True),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "awq_marlin", False),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "moe_wna16", False),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "gptq", True),
        ("Qwen/Qwen2.5-1.5B-Instruct", "fp8", False),
        ("Qwen/Qwen2.5-1.5B-Instruct", "bitsandbytes", False),
        ("Qwen/Qwen2.5-1.5B-Instruct", "gptq_marlin", True),
        ("Qwen/Qwen2.5-1.5B-Instruct", "of-a-plugin", False),
    ],
)
def test_mismatch_with_the_checkpoint(model: str, asked: str, wrong: bool) -> None:
    found = problem("quantization_mismatch", f"--model={model}", f"--quantization={asked}")
    assert found is not None
    assert bool(found["text"]) == wrong, found


def test_an_unknown_model_leaves_the_mismatch_open() -> None:
    assert problem("quantization_mismatch", "--model=/models/x", "--quantization=awq") is None


def sglang(fact: str, *args: str, version: str, **options: Any) -> dict[str, Any] | None:
    facts, _ = facts_of([*args, "--host=0.0.0.0"], version, engine="sglang", resources={"nvidia.com/gpu": 8}, **options)
    found: dict[str, Any] | None = facts.get(fact)
    return found


V4 = "--model-path=deepseek-ai/DeepSeek-V4-Flash"


@pytest.mark.parametrize(
    ("version", "args", "gpu", "refused"),
    [
        ("0.5.11", (V4,), H100, False),  # the release does not have the model at all
        ("0.5.12", (V4,), H100, True),
        ("0.5.18", (V4,), "NVIDIA-H200", True),
        ("0.5.18", (V4, "--moe-runner-backend=triton"), H100, True),
        ("0.5.19", (V4,), H100, False),  # chooses flashinfer_mxfp4 by itself
        ("0.5.18", (V4, "--moe-runner-backend=marlin"), H100, False),
        ("0.5.18", (V4, "--moe-runner-backend=flashinfer_mxfp4"), H100, False),
        ("0.5.18", (V4, "--moe-a2a-backend=deepep"), H100, False),
        ("0.5.18", (V4,), "NVIDIA-B200", False),
        (
            "0.5.18",
            ("--model-path=sgl-project/DeepSeek-V4-Flash-FP8",),
            H100,
            False,
        ),  # the same config, converted experts
        ("0.5.18", ("--model-path=deepseek-ai/DeepSeek-V4-Flash-Base",), H100, False),
        ("0.5.18", ("--model-path=deepseek-ai/DeepSeek-V3",), H100, False),
    ],
)
def test_fp4_experts_on_hopper_need_a_runner_until_sglang_chooses_one(
    version: str, args: tuple[str, ...], gpu: str, refused: bool
) -> None:
    found = sglang("quantization_problem", *args, "--tp=8", version=version, gpu=gpu)
    assert found is not None
    assert bool(found["text"]) is refused
    assert found["certain"]


def test_fp4_experts_of_what_is_not_known() -> None:
    fact = "quantization_problem"
    assert sglang(fact, V4, "--tp=8", version="0.5.18", gpu="") is None  # the device decides
    assert sglang(fact, "--model-path=/models/some", version="0.5.18") is None
    assert (sglang(fact, "--model-path=/models/some", version="0.5.23") or {})["text"] == ""
    env = {"SGLANG_DSV4_FP4_DEQUANT": "1"}
    assert (sglang(fact, V4, "--tp=8", version="0.5.18", env=env) or {})["text"] == ""
    assumed = sglang(fact, V4, "--tp=8", version="", image="lmsysorg/sglang:latest")
    assert assumed is not None
    assert not assumed["text"]


@pytest.mark.parametrize(
    ("fact", "flag", "gpu", "refused"),
    [
        ("kv_cache_dtype_problem", "--kv-cache-dtype=nvfp4", H100, True),
        ("kv_cache_dtype_problem", "--kv-cache-dtype=mxfp8", H100, True),
        ("kv_cache_dtype_problem", "--kv-cache-dtype=nvfp4", "NVIDIA-B200", False),
        ("kv_cache_dtype_problem", "--kv-cache-dtype=fp8_e4m3", A100, False),
        ("quantization_problem", "--quantization=nvfp4_online", H100, True),
        ("quantization_problem", "--quantization=nvfp4_online", "NVIDIA-B200", False),
    ],
)
def test_blackwell_formats_of_sglang(fact: str, flag: str, gpu: str, refused: bool) -> None:
    found = sglang(fact, "--model-path=Qwen/Qwen3-8B", flag, version="0.5.20", gpu=gpu)
    assert found is not None
    assert bool(found["text"]) is refused
    assert sglang(fact, "--model-path=Qwen/Qwen3-8B", flag, version="0.5.20", gpu="") is None or "fp8" in flag
