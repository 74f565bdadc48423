"""Plans of command lines, for tests of facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.documents.read import read_bytes
from planner.facts import rule_facts
from planner.facts.gaps import gaps
from planner.plan import Plan, plan_files
from planner.provenance import Position, Unknown
from planner.settings import Settings
from tests.rules.manifests import manifest

LLAMA = "--model=meta-llama/Llama-3.1-8B-Instruct"


def plan_of(text: str, settings: Settings | None = None) -> Plan:
    """The one plan of a manifest."""
    (plan,) = plan_files([read_bytes(text.encode(), "m.yaml")], settings or Settings()).plans
    return plan


def facts_of(
    args: Sequence[str], version: str = "0.11.0", **options: Any
) -> tuple[dict[str, Any], dict[str, Position]]:
    """(facts of ``engine``, positions) of a vLLM (or other) start with these arguments."""
    facts, positions = rule_facts(
        plan_of(manifest([LLAMA, *args] if "engine" not in options else args, version, **options))
    )
    return facts["engine"], positions


def flags_of(kind: str, args: Sequence[str], version: str = "0.11.0", **options: Any) -> list[str]:
    """The flags that a list (``unknown``, ``removed`` …) names."""
    return [item["flag"] for item in facts_of(args, version, **options)[0][f"{kind}_flags"]]


def gaps_of(text: str) -> tuple[Unknown, ...]:
    """What rules about flags and variables cannot tell of a manifest."""
    plan = plan_of(text)
    return gaps(plan, rule_facts(plan)[0])


Env = Mapping[str, str]
