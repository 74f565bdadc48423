"""Shared by the tests of kinds: manifests → plans, as short texts that are easy to compare."""

from __future__ import annotations

from textwrap import dedent

from planner.documents.read import read_bytes
from planner.engines.recognised import sizes
from planner.facts.parallel import sizes_of
from planner.plan import Plan, Project, plan_files
from planner.settings import Settings


def project(*texts: str) -> Project:
    """The project of one file per text; a single one is called ``test.yaml``, several ``0.yaml``, ``1.yaml`` …"""
    files = [
        read_bytes(dedent(text).encode(), "test.yaml" if len(texts) == 1 else f"{number}.yaml")
        for number, text in enumerate(texts)
    ]
    return plan_files(files, Settings())


def plans(*texts: str) -> tuple[Plan, ...]:
    """The plans of the texts; nothing may be wrong with them."""
    found = project(*texts)
    assert not found.problems, [str(problem) for problem in found.problems]
    return found.plans


def plan(*texts: str) -> Plan:
    """The only plan of the texts."""
    (found,) = plans(*texts)
    return found


def summary(found: Plan) -> str:
    """``ENGINE MODEL tp×pp×dp GPUs×pods``, question marks for what is not known."""
    parallel = sizes_of(found) or sizes(found.engine)
    spread = f"{parallel.tensor}x{parallel.pipeline}x{parallel.data}" if parallel else "?"
    gpus = found.gpus_per_pod.value if found.gpus_per_pod else "?"
    model = found.engine.model.value if found.engine.model else "?"
    return f"{found.engine.engine} {model} {spread} {gpus}x{found.pods}"


def flag_line(found: Plan, name: str) -> int:
    """The line that a finding on a flag's value points at."""
    flag = found.engine.flags[name]
    place = flag.value_position or flag.position
    assert place is not None
    return place.line


def gaps(found: Plan) -> str:
    """All reasons of what is not known."""
    return "; ".join(gap.reason for gap in found.unknown)
