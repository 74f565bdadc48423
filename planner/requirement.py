"""The device that an engine needs, where nothing names one: how much memory, and which products have it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from planner.provenance import from_default
from planner.record import NamedTuple
from planner.units import GIB

if TYPE_CHECKING:
    from planner.accelerators.accelerator import Accelerator
    from planner.engines.config import EngineConfig
    from planner.engines.dispatch import EngineModules
    from planner.memory.budget import MemoryBudget
    from planner.models.architecture import ModelArchitecture
    from planner.plan import Plan


class Requirement(NamedTuple):
    """What a device must offer where nothing names it: bytes of memory at the favourable, expected and unfavourable end,
    and the catalog's products that have it (by the expected end), smallest first."""

    low: int
    expected: int
    settle: Callable[[], int]
    accelerators: tuple[str, ...]
    largest_known: int
    largest_name: str

    @property
    def high(self) -> int:
        """The unfavourable end, worked out when somebody asks."""
        return self.settle()


@cache
def _offered(vendor: str) -> tuple[Accelerator, ...]:
    """Products of a vendor that a cluster may offer by chance: no boards for the edge, partitions or modified cards."""
    from planner.accelerators.catalog import all_accelerators

    return tuple(
        product
        for product in all_accelerators()
        if product.vendor == vendor and not (product.unified or product.partition or "aftermarket" in product.marketing)
    )


def _candidates(plan: Plan) -> list[Accelerator]:
    """Products that the manifest leaves open."""
    offered = _offered("amd" if plan.engine.platform == "rocm" else "nvidia")
    choice = plan.choice
    if choice is None or not (choice.excluded or choice.memory_at_least or choice.memory_at_most):
        return list(offered)
    return [
        product
        for product in offered
        if product.name not in choice.excluded
        and (not choice.memory_at_least or product.memory.high >= choice.memory_at_least)
        and (not choice.memory_at_most or product.memory.low <= choice.memory_at_most)
    ]


def smallest_device(plan: Plan, modules: EngineModules, model: ModelArchitecture) -> Requirement | None:
    """The least device memory that starts this engine, and the catalog's products that have it.

    Defaults depend on the size of the device, so that no formula gives the answer: the budget on the largest product says
    about how much is needed, and budgets on the sizes around that settle it. They are asked as the plan's own is, but for
    measured terms that are the size of a device or what it leaves.
    """
    from planner.given import DEVICE_TERMS
    from planner.plan import budget_options
    from planner.record import replace

    products = _candidates(plan)
    if not products:
        return None
    tiers = _tiers(products)
    gpus = plan.gpus_per_pod.value if plan.gpus_per_pod else None
    given = {name: term for name, term in plan.given.items() if name not in DEVICE_TERMS}
    options = budget_options(replace(plan, given=given, kv_cache_memory=None), modules, capacity=False)
    budgets: dict[int, MemoryBudget] = {}

    def asked(engine: EngineConfig, product: Accelerator) -> MemoryBudget:
        config = modules.effective(engine, model, product, gpus, plan.pods)
        return modules.budget(model, config, product, gpus_per_pod=gpus, **options)

    # What older releases of SGLang would do costs as much again for each of them; it is asked where the newest fits nowhere.
    newest = _as_stated(plan.engine) if modules.name == "sglang" else plan.engine

    def budget(tier: int) -> MemoryBudget:
        if tier not in budgets:
            budgets[tier] = asked(newest, tiers[tier])
        return budgets[tier]

    def first(start: int, accepted: tuple[str, ...]) -> int | None:
        """The smallest tier that is accepted, walking from ``start``: larger devices never do worse."""
        tier = start
        while tier < len(tiers) and budget(tier).verdict not in accepted:
            tier += 1
        while 0 < tier < len(tiers) and budget(tier - 1).verdict in accepted:
            tier -= 1
        return tier if tier < len(tiers) else None

    last = len(tiers) - 1
    if newest is not plan.engine and budget(last).verdict == "does-not-fit":
        newest = plan.engine
        budgets.clear()
    if budget(last).verdict == "unknown":
        return None
    maybe = None
    if budget(last).verdict in ("fits", "may-not-fit"):
        # Accepted is what fits at the favourable end: the least of every term on the most that a device reports.
        enough = bisect_left([tier.memory.high for tier in tiers], _needed(budget(last), "low"))
        maybe = first(min(last, enough), ("fits", "may-not-fit"))
    largest = products[-1]
    beyond = largest.memory.high + 1

    @cache
    def settle() -> int:
        if maybe is None:
            return beyond
        enough = bisect_left([tier.memory.low for tier in tiers], _needed(budget(last), "high"))
        sure = first(min(last, enough), ("fits",))
        return tiers[sure].memory.expected if sure is not None else beyond

    least = tiers[maybe].memory.expected if maybe is not None else beyond
    # Named are the products that the engine has kernels for; how much memory it takes does not hang on that.
    capable = _least_capability(plan)
    large_enough = [
        p for p in products if p.memory.expected >= least and (p.capability is None or p.capability >= capable)
    ]
    return Requirement(
        low=least,
        expected=least,
        settle=settle,
        accelerators=tuple(p.name for p in large_enough) if maybe is not None else (),
        largest_known=largest.memory.high,
        largest_name=largest.name,
    )


def _as_stated(engine: EngineConfig) -> EngineConfig:
    """The engine as if somebody had stated its release."""
    from planner.record import replace

    return replace(engine, version=from_default(engine.version.value, "the newest release known"))


def _least_capability(plan: Plan) -> tuple[int, int]:
    """The CUDA compute capability below which no release of the engine runs, or its image where that is the engine's own."""
    from planner.engines.capabilities import always, floor

    engine = plan.engine
    own = floor(engine.engine, engine.version_key, engine.image.value) if engine.image is not None else None
    return own.refused if own is not None else always(engine.engine)


def _tiers(products: list[Accelerator]) -> list[Accelerator]:
    """One product for each size of memory (to a GiB), smallest first."""
    tiers: dict[int, Accelerator] = {}
    for product in products:
        tiers.setdefault(product.memory.expected // GIB, product)
    return list(tiers.values())


def _needed(budget: MemoryBudget, end: str) -> float:
    """Bytes of device memory that the terms of a budget, at their ``low`` or ``high`` end, and one request of the maximum
    length ask for."""
    needed = 0.0
    for rank in budget.ranks:
        share = rank.bytes("requested").expected / max(1, rank.bytes("device").expected)
        names = ["weights", "activations", "non_torch"] + (["graphs"] if rank.terms["graphs"].counted else [])
        used = sum(getattr(rank.bytes(name), end) for name in names)
        request = rank.kv.blocks_per_request * rank.kv.bytes_per_block if rank.kv else 0
        needed = max(needed, (used + request) / max(share, 0.01))
    return needed
