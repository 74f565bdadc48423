"""What flags change about the layout of the cache: the attention kernel, layers at the model's dtype."""

from __future__ import annotations

import pytest

from planner.admission.growth import growths
from planner.memory.budget import KVPlan
from planner.memory.kv_cache import kv_plan
from planner.memory.kv_specs import LayoutRefused
from tests.memory.starts import start

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
DEEPSEEK = "deepseek-ai/DeepSeek-V3"


def plan(model: str, gpu: str, version: str, flags: str) -> KVPlan:
    of = start(model, gpu, version, flags)
    return kv_plan(of.model, of.config, 0, of.accelerator.capability)


@pytest.mark.parametrize(
    ("gpu", "version", "backend", "block"),
    [
        ("H200", "0.20.0", "FLASHMLA", 64),
        ("H200", "0.20.0", "TRITON_MLA", 16),
        ("H200", "0.20.0", "flash_attn_mla", 16),
        ("B200", "0.20.0", "CUTLASS_MLA", 128),
        ("B200", "0.20.0", "FLASHINFER_MLA", 32),
        ("H200", "0.20.0", "NOBODYS_MLA", 16),  # not known: the engine's own choice stands
    ],
)
def test_a_named_kernel_decides_the_block(gpu: str, version: str, backend: str, block: int) -> None:
    assert plan(DEEPSEEK, gpu, version, f"-tp 8 --attention-backend {backend}").block_size == block


def test_a_kernel_of_another_kind_of_cache_changes_nothing() -> None:
    assert plan(LLAMA, "H200", "0.20.0", "--attention-backend FLASHMLA").block_size == 16
    assert plan(DEEPSEEK, "H200", "0.20.0", "-tp 8 --attention-backend FLASH_ATTN").block_size == 16


def test_layers_that_keep_the_models_dtype() -> None:
    """Two of 32 layers at 16 bits share the block table of the others with pages twice as large."""
    half = plan(LLAMA, "H200", "0.20.0", "--kv-cache-dtype fp8")
    mixed = plan(LLAMA, "H200", "0.20.0", "--kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 31")
    assert half.bytes_per_token == 65536
    assert mixed.bytes_per_token == 65536 + 2 * 2048
    ignored = plan(LLAMA, "H200", "0.20.0", "--kv-cache-dtype-skip-layers 0 31")
    assert ignored.bytes_per_token == 131072


def test_windows_that_keep_the_models_dtype() -> None:
    flags = "--kv-cache-dtype fp8 --kv-cache-dtype-skip-layers sliding_window"
    mixed = plan("openai/gpt-oss-20b", "H200", "0.20.0", flags)
    windows = [group for group in mixed.groups if group.kind == "window"]
    full = [group for group in mixed.groups if group.kind == "full"]
    assert windows
    assert full
    assert windows[0].pages[0][0] // windows[0].block_size == 2 * full[0].pages[0][0] // full[0].block_size


def test_a_stated_block_that_no_kernel_takes() -> None:
    with pytest.raises(LayoutRefused):
        plan("zai-org/GLM-5.1", "H200", "0.20.0", "-tp 8 --block-size 32")


def test_deepseek_v4_must_be_asked_for_fp8_up_to_029() -> None:
    """The engine's own answer in 0.24.0 on H100 and B200: an assertion. 0.32.0 takes its layout by itself."""
    flash = "deepseek-ai/DeepSeek-V4-Flash"
    for gpu in ("H200", "B200"):
        with pytest.raises(LayoutRefused, match="give --kv-cache-dtype fp8"):
            plan(flash, gpu, "0.24.0", "-tp 4")
        assert (
            plan(flash, gpu, "0.24.0", "-tp 4 --kv-cache-dtype fp8").block_size
            == plan(flash, gpu, "0.32.0", "-tp 4").block_size
        )


def test_mimo_v2_reads_the_cache_dtype_since_032() -> None:
    """Its layers were built without the cache's configuration before (vLLM 0.24.0's own answer: pages of 20,480 bytes)."""
    old, new = (
        plan("XiaomiMiMo/MiMo-V2-Flash", "H100-80GB", v, "-tp 4 --kv-cache-dtype fp8") for v in ("0.24.0", "0.32.0")
    )
    assert (old.page_bytes, new.page_bytes) == (20480, 10240)


def test_narrower_values_were_padded_to_the_keys_before_020() -> None:
    """MiMo-V2: 192 of a key and 128 of a value; vLLM 0.19.1's own answer is a page of 24,576 bytes."""
    assert plan("XiaomiMiMo/MiMo-V2-Flash", "H100-80GB", "0.19.1", "-tp 4").page_bytes == 24576
    assert plan("XiaomiMiMo/MiMo-V2-Flash", "H100-80GB", "0.24.0", "-tp 4").page_bytes == 20480


def test_an_encoders_output_takes_less_than_the_engine_counts() -> None:
    """Whisper: 512 blocks of a batch of 8,192 tokens are counted from 0.13 on (vLLM 0.32.0's own answer), 94 are held."""
    whisper = plan("openai/whisper-tiny", "H100-80GB", "0.32.0", "")
    assert [group.blocks_per_request for group in whisper.groups] == [28, 512]
    assert [growth.blocks(448) for growth in growths(whisper)] == [28, 94]
    assert [group.blocks_per_request for group in plan("openai/whisper-tiny", "H100-80GB", "0.12.0", "").groups] == [
        28,
        94,
    ]
