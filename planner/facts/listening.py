"""Whether anything outside of the container can reach the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.facts.ports import follows

if TYPE_CHECKING:
    from planner.plan import Plan
    from planner.provenance import Position

#: Engines that listen on the loopback interface unless told otherwise (sglang/srt/server_args.py; ``trtllm-serve``), by the
#: flag that tells them. vLLM's and TGI's default is every interface.
_DEFAULTS = {"sglang": ("host", "127.0.0.1"), "trtllm": ("host", "localhost")}


def listening_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """``loopback_only``: nothing tells the engine to listen elsewhere, and somebody outside means to reach it. Absent where
    the flag's value, or the command line, is not known."""
    engine, container, pod = plan.engine, plan.container, plan.pod
    default = _DEFAULTS.get(engine.engine)
    if default is None or container is None or pod is None or not engine.version_key:
        return {"loopback_only": False} if engine.engine in ("vllm", "tgi") else {}
    if plan.start is not None and plan.start.engine != engine.engine:
        return {"loopback_only": False}  # Dynamo's workers are reached through its own frontend
    name, host = default
    flag = engine.flags.get(name)
    if flag is not None:
        return {"loopback_only": False} if flag.known else {}
    if any(gap.fact == "engine.arguments" for gap in engine.unknown):
        return {}
    del positions
    others = [other for other in pod.containers if other is not container and not other.init]
    probed = any(probe.handler in ("http", "tcp", "grpc") for probe in container.probes.values())
    # A proxy in the same pod may be the one that is reached from outside.
    reached = probed or not others
    return {"loopback_only": reached and not follows(plan), "loopback_host": host}
