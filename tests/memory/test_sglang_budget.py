"""The budget of SGLang engines: terms, ranks, verdicts, and public logs and recipes where they are at hand."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from planner.accelerators.accelerator import Accelerator
from planner.accelerators.catalog import candidates
from planner.engines.sglang import NEWEST_SGLANG, parse_argv
from planner.engines.sglang_defaults import effective
from planner.engines.version import is_version
from planner.memory.budget import MemoryBudget
from planner.memory.sglang_budget import sglang_budget
from planner.memory.sglang_weights import groups, split, weights
from planner.models.architecture import ModelArchitecture, UnknownModel
from planner.models.resolve import resolve
from planner.provenance import Fact, Provenance, assumed
from planner.report.result import LintResult
from planner.units import GIB, MIB
from tests.conftest import SHARED
from tests.rules.manifests import manifest

KNOWN_GOOD = SHARED / "corpus" / "known-good.jsonl"


@cache
def known(name: str) -> ModelArchitecture | None:
    try:
        return resolve(name).architecture
    except UnknownModel:
        return None


def budget(
    name: str, device: str, line: str | list[str], version: str = "0.5.12", gpus: int | None = None, **options: Any
) -> MemoryBudget:
    words = shlex.split(line) if isinstance(line, str) else line
    of, accelerator = known(name), candidates(device)[0]
    assert of is not None
    platform = "rocm" if accelerator.vendor == "amd" else "cuda"
    config = parse_argv(words, version=assumed(version, "test"), model=assumed(name, "test"), platform=platform)
    settled = effective(config, of, accelerator, gpus)
    return sglang_budget(of, settled, accelerator, gpus_per_pod=gpus, **options)


def test_terms_add_up() -> None:
    found = budget("Qwen/Qwen3-8B", "H100-80GB", "")
    terms = {name: term.bytes.expected for name, term in found.ranks[0].terms.items()}
    assert terms["requested"] == pytest.approx((terms["device"] - terms["baseline"]) * 0.83, rel=1e-6)
    assert terms["outside"] == terms["device"] - terms["requested"]
    assert terms["kv_available"] == pytest.approx(terms["requested"] - terms["weights"], abs=200_000)
    assert found.capacity is not None
    assert found.capacity.kv_tokens.expected == terms["kv_available"] // (36 * 8 * 256 * 2)
    assert found.verdict == "fits"


def test_every_term_explains_itself() -> None:
    for name, term in budget("Qwen/Qwen3.5-9B", "L40S", "--speculative-algorithm EAGLE").ranks[0].terms.items():
        assert term.formula, name
        assert term.bytes.low <= term.bytes.expected <= term.bytes.high or name == "outside", name


def test_pool_that_is_given() -> None:
    found = budget("Qwen/Qwen3-14B", "H100-80GB", "--tp-size 4", gpus=4, kv_cache_memory=int(11.38 * GIB))
    assert found.capacity is not None
    assert found.capacity.kv_tokens.expected == pytest.approx(298_447, rel=0.001)
    assert found.ranks[0].terms["kv_available"].bytes.basis == "given"


def test_ranks_of_stages_and_copies() -> None:
    found = budget("Qwen/Qwen3-32B", "H100-80GB", "--tp-size 2 --pp-size 2 --dp-size 2", gpus=8)
    assert len(found.ranks) == 8
    assert [rank.pipeline_rank for rank in found.ranks] == [0, 0, 1, 1] * 2
    assert [rank.gpu for rank in found.ranks] == list(range(8))


def test_attention_data_copies_attention_and_gives_each_group_its_pool() -> None:
    whole = budget("Qwen/Qwen3-235B-A22B", "H200", "--tp-size 8 --ep-size 8", gpus=8)
    split_up = budget(
        "Qwen/Qwen3-235B-A22B", "H200", "--tp-size 8 --ep-size 8 --dp-size 8 --enable-dp-attention", gpus=8
    )
    assert len(split_up.ranks) == 8
    more = split_up.ranks[0].bytes("weights").expected - whole.ranks[0].bytes("weights").expected
    assert more > 5 * GIB  # attention and embedding are whole on every rank
    plan, other = split_up.ranks[0].kv, whole.ranks[0].kv
    assert plan is not None
    assert other is not None
    assert plan.bytes_per_token == 4 * other.bytes_per_token  # four KV heads instead of one
    assert any("8 attention groups" in note for note in split_up.notes)


def test_decode_context_ranks_keep_different_tokens_of_the_same_requests() -> None:
    """DeepSeek-V3's latent cache is whole on every rank without it; a pool of 10 GiB is given so that nothing else differs."""
    line = "--tp-size 8 --context-length 32768 --page-size 64"
    plain, split_up, early = (
        budget("deepseek-ai/DeepSeek-V3", "H200", line + more, version, gpus=8, kv_cache_memory=10 * GIB)
        for more, version in (("", "0.5.23"), (" --dcp-size 4", "0.5.23"), (" --dcp-size 4", "0.5.16"))
    )
    assert plain.capacity is not None
    assert split_up.capacity is not None
    assert early.capacity is not None
    tokens = (10 * GIB // 70_272 - 64) // 64 * 64
    assert plain.capacity.kv_tokens.expected == tokens
    assert split_up.capacity.kv_tokens.expected == early.capacity.kv_tokens.expected == 4 * tokens
    assert split_up.capacity.blocks.expected == tokens // 64
    assert split_up.capacity.max_concurrency[1] == pytest.approx(4 * tokens / 32768)
    assert plain.capacity.longest_request.expected == early.capacity.longest_request.expected == tokens
    assert split_up.capacity.longest_request.expected == 163_840  # the model's own
    assert any("one of 4 tokens" in note for note in split_up.notes)
    plan = split_up.ranks[0].kv
    assert plan is not None
    assert (plan.block_size, plan.blocks_per_request, plan.bytes_per_token) == (64, 32768 // 256, 70_272 / 4)


def test_heads_of_decode_context_ranks() -> None:
    """Eight KV heads over eight ranks: from 0.5.18 the four ranks of a group keep the same four heads."""

    def cell(version: str) -> int:
        plan = budget("Qwen/Qwen3-8B", "H100-80GB", "--tp-size 8 --dcp-size 4", version, gpus=8).ranks[0].kv
        assert plan is not None
        return plan.bytes_per_block

    assert [cell("0.5.17"), cell("0.5.18")] == [36 * 1 * 256 * 2, 36 * 4 * 256 * 2]


def test_indexer_keys_of_decode_context_ranks() -> None:
    """From 0.5.22 each rank keeps the 132 bytes of all tokens, beside 1,152 of its own, in 61 layers."""

    def cell(version: str) -> int:
        line = "--tp-size 8 --dcp-size 4 --kv-cache-dtype bfloat16"
        plan = budget("deepseek-ai/DeepSeek-V3.2-Exp", "H200", line, version, gpus=8).ranks[0].kv
        assert plan is not None
        return plan.bytes_per_block

    assert [cell("0.5.21"), cell("0.5.22")] == [64 * 61 * (1152 + 132), 64 * 61 * (1152 + 4 * 132)]


def test_experts_weigh_the_same_whether_split_or_spread() -> None:
    sizes = [
        budget("Qwen/Qwen3-235B-A22B", "H200", f"--tp-size 8 --ep-size {experts}", gpus=8)
        .ranks[0]
        .bytes("weights")
        .expected
        for experts in (1, 2, 4, 8)
    ]
    assert max(sizes) - min(sizes) < 0.01 * sizes[0]


def test_redundant_experts_add_copies() -> None:
    line = "--tp-size 8 --ep-size 8"
    plain = budget("Qwen/Qwen3-235B-A22B", "H200", line, gpus=8).ranks[0].bytes("weights").expected
    more = budget("Qwen/Qwen3-235B-A22B", "H200", f"{line} --ep-num-redundant-experts 32", gpus=8)
    assert more.ranks[0].bytes("weights").expected > plain + 4 * GIB


def test_local_shapes_leave_nothing_to_split() -> None:
    of, accelerator = known("deepseek-ai/DeepSeek-V3"), candidates("H200")[0]
    assert of is not None
    config = parse_argv(["--model", "a/b", "--tp", "8"], version=assumed("0.5.12", "test"))
    local = split(of, groups(effective(config, of, accelerator)))
    shards = {matrix.shard for layer in local.layers for matrix in layer.matrices}
    assert shards <= {"replicated", "expert_column", "expert_row"}


@pytest.mark.parametrize(
    ("name", "line", "version", "device", "printed"),
    [
        ("Qwen/Qwen3-Reranker-0.6B", "", "0.5.12", "H100-80GB", 1.18),
        ("Qwen/Qwen3-14B", "--tp-size 4", "0.5.7", "A100-80GB", 7.08),
        # DP attention keeps embedding and head whole: sgl-project/sglang, pull request 17392.
        (
            "Qwen/Qwen3-30B-A3B",
            "--tp-size 4 --dp-size 4 --ep-size 4 --enable-dp-attention --enable-dp-lm-head",
            "0.5.11",
            "H200",
            16.39,
        ),
        # FP4 experts on Marlin before 0.5.16: the scales that were read stay beside the repacked ones.
        ("deepseek-ai/DeepSeek-V4-Pro", "--tp-size 8 --moe-runner-backend marlin", "0.5.14", "H200", 125.65),
    ],
)
def test_weights_of_public_logs(name: str, line: str, version: str, device: str, printed: float) -> None:
    """ "mem usage" of loading, which counts whole allocator segments."""
    of, accelerator = known(name), candidates(device)[0]
    assert of is not None
    config = parse_argv(shlex.split(f"--model a/b {line}"), version=assumed(version, "test"))
    term = weights(of, effective(config, of, accelerator), 0, accelerator)
    assert term.bytes.expected / GIB == pytest.approx(printed, rel=0.007)
    assert term.bytes.low <= printed * 1.0005 * GIB
    assert term.bytes.high >= printed * 0.9995 * GIB


@pytest.mark.parametrize(
    ("name", "device", "version", "mib"),
    [
        ("Qwen/Qwen3-8B", "H100-80GB", "0.5.12", 20),  # 40,960 positions of 128 values in 32 bits
        ("Qwen/Qwen3-8B", "MI300X", "0.5.12", 10),
        ("Qwen/Qwen3-8B", "MI300X", "0.5.22", 20),
        ("google/gemma-3-4b-it", "H100-80GB", "0.5.12", 256),  # two bases, 131,072 positions of 256: no scaling
        ("Qwen/Qwen3-VL-4B-Instruct", "H100-80GB", "0.5.12", 128),  # 262,144 positions, not four times that
    ],
)
def test_rotary_tables(name: str, device: str, version: str, mib: int) -> None:
    found = budget(name, device, "", version).ranks[0].terms["weights"].formula
    assert f"rotary tables {mib} MiB" in found


def test_scales_of_fp4_experts_by_release_and_kernel() -> None:
    def size(version: str, device: str, line: str) -> float:
        of, accelerator = known("deepseek-ai/DeepSeek-V4-Pro"), candidates(device)[0]
        assert of is not None
        words = shlex.split(f"--model a/b --tp-size 8 {line}")
        config = effective(parse_argv(words, version=assumed(version, "test")), of, accelerator)
        return weights(of, config, 0, accelerator).bytes.expected / GIB

    marlin, cutlass = "--moe-runner-backend marlin", "--moe-runner-backend flashinfer_mxfp4"
    scales = 22.5  # 4 bytes for each of the 32-element blocks of the experts
    converted = size("0.5.15", "H200", cutlass)
    assert size("0.5.15", "H200", marlin) - converted == pytest.approx(scales, rel=0.01)
    assert size("0.5.16", "H200", marlin) == pytest.approx(converted, rel=0.001)
    # An automatic choice converts the scales from 0.5.19 on, on workstation Blackwell by Marlin's kernels from 0.5.14.
    assert size("0.5.18", "H200", "") - converted == pytest.approx(scales * 3 / 4, rel=0.01)
    assert size("0.5.19", "H200", "") == pytest.approx(converted, rel=0.001)
    assert size("0.5.12", "RTX-PRO-6000", "") - converted == pytest.approx(scales * 3 / 4, rel=0.01)
    assert size("0.5.15", "RTX-PRO-6000", "") == pytest.approx(size("0.5.15", "H200", marlin), rel=0.01)
    assert size("0.5.16", "RTX-PRO-6000", "") == pytest.approx(converted, rel=0.001)
    # Exchanges between ranks choose kernels of their own.
    assert size("0.5.15", "B200", "--moe-a2a-backend megamoe --ep-size 8") < converted + 5
    # The first output projection is FP8 on data-centre Blackwell and 16 bits elsewhere.
    assert size("0.5.23", "H200", "") - size("0.5.23", "B200", "") > 0.3


@pytest.mark.parametrize(
    ("name", "version", "device", "line", "tokens", "within"),
    [
        # Reference on SGLang's memory, 3.4 and 14, and vllm-project/vllm issue 21348.
        ("Qwen/QwQ-32B", "0.4.3", "L4", "--tp-size 4 --mem-fraction-static 0.85", 46_611, 0.03),
        ("Qwen/Qwen3-8B", "0.5.10", "B200", "", int(136.37 * GIB) // 147_456, 0.005),
        ("Qwen/Qwen3-4B", "0.4.6", "L40S", "", 2821 * 40_960 // 512, 0.005),
        ("Qwen/Qwen3-235B-A22B-FP8", "0.4.9", "H100-80GB", "--tp-size 4 --mem-fraction-static 0.93", 367_404, 0.01),
        # sgl-project/sglang, pull request 22537 (weights 15.50 GiB there and here).
        ("Qwen/Qwen3-32B", "0.5.10", "B200", "--tp-size 4", 2_206_208, 0.002),
        # Pull request 11830: the model by its context, its bytes per token and its sampling defaults.
        ("Qwen/Qwen2.5-VL-7B-Instruct", "0.5.6", "B200", "", 2_261_377, 0.002),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "0.5.6", "B200", "--enable-piecewise-cuda-graph", 2_243_474, 0.002),
    ],
)
def test_tokens_of_public_starts(name: str, version: str, device: str, line: str, tokens: int, within: float) -> None:
    """End to end: nothing of the start is given but the command line."""
    found = budget(name, device, line, version, gpus=4 if "tp-size" in line else 1).capacity
    assert found is not None
    assert found.kv_tokens.expected == pytest.approx(tokens, rel=within)
    assert found.kv_tokens.low <= tokens <= found.kv_tokens.high


def test_tables_that_stay_in_the_hosts_memory() -> None:
    """Qwen3.8-Flash-Next's n-gram tables are the host's with BF16 on CUDA; on the device ranks divide them."""

    def size(line: str) -> int:
        found = budget("Qwen/Qwen3.8-Flash-Next", "H200", f"--tp-size 4 {line}", "0.5.20", gpus=4)
        return found.ranks[0].bytes("weights").expected

    of = known("Qwen/Qwen3.8-Flash-Next")
    assert of is not None
    tables = [m for layer in of.layers for m in layer.matrices if m.shard == "host"]
    assert tables
    whole = sum(m.n * m.k * 2 for m in tables)
    assert size("") < 62 * GIB
    assert size("--no-ple-offload-embedding") - size("") == pytest.approx(whole / 4, rel=0.01)
    assert size("--dtype float16") == pytest.approx(size("--no-ple-offload-embedding"), rel=0.01)


def test_work_space_of_aiter_attention() -> None:
    """sgl-project/sglang, pull request 18263: 51.75 GiB for 1,669,816 tokens on an MI355X; pull request 36656: 32.50 GiB for
    Llama-3.1-8B with 4,096 requests. Window pools have none."""
    name = "Qwen/Qwen3-30B-A3B-Instruct-2507"
    pool = {"kv_cache_memory": 1_669_816 * 98_304}

    def space(line: str, model: str = name, **options: Any) -> float:
        found = budget(model, "MI355X", line, "0.5.16", **options)
        return found.ranks[0].bytes("non_torch").expected / GIB

    plain = space("--attention-backend triton", **pool)
    assert space("", **pool) - plain == pytest.approx(51.75, rel=0.001)
    llama = "meta-llama/Llama-3.1-8B-Instruct"
    assert space("--max-running-requests 4096", llama) - space("--attention-backend triton", llama) == pytest.approx(
        32.5
    )
    assert space("", "openai/gpt-oss-20b") == space("--attention-backend triton", "openai/gpt-oss-20b")


def test_share_of_amd_cards() -> None:
    """MI355X, 0.5.7 (sgl-project/sglang, issue 18262): 0.911 × 0.85, nothing for prefill graphs."""
    found = budget("Qwen/Qwen3-30B-A3B-Instruct-2507", "MI355X", "--disable-cuda-graph", "0.5.16").ranks[0]
    share = found.bytes("requested").expected / (found.bytes("device").expected - found.bytes("baseline").expected)
    assert share == pytest.approx(0.911 * 0.85, rel=0.006)


def test_weights_beyond_the_share() -> None:
    found = budget("meta-llama/Llama-3.1-70B-Instruct", "H100-80GB", "")
    assert found.verdict == "does-not-fit"
    assert found.ranks[0].bytes("kv_available").high < 0


def test_unknown_block_draft_is_like_public_ones() -> None:
    """z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat has 1,048,626,432 parameters."""
    line = "--speculative-algorithm DFLASH --speculative-draft-model-path a/draft"
    draft = budget("meta-llama/Llama-3.1-8B-Instruct", "H100-80GB", line, "0.5.18").ranks[0].bytes("draft")
    assert draft.expected == pytest.approx(2 * 1_048_626_432, rel=0.01)
    assert draft.low < draft.expected < draft.high


def test_share_that_leaves_no_room_beside_it() -> None:
    found = budget("Qwen/Qwen3-8B", "RTX-4090", "--mem-fraction-static 0.99 --context-length 40960")
    assert found.verdict in ("may-not-fit", "does-not-fit")


def test_upgrade_takes_the_pool_of_small_cards() -> None:
    """From 0.5.20 on the default share of a 24 GB card leaves nothing beside 16-bit weights of 8B."""
    before = budget("meta-llama/Llama-3.1-8B-Instruct", "L4", "", "0.5.12")
    after = budget("meta-llama/Llama-3.1-8B-Instruct", "L4", "", "0.5.23")
    assert before.verdict == "fits"
    assert after.verdict in ("may-not-fit", "does-not-fit")


def test_request_table_grows_with_the_context() -> None:
    found = budget("Qwen/Qwen3-8B", "H200", "--context-length 131072", "0.5.12")
    rows = found.ranks[0].bytes("request_table").expected / (131076 * 4) - 1
    assert rows == pytest.approx(4096, abs=1) or rows >= 2048


def test_windows_and_states_are_terms_of_their_own() -> None:
    windows = budget("google/gemma-4-31B-it", "H100-80GB", "--tp-size 2", "0.5.12", gpus=2)
    assert windows.ranks[0].bytes("windows").expected > windows.ranks[0].bytes("kv_available").expected
    states = budget("Qwen/Qwen3.5-9B", "H100-80GB", "", "0.5.12")
    taken = states.ranks[0].bytes("states").expected
    assert taken / states.ranks[0].bytes("kv_available").expected == pytest.approx(0.9, rel=0.01)


def test_running_requests_that_the_states_leave() -> None:
    """``resolve_max_num_reqs``: slots over the slots of a request; the engine starts with the fewer."""
    line = "--context-length 8192 --max-running-requests"
    found = budget("Qwen/Qwen3.5-9B", "L40S", f"{line} 512", "0.5.12")
    (note,) = (note for note in found.notes if "max-running-requests" in note)
    assert note.startswith("55 requests run at a time (54 to 55), with 3 slots of recurrent state each, of the 512 of")
    (note,) = (n for n in budget("Qwen/Qwen3.5-9B", "L40S", f"{line} 512", "0.5.23").notes if "max-running" in n)
    assert note.startswith("31 requests run at a time (31 to 32), with 5 slots")
    assert not any("at a time" in note for note in budget("Qwen/Qwen3.5-9B", "L40S", f"{line} 16", "0.5.23").notes)
    assert not any("at a time" in note for note in budget("Qwen/Qwen3-8B", "L40S", f"{line} 512", "0.5.23").notes)


def test_unified_memory_is_shared_with_the_host() -> None:
    found = budget("Qwen/Qwen3-8B", "GB10", "")
    assert found.ranks[0].bytes("baseline").expected > 3 * GIB


def test_work_is_bounded() -> None:
    found = budget(
        "Qwen/Qwen3-8B", "H100-80GB", "--dp-size 60000 --cuda-graph-max-bs 99999999 --chunked-prefill-size 999999999"
    )
    assert len(found.ranks) == 256


def _cases(path: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


@pytest.mark.skipif(not KNOWN_GOOD.exists(), reason="the corpus is not at hand")
def test_no_false_alarm_on_configurations_that_ran() -> None:
    alarms, tried = [], 0
    for case in _cases(KNOWN_GOOD):
        if case["engine"] != "sglang" or known(case["model"]) is None or not candidates(case["accelerator"]):
            continue
        tried += 1
        stated = str(case.get("engine_version") or "")
        version = stated if is_version(stated) and stated.count(".") > 1 and "-" not in stated else NEWEST_SGLANG
        gpus = (case.get("gpus_per_pod") or 1) * (case.get("pods") or 1)
        if budget(case["model"], case["accelerator"], case["flags"], version, gpus).verdict == "does-not-fit":
            alarms.append(case["id"])
    assert not alarms
    assert tried > 30


def test_device_without_a_driver_size_uses_its_memory() -> None:
    accelerator = Accelerator("X", "nvidia", candidates("H100-80GB")[0].memory, (9, 0), "")
    config = parse_argv(["--model", "a/b"], version=assumed("0.5.12", "test"))
    of = known("Qwen/Qwen3-8B")
    assert of is not None
    assert effective(config, of, accelerator).driver_mib == accelerator.memory.expected // MIB


def _unstated(name: str, device: str, line: str, gpus: int, release: Fact[str]) -> MemoryBudget:
    of, accelerator = known(name), candidates(device)[0]
    assert of is not None
    config = effective(parse_argv(shlex.split(line), version=release), of, accelerator, gpus)
    return sglang_budget(of, config, accelerator, gpus_per_pod=gpus)


def test_release_that_nothing_states() -> None:
    """The weights of sgl-project/sglang's DeepSeek-V4 image of July 2026 (125.65 GiB, no room at 0.88) are in the interval."""
    name, line = "deepseek-ai/DeepSeek-V4-Pro", "--tp-size 8 --mem-fraction-static 0.88 --moe-runner-backend marlin"
    unstated = _unstated(name, "H200", line, 8, assumed(NEWEST_SGLANG, "newest"))
    stated = _unstated(name, "H200", line, 8, Fact(NEWEST_SGLANG, Provenance("file", "image tag")))
    assert (stated.verdict, unstated.verdict) == ("fits", "may-not-fit")
    wide, narrow = unstated.ranks[0].terms["weights"], stated.ranks[0].terms["weights"]
    assert wide.bytes.expected == narrow.bytes.expected
    assert narrow.bytes.high < 125.65 * GIB < wide.bytes.high
    assert "0.5.13 up to the newest" in str(wide.inputs[-1])  # the oldest that stands for others and has the model
    assert unstated.capacity is not None
    assert stated.capacity is not None
    assert unstated.capacity.kv_tokens.low == 0
    assert unstated.capacity.kv_tokens.expected == stated.capacity.kv_tokens.expected


def test_releases_that_agree_change_nothing() -> None:
    line = "--mem-fraction-static 0.85"
    unstated = _unstated("Qwen/Qwen3-8B", "H100-80GB", line, 1, assumed(NEWEST_SGLANG, "newest")).ranks[0].terms
    stated = _unstated("Qwen/Qwen3-8B", "H100-80GB", line, 1, Fact(NEWEST_SGLANG, Provenance("file", "tag"))).ranks[0]
    assert unstated["weights"] == stated.terms["weights"]
    assert unstated["kv_available"] == stated.terms["kv_available"]


def test_experts_repackaged_to_fp8() -> None:
    """sgl-project's FP8 checkpoints have DeepSeek's config.json, which says nothing of it; their experts weigh as the base's do."""

    def size(name: str) -> int:
        return budget(name, "B200", "--tp-size 8", "0.5.23", gpus=8).ranks[0].bytes("weights").expected

    assert size("sgl-project/DeepSeek-V4-Flash-FP8") == size("deepseek-ai/DeepSeek-V4-Flash-Base")
    assert size("sgl-project/DeepSeek-V4-Flash-FP8") > 1.7 * size("deepseek-ai/DeepSeek-V4-Flash")
    assert budget("sgl-project/DeepSeek-V4-Pro-FP8", "B200", "--tp-size 8", "0.5.23", gpus=8).verdict == "does-not-fit"


def test_messages_name_the_settings_of_the_engine(lint_text: Callable[..., LintResult]) -> None:
    def said(engine: str, version: str, *args: str) -> str:
        result = lint_text(manifest(args, version, engine=engine, gpu="NVIDIA-L4"))
        return next(f"{f.message} {f.remedy}" for f in result.findings if f.rule == "weights-do-not-fit")

    sglang = said("sglang", "0.5.18", "--model-path=Qwen/Qwen3-14B", "--host=0.0.0.0")
    assert "mem-fraction-static" in sglang
    assert "gpu-memory-utilization" not in sglang
    tgi = said("tgi", "3.3.7", "--model-id=Qwen/Qwen3-14B")
    assert "cuda-memory-fraction" in tgi
    assert "--num-shard 1 today" in tgi


def test_weights_that_hang_on_the_release_are_said_as_a_range(lint_text: Callable[..., LintResult]) -> None:
    args = ["--model-path=deepseek-ai/DeepSeek-V4-Pro", "--tp=8", "--mem-fraction-static=0.88", "--host=0.0.0.0"]
    args.append("--moe-runner-backend=marlin")
    text = manifest(args, "", engine="sglang", image="lmsysorg/sglang:deepseek-v4-hopper", gpu="NVIDIA-H200",
                    resources={"nvidia.com/gpu": 8})  # fmt: skip
    (finding,) = [f for f in lint_text(text).findings if f.rule == "weights-do-not-fit"]
    assert finding.severity == "warning"
    assert "needs 102.40 GiB to 126.01 GiB of weights" in finding.message
