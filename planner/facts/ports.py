"""Which port the engine's API listens on, and what asks for it at another one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from planner.facts.flag_tables import TITLES
from planner.provenance import Fact, Unknown, assumed, from_file

if TYPE_CHECKING:
    from planner.documents.node import Node
    from planner.plan import Plan
    from planner.provenance import Position
    from planner.workloads.objects import Service, ServicePort
    from planner.workloads.workload import Container, Probe

#: Ports without ``--port``: vllm/entrypoints/openai/cli_args.py, sglang/srt/server_args.py, trtllm-serve. TGI's launcher says
#: 3000, and its images set PORT=80.
_DEFAULTS = {"vllm": 8000, "sglang": 30000, "trtllm": 8000}
_TGI_IMAGE, _TGI_PORT = "text-generation-inference", 80
#: Ports of engines and of what runs beside them that are no API: NIXL, KV events, Mooncake, rendezvous, data parallel RPC, Ray,
#: TGI's metrics, the sidecar of Istio.
_NOT_THE_API = frozenset(
    [5557, 5600, 8998, 9000, 29500, 29550, 6379, 8265, 10001, 52365, 50051, 50052, 15020, 15021, 15090]
)
#: Flags under which several servers listen, each at a port of its own, or none at a port.
_OTHERWISE = ("headless", "uds", "data-parallel-multi-port-external-lb", "grpc", "grpc-mode", "encoder-only")
_KSERVE = ("InferenceService", "ServingRuntime", "ClusterServingRuntime")
#: Programs of a start script that come to an end, or that wait.
_SHORT_LIVED_WORDS = (
    "echo printf sleep mkdir cp mv rm ln ls cat chmod chown export set cd test [ true false wait trap exec env date tee pip "
    "pip3 uv apt apt-get apk curl wget huggingface-cli hf git sed awk grep head tail tr cut nvidia-smi ulimit source . until "
    "for if hostname id whoami pwd touch find sysctl aws gsutil gcloud az ldconfig read kill pkill exit getent nslookup"
)
_SHORT_LIVED = frozenset(_SHORT_LIVED_WORDS.split())


def engine_port(plan: Plan) -> Fact[int] | None:
    """The port of the engine's API; None where it is not known, or where the engine serves none (see ``serves``)."""
    engine, container = plan.engine, plan.container
    flag = engine.flags.get("port")
    if flag is not None:
        if not flag.known or not isinstance(flag.value, int):
            return None
        place = flag.value_position or flag.position
        return from_file(flag.value, place) if place else Fact(flag.value, engine.version.provenance)
    if any(gap.fact == "engine.arguments" for gap in engine.unknown):
        return None
    image = container.image.value if container is not None and container.image else ""
    if engine.engine == "tgi":
        if "PORT" in (container.env if container else ()) or _TGI_IMAGE not in image:
            return None
        return assumed(_TGI_PORT, "PORT=80 in the image")
    port = _DEFAULTS.get(engine.engine)
    if port is None:
        return None
    return assumed(port, f"{TITLES[engine.engine]}'s default")


def _may_be_another(plan: Plan, container: Container) -> bool:
    """Whether the engine may listen elsewhere than at its default: the entrypoint of an image that is not the engine's own
    starts it, with arguments that nobody sees here."""
    from planner.engines.detect import is_engines_own

    start = plan.start
    if start is None or "port" in plan.engine.flags:
        return False
    image = container.image.value if container.image else ""
    if start.confidence != "high":
        return True
    return not start.program and start.engine in ("vllm", "sglang") and not is_engines_own(image)


def serves(plan: Plan) -> bool:
    """Whether the container's engine itself answers requests at a port, as far as its arguments tell: not where another
    program loads it (Dynamo, Ray), and not on the further pods of a group."""
    engine, start = plan.engine, plan.start
    if engine.engine not in ("vllm", "sglang", "tgi", "trtllm") or (
        start is not None and start.engine != engine.engine
    ):
        return False
    return not follows(plan) and not any(name in engine.flags for name in _OTHERWISE)


def follows(plan: Plan) -> bool:
    """Whether the pod is a further one of a group, whose first serves."""
    worker = plan.pod is not None and plan.pod.role == "worker"
    return worker or (plan.engine.get("node-rank") or 0) != 0


def port_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """``listens``: the port of the engine's API in words; ``wrong_ports``: what asks for the API at another one. Each has
    ``what`` asks, the ``effect`` and the ``kind`` (``probe``, ``service`` or ``container``). Absent where the engine's port
    is not known."""
    container = plan.container
    if container is None or not serves(plan):
        return {"wrong_ports": []}
    port = engine_port(plan)
    if port is None:
        return {} if _asked(plan, container) else {"wrong_ports": []}
    found: list[tuple[dict[str, Any], Position]] = []
    if plan.starts == 1:
        found += _probes(plan, container, port.value)
        reached, wrong = _services(plan, container, port.value)
        found += wrong + _kserve(plan, container, port.value)
        if not found and not reached:
            found += _declared(plan, container, port.value)
        if found and _other_programs(container):
            found = []
        if found and _may_be_another(plan, container):
            return {}
    for number, (_, place) in enumerate(found):
        positions[f"container.wrong_ports[{number}]"] = place
    source = port.provenance.text if port.provenance.source == "assumption" else "--port"
    return {"listens": f"{port.value} ({source})", "wrong_ports": [item for item, _ in found]}


def port_gaps(plan: Plan, facts: dict[str, Any]) -> tuple[Unknown, ...]:
    """Why the engine's port is not known, where something asks for it."""
    if plan.container is None or "wrong_ports" in facts.get("container", {}):
        return ()
    reason = "it is not known at which port the engine listens"
    for gap in plan.engine.unknown:
        if gap.fact in ("engine.flags.port", "engine.arguments"):
            reason = gap.reason
    return (Unknown("engine.port", reason, "write --port with a number", plan.position),)


def _asked(plan: Plan, container: Container) -> bool:
    return bool(container.probes or container.ports or _selecting(plan))


def _selecting(plan: Plan) -> list[Service]:
    if plan.objects is None or plan.pod is None:
        return []
    return plan.objects.reach.services_of(plan.pod)


def _probes(plan: Plan, container: Container, port: int) -> list[tuple[dict[str, Any], Position]]:
    found: list[tuple[dict[str, Any], Position]] = []
    for probe in container.probes.values():
        if probe.handler not in ("http", "tcp", "grpc") or not probe.port:
            continue
        number, said = _number(probe.port, container)
        at = (
            probe.node.get({"http": "httpGet", "tcp": "tcpSocket", "grpc": "grpc"}[probe.handler], "port") or probe.node
        )
        name = f"{probe.kind}Probe"
        if number is None:
            effect = f"and the container declares no port of that name, so that the {_consequence(probe)}"
        elif number == port or _may_listen(plan, container, number):
            continue
        else:
            effect = f"so that the {_consequence(probe)}"
        found.append(({"kind": "probe", "what": f"the {name} asks {said}", "effect": effect}, at.position))
    return found


def _consequence(probe: Probe) -> str:
    if probe.kind == "readiness":
        return "pod never becomes ready"
    return "container is killed and started again, for ever"


def _services(plan: Plan, container: Container, port: int) -> tuple[bool, list[tuple[dict[str, Any], Position]]]:
    """(whether a Service reaches the engine's port, what is wrong with those that do not)."""
    pod = plan.pod
    if pod is None:
        return False, []
    reached = False
    found: list[tuple[dict[str, Any], Position]] = []
    for service in _selecting(plan):
        wrong: list[tuple[ServicePort, str]] = []
        fits = False
        for item in service.ports:
            target = item.target.strip()
            if not target or not target.isprintable() or "$" in target or "{" in target:
                fits = True  # a placeholder may be any port
            elif target.isdecimal() and len(target) < 10:
                number = int(target)
                if number == port or number in _NOT_THE_API or _may_listen(plan, container, number):
                    fits = True
                else:
                    wrong.append((item, f"port {number}"))
            else:
                declared, owner = _named(plan, target)
                if declared is None:
                    wrong.append((item, f'the port "{target[:63]}", which no container of the pod declares,'))
                elif owner is container and declared != port and not _may_listen(plan, container, declared):
                    wrong.append((item, f'port {declared} ("{target[:63]}")'))
                else:
                    fits = True
        reached = reached or fits
        if service.headless or fits or not wrong or service.type == "ExternalName":
            continue
        item, said = wrong[0]
        at: Node = item.node.get("targetPort") or item.node.get("port") or item.node
        effect = "so that whoever calls it is refused"
        what = f"the Service {service.name[:63]} sends to {said}"
        found.append(({"kind": "service", "what": what, "effect": effect}, at.position))
    return reached, found


def _kserve(plan: Plan, container: Container, port: int) -> list[tuple[dict[str, Any], Position]]:
    """KServe sends requests to the first port that the container declares, and to 8080 where it declares none, which is also
    where Knative looks whether it is ready (kserve: pkg/controller/v1beta1/inferenceservice/reconcilers/service)."""
    workload = plan.workload
    if workload is None or workload.kind not in _KSERVE or not workload.api_version.startswith("serving.kserve.io/"):
        return []
    first = container.ports[0][1] if container.ports else 8080
    if first == port or container.node.get("image") is None or _others(plan, container) or _written(container, first):
        return []
    said = (
        f"port {first}, which the container declares"
        if container.ports
        else "port 8080, since the container declares none"
    )
    at = container.node.get("ports", 0, "containerPort") or container.node.get("name") or container.node
    effect = "so that requests are refused and the pod may never become ready"
    return [({"kind": "service", "what": f"KServe sends to {said}", "effect": effect}, at.position)]


def _declared(plan: Plan, container: Container, port: int) -> list[tuple[dict[str, Any], Position]]:
    """Declared ports of which none is the engine's."""
    numbers = [number for _, number in container.ports]
    if not numbers or port in numbers or _others(plan, container):
        return []
    if any(number in _NOT_THE_API or _written(container, number) for number in numbers):
        return []
    node = container.node.get("ports", 0)
    at = (node.get("containerPort") if node else None) or container.node
    effect = "and what goes by it (a Service's named port, a NetworkPolicy, a person) asks in vain"
    what = f"the container declares port {numbers[0]}"
    return [({"kind": "container", "what": what, "effect": effect}, at.position)]


def _number(port: str, container: Container) -> tuple[int | None, str]:
    """A probe's port as a number (None for a name that the container does not declare), and in words."""
    if port.isdecimal() and len(port) < 10:
        return int(port), f"port {int(port)}"
    number = next((number for name, number in container.ports if name == port), None)
    return number, f'the port "{port[:63]}"' if number is None else f'port {number} ("{port[:63]}")'


def _named(plan: Plan, name: str) -> tuple[int | None, Container | None]:
    """A port by its name among the containers of the pod."""
    for container in plan.pod.containers if plan.pod else ():
        for declared, number in container.ports:
            if declared == name:
                return number, container
    return None, None


def _others(plan: Plan, container: Container) -> list[Container]:
    """The containers that run beside the engine's; they share its ports."""
    pod = plan.pod
    return [
        other
        for other in (pod.containers if pod else ())
        if other is not container and (not other.init or other.sidecar)
    ]


def _may_listen(plan: Plan, container: Container, port: int) -> bool:
    """Whether something else in the pod may listen on a port: another container that declares it or declares none, or
    whatever is told the number."""
    if _written(container, port):
        return True
    for other in _others(plan, container):
        if not other.ports or any(number == port for _, number in other.ports) or _written(other, port):
            return True
    return False


def _written(container: Container, port: int) -> bool:
    """Whether a port's number stands in the container's command, arguments or variables."""
    pattern = rf"(?<!\d){port}(?!\d)"
    texts = [arg.text for arg in container.words]
    texts += [variable.value for variable in container.env.values() if variable.value]
    return any(re.search(pattern, text[:200_000]) for text in texts)


def _other_programs(container: Container) -> bool:
    """Whether the container's script starts something else that may listen."""
    from planner.engines.command import program_starts
    from planner.engines.detect import classify

    for start in program_starts(container).starts:
        texts = start.texts
        if not texts or start.entrypoint or texts[0].rsplit("/", 1)[-1] in _SHORT_LIVED:
            continue
        match = classify(texts)
        if match is None or not match.engine:
            return True
    return False
