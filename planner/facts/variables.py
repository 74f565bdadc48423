"""Environment variables in an engine's own name that the release does not read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from planner.facts.environment import script_text
from planner.facts.flag_tables import TITLES, Tables, tables

if TYPE_CHECKING:
    from planner.plan import Plan
    from planner.provenance import Position
    from planner.workloads.workload import Container

_OWN = {"vllm": ("VLLM_",), "sglang": ("SGLANG_", "SGL_")}
#: Variables in vLLM's name of plug-ins, of the build, and of platforms that have their own package.
_OTHERS = re.compile(
    r"VLLM_(ASCEND|SPYRE|HPU|RBLN|NEURON|TPU|GAUDI|OMNI|PLUGIN|BUILD|VERSION|IMAGE|COMMIT|REPO|BRANCH)"
)
#: Variables of Hugging Face's TGI, which only its launcher reads.
_TGI = frozenset(
    ["NUM_SHARD", "QUANTIZE", "MAX_INPUT_LENGTH", "MAX_INPUT_TOKENS", "MAX_TOTAL_TOKENS", "MAX_BATCH_PREFILL_TOKENS"]
)
_ALIKE = 0.88


def variable_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """``ignored_variables``: name, why the release ignores it, what to do; ``depends`` says that it hangs on the release."""
    known = tables(plan)
    container, engine = plan.container, plan.engine
    if known is None or container is None or engine.engine not in _OWN:
        return {}
    found: list[dict[str, Any]] = []
    places = {name: entry.node.position for name, entry in container.env.items()}
    for name, word in plan.start.environment if plan.start is not None else ():
        if word.position is not None:
            places[name] = word.position
    for name, place in places.items():
        issue = _issue(plan, known, container, name)
        if issue is not None:
            positions[f"engine.ignored_variables[{len(found)}]"] = place
            found.append({"name": name, "engine": TITLES[engine.engine], "depends": False, **issue})
    return {"ignored_variables": found}


def _issue(plan: Plan, known: Tables, container: Container, name: str) -> dict[str, Any] | None:
    engine = plan.engine.engine
    if name.startswith(_OWN[engine]):
        if known.patched or _OTHERS.match(name):
            return None
        return _own(plan, known, container, name)
    for other, prefixes in _OWN.items():
        if other != engine and name.startswith(prefixes) and not _mentioned(container, name):
            return _of(TITLES[other], TITLES[engine])
    if name in _TGI and not _mentioned(container, name) and not container.command:
        return _of(TITLES["tgi"], TITLES[engine])
    return None


def _of(owner: str, engine: str) -> dict[str, Any]:
    return {
        "reason": f"only {owner} reads it",
        "advice": f"Remove it, or use the flag of {engine} for the same setting",
    }


def _own(plan: Plan, known: Tables, container: Container, name: str) -> dict[str, Any] | None:
    from planner.engines.variable_table import first_release, variable

    engine, version = plan.engine.engine, plan.engine.version_key
    release = f"{TITLES[engine]} {plan.engine.version.value}"
    found = variable(engine, name, version)
    if found is not None:
        if found.read or version < first_release(engine):
            return None
        if found.until:
            reason = f"{release} no longer reads it: releases before {found.until} did"
            advice = f"Use {found.instead} instead" if found.instead else "Remove it"
        else:
            reason, advice = f"{release} does not read it yet: it came with {found.since}", "Remove it"
        return {"reason": reason + known.note, "advice": advice, "depends": known.assumed}
    if _mentioned(container, name) or known.standing == "newer":
        return None
    return _mistaken(known, engine, name)


def _mistaken(known: Tables, engine: str, name: str) -> dict[str, Any] | None:
    """A variable that no release reads: a flag written as one, or a slip of the pen; else it is the author's own."""
    from difflib import get_close_matches

    from planner.engines.variable_table import names

    flag = next((name[len(prefix) :] for prefix in _OWN[engine] if name.startswith(prefix)), "")
    spelling = "--" + flag.lower().replace("_", "-")
    if spelling in known.here.options:
        return {
            "reason": f"no release of {TITLES[engine]} takes this setting from a variable",
            "advice": f"Use {spelling}",
        }
    near = get_close_matches(name[:80], names(engine), 1, _ALIKE)
    if near:
        return {
            "reason": f"no release of {TITLES[engine]} reads it, perhaps {near[0]} is meant",
            "advice": f"Write {near[0]}",
        }
    return None


def _mentioned(container: Container, name: str) -> bool:
    """Whether the container's own command or another variable uses the variable."""
    pattern = re.compile(rf"\b{re.escape(name)}\b")
    texts = [script_text(container)]
    texts += [entry.value for entry in container.env.values() if entry.value and entry.name != name]
    return any(pattern.search(text[:200_000]) for text in texts)
