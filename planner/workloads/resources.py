"""Resource limits and requests, and the devices of resource claims (dynamic resource allocation)."""

from __future__ import annotations

from planner.documents.node import Node
from planner.provenance import Fact, Unknown, from_file
from planner.record import NamedTuple
from planner.units import parse_quantity
from planner.workloads import fields as f
from planner.workloads.fields import Reading
from planner.workloads.references import PodFacts
from planner.workloads.workload import ClaimRequest

#: The API server caps a quantity at the largest 64-bit integer.
_LARGEST = float(2**63 - 1)


class Resources(NamedTuple):
    """What a container may use and asks for: name → units, bytes or cores. ``claims`` are names of the pod's
    resource claims; ``unknown`` holds what is written as a placeholder or not readable."""

    limits: dict[str, Fact[float]]
    requests: dict[str, Fact[float]]
    claims: tuple[str, ...]
    unknown: tuple[Unknown, ...]


def quantity_of(node: Node, reading: Reading) -> float | None:
    """The number of a quantity field, None where it is a placeholder or (a problem) no quantity."""
    value = node.value if node.kind == "scalar" else None
    number: float | None = None
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        try:
            number = parse_quantity(str(value) if isinstance(value, int) else node.text)
        except (ValueError, OverflowError):
            number = None
    if number is None:
        if not f.is_template(node):
            hint = _hint(node.text)
            reading.problem(node, f"{node.path} must be a quantity such as 16Gi or 4, and is {f.describe(node)}{hint}")
        return None
    if number < 0:
        reading.problem(node, f"{node.path} must not be negative, and is {f.describe(node)}")
        return None
    return min(number, _LARGEST)


def read_resources(container: dict[str, Node], reading: Reading) -> Resources:
    """The ``resources`` of a container as written; requests are not filled in from limits."""
    fields = f.mapping(container, "resources", reading)
    unknown: list[Unknown] = []
    sides = []
    for side in ("limits", "requests"):
        amounts: dict[str, Fact[float]] = {}
        for name, node in f.mapping(fields, side, reading).items():
            if node.kind == "null":
                continue
            if not reading.spend(node):
                break
            number = quantity_of(node, reading)
            if number is not None and not number.is_integer() and _must_be_whole(name):
                reading.problem(
                    node, f"{node.path} must be a whole number: Kubernetes does not share out parts of {name[:80]}"
                )
                number = None
            if number is None:
                unknown.append(
                    Unknown(
                        f"{side}.{name}",
                        f"{side}.{name[:80]} is {f.describe(node)}",
                        f"write a number at {side}.{name[:80]}, or lint the manifest with its placeholders filled in",
                        node.position,
                    )
                )
            else:
                amounts[name] = from_file(number, node.position)
        sides.append(amounts)
    claims = tuple(
        name
        for claim in f.sequence(fields, "claims", reading)
        if reading.spend(claim) and (name := f.string(f.entries(claim), "name", reading))
    )
    return Resources(sides[0], sides[1], claims, tuple(unknown))


def _must_be_whole(name: str) -> bool:
    """Extended resources (a domain other than kubernetes.io) are counted in whole devices."""
    domain, slash, _ = name.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def _hint(text: str) -> str:
    """What the usual wrong spellings mean."""
    number = text.strip().rstrip("BbIi ")
    for suffix in ("K", "M", "G", "T"):
        if number.upper().endswith(suffix) and number[:-1].strip().replace(".", "", 1).isdecimal():
            return f" (write {number[:-1].strip()}{suffix}i for binary units)"
    return ""


def read_claims(
    spec: dict[str, Node], pod: PodFacts, reading: Reading
) -> tuple[tuple[tuple[str, str], ...], tuple[ClaimRequest, ...]]:
    """The pod's resource claims: (name, device class, or the name of the claim where its object is not among the
    inputs), and one ``ClaimRequest`` per device request."""
    pairs: list[tuple[str, str]] = []
    requests: list[ClaimRequest] = []
    for node in f.sequence(spec, "resourceClaims", reading):
        fields = f.entries(node)
        if not fields or not reading.spend(node):
            continue
        name = f.string(fields, "name", reading)
        source = f.mapping(fields, "source", reading) or fields  # `source:` stood around the names in v1alpha2
        template = f.string(source, "resourceClaimTemplateName", reading)
        existing = f.string(source, "resourceClaimName", reading)
        kind = "ResourceClaimTemplate" if template else "ResourceClaim"
        found = reading.objects.device_claim(kind, template or existing, pod.namespace, pod.file).found
        if found is None or not found.requests:
            pairs.append((name, template or existing))
            requests.append(ClaimRequest(name, "", "", None, node))
            continue
        if not reading.spend(node, len(found.requests)):
            break
        for request in found.requests:
            pairs.append((name, request.device_class))
            requests.append(ClaimRequest(name, request.name, request.device_class, request.devices, request.node))
    return tuple(pairs), tuple(requests)
