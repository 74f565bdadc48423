"""Combinations that SGLang refuses, with the releases that refuse them, and their neighbours that it takes. From 0.5.6 on each
was also asked of the release's own argument checks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.facts.plans import facts_of
from tests.rules.manifests import manifest

DEFAULTS = ("--model-path=Qwen/Qwen3-8B", "--host=0.0.0.0")
EAGLE = ("--speculative-algorithm=EAGLE", "--speculative-draft-model-path=a/b", "--speculative-num-steps=3",
         "--speculative-eagle-topk=1", "--speculative-num-draft-tokens=4")  # fmt: skip
DFLASH = ("--speculative-algorithm=DFLASH", "--speculative-draft-model-path=a/b")
LATENT = "--model-path=deepseek-ai/DeepSeek-V3"
H100, B200, A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-B200", "NVIDIA-A100-SXM4-80GB"


def conflicts(*args: str, version: str, **options: Any) -> list[str]:
    facts, _ = facts_of([*DEFAULTS, *args], version, engine="sglang", resources={"nvidia.com/gpu": 8}, **options)
    return [item["message"] for item in facts["conflicts"] if item["refused"]]


@pytest.mark.parametrize(
    ("words", "args", "refused", "taken"),
    [
        # parallel sizes
        ("data parallel size (3)", ("--tp=4", "--dp=3", "--enable-dp-attention"), ("0.4.4.post1", "0.5.23"), ("0.4.4",)),
        ("above 1 in this release", ("--tp=4", "--enable-dp-attention"), ("0.5.1.post3",), ("0.5.2", "0.5.23", "0.4.4")),
        ("cannot be combined", ("--tp=4", "--attn-dp-size=2", "--dp=2"), ("0.5.22",), ()),
        ("does not divide by --attn-dp-size", ("--tp=4", "--attn-dp-size=3"), ("0.5.22", "0.5.23"), ()),
        ("do not divide by --nnodes", ("--tp=4", "--nnodes=3"), ("0.4.0", "0.5.23"), ()),
        ("keeps on one node", ("--dp=2", "--tp=2", "--nnodes=2"), ("0.4.0", "0.5.23"), ()),
        ("--enable-dp-lm-head", ("--tp=4", "--dp=2", "--enable-dp-lm-head"), ("0.5.6", "0.5.23"), ()),
        ("--attn-cp-size 3", ("--tp=4", "--attn-cp-size=3"), ("0.5.9",), ()),
        ("× 4 groups", ("--tp=4", "--attn-cp-size=2", "--dp=4", "--enable-dp-attention"), ("0.5.21",), ()),
        ("--moe-dp-size 2", ("--tp=4", "--moe-dp-size=2", "--ep=4"), ("0.5.9",), ()),
        ("one rank or on all 4", ("--tp=4", "--moe-dense-tp-size=2"), ("0.4.5.post2", "0.5.23"), ()),
        ("one rank or on all 4", ("--tp=4", "--moe-dense-tp-size=4"), ("0.5.12.post1",), ("0.5.13", "0.5.23")),
        # experts
        ("nothing to balance", ("--tp=4", "--enable-eplb"), ("0.5.1", "0.5.23"), ()),
        ("of 1 or 4, not 2", ("--tp=4", "--ep=2", "--moe-runner-backend=flashinfer_cutlass"), ("0.5.6", "0.5.23"), ()),
        ("exchange between expert ranks", ("--enable-two-batch-overlap",), ("0.5.7", "0.5.23"), ("0.5.6",)),
        ("exchange between expert ranks", ("--tp=4", "--dp=4", "--enable-dp-attention", "--enable-two-batch-overlap"),
         ("0.5.14",), ("0.5.15",)),
        ("over all 4 ranks", ("--tp=4", "--moe-a2a-backend=flashinfer"), ("0.5.13", "0.5.22"), ("0.5.12", "0.5.23")),
        ("pplx needs", ("--tp=4", "--moe-a2a-backend=pplx"), ("0.5.17", "0.5.23"), ()),
        ("no expert parallelism for FP8", ("--tp=4", "--ep=4", "--moe-runner-backend=cutlass", "--quantization=fp8"),
         ("0.5.4.post3", "0.5.23"), ("0.5.4.post2",)),
        # cache and scheduling
        ("exclude each other", ("--enable-hierarchical-cache", "--disable-radix-cache"), ("0.5.1", "0.5.23"), ("0.4.10",)),
        ("decode node", ("--enable-hierarchical-cache", "--disaggregation-mode=decode"), ("0.5.6", "0.5.23"), ()),
        ("no multiple of the page size, 64", ("--chunked-prefill-size=1000", "--page-size=64"), ("0.4.4", "0.5.23"), ()),
        ("no multiple of the page size, 64", ("--chunked-prefill-size=-1", "--page-size=64"), ("0.4.9",), ("0.5.1", "0.5.23")),
        ("over 16 groups", ("--chunked-prefill-size=512", "--page-size=64", "--tp=16", "--dp=16", "--enable-dp-attention"),
         ("0.5.6", "0.5.23"), ()),
        ("fcfs and lof", ("--enable-priority-scheduling", "--schedule-policy=lpm"), ("0.5.3", "0.5.23"), ()),
        ("--retraction-policy", ("--retraction-policy=priority",), ("0.5.16",), ()),
        ("--enable-pdmux excludes chunked", ("--enable-pdmux", "--disable-overlap-schedule"), ("0.5.6", "0.5.23"), ()),
        ("needs --disable-overlap-schedule", ("--enable-pdmux", "--chunked-prefill-size=-1"), ("0.5.6", "0.5.23"), ()),
        ("needs --is-embedding", ("--prefill-only-disable-kv-cache",), ("0.5.12", "0.5.23"), ()),
        ("--pp-size 2 with", ("--pp-size=2", *EAGLE), ("0.4.6.post2", "0.5.20", "0.5.23"), ()),
        ("--pp-size 2 with", ("--pp-size=2", *EAGLE, "--disaggregation-mode=prefill"), ("0.5.20",), ("0.5.22",)),
        ("excludes --enable-mixed-chunk", ("--pp-size=2", "--enable-mixed-chunk"), ("0.5.10",), ("0.5.11",)),
        # speculation and adapters
        ("NGRAM excludes", ("--tp=2", "--dp=2", "--enable-dp-attention", "--speculative-algorithm=NGRAM"), ("0.5.6",), ()),
        ("DFLASH excludes", ("--tp=2", "--dp=2", "--enable-dp-attention", *DFLASH), ("0.5.12", "0.5.22"), ("0.5.23",)),
        ("needs a draft model", ("--speculative-algorithm=DFLASH",), ("0.5.12", "0.5.23"), ()),
        ("without --speculative-num-steps", (*EAGLE[:2], "--speculative-eagle-topk=1"), ("0.4.4.post4", "0.5.23"), ("0.4.4.post3",)),
        ("a draft tree over pages of 16", (*EAGLE, "--speculative-eagle-topk=2", "--page-size=16", "--attention-backend=triton"),
         ("0.5.6", "0.5.12"), ("0.5.13",)),
        ("without --lora-paths needs --max-lora-rank and", ("--enable-lora",), ("0.5.6", "0.5.23"), ()),
        ("without --lora-paths needs --lora-target-modules", ("--enable-lora", "--max-lora-rank=16"), ("0.5.6", "0.5.23"), ()),
        ("--max-loaded-loras 4", ("--lora-paths", "a=/a", "--max-loaded-loras=4"), ("0.4.10.post2", "0.5.23"), ()),
        ("for 2 adapters", ("--lora-paths", "a=/a", "b=/b", "--max-loras-per-batch=1", "--max-loaded-loras=1"), ("0.5.6",), ()),
        ("combines it with NGRAM only", ("--lora-paths", "a=/a", *EAGLE), ("0.5.5.post3", "0.5.18"), ("0.5.19",)),
        ("needs --disable-cuda-graph", ("--lora-paths", "a=/a"), ("0.4.6",), ("0.4.6.post2",)),
        ("needs --disable-radix-cache", ("--lora-paths", "a=/a"), ("0.4.10",), ("0.5.1",)),
        # serving
        ("a colon", ("--served-model-name=qwen3:8b",), ("0.5.5.post1", "0.5.23"), ("0.5.5",)),
        ("needs --export-metrics-to-file-dir", ("--export-metrics-to-file",), ("0.5.6", "0.5.23"), ()),
        ("the port of HTTP", ("--grpc-port=30000",), ("0.5.17", "0.5.23"), ()),
        ("exclude each other", ("--grpc-port=40000", "--api-key=x"), ("0.5.16",), ()),
        ("is for decode nodes", ("--disaggregation-decode-enable-offload-kvcache",), ("0.5.6", "0.5.23"), ()),
        ("cannot fake", ("--disaggregation-mode=prefill", "--disaggregation-transfer-backend=fake"), ("0.5.10",), ("0.5.9",)),
        ("exclude each other", ("--ple-offload-embedding", "--cpu-offload-gb=4"), ("0.5.20", "0.5.23"), ()),
        ("exclude each other", ("--encoder-only", "--language-only"), ("0.5.7", "0.5.23"), ()),
        ("needs --encoder-urls", ("--language-only",), ("0.5.7", "0.5.12"), ("0.5.14",)),
        ("exclude each other", ("--disable-cuda-graph-padding", "--enable-torch-compile"), ("0.5.12",), ("0.5.10",)),
        ("needs --dcp-size above 1", ("--dcp-comm-backend=a2a",), ("0.5.17",), ()),
        ("deterministic", ("--enable-deterministic-inference", "--attention-backend=torch_native"), ("0.5.6", "0.5.23"), ()),
        ("deterministic", ("--enable-deterministic-inference", "--attention-backend=fa4"), ("0.5.15",), ("0.5.17",)),
    ],
)  # fmt: skip
def test_constraints_hold_in_the_releases_that_have_them(
    words: str, args: tuple[str, ...], refused: tuple[str, ...], taken: tuple[str, ...]
) -> None:
    for version in refused:
        assert [message for message in conflicts(*args, version=version, gpu="") if words in message], version
    for version in taken:
        assert not [message for message in conflicts(*args, version=version, gpu="") if words in message], version


@pytest.mark.parametrize(
    ("args", "gpu", "refused", "taken"),
    [
        (("--attention-backend=fa3",), B200, ("0.4.6.post2", "0.5.23"), ("0.4.6",)),
        (("--attention-backend=fa3",), "Tesla-T4", ("0.4.6", "0.5.23"), ()),
        (("--attention-backend=fa3",), A100, ("0.4.6",), ("0.4.6.post2", "0.5.23")),
        ((LATENT, "--attention-backend=fa3"), A100, ("0.5.5",), ()),
        (("--attention-backend=fa3",), H100, (), ("0.4.6", "0.5.23")),
        (("--attention-backend=fa3", "--kv-cache-dtype=fp8_e5m2"), B200, (), ("0.5.5",)),  # which Triton runs
        (("--attention-backend=fa3", "--decode-attention-backend=triton", "--prefill-attention-backend=triton"), B200, (),
         ("0.5.23",)),
        (("--attention-backend=trtllm_mla",), H100, ("0.5.1", "0.5.23"), ()),
        (("--attention-backend=trtllm_mla",), B200, (), ("0.5.1", "0.5.23")),
        (("--attention-backend=trtllm_mha",), H100, ("0.5.6", "0.5.18"), ("0.5.19",)),
        (("--decode-attention-backend=trtllm_mha",), H100, ("0.5.9",), ("0.5.10", "0.5.23")),
        (("--attention-backend=trtllm_mha",), A100, ("0.5.9", "0.5.23"), ()),
        (("--attention-backend=cutedsl_mla",), H100, ("0.5.14",), ()),
    ],
)  # fmt: skip
def test_attention_kernels_have_devices(
    args: tuple[str, ...], gpu: str, refused: tuple[str, ...], taken: tuple[str, ...]
) -> None:
    for version in refused:
        assert [message for message in conflicts(*args, version=version, gpu=gpu) if "has no kernels for" in message], (
            version
        )
    for version in taken:
        assert not conflicts(*args, version=version, gpu=gpu), version
    assert not conflicts(*args, version="0.5.18", gpu="")  # a device that is not known has them


@pytest.mark.parametrize(
    "args",
    [
        ("--tp=4", "--dp=2", "--enable-dp-attention"),
        ("--tp=8", "--dp=$(DP)", "--enable-dp-attention"),
        ("--tp=4", "--enable-dp-lm-head"),  # one replica drops the switch
        ("--tp=4", "--ep=4", "--enable-eplb"),
        ("--tp=4", "--enable-eplb", "--moe-a2a-backend=deepep"),
        ("--tp=4", "--enable-eplb", "--enable-deepep-moe"),
        ("--enable-eplb", "$EXTRA_ARGS"),
        ("--enable-lora", "--max-lora-rank=16", "--lora-target-modules", "all"),
        ("--enable-lora", "$EXTRA_ARGS"),
        ("--lora-paths", "a=/a"),
        ("--served-model-name=s3://bucket/model",),
        ("--chunked-prefill-size=4096", "--page-size=64"),
        ("--chunked-prefill-size=1000", "--page-size=64", "--disaggregation-mode=decode"),
        ("--chunked-prefill-size=1000", "--page-size=64", "--disaggregation-mode=$(ROLE)"),
        ("--enable-pdmux", "--chunked-prefill-size=-1", "--disable-overlap-schedule"),
        ("--pp-size=2",),
        EAGLE,
        (*DFLASH, "--speculative-num-draft-tokens=4"),
        ("--tp=2", "--nnodes=2", "--node-rank=0"),
        ("--tp=8", "--dp=2", "--nnodes=2", "--enable-dp-attention"),
        ("--enable-priority-scheduling", "--schedule-policy=fcfs"),
        ("--enable-hierarchical-cache", "--hicache-storage-backend=file"),
    ],
    ids=" ".join,
)
def test_what_is_taken(args: tuple[str, ...]) -> None:
    assert not conflicts(*args, version="0.5.20", gpu="")


def test_a_conflict_points_at_its_flag() -> None:
    arguments = [*DEFAULTS, "--tp=4", "--served-model-name=qwen3:8b"]
    facts, positions = facts_of(arguments, "0.5.23", engine="sglang", gpu="")
    assert facts["conflicts"][0]["remedy"] == "Write qwen3-8b"
    lines = manifest(arguments, "0.5.23", engine="sglang", gpu="").splitlines()
    place = positions["engine.conflicts[0]"]
    assert lines[place.line - 1][place.column - 1 :].startswith("--served-model-name=qwen3:8b")


def test_stages_of_a_model_that_has_none() -> None:
    gemma = ("--model-path=google/gemma-3-27b-it", "--pp-size=2")
    words = "Gemma3ForConditionalGeneration cannot be split"
    assert words in conflicts(*gemma, version="0.5.23")[0]
    assert words in conflicts(*gemma, version="0.5.6")[0]
    assert conflicts(*gemma, version="0.5.5") == []  # started, and answered nonsense
    assert conflicts(gemma[0], "--pp-size=1", version="0.5.23") == []
    assert conflicts(*gemma, "--model-impl=transformers", version="0.5.23") == []
    assert conflicts("--pp-size=2", version="0.5.23") == []
    solar = ("--model-path=MiniMaxAI/MiniMax-M2", "--pp-size=2", "--tp-size=4")
    assert "MiniMaxM2ForCausalLM cannot be split" in conflicts(*solar, version="0.5.9")[0]
    assert conflicts(*solar, version="0.5.10") == []
