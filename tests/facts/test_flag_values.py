"""Values of flags that an engine refuses, and those that it takes."""

from __future__ import annotations

import pytest

from tests.facts.plans import facts_of, flags_of


def reasons(*args: str, version: str = "0.11.0", **options: str) -> list[str]:
    facts, _ = facts_of(list(args), version, **options)
    return [f"{item['flag']}: {item['reason']}" for item in facts["invalid_values"]]


@pytest.mark.parametrize(
    "args",
    [
        ("--max-model-len=32k", "--gpu-memory-utilization=1", "--kv-cache-dtype=fp8", "--dtype=half"),
        ("--max-model-len=$(LENGTH)", "--max-num-seqs=${COUNT}"),
        ("--kv-transfer-config={}", '--hf-overrides={"a": 1}', "--enable-prefix-caching"),
        ("--tool-call-parser=of-our-own", "--tool-parser-plugin=/plugins/own.py", "--enable-auto-tool-choice"),
        ("--tool-call-parser=unused",),
        ("--load-format=of-a-plugin", "--quantization=of-a-plugin"),
        ("--seed=None", "--max-num-seqs=1"),
    ],
    ids=" ".join,
)
def test_values_that_are_taken(args: tuple[str, ...]) -> None:
    assert not reasons(*args)


@pytest.mark.parametrize(
    ("arg", "reason"),
    [
        ("--max-model-len=8k tokens", "--max-model-len: invalid int value: '8k tokens'"),
        ("--max-num-seqs=many", "--max-num-seqs: invalid int value: 'many'"),
        ("--gpu-memory-utilization=95%", "--gpu-memory-utilization: invalid float value: '95%'"),
        ("--gpu-memory-utilization=0", "--gpu-memory-utilization: 0 must be greater than 0"),
        ("--gpu-memory-utilization=1.1", "--gpu-memory-utilization: 1.1 must be at most 1"),
        ("--tensor-parallel-size=0", "--tensor-parallel-size: 0 must be at least 1"),
        ("--max-model-len=0", "--max-model-len: 0 must be at least 1"),
        ("--enforce-eager=true", "--enforce-eager: takes no value (ignored explicit argument 'true')"),
        ("--max-num-seqs", "--max-num-seqs: expected one argument"),
        ('--kv-transfer-config={"kv_role":"both"}',
         "--kv-transfer-config: kv_role 'both' is none of kv_producer, kv_consumer, kv_both"),
    ],
)  # fmt: skip
def test_values_that_are_refused(arg: str, reason: str) -> None:
    assert reasons(arg) == [reason]


def test_choices_are_those_of_the_release() -> None:
    assert not reasons("--kv-cache-dtype=nvfp4", version="0.20.0")
    (reason,) = reasons("--kv-cache-dtype=nvfp4", version="0.19.1")
    assert reason.startswith("--kv-cache-dtype: invalid choice: 'nvfp4' (choose from auto")
    assert not reasons("--max-model-len=-1", version="0.14.0")
    assert reasons("--max-model-len=-1", version="0.13.0")


def test_an_assumed_release_refuses_only_what_every_release_refuses() -> None:
    floating = {"image": "vllm/vllm-openai:latest"}
    assert not reasons("--limit-mm-per-prompt=image=4", **floating)  # until 0.8.4
    assert not reasons("--enable-chunked-prefill=false", **floating)  # until 0.8.4
    assert not reasons("--guided-decoding-backend=outlines", **floating)
    assert reasons("--dtype=fp16", **floating)
    assert reasons("--limit-mm-per-prompt=image:4", version="0.11.0")


def test_a_parsers_name_is_looked_up_where_the_model_decides_on_tools() -> None:
    (reason,) = reasons("--enable-auto-tool-choice", "--tool-call-parser=lama3_json")
    assert reason == "--tool-call-parser: 'lama3_json' is no parser of this release, perhaps llama3_json is meant"
    (reason,) = reasons("--reasoning-parser=deepseek-r1")
    assert "deepseek_r1" in reason


def test_the_place_is_the_values() -> None:
    facts, positions = facts_of(["--max-num-seqs", "many"])
    assert facts["invalid_values"]
    flag, value = positions["engine.flag.max-num-seqs"], positions["engine.invalid_values[0]"]
    assert value.line == flag.line + 1


@pytest.mark.parametrize(
    ("args", "env", "refused", "taken"),
    [
        (("--quantize=fp8",), {}, ("1.4.5",), ("2.0.4", "3.3.4")),
        (("--quantize=marlin",), {}, ("2.0.4",), ("2.1.0",)),
        (("--quantize=compressed-tensors",), {}, ("2.3.1",), ("2.4.1", "2.4", "latest")),
        (("--quantize=int8",), {}, ("0.9.4", "3.3.4", "latest"), ()),
        ((), {"QUANTIZE": "AWQ"}, ("3.3.4",), ()),
        (("--num-shard=0",), {}, ("1.4.5", "3.3.4"), ()),
        (("--validation-workers=0",), {}, ("3.3.4",), ()),
        (("--max-batch-size=0",), {}, ("2.3.0", "3.3.4"), ("2.2.0",)),
        ((), {"MAX_TOTAL_TOKENS": "-1"}, ("3.3.4",), ()),
        ((), {"MAX_TOTAL_TOKENS": "4k"}, ("3.3.4",), ()),
        ((), {"TRUST_REMOTE_CODE": "1"}, ("1.4.5", "3.3.4"), ()),
        ((), {"SHARDED": "True"}, ("3.3.4",), ()),
        ((), {"TRUST_REMOTE_CODE": "true", "SHARDED": "false"}, (), ("3.3.4",)),
        ((), {"CUDA_GRAPHS": "1, 2"}, ("2.0.4", "3.3.4"), ("1.4.5",)),  # before it is no argument
        ((), {"CUDA_GRAPHS": "0"}, (), ("3.3.4",)),
        (("--cuda-graphs=1,2,4",), {}, (), ("3.3.4",)),
    ],
)  # fmt: skip
def test_values_that_the_launcher_of_tgi_refuses(
    args: tuple[str, ...], env: dict[str, str], refused: tuple[str, ...], taken: tuple[str, ...]
) -> None:
    def reasons(version: str) -> list[str]:
        facts, _ = facts_of(["--model-id=Qwen/Qwen3-8B", *args], version, engine="tgi", env=env)
        return [item["reason"] for item in facts["invalid_values"]]

    for version in refused:
        assert len(reasons(version)) == 1, version
    for version in taken:
        assert not reasons(version), version


def test_arguments_of_tgi_have_releases() -> None:
    model = "--model-id=Qwen/Qwen3-8B"
    assert not flags_of("removed", [model, "--enable-cuda-graphs"], "1.4.5", engine="tgi")
    assert not flags_of("removed", [model, "--enable-cuda-graphs"], "1.4", engine="tgi")  # a tag of the series
    assert flags_of("removed", [model, "--enable-cuda-graphs"], "2.0.4", engine="tgi") == ["--enable-cuda-graphs"]
    assert flags_of("unknown", [model, "--kv-cache-dtype=fp8_e5m2"], "2.3.1", engine="tgi") == ["--kv-cache-dtype"]
    assert not flags_of("unknown", [model, "--kv-cache-dtype=fp8_e5m2", "--payload-limit=1"], "2.4.0", engine="tgi")
