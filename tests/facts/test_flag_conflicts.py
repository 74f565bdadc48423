"""Combinations that an engine refuses, with the releases that refuse them, and their neighbours that it takes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.facts.plans import LLAMA, facts_of
from tests.rules.manifests import manifest

LENGTH = "--max-model-len=8192"
DRAFT = '{"model": "a/b", "num_speculative_tokens": 3, "draft_tensor_parallel_size": 2}'
NGRAM = '--speculative-config={"method": "ngram", "num_speculative_tokens": 3}'


def conflicts(*args: str, version: str = "0.11.0", **options: Any) -> list[str]:
    facts, _ = facts_of(list(args), version, **options)
    return [item["message"] for item in facts["conflicts"]]


@pytest.mark.parametrize(
    ("words", "args", "first", "before"),
    [
        ("maximum length", (LENGTH, "--max-num-batched-tokens=4096", "--no-enable-chunked-prefill"), "0.11.0", ""),
        ("fewer than", ("--max-num-batched-tokens=64", "--max-num-seqs=128"), "0.6.0", ""),
        ("--max-num-active-seqs", ("--max-num-active-seqs=64", "--max-num-seqs=32"), "0.31.0", "0.30.0"),
        ("--data-parallel-size-local", ("--data-parallel-size-local=4", "--data-parallel-size=2"), "0.9.0", ""),
        ("does not divide", ("--tensor-parallel-size=4", "--decode-context-parallel-size=3"), "0.10.2", ""),
        ("needs expert parallelism", ("--enable-eplb", "--tensor-parallel-size=2"), "0.10.0", "0.9.2"),
        ("redundant experts", ('--eplb-config={"num_redundant_experts": 2}',), "0.11.0", ""),
        ("has no experts", ("--enable-expert-parallel",), "0.11.0", ""),
        ("headless", ("--headless", "--api-server-count=2"), "0.10.0", ""),
        ("parser of the model's tool calls", ("--enable-auto-tool-choice",), "0.6.0", ""),
        ("reasoning parser", ("--enable-reasoning",), "0.8.5", ""),
        ("--enable-log-requests", ("--enable-log-outputs",), "0.11.0", "0.10.2"),
        ("statistics", ("--enable-per-request-metrics", "--disable-log-stats"), "0.25.0", ""),
        ("adapters are refused", ("--lora-modules=a=/a",), "0.6.0", ""),
        ("--max-cpu-loras", ("--enable-lora", "--max-loras=4", "--max-cpu-loras=2"), "0.11.0", ""),
        ("largest of", ("--max-cudagraph-capture-size=256", "--cudagraph-capture-sizes", "1", "128"), "0.11.1", ""),
        ("same key", ("--cudagraph-capture-sizes=8", '--compilation-config={"cudagraph_capture_sizes": [8]}'), "0.11.1", ""),
        ("prefix caching", ("--mamba-block-size=64", "--no-enable-prefix-caching"), "0.11.1", ""),
        ("LoRA with chunked", ("--enable-lora", "--enable-chunked-prefill"), "0.6.4", "0.6.5"),
        ("partial-prefills", ("--max-num-partial-prefills=2", "--no-enable-chunked-prefill"), "0.26.0", ""),
        ("--long-prefill-token-threshold", (LENGTH, "--long-prefill-token-threshold=9000"), "0.28.0", "0.11.0"),
        ("EPLB", ("--enable-elastic-ep",), "0.17.0", ""),
        ("one prefill at a time", ("--max-num-partial-prefills=2",), "0.11.1", "0.11.0"),
        ("pipeline parallelism", ("--async-scheduling", "--pipeline-parallel-size=2"), "0.14.1", "0.15.0"),
        ("speculative decoding", ("--async-scheduling", '--speculative-config={"model": "a/b"}'), "0.11.0", "0.11.1"),
        ("by n-grams", ("--async-scheduling", NGRAM), "0.32.0", ""),
        ("Ray's executor", ("--async-scheduling", "--distributed-executor-backend=ray"), "0.18.1", "0.19.0"),
        ("DeepEP", ("--enable-dbo", "--data-parallel-size=2"), "0.11.0", ""),
        ("DeepEP", ("--enable-dbo", "--all2all-backend=allgather_reducescatter"), "0.19.1", ""),
        ("executor-backend is ray", ("--nnodes=2", "-tp=2", "--distributed-executor-backend=ray"), "0.11.1", ""),
        ("3 ranks do not divide", ("--nnodes=2", "--tensor-parallel-size=3"), "0.11.1", ""),
        ("--node-rank 2", ("--nnodes=2", "--tensor-parallel-size=2", "--node-rank=2"), "0.19.1", ""),
        ("exclude each other", ("--data-parallel-hybrid-lb", "--data-parallel-external-lb", "-dp=2"), "0.11.1", ""),
        ("needs --data-parallel-size-local", ("--data-parallel-hybrid-lb", "--data-parallel-size=2"), "0.10.0", ""),
        ("needs --data-parallel-rank", ("--data-parallel-external-lb", "--data-parallel-size=2"), "0.11.1", ""),
        ("headless mode", ("--data-parallel-hybrid-lb", "--headless", "-dp=4", "-dpl=2"), "0.10.0", ""),
        ("--data-parallel-rank 3", ("--data-parallel-rank=3", "--data-parallel-size=2"), "0.9.2", ""),
        ("ranks are of two or more", ("--data-parallel-rank=0",), "0.19.1", ""),
        ("no experts to share", ("--data-parallel-rank=1", "--data-parallel-size=2"), "0.21.0", "0.20.2"),
        ("KV heads (8)", ("--tensor-parallel-size=8", "--decode-context-parallel-size=2"), "0.11.0", ""),
        ("needs num_speculative_tokens", ('--speculative-config={"method": "ngram"}',), "0.19.1", ""),
        ("at least 1", ('--speculative-config={"method": "ngram", "num_speculative_tokens": 0}',), "0.11.0", ""),
        ("without a model", ('--speculative-config={"num_speculative_tokens": 3}',), "0.11.0", "0.10.2"),
        ("which eagle3 needs", ('--speculative-config={"method": "eagle3", "num_speculative_tokens": 3}',), "0.11.0", ""),
        ("prompt_lookup_max 2", (NGRAM[:-1] + ', "prompt_lookup_min": 5, "prompt_lookup_max": 2}',), "0.19.1", ""),
        ("eagle3 drafts", ("--kv-sharing-fast-prefill", '--speculative-config={"method": "eagle3", "model": "a/b"}'), "0.11.1",
         "0.11.0"),
        ("--attention-config", ("--attention-backend=FLASH_ATTN", '--attention-config={"backend": "FLASHINFER"}'), "0.13.0", ""),
        ("a draft runs on one rank or on all", ("-tp=4", f"--speculative-config={DRAFT}"), "0.19.1", ""),
        ("not numerically stable", ("--model=google/gemma-3-4b-it", "--dtype=half"), "0.9.1", "0.9.0"),
        ("of groups of 2", ("--offload-group-size=2", "--offload-num-in-group=4"), "0.17.0", ""),
    ],
)  # fmt: skip
def test_constraints_hold_in_the_releases_that_have_them(
    words: str, args: tuple[str, ...], first: str, before: str
) -> None:
    assert [message for message in conflicts(*args, version=first) if words in message]
    if before:
        assert not [message for message in conflicts(*args, version=before) if words in message]


@pytest.mark.parametrize(
    "args",
    [
        (LENGTH, "--max-num-batched-tokens=2048"),  # chunked prefill is on by default
        ("--max-num-batched-tokens=256", "--max-num-seqs=256"),
        ("--enable-auto-tool-choice", "--tool-call-parser=hermes"),
        ("--enable-auto-tool-choice", "$EXTRA_ARGS"),  # a parser may stand in what is not expanded
        ("--enable-auto-tool-choice", "--tool-call-parser=$(PARSER)"),
        ("--enable-lora", "--lora-modules", "a=/a", "b=/b"),
        ("--enable-eplb", "--enable-expert-parallel", "--tensor-parallel-size=$(TP)"),
        ("--decode-context-parallel-size=2", "--tensor-parallel-size=16"),  # two ranks of every KV head
        ("--enable-dbo", "--data-parallel-size=2", "--all2all-backend=deepep_low_latency"),
        ("--nnodes=2", "--tensor-parallel-size=2", "--node-rank=$(RANK)"),
        ("--nnodes=2", "--tensor-parallel-size=$(TP)"),
        ("--data-parallel-hybrid-lb", "--data-parallel-size=4", "--data-parallel-size-local=2"),
        ("--data-parallel-rank=1", "--data-parallel-size=$(DP)"),
        (NGRAM,),
        ('--speculative-config={"method": "mtp", "num_speculative_tokens": 1}',),
        ("--pipeline-parallel-size=2",),
        ("--data-parallel-size-local=$(LOCAL)", "--data-parallel-size=2"),
        ("--no-enable-prefix-caching",),
    ],
    ids=" ".join,
)
def test_what_is_taken(args: tuple[str, ...]) -> None:
    found = [message for message in conflicts(*args, version="0.11.1") if "no experts" not in message]
    assert not found


def test_the_batch_of_a_default_length_counts_only_where_the_model_is_known() -> None:
    assert conflicts("--max-num-batched-tokens=4096", "--no-enable-chunked-prefill")  # Llama 3.1 has 131072 positions
    facts, _ = facts_of(
        ["--model=/models/unknown", "--max-num-batched-tokens=4096", "--no-enable-chunked-prefill"], engine="vllm"
    )
    assert not facts["conflicts"]


def test_stages_of_a_model_that_has_none() -> None:
    oss = ("--model=openai/gpt-oss-20b", "--pipeline-parallel-size=2")
    facts, positions = facts_of(list(oss), "0.10.1")
    assert [item["message"] for item in facts["conflicts"]] == [
        "GptOssForCausalLM cannot be split over pipeline stages in this release"
    ]
    assert "0.10.2 or newer" in facts["conflicts"][0]["remedy"]
    assert positions["engine.conflicts[0]"] == positions["engine.flags.pipeline-parallel-size"]
    assert conflicts(*oss, version="0.10.2") == []
    assert conflicts(oss[0], "--pipeline-parallel-size=1", version="0.10.1") == []
    for other in ("--model-impl=transformers", '--hf-overrides={"architectures": ["LlamaForCausalLM"]}'):
        assert conflicts(*oss, other, version="0.10.1") == []
    whisper = ("--model=openai/whisper-large-v3", "--pipeline-parallel-size=2")
    assert "or run" not in facts_of(list(whisper), "0.24.0")[0]["conflicts"][0]["remedy"]


STATES = ("--model=Qwen/Qwen3.6-27B-FP8", "--gpu-memory-utilization=0.95")
DRAFTS = '--speculative-config={"method": "mtp", "num_speculative_tokens": 2}'


def _states(*args: str, version: str = "0.22.1", **options: Any) -> list[bool]:
    """Whether each finding about blocks of recurrent state is a refusal."""
    facts, _ = facts_of([*STATES, *args], version, **options)
    return [item["refused"] for item in facts["conflicts"] if "recurrent state" in item["message"]]


def test_sequences_without_a_block_for_their_state() -> None:
    """A public report of this start on an H100: 1024 sequences, 856 blocks; 512 were the recipe's remedy."""
    facts, positions = facts_of([*STATES, "--max-num-seqs=1024"], "0.22.1")
    (found,) = facts["conflicts"]
    assert (
        "1,024 sequences (--max-num-seqs) are more than the cache has blocks, about 882 blocks (851 to 914)"
        in found["message"]
    )
    assert "--max-num-seqs 851 or less" in found["remedy"]
    assert positions["engine.conflicts[0]"] == positions["engine.flags.max-num-seqs"]
    facts, positions = facts_of(list(STATES), "0.22.1")
    assert "the default of --max-num-seqs" in facts["conflicts"][0]["message"]
    assert "engine.conflicts[0]" not in positions


def test_how_sure_it_is_that_blocks_are_too_few() -> None:
    assert _states("--max-num-seqs=920") == [True]  # of 919 at most
    assert _states("--max-num-seqs=914") == [False]
    assert _states("--max-num-seqs=905") == [False]  # above the middle of 890 expected and 919 at most
    assert _states("--max-num-seqs=900") == []
    assert _states("--num-gpu-blocks-override=100", "--max-num-seqs=100", "--max-model-len=8192") == []
    assert _states("--num-gpu-blocks-override=100", "--max-num-seqs=101", "--max-model-len=8192") == [True]
    assert _states("--max-num-seqs=1024", image="vllm/vllm-openai:latest") == [False]  # no release is stated


def test_blocks_count_where_whole_steps_are_captured() -> None:
    assert _states(version="0.20.0") == [True]
    assert _states(version="0.19.1") == []
    assert _states("--enforce-eager") == []
    assert _states('--compilation-config={"cudagraph_mode": "PIECEWISE"}') == []
    assert _states('--compilation-config={"cudagraph_mode": "FULL_DECODE_ONLY"}') == [True]
    connector = '{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both", "kv_connector_extra_config": {"use_layerwise": true}}'
    assert _states(f"--kv-transfer-config={connector}") == []
    assert _states(DRAFTS) == [True]  # FlashAttention captures several tokens a sequence
    blackwell = {"gpu": "NVIDIA-B200", "env": {}}
    few = ("--num-gpu-blocks-override=200", "--max-model-len=8192")
    assert _states(*few, **blackwell) == [True]
    assert _states(*few, DRAFTS, **blackwell) == []  # FlashInfer may not
    assert (
        _states(*few, '--speculative-config={"method": "mtp", "num_speculative_tokens_per_batch_size": [[1, 2]]}') == []
    )


def test_where_no_request_fits_that_is_said_alone() -> None:
    assert _states("--num-gpu-blocks-override=20") == []


_UNCHUNKED = (
    "--no-enable-chunked-prefill",
    "--max-num-batched-tokens=8192",
    "--max-model-len=8192",
    "--max-num-seqs=64",
)


@pytest.mark.parametrize(
    ("model", "version", "args", "refused"),
    [  # asked of these releases themselves
        ("Qwen/Qwen3.5-27B", "0.19.1", ("--enable-prefix-caching",), True),
        ("Qwen/Qwen3.5-27B", "0.24.0", (), False),
        ("Qwen/Qwen3.5-27B", "0.24.0", ("--enable-prefix-caching", "--mamba-cache-mode=all"), True),
        ("Qwen/Qwen3.5-27B", "0.32.0", (), True),
        ("Qwen/Qwen3.5-27B", "0.32.0", ("--no-enable-prefix-caching",), False),
        ("ibm-granite/granite-4.0-h-small", "0.24.0", ("--enable-prefix-caching",), False),
        ("ibm-granite/granite-4.0-h-small", "0.32.0", ("--enable-prefix-caching",), True),
        ("meta-llama/Llama-3.1-8B-Instruct", "0.32.0", ("--enable-prefix-caching",), False),
    ],
)
def test_states_that_are_saved_between_chunks(model: str, version: str, args: tuple[str, ...], refused: bool) -> None:
    found = conflicts(f"--model={model}", *_UNCHUNKED, *args, version=version)
    assert [words for words in found if "needs chunked prefill" in words] == (found if refused else [])
    assert bool(found) == refused


def test_saved_states_exclude_speculation_until_0_16() -> None:
    start = ("--model=Qwen/Qwen3.5-9B", "--max-model-len=8192", "--enable-prefix-caching", DRAFTS)
    assert "speculative decoding" in conflicts(*start, version="0.16.0")[0]
    assert conflicts(*start, version="0.17.0") == []


def test_vllm_serve_refuses_the_model_as_a_flag_until_0_11_1() -> None:
    serve = {"command": ["vllm", "serve"], "engine": "vllm"}
    model = LLAMA.partition("=")[2]
    assert conflicts("--model", model, version="0.8.0", **serve)
    assert conflicts("--model", model, version="0.10.2", **serve)
    assert not conflicts(f"--model={model}", version="0.10.2", **serve)  # only two words are looked for
    assert not conflicts("--model", model, version="0.12.0", **serve)
    assert not conflicts(model, version="0.10.2", **serve)
    assert not conflicts("--model", model, version="0.10.2", engine="vllm")  # the image starts another program


@pytest.mark.parametrize(
    ("words", "args", "refused", "taken"),
    [
        ("in total", ("--max-total-tokens=4096", "--max-input-tokens=4096"), ("1.4.0", "3.3.4"), ()),
        ("in total", ("--max-total-tokens=4096", "--max-input-tokens=4095"), (), ("3.3.4",)),
        (
            "longest input of 8192",
            ("--max-input-tokens=8192", "--max-batch-prefill-tokens=4096"),
            ("2.3.1",),
            ("2.4.0", "3.3.4"),
        ),
        (
            "prefill batch of 4096",
            ("--max-batch-prefill-tokens=4096", "--max-batch-total-tokens=2048"),
            ("2.3.1",),
            ("2.4.0",),
        ),
        ("one sequence", ("--max-total-tokens=4096", "--max-batch-total-tokens=2048"), ("0.9.2", "3.3.4"), ("0.9.1",)),
        ("old name", ("--max-input-length=100", "--max-input-tokens=100"), ("3.3.4",), ()),
        ("over 1 device", ("--sharded=true", "--num-shard=1"), ("1.4.0", "3.3.4"), ()),
        ("exl2", ("--quantize=exl2", "--num-shard=2"), ("2.1.0", "3.3.4"), ()),
    ],
)
def test_the_launcher_of_tgi(
    words: str, args: tuple[str, ...], refused: tuple[str, ...], taken: tuple[str, ...]
) -> None:
    def messages(version: str) -> list[str]:
        facts, _ = facts_of(["--model-id=Qwen/Qwen3-8B", *args], version, engine="tgi")
        return [item["message"] for item in facts["conflicts"] if item["refused"]]

    for version in refused:
        assert [message for message in messages(version) if words in message], version
    for version in taken:
        assert not messages(version), version


@pytest.mark.parametrize(
    ("words", "args", "env", "refused", "taken"),
    [
        ("ATTENTION 'FLASHINFER'", (), {"ATTENTION": "FLASHINFER"}, ("2.3.0", "3.3.4"), ("2.2.0",)),
        ("ATTENTION 'flashdecoding-ipex'", (), {"ATTENTION": "flashdecoding-ipex"}, ("3.0.1",), ("3.0.2",)),
        ("prefix caching (PREFIX_CACHING)", (), {"ATTENTION": "paged", "PREFIX_CACHING": "1"}, ("2.4.0", "3.3.4"), ("2.3.1",)),
        ("(USE_PREFIX_CACHING)", (), {"ATTENTION": "paged", "USE_PREFIX_CACHING": "true"}, ("2.3.1",), ("2.4.0",)),
        # The one release whose launcher leaves it on by itself.
        ("(USE_PREFIX_CACHING)", (), {"ATTENTION": "paged"}, ("2.3.0",), ("2.3.1", "3.3.4")),
        ("TGI_WIGGLE_ROOM '1'", (), {"TGI_WIGGLE_ROOM": "1"}, ("2.3.0", "3.3.4"), ("2.2.0",)),
        ("--quantize awq", ("--dtype=float16", "--quantize=awq"), {}, ("1.4.5", "3.3.4"), ()),
        ("--quantize gptq", ("--quantize=gptq",), {"DTYPE": "bfloat16"}, ("1.4.5", "3.3.4"), ()),
        ("method awq", ("--model-id=Qwen/Qwen2.5-7B-Instruct-AWQ", "--dtype=float16"), {}, ("2.3.0", "3.3.4"), ("2.2.0",)),
        ("needs --ngrok-edge", ("--ngrok", "--ngrok-authtoken=x"), {}, ("1.4.5", "3.3.4"), ()),
    ],
)  # fmt: skip
def test_what_tgi_refuses_to_start_with(
    words: str, args: tuple[str, ...], env: dict[str, str], refused: tuple[str, ...], taken: tuple[str, ...]
) -> None:
    def messages(version: str) -> list[str]:
        facts, _ = facts_of(["--model-id=Qwen/Qwen3-8B", *args], version, engine="tgi", env=env)
        return [item["message"] for item in facts["conflicts"] if item["refused"]]

    for version in refused:
        (message,) = messages(version)
        assert words in message, version
    for version in taken:
        assert not messages(version), version


@pytest.mark.parametrize(
    ("args", "env"),
    [
        ((), {"ATTENTION": "flashdecoding", "PREFIX_CACHING": "1"}),
        ((), {"ATTENTION": "paged", "PREFIX_CACHING": "0"}),
        ((), {"TGI_WIGGLE_ROOM": "0.95"}),
        (("--dtype=float16", "--quantize=bitsandbytes-nf4"), {}),
        (("--dtype=float16",), {"QUANTIZE": "bitsandbytes"}),
        (("--model-id=Qwen/Qwen2.5-7B-Instruct-AWQ", "--quantize=awq"), {}),
        (("--ngrok", "--ngrok-authtoken=x", "--ngrok-edge=y"), {}),
    ],
)
def test_what_tgi_starts_with(args: tuple[str, ...], env: dict[str, str]) -> None:
    facts, _ = facts_of(["--model-id=Qwen/Qwen3-8B", *args], "3.3.4", engine="tgi", env=env)
    assert not facts["conflicts"]
    assert not facts["invalid_values"]


def test_a_variable_that_tgi_refuses_is_pointed_at() -> None:
    facts, positions = facts_of(["--model-id=Qwen/Qwen3-8B"], "3.3.4", engine="tgi", env={"ATTENTION": "Paged"})
    assert facts["conflicts"][0]["remedy"] == "Set it to paged, or remove it"
    place = positions["engine.conflicts[0]"]
    flat = manifest(["--model-id=Qwen/Qwen3-8B"], "3.3.4", engine="tgi", env={"ATTENTION": "Paged"}).splitlines()
    assert "Paged" in flat[place.line - 1]


def test_a_small_prefill_batch_is_a_matter_of_attention_from_2_4_on() -> None:
    arguments = ["--model-id=Qwen/Qwen3-8B", "--max-input-tokens=8192", "--max-batch-prefill-tokens=4096"]
    (found,) = facts_of(arguments, "3.3.4", engine="tgi")[0]["conflicts"]
    assert not found["refused"]
    assert "splits prompts" in found["message"]
