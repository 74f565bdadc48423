"""Pods and containers for the tests, as small as they can be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from planner.documents.node import Node
from planner.provenance import Fact, Position, from_file
from planner.workloads.workload import Container, Pod

AT = Position("pod.yaml", 7, 3)


def fact(value: Any) -> Fact[Any]:
    return from_file(value, AT)


def container(
    limits: dict[str, float] | None = None, requests: dict[str, float] | None = None, **fields: Any
) -> Container:
    node = cast(Node, SimpleNamespace(position=AT))
    return Container(
        name="engine",
        node=node,
        image=None,
        command=None,
        args=None,
        env={},
        limits={name: fact(float(value)) for name, value in (limits or {}).items()},
        requests={name: fact(float(value)) for name, value in (requests or {}).items()},
        claims=fields.pop("claims", ()),
        mounts=(),
        probes={},
        **fields,
    )


def pod(
    selector: dict[str, str] | None = None,
    terms: list[list[tuple[str, str, list[str]]]] | None = None,
    annotations: dict[str, str] | None = None,
    **fields: Any,
) -> Pod:
    return Pod(
        role="pod",
        node=cast(Node, SimpleNamespace(position=AT)),
        containers=(),
        labels={},
        annotations={key: fact(value) for key, value in (annotations or {}).items()},
        node_selector={key: fact(value) for key, value in (selector or {}).items()},
        affinity=tuple(tuple((key, op, tuple(values), AT) for key, op, values in term) for term in terms or []),
        **fields,
    )
