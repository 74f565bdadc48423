"""Which nodes a pod can land on: node selector, required node affinity, tolerations."""

from __future__ import annotations

from planner.documents.node import Node
from planner.provenance import Position
from planner.workloads import fields as f
from planner.workloads.fields import Reading

Requirement = tuple[str, str, tuple[str, ...], Position]


def read_affinity(spec: dict[str, Node], reading: Reading) -> tuple[tuple[Requirement, ...], ...]:
    """The terms of the required node affinity (alternatives), each a tuple of (key, operator, values, position) that
    must all hold. Empty terms match no node and are left out; preferred affinity binds nothing and is not read."""
    node_affinity = f.mapping(f.mapping(spec, "affinity", reading), "nodeAffinity", reading)
    required = f.mapping(node_affinity, "requiredDuringSchedulingIgnoredDuringExecution", reading)
    terms: list[tuple[Requirement, ...]] = []
    for term in f.sequence(required, "nodeSelectorTerms", reading):
        requirements = []
        for expression in f.sequence(f.entries(term), "matchExpressions", reading):
            if not reading.spend(expression):
                return tuple(terms)
            fields = f.entries(expression)
            key = f.string(fields, "key", reading)
            if not key:
                continue
            values = tuple(
                text
                for value in f.sequence(fields, "values", reading)
                if reading.spend(value) and (text := f.text_of(value, reading)) is not None
            )
            where = fields.get("values") or fields["key"]
            requirements.append((key, f.string(fields, "operator", reading), values, where.position))
        if requirements:
            terms.append(tuple(requirements))
    return tuple(terms)


def read_tolerations(spec: dict[str, Node], reading: Reading) -> tuple[str, ...]:
    """The keys of the taints that a pod tolerates; ``*`` for a toleration of every taint."""
    keys = []
    for toleration in f.sequence(spec, "tolerations", reading):
        fields = f.entries(toleration)
        key = f.string(fields, "key", reading)
        if key:
            keys.append(key)
        elif f.string(fields, "operator", reading) == "Exists":
            keys.append("*")
    return tuple(keys)
