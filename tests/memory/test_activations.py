"""The peak of the profile run, against tensor sizes by hand and against what engines printed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.engines.config import EffectiveConfig
from planner.memory.activations import phases, profile_peak, sampler_kind
from planner.memory.vllm_budget import vllm_budget
from planner.record import replace
from planner.units import GIB
from tests.memory.starts import Start, start

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
MOE = "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8"


def peak(of: Start, **options: Any) -> tuple[float, float, float]:
    """(low, expected, high) in GiB."""
    low, expected, high, _ = profile_peak(*of, **options).bytes
    return low / GIB, expected / GIB, high / GIB


def test_forward_pass_by_hand() -> None:
    """Residual, input or output, gate and up, and their product: (2 × 4096 + 3 × 14336) × 2 B per token."""
    sizes = phases(*start(LLAMA, "RTX-3090", "0.17.1", "--max-num-batched-tokens 2048")[:2])
    assert sizes.forward == 2048 * 2 * (2 * 4096 + 3 * 14336)
    assert sizes.hidden == 2048 * 2 * 4096
    assert sizes.entries == 256 * 128256
    assert (sizes.experts, sizes.latent, sizes.encoder, sizes.encoded) == (0, 0, 0, 0)


def test_tensor_parallelism_divides_the_inner_width_and_adds_a_copy() -> None:
    one = phases(*start(LLAMA, "L4", "0.17.1")[:2])
    two = phases(*start(LLAMA, "L4", "0.17.1", "--tensor-parallel-size 2")[:2])
    assert one.forward - two.forward == 2048 * 2 * (3 * 14336 // 2 - 4096)
    assert two.entries == one.entries


@pytest.mark.parametrize(
    ("model", "gpu", "version", "flags", "printed"),
    [
        # public start-up logs: "GiB for peak activation" (see the overheads table of the reference facts)
        ("openai/gpt-oss-120b", "H100-80GB", "0.11.0", "--max-model-len 16000", 7.38),
        ("Qwen/Qwen2.5-7B-Instruct", "RTX-4060", "0.7.3", "--max-model-len 4096", 1.42),
        ("Qwen/Qwen2.5-3B", "A10G", "0.10.2", "--max-num-seqs 1 --max-model-len 4096", 0.17),
        ("Qwen/Qwen3-8B", "RTX-4090", "0.11.0", "--max-model-len 1024", 1.4),
    ],
)
def test_printed_peaks_lie_in_the_interval(model: str, gpu: str, version: str, flags: str, printed: float) -> None:
    low, expected, high = peak(start(model, gpu, version, flags))
    assert low <= printed <= high
    assert expected == pytest.approx(printed, rel=0.08)


def test_sampler_by_release() -> None:
    """PyTorch's sort up to 0.16, Triton from 0.17, FlashInfer from 0.21; runner V2 takes the greedy path until 0.33."""
    kinds = {
        v: sampler_kind(start(LLAMA, "H100-80GB", v).config) for v in ("0.16.0", "0.17.0", "0.21.0", "0.24.0", "0.33.0")
    }
    assert kinds == {
        "0.16.0": "torch",
        "0.17.0": "triton",
        "0.21.0": "flashinfer",
        "0.24.0": "greedy",
        "0.33.0": "flashinfer",
    }


def test_flashinfer_is_possible_where_the_image_has_it() -> None:
    older, newer = start(LLAMA, "H100-80GB", "0.11.0"), start(LLAMA, "H100-80GB", "0.11.1")
    assert peak(older)[1] == peak(newer)[1]
    assert peak(older)[0] < 0.5 * peak(newer)[0]


def test_only_the_last_stage_samples() -> None:
    of = start(LLAMA, "H100-80GB", "0.11.0", "--pipeline-parallel-size 2")
    assert peak(of, last_stage=False)[1] < 0.3 * peak(of)[1]


def test_pooling_models_do_not_sample() -> None:
    of = start(LLAMA, "L4", "0.11.0")
    assert phases(replace(of.model, pooling=True), of.config).entries == 0


def test_an_assumed_release_widens_the_interval_only() -> None:
    of = start(LLAMA, "H100-80GB", "0.33.0")
    stated, assumed, recent = peak(of), peak(of, since=(0, 6, 0)), peak(of, since=(0, 20, 0))
    assert assumed[1] == stated[1] == recent[1]
    assert assumed[0] == recent[0] < stated[0]
    assert stated[2] < recent[2] < 0.5 * assumed[2]  # torch's own sampler was the default before 0.17


def test_experts_work_space() -> None:
    """Both intermediate results of every routed copy: tokens × 8 × (4096 + 4096) × 2 B, in chunks up to 0.17."""
    of = start(
        MOE, "H100-80GB", "0.20.0", "--tensor-parallel-size 4 --enable-expert-parallel --max-num-batched-tokens 65536"
    )
    assert phases(of.model, of.config).experts == 65536 * 8 * (4096 + 4096) * 2
    chunked = start(MOE, "H100-80GB", "0.15.1", "--tensor-parallel-size 4 --max-num-batched-tokens 65536")
    assert phases(chunked.model, chunked.config).experts == 16384 * 8 * (4096 + 4096) * 2
    both = start(MOE, "H100-80GB", "0.20.0", "--data-parallel-size 2 --enable-expert-parallel")
    assert phases(both.model, both.config).experts == 2 * 8192 * 8 * (4096 + 4096) * 2


def test_latent_attention_simulates_an_up_projection() -> None:
    """65536 tokens × 16 local heads × (128 + 128) × 2 B = 0.5 GiB per rank of eight."""
    of = start("deepseek-ai/DeepSeek-V3", "H200", "0.11.0", "--tensor-parallel-size 8")
    assert phases(of.model, of.config).latent == 65536 * 16 * 256 * 2


def test_sparse_attention_shares_the_experts_buffer() -> None:
    """GLM-5.1, 65,536 tokens: 40 gathered keys of 132 B or 5 widened vectors of 576 × 2 B per token of the length; from 0.19 on
    512 MiB of scores."""
    flags = "--tensor-parallel-size 8 --max-model-len 65536 --kv-cache-dtype fp8"
    older = phases(*start("zai-org/GLM-5.1", "H200", "0.18.0", flags)[:2])
    assert older.sparse == max(40 * 65536 * 132, 5 * 65536 * 576 * 2)
    assert older.scores == 0
    newer = phases(*start("zai-org/GLM-5.1", "H200", "0.20.0", flags)[:2])
    assert newer.scores == 512 << 20
    assert (newer.latent, phases(*start("deepseek-ai/DeepSeek-V3", "H200", "0.20.0")[:2]).sparse) == (0, 0)


def test_compressed_attention_gathers_a_fourth() -> None:
    """DeepSeek-V4: four prefills of length / 4 + window + batch vectors of 512 × 2 B."""
    sizes = phases(*start("deepseek-ai/DeepSeek-V4-Flash", "H100-80GB", "0.31.0", "-tp 8 --max-model-len 262144")[:2])
    assert sizes.sparse == max(40 * 262144 // 4 * 132, 4 * (65536 + 128 + 8192) * 512 * 2)


def test_fused_experts_of_blackwell_keep_little() -> None:
    flags = "--tensor-parallel-size 8 --max-num-batched-tokens 32768"
    hopper = peak(start("deepseek-ai/DeepSeek-V3", "H200", "0.20.0", flags))
    blackwell = peak(start("deepseek-ai/DeepSeek-V3", "B200", "0.20.0", flags))
    assert blackwell[1] < 0.6 * hopper[1]


def test_encoder_counts_where_it_is_profiled() -> None:
    model, gpu = "Qwen/Qwen2.5-VL-7B-Instruct", "L40S"
    sizes = phases(*start(model, gpu, "0.17.1")[:2])
    assert sizes.encoder > GIB // 2
    assert phases(*start(model, gpu, "0.17.1", "--language-model-only")[:2]).encoder == 0
    assert phases(*start(model, gpu, "0.26.0")[:2]).encoder == 0  # runner V2 before 0.27


@settings(max_examples=30, deadline=None)
@given(tokens=st.integers(1, 1 << 20), rows=st.integers(1, 4096), more=st.integers(0, 4096))
def test_peak_grows_with_batch_and_sequences(tokens: int, rows: int, more: int) -> None:
    of = start(LLAMA, "H100-80GB", "0.17.1")
    sized = [
        of._replace(config=_sized(of, tokens, rows)),
        of._replace(config=_sized(of, tokens + more, rows)),
        of._replace(config=_sized(of, tokens + more, rows + more)),
    ]
    peaks = [peak(each) for each in sized]
    assert peaks == sorted(peaks)
    assert all(0 <= low <= expected <= high for low, expected, high in peaks)


def _sized(of: Start, tokens: int, rows: int) -> EffectiveConfig:
    batched, sequences = of.config.max_num_batched_tokens, of.config.max_num_seqs
    return replace(
        of.config, max_num_batched_tokens=replace(batched, value=tokens), max_num_seqs=replace(sequences, value=rows)
    )


def test_experts_and_attention_are_not_alive_at_once() -> None:
    """Two copies of the hidden state and the one-byte inputs of both stages of the experts stand beside their work space:
    of 65,536 tokens of Qwen3-235B on four H100s a public measurement gives 12.78 GiB with the fixed work space."""
    flags = "-tp 4 --enable-expert-parallel --max-num-seqs 128 --max-num-batched-tokens"
    of = start(MOE, "H100-80GB", "0.20.0", f"{flags} 65536")
    sizes = phases(*of[:2])
    assert sizes.routing == 65536 * (2 * 2 * 4096 + 4096 + 8 * 1536)
    assert sizes.experts == 65536 * 8 * 2 * (4096 + 4096)
    less = start(MOE, "H100-80GB", "0.20.0", f"{flags} 8192")
    assert peak(of)[1] - peak(less)[1] == pytest.approx(12.78 - 4.08, rel=0.06)


def test_residual_streams_of_hyper_connections() -> None:
    one = start("deepseek-ai/DeepSeek-V4-Flash", "H200", "0.31.0", "-tp 8")
    plain = replace(one.model, extra=tuple(pair for pair in one.model.extra if pair[0] != "streams"))
    more = phases(*one[:2]).routing - phases(plain, one.config).routing
    assert more == one.config.max_num_batched_tokens.value * 2 * 2 * 3 * one.model.hidden_size


def test_experts_that_read_a_narrower_space() -> None:
    """Kimi-K3 routes in 3,584 of its 7,168 dimensions. Two nodes of H200 print 0.82 GiB for the cache at 0.97 (August 2026)."""
    of = start("moonshotai/Kimi-K3", "H200", "0.27.1", "-tp 16 --max-model-len 29696 --gpu-memory-utilization 0.97")
    assert phases(*of[:2]).experts == 2 * 8192 * 16 * 2 * 3584
    available = vllm_budget(of.model, of.config, of.accelerator).ranks[0].bytes("kv_available")
    assert available.low < 0.82 * GIB < available.high
    assert available.expected == pytest.approx(0.82 * GIB, abs=1 * GIB)
