"""The peak of the profile run: what one step at full batch needs above the weights, and gives back afterwards."""

from __future__ import annotations

from planner.accelerators.accelerator import Accelerator
from planner.engines.config import EffectiveConfig
from planner.estimate import Estimate
from planner.memory.budget import Input, Term
from planner.models.architecture import ModelArchitecture
from planner.units import format_bytes

#: Bytes of the fp32 logits pipeline per vocabulary entry and sampled row, by sampler.
_SAMPLER_BYTES = {"torch": 26.0, "triton": 14.0, "flashinfer": 10.0}


def profile_peak(model: ModelArchitecture, config: EffectiveConfig, accelerator: Accelerator | None) -> Term:
    """The transient peak of the profile run of one rank, in bytes.

    The phases follow one another, so the largest counts: the forward pass over ``max_num_batched_tokens`` tokens, or the
    sampler over ``min(max_num_seqs, max_num_batched_tokens)`` rows while the hidden states are still alive.
    Source: reference on vLLM's memory, 6.1–6.3 (read in vLLM's source; the factors are engineering estimates).
    """
    del accelerator
    tokens = config.max_num_batched_tokens.value
    rows = min(config.max_num_seqs.value, tokens)
    tp = max(1, config.parallel.tensor)
    hidden = model.hidden_size
    element = 2
    q_width = model.heads * model.head_dim // tp
    kv_width = max(1, model.kv_heads // tp) * model.head_dim
    residual = 2 * element * tokens * hidden
    attention = element * tokens * (2 * q_width + 2 * kv_width)
    feed_forward = element * tokens * (3 * max(model.intermediate_size, 1) // tp + hidden)
    reduce_copy = element * tokens * hidden if tp > 1 else 0
    forward = residual + max(attention, feed_forward) + reduce_copy
    experts = 0
    if model.is_moe:
        inner = model.moe_intermediate_size if config.parallel.expert else model.moe_intermediate_size // tp
        per_token = model.experts_per_token * (max(inner, hidden) + max(2 * inner, hidden))
        experts = element * tokens * per_token
    sampler = int(rows * model.vocab_size * _SAMPLER_BYTES.get(config.sampler, 26.0)) if not model.pooling else 0
    sampling_phase = sampler + element * tokens * hidden
    eager = 1.4 if config.enforce_eager.value else 1.0
    peak = max(eager * forward + experts, sampling_phase)
    expected = int(1.15 * peak + 0.15 * 2**30)
    return Term(
        "activations",
        Estimate(int(0.6 * expected), expected, int(1.5 * expected), "measured"),
        "1.15 × max(forward + experts, hidden + sampler) + 0.15 GiB",
        (
            Input("max_num_batched_tokens", f"{tokens:,}", str(config.max_num_batched_tokens.provenance)),
            Input("max_num_seqs", f"{config.max_num_seqs.value:,}", str(config.max_num_seqs.provenance)),
            Input("forward", format_bytes(forward), "hidden, intermediate and head sizes of the model"),
            Input("experts", format_bytes(experts), "routed experts per token"),
            Input("sampler", format_bytes(sampler), f"{config.sampler} sampler over the vocabulary"),
        ),
        (
            ("batched tokens", f"{format_bytes(max(forward, 1) / max(tokens, 1))} per token of max-num-batched-tokens"),
            ("concurrency", f"{format_bytes(sampler / max(rows, 1))} per sequence of max-num-seqs (sampler)"),
        ),
    )
