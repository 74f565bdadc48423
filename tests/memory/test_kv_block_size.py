"""The block size that the engine chooses: kernels by GPU, cache dtype and version."""

from __future__ import annotations

import pytest

from planner.memory.kv_block_size import default_block_size
from planner.memory.kv_cache import LayoutRefused, kv_plan
from planner.memory.kv_specs import latent_token_bytes, token_head_bytes
from planner.models.architecture import FullAttention, SlidingWindow
from tests.memory.kv_rows import engine_config, fact
from tests.memory.test_kv_vectors import DEEPSEEK_V3, DEEPSEEK_V32, LLAMA_8B, model_of, state_model

GEMMA3_12B = model_of(
    (40, SlidingWindow(16, 8, 256, 256, 1024)), (8, FullAttention(16, 8, 256, 256)),
    multimodal=True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "capability", "version", "block"),
    [
        ("bfloat16", (9, 0), (0, 32, 0), 16),
        ("fp8", (9, 0), (0, 32, 0), 64),
        ("bfloat16", (9, 0), (0, 17, 1), 64),
        ("bfloat16", (10, 0), (0, 32, 0), 32),
        ("fp8", (10, 0), (0, 32, 0), 32),
        ("bfloat16", (10, 0), (0, 14, 0), 128),
        ("bfloat16", (10, 0), (0, 16, 0), 64),
        ("bfloat16", (8, 0), (0, 32, 0), 16),
        ("fp8", (12, 0), (0, 32, 0), 16),
        ("bfloat16", (9, 0), (0, 7, 3), 16),
    ],
)
def test_latent_attention(dtype: str, capability: tuple[int, int], version: tuple[int, ...], block: int) -> None:
    assert default_block_size(DEEPSEEK_V3, dtype, capability, version) == block


def test_sparse_attention_wants_blocks_of_64() -> None:
    assert default_block_size(DEEPSEEK_V32, "bfloat16", (9, 0), (0, 32, 0)) == 64
    with pytest.raises(LayoutRefused, match="multiple of 64"):
        kv_plan(DEEPSEEK_V32, engine_config(block_size=32), 0, (9, 0))


def test_ordinary_attention_has_blocks_of_16_everywhere() -> None:
    for capability in [None, (7, 5), (8, 0), (8, 9), (9, 0), (10, 0), (12, 0)]:
        for dtype in ("bfloat16", "fp8", "nvfp4", "int8_per_token_head"):
            assert default_block_size(LLAMA_8B, dtype, capability, (0, 32, 0)) == 16


def test_images_seen_in_both_directions_on_blackwell() -> None:
    from planner.record import replace

    model = replace(GEMMA3_12B, model_type="gemma3")
    assert default_block_size(model, "bfloat16", (10, 0), (0, 32, 0)) == 64
    assert default_block_size(model, "bfloat16", (10, 0), (0, 32, 0), multimodal=False) == 16
    assert default_block_size(model, "bfloat16", (9, 0), (0, 32, 0)) == 16
    assert default_block_size(model, "bfloat16", (10, 0), (0, 24, 0)) == 16


def test_defaults_of_other_platforms_stand() -> None:
    """A CPU has blocks of 128; where the GPU is known its kernels decide."""
    from planner.record import replace

    config = replace(engine_config(), block_size=fact(128))
    assert kv_plan(LLAMA_8B, config, 0, None).block_size == 128
    assert kv_plan(LLAMA_8B, config, 0, (9, 0)).block_size == 16


def test_an_fp8_latent_cache_needs_a_gpu_that_knows_fp8() -> None:
    with pytest.raises(LayoutRefused, match=r"8\.9"):
        default_block_size(DEEPSEEK_V3, "fp8", (8, 0), (0, 32, 0))
    with pytest.raises(LayoutRefused, match="sparse"):
        kv_plan(DEEPSEEK_V3, engine_config(kv_cache_dtype="fp8_ds_mla"), 0, (9, 0))
    with pytest.raises(LayoutRefused, match="layout"):
        kv_plan(LLAMA_8B, engine_config(kv_cache_dtype="turboquant_4bit_nc"), 0, (10, 0))


def test_the_users_block_is_a_granule_for_hybrids() -> None:
    """From 0.20 on; before, it only counts where it is larger than what the state needs."""
    model = state_model("model")

    def block(given: int | None, version: tuple[int, ...]) -> int:
        return kv_plan(model, engine_config(block_size=given, version=version), 0, (9, 0)).block_size

    assert [block(size, (0, 32, 0)) for size in (None, 32, 64, 128)] == [544, 544, 576, 640]
    assert [block(size, (0, 19, 1)) for size in (None, 32, 1024)] == [544, 544, 1024]


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("bfloat16", 512),
        ("fp8_e5m2", 256),
        ("int8_per_token_head", 264),
        ("int4_per_token_head", 136),
        ("nvfp4", 144),
        ("turboquant_4bit_nc", 134),
        ("turboquant_k8v4", 196),
        ("ultraquant_4bit", 136),
    ],
)
def test_bytes_of_a_token_in_a_head(dtype: str, size: int) -> None:
    assert token_head_bytes(dtype, 128, 128) == size


def test_bytes_of_a_latent_token() -> None:
    sizes = [latent_token_bytes(dtype, 576) for dtype in ("bfloat16", "fp8", "fp8_ds_mla", "nvfp4_ds_mla")]
    assert sizes == [1152, 576, 656, 352]


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(LayoutRefused, match="not known"):
        kv_plan(LLAMA_8B, engine_config(kv_cache_dtype="int3"), 0, (9, 0))
