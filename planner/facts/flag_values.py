"""Values of flags that the engine refuses: of the wrong type, no choice of the release, out of range, JSON without a key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from planner.facts.flag_tables import TITLES, Tables, tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planner.engines.config import EngineConfig, FlagValue
    from planner.plan import Plan
    from planner.provenance import Position

#: How the readers of command lines begin what they say about a value (``planner/engines/vllm.py``).
#: A name in capitals is that of a variable which stands for an argument (TGI).
_ABOUT_A_VALUE = re.compile(r"(--?[\w.+-]+|[A-Z][A-Z0-9_]+)(?:: (.+)| (takes no value .+))", re.DOTALL)
_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from ", re.DOTALL)
#: Bounds of releases whose sources do not state them as such: what lies outside has never started.
_ALWAYS: dict[str, dict[str, float]] = {
    "gpu-memory-utilization": {"gt": 0, "le": 1},
    "mem-fraction-static": {"gt": 0, "lt": 1},
    "tensor-parallel-size": {"ge": 1},
    "pipeline-parallel-size": {"ge": 1},
    "max-num-seqs": {"ge": 1},
    "max-num-batched-tokens": {"ge": 1},
    "swap-space": {"ge": 0},
    "cpu-offload-gb": {"ge": 0},
    "cuda-memory-fraction": {"gt": 0, "le": 1},
    "kv-cache-free-gpu-memory-fraction": {"gt": 0, "lt": 1},
    "num-shard": {"ge": 1},
    "validation-workers": {"ge": 1},
}
#: Bounds that an engine checks from a release on: SGLang's ``server_args.py`` and ``arg_groups/``, TGI's router.
_SINCE: dict[str, dict[str, tuple[tuple[int, ...], dict[str, float]]]] = {
    "sglang": {
        "swa-full-tokens-ratio": ((0, 5, 7), {"gt": 0, "le": 1}),
        "hicache-host-memory-fraction": ((0, 5, 21), {"gt": 0, "le": 1}),
        "schedule-conservativeness": ((0, 5, 5), {"ge": 0}),
        "tokenizer-worker-num": ((0, 5, 2), {"ge": 1}),
        "max-loras-per-batch": ((0, 4), {"ge": 1}),
        "page-size": ((0, 4, 4), {"ge": 1}),
        "dcp-size": ((0, 5, 15), {"ge": 1}),
    },
    "tgi": {"max-batch-size": ((2, 3), {"ge": 1})},
}
#: Flags of parsers that plug-ins can add to, and the flag that loads one.
_PLUGINS = {"tool-call-parser": "tool-parser-plugin", "reasoning-parser": "reasoning-parser-plugin"}
_KV_ROLES = ("kv_producer", "kv_consumer", "kv_both")


def value_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """``invalid_values``: flag and reason of every value that is refused; none for an engine without a table."""
    known = tables(plan)
    if known is None:
        return {}
    found: list[dict[str, Any]] = []
    seen: set[tuple[Any, str]] = set()
    for place, flag, reason in problems(plan.engine, known):
        if (place, flag) in seen:
            continue
        seen.add((place, flag))
        if place is not None:
            positions[f"engine.invalid_values[{len(found)}]"] = place
        found.append(
            {"flag": flag, "reason": reason, "engine": TITLES[plan.engine.engine], "release": plan.engine.version.value}
        )
    return {"invalid_values": found}


def problems(engine: EngineConfig, known: Tables) -> Iterator[tuple[Position | None, str, str]]:
    """(place, flag as written, reason) of every refused value."""
    if not known.patched:
        yield from _read(engine, known)
    if engine.engine == "trtllm":
        from planner.facts.trtllm_options import option_problems

        yield from option_problems(engine)
    for flag in engine.given:
        if not flag.known or flag.value is None:
            continue
        for reason in (_range(engine, known, flag), _registered(engine, known, flag), _keys(flag), _sizes(flag)):
            if reason:
                yield flag.value_position or flag.position, flag.spelling.partition("=")[0], reason


def _read(engine: EngineConfig, known: Tables) -> Iterator[tuple[Position | None, str, str]]:
    """What the reader of the command line could not take for a value."""
    given = {flag.spelling.partition("=")[0]: flag for flag in engine.given}
    for place, message in engine.argument_problems:
        match = _ABOUT_A_VALUE.fullmatch(message)
        flag = given.get(match.group(1)) if match else None
        if match is None or flag is None:
            continue
        reason = match.group(2) or match.group(3)
        choice = _CHOICE.match(reason)
        if choice and not _certain_choice(known, flag, choice.group(1)):
            continue
        if not choice and not _certain_type(known, flag):
            continue
        yield place, match.group(1), reason


def _certain_choice(known: Tables, flag: FlagValue, value: str) -> bool:
    """Whether a value is surely no choice: in this release where that is known, else in none."""
    if not known.assumed and known.standing in ("exact", "any"):
        return True
    ever = known.here.ever_allowed(flag.name)
    return ever is not None and value not in ever and known.standing != "newer"


def _certain_type(known: Tables, flag: FlagValue) -> bool:
    """Whether a value is surely of the wrong type: in this release where that is known, else in all of them."""
    if not known.assumed and known.standing in ("exact", "any"):
        return True
    from planner.engines.vllm import _convert

    if flag.raw is None:
        return len(known.here.ever_kinds(flag.name)) == 1
    for kind in known.here.ever_kinds(flag.name) - {"switch", "true", "false"}:
        try:
            _convert(kind, flag.raw)
        except ValueError:
            continue
        return False
    return True


def _range(engine: EngineConfig, known: Tables, flag: FlagValue) -> str:
    """Why a number is outside of what the release allows."""
    value = flag.value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return ""
    spec = known.here.flags.get(flag.name)
    bounds = _ALWAYS.get(flag.name, {})
    since, checked = _SINCE.get(engine.engine, {}).get(flag.name, ((), {}))
    if engine.version_key >= since:
        bounds = bounds or checked
    if not bounds and engine.engine == "tgi" and spec is not None and spec.kind == "int":
        bounds = {"ge": 0}  # all of them are unsigned
    if not bounds and spec is not None and spec.active and not known.assumed:
        bounds = spec.facts.get("range", {})
    for name, fails, words in (
        ("gt", value <= bounds.get("gt", value - 1), "must be greater than"),
        ("ge", value < bounds.get("ge", value), "must be at least"),
        ("lt", value >= bounds.get("lt", value + 1), "must be less than"),
        ("le", value > bounds.get("le", value), "must be at most"),
    ):
        if name in bounds and fails:
            return f"{value:g} {words} {bounds[name]:g}"
    if flag.name == "max-model-len" and value < 1:
        return "" if value == -1 and known.here.version >= (0, 14, 0) else f"{value:g} must be at least 1"
    return ""


def _registered(engine: EngineConfig, known: Tables, flag: FlagValue) -> str:
    """Why a parser's name is refused: the release has none of that name, and no plug-in could add it."""
    plugin = _PLUGINS.get(flag.name)
    spec = known.here.flags.get(flag.name)
    if plugin is None or spec is None or not spec.active or plugin in engine.flags or known.patched:
        return ""
    names = spec.facts.get("registered", ())
    if not names or known.assumed or known.standing != "exact" or str(flag.value) in names:
        return ""
    if flag.name == "reasoning-parser" and str(flag.value).lower() in ("", "none"):
        return ""
    # Looked up only where the model decides on tools itself.
    if flag.name == "tool-call-parser" and "enable-auto-tool-choice" not in engine.flags:
        return ""
    from difflib import get_close_matches

    near = get_close_matches(str(flag.value), names, 1, 0.5)
    hint = f", perhaps {near[0]} is meant" if near else f" ({', '.join(names[:8])} …)"
    return f"{str(flag.value)[:60]!r} is no parser of this release{hint}"


def _sizes(flag: FlagValue) -> str:
    """Why a list of batch sizes is refused (TGI's launcher, 2.0 on: whole numbers with commas between, no spaces)."""
    if flag.name != "cuda-graphs" or not isinstance(flag.value, str) or re.fullmatch(r"\+?\d+(,\+?\d+)*", flag.value):
        return ""
    return f"{flag.value[:60]!r} is no list of batch sizes such as 1,2,4"


def _keys(flag: FlagValue) -> str:
    """Why a JSON object is refused for its keys (``vllm/config/kv_transfer.py``: a connector needs a role)."""
    value: Mapping[str, Any] | None = flag.value if isinstance(flag.value, dict) else None
    if value is None or flag.name != "kv-transfer-config":
        return ""
    role = value.get("kv_role")
    if value.get("kv_connector") and role is None:
        return f"kv_connector needs a kv_role: one of {', '.join(_KV_ROLES)}"
    if role is not None and role not in _KV_ROLES:
        return f"kv_role {str(role)[:40]!r} is none of {', '.join(_KV_ROLES)}"
    return ""
