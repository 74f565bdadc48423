"""Models of 2026 whose layers choose what they read, or keep several streams: parameters of the hub, caches of the engine."""

from __future__ import annotations

import pytest

from planner import catalog
from planner.engines.config import Parallelism
from planner.memory.budget import KVPlan
from planner.memory.kv_cache import kv_plan, report
from planner.models.architecture import FullAttention, LatentAttention, ModelArchitecture, RecurrentState
from planner.models.config import architecture, matrix_parameters, vector_parameters
from tests.memory.kv_rows import engine_config
from tests.models.test_config import LLAMA_8B


def model_of(name: str) -> ModelArchitecture:
    entry = catalog.model(name)
    assert entry is not None, name
    return architecture(entry.config, entry.quant_config, name)


def with_drafts(model: ModelArchitecture) -> int:
    drafts = (
        sum(map(matrix_parameters, layer.matrices)) + sum(map(vector_parameters, layer.vectors))
        for layer in model.mtp_layers
    )
    return model.parameters + sum(drafts)


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("stepfun-ai/Step-3.5-Flash", 199_384_301_376),
        ("zai-org/GLM-5.3-Flash", 321_323_031_390),
        ("zai-org/GLM-5.3-Flash-BF16", 321_323_031_390),
        ("MiniMaxAI/MiniMax-M3", 0),
        ("Qwen/Qwen3.8-Flash-Next", 0),
    ],
)
def test_the_parameters_are_those_of_the_hub(name: str, total: int) -> None:
    entry = catalog.model(name)
    assert entry is not None
    wanted = total or entry.parameters
    counts = [model_of(name).parameters, with_drafts(model_of(name))]
    assert wanted
    assert min(abs(count - wanted) for count in counts) <= 1e-6 * wanted


def plan_of(model: ModelArchitecture, tensor: int = 1, cache: str | None = None, length: int = 262144) -> KVPlan:
    config = engine_config(
        version=(0, 33, 0),
        parallel=Parallelism(tensor=tensor),
        max_model_len=length,
        kv_cache_dtype=cache,
        mamba_cache_mode="align",
    )
    return kv_plan(model, config, 0, (9, 0))


def test_minimax_m3_keeps_an_index_key_beside_keys_and_values() -> None:
    model = model_of("MiniMaxAI/MiniMax-M3")
    indexed = sum(isinstance(a := layer.attention, FullAttention) and a.indexer_dim > 0 for layer in model.layers)
    assert (model.num_layers, indexed) == (60, 57)
    plan = plan_of(model)
    assert plan.block_size == 128
    assert plan.bytes_per_block == 60 * 128 * 2048 + 57 * 128 * 256


def test_qwen4_exp_pools_its_index_keys() -> None:
    model = model_of("Qwen/Qwen3.8-Flash-Next")
    kinds = [type(layer.attention) for layer in model.layers]
    assert kinds.count(FullAttention) == 12
    assert kinds.count(RecurrentState) == 36
    config = engine_config(
        version=(0, 32, 0), parallel=Parallelism(tensor=8), max_model_len=262144, mamba_cache_mode="none"
    )
    plan = kv_plan(model, config, 0, (9, 0))
    assert plan.bytes_per_block == 5_222_400
    # a public log of 8×H100: 37.37 GiB, 3,046,184 tokens
    blocks = int(37.37 * 2**30) // plan.bytes_per_block
    assert report(plan, blocks, config)[0] == pytest.approx(3_046_184, rel=5e-4)


def test_glm_5_3_flash_pools_index_keys_beside_latents_without_rotation() -> None:
    model = model_of("zai-org/GLM-5.3-Flash")
    latents = [layer.attention for layer in model.layers if isinstance(layer.attention, LatentAttention)]
    assert len(latents) == 11
    assert {(a.rope_dim, a.indexer_dim, a.index_ratio) for a in latents} == {(0, 128, 4)}
    plan = plan_of(model, tensor=8, cache="fp8")
    # 8×H100 of a public log: 22.05 GiB hold 3427 blocks; 14.46 requests of 262,144 tokens before KDA's checkpoint block
    assert plan.bytes_per_block == 11 * 1152 * (512 + 33)
    assert int(22.05 * 2**30) // plan.bytes_per_block == 3428
    assert plan.blocks_per_request == 228 + 4 * 3 + 1


def test_multi_token_prediction_of_nemotron_h_is_read_from_its_pattern() -> None:
    model = model_of("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8")
    assert len(model.mtp_layers) >= 1
    assert any(matrix.experts for layer in model.mtp_layers for matrix in layer.matrices)


def test_gemma_4_unified_and_mistral_4_are_read() -> None:
    gemma = model_of("google/gemma-4-12B-it")
    assert gemma.multimodal
    assert gemma.architecture == "Gemma4UnifiedForConditionalGeneration"
    mistral = model_of("mistralai/Mistral-Small-4-119B-2603")
    assert mistral.is_multi_latent
    assert mistral.num_experts == 128


@pytest.mark.parametrize(
    ("excluded", "first", "second"),
    [
        ("*self_attn*", {"qkv_proj", "o_proj"}, {"qkv_proj", "o_proj"}),
        ("model.layers.0*", {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}, set()),
        ("*.mlp.*", {"gate_up_proj", "down_proj"}, {"gate_up_proj", "down_proj"}),
    ],
)
def test_module_patterns_with_stars(excluded: str, first: set[str], second: set[str]) -> None:
    """Which matrices of the first two layers stay at 16 bits."""
    quantization = {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head", excluded]}
    model = architecture(LLAMA_8B, {"quantization": quantization})
    for layer, wanted in zip(model.layers, (first, second), strict=False):
        assert {m.name for m in layer.matrices if model.formats[m.format].name == "model"} == wanted


def test_a_file_without_lengths_and_heads_has_those_of_its_class() -> None:
    # Google's own config.json of Gemma 3 states neither vocabulary, heads, head size nor length
    text = {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    }
    vision = {
        "hidden_size": 1152,
        "image_size": 896,
        "intermediate_size": 4304,
        "model_type": "siglip_vision_model",
        "num_attention_heads": 16,
        "num_hidden_layers": 27,
        "patch_size": 14,
        "vision_use_head": False,
    }
    config = {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "mm_tokens_per_image": 256,
        "model_type": "gemma3",
        "text_config": text,
        "torch_dtype": "bfloat16",
        "vision_config": vision,
    }
    model = architecture(config)
    assert (model.parameters, model.derived_max_len) == (4_300_079_472, 131072)
    assert (model.vocab_size, model.heads, model.kv_heads, model.head_dim) == (262208, 8, 4, 256)
