"""Facts of devices that several processes use: engines of one pod on the same devices, time slices, limits of vGPU layers.

An engine takes its share of the whole device that it sees, whoever else uses it. Certain are engines of one pod that nothing
keeps apart; possible are other pods on a time-sliced device, whose number and needs no manifest tells.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from planner.facts.environment import script_text
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.engines.config import EngineConfig
    from planner.plan import Beside, Plan
    from planner.workloads.workload import Container

_FLAGS = {"vllm": "gpu-memory-utilization", "sglang": "mem-fraction-static", "tgi": "cuda-memory-fraction"}
#: Labels that say how many pods may share a device.
_CLIENTS = ("nvidia.com/gpu.replicas", "cloud.google.com/gke-max-shared-clients-per-gpu")
_STRATEGIES = (
    "nvidia.com/gpu.sharing-strategy",
    "nvidia.com/gpu-sharing-strategy",
    "cloud.google.com/gke-gpu-sharing-strategy",
)
#: A context of each process and what it loads, as a part of a device of unknown size: 0.3 GiB of 24.
_CONTEXT = 0.0125
_HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def sharing_facts(plan: Plan) -> dict[str, Any]:
    """``container.sharing``: the parts of a device that its processes ask for, at the least (``least``) and as expected
    (``total``), and what they may (``most``, 1 for a whole device); ``certain`` where they surely share it. ``text`` says who
    they are. Empty where nothing is shared; without ``total`` where a share is not known."""
    if plan.container is None or plan.pod is None:
        return {}
    return _beside(plan) or _limited(plan) or _sliced(plan)


# -- engines of one pod --------------------------------------------------------------------------------------------------


def _beside(plan: Plan) -> dict[str, Any]:
    """Engines of the same pod on the same devices; said once, by the first of them."""
    together = [(other, how) for other in plan.beside if (how := _same_devices(plan, other))]
    if not together or any(other.earlier for other, _ in together):
        return {}
    certain = all(how == "certain" for _, how in together) and all(
        engine.engine == "vllm" for engine in (plan.engine, *(other.engine for other, _ in together))
    )
    names = " and ".join(
        f"another {other.engine.engine} that its script starts"
        if other.container is plan.container
        else f"{other.engine.engine} in container {other.container.name}"
        for other, _ in together[:4]
    )
    facts: dict[str, Any] = {"certain": certain, "most": 1.0, "advice": _split_advice(plan, 1 + len(together))}
    shares = [share_of(plan.engine, plan), *(share_of(other.engine) for other, _ in together)]
    known = [share for share in shares if share is not None]
    if len(known) < len(shares):
        return facts | {"text": f"{names} may use the same devices"}
    context = _context(plan)
    facts["least"] = sum(known) + len(known) * context / 2
    facts["total"] = sum(known) + len(known) * context
    facts["text"] = (
        f"It shares its devices with {names}: together they ask for {' + '.join(f'{share:g}' for share in known)} of each "
        "device, and for their contexts beside"
    )
    return facts


def _same_devices(plan: Plan, other: Beside) -> str:
    """``certain`` or ``possible`` where both use the same devices, empty where they do not or where that is not known."""
    own = plan.container
    if own is None or plan.start is None:
        return ""
    apart = _kept_apart(plan, other)
    if apart:
        return ""
    if other.container is own:
        # A script that stops one server before it starts the next uses the devices in turn.
        return "" if _takes_turns(own) else "certain"
    if _common_claim(own, other.container, plan):
        return "certain"
    from planner.accelerators.resources import device_request

    mine, theirs = (device_request(container, plan.pod) for container in (own, other.container))
    sees = [_visible(container) for container in (own, other.container)]
    if mine is None and theirs is None:
        return "certain" if sees[0] and sees[0] == sees[1] else ""
    if (mine is None) != (theirs is None):
        without = sees[0] if mine is None else sees[1]
        return "possible" if without == "all" else ""
    return ""


def _kept_apart(plan: Plan, other: Beside) -> bool:
    """Whether variables or flags give the two different devices, or something that cannot be told."""
    devices = []
    for engine, container, start in (
        (plan.engine, plan.container, plan.start),
        (other.engine, other.container, other.start),
    ):
        if container is None or start is None:
            return True
        named: set[str] | None = None
        for name in _HIDING:
            word = dict(start.environment).get(name)
            given = container.env.get(name)
            text = word.text if word is not None else given.value if given is not None else None
            if (word is not None and not word.known) or (given is not None and given.value is None):
                return True
            if text is not None and not text.strip():
                return True  # no device, or a variable that something else sets
            if text is not None:
                named = {part.strip() for part in text.split(",")}
        base = engine.flags.get("base-gpu-id")
        if base is not None:
            if not isinstance(base.value, int):
                return True
            named = {str(base.value)}
        devices.append(named)
    first, second = devices
    if first is None and second is None:
        return False
    # One of them sees a part of what the other sees: which part the other takes is not known unless it is named.
    return first is None or second is None or not (first & second)


def _takes_turns(container: Container) -> bool:
    script = script_text(container)
    return bool(re.search(r"\b(kill|pkill|killall)\b", script)) or len(re.findall(r"\bwait\b", script)) > 1


def _common_claim(own: Container, other: Container, plan: Plan) -> bool:
    """Whether both containers use the same request of one resource claim for accelerators."""
    from planner.accelerators.resources import device_request

    common = set(own.claims) & set(other.claims)
    if not common or device_request(own, plan.pod) is None or device_request(other, plan.pod) is None:
        return False
    for claim in common:
        mine, theirs = _requests_of(own, claim), _requests_of(other, claim)
        if not mine or not theirs or mine & theirs:
            return True
    return False


def _requests_of(container: Container, claim: str) -> set[str]:
    """The requests of a claim that a container names; none: all of them."""
    entries = container.node.get("resources", "claims")
    if entries is None or entries.kind != "sequence":
        return set()
    named = set()
    for entry in entries:
        name, request = entry.get("name"), entry.get("request")
        if name is not None and name.text == claim:
            if request is None:
                return set()
            named.add(request.text)
    return named


def _visible(container: Container) -> str:
    """NVIDIA_VISIBLE_DEVICES where it gives the container devices past the device plugin."""
    variable = container.env.get("NVIDIA_VISIBLE_DEVICES")
    value = (variable.value or "").strip() if variable is not None else ""
    return "" if value in ("void", "none") else value


# -- slices and limits ---------------------------------------------------------------------------------------------------


def _limited(plan: Plan) -> dict[str, Any]:
    """A limit that a vGPU layer sets below what the engine takes whatever it is told to be the device's size: weights and a
    cache of a stated size; and the fraction of a scheduler that limits nothing."""
    config, budget, device = plan.effective, plan.budget, plan.accelerator
    if plan.gpu_kind == "vgpu" and config is not None and budget is not None and budget.ranks and device is not None:
        if config.kv_cache_memory_bytes is None or device.memory.basis != "given":
            return {}
        rank = budget.ranks[budget.tightest]
        parts = [rank.bytes(name) for name in ("weights", "activations", "non_torch", "kv_available")]
        limit = max(1, device.memory.expected)
        taken = sum(part.expected for part in parts)
        return {
            "certain": True,
            "most": 1.0,
            "least": sum(part.low for part in parts) / limit,
            "total": taken / limit,
            "text": f"Weights and the cache of a stated size take {format_gib(taken)} of the {format_gib(limit)} that the "
            "container may use",
            "advice": "Lower --kv-cache-memory-bytes, or raise the limit of the device memory.",
        }
    fraction = _unenforced_fraction(plan)
    share = share_of(plan.engine, plan)
    if fraction is None or share is None:
        return {}
    return {
        "certain": False,
        "most": fraction,
        "least": share,
        "total": share,
        "text": f"The scheduler books {fraction:g} of a device (gpu-fraction) and does not enforce it; the engine takes "
        f"{share:g} of the whole device",
        "advice": f"Set --{_FLAGS.get(plan.engine.engine, 'gpu-memory-utilization')} to {fraction:g} or less, or book more.",
    }


def _unenforced_fraction(plan: Plan) -> float | None:
    """The ``gpu-fraction`` of KAI, which books a part of a device and leaves it to the process to keep to it."""
    pod = plan.pod
    if pod is None or pod.spec is None:
        return None
    scheduler = pod.spec.get("schedulerName")
    stated = pod.annotations.get("gpu-fraction")
    if scheduler is None or "kai" not in scheduler.text or stated is None:
        return None
    try:
        value = float(stated.value)
    except ValueError:
        return None
    return value if 0 < value < 1 else None


def _sliced(plan: Plan) -> dict[str, Any]:
    """Other pods on a time-sliced device."""
    choice = plan.choice
    if choice is None or not choice.shared or plan.gpu_kind in ("vgpu", "") or plan.engine.engine not in _FLAGS:
        return {}
    labels = _labels(plan)
    if any(labels.get(name, "").lower() == "mps" for name in _STRATEGIES):
        return {}  # each client is limited to its part
    stated = next((labels[name] for name in _CLIENTS if labels.get(name, "")[:4].isdecimal()), "")
    clients = int(stated) if stated.isdecimal() and len(stated) <= 4 and int(stated) > 1 else 0
    most = 1 / (clients or 2)
    facts: dict[str, Any] = {"certain": False, "most": most}
    flag = _FLAGS[plan.engine.engine]
    part = f"{int(100 * most) / 100:g}"
    facts["advice"] = f"Set --{flag} to {part} or less, so that " + (
        f"{clients} pods fit" if clients else "a second pod fits, and to less for more pods; or ask for a whole device"
    )
    who = f"up to {clients} pods" if clients else "other pods"
    share = share_of(plan.engine, plan)
    if share is None:
        return facts | {"text": f"The device is time-sliced: {who} use it"}
    facts.update(
        least=share,
        total=share,
        text=f"The device is time-sliced: {who} use it, and this engine takes {share:g} of it",
    )
    return facts


def _labels(plan: Plan) -> dict[str, str]:
    """Labels of the node that the pod asks for."""
    pod = plan.pod
    if pod is None:
        return {}
    found = {name: fact.value for name, fact in pod.node_selector.items()}
    for term in pod.affinity:
        found.update({key: values[0] for key, operator, values, _ in term if operator == "In" and len(values) == 1})
    return found


# -- shares --------------------------------------------------------------------------------------------------------------


def share_of(engine: EngineConfig, plan: Plan | None = None) -> float | None:
    """The part of a device that an engine takes, its default where nothing states it; None where it is not known."""
    flag = engine.flags.get(_FLAGS.get(engine.engine, ""))
    if engine.engine not in _FLAGS or (any(gap.fact == "engine.arguments" for gap in engine.unknown) and flag is None):
        return None
    if "kv-cache-memory-bytes" in engine.flags or "num-gpu-blocks-override" in engine.flags:
        return None
    if flag is not None:
        known = isinstance(flag.value, (int, float)) and not isinstance(flag.value, bool) and 0 < flag.value <= 1
        return float(flag.value) if known else None
    if plan is not None and plan.effective is not None:
        return plan.effective.gpu_memory_utilization.value
    if engine.engine == "vllm":
        return 0.92 if engine.version_key >= (0, 20) and not engine.version_assumed else 0.9
    return None


def _context(plan: Plan) -> float:
    """A process's context as a part of the device."""
    if plan.accelerator is None:
        return _CONTEXT
    from planner.memory.coefficients import CONTEXT_GIB
    from planner.units import GIB

    return CONTEXT_GIB[1] * GIB / max(1, plan.accelerator.memory.expected)


def _split_advice(plan: Plan, count: int) -> str:
    flag = _FLAGS.get(plan.engine.engine, "gpu-memory-utilization")
    part = int(95 / count) / 100
    return (
        f"Give each its part (--{flag} {part:g} for {count} alike), or its own devices: containers that each ask for GPUs, or "
        "CUDA_VISIBLE_DEVICES for each process."
    )
