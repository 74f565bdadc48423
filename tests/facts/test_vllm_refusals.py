"""Settings that vLLM refuses, release by release, and their neighbours that it takes. What 0.19.1, 0.24.0 and 0.32.0 say was
asked of them (``create_engine_config``); the other releases are those between which their sources change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.facts.plans import facts_of, plan_of
from tests.rules.manifests import manifest

LENGTH = "--max-model-len=8192"
SMALL = "meta-llama/Llama-3.2-1B-Instruct"
V2 = {"VLLM_USE_V2_MODEL_RUNNER": "1"}
V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
HYBRID = "--no-disable-hybrid-kv-cache-manager"
DEEPSEEK = "--model=deepseek-ai/DeepSeek-V2-Lite-Chat"
SPARSE = ("--model=deepseek-ai/DeepSeek-V3.2", "--tensor-parallel-size=8", '--attention-config={"hisparse_config": {}}')
NEMOTRON = ("--model=nvidia/NVIDIA-Nemotron-Nano-9B-v2", "--use-replayssm")


def spec(**keys: Any) -> str:
    return "--speculative-config=" + json.dumps(keys)


def connector(name: str, **keys: Any) -> str:
    return "--kv-transfer-config=" + json.dumps({"kv_connector": name, "kv_role": "kv_both", **keys})


def parts(*names: str) -> str:
    inner = [{"kv_connector": name, "kv_role": "kv_both"} for name in names]
    return connector("MultiConnector", kv_connector_extra_config={"connectors": inner})


def conflicts(args: tuple[str, ...], release: str, env: dict[str, str]) -> list[str]:
    facts, _ = facts_of(list(args), release, env=env, resources={"nvidia.com/gpu": 8})
    return [item["message"] for item in facts["conflicts"] if item["refused"]]


DRAFT = {"model": SMALL, "method": "draft_model"}
#: (name, arguments beside Llama 3.1 8B, release, words of the finding or nothing, variables)
SPECULATION: list[tuple[str, tuple[str, ...], str, str]] = [
    ("tokens missing", (spec(**DRAFT),), "0.24.0", "does not say how many"),
    ("tokens missing, old flags", (f"--speculative-model={SMALL}",), "0.6.0", "does not say how many"),
    ("tokens missing, new flags", (f"--spec-model={SMALL}",), "0.24.0", "does not say how many"),
    ("tokens missing, no model", (spec(method="mtp"),), "0.19.1", "num_speculative_tokens is missing"),
    ("tokens missing, eagle", (spec(method="eagle"),), "0.32.0", "num_speculative_tokens is missing"),
    ("tokens by batch size", (spec(num_speculative_tokens_per_batch_size=[[1, 4, 3]], **DRAFT),), "0.24.0", ""),
    ("tokens of a tree", (spec(speculative_token_tree="[(0,)]", **DRAFT),), "0.20.0", ""),
    ("tokens beside", (spec(**DRAFT), "--spec-tokens=3"), "0.24.0", ""),
    ("suffix counts by itself", (spec(method="suffix"),), "0.24.0", ""),
    ("a draft that is not known", (spec(model="a/b-EAGLE", method="eagle"),), "0.24.0", ""),
    ("draft", (spec(num_speculative_tokens=3, **DRAFT),), "0.19.1", ""),
    ("draft without a method", (spec(num_speculative_tokens=3, model=SMALL),), "0.32.0", ""),
    ("no draft models", (spec(num_speculative_tokens=3, model=SMALL),), "0.10.0", "no speculative decoding with a draft"),
    ("no draft models", (spec(num_speculative_tokens=3, **DRAFT),), "0.14.1", "no speculative decoding with a draft"),
    ("no draft models", (spec(num_speculative_tokens=3, model="a/unknown", method="draft_model"),), "0.11.0",
     "no speculative decoding with a draft"),
    ("a draft that is not known", (spec(num_speculative_tokens=3, model="a/unknown"),), "0.11.0", ""),
    ("draft models of V0", (spec(num_speculative_tokens=3, model=SMALL),), "0.9.2", ""),
    ("draft models again", (spec(num_speculative_tokens=3, model=SMALL),), "0.15.0", ""),
    ("eagle is none", (spec(num_speculative_tokens=3, model="yuhuili/EAGLE-LLaMA3.1-Instruct-8B", method="eagle"),),
     "0.11.0", ""),
    ("vocabulary", (spec(num_speculative_tokens=3, model="Qwen/Qwen3-0.6B", method="draft_model"),), "0.15.0", "151936"),
    ("vocabulary", (spec(num_speculative_tokens=3, model="Qwen/Qwen3-0.6B"),), "0.32.0", "128256"),
    ("vocabulary, new flags", ("--spec-model=Qwen/Qwen3-0.6B", "--spec-tokens=3"), "0.24.0", "vocabulary"),
    ("vocabularies of one family", ("--model=Qwen/Qwen2.5-72B-Instruct", "-tp=8",
     spec(num_speculative_tokens=3, model="Qwen/Qwen2.5-0.5B-Instruct")), "0.24.0", "151936"),
    ("vocabulary mapped", (spec(num_speculative_tokens=3, model="Qwen/Qwen3-0.6B", use_heterogeneous_vocab=True),),
     "0.32.0", ""),
    ("vocabulary before", (spec(num_speculative_tokens=3, model="Qwen/Qwen3-0.6B"),), "0.9.2", ""),
    ("vocabulary of eagle", (spec(num_speculative_tokens=3, model="Qwen/Qwen3-0.6B", method="eagle"),), "0.19.1", ""),
    ("vocabulary overridden", (spec(num_speculative_tokens=3, model="Qwen/Qwen3-0.6B"), '--hf-overrides={"vocab_size": 1}'),
     "0.24.0", ""),
    ("length beyond the target", (LENGTH, spec(num_speculative_tokens=3, max_model_len=99999, **DRAFT)), "0.19.1", "8192"),
    ("length beyond the draft", (spec(num_speculative_tokens=3, max_model_len=999999, **DRAFT),), "0.24.0", "131072"),
    ("length", (LENGTH, spec(num_speculative_tokens=3, max_model_len=4096, **DRAFT)), "0.32.0", ""),
    ("length of n-grams", (LENGTH, spec(method="ngram", num_speculative_tokens=3, max_model_len=99999)), "0.24.0", ""),
    ("look-up by default", (spec(method="ngram", num_speculative_tokens=3),), "0.8.5", ""),
    ("look-up of none", (spec(method="ngram", num_speculative_tokens=3, prompt_lookup_max=0),), "0.24.0", "at least 1"),
    ("look-up missing", ("--speculative-model=[ngram]", "--num-speculative-tokens=3"), "0.8.1", "n-grams"),
    ("look-up", ("--speculative-model=[ngram]", "--num-speculative-tokens=3", "--ngram-prompt-lookup-max=4"), "0.8.1", ""),
    ("slots of all", ("--max-num-batched-tokens=64", "--max-num-seqs=64", spec(num_speculative_tokens=5, **DRAFT)),
     "0.24.0", "64 slots"),
    ("one slot left", ("--max-num-batched-tokens=65", "--max-num-seqs=64", spec(num_speculative_tokens=5, **DRAFT)),
     "0.24.0", ""),
    ("slots in parallel", ("--max-num-batched-tokens=320", "--max-num-seqs=64",
     spec(num_speculative_tokens=5, parallel_drafting=True, **DRAFT)), "0.20.0", "320 slots"),
    ("slots of one", ("--max-num-batched-tokens=5", "--max-num-seqs=1",
     spec(num_speculative_tokens=5, parallel_drafting=True, **DRAFT)), "0.32.0", "5 slots"),
    ("slots before", ("--max-num-batched-tokens=64", "--max-num-seqs=64", spec(num_speculative_tokens=5, **DRAFT)),
     "0.19.1", ""),
    ("slots of n-grams", ("--max-num-batched-tokens=64", "--max-num-seqs=64", spec(method="ngram", num_speculative_tokens=5)),
     "0.24.0", ""),
    ("slots with adapters", ("--enable-lora", "--max-num-batched-tokens=256", "--max-num-seqs=64",
     spec(method="ngram", num_speculative_tokens=5)), "0.11.1", "384"),
    ("slots with adapters", ("--enable-lora", "--max-num-batched-tokens=384", "--max-num-seqs=64",
     spec(method="ngram", num_speculative_tokens=5)), "0.24.0", ""),
    ("slots with adapters before", ("--enable-lora", "--max-num-batched-tokens=256", "--max-num-seqs=64",
     spec(method="ngram", num_speculative_tokens=5)), "0.11.0", ""),
    ("ranks of old drafts", (f"--speculative-model={SMALL}", "--num-speculative-tokens=3", "-tp=4",
     "--speculative-draft-tensor-parallel-size=4"), "0.6.3", "one rank in this release"),
    ("ranks of old drafts", (f"--speculative-model={SMALL}", "--num-speculative-tokens=3", "-tp=4",
     "--speculative-draft-tensor-parallel-size=2"), "0.8.1", "one rank or on all 4"),
    ("ranks of old drafts", (f"--speculative-model={SMALL}", "--num-speculative-tokens=3", "-tp=4",
     "--speculative-draft-tensor-parallel-size=4"), "0.8.1", ""),
    ("ranks misspelt", (spec(method="ngram", num_speculative_tokens=5, tensor_parallel_size=1),), "0.19.1",
     "tensor_parallel_size is no key"),
    ("no key", (spec(method="ngram", num_speculative_tokens=5, foo=1),), "0.24.0", "foo is no key"),
    ("a later key", (spec(num_speculative_tokens=3, model=SMALL, use_heterogeneous_vocab=True),), "0.24.0", "0.25 has it"),
    ("an earlier key", (spec(method="ngram", num_speculative_tokens=5, disable_by_batch_size=4),), "0.17.0", "no key"),
    ("an earlier key", (spec(method="ngram", num_speculative_tokens=5, disable_by_batch_size=4),), "0.16.0", ""),
    ("targets of EAGLE-3", ("--model=microsoft/phi-4", spec(method="eagle3", model="a/b", num_speculative_tokens=2)),
     "0.19.1", "no EAGLE-3 for phi3"),
    ("targets of EAGLE-3", ("--model=Qwen/Qwen3-8B", spec(method="eagle3", model="a/b", num_speculative_tokens=2)),
     "0.9.2", "no EAGLE-3 for qwen3"),
    ("targets of EAGLE-3", ("--model=Qwen/Qwen3-8B", spec(method="eagle3", model="a/b", num_speculative_tokens=2)),
     "0.10.1", ""),
    ("targets of EAGLE-3", ("--model=microsoft/phi-4", spec(method="eagle3", model="a/b", num_speculative_tokens=2)),
     "0.24.0", ""),
    ("MTP layers", ("--model=stepfun-ai/Step-3.5-Flash", spec(method="mtp", num_speculative_tokens=4)), "0.19.1",
     "must be a multiple"),
    ("MTP layers", ("--model=stepfun-ai/Step-3.5-Flash", spec(method="mtp", num_speculative_tokens=6)), "0.19.1", ""),
    ("one MTP layer", ("--model=deepseek-ai/DeepSeek-V3", spec(method="mtp", num_speculative_tokens=3)), "0.24.0", ""),
]  # fmt: skip
FEATURES: list[tuple[str, tuple[str, ...], str, str, dict[str, str]]] = [
    ("hybrid", (HYBRID, connector("LMCacheConnectorV1")), "0.13.0", "LMCacheConnectorV1 of this release", {}),
    ("hybrid", (HYBRID, connector("LMCacheConnectorV1")), "0.12.0", "", {}),
    ("hybrid", (HYBRID, connector("NixlConnector")), "0.17.1", "NixlConnector", {}),
    ("hybrid", (HYBRID, connector("NixlConnector")), "0.18.0", "", {}),
    ("hybrid", (HYBRID, connector("OffloadingConnector")), "0.21.0", "", {}),
    ("hybrid", (HYBRID, connector("ExampleConnector", kv_connector_module_path="my.module")), "0.24.0", "", {}),
    ("hybrid", (HYBRID, parts("NixlConnector", "OffloadingConnector")), "0.20.0", "MultiConnector", {}),
    ("hybrid", (HYBRID, parts("NixlConnector", "OffloadingConnector")), "0.24.0", "", {}),
    ("hybrid", (HYBRID, parts("NixlConnector", "LMCacheConnectorV1")), "0.24.0", "LMCacheConnectorV1", {}),
    ("hybrid by itself", (connector("LMCacheConnectorV1"),), "0.24.0", "", {}),
    ("hybrid", (HYBRID,), "0.24.0", "", {}),
    ("hybrid", (HYBRID, '--kv-events-config={"publisher": "zmq"}'), "0.19.1", "KV events", {}),
    ("hybrid", (HYBRID, '--kv-events-config={"publisher": "zmq"}'), "0.24.0", "", {}),
    ("segments", (connector("NixlConnector"),), "0.21.0", "expandable_segments", EXPANDABLE),
    ("segments", (connector("LMCacheConnectorV1"),), "0.32.0", "expandable_segments", EXPANDABLE),
    ("segments", (connector("NixlConnector"),), "0.20.2", "", EXPANDABLE),
    ("segments", (connector("NixlConnector"), "--enable-sleep-mode"), "0.24.0", "", EXPANDABLE),
    ("segments", (connector("NixlConnector"), "--enable-cumem-allocator"), "0.24.0", "", EXPANDABLE),
    ("segments", ("--kv-offloading-size=4",), "0.24.0", "KV offloading", EXPANDABLE),
    ("segments", (), "0.24.0", "", EXPANDABLE),
    ("segments", (connector("NixlConnector"),), "0.24.0", "", {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:512"}),
    ("V2", (spec(method="ngram", num_speculative_tokens=5),), "0.24.0", "speculative method ngram", V2),
    ("V2", (spec(method="ngram", num_speculative_tokens=5),), "0.32.0", "", V2),
    ("V2", (spec(method="ngram", num_speculative_tokens=5),), "0.24.0", "", {}),
    ("V2", (spec(num_speculative_tokens=3, **DRAFT),), "0.30.0", "draft_model", V2),
    ("V2", (spec(num_speculative_tokens=3, **DRAFT),), "0.31.0", "", V2),
    ("V2", (spec(method="mtp", num_speculative_tokens=1),), "0.24.0", "", V2),
    ("V2", ("--enable-prompt-embeds",), "0.24.0", "prompt embeddings", V2),
    ("V2", ("--enable-prompt-embeds",), "0.32.0", "", V2),
    ("V2", ("--kv-sharing-fast-prefill",), "0.24.0", "KV sharing", V2),
    ("V2", ("--logits-processors", "a.b:C"), "0.24.0", "logits processors", V2),
    ("V2", ("--logprobs-mode=raw_logits",), "0.24.0", "raw_logits", V2),
    ("V2", ("--logprobs-mode=raw_logits",), "0.26.0", "", V2),
    ("V2", ("--prefill-context-parallel-size=2",), "0.24.0", "prefill context", V2),
    ("V2", (DEEPSEEK, "--prefill-context-parallel-size=2"), "0.27.0", "", V2),
    ("V2", ("--prefill-context-parallel-size=2",), "0.27.0", "but of MLA", V2),
    ("V2", ("--model=nvidia/NVIDIA-Nemotron-Nano-9B-v2",), "0.22.0", "recurrent layers", V2),
    ("V2", ("--model=nvidia/NVIDIA-Nemotron-Nano-9B-v2",), "0.24.0", "", V2),
    ("V2", (), "0.24.0", "", V2),
    ("V1", (DEEPSEEK, "--prefill-context-parallel-size=2"), "0.32.0", "leaves out", V1),
    ("V1", (DEEPSEEK, "--prefill-context-parallel-size=2"), "0.24.0", "", V1),
    ("PCP", (DEEPSEEK, "-tp=4", "-dcp=4", "-pcp=2"), "0.32.0", "must be 1, 2 or 8", {}),
    ("PCP", (DEEPSEEK, "-tp=4", "-dcp=2", "-pcp=2"), "0.32.0", "", {}),
    ("PCP", (DEEPSEEK, "-tp=4", "-dcp=8", "-pcp=2"), "0.32.0", "", {}),
    ("PCP", (DEEPSEEK, "-tp=4", "-dcp=4", "-pcp=2"), "0.24.0", "", {}),
    ("PCP", (DEEPSEEK, "-tp=4", "-dcp=8", "-pcp=2"), "0.24.0", "does not divide", {}),
    ("PCP", (DEEPSEEK, "-tp=2", "-pcp=2", "-dp=2"), "0.29.0", "excludes --data-parallel-size", {}),
    ("PCP", (DEEPSEEK, "-tp=2", "-pcp=2", "-dp=2"), "0.32.0", "", {}),
    ("PCP", (DEEPSEEK, "-tp=2", "-pcp=2"), "0.12.0", "the flag alone", {}),
    ("DCP", ("--model=Qwen/Qwen2.5-7B-Instruct", "-tp=28", "-dcp=4"), "0.11.1", "does not divide the 7", {}),
    ("DCP", ("--model=Qwen/Qwen2.5-7B-Instruct", "-tp=28", "-dcp=7"), "0.24.0", "", {}),
    ("DCP", ("--model=Qwen/Qwen2.5-7B-Instruct", "-tp=28", "-dcp=14"), "0.32.0", "more than the 7", {}),
    ("DCP", (DEEPSEEK, "-tp=8", "-dcp=8"), "0.24.0", "", {}),
    ("ReplaySSM", ("--use-replayssm",), "0.27.0", "no Mamba layers", {}),
    ("ReplaySSM", NEMOTRON, "0.27.0", "", {}),
    ("ReplaySSM", NEMOTRON, "0.32.0", "needs the V1 model runner", {}),
    ("ReplaySSM", NEMOTRON, "0.32.0", "", V1),
    ("ReplaySSM", (*NEMOTRON, connector("ExampleConnector")), "0.32.0", "excludes KV connectors", V1),
    ("ReplaySSM", (*NEMOTRON, "--mamba-backend=flashinfer"), "0.29.0", "needs --mamba-backend triton", {}),
    ("ReplaySSM", (*NEMOTRON, "--mamba-backend=flashinfer"), "0.30.0", "", {}),
    ("HiSparse", ('--attention-config={"hisparse_config": {}}',), "0.32.0", "no sparse MLA", {}),
    ("HiSparse", SPARSE, "0.32.0", "", {}),
    ("HiSparse", (*SPARSE, "--pipeline-parallel-size=2"), "0.32.0", "--pipeline-parallel-size", {}),
    ("HiSparse", (*SPARSE, "--decode-context-parallel-size=2"), "0.30.0", "--decode-context-parallel-size", {}),
    ("HiSparse", SPARSE, "0.32.0", "VLLM_USE_V2_MODEL_RUNNER=0", V1),
    ("HiSparse", (*SPARSE, "--no-scheduler-reserve-full-isl"), "0.31.0", "whole prompts", {}),
    ("HiSparse", (*SPARSE, "--no-scheduler-reserve-full-isl"), "0.30.0", "", {}),
    ("HiSparse", (*SPARSE, "--disable-hybrid-kv-cache-manager"), "0.32.0", "hybrid KV cache manager", {}),
    ("HiSparse", (connector("HiSparseConnector"),), "0.32.0", "no sparse MLA", {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "release", "words"), SPECULATION)
def test_speculation(name: str, args: tuple[str, ...], release: str, words: str) -> None:
    found = conflicts(args, release, {})
    assert [message for message in found if words in message] if words else not found, (name, found)


@pytest.mark.parametrize(("name", "args", "release", "words", "env"), FEATURES)
def test_features(name: str, args: tuple[str, ...], release: str, words: str, env: dict[str, str]) -> None:
    found = conflicts(args, release, env)
    assert [message for message in found if words in message] if words else not found, (name, found)


def test_sleep_mode_is_no_matter_of_cpus() -> None:
    for image, refused in (("vllm/vllm-openai-cpu:v0.24.0", True), ("vllm/vllm-openai:v0.24.0", False)):
        facts, _ = facts_of(["--enable-sleep-mode"], "0.24.0", image=image)
        assert any("--enable-sleep-mode" in item["message"] for item in facts["conflicts"]) == refused


def test_segments_of_a_release_that_nothing_states() -> None:
    facts, _ = facts_of([connector("NixlConnector")], image="example.com/llm:stable", env=EXPANDABLE)
    assert not facts["conflicts"]


def quantization(args: tuple[str, ...], release: str, **options: Any) -> dict[str, Any]:
    facts, _ = facts_of(list(args), release, **options)
    found: dict[str, Any] = facts["quantization_problem"]
    return found


AWQ, GPTQ = "--model=Qwen/Qwen2.5-7B-Instruct-AWQ", "--model=Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4"


@pytest.mark.parametrize(
    ("args", "release", "words"),
    [
        (("--quantization=foo",), "0.24.0", "no quantization method foo"),
        (("--quantization=foo",), "0.9.2", "no quantization method foo"),
        (("--quantization=auto",), "0.32.0", "no quantization method auto"),
        (("--quantization=None",), "0.24.0", ""),
        (("--quantization=FP8",), "0.24.0", ""),
        (("--quantization=fp8",), "0.24.0", ""),
        (("--model=RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "--quantization=compressed_tensors"), "0.24.0",
         "no quantization method compressed_tensors"),
        (("--quantization=fbgemm_fp8",), "0.24.0", "deprecated"),
        (("--quantization=fbgemm_fp8", "--allow-deprecated-quantization"), "0.24.0", ""),
        (("--quantization=experts_int8",), "0.19.1", "deprecated"),
        (("--quantization=experts_int8",), "0.20.0", ""),
        ((AWQ, "--quantization=awq", "--dtype=bfloat16"), "0.6.0", "float16 with quantization awq, not in bfloat16"),
        ((AWQ, "--quantization=awq", "--dtype=bfloat16"), "0.23.0", "float16 with quantization awq, not in bfloat16"),
        ((AWQ, "--quantization=awq", "--dtype=bfloat16"), "0.24.0", ""),
        ((AWQ, "--quantization=awq", "--dtype=half"), "0.19.1", ""),
        ((AWQ, "--quantization=awq"), "0.8.5", ""),  # the checkpoint is float16, whatever its base was
        ((AWQ, "--quantization=awq_marlin", "--dtype=bfloat16"), "0.19.1", ""),
        ((AWQ, "--dtype=bfloat16"), "0.19.1", ""),
        ((AWQ, "--dtype=float32"), "0.24.0", "not in float32"),
        ((GPTQ, "--quantization=gptq", "--dtype=bfloat16"), "0.21.0", "not in bfloat16"),
        ((GPTQ, "--quantization=gptq", "--dtype=bfloat16"), "0.22.0", ""),
        (("--quantization=fp8", "--dtype=float"), "0.32.0", "not in float32"),
        (("--model=Qwen/Qwen3-8B-FP8", "--dtype=float16"), "0.32.0", ""),
        (("--model=openai/gpt-oss-20b", "--dtype=half"), "0.10.1", "bfloat16 with quantization mxfp4, not in float16"),
        (("--model=openai/gpt-oss-20b", "--dtype=bfloat16"), "0.32.0", ""),
        (("--model=RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "--dtype=float32"), "0.24.0", ""),
    ],
)  # fmt: skip
def test_quantization(args: tuple[str, ...], release: str, words: str) -> None:
    found = quantization(args, release)
    assert words in found["text"] if words else not found["text"], found


def test_a_plug_in_may_add_a_method_to_an_image_of_somebody_else() -> None:
    assert quantization(("--quantization=foo",), "0.24.0")["certain"]
    other = quantization(("--quantization=foo",), "0.24.0", image="example.com/vllm-openai:v0.24.0")
    assert other["text"]
    assert not other["certain"]
    script = ["sh", "-c", "pip install my-plugin && vllm serve meta-llama/Llama-3.1-8B-Instruct --quantization=foo"]
    installed, _ = facts_of([], "0.24.0", engine="vllm", command=script)
    assert installed["quantization_problem"]["text"]
    assert not installed["quantization_problem"]["certain"]
    assert not quantization(("--quantization=foo",), "0.24.0", image="vllm/vllm-openai:latest")["text"]


@pytest.mark.parametrize(
    ("text", "release", "length"),
    [("8k", "0.8.5", 8000), ("8K", "0.24.0", 8192), ("1M", "0.24.0", 1 << 20), ("25.6k", "0.24.0", 25600),
     ("auto", "0.14.0", -1), ("AUTO", "0.32.0", -1), ("-1", "0.24.0", -1), ("auto", "0.13.0", None),
     ("1.5K", "0.24.0", None), ("8k", "0.8.3", None)],
)  # fmt: skip
def test_lengths_as_people_write_them(text: str, release: str, length: int | None) -> None:
    plan = plan_of(manifest(["--model=meta-llama/Llama-3.1-8B-Instruct", "--max-model-len", text], release))
    assert plan.engine.get("max-model-len") == length
    assert bool(plan.engine.argument_problems) == (length is None)
    facts, _ = facts_of(["--max-model-len", text], release)
    assert bool(facts["invalid_values"]) == (length is None)
