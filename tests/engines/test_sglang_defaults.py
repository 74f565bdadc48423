"""EngineConfig → SGLangConfig: defaults by release, device and model, against the reference's worked values."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.accelerators.accelerator import Accelerator
from planner.engines.sglang import parse_argv
from planner.engines.sglang_config import SGLangConfig
from planner.engines.sglang_defaults import attention_data_size, derived_length, effective, expert_size, parallelism
from planner.engines.sglang_fraction import default_chunk, default_graph_max, multimodal_factor
from planner.engines.sglang_graphs import decode_sizes, prefill_sizes
from planner.engines.version import parse_version
from planner.estimate import exactly
from planner.models.architecture import (
    Format,
    FullAttention,
    LatentAttention,
    Layer,
    ModelArchitecture,
    SlidingWindow,
    Tower,
)
from planner.provenance import from_default
from planner.units import MIB

FULL = FullAttention(32, 8, 128, 128)
LATENT = LatentAttention(128, 512, 64, 128, 128)
SPARSE = LatentAttention(128, 512, 64, 128, 128, indexer_dim=128)

CARDS = {
    "L4": (23034, (8, 9)),
    "RTX-4090": (24564, (8, 9)),
    "RTX-5090": (32607, (12, 0)),
    "A100-40GB": (40960, (8, 0)),
    "L40S": (46068, (8, 9)),
    "H100": (81559, (9, 0)),
    "RTX-PRO-6000": (97887, (12, 0)),
    "H200": (143771, (9, 0)),
    "B200": (183359, (10, 0)),
}


def card(name: str, vendor: str = "nvidia") -> Accelerator:
    mib, capability = CARDS[name]
    return Accelerator(name, vendor, exactly(mib * MIB), capability, "", smi_mib=(mib,))


def model(*attentions: Any, **changes: Any) -> ModelArchitecture:
    values: dict[str, Any] = {
        "id": "org/model",
        "architecture": "LlamaForCausalLM",
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_size": 4096,
        "vocab_size": 128256,
        "layers": tuple(Layer(attention, ()) for attention in attentions or (FULL,) * 32),
        "embedding": None,
        "head": None,
        "tied_embeddings": False,
        "formats": {"model": Format("model")},
        "derived_max_len": 8192,
        "heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
    }
    return ModelArchitecture(**{**values, **changes})


def settle(line: str, version: str, device: str | None = "H100", of: ModelArchitecture | None = None) -> SGLangConfig:
    config = parse_argv(shlex.split(f"--model a/b {line}"), version=from_default(version, "test"))
    return effective(config, of or model(), card(device) if device else None)


# The reference's table of worked defaults (dense, no speculation, no DP attention): card, release → tp1, tp8.
WORKED = {
    "0.4.5": dict.fromkeys(CARDS, (0.88, 0.81)),
    "0.4.6": {
        **dict.fromkeys(("L4", "RTX-4090", "RTX-5090", "A100-40GB", "L40S", "H100"), (0.88, 0.81)),
        "RTX-PRO-6000": (0.864, 0.864),
        "H200": (0.907, 0.907),
        "B200": (0.927, 0.927),
    },
    "0.5.2": {
        "L4": (0.871, 0.840),
        "RTX-4090": (0.879, 0.850),
        "RTX-5090": (0.909, 0.887),
        "A100-40GB": (0.750, 0.662),
        "L40S": (0.778, 0.700),
        "H100": (0.874, 0.831),
        "RTX-PRO-6000": (0.869, 0.833),
        "H200": (0.911, 0.886),
        "B200": (0.821, 0.821),
    },
    "0.5.6": {
        "L4": (0.837, 0.793),
        "RTX-4090": (0.847, 0.806),
        "RTX-5090": (0.885, 0.854),
        "A100-40GB": (0.833, 0.805),
        "L40S": (0.851, 0.826),
        "H100": (0.835, 0.818),
        "RTX-PRO-6000": (0.863, 0.848),
        "H200": (0.907, 0.897),
        "B200": (0.857, 0.852),
    },
    "0.5.12": {
        "L4": (0.822, 0.778),
        "RTX-4090": (0.833, 0.792),
        "RTX-5090": (0.874, 0.843),
        "A100-40GB": (0.823, 0.795),
        "L40S": (0.843, 0.818),
        "H100": (0.830, 0.812),
        "RTX-PRO-6000": (0.858, 0.844),
        "H200": (0.903, 0.893),
        "B200": (0.854, 0.849),
    },
    "0.5.23": {
        "L4": (0.684, 0.635),
        "RTX-4090": (0.704, 0.658),
        "RTX-5090": (0.777, 0.742),
        "A100-40GB": (0.823, 0.795),
        "L40S": (0.843, 0.818),
        "H100": (0.830, 0.812),
        "RTX-PRO-6000": (0.858, 0.844),
        "H200": (0.903, 0.893),
        "B200": (0.854, 0.849),
    },
}


@pytest.mark.parametrize("version", list(WORKED))
def test_default_fraction(version: str) -> None:
    for name, (one, eight) in WORKED[version].items():
        for tensor, expected in ((1, one), (8, eight)):
            found = settle(f"--tp-size {tensor}", version, name).gpu_memory_utilization
            assert found.value == pytest.approx(expected, abs=0.0006), (name, tensor, found.provenance.text)
            assert found.provenance.source == "engine-default"


@pytest.mark.parametrize(
    ("device", "line", "expected"),
    [
        ("H100", "--tp-size 8", 0.799),
        ("H200", "--tp-size 8", 0.886),
        ("H200", "--tp-size 8 --dp-size 8 --enable-dp-attention", 0.758),
        ("B200", "--tp-size 8 --dp-size 8 --enable-dp-attention", 0.743),
    ],
)
def test_default_fraction_of_latent_attention(device: str, line: str, expected: float) -> None:
    found = settle(line, "0.5.23", device, model(*(LATENT,) * 61))
    assert found.gpu_memory_utilization.value == pytest.approx(expected, abs=0.0006)


def test_fraction_that_is_given_stays() -> None:
    found = settle("--mem-fraction-static 0.7", "0.5.12").gpu_memory_utilization
    assert (found.value, found.provenance.source) == (0.7, "option")


def test_aiter_takes_a_part_of_any_fraction() -> None:
    config = parse_argv(
        shlex.split("--model a/b --mem-fraction-static 0.8"), version=from_default("0.5.12", "test"), platform="rocm"
    )
    device = Accelerator("MI300X", "amd", exactly(192 * 1024 * MIB), None, "gfx942")
    long, short = model(derived_max_len=131072), model(derived_max_len=8192)
    assert effective(config, long, device).gpu_memory_utilization.value == pytest.approx(0.68)
    assert effective(config, short, device).gpu_memory_utilization.value == 0.8


def test_vision_towers_lower_the_default() -> None:
    tower = Tower("vision tower", (), layers=27, hidden=1152)
    plain = settle("", "0.5.9", "H100").gpu_memory_utilization.value
    seeing = settle("", "0.5.9", "H100", model(towers=(tower,), multimodal=True)).gpu_memory_utilization.value
    assert seeing == pytest.approx(plain * multimodal_factor((0, 5, 9), 27, 1152))
    given = settle("--mem-fraction-static 0.8", "0.5.9", "H100", model(towers=(tower,), multimodal=True))
    assert given.gpu_memory_utilization.value == 0.8


def test_unknown_device_is_an_assumption() -> None:
    found = settle("", "0.5.12", None).gpu_memory_utilization
    assert (found.value, found.provenance.source) == (0.88, "assumption")


@pytest.mark.parametrize(
    ("version", "mib", "tensor", "chunk", "graphs"),
    [
        ("0.4.3", 23034, 1, 2048, 8),
        ("0.4.3", 23034, 4, 2048, 80),
        ("0.4.10", 81559, 8, 8192, 160),
        ("0.4.10", 183359, 8, 16384, 512),
        ("0.5.3", 23034, 1, 2048, 16),
        ("0.5.12", 23034, 1, 2048, 24),
        ("0.5.23", 23034, 1, 4096, 48),
        ("0.5.23", 46068, 4, 4096, 160),
        ("0.5.23", 143771, 1, 8192, 256),
        ("0.5.23", 183359, 1, 16384, 512),
    ],
)
def test_chunk_and_graphs_by_device(version: str, mib: int, tensor: int, chunk: int, graphs: int) -> None:
    key = parse_version(version)
    assert default_chunk(key, mib) == chunk
    assert default_graph_max(key, mib, tensor) == graphs


def test_numbers_of_graphs() -> None:
    """Counts that public logs print."""
    assert len(decode_sizes((0, 5, 12), 256, speculation=False)) == 36
    assert len(decode_sizes((0, 5, 12), 512, speculation=False)) == 52
    assert len(decode_sizes((0, 4, 6), 160, speculation=False)) == 23
    assert len(decode_sizes((0, 4, 6), 256, speculation=False)) == 35
    assert [len(prefill_sizes(size)) for size in (2048, 4096, 8192, 16384)] == [42, 50, 58, 74]


def test_attention_data_divides_the_chunk_after_the_fraction() -> None:
    plain = settle("--tp-size 8", "0.5.12", "H200")
    split = settle("--tp-size 8 --dp-size 8 --enable-dp-attention", "0.5.12", "H200")
    assert plain.max_num_batched_tokens.value == 8192
    assert split.max_num_batched_tokens.value == 1024
    assert split.parallel.data == 1
    assert split.attention_data == 8


@pytest.mark.parametrize(
    ("line", "version", "data", "copies", "experts"),
    [
        ("--tp-size 8", "0.5.12", 1, 1, 1),
        ("--dp-size 4", "0.5.12", 1, 4, 1),
        ("--tp-size 8 --dp-size 4 --enable-dp-attention --ep-size 8", "0.5.12", 4, 1, 8),
        ("--tp-size 8 --attn-dp-size 2", "0.5.23", 2, 1, 1),
        ("--tp-size 8 --enable-ep-moe", "0.4.6", 1, 1, 8),
        ("--tp-size 8 --moe-a2a-backend deepep", "0.5.12", 1, 1, 8),
        ("--tp-size 8 --moe-a2a-backend pplx", "0.5.18", 1, 1, 8),
        ("--tp-size 8 --moe-a2a-backend flashinfer_megamoe", "0.5.23", 1, 1, 8),
        ("--tp-size 2 --ep-size 8", "0.5.12", 1, 1, 2),
    ],
)
def test_parallel_sizes(line: str, version: str, data: int, copies: int, experts: int) -> None:
    config = parse_argv(shlex.split(f"--model a/b {line}"), version=from_default(version, "test"))
    assert attention_data_size(config) == data
    assert parallelism(config).data == copies
    assert expert_size(config) == experts


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"derived_max_len": 32768}, 32768),
        ({"derived_max_len": 0}, 2048),
        ({"derived_max_len": 4096, "rope_type": "linear", "rope_factor": 4.0}, 16384),
        ({"derived_max_len": 131072, "rope_type": "llama3", "rope_factor": 8.0}, 131072),
        ({"derived_max_len": 131072, "rope_type": "yarn", "rope_factor": 4.0, "original_max_len": 32768}, 131072),
    ],
)
def test_context_length(changes: dict[str, Any], expected: int) -> None:
    assert derived_length(model(**changes))[0] == expected


def test_cache_dtype() -> None:
    assert settle("--kv-cache-dtype fp8_e5m2", "0.5.12").kv_cache_dtype.value == "fp8_e5m2"
    assert settle("", "0.5.12").kv_cache_dtype.value == "bfloat16"
    sparse = model(*(SPARSE,) * 4)
    assert settle("", "0.5.12", "H200", sparse).kv_cache_dtype.value == "bfloat16"
    assert settle("", "0.5.12", "B200", sparse).kv_cache_dtype.value == "fp8_e4m3"
    asks = model(kv_cache_dtype_hint="fp8", quantization="modelopt")
    assert settle("", "0.5.12", "H100", asks).kv_cache_dtype.value == "fp8_e4m3"
    assert settle("", "0.5.2", "H100", asks).kv_cache_dtype.value == "bfloat16"


@pytest.mark.parametrize(
    ("architecture", "version", "line", "expected"),
    [
        ("Gemma4ForCausalLM", "0.5.12", "", True),
        ("Gemma4ForCausalLM", "0.5.12", "--disable-hybrid-swa-memory", False),
        ("Gemma3ForCausalLM", "0.5.12", "", False),
        ("Gemma3ForCausalLM", "0.4.10", "", True),
        ("GptOssForCausalLM", "0.5.6", "", False),
        ("GptOssForCausalLM", "0.5.8", "", True),
    ],
)
def test_which_windows_have_a_pool(architecture: str, version: str, line: str, expected: bool) -> None:
    of = model(FULL, SlidingWindow(32, 8, 128, 128, 1024), architecture=architecture)
    assert settle(line, version, "H100", of).window_pool is expected


def test_speculation_limits_requests() -> None:
    found = settle(
        "--speculative-algorithm EAGLE3 --speculative-num-steps 3 --speculative-num-draft-tokens 4", "0.5.12"
    )
    assert found.requests_given == 48
    assert (found.draft_steps, found.draft_topk, found.draft_tokens) == (3, 1, 4)


def test_prefill_graphs_beside_context_parallelism() -> None:
    """Splitting the prompt switches them off in every release that has them, splitting the cache from 0.5.16."""

    def captured(flags: str, version: str) -> bool:
        return bool(settle(f"--tp-size 4 {flags}", version).prefill_graph_sizes)

    versions = ("0.5.15", "0.5.16", "0.5.23")
    assert [captured("", version) for version in versions] == [True, True, True]
    assert [captured("--dcp-size 2", version) for version in versions] == [True, False, False]
    assert [captured("--attn-cp-size 2", version) for version in versions] == [False, False, False]


def test_page_size() -> None:
    assert settle("--attention-backend flashmla --page-size 1", "0.5.12").block_size.value == 64  # type: ignore[union-attr]
    assert settle("--page-size 16", "0.5.12").block_size.value == 16  # type: ignore[union-attr]
    assert settle("", "0.5.12").block_size.value == 1  # type: ignore[union-attr]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "--tp-size",
                    "--dp-size",
                    "--chunked-prefill-size",
                    "--cuda-graph-max-bs",
                    "--cuda-graph-bs",
                    "--mem-fraction-static",
                    "--page-size",
                    "--context-length",
                    "--speculative-algorithm",
                    "--speculative-num-steps",
                    "--max-running-requests",
                    "--max-mamba-cache-size",
                    "--swa-full-tokens-ratio",
                    "--ep-num-redundant-experts",
                ]
            ),
            st.sampled_from(["0", "-1", "1", "7", "99999999999", "0.5", "nan", "EAGLE", "", "1e9"]),
        ),
        max_size=8,
    ),
    st.sampled_from(["0.4.0", "0.4.7", "0.5.2", "0.5.12", "0.5.23"]),
)
def test_never_raises(pairs: list[tuple[str, str]], version: str) -> None:
    words = ["--model", "a/b", *(word for pair in pairs for word in pair)]
    config = parse_argv(words, version=from_default(version, "test"))
    effective(config, model(), card("H100"))
