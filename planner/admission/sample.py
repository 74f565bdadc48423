"""Requests drawn from a workload, for the simulation."""

from __future__ import annotations

from random import Random

from planner.admission.scheduler import Requests
from planner.admission.workload import Workload


def sample(workload: Workload, max_model_len: int, count: int, seed: int = 0, prefix_caching: bool = True) -> Requests:
    """``count`` requests of the mix, the same for the same seed.

    With a request rate they arrive at random (Poisson), in seconds. Otherwise they all wait from the start: with
    ``max_num_seqs`` at the concurrency, that is what so many clients do who each send the next request when one is
    answered.
    """
    random = Random(seed)
    draw = Draw(workload, max_model_len)
    clock = 0.0
    arrivals: list[float] = []
    prompts, outputs = [], []
    prefixes: list[tuple[int, int]] = []
    shared = workload.shared_prefix_tokens if prefix_caching else 0
    for _ in range(count):
        prompt, output = draw(random)
        if workload.concurrency is None and workload.rate is not None:
            clock += random.expovariate(workload.rate)
        arrivals.append(clock)
        prompts.append(prompt)
        outputs.append(output)
        if shared:
            common = random.random() < workload.shared_prefix_share
            prefixes.append((1, min(shared, prompt)) if common else (0, 0))
    return Requests(arrivals, prompts, outputs, prefixes)


class Draw:
    """One request after the other: ``Draw(workload, length)(random)`` → (prompt, output) tokens."""

    def __init__(self, workload: Workload, max_model_len: int) -> None:
        self._limit = max(2, max_model_len)
        self._mix = workload.within(self._limit)

    def __call__(self, random: Random) -> tuple[int, int]:
        if self._mix.pairs:
            return random.choice(self._mix.pairs)
        prompt = min(self._limit - 1, max(1, round(self._mix.prompts.quantile(random.random()))))
        output = max(1, round(self._mix.outputs.quantile(random.random())))
        return prompt, min(output, self._limit - prompt)
