"""The fewest GPUs by trying everything: written without the search, on the facts that rules read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from planner.engines.dispatch import engine_modules
from planner.facts.admission import admission
from planner.facts.budget import budget_facts
from planner.facts.parallel import parallel_facts
from planner.plan import Plan, complete
from planner.provenance import Fact, Provenance
from planner.settings import Settings
from planner.suggest.deployment import Suggestion

SHARES = (0.80, 0.85, 0.90, 0.92, 0.94, 0.95)
BATCHES = (512, 2048, 8192)
GRAPHS = ((), ("--enforce-eager",))
OPTION = Provenance("option", "brute force")


def works_on_fewer(answer: Suggestion, gpus: int) -> str:
    """A configuration on fewer than ``gpus`` GPUs in all that starts and keeps the reserve; empty where there is none."""
    in_flight = answer.demand.in_flight
    for total in range(1, gpus):
        for size in range(1, total + 1):
            requests = -(-in_flight // (total // size))
            for tensor, pipeline, pods, expert in _layouts(size, answer.found.node.gpus):
                for share, batch, graphs in itertools.product(SHARES, BATCHES, GRAPHS):
                    if batch < requests:
                        continue
                    flags = [
                        f"--tensor-parallel-size={tensor}",
                        f"--pipeline-parallel-size={pipeline}",
                        f"--max-model-len={answer.demand.length}",
                        f"--max-num-seqs={requests}",
                        f"--max-num-batched-tokens={batch}",
                        f"--gpu-memory-utilization={share}",
                        *graphs,
                        *(["--enable-expert-parallel"] if expert else []),
                    ]
                    plan = _plan(answer, flags, size // pods, pods, requests)
                    if _works(plan, requests):
                        return f"{total} GPUs: {total // size} × {size // pods} × {pods} pods, {' '.join(flags)}"
                    if plan.budget is None or not plan.budget.ranks:
                        break  # the engine refuses the layout, whatever the settings
    return ""


def _layouts(size: int, node: int) -> Iterator[tuple[int, int, int, bool]]:
    for pods in range(1, 9):
        if size % pods or size // pods > node or (pods > 1 and size <= node):
            continue
        for tensor in range(1, size // pods + 1):
            if (size // pods) % tensor == 0:
                yield tensor, size // tensor, pods, False
                if tensor > 1:
                    yield tensor, size // tensor, pods, True


def _plan(answer: Suggestion, flags: list[str], gpus: int, pods: int, requests: int) -> Plan:
    """The plan of one copy whose whole demand is its share of the requests."""
    modules = engine_modules("vllm")
    assert modules is not None
    question = answer.question
    engine = modules.parse_argv(flags, version=question.version, model=question.model, platform=question.platform)
    workload = {
        name: value for name, value in question.settings.workload.items() if name in ("prompt_tokens", "output_tokens")
    }
    for name in ("shared_prefix_tokens", "risk"):
        if name in question.settings.workload:
            workload[name] = question.settings.workload[name]
    settings = Settings(accelerator=answer.accelerator.name, workload={**workload, "concurrency": requests})
    base = Plan(engine=engine, gpus_per_pod=Fact(gpus, OPTION), pods=pods)
    return next(iter(complete(base, settings, {})))


def _works(plan: Plan, requests: int) -> bool:
    """Whether the plan surely starts, and the rules about headroom and reserve say nothing for this many requests."""
    if plan.verdict != "fits" or parallel_facts(plan, {}).get("indivisible"):
        return False
    for rank in budget_facts(plan, {})["ranks"]:
        if rank["memory"]["outside"]["expected"] < rank["memory"]["late"]["expected"]:
            return False
    found = admission(plan)
    if found is None:
        return False
    return found.progress.required.missing == 0 and found.capacity.of_mix_at_risk >= requests
