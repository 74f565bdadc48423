"""The jobs that every calculator was asked (reference on peers, section 2), against what engines measured."""

from __future__ import annotations

import pytest

from planner.memory.budget import MemoryBudget
from planner.memory.vllm_budget import vllm_budget
from planner.units import GIB
from tests.memory.starts import start

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
GPT_OSS = "openai/gpt-oss-120b"


def budget(model: str, gpu: str, release: str, flags: str = "") -> MemoryBudget:
    return vllm_budget(*start(model, gpu, release, flags))


def gib(of: MemoryBudget, name: str) -> float:
    return of.ranks[of.tightest].bytes(name).expected / GIB


def test_a_llama_on_an_l4() -> None:
    """0.11.0, share 0.92, 32,000 tokens, 128 sequences: weights 14.99, cache 4.75 GiB = 38,944 tokens, 1.22 requests."""
    job = budget(LLAMA, "L4", "0.11.0", "--gpu-memory-utilization 0.92 --max-model-len 32000 --max-num-seqs 128")
    assert gib(job, "weights") == pytest.approx(14.99, abs=0.01)
    assert gib(job, "kv_available") == pytest.approx(4.75, rel=0.05)
    assert job.capacity is not None
    assert job.capacity.kv_tokens.expected == pytest.approx(38944, rel=0.05)
    assert job.capacity.max_concurrency[1] == pytest.approx(1.22, rel=0.05)
    assert gib(job, "graphs") == pytest.approx(0.38, abs=0.25)
    assert job.verdict == "fits"


@pytest.mark.parametrize(("length", "starts"), [(20000, True), (29000, False), (35000, True)])
def test_a_shorter_length_may_fail_where_a_longer_one_starts(length: int, starts: bool) -> None:
    """vLLM 0.6 prefills whole prompts up to 32,768 tokens and in chunks beyond (vllm#10517, RTX 3090): 20,000 and 35,000 start,
    29,000 does not."""
    job = budget(LLAMA, "RTX-3090", "0.6.4.post1", f"--max-model-len {length}")
    assert job.capacity is not None
    assert (job.verdict == "fits") is starts
    assert (job.capacity.longest_request.expected >= length) is starts
    if length == 20000:
        assert gib(job, "kv_available") == pytest.approx(3.81, rel=0.05)
    if length == 29000:
        assert gib(job, "kv_available") == pytest.approx(2.89, rel=0.05)


def test_b_llama_70b_on_four_h100() -> None:
    """0.90 of 79.11 GiB: weights 32.89, cache 33.9 to 35.1 GiB on the four ranks (dynamo#1655, a V0 worker)."""
    job = budget("meta-llama/Llama-3.3-70B-Instruct", "H100-80GB", "0.7.3", "-tp 4")
    assert gib(job, "weights") == pytest.approx(32.89, rel=0.01)
    assert gib(job, "kv_available") == pytest.approx(34.5, rel=0.05)
    low, _, high, _ = job.ranks[0].bytes("non_torch")
    assert low <= 1.67 * GIB
    assert high >= 2.92 * GIB


def test_c_latent_cache_is_the_same_on_every_rank() -> None:
    """70,272 bytes per token in 16 bits, whatever the ranks; FP8 weights make no FP8 cache."""
    for ranks in (8, 16):
        job = budget("deepseek-ai/DeepSeek-V3", "H200", "0.11.0", f"-tp {ranks}")
        assert {rank.kv.bytes_per_token for rank in job.ranks if rank.kv} == {70272}


@pytest.mark.parametrize(
    ("release", "flags", "starts"),
    [
        ("0.10.1", "", False),  # −2.14 GiB
        ("0.11.0", "", False),
        ("0.22.1", "", True),
        ("0.33.0", "", True),  # 5.38 GiB with a build of 2026
    ],
)
def test_d_gpt_oss_120b_on_one_h100(release: str, flags: str, starts: bool) -> None:
    job = budget(GPT_OSS, "H100-80GB", release, flags)
    assert (gib(job, "kv_available") > 0) is starts
    if not starts:
        assert gib(job, "kv_available") == pytest.approx(-2.14, abs=0.5)
    if release == "0.33.0":
        assert gib(job, "kv_available") == pytest.approx(5.38, abs=2)


def test_d_loaded_weights_are_more_than_the_files() -> None:
    assert 64.4 <= gib(budget(GPT_OSS, "H100-80GB", "0.11.0"), "weights") <= 66.0


def test_published_worked_examples() -> None:
    """327,680 bytes per token and 42,724 slots in 14 GB (Llama-3.1-70B), 524,288 bytes (Llama-2-7B), 67.65 GB for 131,072
    tokens (405B), 131,072 bytes (32 layers × 8 heads × 128)."""

    def per_token(model: str, flags: str = "") -> float:
        plan = budget(model, "H200", "0.11.0", flags).ranks[0].kv
        assert plan is not None
        return plan.bytes_per_token

    assert per_token("meta-llama/Llama-3.1-70B-Instruct") == 327_680
    assert 14 * 10**9 // 327_680 == 42_724
    assert per_token("meta-llama/Llama-2-7b-chat-hf") == 524_288
    assert per_token("meta-llama/Llama-3.1-405B-Instruct") * 131_072 == pytest.approx(67.65e9, rel=1e-3)
    assert per_token(LLAMA) == 131_072
