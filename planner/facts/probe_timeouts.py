"""How long the kubelet waits for the engine's health endpoint, against how long an answer can take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.facts.environment import stated
from planner.facts.ports import engine_port, serves

if TYPE_CHECKING:
    from planner.plan import Plan
    from planner.provenance import Position
    from planner.workloads.workload import Probe

#: From this release on SGLang's ``/health`` generates a token, and looks for it once a second (http_server.py; the releases
#: before answer it from the HTTP server alone, as they all do without ``SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION``).
_GENERATES_SINCE = (0, 4, 10, 2)
_HEALTH_PATHS = ("/health", "/health_generate")
#: Seconds that an answer may take under load: a busy event loop (F137), and SGLang's own wait of 20 s at the most.
_BUSY, _GENERATING = 5, 10


def probe_timeout_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """``probe_timeouts``: of the probes that ask the engine over HTTP, the gravest whose ``timeout`` (seconds) is below
    ``enough``, with the reason; ``never`` where no answer can come in time."""
    container = plan.container
    if container is None or plan.engine.engine not in ("vllm", "sglang") or not container.probes or not serves(plan):
        return {"probe_timeouts": []}
    port = engine_port(plan)
    for kind in ("liveness", "readiness", "startup"):
        probe = container.probes.get(kind)
        if probe is None or probe.handler != "http" or "timeoutSeconds" in probe.unknown:
            continue
        if port is not None and probe.port.isdecimal() and int(probe.port) != port.value:
            continue  # something else answers, or nothing: see ports
        generates = plan.engine.engine == "sglang" and _generates(plan, probe)
        never = generates and probe.timeout <= 1
        # While the engine starts it has nothing else to do; only an answer that cannot come in time matters then.
        enough = (_GENERATING if generates else _BUSY) if kind != "startup" or never else 0
        if probe.timeout >= enough:
            continue
        stated = probe.node.get("timeoutSeconds")
        positions["container.probe_timeouts[0]"] = (stated or probe.node).key_position
        reason = (
            "SGLang generates a token for it and looks for it once a second"
            if generates
            else "the answer waits behind everything else that the server's event loop does under load"
        )
        item = {"probe": f"{kind}Probe", "timeout": probe.timeout, "enough": enough, "reason": reason, "never": never}
        return {"probe_timeouts": [item]}
    return {"probe_timeouts": []}


def _generates(plan: Plan, probe: Probe) -> bool:
    path = "/" + probe.path.partition("?")[0].strip("/")
    if path not in _HEALTH_PATHS:
        return False
    if path == "/health_generate":
        return True
    switch = stated(plan, "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION")
    if switch is not None and (not switch.known or switch.text.strip().lower() in ("0", "false", "no", "n")):
        return False
    return plan.engine.version_key >= _GENERATES_SINCE
