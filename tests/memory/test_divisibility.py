"""What ranks cannot share."""

from __future__ import annotations

import pytest

from planner.engines.config import Parallelism
from planner.memory.divisibility import indivisible
from planner.memory.kv_specs import LayoutRefused
from planner.memory.vllm_budget import vllm_budget
from planner.models.config import architecture
from planner.models.resolve import resolve
from tests.memory.starts import start


@pytest.mark.parametrize(
    ("model", "tensor", "what"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", 3, "attention heads"),
        ("meta-llama/Llama-3.1-8B-Instruct", 8, ""),
        ("microsoft/phi-4", 5, "rows of the vocabulary"),  # 40 heads and 10 KV heads divide, 100,352 rows do not
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", 2, ""),  # its width was padded to 29,696 for that
        ("Qwen/Qwen2.5-32B-Instruct-AWQ", 2, ""),
        ("deepseek-ai/DeepSeek-V4-Pro", 16, ""),  # a public log shows 16 ranks
    ],
)
def test_what_cannot_be_divided(model: str, tensor: int, what: str) -> None:
    found = list(indivisible(resolve(model).architecture, Parallelism(tensor=tensor)))
    assert [each.what for each in found] == ([what] if what else [])


def test_a_group_of_scales_that_a_split_would_cut() -> None:
    """29,568 inputs are 231 groups of 128: no two ranks can share them."""
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 8192,
        "intermediate_size": 29568,
        "num_hidden_layers": 2,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "vocab_size": 152064,
        "max_position_embeddings": 32768,
        "torch_dtype": "float16",
        "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
    }
    model = architecture(config, id="awq")
    assert [str(each) for each in indivisible(model, Parallelism(tensor=2))] == [
        "231 quantization groups of 128 in down_proj cannot be divided by 2 ranks"
    ]
    assert list(indivisible(model, Parallelism(tensor=1))) == []


def test_the_budget_is_refused() -> None:
    with pytest.raises(LayoutRefused, match="100,352 rows of the vocabulary cannot be divided by 5 ranks"):
        vllm_budget(*start("microsoft/phi-4", "H100-80GB", "0.32.0", "--tensor-parallel-size 5"))


def test_blocks_of_fp8_experts_are_cut_only_since_they_are_refined() -> None:
    """192 of 1,536 columns are a block and a half of 128: refused up to 0.28, refined to blocks of 64 since."""
    model = resolve("MiniMaxAI/MiniMax-M2.5").architecture
    eight = Parallelism(tensor=8)
    assert [each.count for each in indivisible(model, eight, (0, 24, 0))] == [12]
    assert list(indivisible(model, eight, (0, 32, 0))) == []
    assert list(indivisible(model, Parallelism(tensor=8, expert=True), (0, 24, 0))) == []
    assert list(indivisible(model, Parallelism(tensor=4), (0, 24, 0))) == []
