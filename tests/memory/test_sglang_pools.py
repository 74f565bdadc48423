"""SGLang's pools against sizes that public logs print, and against the sizing code of its releases."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given as inputs
from hypothesis import settings
from hypothesis import strategies as st

from planner.accelerators.accelerator import Accelerator
from planner.engines.sglang import parse_argv
from planner.engines.sglang_config import SGLangConfig
from planner.engines.sglang_defaults import effective
from planner.estimate import exactly
from planner.memory.sglang_cells import Cells, cells, element_bytes
from planner.memory.sglang_compressed import compressed_cells
from planner.memory.sglang_pools import given, requests, solve, state_slots
from planner.models.architecture import (
    Attention,
    Format,
    FullAttention,
    LatentAttention,
    Layer,
    ModelArchitecture,
    RecurrentState,
    SlidingWindow,
    StateShape,
)
from planner.provenance import from_default
from planner.record import replace
from planner.units import GIB, MIB

H100 = Accelerator("H100", "nvidia", exactly(81559 * MIB), (9, 0), "", smi_mib=(81559,))
B200 = Accelerator("B200", "nvidia", exactly(183359 * MIB), (10, 0), "", smi_mib=(183359,))


def model(layers: list[Attention], architecture: str = "LlamaForCausalLM", **changes: Any) -> ModelArchitecture:
    values: dict[str, Any] = {
        "id": "org/model",
        "architecture": architecture,
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_size": 4096,
        "vocab_size": 1000,
        "layers": tuple(Layer(attention, ()) for attention in layers),
        "embedding": None,
        "head": None,
        "tied_embeddings": False,
        "formats": {"model": Format("model")},
        "derived_max_len": 40960,
    }
    return ModelArchitecture(**{**values, **changes})


def settle(line: str, version: str, of: ModelArchitecture, device: Accelerator = H100) -> tuple[SGLangConfig, Cells]:
    config = parse_argv(shlex.split(f"--model a/b {line}"), version=from_default(version, "test"))
    found = effective(config, of, device)
    return found, cells(of, found, range(of.num_layers))


def cell(line: str, version: str, of: ModelArchitecture, device: Accelerator = H100) -> int:
    return settle(line, version, of, device)[1].full


LATENT = LatentAttention(128, 512, 64, 128, 128)
SPARSE = LatentAttention(128, 512, 64, 128, 128, indexer_dim=128)


@pytest.mark.parametrize(
    ("layers", "line", "expected"),
    [
        ([FullAttention(64, 8, 128, 128)] * 64, "--tp-size 8", 32_768),  # Qwen3-32B
        (
            [FullAttention(64, 4, 128, 128)] * 94,
            "--tp-size 32 --dp-size 32 --enable-dp-attention",
            192_512,
        ),  # Qwen3-235B
        ([FullAttention(64, 4, 128, 128)] * 94, "--tp-size 8", 48_128),  # fewer heads than ranks: one head each
        ([LATENT] * 61, "--tp-size 8", 70_272),  # DeepSeek-V3, the same on every rank
        ([LATENT] * 61, "--tp-size 8 --kv-cache-dtype fp8_e4m3", 35_136),
        ([SPARSE] * 78, "--tp-size 8 --kv-cache-dtype bfloat16", 100_152),  # GLM-5
    ],
)
def test_bytes_per_token(layers: list[Attention], line: str, expected: int) -> None:
    assert cell(line, "0.5.12", model(layers)) == expected


def test_sparse_rows_in_fp8() -> None:
    """656 bytes a row are stored on Hopper, but charged from 0.5.18 on only; TensorRT-LLM's kernels keep plain rows."""
    of = model([SPARSE] * 61)
    line = "--tp-size 8 --kv-cache-dtype fp8_e4m3"
    _, before = settle(line, "0.5.12", of)
    assert (before.full, before.stored) == (61 * 708, 61 * 788)
    _, after = settle(line, "0.5.18", of)
    assert (after.full, after.stored) == (61 * 788, 61 * 788)
    _, plain = settle(line, "0.5.12", of, B200)
    assert (plain.full, plain.stored) == (61 * 708, 61 * 708)


def test_pooled_index_keys() -> None:
    """GLM-5.3-Flash: one index key for four tokens is kept, and charged so from 0.5.22."""
    of = model([SPARSE._replace(index_ratio=4)] * 10)
    row = 576 * 2
    assert settle("", "0.5.21", of)[1][:2] == (10 * (row + 132), 10 * (row + 33))
    assert settle("", "0.5.22", of)[1][:2] == (10 * (row + 33), 10 * (row + 33))


@pytest.mark.parametrize(
    ("version", "line", "device", "key"),
    [
        ("0.5.20", "", H100, 256),
        ("0.5.20", "--kv-cache-dtype fp8_e4m3", H100, 256),
        ("0.5.21", "--kv-cache-dtype fp8_e4m3", H100, 128),
        ("0.5.21", "--kv-cache-dtype fp8_e5m2", H100, 256),
        ("0.5.21", "--kv-cache-dtype fp8_e4m3", B200, 128),
        ("0.5.21", "--kv-cache-dtype fp8_e4m3 --attention-backend fa4", B200, 256),
    ],
)
def test_index_keys_beside_keys_and_values(version: str, line: str, device: Accelerator, key: int) -> None:
    """MiniMax-M3: a key of 128 per token in its sparse layers, on every rank, in pages of 128 tokens."""
    dense, sparse = FullAttention(64, 4, 128, 128), FullAttention(64, 4, 128, 128, indexer_dim=128)
    config, per_token = settle(f"--tp-size 4 {line}", version, model([dense] * 3 + [sparse] * 57), device)
    size = 1 if "fp8" in line else 2
    assert per_token.full == per_token.stored == 60 * 2 * 128 * size + 57 * key
    assert config.block_size.value == 128


def test_compressed_index_keys() -> None:
    """Qwen3.8-Flash-Next on two ranks prints 97 slots, then 484,032 tokens for twice 2.77 GiB."""
    ngrams = RecurrentState("short_conv", (StateShape((10240, 9), -1, "conv", "model", 1),))
    delta = RecurrentState("gdn", (StateShape((3, 10240), 1, "conv", "model", 0), StateShape((48, 128, 128), 0, "ssm")))
    attention = FullAttention(24, 2, 256, 256, indexer_dim=128, index_ratio=4)
    of = model([delta] * 36 + [attention] * 12, architecture="Qwen4ExpForConditionalGeneration")
    of = replace(of, layers=(of.layers[0]._replace(state=ngrams), *of.layers[1:]))
    config, per_token = settle("--tp-size 2 --max-running-requests 6 --page-size 1", "0.5.20", of)
    assert config.block_size.value == 64
    assert per_token.full == 12 * (2 * 256 * 2 + 64)
    assert per_token.state == 36 * (24 * 128 * 128 * 4 + 3 * 5120 * 2)  # the n-grams' states are charged to nothing
    pools = solve(int(11.155 * GIB), per_token, config)
    assert pools.slots == 97
    assert pools.tokens == pytest.approx(484_032, rel=0.001)
    assert given(int(5.54 * GIB), per_token, config).tokens == pytest.approx(484_032, rel=0.001)
    assert settle("--qsa-indexer-dtype fp8_e4m3", "0.5.22", of)[1].full == 12 * (4 * 256 * 2 + 32)


def test_four_bits_have_scales() -> None:
    assert element_bytes(1024, "fp4_e2m1") == 512 + 64
    assert element_bytes(1024, "mxfp8") == 1024 + 32


GEMMA_31B = [SlidingWindow(32, 16, 256, 256, 1024)] * 50 + [FullAttention(32, 4, 512, 512)] * 10


@pytest.mark.parametrize(
    ("ratio", "full", "windows"),
    [(0.03, 167_877, 5_036), (0.0625, 134_302, 8_393), (0.1, 109_120, 10_912), (0.5, 36_373, 18_186)],
)
def test_window_pool_by_ratio(ratio: float, full: int, windows: int) -> None:
    """Gemma-4-31B on two RTX 3090, 0.5.12: pools of 8.33 GiB, printed to two decimals."""
    of = model(GEMMA_31B, "Gemma4ForConditionalGeneration")
    config, per_token = settle(f"--tp-size 2 --swa-full-tokens-ratio {ratio}", "0.5.12", of)
    found = solve(int(8.325 * GIB), per_token, config)
    assert found.tokens == pytest.approx(full, rel=0.001)
    assert found.window_tokens == pytest.approx(windows, rel=0.001)
    assert found.full_bytes + found.window_bytes == pytest.approx(8.325 * GIB, rel=0.001)


def test_early_window_pools_round_twice() -> None:
    of = model([FullAttention(8, 8, 128, 128), SlidingWindow(8, 8, 128, 128, 4096)] * 8, "Gemma3ForCausalLM")
    config, per_token = settle("", "0.4.10", of)
    budget = 10 * GIB + 12345
    whole = per_token.full + per_token.window
    expected = int(budget // whole * whole / (per_token.full + 0.8 * per_token.window))
    assert solve(budget, per_token, config).tokens == expected


def test_windows_with_heads_of_their_own_are_charged_twice_in_0_5_8() -> None:
    """MiMo-V2-Flash on four ranks prints 375,360 and 300,288 tokens (sgl-project/sglang, pull request 18039, which mends it)."""
    windows, full = SlidingWindow(64, 8, 192, 128, 128), FullAttention(64, 4, 192, 128)
    of = model([full] * 9 + [windows] * 39, "MiMoV2FlashForCausalLM")
    config, per_token = settle("--tp-size 4 --page-size 64", "0.5.8", of)
    assert (per_token.full, per_token.window) == (9 * 640, 39 * 1280)
    budget = int(23.611 * GIB)
    found = solve(budget, per_token, config)
    assert (found.tokens, found.window_tokens) == (375_360, 300_288)
    after, _ = settle("--tp-size 4 --page-size 64", "0.5.9", of)
    assert solve(budget, per_token, after).tokens == pytest.approx(budget / (9 * 640 + 0.8 * 39 * 1280), rel=0.001)


def test_window_pool_by_requests() -> None:
    """From 0.5.14, with the prefix cache off and the requests stated, the windows' pool is what those need."""
    of = model(GEMMA_31B, "Gemma4ForConditionalGeneration")
    line = "--disable-radix-cache --max-running-requests 16 --chunked-prefill-size 4096"
    config, per_token = settle(line, "0.5.16", of)
    found = solve(40 * GIB, per_token, config)
    assert found.window_tokens == 16 * (1024 + 128 + 1 + 1) + 2 * 4096 + 1
    assert found.tokens == (40 * GIB - found.window_tokens * per_token.window) // per_token.full


def test_given_pool_becomes_the_printed_tokens() -> None:
    """Qwen3-14B on four ranks prints 298,447 tokens for twice 5.69 GiB."""
    of = model([FullAttention(40, 8, 128, 128)] * 40)
    config, per_token = settle("--tp-size 4", "0.5.12", of)
    found = given(int(2 * 5.69 * GIB), per_token, config)
    assert found.tokens == pytest.approx(298_447, rel=0.001)


def test_pages_round_down() -> None:
    of = model([FullAttention(64, 8, 128, 128)] * 64)
    config, per_token = settle("--page-size 64 --tp-size 8", "0.5.12", of)
    assert solve(per_token.full * 1000, per_token, config).tokens == 960


def test_user_limit() -> None:
    of = model([FullAttention(64, 8, 128, 128)] * 64)
    config, per_token = settle("--max-total-tokens 5000", "0.5.12", of)
    assert solve(100 * GIB, per_token, config).tokens == 5000


def test_drafts_enlarge_the_pool_of_early_releases() -> None:
    """480 requests, 3 steps, top k 1 and 4 tokens are 3,460 tokens more (Qwen3-235B's log)."""
    of = model([FullAttention(64, 4, 128, 128)] * 94)
    line = (
        "--speculative-algorithm EAGLE3 --speculative-num-steps 3 --speculative-eagle-topk 1 "
        "--speculative-num-draft-tokens 4 --max-running-requests 480"
    )
    config, per_token = settle(line, "0.5.6", of)
    profiled = 30 * GIB // per_token.full
    assert solve(30 * GIB, per_token, config).tokens == profiled + 3460
    config, per_token = settle(line, "0.5.9", of)
    assert solve(30 * GIB, per_token, config).tokens == profiled


def test_draft_cache_is_charged_from_0_5_14() -> None:
    of = model([LATENT] * 61)
    line = "--speculative-algorithm EAGLE"
    assert settle(line, "0.5.13", of)[1].draft == 0
    assert settle(line, "0.5.14", of)[1].draft == 70_272 // 61


def test_draft_cache_beside_windows_is_charged_from_0_5_15() -> None:
    of = model(GEMMA_31B, "Gemma4ForConditionalGeneration")
    line = "--speculative-algorithm EAGLE --speculative-draft-model-path a/d"
    assert settle(line, "0.5.14", of)[1].draft == 0
    _, after = settle(line, "0.5.15", of)
    assert after.draft == after.full // 10


DELTA = RecurrentState(
    "gdn",
    (StateShape((3, 8192), 1, "conv", "model", 0), StateShape((32, 128, 128), 0, "ssm")),
)


def test_state_of_recurrent_layers() -> None:
    """Qwen3.5-9B on two ranks: 24 layers whose states take 12.56 MiB a slot in 16 bits."""
    of = model([DELTA] * 24 + [FullAttention(16, 4, 256, 256)] * 8)
    _, per_token = settle("--tp-size 2 --mamba-ssm-dtype bfloat16", "0.5.13", of)
    assert per_token.state == pytest.approx(12.5625 * MIB, rel=1e-6)
    assert per_token.full_layers == 8


@pytest.mark.parametrize(
    ("line", "version", "slots", "states"),
    [
        ("", "0.5.12", int(100 * 0.9 / 1.9), int(100 * 0.9 / 1.9)),
        ("--max-mamba-cache-size 10", "0.5.12", 10, 10),
        ("--disable-radix-cache --max-running-requests 8", "0.5.12", 8, 8),
        ("--disable-radix-cache --max-running-requests 8", "0.5.17", 8, 9),  # a padding slot
        ("", "0.5.2", 512, 512),
        ("--mamba-full-memory-ratio 0.25", "0.5.16", 20, 20),
    ],
)
def test_state_slots(line: str, version: str, slots: int, states: int) -> None:
    of = model([DELTA] * 24 + [FullAttention(16, 4, 256, 256)] * 8)
    config, per_token = settle(line, version, of)
    found = state_slots(100 * per_token.state, per_token.state, config)
    assert found == (slots, states * per_token.state)


@pytest.mark.parametrize(
    ("line", "version", "architecture", "each"),
    [
        ("", "0.5.13", "Qwen3NextForCausalLM", 3),
        ("--mamba-scheduler-strategy extra_buffer", "0.5.13", "Qwen3NextForCausalLM", 5),
        ("", "0.5.14", "Qwen3NextForCausalLM", 5),
        ("--disable-overlap-schedule", "0.5.14", "Qwen3NextForCausalLM", 3),
        ("--disable-overlap-schedule --page-size 64", "0.5.14", "Qwen3NextForCausalLM", 4),
        ("--linear-attn-backend cutedsl", "0.5.14", "Qwen3NextForCausalLM", 3),
        ("--mamba-radix-cache-strategy no_buffer", "0.5.20", "Qwen3NextForCausalLM", 3),
        ("--mamba-radix-cache-strategy extra_buffer_lazy", "0.5.20", "Qwen3NextForCausalLM", 4),
        ("--disable-radix-cache", "0.5.20", "Qwen3NextForCausalLM", 1),
        ("--disaggregation-mode decode", "0.5.20", "Qwen3NextForCausalLM", 1),
        (
            "--disaggregation-mode decode --disaggregation-decode-enable-radix-cache",
            "0.5.20",
            "Qwen3NextForCausalLM",
            5,
        ),
        ("", "0.5.20", "JetNemotronForCausalLM", 3),
        ("", "0.5.13", "KimiLinearForCausalLM", 1),
        ("", "0.5.15", "KimiLinearForCausalLM", 3),
        ("", "0.5.16", "KimiLinearForCausalLM", 5),
    ],
)
def test_state_slots_of_one_request(line: str, version: str, architecture: str, each: int) -> None:
    """Buffers for the prefix cache are the default from 0.5.14 for the architectures that have them."""
    of = replace(model([DELTA] * 24 + [FullAttention(16, 4, 256, 256)] * 8), architecture=architecture)
    config, _ = settle(line, version, of)
    assert config.slots_per_request == each
    assert config.async_scheduling.value == ("disable-overlap" not in line and each != 3)


def test_states_beside_attention() -> None:
    """Falcon-H1's layers have both: the same slots, and pages of one token before 0.5.14."""
    of = model([FullAttention(16, 4, 256, 256)] * 8, architecture="FalconH1ForCausalLM")
    of = replace(of, layers=tuple(layer._replace(state=DELTA) for layer in of.layers))
    before, per_token = settle("", "0.5.12", of, B200)
    assert (before.slots_per_request, before.block_size.value, per_token.state_layers) == (3, 1, 8)
    assert settle("", "0.5.14", of, B200)[0].slots_per_request == 5


def test_cache_of_block_drafts() -> None:
    """By layers of the target up to 0.5.17, with bytes of their own after; beside windows only after."""
    of = model([FullAttention(32, 8, 128, 128)] * 36)
    line = "--speculative-algorithm DFLASH --speculative-draft-model-path a/d"
    row = 36 * 8 * 256 * 2
    assert settle(line, "0.5.10", of)[1].draft == 0
    assert settle(line, "0.5.12", of)[1].draft == row * 5 // 36
    found = settle(f"{line} --tp-size 2", "0.5.18", of)[1]
    assert found.draft == 5 * 4 * 256 * 2
    assert found.notes
    config = settle(line, "0.5.18", of)[0]
    known = cells(of, config, range(36), model([FullAttention(32, 4, 64, 64)] * 8))
    assert known.draft == 8 * 4 * 128 * 2
    assert not known.notes
    windows = model(GEMMA_31B, "Gemma4ForCausalLM")
    assert settle(line, "0.5.17", windows)[1].draft == 0
    assert settle(line, "0.5.18", windows)[1].draft == 5 * 8 * 256 * 2


def test_states_of_drafts() -> None:
    """Every token of a verification keeps a state: apart from the slots from 0.5.7, solved with them from 0.5.13."""
    of = model([DELTA] * 24 + [FullAttention(16, 4, 256, 256)] * 8)
    line = "--speculative-algorithm EAGLE --speculative-num-draft-tokens 4 --max-running-requests 8"
    config, per_token = settle(line, "0.5.12", of)
    size = per_token.state
    assert state_slots(132 * size, size, config) == (int(100 * 0.9 / 1.9), (int(100 * 0.9 / 1.9) + 32) * size)
    config, _ = settle(line, "0.5.13", of)
    slots, used = state_slots(190 * size, size, config)
    assert slots == int(90 // (1 + 4 / 3))
    assert used == (slots + 8 * 4) * size


def test_running_requests() -> None:
    of = model([FullAttention(64, 8, 128, 128)] * 64)
    config, _ = settle("--context-length 8192", "0.5.12", of)
    assert requests(56_464, 0, config) == int(56_464 / 8192 * 512)  # Grok-2's log: 3529
    assert requests(1000, 0, config) == 500
    config, _ = settle("--max-running-requests 64 --tp-size 8 --dp-size 8 --enable-dp-attention", "0.5.12", of)
    assert requests(1 << 20, 0, config) == 8


def compressed_model(**changes: str) -> ModelArchitecture:
    """DeepSeek-V4-Flash: 43 layers, of which 21 compress by 4 and 20 by 128."""

    def layer(ratio: int) -> LatentAttention:
        return LatentAttention(64, 448, 64, 448, 512, 1024, 128 if ratio == 4 else 0, 128, ratio)

    found = model([layer(0), layer(0), *([layer(4), layer(128)] * 20), layer(4)], "DeepseekV4ForCausalLM")
    return replace(found, **changes)


def test_compressed_bytes_per_token() -> None:
    """A log of DeepSeek-V4-Flash-Base prints 15955.85 bytes per token, and 1,317,632 tokens for 19.58 GiB."""
    of = compressed_model()
    config, per_token = settle("--tp-size 8 --disable-radix-cache", "0.5.12", of)
    found = compressed_cells(of, config, range(of.num_layers), 256)
    assert found.full == pytest.approx(15955.85, abs=0.01)
    assert solve(int(19.582 * GIB), per_token, config, found).tokens == 1_317_632


def test_compressed_windows_by_ratio_where_a_number_of_requests_is_given() -> None:
    """The release sets the ratio of DeepSeek-V4 itself, so that it counts as stated; pages are padded from 0.5.21 on."""
    of = compressed_model()
    config, _ = settle("--tp-size 8 --max-running-requests 64", "0.5.23", of)
    later = compressed_cells(of, config, range(of.num_layers), 64)
    assert (later.ratio, later.window_tokens) == (0.1, 0)
    before = compressed_cells(of, settle("--tp-size 8", "0.5.20", of)[0], range(of.num_layers), 64)
    # A page of 256 rows of 584 bytes is padded to 585 each, one of 64 likewise, one of 2 to 864.
    padding = 0.1 * 43 * 1 + 21 / 4 * 1 + 20 / 128 * (864 - 584)
    assert later.full - before.full == pytest.approx(padding, abs=0.01)


def test_compressed_windows_by_requests() -> None:
    of = compressed_model(model_type="deepseek_v41")
    config, _ = settle("--tp-size 8 --max-running-requests 64", "0.5.23", of)
    found = compressed_cells(of, config, range(of.num_layers), 64)
    assert found.ratio == 0
    assert found.window_tokens % 256 == 0
    assert found.window_tokens > 64 * (128 + 256)


@settings(max_examples=60, deadline=None)
@inputs(
    st.integers(-(1 << 34), 1 << 40),
    st.sampled_from(["0.4.0", "0.4.10", "0.5.2", "0.5.6", "0.5.9", "0.5.13", "0.5.17", "0.5.23"]),
    st.sampled_from(
        ["", "--page-size 64", "--disable-radix-cache --max-running-requests 4", "--speculative-algorithm EAGLE"]
    ),
)
def test_pools_never_exceed_their_budget(budget: int, version: str, line: str) -> None:
    for layers, architecture in (
        ([FullAttention(32, 8, 128, 128)] * 4, "LlamaForCausalLM"),
        (GEMMA_31B, "Gemma4ForCausalLM"),
        ([LATENT] * 4, "DeepseekV3ForCausalLM"),
    ):
        of = model(list(layers), architecture)
        config, per_token = settle(line, version, of)
        found = solve(budget, per_token, config)
        assert found.tokens >= 0
        assert found.requests >= 0
        if config.version >= (0, 5, 7) and found.tokens:
            assert found.tokens * (per_token.full + per_token.draft) + found.window_bytes <= budget
