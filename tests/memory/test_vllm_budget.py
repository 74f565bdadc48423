"""The budget as a whole: identities, verdicts by release, given values, sizes beyond reason."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.estimate import Estimate, exactly
from planner.memory.budget import MemoryBudget, Term
from planner.memory.kv_specs import LayoutRefused
from planner.memory.vllm_budget import vllm_budget
from planner.models.resolve import resolve
from planner.record import replace
from planner.units import GIB
from tests.memory.starts import Start, start

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
QWEN = "Qwen/Qwen2.5-7B-Instruct"


def budget(of: Start, **options: object) -> MemoryBudget:
    return vllm_budget(*of, **options)  # type: ignore[arg-type]


def verdict(model: str, gpu: str, version: str, flags: str = "", **options: object) -> str:
    return budget(start(model, gpu, version, flags), **options).verdict


@pytest.mark.parametrize("version", ["0.6.6", "0.9.2", "0.17.1", "0.22.1", "0.33.0"])
def test_expected_terms_add_up(version: str) -> None:
    terms = budget(start(LLAMA, "L40S", version)).ranks[0].terms
    charged = ["weights", "activations", "non_torch"] + (["graphs"] if terms["graphs"].counted else [])
    left = terms["requested"].bytes.expected - sum(terms[name].bytes.expected for name in charged)
    assert terms["kv_available"].bytes.expected == left
    assert terms["requested"].bytes.expected + terms["outside"].bytes.expected == terms["device"].bytes.expected


@pytest.mark.parametrize(
    ("model", "gpu", "version", "flags", "printed"),
    [
        # public start-up logs: "Available KV cache memory"
        (LLAMA, "RTX-3090", "0.17.1", "--max-model-len 8192", 5.68),
        (LLAMA, "RTX-3090", "0.17.1", "--max-model-len 8192 --gpu-memory-utilization 0.75", 2.13),
        (QWEN, "RTX-3090", "0.17.1", "--max-model-len 8192", 6.32),
        ("Qwen/Qwen2.5-14B-Instruct-AWQ", "RTX-A5000", "0.13.0", "--max-model-len 8192", 10.39),
        ("Qwen/Qwen2.5-Coder-32B-Instruct-AWQ", "A100-40GB", "0.13.0", "--max-model-len 4096", 15.87),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "H200", "0.11.2", "--max-model-len 1024", 105.97),
        ("Qwen/Qwen3-8B", "T4", "0.22.0", "--max-model-len 8192 --tensor-parallel-size 2 --dtype half "
         "--gpu-memory-utilization 0.85 --enforce-eager --max-num-batched-tokens 8192", 4.11),
    ],
)  # fmt: skip
def test_printed_available_memory(model: str, gpu: str, version: str, flags: str, printed: float) -> None:
    low, expected, high, _ = budget(start(model, gpu, version, flags)).ranks[0].bytes("kv_available")
    assert low <= printed * GIB <= high
    assert expected == pytest.approx(printed * GIB, rel=0.03)


def test_verdicts_of_real_starts() -> None:
    """The same model and card at 0.60 refused to start and at 0.90 served; 0.65 was a matter of luck (it did both)."""
    flags = "--max-model-len 8192 --gpu-memory-utilization "
    assert verdict(QWEN, "RTX-3090", "0.17.1", flags + "0.6") == "does-not-fit"
    assert verdict(QWEN, "RTX-3090", "0.17.1", flags + "0.65") == "may-not-fit"
    assert verdict(QWEN, "RTX-3090", "0.17.1", flags + "0.9") == "fits"


def test_weights_beyond_the_device() -> None:
    assert verdict("Qwen/Qwen2.5-32B-Instruct", "L4", "0.11.0", "--max-model-len 1024") == "does-not-fit"


def test_length_beyond_the_cache() -> None:
    assert verdict(LLAMA, "RTX-3090", "0.17.1") == "does-not-fit"  # 131,072 tokens need 16 GiB
    assert verdict(LLAMA, "RTX-3090", "0.17.1", "--max-model-len auto") == "fits"


def test_first_check_wants_the_share_free_from_0_9_1() -> None:
    flags = "--max-model-len 2048 --gpu-memory-utilization "
    assert verdict(LLAMA, "RTX-3090", "0.17.1", flags + "0.995") == "does-not-fit"
    assert verdict(LLAMA, "RTX-3090", "0.17.1", flags + "0.98") == "may-not-fit"
    assert verdict(LLAMA, "RTX-3090", "0.17.1", flags + "0.92") == "fits"
    assert verdict(LLAMA, "RTX-3090", "0.8.5", flags + "0.995 --max-num-seqs 64") != "does-not-fit"


def test_what_grows_beside_the_share_makes_a_start_doubtful_only() -> None:
    """0.97 of a 24 GiB card leaves 0.7 GiB for the context and for graphs that 0.17 does not budget."""
    assert verdict(LLAMA, "RTX-3090", "0.17.1", "--max-model-len 2048 --gpu-memory-utilization 0.97") == "may-not-fit"
    eager = "--max-model-len 2048 --gpu-memory-utilization 0.97 --enforce-eager"
    assert verdict(LLAMA, "RTX-3090", "0.17.1", eager) == "fits"


def test_cache_of_a_stated_size() -> None:
    flags = "--max-model-len 8192 --kv-cache-memory-bytes "
    fits = start(LLAMA, "RTX-3090", "0.17.1", flags + "4G")
    assert budget(fits).ranks[0].bytes("kv_available") == Estimate(4 * GIB, 4 * GIB, 4 * GIB, "exact")
    assert budget(fits).verdict == "fits"
    assert verdict(LLAMA, "RTX-3090", "0.17.1", flags + "12G") == "does-not-fit"
    assert verdict(LLAMA, "RTX-3090", "0.17.1", flags + "512M") == "does-not-fit"  # one request needs 1 GiB


def test_override_of_blocks_plans_with_their_memory_from_0_20() -> None:
    flags = "--max-model-len 8192 --num-gpu-blocks-override 100"
    assert verdict(LLAMA, "L40S", "0.22.1", flags) == "does-not-fit"
    assert verdict(LLAMA, "L40S", "0.17.1", flags) == "fits"


def test_given_memory_and_given_terms() -> None:
    of = start(LLAMA, "RTX-3090", "0.17.1", "--max-model-len 8192")
    assert budget(of, kv_cache_memory=3 * GIB).ranks[0].num_blocks == exactly(3 * GIB // (16 * 131072), "given")
    measured = Term("peak", exactly(2 * GIB, "given"), "measured on the cluster")
    terms = budget(of, given={"activations": measured}).ranks[0].terms
    assert terms["activations"].bytes.expected == 2 * GIB
    assert terms["activations"].name == "activations"
    plain = budget(of).ranks[0].terms
    lost = 2 * GIB - plain["activations"].bytes.expected
    assert plain["kv_available"].bytes.expected - terms["kv_available"].bytes.expected == lost


def test_the_cache_the_device_and_the_context_can_be_given() -> None:
    of = start(LLAMA, "RTX-3090", "0.17.1", "--max-model-len 8192")

    def term(gib: float) -> Term:
        return Term("", exactly(int(gib * GIB), "given"), "measured on the cluster")

    cache = budget(of, given={"kv_available": term(3)}).ranks[0]
    assert cache.bytes("kv_available") == exactly(3 * GIB, "given")
    assert cache.num_blocks == exactly(3 * GIB // (16 * 131072), "given")
    assert cache.terms["kv_available"].name == "kv_available"
    device = budget(of, given={"device": term(23)}).ranks[0]
    assert device.bytes("requested").expected == math.ceil(23 * GIB * 0.9)
    assert device.bytes("requested").expected + device.bytes("outside").expected == 23 * GIB
    assert budget(of, given={"baseline": term(3)}).verdict == "does-not-fit"  # less than the share is free


def test_an_automatic_length_is_lowered_to_what_fits() -> None:
    of = start(LLAMA, "RTX-3090", "0.17.1", "--max-model-len auto")
    result = budget(of)
    assert result.fitted_length is not None
    assert result.capacity is not None
    low, expected, high, _ = result.fitted_length
    assert 30000 < low < expected < high < 60000
    assert result.capacity.max_concurrency[1] == pytest.approx(1, abs=0.01)
    rank = result.ranks[0]
    assert rank.kv is not None
    assert rank.num_blocks is not None
    assert rank.kv.blocks_per_request == -(-expected // 16) <= rank.num_blocks.expected
    assert budget(start(LLAMA, "H200", "0.17.1", "--max-model-len auto")).fitted_length == exactly(131072, "measured")
    assert budget(start(LLAMA, "RTX-3090", "0.17.1", "--max-model-len 8192")).fitted_length is None


def test_drafts_of_speculative_decoding() -> None:
    target = start("Qwen/Qwen3-32B", "H100-80GB", "0.19.0", "--max-model-len 8192")
    plain = budget(target).ranks[0]
    flags = '--max-model-len 8192 --speculative-config {"model":"Qwen/Qwen3-0.6B","num_speculative_tokens":3}'
    of = start("Qwen/Qwen3-32B", "H100-80GB", "0.19.0", flags)
    draft = resolve("Qwen/Qwen3-0.6B").architecture
    known = budget(of, draft=draft)
    small = budget(start("Qwen/Qwen3-0.6B", "H100-80GB", "0.19.0")).ranks[0]
    more = known.ranks[0].bytes("weights").expected - plain.bytes("weights").expected
    assert more == pytest.approx(small.bytes("weights").expected, rel=0.02)
    assert known.ranks[0].kv is not None
    assert plain.kv is not None
    assert small.kv is not None
    assert known.ranks[0].kv.bytes_per_token == plain.kv.bytes_per_token + small.kv.bytes_per_token
    assert known.notes == ()
    unknown = budget(of)
    assert unknown.ranks[0].bytes("weights").expected == plain.bytes("weights").expected
    assert unknown.ranks[0].bytes("weights").high > 1.2 * plain.bytes("weights").high
    assert "Qwen/Qwen3-0.6B is not known" in unknown.notes[0]


def test_a_draft_on_one_rank_keeps_all_its_heads() -> None:
    """Eight KV heads of 128 in 28 layers: whole on each of two ranks where the draft is not split."""
    draft = resolve("Qwen/Qwen3-0.6B").architecture
    tokens = []
    for size in (2, 1):
        options = f'{{"model":"Qwen/Qwen3-0.6B","num_speculative_tokens":3,"draft_tensor_parallel_size":{size}}}'
        of = start(
            "Qwen/Qwen3-32B", "H100-80GB", "0.19.0", f"-tp 2 --max-model-len 8192 --speculative-config {options}"
        )
        plan = budget(of, draft=draft).ranks[0].kv
        assert plan is not None
        tokens.append(plan.bytes_per_token)
    assert tokens[1] - tokens[0] == 28 * 4 * 128 * 2 * 2


def test_balancing_of_experts_needs_the_experts_of_a_layer() -> None:
    """Qwen3-30B-A3B on four ranks: 32 experts of 3 × 768 × 2048 elements, with redundant experts or without."""
    flags = "-tp 4 --max-model-len 8192 --enable-expert-parallel"
    plain = budget(start("Qwen/Qwen3-30B-A3B", "H100-80GB", "0.20.0", flags)).ranks[0].bytes("weights")
    balanced = (
        budget(start("Qwen/Qwen3-30B-A3B", "H100-80GB", "0.20.0", f"{flags} --enable-eplb")).ranks[0].bytes("weights")
    )
    assert balanced.expected - plain.expected == 32 * 3 * 768 * 2048 * 2


def test_balancing_moves_experts_as_they_lie_after_loading() -> None:
    """Quantized online, a value is one byte, and each of two weights per expert has a scale of four (``fp8_tensor``)."""
    flags = "-tp 4 --max-model-len 8192 --enable-expert-parallel --quantization fp8"

    def weights(more: str) -> int:
        of = start("Qwen/Qwen3-30B-A3B", "H100-80GB", "0.24.0", f"{flags} {more}")
        return budget(of).ranks[0].bytes("weights").expected

    buffer = 32 * (3 * 768 * 2048 + 2 * 8)
    assert weights("--enable-eplb") - weights("") == buffer
    redundant = weights('--enable-eplb --eplb-config {"num_redundant_experts":4}')
    assert redundant - weights("") == (33 * 48 + 33 - 32 * 48) * (
        buffer // 32
    )  # 48 layers with 33 experts, the buffer too


def test_draft_layers_of_the_checkpoint() -> None:
    """DeepSeek-V3 brings one MTP layer along: a 62nd latent cache, and its weights on the last stage."""
    flags = "-tp 8 --max-model-len 8192"
    plain = budget(start("deepseek-ai/DeepSeek-V3", "H200", "0.20.0", flags)).ranks[0]
    mtp = '--speculative-config {"method":"mtp","num_speculative_tokens":1}'
    drafted = budget(start("deepseek-ai/DeepSeek-V3", "H200", "0.20.0", f"{flags} {mtp}")).ranks[0]
    assert plain.kv is not None
    assert drafted.kv is not None
    assert drafted.kv.bytes_per_token == 62 * 1152
    assert 1 < (drafted.bytes("weights").expected - plain.bytes("weights").expected) / GIB < 2


def test_encoders_left_out_weigh_nothing() -> None:
    model, flags = "google/gemma-3-27b-it", "-tp 2 --max-model-len 8192"
    whole = budget(start(model, "H100-80GB", "0.20.0", flags)).ranks[0]
    text = budget(start(model, "H100-80GB", "0.20.0", flags + " --language-model-only")).ranks[0]
    copied = budget(start(model, "H100-80GB", "0.20.0", flags + " --mm-encoder-tp-mode data")).ranks[0]
    sizes = [rank.bytes("weights").expected for rank in (text, whole, copied)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 3
    assert text.bytes("activations").expected < whole.bytes("activations").expected


def test_partition_of_the_layers() -> None:
    of = start(LLAMA, "L40S", "0.17.1", "-pp 2 --max-model-len 8192")
    even = budget(of)
    uneven = budget(of, layer_partition=(24, 8))
    sizes = [len(uneven.ranks[stage].kv.groups) and uneven.ranks[stage].kv.groups[0].layers for stage in (0, 1)]  # type: ignore[union-attr]
    assert sizes == [24, 8]
    assert uneven.ranks[0].bytes("weights").expected > even.ranks[0].bytes("weights").expected
    with pytest.raises(LayoutRefused, match="VLLM_PP_LAYER_PARTITION"):
        budget(of, layer_partition=(24, 24))


def test_estimate_of_graphs_can_be_switched() -> None:
    of = start(LLAMA, "L40S", "0.20.0", "--max-model-len 8192")
    assert budget(of).ranks[0].terms["graphs"].counted
    off = of._replace(config=replace(of.config, graphs_estimated=False))
    assert not budget(off).ranks[0].terms["graphs"].counted
    older = start(LLAMA, "L40S", "0.17.1", "--max-model-len 8192")
    on = older._replace(config=replace(older.config, graphs_estimated=True))
    assert not budget(on).ranks[0].terms["graphs"].counted  # the variable came with 0.18


def test_every_term_says_what_makes_it_grow() -> None:
    terms = budget(start("Qwen/Qwen3-30B-A3B", "H100-80GB", "0.20.0", "-tp 2 --max-model-len 8192")).ranks[0].terms
    grows = {name: {what for what, _ in term.grows_with} for name, term in terms.items()}
    assert grows["kv_available"] == {"context", "concurrency", "precision"}
    assert {"batched tokens", "concurrency"} <= grows["activations"]
    assert grows["graphs"] == {"graphs"}
    assert grows["weights"] == {"precision"}
    for name, term in terms.items():
        assert term.formula, name
        assert all(item.name and item.value and item.source for item in term.inputs), name
        assert term.inputs, name


def test_capacity_can_be_left_out() -> None:
    of = start(LLAMA, "L40S", "0.17.1", "--max-model-len 8192")
    whole, short = budget(of), budget(of, capacity=False)
    assert short.capacity is None
    assert whole.capacity is not None
    assert whole.capacity.longest_request.low <= whole.capacity.longest_request.expected
    assert (short.verdict, short.ranks[0].terms) == (whole.verdict, whole.ranks[0].terms)


def test_an_assumed_release_widens_the_interval() -> None:
    of = start(LLAMA, "H100-80GB", "0.33.0", "--max-model-len 8192")
    stated = budget(of).ranks[0].bytes("kv_available")
    assumed = budget(of, version_assumed=True).ranks[0].bytes("kv_available")
    assert assumed.expected == stated.expected  # the oldest release that has the model is not known
    assert assumed.low < stated.low < stated.high < assumed.high
    older = of._replace(config=replace(of.config, oldest_release=(0, 6, 0)))
    assumed = budget(older, version_assumed=True).ranks[0].bytes("kv_available")
    assert assumed.low < stated.low < stated.high < assumed.high
    typical = budget(start(LLAMA, "H100-80GB", "0.11.2", "--max-model-len 8192")).ranks[0].bytes("kv_available")
    assert assumed.expected == typical.expected


def test_an_assumed_release_counts_tokens_as_each_release_would() -> None:
    """A public start of Kimi-K3 in August 2026 prints 30,062 tokens in 0.82 GiB, which 0.27 makes of it and 0.33 does not."""
    of = start("moonshotai/Kimi-K3", "H200", "0.33.0", "-tp 16 --max-model-len 29696")
    of = of._replace(config=replace(of.config, oldest_release=(0, 27)))
    memory = int(0.82 * GIB)
    stated = budget(of, kv_cache_memory=memory).capacity
    assumed = budget(of, kv_cache_memory=memory, version_assumed=True).capacity
    assert stated is not None
    assert assumed is not None
    assert stated.kv_tokens.low == stated.kv_tokens.high == assumed.kv_tokens.expected
    assert assumed.kv_tokens.high == 30_062
    dense = start(LLAMA, "H200", "0.33.0", "--max-model-len 8192")
    dense = dense._replace(config=replace(dense.config, oldest_release=(0, 6)))
    plain = budget(dense, kv_cache_memory=memory, version_assumed=True).capacity
    assert plain is not None
    assert plain.kv_tokens.low == plain.kv_tokens.high  # full attention is counted alike by all releases


def test_only_the_last_stage_holds_the_sampler() -> None:
    of = start(LLAMA, "H100-80GB", "0.11.0", "--pipeline-parallel-size 2 --max-model-len 8192")
    result = budget(of)
    first, last = result.ranks[0], result.ranks[-1]
    assert first.bytes("activations").expected < last.bytes("activations").expected
    assert result.ranks[result.tightest].bytes("kv_available").expected == min(
        rank.bytes("kv_available").expected for rank in result.ranks
    )


@pytest.mark.parametrize(
    "flags",
    [
        "--pipeline-parallel-size 65536",
        "--tensor-parallel-size 65536 --data-parallel-size 65536",
        "--max-num-seqs 1000000000000 --max-num-batched-tokens 1000000000000 --max-model-len 1000000000000",
        "--gpu-memory-utilization 0",
        "--gpu-memory-utilization -5",
    ],
)
def test_sizes_beyond_reason_end_soon(flags: str) -> None:
    begun = time.perf_counter()
    try:
        result = budget(start(LLAMA, "L40S", "0.17.1", flags))
    except LayoutRefused:
        assert time.perf_counter() - begun < 2
        return
    assert time.perf_counter() - begun < 2
    assert 0 < len(result.ranks) <= 8192
    assert result.tightest < len(result.ranks)
    assert result.verdict in ("fits", "may-not-fit", "does-not-fit")


@settings(max_examples=40, deadline=None)
@given(
    share=st.floats(0.3, 0.99),
    length=st.integers(1, 131072),
    version=st.sampled_from(["0.6.6", "0.9.2", "0.17.1", "0.20.0", "0.30.0"]),
)
def test_more_memory_never_makes_it_worse(share: float, length: int, version: str) -> None:
    """Available memory grows with the device, and so does the verdict; bounds are in order."""
    of = start(LLAMA, "L40S", version, f"--max-model-len {length}")
    config = replace(of.config, gpu_memory_utilization=replace(of.config.gpu_memory_utilization, value=share))
    order = ("does-not-fit", "may-not-fit", "fits")
    verdicts, available = [], []
    for size in (20, 40, 80):
        device = replace(of.accelerator, memory=exactly(size * GIB, "measured"))
        result = vllm_budget(of.model, config, device)
        verdicts.append(order.index(result.verdict))
        available.append(result.ranks[0].bytes("kv_available"))
    assert verdicts == sorted(verdicts)
    assert all(each.low <= each.expected <= each.high for each in available)
    assert [each.expected for each in available] == sorted(each.expected for each in available)


def test_one_budget_is_fast() -> None:
    of = start(LLAMA, "RTX-3090", "0.17.1", "--max-model-len 8192")
    budget(of)
    best = min(_seconds(of) for _ in range(20))
    assert best < 0.001


def _seconds(of: Start) -> float:
    begun = time.perf_counter()
    budget(of)
    return time.perf_counter() - begun
