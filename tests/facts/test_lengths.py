"""Lengths beyond the model's: which flag or variable makes an engine take them."""

from __future__ import annotations

import pytest

from tests.facts.plans import LLAMA, facts_of

SWITCH = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
QWEN = ("--model-path=Qwen/Qwen3-8B", "--context-length=200000")


@pytest.mark.parametrize(
    ("engine", "version", "args", "env", "allowed"),
    [
        ("vllm", "0.11.0", (LLAMA,), {}, False),
        ("vllm", "0.11.0", (LLAMA,), {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}, True),
        ("vllm", "0.11.0", (LLAMA,), {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "0"}, False),
        ("vllm", "0.11.0", (LLAMA, '--hf-overrides={"max_position_embeddings": 1}'), {}, True),
        ("sglang", "0.4.3", QWEN, {}, False),
        ("sglang", "0.4.4", QWEN, {}, True),
        ("sglang", "0.4.10.post2", QWEN, {}, True),
        ("sglang", "0.4.10", QWEN, {SWITCH: "false"}, False),
        ("sglang", "0.5.1", QWEN, {}, False),
        ("sglang", "0.5.20", QWEN, {SWITCH: "1"}, True),
        ("sglang", "0.5.20", QWEN, {SWITCH: "true"}, True),
        ("sglang", "0.5.20", QWEN, {SWITCH: "0"}, False),
        ("sglang", "0.5.20", (*QWEN, '--json-model-override-args={"max_position_embeddings": 200000}'), {}, True),
    ],
)
def test_what_lets_a_longer_length_pass(
    engine: str, version: str, args: tuple[str, ...], env: dict[str, str], allowed: bool
) -> None:
    facts, _ = facts_of(list(args), version, engine=engine, env=env)
    assert facts["max_model_len_allowed"] is allowed
    assert facts["max_model_len_flag"] == ("--context-length" if engine == "sglang" else "--max-model-len")
