"""config.json → ModelArchitecture: published parameter counts, attention kinds, and what hostile files get."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.models.architecture import (
    ChunkedLocal,
    FullAttention,
    LatentAttention,
    ModelArchitecture,
    NoAttention,
    RecurrentState,
    SlidingWindow,
    UnknownModel,
)
from planner.models.config import architecture

LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192},
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
GPT_OSS: dict[str, Any] = {
    "architectures": ["GptOssForCausalLM"],
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 24,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
    "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096},
    "max_position_embeddings": 131072,
    "quantization_config": {"quant_method": "mxfp4"},
    "vocab_size": 201088,
}
DEEPSEEK_V3: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "first_k_dense_replace": 3,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "kv_lora_rank": 512,
    "max_position_embeddings": 163840,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "quantization_config": {
        "quant_method": "fp8",
        "fmt": "e4m3",
        "activation_scheme": "dynamic",
        "weight_block_size": [128, 128],
    },
    "tie_word_embeddings": False,
    "topk_method": "noaux_tc",
    "torch_dtype": "bfloat16",
    "v_head_dim": 128,
    "vocab_size": 129280,
}
GEMMA_2_27B: dict[str, Any] = {
    "architectures": ["Gemma2ForCausalLM"],
    "head_dim": 128,
    "hidden_size": 4608,
    "intermediate_size": 36864,
    "max_position_embeddings": 8192,
    "num_attention_heads": 32,
    "num_hidden_layers": 46,
    "num_key_value_heads": 16,
    "sliding_window": 4096,
    "vocab_size": 256000,
}


def test_published_parameter_counts() -> None:
    assert architecture(LLAMA_8B).parameters == 8_030_261_248
    assert architecture(GPT_OSS).parameters == 20_914_757_184
    assert architecture(DEEPSEEK_V3).parameters == 671_026_419_200
    assert architecture(GEMMA_2_27B).parameters == 27_227_128_320


def test_llama_has_one_shared_layer_object() -> None:
    model = architecture(LLAMA_8B, id="meta-llama/Llama-3.1-8B")
    assert len({id(layer) for layer in model.layers}) == 1
    assert model.layers[0].attention == FullAttention(32, 8, 128, 128)
    assert (model.derived_max_len, model.max_len_key) == (131072, "max_position_embeddings")
    assert (model.rope_type, model.rope_factor, model.original_max_len) == ("llama3", 8.0, 8192)
    assert model.buffers == 131072 * 128 * 2
    assert model.quantization is None
    assert not model.is_moe


def test_gpt_oss_alternates_windows_and_packs_experts_only() -> None:
    model = architecture(GPT_OSS)
    assert model.layers[0].attention == SlidingWindow(64, 8, 64, 64, 128, sinks=True)
    assert model.layers[1].attention == FullAttention(64, 8, 64, 64, sinks=True)
    stored = {m.name: model.formats[m.format].name for m in model.layers[0].matrices}
    assert stored == {"qkv_proj": "model", "o_proj": "model", "router": "model", "w13": "mxfp4", "w2": "mxfp4"}
    assert (model.num_experts, model.experts_per_token, model.moe_intermediate_size) == (32, 4, 2880)


def test_deepseek_keeps_router_and_head_at_16_bits() -> None:
    model = architecture(DEEPSEEK_V3)
    assert model.layers[0].attention == LatentAttention(128, 512, 64, 128, 128, 1536)
    assert [m.name for m in model.layers[2].matrices][-2:] == ["gate_up_proj", "down_proj"]
    stored = {m.name: model.formats[m.format].name for m in model.layers[3].matrices}
    assert stored["w13"] == stored["kv_b_proj"] == "fp8_block"
    assert stored["router"] == "model"
    assert model.head is not None
    assert model.formats[model.head.format].name == "model"


def test_sparse_indexer_only_in_the_layers_that_have_one() -> None:
    config = {
        **DEEPSEEK_V3,
        "architectures": ["GlmMoeDsaForCausalLM"],
        "index_topk": 2048,
        "index_n_heads": 32,
        "index_head_dim": 128,
        "indexer_types": ["full", "full", "full"] + ["shared", "shared", "full"] * 20,
    }
    dims = [layer.attention.indexer_dim for layer in architecture(config).layers]  # type: ignore[union-attr]
    assert dims[:6] == [128, 128, 128, 0, 0, 128]
    assert sum(map(bool, dims)) == 22


def test_llama_4_chunks_three_of_four_layers() -> None:
    text = {**LLAMA_8B, "num_local_experts": 16, "intermediate_size_mlp": 16384, "attention_chunk_size": 8192}
    model = architecture({"architectures": ["Llama4ForConditionalGeneration"], "text_config": text})
    assert [type(layer.attention) for layer in model.layers[:4]] == [ChunkedLocal] * 3 + [FullAttention]
    assert model.multimodal


def test_hybrids_keep_state_and_cache() -> None:
    config = {
        "architectures": ["NemotronHForCausalLM"],
        "hidden_size": 4480,
        "hybrid_override_pattern": "M-*-",
        "intermediate_size": 15680,
        "mamba_head_dim": 80,
        "mamba_num_heads": 128,
        "n_groups": 8,
        "num_attention_heads": 40,
        "num_hidden_layers": 4,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "ssm_state_size": 128,
        "vocab_size": 131072,
    }
    model = architecture(config)
    state = model.layers[0].attention
    assert isinstance(state, RecurrentState)
    assert state.states[0].shape == (128 * 80 + 2 * 8 * 128, 3)
    assert (state.states[1].shape, state.states[1].dtype) == ((128, 80, 128), "float32")
    assert isinstance(model.layers[1].attention, NoAttention)
    assert isinstance(model.layers[2].attention, FullAttention)


def test_layers_that_read_another_cache_name_their_donor() -> None:
    kinds = ["sliding_attention"] * 4 + ["full_attention"]
    config = {
        "architectures": ["Gemma3nForCausalLM"],
        "hidden_size": 2048,
        "intermediate_size": 16384,
        "num_hidden_layers": 10,
        "num_kv_shared_layers": 5,
        "layer_types": kinds * 2,
        "vocab_size": 262400,
    }
    donors = [layer.attention.kv_donor for layer in architecture(config).layers]  # type: ignore[union-attr]
    assert donors == [None] * 5 + [3, 3, 3, 3, 4]


def test_unknown_architecture_is_refused() -> None:
    with pytest.raises(UnknownModel) as refusal:
        architecture({**LLAMA_8B, "architectures": ["TotallyNewForCausalLM"]})
    assert "TotallyNewForCausalLM" in refusal.value.reason
    assert "planner/given" in refusal.value.remedy


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_attention_heads", 0),
        ("num_attention_heads", -4),
        ("num_key_value_heads", 7),
        ("hidden_size", "4096"),
        ("hidden_size", [4096]),
        ("num_hidden_layers", 10**9),
        ("num_hidden_layers", True),
        ("vocab_size", 10**40),
        ("vocab_size", math.nan),
        ("max_position_embeddings", -1),
        ("rope_scaling", "llama3"),
        ("rope_scaling", {"rope_type": 5}),
        ("quantization_config", {"quant_method": "magic"}),
        ("quantization_config", []),
        ("architectures", "LlamaForCausalLM"),
        ("architectures", []),
        ("architectures", None),
        ("tie_word_embeddings", "yes"),
    ],
)
def test_wrong_values_are_named(key: str, value: Any) -> None:
    with pytest.raises(UnknownModel) as refusal:
        architecture({**LLAMA_8B, key: value})
    assert refusal.value.reason
    assert refusal.value.remedy


@pytest.mark.parametrize("config", [None, 5, "x", [], [{}], {}, {"architectures": [5]}])
def test_what_is_no_config_is_refused(config: Any) -> None:
    with pytest.raises(UnknownModel):
        architecture(config)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(base=st.sampled_from([LLAMA_8B, GPT_OSS, DEEPSEEK_V3, GEMMA_2_27B]), data=st.data())
def test_mutated_configs_give_an_architecture_or_a_reason(base: dict[str, Any], data: st.DataObject) -> None:
    config = json.loads(json.dumps(base))
    for key in data.draw(st.lists(st.sampled_from(sorted(base)), min_size=1, max_size=4)):
        if data.draw(st.booleans()):
            config.pop(key, None)
        else:
            config[key] = data.draw(JSON)
    model, reason = _outcome(config)
    if model is None:
        assert reason
    else:
        assert model.parameters > 0
        assert len(model.layers) <= 1000


def _outcome(config: dict[str, Any]) -> tuple[ModelArchitecture | None, str]:
    try:
        return architecture(config), ""
    except UnknownModel as refusal:
        return None, refusal.reason if refusal.remedy else ""
