"""Public failure reports about flags and hardware, written as manifests: each is found, and what repairs it is not.

The names are those of the reports (``failures.jsonl`` beside the project); the manifests are our own. Reports whose cause no
manifest can show (drivers, a fork's bug, an adapter's rank) are left out.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from planner.report.result import LintResult
from tests.rules.manifests import manifest
from tests.rules.reports import Report, assert_found, assert_not_found

LLAMA = "--model=meta-llama/Llama-3.1-8B-Instruct"
SHORT = "--max-model-len=4096"
SMALL = ("--model=Qwen/Qwen2.5-1.5B-Instruct", SHORT)
SGLANG = ("--model-path=meta-llama/Llama-3.1-8B-Instruct", "--context-length=4096", "--host=0.0.0.0")
TGI = ("--model-id=meta-llama/Llama-3.1-8B-Instruct",)


REPORTS = {
    "F042": Report(
        "dtype-unsupported",
        manifest((*SMALL, "--dtype=bfloat16"), "0.6.3", gpu="Tesla-T4"),
        manifest((*SMALL, "--dtype=half"), "0.6.3", gpu="Tesla-T4"),
    ),
    "F043": Report(
        "dtype-unsupported",
        manifest((*SMALL, "--dtype=bfloat16"), "0.8.5", gpu="Tesla-V100-PCIE-16GB"),
        manifest((*SMALL, "--dtype=half"), "0.8.5", gpu="Tesla-V100-PCIE-16GB"),
    ),
    "F047": Report(
        "mig-with-tensor-parallel",
        manifest((*SMALL, "--tensor-parallel-size=2"), gpu="", resources={"nvidia.com/mig-1g.12gb": 2}),
        manifest(SMALL, gpu="", resources={"nvidia.com/mig-1g.12gb": 1}),
    ),
    "F052": Report(
        "removed-flag",
        manifest((LLAMA, SHORT, "--disable-log-requests"), "0.19.0"),
        manifest((LLAMA, SHORT, "--no-enable-log-requests"), "0.19.0"),
    ),
    "F053": Report(
        "removed-flag",
        manifest((LLAMA, SHORT, "--disable-log-requests"), image="nvcr.io/nvidia/ai-dynamo/vllm-runtime:vllm-0.19.0",
                 command=["python3", "-m", "dynamo.vllm"]),
        manifest((LLAMA, SHORT), image="nvcr.io/nvidia/ai-dynamo/vllm-runtime:vllm-0.19.0",
                 command=["python3", "-m", "dynamo.vllm"]),
    ),
    "F055": Report(
        "foreign-engine-flag", manifest((LLAMA, SHORT, "--enable-metrics"), "0.24.0"), manifest((LLAMA, SHORT), "0.24.0")
    ),
    "F056": Report(
        "invalid-flag-value",
        manifest((LLAMA, SHORT, '--speculative-config=\\{\\"method\\": \\"ngram\\"\\}'), "0.17.1"),
        manifest(
            (LLAMA, SHORT, '--speculative-config={"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}'),
            "0.17.1",
        ),
    ),
    "F058": Report(
        "invalid-flag-value",
        manifest((LLAMA, SHORT, '--kv-transfer-config={"kv_connector":"DynamoNixlConnector"}'), "0.9.0.1"),
        manifest((LLAMA, SHORT, '--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both"}'), "0.9.0.1"),
    ),
    "F060": Report(
        "invalid-flag-value",
        manifest((LLAMA, SHORT, '--override-generation-config={"temperature": "0.6}'), "0.19.0"),
        manifest((LLAMA, SHORT, '--override-generation-config={"temperature": 0.6}'), "0.19.0"),
    ),
    "F106": Report(
        "conflicting-flags",
        manifest((*SGLANG, "--device=cpu"), "0.5.2", engine="sglang"),
        manifest((*SGLANG, "--device=cpu", "--mem-fraction-static=0.8"), "0.5.2", engine="sglang"),
    ),
    "F108": Report(
        "deprecated-flag",
        manifest((*SGLANG, "--enable-flashinfer-mla"), "0.4.6", engine="sglang"),
        manifest((*SGLANG, "--attention-backend=flashinfer"), "0.4.6", engine="sglang"),
        "warning",
    ),
    "F108 later": Report(
        "removed-flag",
        manifest((*SGLANG, "--enable-flashinfer-mla"), "0.4.8", engine="sglang"),
        manifest((*SGLANG, "--attention-backend=flashinfer"), "0.4.8", engine="sglang"),
    ),
    "F109": Report(
        "removed-flag",
        manifest((*SGLANG, "--enable-ep-moe"), "0.5.5", engine="sglang"),
        manifest((*SGLANG, "--ep-size=1"), "0.5.5", engine="sglang"),
    ),
    "F110": Report(
        "unknown-flag",
        manifest((*SGLANG, "--enable-flashinfer-pure-allreduce"), "0.5.18", engine="sglang"),
        manifest(SGLANG, "0.5.18", engine="sglang"),
    ),
    "F113": Report(
        "quantization-mismatch",
        manifest(
            ("--model-path=Qwen/Qwen2.5-72B-Instruct", "--host=0.0.0.0", "--tp=4", "--quantization=gptq_marlin"),
            "0.4.4", engine="sglang", resources={"nvidia.com/gpu": 4},
        ),
        manifest(
            ("--model-path=Qwen/Qwen2.5-72B-Instruct", "--host=0.0.0.0", "--tp=4"), "0.4.4", engine="sglang",
            resources={"nvidia.com/gpu": 4},
        ),
    ),
    "F115": Report(
        "image-not-pinned", manifest((LLAMA, SHORT), image="vllm/vllm-openai:latest"), manifest((LLAMA, SHORT)), "warning"
    ),
    "F127": Report(
        "command-in-one-string",
        manifest((), "0.6.3", command=["python3 -m vllm.entrypoints.openai.api_server --model meta-llama/Llama-3.1-8B"]),
        manifest((LLAMA, SHORT), "0.6.3"),
    ),
    "F150": Report(
        "ignored-environment-variable",
        manifest((LLAMA, SHORT), "0.26.0", env={"VLLM_ATTENTION_BACKEND": "TRITON_ATTN"}),
        manifest((LLAMA, SHORT), "0.12.0", env={"VLLM_ATTENTION_BACKEND": "TRITON_ATTN"}),
        "warning",
    ),
    "F152 without adapters switched on": Report(
        "conflicting-flags",
        manifest((LLAMA, SHORT, "--lora-modules=sql=/adapters/sql"), "0.22.0"),
        manifest((LLAMA, SHORT, "--enable-lora", "--max-lora-rank=64", "--lora-modules=sql=/adapters/sql"), "0.22.0"),
    ),
    "F159": Report(
        "conflicting-flags",
        manifest((*TGI, "--max-input-tokens=8000", "--max-total-tokens=9000", "--max-batch-prefill-tokens=4096"), "3.0.0",
                 engine="tgi"),
        manifest((*TGI, "--max-input-tokens=8000", "--max-total-tokens=9000", "--max-batch-prefill-tokens=8000"), "3.0.0",
                 engine="tgi"),
        "warning",  # an error until 2.3; newer releases ask the model's attention
    ),
    "F160": Report(
        "conflicting-flags",
        manifest(TGI, "3.0.0", engine="tgi", env={"MAX_INPUT_LENGTH": "65537", "MAX_TOTAL_TOKENS": "65536"}),
        manifest(TGI, "3.0.0", engine="tgi", env={"MAX_INPUT_LENGTH": "65535", "MAX_TOTAL_TOKENS": "65536"}),
    ),
    "F192": Report(
        "quantization-mismatch",
        manifest(("--model=Qwen/Qwen3-30B-A3B-FP8", SHORT, "--quantization=gguf"), "0.9.0"),
        manifest(("--model=Qwen/Qwen3-30B-A3B-FP8", SHORT, "--quantization=fp8"), "0.9.0"),
    ),
    "F197": Report(
        "gpu-visible-devices-set",
        manifest((LLAMA, SHORT), env={"NVIDIA_VISIBLE_DEVICES": "all"}),
        manifest((LLAMA, SHORT)),
        "warning",
    ),
    "F198": Report(
        "gpu-visible-devices-set",
        manifest((LLAMA, SHORT), env={"CUDA_VISIBLE_DEVICES": "0,1,2,3"}),
        manifest((LLAMA, SHORT)),
        "warning",
    ),
    "F206": Report(
        "conflicting-flags",
        manifest((LLAMA, SHORT, "--max-num-seqs=1", "--max-num-batched-tokens=8192"), "0.19.0"),
        manifest((LLAMA, SHORT, "--max-num-seqs=2", "--max-num-batched-tokens=8192"), "0.19.0"),
        "warning",
    ),
    "F207": Report(
        "conflicting-flags",
        manifest(("google/gemma-3-4b-it", "--host=0.0.0.0", "--max_seq_len=32768"), "1.0.0", engine="trtllm"),
        manifest(("google/gemma-3-4b-it", "--host=0.0.0.0", "--max_seq_len=32768", "--enable_chunked_prefill"), "1.0.0",
                 engine="trtllm"),
        "warning",
    ),
    "F208": Report(
        "max-model-len-exceeds-model",
        manifest(("--model=Qwen/Qwen2.5-1.5B-Instruct", "--max-model-len=65536"), "0.6.3"),
        manifest(("--model=Qwen/Qwen2.5-1.5B-Instruct", "--max-model-len=16384"), "0.6.3"),
    ),
    "F209": Report(
        "conflicting-flags",
        manifest(("--model=Qwen/Qwen2.5-1.5B-Instruct", "--max-model-len=65536"), "0.9.0",
                 env={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}),
        manifest(("--model=Qwen/Qwen2.5-1.5B-Instruct", "--max-model-len=16384"), "0.9.0",
                 env={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}),
        "warning",
    ),
    "F255": Report(
        "unexpanded-variable",
        manifest((LLAMA, "--max-model-len=${LENGTH}"), env={"LENGTH": "4096"}),
        manifest((LLAMA, "--max-model-len=$(LENGTH)"), env={"LENGTH": "4096"}),
    ),
    "F278": Report(
        "kv-cache-dtype-unsupported",
        manifest((*SMALL, "--kv-cache-dtype=fp8"), "0.11.0", gpu="NVIDIA-GeForce-RTX-3090"),
        manifest((*SMALL, "--kv-cache-dtype=fp8_e5m2"), "0.11.0", gpu="NVIDIA-GeForce-RTX-3090"),
    ),
    "F279": Report(
        "kv-cache-dtype-unsupported",
        manifest((*SMALL, "--dtype=half", "--kv-cache-dtype=fp8"), "0.24.0", gpu="Tesla-T4"),
        manifest((*SMALL, "--dtype=half", "--kv-cache-dtype=fp8"), "0.23.0", gpu="Tesla-T4"),
    ),
    "F280": Report(
        "quantization-unsupported",
        manifest(("--model=Qwen/Qwen3-30B-A3B-FP8", SHORT), "0.8.5", gpu="NVIDIA-A100-SXM4-80GB"),
        manifest(("--model=Qwen/Qwen3-30B-A3B-FP8", SHORT), "0.11.0", gpu="NVIDIA-A100-SXM4-80GB"),
    ),
    "F281": Report(
        "conflicting-flags",
        manifest((*SMALL, "--quantization=fp8", "--kv-cache-dtype=fp8_e5m2"), "0.6.3", gpu="NVIDIA-L40"),
        manifest((*SMALL, "--quantization=fp8", "--kv-cache-dtype=fp8_e4m3"), "0.6.3", gpu="NVIDIA-L40"),
    ),
    "F282": Report(
        "kv-cache-dtype-unsupported",  # in a fork for these cards; vLLM's own images ran on them up to 0.19.1
        manifest(("--model=Qwen/Qwen2.5-7B-Instruct", SHORT, "--dtype=half", "--kv-cache-dtype=fp8"), "0.19.1",
                 gpu="Tesla-V100-SXM2-32GB"),
        manifest(("--model=Qwen/Qwen2.5-7B-Instruct", SHORT, "--dtype=half"), "0.19.1", gpu="Tesla-V100-SXM2-32GB"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_what_failed_in_public_is_found_before(report: Report, lint_text: Callable[..., LintResult]) -> None:
    assert_found(report, lint_text(report.fails))


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_what_repairs_it_is_not_found(report: Report, lint_text: Callable[..., LintResult]) -> None:
    assert_not_found(report, lint_text(report.works))
