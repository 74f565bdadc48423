"""Does the stated risk hold? The quantile policy's blocks against the simulated scheduler.

    python -m tests.admission.risk_validation [SEEDS]

A run starts in the steady state (every running request at a random point of its way, long ones as often as they are met)
and lasts as long as the running set takes to turn over once; each that ends is replaced by the next. Prints, for every mix
and number of requests, the blocks that the policy asks for at a risk, and the share of runs with a preemption.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import accumulate
from random import Random

from planner.admission.growth import Growth
from planner.admission.lengths import read_lengths
from planner.admission.mix import mix_of
from planner.admission.risk import blocks_needed
from planner.admission.sample import Draw
from planner.admission.scheduler import Requests, Scheduler, simulate
from planner.admission.workload import Workload

LENGTH = 16384
BLOCK = 16
MIXES = {
    "uniform": ({"histogram": [[50, 0], [800, 1]]}, {"histogram": [[50, 0], [800, 1]]}),
    "chat": ("p50=450,p95=2400,max=8000", "p50=220,p95=820,max=4000"),
    "documents": ("min=500,p5=2000,p50=3300,p95=5400,max=8000", "p50=140,p95=720,max=2000"),
    "reasoning": ("p50=150,p95=340,max=1000", "p50=1500,p95=5600,max=12000"),
    "heavy-tailed": ("min=80,p50=150,p90=650,p99=5000,max=8000", "min=40,p50=75,p90=325,p99=2600,max=8000"),
}


def workload(name: str) -> Workload:
    """A mix by name."""
    prompts, outputs = MIXES[name]
    return Workload(read_lengths(prompts), read_lengths(outputs))


class Runs:
    """Runs of one mix from the steady state."""

    def __init__(self, name: str) -> None:
        self.mix = workload(name)
        self.draw = Draw(self.mix, LENGTH)
        random = Random(99)
        self.pool = [self.draw(random) for _ in range(30_000)]
        self.met = list(accumulate(output for _, output in self.pool))
        self.turnover = round(self.met[-1] / len(self.pool))

    def preempted(self, running: int, blocks: int, seed: int) -> bool:
        """Whether a run with this many requests and usable blocks has a preemption."""
        random = Random(seed)
        prompts, outputs = [], []
        for prompt, output in random.choices(self.pool, cum_weights=self.met, k=running):
            age = random.randrange(output)
            prompts.append(prompt + age)
            outputs.append(output - age)
        for _ in range(4 * running):
            prompt, output = self.draw(random)
            prompts.append(prompt)
            outputs.append(output)
        requests = Requests([0] * len(prompts), prompts, outputs)
        scheduler = Scheduler(blocks + 1, BLOCK, running, 10**9, LENGTH)
        return simulate(requests, scheduler, until=self.turnover).preemptions > 0

    def share(self, running: int, risk: float, seeds: Sequence[int]) -> tuple[int, float]:
        """(blocks that the policy asks for, share of runs with a preemption)."""
        mix = mix_of(self.mix, (Growth(BLOCK),), LENGTH)
        blocks = blocks_needed(mix, running, risk)
        return blocks, sum(self.preempted(running, blocks, seed) for seed in seeds) / len(seeds)


def main(seeds: int) -> None:
    """Prints the table."""
    print(f"{'mix':<14}{'requests':>9}{'risk':>7}{'blocks':>8}{'measured':>10}{'ratio':>7}   ({seeds} seeds)")
    for name in MIXES:
        runs = Runs(name)
        for running in (8, 16, 32, 64):
            for risk in (0.01, 0.05):
                blocks, share = runs.share(running, risk, range(seeds))
                print(f"{name:<14}{running:>9}{risk:>7}{blocks:>8}{share:>10.3f}{share / risk:>7.2f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
