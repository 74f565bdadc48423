"""Which modules a quantization config means, and how their elements are stored."""

from __future__ import annotations

import time
from typing import Any

import pytest

from planner.engines.config import Parallelism
from planner.memory.weights import rank_weights
from planner.models.architecture import ModelArchitecture, UnknownModel
from planner.models.config import architecture
from planner.models.module_patterns import ModulePatterns, bounded_regex, split_layer
from planner.models.resolve import resolve
from tests.models.test_config import DEEPSEEK_V3, LLAMA_8B


def quantized(section: dict[str, Any], base: dict[str, Any] = LLAMA_8B, **more: Any) -> ModelArchitecture:
    return architecture({**base, "quantization_config": section, **more})


def stored(model: ModelArchitecture, layer: int = 0) -> dict[str, str]:
    return {m.name: model.formats[m.format].name for m in model.layers[layer].matrices}


def compressed(weights: dict[str, Any], inputs: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": ["lm_head"], **more}


@pytest.mark.parametrize(
    ("section", "name", "group"),
    [
        ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8_tensor", 0),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block", 0),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "w4a16", 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1, "sym": True, "desc_act": True}, "w8a16", -1),
        (compressed({"num_bits": 8, "type": "float", "strategy": "channel"}, {"dynamic": True}), "fp8_channel", 0),
        (compressed({"num_bits": 8, "type": "int", "strategy": "channel"}, {"num_bits": 8}), "int8", 0),
        (compressed({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}), "w4a16", 32),
        (compressed({"num_bits": 4, "type": "float", "group_size": 16}, {"num_bits": 4}), "nvfp4", 16),
        (compressed({"num_bits": 4, "type": "float", "group_size": 32}), "mxfp4", 32),
        ({"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "bnb_nf4", 64),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", 16),
    ],
)
def test_methods(section: dict[str, Any], name: str, group: int) -> None:
    model = quantized(section)
    form = model.formats[model.layers[0].matrices[0].format]
    assert (form.name, form.group) == (name, group)
    assert model.quantization


def test_separate_modelopt_file_and_its_cache_hint() -> None:
    separate = {
        "producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]},
    }
    model = architecture(LLAMA_8B, separate)
    assert model.quantization == "modelopt"
    assert model.kv_cache_dtype_hint == "fp8"
    assert set(stored(model).values()) == {"fp8_tensor"}
    assert model.head is not None
    assert model.head.format == "plain"


def test_head_is_quantized_only_where_modelopt_does_not_exclude_it() -> None:
    model = architecture(LLAMA_8B, {"quantization": {"quant_algo": "NVFP4", "exclude_modules": []}})
    assert model.head is not None
    assert model.formats[model.head.format].name == "nvfp4"


def test_ignored_layers_differ_from_the_others() -> None:
    skipped = ["model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.k_proj", "model.layers.0.self_attn.v_proj"]
    model = quantized({"quant_method": "fp8", "modules_to_not_convert": skipped})
    assert stored(model, 0)["qkv_proj"] == "model"
    assert stored(model, 0)["o_proj"] == "fp8_tensor"
    assert stored(model, 1)["qkv_proj"] == "fp8_tensor"
    assert len({id(layer) for layer in model.layers}) == 2


def test_wildcards_of_modelopt() -> None:
    section = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head", "model.layers.1.self_attn*"]}
    model = quantized(section)
    assert stored(model, 1) == {"qkv_proj": "model", "o_proj": "model", "gate_up_proj": "nvfp4", "down_proj": "nvfp4"}
    assert stored(model, 10)["qkv_proj"] == "nvfp4"


def test_regular_expressions_of_compressed_tensors() -> None:
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}
    section = compressed(weights)
    section["ignore"] = [
        "lm_head",
        "re:.*self_attn.*",
        "re:.*shared_experts.*",
        r"re:.*mlp\.(gate|up|gate_up|down)_proj.*",
    ]
    model = quantized(section, DEEPSEEK_V3)
    assert set(stored(model, 0).values()) == {"model"}
    assert {name for name, form in stored(model, 5).items() if form == "w4a16"} == {"w13", "w2"}


def test_mixed_precision_names_every_layer() -> None:
    layers: dict[str, Any] = {}
    for i in range(32):
        layers[f"model.language_model.layers.{i}.self_attn.q_proj"] = {"quant_algo": "FP8"}
        layers[f"model.language_model.layers.{i}.mlp.gate_proj"] = {"quant_algo": "NVFP4", "group_size": 16}
    section = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    model = quantized(section)
    assert stored(model) == {"qkv_proj": "fp8_tensor", "o_proj": "model", "gate_up_proj": "nvfp4", "down_proj": "model"}
    assert len({id(layer) for layer in model.layers}) == 1


def test_module_names_in_all_spellings() -> None:
    for name in ("model.layers.7.mlp.gate", "language_model.model.layers.7.mlp.gate", "backbone.layers.7.mlp.gate"):
        assert split_layer(name) == (7, "mlp.gate")
    assert split_layer("model.visual.layers.7.mlp") == (None, "model.visual.layers.7.mlp")
    assert split_layer("layers.3.ffn.experts.12.w1") == (3, "ffn.experts.w1")
    assert "model.layers.3.ffn.experts" in ModulePatterns(["layers.3.ffn.experts.12.w1"])


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a|aa)+$",
        "((ab)*)*",
        r"(a)\1",
        "(?P<x>a)(?P=x)",
        ".*.*.*.*.*.*",
        "(a?){40}a{40}",
        "(",
        "[",
        "a" * 999,
    ],
)
def test_patterns_that_could_take_long_are_refused(pattern: str) -> None:
    with pytest.raises(UnknownModel):
        bounded_regex(pattern)


def test_a_hostile_ignore_list_takes_bounded_time() -> None:
    weights = {"num_bits": 8, "type": "int", "strategy": "channel"}
    hostile = compressed(weights, {"num_bits": 8})
    hostile["ignore"] = ["re:.*x.*y.*z.*$"] * 5 + [f"model.layers.{i % 1000}.mlp.gate_proj" for i in range(20_000)]
    start = time.perf_counter()
    quantized(hostile, num_hidden_layers=1000)
    assert time.perf_counter() - start < 2
    hostile["ignore"] = [f"re:.*a{i}.*b.*c.*d.*$" for i in range(1000)]
    with pytest.raises(UnknownModel):
        quantized(hostile)


def test_a_cache_scheme_may_be_written_as_a_word() -> None:
    weights = {"num_bits": 8, "type": "float", "strategy": "tensor"}
    for scheme, hint in (("FP8", "fp8"), ({"num_bits": 8, "type": "float"}, "fp8"), (None, None)):
        model = quantized(compressed(weights, {"num_bits": 8}, kv_cache_scheme=scheme))
        assert model.kv_cache_dtype_hint == hint
    modelopt = {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": "FP8"}
    assert quantized(modelopt).kv_cache_dtype_hint == "fp8"
    with pytest.raises(UnknownModel):
        quantized(compressed(weights, {"num_bits": 8}, kv_cache_scheme="something else"))


def test_a_tower_named_as_a_whole_stays_as_it_is() -> None:
    """Lists that are shortened name ``model.visual``; a public start of Qwen3.8-27B-FP8 on 2 GPUs prints 14.28 GiB."""
    named = ModulePatterns(["model.visual", "lm_head"])
    assert "visual.blocks.3.attn.qkv" in named
    assert "lm_head" in named
    assert "visual_projection" not in named
    assert "model.layers.3.self_attn.q_proj" not in ModulePatterns(["model"])
    model = resolve("Qwen/Qwen3.8-27B-FP8").architecture
    weights = rank_weights(model, Parallelism(tensor=2), 0, 0, engine_version=(0, 26), dtype="bfloat16")
    assert weights.bytes.expected / 2**30 == pytest.approx(14.28, abs=0.01)
