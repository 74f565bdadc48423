"""Blocks as a promise: how many requests of which length a cache holds at a time, per engine copy and per deployment."""

from __future__ import annotations

from collections.abc import Sequence

from planner.admission.growth import Growth, blocks_of
from planner.admission.mix import Mix
from planner.record import NamedTuple


class Cache(NamedTuple):
    """The pool of one engine copy: ``blocks`` that requests may have (the null block is not among them), how a request
    takes them, and the engine's limits (sequences, tokens). ``watermark_blocks`` stay free when a request comes in beside
    others; ``prompts_wait``: whether it comes in only when its whole prompt fits. ``copies``: such pools in the
    deployment."""

    blocks: int
    growths: tuple[Growth, ...]
    max_num_seqs: int
    max_model_len: int
    max_num_batched_tokens: int
    watermark_blocks: int = 0
    prompts_wait: bool = True
    lookahead: int = 0
    prefix_caching: bool = True
    copies: int = 1


class RequestCapacity(NamedTuple):
    """What one engine copy holds at a time.

    ``full_length``: requests of the maximum length. ``of_mix``: running requests of the mix whose mean demand fills the
    cache; ``of_mix_at_risk``: as many as keep the progress reserve. ``prompts``: prompts of the mix's median length.
    ``tokens_of_mix``: tokens in the cache when ``of_mix`` requests run.
    """

    blocks: int
    full_length: float
    of_mix: float
    of_mix_at_risk: int
    prompts: float
    tokens_of_mix: int


def request_capacity(cache: Cache, mix: Mix, at_risk: int) -> RequestCapacity:
    """The capacity of one copy for a mix, of which ``at_risk`` requests keep the reserve (``reserve.progress``)."""
    usable = cache.blocks
    room = max(0, usable - mix.shared)
    mean = max(1e-9, mix.mean)
    return RequestCapacity(
        blocks=usable,
        full_length=usable / max(1, full_length_blocks(cache.growths, cache.max_model_len)),
        of_mix=room / mean,
        of_mix_at_risk=at_risk,
        prompts=room / max(1e-9, mix.median_start),
        tokens_of_mix=round(room / mean * mix.tokens_held),
    )


def full_length_blocks(growths: Sequence[Growth], max_model_len: int) -> int:
    """Blocks of one request of the maximum length while it decodes."""
    return blocks_of(growths, max_model_len)


def running_requests(cache: Cache, mix: Mix, in_flight: int | None) -> int:
    """Requests that run at a time in one copy: those that its share of the demand brings, as far as the engine lets them
    in: at most ``max_num_seqs``, and no more than a step's token budget can feed with prompts.

    A step computes at most ``max_num_batched_tokens``: one for each running request and the rest for prompts. In balance
    n requests end n / output times a step, and as many prompts come in.
    """
    most = cache.max_num_seqs
    prompt, output = mix.prompt_tokens, max(1.0, mix.output_tokens)
    fed = int(cache.max_num_batched_tokens * output / (prompt + output))
    most = max(1, min(most, fed))
    if in_flight is None:
        return most
    return max(1, min(most, share_of_copy(cache, in_flight)))


def share_of_copy(cache: Cache, in_flight: int) -> int:
    """Requests of the deployment's demand that one copy gets, spread evenly and rounded up."""
    return -(-in_flight // max(1, cache.copies))
