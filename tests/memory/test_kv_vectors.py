"""Plans reproduced by executing vLLM 0.32.0's planning code on hand-made layers, and published worked examples."""

from __future__ import annotations

from typing import Any

import pytest

from planner.engines.config import Parallelism
from planner.memory.budget import KVPlan
from planner.memory.kv_cache import LayoutRefused, admits, blocks_per_request, kv_plan, num_blocks, report
from planner.models.architecture import (
    Attention,
    FullAttention,
    LatentAttention,
    Layer,
    ModelArchitecture,
    RecurrentState,
    SlidingWindow,
    StateShape,
)
from tests.memory.kv_rows import engine_config

GIB = 1 << 30
V32 = (0, 32, 0)


def model_of(*kinds: tuple[int, Attention], mtp: tuple[Attention, ...] = (), **facts: Any) -> ModelArchitecture:
    """A model of ``count`` layers of each kind, in this order."""
    layers = tuple(layer for count, kind in kinds for layer in [Layer(kind, ())] * count)
    return ModelArchitecture(
        "test", "Test", "test", "bfloat16", 1, 1, layers, None, None, False, {},
        mtp_layers=tuple(Layer(kind, ()) for kind in mtp), **facts,
    )  # fmt: skip


LLAMA_8B = model_of((32, FullAttention(32, 8, 128, 128)))
LLAMA_70B = model_of((80, FullAttention(64, 8, 128, 128)))
QWEN3_8B = model_of((36, FullAttention(32, 8, 128, 128)))
GEMMA3_27B = model_of((52, SlidingWindow(32, 16, 128, 128, 1024)), (10, FullAttention(32, 16, 128, 128)))
GPT_OSS_120B = model_of((18, SlidingWindow(64, 8, 64, 64, 128)), (18, FullAttention(64, 8, 64, 64)))
GPT_OSS_20B = model_of((12, SlidingWindow(64, 8, 64, 64, 128)), (12, FullAttention(64, 8, 64, 64)))
DEEPSEEK_V3 = model_of((61, LatentAttention(128, 512, 64, 128, 128, 1536)))
DEEPSEEK_V32 = model_of((61, LatentAttention(128, 512, 64, 128, 128, 1536, 128)))


def state_model(ssm: str) -> ModelArchitecture:
    """Twelve times three gated-delta layers and one full-attention layer, as Qwen3-Next has them."""
    conv = StateShape((3, 8192), 1, "conv", lookahead_dim=0)
    state = RecurrentState("gdn", (conv, StateShape((32, 128, 128), 0, "ssm", ssm)))
    return model_of((36, state), (12, FullAttention(16, 2, 256, 256)))


VECTORS: list[tuple[Any, ...]] = [
    # model, settings, available, max length, bytes per block, blocks, concurrency, tokens
    (LLAMA_8B, {}, 53 * GIB, 131072, 2097152, 27136, 3.312, 434176),
    (LLAMA_8B, {}, 53 * GIB, 8192, 2097152, 27136, 53.0, 434176),
    (LLAMA_70B, {"parallel": Parallelism(tensor=8)}, 40 * GIB, 131072, 655360, 65536, 8.0, 1048576),
    (QWEN3_8B, {"kv_cache_dtype": "fp8"}, 10 * GIB, 40960, 1179648, 9102, 3.555, 145632),
    (GEMMA3_27B, {}, 20 * GIB, 131072, 1310720, 16384, 1.113, 145829),
    (GEMMA3_27B, {"async_scheduling": False}, 20 * GIB, 131072, 1310720, 16384, 1.406, 184270),
    (GEMMA3_27B, {"max_num_batched_tokens": 2048}, 20 * GIB, 131072, 1310720, 16384, 1.619, 212243),
    (GEMMA3_27B, {"hybrid_kv_cache_manager": False}, 20 * GIB, 131072, 8126464, 2642, 0.323, None),
    (GPT_OSS_120B, {}, 10 * GIB, 131072, 589824, 18204, 1.973, 258648),
    (DEEPSEEK_V3, {"block_size": 64}, 30 * GIB, 131072, 4497408, 7162, 3.497, 458368),
    (DEEPSEEK_V32, {"kv_cache_dtype": "fp8_ds_mla"}, 30 * GIB, 131072, 3076352, 10470, 5.112, 670080),
]


@pytest.mark.parametrize(
    ("model", "settings", "available", "length", "bytes_per_block", "blocks", "concurrency", "tokens"), VECTORS
)
def test_reproduced_plan(
    model: ModelArchitecture,
    settings: dict[str, Any],
    available: int,
    length: int,
    bytes_per_block: int,
    blocks: int,
    concurrency: float,
    tokens: int | None,
) -> None:
    config = engine_config(max_model_len=length, **settings)
    plan = kv_plan(model, config, 0, (9, 0))
    assert plan.bytes_per_block == bytes_per_block
    count = num_blocks(plan, available, V32)
    assert count == blocks
    logged, requests = report(plan, count, config)
    assert requests == pytest.approx(concurrency, abs=6e-4)
    if tokens is not None:
        assert logged == tokens
    assert admits(plan, available, V32) == (concurrency > 1)


@pytest.mark.parametrize(
    ("ssm", "block", "page", "blocks", "per_request", "concurrency"),
    [("model", 544, 1114112, 3212, 241 + 9, 12.848), ("float32", 1056, 2162688, 1654, 125 + 9, 12.343)],
)
def test_state_and_attention_share_pages(
    ssm: str, block: int, page: int, blocks: int, per_request: int, concurrency: float
) -> None:
    """The vectors were made with one prefill checkpoint per state group, which GDN layers do not have in 0.32."""
    config = engine_config(max_model_len=131072, mamba_cache_mode="align")
    plan = kv_plan(state_model(ssm), config, 0, (9, 0))
    assert (plan.block_size, plan.page_bytes, plan.bytes_per_block) == (block, page, 12 * page)
    assert num_blocks(plan, 40 * GIB, V32) == blocks
    states = [group for group in plan.groups if group.kind == "state"]
    assert [group.blocks_per_request for group in states] == [2, 2, 2]
    assert plan.blocks_per_request + len(states) == per_request
    assert blocks / per_request == pytest.approx(concurrency, abs=6e-4)


def test_a_draft_layer_widens_the_groups() -> None:
    """gpt-oss-20b with EAGLE: 13 full layers make 12 window layers carry one padding layer."""
    config = engine_config(max_model_len=131072, speculative_method="eagle3", speculative_tokens=3)
    draft = model_of((1, FullAttention(64, 8, 64, 64)))
    plan = kv_plan(GPT_OSS_20B, config, 0, (9, 0), draft=draft)
    assert plan.bytes_per_block == 425984
    assert num_blocks(plan, 10 * GIB, V32) == 25206
    assert report(plan, 25206, config) == (358135, pytest.approx(2.732, abs=6e-4))
    assert sorted(group.padding_layers for group in plan.groups) == [0, 1]
    unknown = kv_plan(GPT_OSS_20B, config, 0, (9, 0))
    assert unknown.bytes_per_block == 393216
    assert "draft model is not known" in unknown.notes[0]


def test_the_groups_of_gemma_3() -> None:
    plan = kv_plan(GEMMA3_27B, engine_config(max_model_len=131072), 0, (9, 0))
    assert sorted(group.layers for group in plan.groups) == [8, 8, 9, 9, 9, 9, 10]
    assert blocks_per_request(plan, 131072) == 14726


def test_the_null_block_is_not_for_requests() -> None:
    """0.32 refuses 16 GiB for a request of exactly 16 GiB; 0.28 starts."""
    plan = kv_plan(LLAMA_8B, engine_config(max_model_len=131072), 0, (9, 0))
    assert plan.blocks_per_request * plan.bytes_per_block == 16 * GIB
    assert not admits(plan, 16 * GIB, V32)
    assert admits(plan, 16 * GIB + plan.bytes_per_block, V32)
    assert admits(plan, 16 * GIB, (0, 28, 0))


@pytest.mark.parametrize(
    ("model", "bytes_per_token"),
    [
        (LLAMA_70B, 327_680),
        (model_of((32, FullAttention(32, 32, 128, 128))), 524_288),  # Llama-2-7B
        (model_of((32, FullAttention(32, 8, 128, 128))), 131_072),
        (model_of((126, FullAttention(128, 8, 128, 128))), 516_096),  # Llama-3.1-405B
    ],
)
def test_published_bytes_per_token(model: ModelArchitecture, bytes_per_token: int) -> None:
    plan = kv_plan(model, engine_config(), 0, (9, 0))
    assert plan.bytes_per_token == bytes_per_token
    assert plan.bytes_per_block == 16 * bytes_per_token


def test_published_slots_and_sizes() -> None:
    seventy = kv_plan(LLAMA_70B, engine_config(), 0, (9, 0))
    assert int(14e9 // seventy.bytes_per_token) == 42_724
    assert num_blocks(seventy, int(14e9), V32) * seventy.block_size == 42_720  # whole blocks only
    largest = kv_plan(model_of((126, FullAttention(128, 8, 128, 128))), engine_config(max_model_len=131072), 0, (9, 0))
    assert largest.blocks_per_request * largest.bytes_per_block == 67_645_734_912  # 67.65 GB


def _logged(plan: KVPlan, blocks: int, version: tuple[int, ...], **settings: Any) -> tuple[int, float]:
    return report(plan, blocks, engine_config(version=version, **settings))


def test_three_generations_of_the_log_line() -> None:
    """gpt-oss-20b, 0.19.1 and 0.24.0 as logged: the older line divides the blocks over the groups."""
    settings: dict[str, Any] = {"max_model_len": 16384}
    plans = {
        version: kv_plan(GPT_OSS_20B, engine_config(version=version, **settings), 0, (9, 0))
        for version in [(0, 8, 5), (0, 19, 1), (0, 24, 0), (0, 32, 0)]
    }
    early = plans[(0, 8, 5)]
    assert len(early.groups) == 1
    assert _logged(early, 1000, (0, 8, 5), **settings) == (16000, 16000 / 16384)
    assert _logged(plans[(0, 19, 1)], 1001, (0, 19, 1), **settings)[0] == 500 * 16
    tokens, requests = _logged(plans[(0, 24, 0)], 1000, (0, 24, 0), **settings)
    assert tokens == int(requests * 16384)
    assert requests == 1000 / (1024 + 521)
    assert _logged(plans[(0, 32, 0)], 1000, (0, 32, 0), **settings)[1] == 1000 / (1024 + 1025)


def test_the_first_engine_keeps_every_token() -> None:
    settings: dict[str, Any] = {"version": (0, 6, 3), "runner": "v0", "max_model_len": 8192}
    plan = kv_plan(GEMMA3_27B, engine_config(**settings), 0, (8, 0))
    assert plan.bytes_per_block == 62 * 16 * 16 * 256 * 2
    assert blocks_per_request(plan, 8192) == 512
    assert report(plan, 1000, engine_config(**settings)) == (16000, 16000 / 8192)
    expanded = kv_plan(DEEPSEEK_V3, engine_config(parallel=Parallelism(tensor=8), **settings), 0, (8, 0))
    assert expanded.bytes_per_block == 61 * 16 * 16 * 512 * 2
    latent = kv_plan(DEEPSEEK_V3, engine_config(version=(0, 7, 3), runner="v0"), 0, (8, 0))
    assert latent.bytes_per_block == 61 * 16 * 576 * 2


def test_group_sizes_by_version() -> None:
    """13 and 10 layers: the commoner kind sets the size only where it is under 1.5 (before 0.18: 1.25) of the rarer."""
    model = model_of((13, SlidingWindow(8, 8, 64, 64, 128)), (10, FullAttention(8, 8, 64, 64)))
    widths = {
        version: sorted(g.layers for g in kv_plan(model, engine_config(version=version), 0, (9, 0)).groups)
        for version in [(0, 11, 0), (0, 12, 0), (0, 19, 1)]
    }
    assert widths == {(0, 11, 0): [6, 7, 10], (0, 12, 0): [6, 7, 10], (0, 19, 1): [10, 13]}


def test_unequal_heads_share_a_page() -> None:
    """Gemma-4: 8 × 256 in windows and 2 × 512 in full attention: the full layers' blocks are twice as long."""
    kinds = [(25, SlidingWindow(16, 8, 256, 256, 1024)), (5, FullAttention(16, 2, 512, 512))]
    plan = kv_plan(model_of(*kinds), engine_config(), 0, (9, 0))
    assert {(group.kind, group.block_size, group.page_bytes) for group in plan.groups} == {
        ("window", 16, 131072),
        ("full", 32, 131072),
    }
    off = kv_plan(model_of(*kinds), engine_config(hybrid_kv_cache_manager=False), 0, (9, 0))
    assert off.bytes_per_block == 3604480


def test_pages_that_do_not_divide_are_padded_or_refused() -> None:
    model = model_of((2, SlidingWindow(8, 3, 64, 64, 128)), (2, FullAttention(8, 4, 64, 64)))
    assert kv_plan(model, engine_config(), 0, (9, 0)).page_bytes == 16 * 4 * 256
    with pytest.raises(LayoutRefused, match="cannot be made equal"):
        kv_plan(model, engine_config(version=(0, 20, 2)), 0, (9, 0))


def test_pipeline_stages_count_their_own_layers() -> None:
    config = engine_config(parallel=Parallelism(pipeline=2), max_model_len=16384)
    stages = [kv_plan(DEEPSEEK_V3, config, rank, (9, 0), part) for rank, part in enumerate([range(31), range(31, 61)])]
    assert [plan.bytes_per_block for plan in stages] == [571392, 552960]
    assert stages[0].blocks_per_request == stages[1].blocks_per_request


def test_multi_token_prediction_layers_stand_on_the_last_stage() -> None:
    latent = DEEPSEEK_V3.layers[0].attention
    model = model_of((60, latent), mtp=(latent,))
    settings: dict[str, Any] = {"parallel": Parallelism(pipeline=2), "speculative_tokens": 1}
    plain = [kv_plan(model, engine_config(**settings), r, (9, 0), range(30 * r, 30 * r + 30)) for r in (0, 1)]
    drafting = [
        kv_plan(model, engine_config(speculative_method="mtp", **settings), r, (9, 0), range(30 * r, 30 * r + 30))
        for r in (0, 1)
    ]
    assert drafting[0].bytes_per_block == plain[0].bytes_per_block
    assert drafting[1].bytes_per_block - plain[1].bytes_per_block == plain[1].page_bytes


def test_layers_that_read_a_donors_cache_cost_nothing() -> None:
    own = FullAttention(8, 2, 256, 256)
    model = model_of((20, own), (15, own._replace(kv_donor=19)))
    assert kv_plan(model, engine_config(), 0, (9, 0)).bytes_per_block == 20 * 16 * 2048


def test_context_parallelism_divides_tokens() -> None:
    config = engine_config(parallel=Parallelism(tensor=8, context=8), max_model_len=16384)
    plan = kv_plan(DEEPSEEK_V3, config, 0, (9, 0))
    assert plan.blocks_per_request == 128
    assert report(plan, 38199, config) == (4889472, 298.4296875)


def test_a_model_without_a_cache() -> None:
    plan = kv_plan(model_of(), engine_config(), 0, (9, 0))
    assert (plan.groups, plan.bytes_per_block, num_blocks(plan, 10, V32), admits(plan, 10, V32)) == ((), 0, 1, True)


def test_an_override_replaces_the_number_of_blocks() -> None:
    plan = kv_plan(LLAMA_8B, engine_config(max_model_len=16384), 0, (9, 0))
    assert num_blocks(plan, 40 * GIB, V32, override=1234) == 1234
    assert admits(plan, 0, V32, override=1234)
    assert not admits(plan, 40 * GIB, V32, override=1024)  # exactly one request, the null block is missing
    assert not admits(plan, 0, (0, 19, 1), override=1234)
