"""Families that few models have: parameters to the last one, and what their layers keep."""

from __future__ import annotations

import pytest

from planner import catalog
from planner.memory.kv_cache import kv_plan
from planner.models.architecture import ModelArchitecture, RecurrentState, UnknownModel
from planner.models.config import architecture
from tests.memory.kv_rows import engine_config


def model_of(name: str) -> ModelArchitecture:
    entry = catalog.model(name)
    assert entry is not None, name
    return architecture(entry.config, entry.quant_config, name)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("LiquidAI/LFM2.5-1.2B-Instruct", 1_170_340_608),
        ("LiquidAI/LFM2.5-8B-A1B", 8_467_856_832),
        ("inclusionAI/Ling-1T", 999_705_328_640),
        ("inclusionAI/Ling-lite-1.5", 16_801_974_272),
        ("baidu/ERNIE-4.5-VL-28B-A3B-PT", 29_399_294_336),
        ("internlm/Intern-S1", 240_709_856_128),
        ("OpenGVLab/InternVL3-8B", 7_944_373_760),
        ("OpenGVLab/InternVL3_5-38B-HF", 38_390_405_504),
        ("deepseek-ai/DeepSeek-OCR", 3_336_106_240),
        ("rednote-hilab/dots.ocr", 3_039_179_264),
        ("HuggingFaceTB/SmolVLM2-500M-Video-Instruct", 507_482_304),
        ("llava-hf/llava-onevision-qwen2-7b-ov-hf", 8_030_807_584),
        ("openbmb/MiniCPM-V-4_5", 8_695_895_280),
        ("openbmb/MiniCPM-Llama3-V-2_5", 8_537_092_336),
        ("Qwen/Qwen2.5-Omni-7B", 8_931_813_888),  # the thinker
        ("poolside/Laguna-S-2.1", 117_561_977_600),
    ],
)
def test_parameters_to_the_last_one(name: str, parameters: int) -> None:
    assert model_of(name).parameters == parameters


def test_lfm2_pads_its_short_convolutions_to_a_page_of_attention() -> None:
    model = model_of("LiquidAI/LFM2.5-1.2B-Instruct")
    states = [layer.attention for layer in model.layers if isinstance(layer.attention, RecurrentState)]
    assert len(states) == 10
    plan = kv_plan(model, engine_config(version=(0, 20, 0), max_model_len=2048), 0, (9, 0))
    # a public log: blocks of 16 tokens, "padding mamba page size by 300%"
    attention = 16 * 8 * 64 * 2 * 2
    assert plan.block_size == 16
    assert {page for group in plan.groups for page, _ in group.pages} == {attention}
    assert attention == 4 * (2 * 2048 * 2)


def test_experts_for_images_stand_beside_those_for_text() -> None:
    model = model_of("baidu/ERNIE-4.5-VL-28B-A3B-PT")
    pairs = [(m.name, m.experts, m.n) for m in model.layers[1].matrices if m.experts]
    assert pairs == [("w13", 64, 3072), ("w2", 64, 2560), ("w13", 64, 1024), ("w2", 64, 2560)]
    assert not any(m.experts for m in model.layers[0].matrices)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"architectures": ["MiniCPMV"], "version": 9.9, "hidden_size": 64}, "MiniCPM-V 9.9"),
        ({"architectures": ["BailingMoeV2ForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64,
          "num_attention_heads": 4, "layer_group_size": 5}, "linear attention"),
        ({"architectures": ["Idefics3ForConditionalGeneration"], "text_config": {"model_type": "unheard-of"}},
         "unheard-of"),
    ],
)  # fmt: skip
def test_what_is_not_understood_says_so(config: dict[str, object], reason: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        architecture(config)
    assert reason in caught.value.reason


def test_draft_layers_of_deepseek_v4() -> None:
    """One layer behind the last that keeps a window only, with projections of the embedding and of the hidden state."""
    from planner.models.architecture import LatentAttention
    from planner.models.resolve import resolve

    (draft,) = resolve("deepseek-ai/DeepSeek-V4-Flash").architecture.mtp_layers
    assert isinstance(draft.attention, LatentAttention)
    assert (draft.attention.window, draft.attention.compress_ratio, draft.attention.indexer_dim) == (128, 0, 0)
    assert {"e_proj", "h_proj"} <= {matrix.name for matrix in draft.matrices}


def test_a_model_that_looks_both_ways_keeps_no_cache() -> None:
    """Qwen2 with ``is_causal: false`` (gte-Qwen2): the engine takes encoder attention, and plans no block for it."""
    config = {
        "architectures": ["Qwen2ForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 512, "model_type": "qwen2",
    }  # fmt: skip
    kinds = {type(layer.attention).__name__ for layer in architecture({**config, "is_causal": False}, id="x").layers}
    assert kinds == {"NoAttention"}
    assert {type(layer.attention).__name__ for layer in architecture(config, id="x").layers} == {"FullAttention"}
