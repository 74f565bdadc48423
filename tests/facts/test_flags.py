"""Flags that a release does not take, takes by luck, or will not take much longer; and those that are right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.engines import vllm
from planner.facts.flag_tables import tables
from planner.facts.flags import flag_facts, issues
from planner.plan import Plan
from planner.provenance import Fact, Provenance, assumed
from tests.facts.plans import LLAMA, facts_of, flags_of, gaps_of
from tests.rules.manifests import manifest


@pytest.mark.parametrize(
    "args",
    [
        ["--max_model_len=8192"],  # underscores are hyphens
        ["--max-model-len", "8192", "-tp", "1", "-q", "fp8", "-O3"],
        ["--compilation-config.cudagraph_mode=FULL", "--speculative-config.method", "ngram", "-O.level=3"],
        ["--no-enable-prefix-caching", "--no_enable_prefix_caching"],
        ["--limit-mm-per-prompt.image=2", "--limit-mm-per-prompt.video=1"],
        ["--api-key=a", "--middleware=a.B", "--middleware=c.D", "--hf-overrides={}"],
        ["--seed=-1", "--", "x"],
    ],
    ids=" ".join,
)
def test_right_flags_are_silent(args: list[str]) -> None:
    facts, _ = facts_of(args)
    for kind in ("unknown", "removed", "deprecated", "abbreviated", "foreign"):
        assert not facts[f"{kind}_flags"], kind


def test_kinds_by_release() -> None:
    assert flags_of("unknown", ["-cc.mode=3"], "0.11.0") == ["-cc.mode"]
    assert not flags_of("unknown", ["-cc.mode=3"], "0.12.0")
    flag = "--async-scheduling"
    assert flags_of("unknown", [flag], "0.9.2") == [flag]
    assert not flags_of("unknown", [flag], "0.10.0")
    assert flags_of("removed", ["--swap-space=4"], "0.18.0") == ["--swap-space"]
    assert not flags_of("removed", ["--swap-space=4"], "0.17.1")
    assert flags_of("deprecated", ["--disable_log_requests"], "0.11.0") == ["--disable_log_requests"]
    assert not flags_of("deprecated", ["--disable-log-requests"], "0.9.2")
    assert flags_of("removed", ["--disable-log-requests"], "0.17.0") == ["--disable-log-requests"]
    # --disable-x is the twin of --enable-x from 0.33.0 on
    assert flags_of("unknown", ["--disable-prefix-caching"], "0.32.0") == ["--disable-prefix-caching"]
    assert not flags_of("unknown", ["--disable-prefix-caching"], "0.33.0")


def test_messages_name_what_to_do_and_the_finding_points_at_the_flag() -> None:
    facts, positions = facts_of(["--max-num-seqs", "8", "--disable-log-requests"], "0.19.0")
    (item,) = facts["removed_flags"]
    assert (item["until"], item["instead"]) == ("0.17.0", "no-enable-log-requests")
    assert item["advice"] == "Use --no-enable-log-requests"
    lines = manifest([LLAMA, "--max-num-seqs", "8", "--disable-log-requests"], "0.19.0").splitlines()
    assert "--disable-log-requests" in lines[positions["engine.removed_flags[0]"].line - 1]
    (unknown,) = facts_of(["--max-model-length=1"])[0]["unknown_flags"]
    assert unknown["near"] == "--max-model-len"
    (added,) = facts_of(["--watermark=0.1"])[0]["unknown_flags"]
    assert added["hint"] == "it came with 0.24.0"
    (vague,) = facts_of(["--max-num"])[0]["unknown_flags"]
    assert vague["hint"].startswith("it could be --max-num-")


def test_abbreviations_are_told_from_unknown_flags() -> None:
    (item,) = facts_of(["--max-num-batched-token=4096"])[0]["abbreviated_flags"]
    assert item["full"] == "--max-num-batched-tokens"
    assert not flags_of("unknown", ["--max-num-batched-token=4096"])
    sglang = ["--model-path=Qwen/Qwen3-8B", "--host=0.0.0.0"]
    assert not flags_of("abbreviated", [*sglang, "--tp=1"], "0.5.5", engine="sglang")  # as its documentation writes it
    assert flags_of("abbreviated", [*sglang, "--mem-frac=0.8"], "0.5.5", engine="sglang") == ["--mem-frac"]


@pytest.mark.parametrize(
    ("engine", "version", "flag", "owner", "advice"),
    [
        ("vllm", "0.11.0", "--mem-fraction-static=0.8", "SGLang", "vLLM calls it --gpu-memory-utilization"),
        ("vllm", "0.11.0", "--context-length=8192", "SGLang", "vLLM calls it --max-model-len"),
        ("vllm", "0.11.0", "--num-shard=2", "TGI", "vLLM calls it --tensor-parallel-size"),
        ("vllm", "0.11.0", "--n-gpu-layers=99", "llama.cpp", "Remove it"),
        ("vllm", "0.11.0", "--enable-metrics", "SGLang", "Remove it: vLLM serves /metrics always"),
        ("vllm", "0.11.0", "--kv_cache_free_gpu_memory_fraction=0.9", "TensorRT-LLM", "vLLM calls it --gpu-memory-utilization"),
        ("sglang", "0.5.5", "--max-num-seqs=8", "vLLM", "SGLang calls it --max-running-requests"),
        ("sglang", "0.5.5", "--enforce-eager", "vLLM", "SGLang calls it --disable-cuda-graph"),
        ("tgi", "3.0.0", "--max-model-len=4096", "vLLM", "TGI calls it --max-total-tokens"),
    ],
)  # fmt: skip
def test_flags_of_another_engine(engine: str, version: str, flag: str, owner: str, advice: str) -> None:
    facts, _ = facts_of(["--model-path=Qwen/Qwen3-8B", flag] if engine == "sglang" else [flag], version, engine=engine)
    (item,) = facts["foreign_flags"]
    assert (item["owner"], item["advice"]) == (owner, advice)
    assert not facts["unknown_flags"]


def test_an_assumed_release_blames_only_what_no_release_has() -> None:
    floating: dict[str, Any] = {"image": "vllm/vllm-openai:latest"}
    assert flags_of("unknown", ["--no-such-flag"], **floating) == ["--no-such-flag"]
    text = manifest([LLAMA, "--swap-space=4"], **floating)
    (gap,) = gaps_of(text)
    assert gap.fact == "engine.removed_flags"
    assert "--swap-space" in gap.reason
    assert "pin a release" in gap.remedy
    assert not gaps_of(manifest([LLAMA, "--swap-space=4"], "0.18.0"))
    assert not gaps_of(manifest([LLAMA], **floating))


def test_tables_of_neighbours_say_so() -> None:
    (item,) = facts_of(["--no-such"], "0.99.0")[0]["unknown_flags"]
    assert not item["certain"]
    assert item["note"] == " (by the table of 0.33.0, the newest release that is known)"
    # A pre-release has what either neighbour has.
    assert not flags_of("unknown", ["--max-cudagraph-capture-size=8"], "0.11.1rc2")
    (item,) = facts_of(["--no-such"], "0.11.1rc2")[0]["unknown_flags"]
    assert item["certain"]
    assert "0.11.0, the nearest release before it" in item["note"]


def test_what_reads_flags_of_its_own_is_not_blamed_for_them() -> None:
    dynamo: dict[str, Any] = {
        "command": ["python3", "-m", "dynamo.vllm"],
        "image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:vllm-0.19.0",
    }
    facts, _ = facts_of(["--dyn-tool-call-parser=x", "--swap-space=4"], **dynamo)
    assert not facts["unknown_flags"]
    assert not facts["foreign_flags"]
    assert [item["flag"] for item in facts["removed_flags"]] == ["--swap-space"]
    gaudi = {"image": "vault.habana.ai/gaudi-docker/vllm:v0.9.0"}
    assert not flags_of("unknown", ["--weights-load-device=cpu"], **gaudi)
    # What no build would add is found there too.
    assert flags_of("abbreviated", ["--max-num-batched-token=512"], **gaudi) == ["--max-num-batched-token"]
    assert flags_of("unknown", ["--gpu-memory-utilisation=0.8"], **gaudi) == ["--gpu-memory-utilisation"]
    # SGLang's own releases run on other vendors' devices.
    npu = {"engine": "sglang", "image": "lmsysorg/sglang:v0.5.6-cann8.3.rc1-910b"}
    assert flags_of("unknown", ["--model-path=a/b", "--no-such"], **npu) == ["--no-such"]


def test_duplicates() -> None:
    (item,) = facts_of(["--max-model-len=4096", "--max_model_len", "8192"])[0]["duplicate_flags"]
    assert item["effect"] == "and --max_model_len 8192 wins over --max-model-len 4096"
    assert not flags_of("duplicate", ["--middleware=a.B", "--middleware=c.D"])
    assert not flags_of("duplicate", ["-cc.mode=3", "-cc.cudagraph_mode=FULL"], "0.15.0")
    (item,) = facts_of(["--enforce-eager", "--no-enforce-eager"])[0]["duplicate_flags"]
    assert "wins over" in item["effect"]
    (item,) = facts_of(["--enforce-eager", "--enforce-eager"])[0]["duplicate_flags"]
    assert item["effect"] == "to the same effect"


words = st.one_of(
    st.sampled_from(
        ("--max-model-len", "8192", "--swap-space=4", "-tp", "--", "-O3", "--a.b.c", "--no-", "---", "-", "--\x00", "--é=1",
         "--max-num", "--kv-cache-dtype", "--model", "=", "--" + "x" * 5000)
    ),
    st.text(max_size=12),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(words, max_size=8), st.sampled_from(("0.6.0", "0.11.0", "0.33.0", "nonsense")), st.booleans())
def test_any_words_have_facts(args: list[str], version: str, known: bool) -> None:
    stated = Fact(version, Provenance("file", "x")) if known else assumed(version, "x")
    config = vllm.parse_argv(args, version=stated)
    plan = Plan(engine=config)
    facts = flag_facts(plan, {})
    assert set(facts) >= {"unknown_flags", "foreign_flags"}
    found = tables(plan)
    assert found is not None
    assert len(issues(config, found)) <= 2 * len(config.given)
