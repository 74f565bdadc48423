"""What ranks cannot share."""

from __future__ import annotations

import pytest

from planner.engines.config import Parallelism
from planner.memory.divisibility import indivisible
from planner.memory.kv_specs import LayoutRefused
from planner.memory.vllm_budget import vllm_budget
from planner.models.resolve import resolve
from tests.memory.starts import start


@pytest.mark.parametrize(
    ("model", "tensor", "what"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", 3, "attention heads"),
        ("meta-llama/Llama-3.1-8B-Instruct", 8, ""),
        ("microsoft/phi-4", 5, "rows of the vocabulary"),  # 40 heads and 10 KV heads divide, 100,352 rows do not
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", 2, "quantization groups of 128 in down_proj"),  # 29,568 / 2 = 115.5 × 128
        ("Qwen/Qwen2.5-32B-Instruct-AWQ", 2, ""),
        ("deepseek-ai/DeepSeek-V4-Pro", 16, ""),  # a public log shows 16 ranks
    ],
)
def test_what_cannot_be_divided(model: str, tensor: int, what: str) -> None:
    found = list(indivisible(resolve(model).architecture, Parallelism(tensor=tensor)))
    assert [each.what for each in found] == ([what] if what else [])


def test_the_budget_is_refused() -> None:
    with pytest.raises(LayoutRefused, match="100,352 rows of the vocabulary cannot be divided by 5 ranks"):
        vllm_budget(*start("microsoft/phi-4", "H100-80GB", "0.32.0", "--tensor-parallel-size 5"))
