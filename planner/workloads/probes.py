"""Startup, liveness and readiness probes with the defaults of the API server."""

from __future__ import annotations

from planner.documents.node import Node
from planner.workloads import fields as f
from planner.workloads.fields import Reading
from planner.workloads.workload import Probe

_KINDS = {"startup": "startupProbe", "liveness": "livenessProbe", "readiness": "readinessProbe"}

# Source: SetDefaults_Probe in kubernetes/pkg/apis/core/v1/defaults.go, where 0 counts as not set.
_DEFAULTS = {"initialDelaySeconds": 0, "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3}

_HANDLERS = {"httpGet": "http", "tcpSocket": "tcp", "exec": "exec", "grpc": "grpc"}


def read_probes(container: dict[str, Node], reading: Reading) -> dict[str, Probe]:
    """The probes of a container by kind: ``startup``, ``liveness``, ``readiness``."""
    probes: dict[str, Probe] = {}
    for kind, key in _KINDS.items():
        node = container.get(key)
        fields = f.mapping(container, key, reading)
        if node is not None and fields:
            probes[kind] = _probe(kind, node, fields, reading)
    return probes


def _probe(kind: str, node: Node, fields: dict[str, Node], reading: Reading) -> Probe:
    numbers: dict[str, int] = {}
    unknown: list[str] = []
    for name, default in _DEFAULTS.items():
        value = f.integer(fields, name, reading, default)
        if value is None:
            unknown.append(name)
        elif value < 0:
            wrong = fields[name]
            reading.problem(wrong, f"{wrong.path} must not be negative, and is {f.describe(wrong)}")
            value = default
        numbers[name] = value or default
    handler = next((key for key in _HANDLERS if key in fields and fields[key].kind != "null"), "")
    action = f.mapping(fields, handler, reading) if handler else {}
    return Probe(
        kind,
        node,
        numbers["initialDelaySeconds"],
        numbers["periodSeconds"],
        numbers["timeoutSeconds"],
        numbers["failureThreshold"],
        _HANDLERS.get(handler, "none"),
        _port(action, reading),
        f.string(action, "path", reading) if handler == "httpGet" else "",
        tuple(unknown),
    )


def _port(action: dict[str, Node], reading: Reading) -> str:
    """The port as a number in digits or as a name; empty where there is none or it cannot be known."""
    node = action.get("port")
    if node is None or node.kind == "null":
        return ""
    if node.kind != "scalar" or isinstance(node.value, (bool, float)):
        f.integer_of(node, reading)
        return ""
    text = node.text
    if isinstance(node.value, str) and text.isdecimal():
        reading.problem(
            node,
            f'{node.path} is the string "{text[:20]}", which Kubernetes takes for a port name and refuses '
            "(a name needs a letter): write the number without quotes",
        )
    # digits beyond any port's are no number to compare with (and Python refuses to read thousands of them)
    return "" if f.is_placeholder(text) or (text.isdecimal() and len(text) > 9) else text
