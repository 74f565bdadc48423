"""How long an engine takes from container start until it answers: loading, compiling, capturing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.provenance import Unknown
from planner.units import format_bytes

if TYPE_CHECKING:
    from planner.facts.weight_storage import WeightStorage
    from planner.plan import Plan

#: Seconds at best, as a rule and at worst. Imports, processes, communicators and the profile run; then compiling and capturing
#: graphs, where that is on. Calibrated on starts that were reported: a model of 1B parameters in 159 s, most of which are
#: these two (F002), and 109B parameters on four GPUs in 10 minutes, most of which is reading (F004).
_START = (15, 60, 120)
_COMPILE = {
    "v0": (5, 30, 90),  # captures, and does not compile
    "vllm": (10, 90, 240),
    "sglang": (5, 45, 300),  # DeepGEMM compiles its kernels at the first start
    "tgi": (5, 30, 120),
    "trtllm": (10, 90, 300),
}


def load_seconds(plan: Plan) -> dict[str, Any] | None:
    """Seconds until the engine answers: ``fast`` (no start is quicker), ``usual`` and ``slow``, and the ``basis`` of the three
    in words. None where the model, or where its weights lie, is not known.

    The weights of all ranks of a pod are read through the same volume. Formula: bytes / speed of the storage, before it
    bytes / speed of the download where there is one, and the engine's own start and compilation.
    """
    from planner.facts.storage import model_bytes
    from planner.facts.weight_storage import weight_storage

    config, model = plan.effective, plan.model
    if config is None or model is None:
        return None
    storage = weight_storage(plan)
    if storage is None:
        return None
    dummy = plan.engine.get("load-format") == "dummy"
    size = 0 if dummy else model_bytes(model) // max(1, plan.pods)
    runner = "v0" if plan.engine.engine == "vllm" and config.runner == "v0" else plan.engine.engine
    compiling = (0, 0, 0) if config.enforce_eager.value else _COMPILE.get(runner, _COMPILE["vllm"])
    ends = ("best", "usual", "worst")
    reading = [size / getattr(storage.speed, end) for end in ends]
    fetching = [size / getattr(storage.download, end) if storage.download else 0.0 for end in ends]
    # What is already there at the favourable end: a cache that outlives the container's restart, or the pod.
    if storage.each in ("pod", "first"):
        fetching[0] = 0.0
    if storage.each == "first":
        fetching[1] = 0.0
    totals = [int(sum(parts)) for parts in zip(reading, fetching, _START, compiling, strict=True)]
    return {"fast": totals[0], "usual": totals[1], "slow": totals[2], "basis": _basis(size, storage, compiling)}


def _basis(size: int, storage: WeightStorage, compiling: tuple[int, int, int]) -> str:
    """Where the three numbers come from."""
    speed = storage.download if storage.download and storage.each != "first" else storage.speed
    rates = f"{speed.usual / 1e9:.2g} GB/s ({speed.worst / 1e9:.2g} to {speed.best / 1e9:.2g})"
    text = f"{format_bytes(size)} from {storage.what} at {rates}, {_START[1]} s of start"
    return text + (f", {compiling[1]} s of compiling and capturing" if compiling[1] else "")


def startup_facts(plan: Plan) -> dict[str, Any]:
    """``window``: seconds until the kubelet kills a container that does not answer (absent where nothing kills it), and
    ``killer``, the probe that does. A startup probe holds the liveness probe back; without one, liveness decides."""
    container = plan.container
    facts: dict[str, Any] = {}
    if container is None:
        return facts
    seconds = load_seconds(plan) if container.probes or _has_deadline(plan) else None
    if seconds is not None:
        facts["load_seconds"] = seconds
    startup, liveness = container.probes.get("startup"), container.probes.get("liveness")
    killer = startup or liveness
    facts["has_startup_probe"] = startup is not None
    facts["has_liveness_probe"] = liveness is not None
    if killer is not None and not killer.unknown:
        facts["window"] = killer.window
        facts["killer"] = f"{killer.kind}Probe"
    if liveness is not None:
        facts["liveness_window"] = liveness.window
        facts["liveness_initial_delay"] = liveness.initial_delay
    return facts


def startup_gaps(plan: Plan, facts: dict[str, Any]) -> tuple[Unknown, ...]:
    """Why the time of a start is not known, where the model is: the engine is none that is read, or the volume is not."""
    startup = facts.get("container", {}).get("startup", {})
    if "window" not in startup or "load_seconds" in startup or any(gap.fact == "model" for gap in plan.unknown):
        return ()
    cause = next((gap for gap in plan.unknown if gap.fact == "engine.memory"), None)
    if cause is not None and plan.effective is None:
        return (cause._replace(fact="container.startup.load_seconds"),)
    reason = "it is not known on which volume, if on any, the engine looks for its weights"
    remedy = "set HF_HOME to a folder of a volume, or name a path or an id of the hub"
    return (Unknown("container.startup.load_seconds", reason, remedy, plan.position),)


def _has_deadline(plan: Plan) -> bool:
    return plan.workload is not None and plan.workload.kind in (
        "Deployment", "DeploymentConfig", "InferenceService", "LLMInferenceService"
    )  # fmt: skip
