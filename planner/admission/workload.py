"""The demand that a deployment has to meet: how many requests at a time, how long, with what in common.

Read from the ``planner/workload`` annotation, from ``planner.yaml`` or from options; assumed from ``max-model-len`` where
nobody says it (RULES.md, "Demand").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, isfinite, sqrt
from typing import Any

from planner.admission.lengths import BadLengths, Lengths, from_quantiles, read_lengths, tokens_of
from planner.record import NamedTuple

#: The share of turnovers of the running set in which a preemption is accepted, where nobody says it.
DEFAULT_RISK = 0.01
#: Time of one output token where a request rate is given without one: between the 20 and 50 ms that most engines run at.
ASSUMED_SECONDS_PER_TOKEN = 0.03
#: Strata of prompts and of outputs that stand for their distributions.
_CELLS = 12
_PAIRS = 256
_MOST_CONCURRENCY = 10**7

#: What is kept back for requests that have been let in, from the least to the most; see ``planner.admission.reserve``.
POLICIES = ("next-step", "finish-longest", "quantile", "worst-case")

KEYS = (
    "concurrency", "requests_per_second", "seconds_per_token", "seconds_per_request", "prompt_tokens", "output_tokens",
    "shared_prefix_tokens", "shared_prefix_share", "risk", "trace", "policy",
)  # fmt: skip


class BadWorkload(ValueError):  # noqa: N818 - the description is wrong, not the program
    """What is wrong with a workload, for people; starts with the key that is wrong."""


class Weighted(NamedTuple):
    """Requests of one length: prompt and output tokens, and their share of all requests."""

    prompt: int
    output: int
    weight: float


class Workload(NamedTuple):
    """Demand on the whole deployment.

    ``concurrency``: requests in flight at a time; or ``rate`` requests a second, each ``seconds_per_token`` × its output
    or ``seconds_per_request`` long. With neither the running set is what the engine lets in. ``pairs``: (prompt, output)
    of a trace, which then says the lengths. ``policy``: one of ``POLICIES`` that the reserve is held to; empty for the larger of
    ``finish-longest`` and ``quantile``. ``assumed``: which of these nobody stated. ``source``: where it comes from.
    """

    prompts: Lengths
    outputs: Lengths
    concurrency: int | None = None
    rate: float | None = None
    seconds_per_token: float | None = None
    seconds_per_request: float | None = None
    shared_prefix_tokens: int = 0
    shared_prefix_share: float = 1.0
    risk: float = DEFAULT_RISK
    policy: str = ""
    pairs: tuple[tuple[int, int], ...] = ()
    assumed: tuple[str, ...] = ()
    source: str = ""

    @property
    def lengths_assumed(self) -> bool:
        """Whether the lengths are those that are taken for want of better ones."""
        return "prompt_tokens" in self.assumed and "output_tokens" in self.assumed

    def within(self, max_model_len: int) -> Workload:
        """The workload as an engine of this maximum length takes it."""
        limit = max(2, max_model_len)
        return self._replace(
            prompts=self.prompts.within(limit - 1),
            outputs=self.outputs.within(limit - 1),
            pairs=tuple(
                (min(max(1, p), limit - 1), max(1, min(o, limit - min(max(1, p), limit - 1)))) for p, o in self.pairs
            ),
        )

    def requests(self, max_model_len: int) -> list[Weighted]:
        """Strata of the mix, weights adding up to 1; outputs end where the maximum length does.

        Prompts and outputs are independent unless a trace says how they go together.
        """
        limit = max(2, max_model_len)
        mix = self.within(limit)
        if mix.pairs:
            pairs = thinned_pairs(mix.pairs, _PAIRS)
            return [Weighted(p, o, 1 / len(pairs)) for p, o in pairs]
        found = []
        outputs = mix.outputs.grid(_CELLS)
        for prompt, share in mix.prompts.grid(_CELLS):
            tokens = min(limit - 1, max(1, round(prompt)))
            found += [
                Weighted(tokens, min(limit - tokens, max(1, round(output))), share * weight)
                for output, weight in outputs
            ]
        return found

    def in_flight(self, max_model_len: int) -> int | None:
        """Requests in flight on average: as stated, or by Little's law from rate and service time; None for neither."""
        if self.concurrency is not None:
            return self.concurrency
        if self.rate is None:
            return None
        if self.seconds_per_request is not None:
            seconds = self.seconds_per_request
        else:
            per_token = self.seconds_per_token or ASSUMED_SECONDS_PER_TOKEN
            seconds = per_token * sum(r.output * r.weight for r in self.requests(max_model_len))
        return min(_MOST_CONCURRENCY, max(1, ceil(self.rate * seconds)))

    def at_most_in_flight(self, max_model_len: int) -> int | None:
        """Requests in flight that are exceeded one time in twenty: random arrivals at a rate make their number a Poisson
        variable, while a stated concurrency is already the number to plan for."""
        mean = self.in_flight(max_model_len)
        if mean is None or self.concurrency is not None:
            return mean
        return ceil(mean + 1.645 * sqrt(mean))

    def describe(self) -> str:
        """One line for people."""
        if self.concurrency is not None:
            return f"{self.concurrency:,} requests at a time, {self.describe_lengths()}"
        if self.rate is not None:
            return f"{self.rate:.4g} requests a second, {self.describe_lengths()}"
        return self.describe_lengths()

    def describe_lengths(self) -> str:
        """The lengths alone."""
        lengths = f"prompts {self.prompts}; outputs {self.outputs} tokens"
        if self.pairs:
            lengths = f"{len(self.pairs):,} requests of a trace"
        if not self.shared_prefix_tokens:
            return lengths
        share = "" if self.shared_prefix_share == 1 else f" in {self.shared_prefix_share:.0%} of them"
        return f"{lengths}; the first {self.shared_prefix_tokens:,} tokens in common{share}"


def thinned_pairs(pairs: Sequence[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """``count`` of the pairs, evenly over those in order of their total length, the longest included."""
    if len(pairs) <= count:
        return list(pairs)
    ordered = sorted(pairs, key=lambda pair: (pair[0] + pair[1], pair))
    step = len(ordered) / count
    return [ordered[min(len(ordered) - 1, int((number + 0.5) * step))] for number in range(count - 1)] + [ordered[-1]]


def assumed_workload(max_model_len: int) -> Workload:
    """What is taken where nobody states a workload: half of the length for prompts, half for outputs, with the median at
    1/16, the 95th percentile at 1/4 and the maximum at all of it (RULES.md, "Demand")."""
    half = max(1.0, max_model_len / 2)
    lengths = from_quantiles({0.5: max(1.0, half / 16), 0.95: max(1.0, half / 4), 1.0: half})
    return Workload(
        lengths, lengths, assumed=("prompt_tokens", "output_tokens", "concurrency"), source="assumed from max-model-len"
    )


def read_workload(
    value: Any,
    max_model_len: int,
    source: str = "",
    pairs: Sequence[tuple[int, int]] | None = None,
    trace_rate: float | None = None,
) -> Workload:
    """The workload that a mapping describes (plain data, as YAML or JSON give it).

    Lengths that it does not state are the assumed ones. ``pairs``: the requests of the trace that it names, which the
    caller has read: a file's name in a manifest is nothing to follow; ``trace_rate``: its requests a second, which count where
    neither a concurrency nor a rate is stated. Raises ``BadWorkload``.
    """
    if not isinstance(value, Mapping):
        raise BadWorkload(
            'a workload is a mapping, such as {"concurrency": 32, "prompt_tokens": {"p50": 800, "max": 4000}, '
            '"output_tokens": {"p50": 200, "max": 1000}}'
        )
    stated = {str(key).strip().replace("-", "_"): item for key, item in value.items() if item is not None}
    for key in stated:
        if key not in KEYS:
            raise BadWorkload(f"{key[:40]!r} is no key of a workload; known are {', '.join(KEYS)}")
    base = assumed_workload(max_model_len)
    if "trace" in stated and pairs is None:
        raise BadWorkload("trace: a file is read only where planner.yaml or --trace names it")
    if "concurrency" in stated and "requests_per_second" in stated:
        # RULES.md shows both in one object; the number in flight is then what was measured.
        stated.pop("requests_per_second")
    concurrency = rate = None
    if "concurrency" in stated:
        number = _positive(stated, "concurrency")
        if number != int(number) or number > _MOST_CONCURRENCY:
            raise BadWorkload(f"concurrency: {stated['concurrency']} is no number of requests")
        concurrency = int(number)
    if "requests_per_second" in stated:
        rate = _positive(stated, "requests_per_second")
    elif concurrency is None and trace_rate:
        rate = trace_rate
    policy = str(stated.get("policy", "")).strip().lower().replace("_", "-")
    if policy and policy not in POLICIES:
        raise BadWorkload(f"policy: {policy[:40]!r} is none; there are {', '.join(POLICIES)}")
    risk = _share(stated, "risk", DEFAULT_RISK)
    if not 1e-9 <= risk <= 0.5:
        raise BadWorkload(f"risk: {risk:g} must be above 0 and at most 0.5; 0.01 is one in a hundred")
    assumed = []
    if concurrency is None and rate is None:
        assumed.append("concurrency")
    if not pairs:
        assumed += [key for key in ("prompt_tokens", "output_tokens") if key not in stated]
    per_token = _positive(stated, "seconds_per_token") if "seconds_per_token" in stated else None
    per_request = _positive(stated, "seconds_per_request") if "seconds_per_request" in stated else None
    if rate is not None and per_token is None and per_request is None:
        assumed.append("seconds_per_token")
    return Workload(
        prompts=_lengths(stated, "prompt_tokens", base.prompts),
        outputs=_lengths(stated, "output_tokens", base.outputs),
        concurrency=concurrency,
        rate=rate,
        seconds_per_token=per_token,
        seconds_per_request=per_request,
        shared_prefix_tokens=_tokens(stated, "shared_prefix_tokens"),
        shared_prefix_share=_share(stated, "shared_prefix_share", 1.0),
        risk=risk,
        policy=policy,
        pairs=tuple(pairs or ()),
        assumed=tuple(assumed),
        source=source,
    )


def _lengths(stated: Mapping[str, Any], key: str, default: Lengths) -> Lengths:
    if key not in stated:
        return default
    try:
        return read_lengths(stated[key])
    except BadLengths as error:
        raise BadWorkload(f"{key}: {error}") from None


def _tokens(stated: Mapping[str, Any], key: str) -> int:
    try:
        return int(tokens_of(stated.get(key, 0)))
    except BadLengths as error:
        raise BadWorkload(f"{key}: {error}") from None


def _positive(stated: Mapping[str, Any], key: str) -> float:
    number = _real(stated[key], key)
    if number <= 0:
        raise BadWorkload(f"{key}: {stated[key]} must be more than zero")
    return number


def _share(stated: Mapping[str, Any], key: str, default: float) -> float:
    if key not in stated:
        return default
    value = stated[key]
    percent = isinstance(value, str) and value.strip().endswith("%")
    number = _real(value.strip()[:-1] if percent else value, key) / (100 if percent else 1)
    if not 0 <= number <= 1:
        raise BadWorkload(f"{key}: {str(value)[:40]} must be from 0 to 1")
    return number


def _real(value: Any, key: str) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ValueError
        number = float(value)
        if not isfinite(number):
            raise ValueError
    except (ValueError, OverflowError):
        raise BadWorkload(f"{key}: {str(value)[:40]!r} is no number") from None
    return number
