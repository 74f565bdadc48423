"""Every constraint, refusal and statement about a release in the reference on SGLang's memory, as one container each: the rule
that says so, or none."""

from __future__ import annotations

from functools import lru_cache

import pytest

from planner.documents.read import read_bytes
from planner.lint.rule import Rule
from planner.lint.run import lint, select_rules
from planner.settings import Settings
from tests.rules.manifests import manifest

H100, A100, B200 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-B200"
L4, RTX4090 = "NVIDIA-L4", "NVIDIA-GeForce-RTX-4090"
DENSE, WINDOWS, STATES = "Qwen/Qwen3-8B", "openai/gpt-oss-20b", "Qwen/Qwen3-Next-80B-A3B-Instruct"
EAGLE = ("--speculative-algorithm=EAGLE", "--speculative-draft-model-path=a/b", "--speculative-num-steps=3",
         "--speculative-eagle-topk=1", "--speculative-num-draft-tokens=4")  # fmt: skip
DP = ("--tp=4", "--dp=4", "--enable-dp-attention")
BARE = ("--prefill-only-disable-kv-cache", "--is-embedding", "--disable-radix-cache")
HICACHE = "--enable-hierarchical-cache"

CONFLICT, VALUE, UNKNOWN, REMOVED = "conflicting-flags", "invalid-flag-value", "unknown-flag", "removed-flag"
OLD, LENGTH, DTYPE = "deprecated-flag", "max-model-len-exceeds-model", "kv-cache-dtype-unsupported"
WEIGHTS, NONE, SHORT = "weights-do-not-fit", "no-kv-cache-memory", "kv-cache-below-one-request"
HOST, GPUS, HEADS = "host-memory-too-small", "gpu-count-mismatch", "attention-heads-not-divisible"
LOOKED_AT = (CONFLICT, VALUE, UNKNOWN, REMOVED, OLD, LENGTH, DTYPE, WEIGHTS, NONE, SHORT, HOST, GPUS, HEADS)


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    return tuple(rule for rule in select_rules(Settings()) if rule.id in LOOKED_AT)


def found(
    args: tuple[str, ...], version: str, gpu: str = H100, *, gpus: int = 0, model: str = DENSE, memory: str = "",
    env: dict[str, str] | None = None,
) -> set[str]:  # fmt: skip
    """The rules that an SGLang container breaks. GPUs: as many as the sizes that the arguments state ask for."""
    sizes = [int(word.partition("=")[2]) for word in args if word.startswith(("--tp=", "--pp-size="))]
    for size in sizes if not gpus else ():
        gpus = (gpus or 1) * size
    resources: dict[str, object] = {"nvidia.com/gpu": gpus or 1}
    if memory:
        resources["memory"] = memory
    text = manifest(
        [f"--model-path={model}", "--host=0.0.0.0", *args],
        version,
        engine="sglang",
        gpu=gpu,
        resources=resources,
        env=env,
    )
    report = lint([read_bytes(text.encode(), "m.yaml")], rules(), Settings())
    return {finding.rule for finding in report.findings}


@pytest.mark.parametrize(
    ("section", "args", "version", "gpu", "expected"),
    [
        # 3.2, 3.4: fractions, and an upgrade that leaves a small card without a cache
        ("3.1 a share of all", ("--mem-fraction-static=1.0",), "0.5.23", H100, VALUE),
        ("3.4 L4 before 0.5.20", (), "0.5.19", L4, SHORT),
        ("3.4 L4 from 0.5.20 on", (), "0.5.20", L4, WEIGHTS),
        ("3.4 RTX 4090 from 0.5.20 on", (), "0.5.20", RTX4090, SHORT),
        # 4: chunks and graphs
        ("4.2 no prefill graphs yet", ("--enable-piecewise-cuda-graph",), "0.5.3", H100, UNKNOWN),
        ("4.2 opt-in", ("--enable-piecewise-cuda-graph",), "0.5.6", H100, ""),
        ("4.2 on by default", ("--enable-piecewise-cuda-graph",), "0.5.10", H100, OLD),
        ("4.2 other name", ("--disable-piecewise-cuda-graph",), "0.5.14", H100, OLD),
        ("4.4 a chunk over groups", ("--chunked-prefill-size=512", "--page-size=64", "--tp=16", "--dp=16", "--enable-dp-attention"),
         "0.5.12", H100, CONFLICT),
        # 5.1: element types
        ("5.1 0.4.x", ("--kv-cache-dtype=bf16",), "0.4.9", H100, VALUE),
        ("5.1 0.5.6", ("--kv-cache-dtype=bf16",), "0.5.6", H100, ""),
        ("5.1 no FP4 of that name any more", ("--kv-cache-dtype=fp4_e2m1",), "0.5.23", H100, VALUE),
        ("5.1 mxfp8 on Hopper", ("--kv-cache-dtype=mxfp8",), "0.5.23", H100, DTYPE),
        ("5.1 mxfp8 on Blackwell", ("--kv-cache-dtype=mxfp8",), "0.5.23", B200, ""),
        ("5.1 nvfp4 on Hopper", ("--kv-cache-dtype=nvfp4",), "0.5.23", H100, DTYPE),
        ("5.1 nvfp4 on Blackwell", ("--kv-cache-dtype=nvfp4",), "0.5.23", B200, ""),
        ("5.1 nvfp4 too early", ("--kv-cache-dtype=nvfp4",), "0.5.12", B200, VALUE),
        ("5.1 FP8 on Ampere", ("--kv-cache-dtype=fp8_e4m3",), "0.5.23", A100, ""),
        # 5.2: pages
        ("5.2 chunk and page", ("--chunked-prefill-size=1000", "--page-size=64"), "0.5.23", H100, CONFLICT),
        ("5.2 whole pages", ("--chunked-prefill-size=1024", "--page-size=64"), "0.5.23", H100, ""),
        ("5.2 chunking off", ("--chunked-prefill-size=-1", "--page-size=64"), "0.5.23", H100, ""),
        ("5.2 a backend's pages", ("--attention-backend=trtllm_mha", "--chunked-prefill-size=1000"), "0.5.23", B200, CONFLICT),
        ("5.2 no page", ("--page-size=0",), "0.5.23", H100, VALUE),
        # 5.3: windows
        ("5.3 ratio 0", ("--swa-full-tokens-ratio=0",), "0.5.23", H100, VALUE),
        ("5.3 ratio above 1", ("--swa-full-tokens-ratio=1.5",), "0.5.12", H100, VALUE),
        ("5.3 ratio 1", ("--swa-full-tokens-ratio=1.0",), "0.5.23", H100, ""),
        ("5.3 ratio too early", ("--swa-full-tokens-ratio=0.5",), "0.4.9", H100, UNKNOWN),
        ("5.3 the older ratio", ("--hybrid-kvcache-ratio=0.5",), "0.5.7", H100, ""),
        ("5.3 the older ratio too early", ("--hybrid-kvcache-ratio=0.5",), "0.4.8", H100, UNKNOWN),
        # 6: requests
        ("6.1 no request", ("--max-running-requests=0",), "0.5.23", H100, CONFLICT),
        ("6.1 fewer than groups", (*DP, "--max-running-requests=2"), "0.5.12", H100, CONFLICT),
        ("6.1 as many as groups", (*DP, "--max-running-requests=4"), "0.5.12", H100, ""),
        ("6.4 longer than the model", ("--context-length=100000",), "0.5.23", H100, LENGTH),
        # 7: ranks
        ("7 ranks and nodes", ("--tp=4", "--nnodes=3"), "0.5.23", H100, CONFLICT),
        ("7 replicas over nodes", ("--tp=2", "--dp=2", "--nnodes=2"), "0.5.23", H100, CONFLICT),
        ("7 groups that do not divide", ("--tp=4", "--dp=3", "--enable-dp-attention"), "0.5.12", H100, CONFLICT),
        ("7 DP attention asks for no GPUs more", DP, "0.5.21", H100, ""),
        ("7 replicas do", ("--tp=2", "--dp=2"), "0.5.21", H100, GPUS),
        ("7 --attn-dp-size too early", ("--tp=4", "--attn-dp-size=2"), "0.5.21", H100, UNKNOWN),
        ("7 --attn-dp-size", ("--tp=4", "--attn-dp-size=2"), "0.5.22", H100, ""),
        ("7 both", ("--tp=4", "--attn-dp-size=2", "--dp=2"), "0.5.22", H100, CONFLICT),
        ("7 no groups in 0.4.6", ("--tp=4", "--enable-dp-attention"), "0.4.6", H100, CONFLICT),
        ("7 pipeline too early", ("--pp-size=2",), "0.4.6", H100, UNKNOWN),
        ("7 pipeline", ("--pp-size=2",), "0.4.7", H100, ""),
        ("7 DCP too early", ("--tp=2", "--dcp-size=2"), "0.5.14", H100, UNKNOWN),
        ("7 DCP", ("--tp=4", "--dcp-size=3"), "0.5.15", H100, CONFLICT),
        ("7 DCP and the prompt's", ("--tp=4", "--dcp-size=2", "--enable-prefill-cp", "--cp-strategy=zigzag"), "0.5.21", H100, CONFLICT),
        ("7 DCP replicas", ("--tp=4", "--dcp-replicate-q-proj"), "0.5.18", H100, CONFLICT),
        ("7 heads", ("--tp=3",), "0.5.23", H100, HEADS),
        # 9: the cache in the host's memory
        ("9 needs the radix cache", (HICACHE, "--disable-radix-cache"), "0.5.23", H100, CONFLICT),
        ("9 smaller than the device's, by ratio", (HICACHE, "--hicache-ratio=0.5"), "0.5.12", H100, CONFLICT),
        ("9 a warning later", (HICACHE, "--hicache-ratio=0.5"), "0.5.18", H100, ""),
        ("9 smaller than the device's, by size", (HICACHE, "--hicache-size=5"), "0.5.12", H100, CONFLICT),
        ("9 smaller, later", (HICACHE, "--hicache-size=5"), "0.5.18", H100, ""),
        ("9 larger than the device's", (HICACHE, "--hicache-size=120"), "0.5.12", H100, ""),
        ("9 share of the host", (HICACHE, "--hicache-host-memory-fraction=1.5"), "0.5.23", H100, VALUE),
        ("9 share too early", (HICACHE, "--hicache-host-memory-fraction=0.5"), "0.5.20", H100, UNKNOWN),
        ("9 layout", (HICACHE, "--hicache-mem-layout=pages"), "0.5.23", H100, VALUE),
        # 11: sizing
        ("11 weights above the share", ("--mem-fraction-static=0.15",), "0.5.12", H100, WEIGHTS),
        ("11 the same, newer", ("--mem-fraction-static=0.15",), "0.5.23", H100, WEIGHTS),
        # 12: flags by release
        ("12", ("--max-queued-requests=4",), "0.4.9", H100, UNKNOWN),
        ("12", ("--max-queued-requests=4",), "0.4.10", H100, ""),
        ("12", ("--prefill-max-requests=4",), "0.5.6", H100, UNKNOWN),
        ("12", ("--prefill-max-requests=4",), "0.5.7", H100, ""),
        ("12", ("--offload-group-size=4",), "0.4.10", H100, UNKNOWN),
        ("12", ("--cuda-graph-max-bs=4",), "0.5.13", H100, ""),
        ("12", ("--cuda-graph-max-bs=4",), "0.5.14", H100, OLD),
        ("12", ("--max-mamba-cache-size=400",), "0.5.1", H100, UNKNOWN),
        ("12", ("--mamba-full-memory-ratio=0.5",), "0.5.3", H100, UNKNOWN),
        ("12", ("--mamba-scheduler-strategy=auto",), "0.5.14", H100, OLD),
        ("12", (HICACHE,), "0.4.2", H100, UNKNOWN),
        ("12", ("--tp=2", "--attn-cp-size=2"), "0.5.8", H100, UNKNOWN),
        ("12", ("--moe-a2a-backend=deepep",), "0.4.10", H100, UNKNOWN),
        ("12", ("--max-micro-batch-size=4",), "0.5.4", H100, REMOVED),
        ("12", ("--disaggregation-mode=prefill",), "0.4.4", H100, UNKNOWN),
        ("12", ("--num-reserved-decode-tokens=4",), "0.4.7", H100, UNKNOWN),
        ("12", ("--max-lora-rank=8",), "0.4.9", H100, UNKNOWN),
        ("12", ("--enable-symm-mem",), "0.4.10", H100, UNKNOWN),
        ("12", ("--language-model-only",), "0.5.17", H100, UNKNOWN),
        ("12", ("--prefill-only-disable-kv-cache",), "0.5.11", H100, UNKNOWN),
        ("12", ("--disable-mla",), "0.4.6", H100, REMOVED),
        ("12 suffixes", ("--max-total-tokens=100k",), "0.4.9", H100, VALUE),
        ("12 suffixes", ("--max-total-tokens=100k",), "0.5.23", H100, ""),
        # 13: what stops the start
        ("13 dense layers", ("--tp=4", "--moe-dense-tp-size=2"), "0.5.23", H100, CONFLICT),
        ("13 expert groups", ("--tp=4", "--ep=4", "--moe-dp-size=2"), "0.5.23", H100, CONFLICT),
        ("13 CUTLASS experts", ("--tp=4", "--ep=2", "--moe-runner-backend=flashinfer_cutlass"), "0.5.23", H100, CONFLICT),
        ("13 stages and drafts", ("--pp-size=2", *EAGLE), "0.5.12", H100, CONFLICT),
        ("13 multiplexing", ("--enable-pdmux", "--disable-overlap-schedule"), "0.5.23", H100, CONFLICT),
        ("13 mixed chunks are switched off", ("--enable-mixed-chunk", "--speculative-algorithm=NGRAM"), "0.5.12", H100, ""),
        ("13 PLE", ("--ple-offload-embedding", "--cpu-offload-gb=4"), "0.5.20", H100, CONFLICT),
        ("13 no cache, chunks", BARE, "0.5.12", H100, CONFLICT),
        ("13 no cache", (*BARE, "--chunked-prefill-size=-1"), "0.5.12", H100, ""),
    ],
)  # fmt: skip
def test_statements_of_the_reference(
    section: str, args: tuple[str, ...], version: str, gpu: str, expected: str
) -> None:
    assert found(args, version, gpu) == ({expected} if expected else set()), section


def test_a_longer_length_than_the_model_has_is_allowed_by_a_variable() -> None:
    name = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
    long = ("--context-length=100000",)
    assert not found(long, "0.5.23", env={name: "1"})
    assert found(long, "0.5.23", env={name: "0"}) == {LENGTH}


def test_the_pinned_pool_counts_against_the_pod() -> None:
    assert found((HICACHE, "--hicache-size=200"), "0.5.12", memory="64Gi") == {HOST}
    assert not found((HICACHE, "--hicache-size=200"), "0.5.12", memory="400Gi")


@pytest.mark.parametrize(
    ("args", "model", "version", "expected"),
    [
        (("--tp=4", "--max-mamba-cache-size=1"), STATES, "0.5.23", NONE),
        (("--tp=4", "--max-mamba-cache-size=1"), STATES, "0.5.12", ""),
        (("--tp=4", "--max-mamba-cache-size=400"), STATES, "0.5.23", ""),
        (("--tp=4", "--max-mamba-cache-size=1", "--disable-radix-cache"), STATES, "0.5.23", ""),
        (("--swa-full-tokens-ratio=0.00001",), WINDOWS, "0.5.16", NONE),
        (("--swa-full-tokens-ratio=0.00001",), WINDOWS, "0.5.15", ""),
        (("--swa-full-tokens-ratio=0.0625",), WINDOWS, "0.5.23", ""),
    ],
)
def test_pools_that_serve_no_request(args: tuple[str, ...], model: str, version: str, expected: str) -> None:
    assert found(args, version, model=model) - {SHORT} == ({expected} if expected else set())
