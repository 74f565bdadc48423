"""Flags that the release of an engine does not take, takes by luck, or will not take much longer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from planner.facts.flag_tables import TITLES, Tables, tables
from planner.record import NamedTuple

if TYPE_CHECKING:
    from planner.engines.config import EngineConfig, FlagValue
    from planner.engines.vllm_flag_table import FlagSpec
    from planner.plan import Plan
    from planner.provenance import Position

_KINDS = ("unknown", "removed", "deprecated", "abbreviated", "foreign", "duplicate")
#: From this vLLM release on ``--name.key value`` sets one key of a JSON argument.
_DOTTED_SINCE = (0, 9, 0)
#: Beginnings of names that SGLang's own documentation uses throughout.
_DOCUMENTED = {"sglang": ("--tp", "--dp", "--pp", "--ep")}
#: Flags whose replacement takes the same values in the same sense, so that one name can stand for the other.
_SAME = frozenset(
    (
        "disable-log-requests", "override-pooler-config", "max-context-len-to-capture", "nsa-prefill", "nsa-decode",
        "nsa-prefill-backend", "nsa-decode-backend", "mamba-scheduler-strategy", "oltp-traces-endpoint", "grpc-mode",
        "grpc-http-sidecar-port", "impl", "max-micro-batch-size", "speculative-dflash-draft-window-size",
        "cuda-graph-max-bs", "cuda-graph-bs", "stream-output",
    )
)  # fmt: skip
#: How alike two names must be for one to be offered in place of the other.
_ALIKE = 0.7


class Issue(NamedTuple):
    """What is the matter with one flag: ``kind`` is one of ``_KINDS``, ``facts`` what the rule's message reads."""

    kind: str
    flag: FlagValue
    facts: dict[str, Any]


def flag_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """Lists for the rules about flags, ``unknown_flags`` … ``duplicate_flags``; none for an engine without a table."""
    known = tables(plan)
    if known is None:
        return {}
    if _may_be_diffusion(plan):
        known = known._replace(patched=True)
    facts: dict[str, list[dict[str, Any]]] = {f"{kind}_flags": [] for kind in _KINDS}
    for issue in issues(plan.engine, known):
        name = f"{issue.kind}_flags"
        if issue.flag.position is not None:
            positions[f"engine.{name}[{len(facts[name])}]"] = issue.flag.position
        facts[name].append(issue.facts)
    return facts


def _may_be_diffusion(plan: Plan) -> bool:
    """Whether ``sglang serve`` may start SGLang's server of diffusion models, whose flags are others: it looks at the model."""
    container = plan.container
    if plan.engine.engine != "sglang" or plan.model is not None or container is None:
        return False
    words = " ".join(word.text for word in container.words)
    return re.search(r"\bsglang\s+serve\b", words[:20_000]) is not None


def issues(engine: EngineConfig, known: Tables) -> list[Issue]:
    """Everything that is the matter with the flags as given, in order."""
    found: list[Issue] = []
    seen: set[str] = set()
    for flag in engine.given:
        spelling = normalized(flag.spelling, engine)
        if not spelling or spelling in seen:
            continue
        seen.add(spelling)
        issue = _issue(engine, known, flag, spelling)
        if issue is not None:
            found.append(issue)
    return [*found, *_duplicates(engine, known)]


def normalized(spelling: str, engine: EngineConfig) -> str:
    """A spelling as the parser compares it: hyphens for underscores in vLLM, without the key of ``--name.key``. Empty for
    what is rewritten before it is parsed (``-O3``) and for what is no plain name."""
    head = spelling.partition("=")[0]
    if not re.fullmatch(r"--?[A-Za-z][\w.+-]*", head):
        return ""
    if engine.engine == "vllm":
        if head.startswith("-O"):
            return ""
        if engine.version_key >= _DOTTED_SINCE:
            head = head.partition(".")[0]
        if head.startswith("--"):
            head = head.replace("_", "-")
    return head


def _issue(engine: EngineConfig, known: Tables, flag: FlagValue, spelling: str) -> Issue | None:
    table = known.here
    option = table.options.get(spelling)
    if option is None and known.after is not None:
        option = known.after.options.get(spelling)
    if option is not None:
        return _deprecated(engine, known, flag, spelling, option.spec) if option.spec.facts.get("deprecated") else None
    if known.patched:
        return _of_patched(engine, known, flag, spelling)
    if spelling in table.inactive:
        return _inactive(engine, known, flag, spelling, table.inactive[spelling].spec)
    if spelling in _DOCUMENTED.get(engine.engine, ()) and len(table.starting_with(spelling)) == 1:
        return None
    return _abbreviated(engine, known, flag, spelling) or _unknown(engine, known, flag, spelling)


def _of_patched(engine: EngineConfig, known: Tables, flag: FlagValue, spelling: str) -> Issue | None:
    """What is surely the matter where a build may have flags of its own: the beginning of a name, or a letter wrong in one.
    Flags of other releases say nothing, since such builds add and keep some."""
    if spelling in known.here.inactive:
        return None
    issue = _abbreviated(engine, known, flag, spelling)
    if issue is not None:
        return issue if issue.kind == "abbreviated" else None
    return _unknown(engine, known, flag, spelling) if _same_but_a_letter(spelling, nearest(known, spelling)) else None


def _base(engine: EngineConfig, known: Tables, flag: FlagValue, spelling: str) -> dict[str, Any]:
    """What every message may read. ``certain``: the release's own table says so, and no patch can have changed it."""
    return {
        "flag": flag.spelling.partition("=")[0],
        "name": spelling.lstrip("-"),
        "engine": TITLES.get(engine.engine, engine.engine),
        "release": engine.version.value,
        "note": known.note,
        "certain": known.standing in ("exact", "between", "any") and known.seen,
        "near": "",
        "instead": "",
        "hint": "",
    }


def _deprecated(engine: EngineConfig, known: Tables, flag: FlagValue, spelling: str, spec: FlagSpec) -> Issue:
    facts = _base(engine, known, flag, spelling)
    facts["until"] = spec.until or spec.facts.get("removal", "")
    facts["instead"] = known.here.renamed.get(spec.name, "")
    facts["same"] = bool(facts["instead"]) and spec.name in _SAME
    if spec.until:
        facts["fate"] = f" and is gone in {spec.until}"
    elif facts["until"]:
        facts["fate"] = f" and is to go in {facts['until']}"
    else:
        facts["fate"] = ""
    facts["advice"] = _advice(facts["instead"], "Remove it")
    return Issue("deprecated", flag, facts)


def _inactive(engine: EngineConfig, known: Tables, flag: FlagValue, spelling: str, spec: FlagSpec) -> Issue | None:
    """A flag of other releases: removed before this one, or added after it."""
    facts = _base(engine, known, flag, spelling)
    gone = known.here.gone_in(spec.name)
    if gone and known.here.exact is False and known.after is not None and spelling in known.after.options:
        return None
    if gone:
        facts["until"] = gone
        facts["instead"] = known.here.renamed.get(spec.name, "")
        facts["same"] = bool(facts["instead"]) and spec.name in _SAME
        facts["advice"] = _advice(facts["instead"], "Remove it")
        return Issue("removed", flag, facts)
    if known.wrapped:
        return None
    since = known.here.added_in(spec.name)
    facts["hint"] = f"it came with {since}"
    facts["advice"] = f"Remove it, or run {facts['engine']} {since} or newer"
    return Issue("unknown", flag, facts)


def _abbreviated(engine: EngineConfig, known: Tables, flag: FlagValue, spelling: str) -> Issue | None:
    """A unique beginning of a flag's name, which argparse takes; TGI and TensorRT-LLM do not."""
    if engine.engine not in ("vllm", "sglang") or not spelling.startswith("--") or len(spelling) < 4:
        return None
    matches = known.here.starting_with(spelling)
    names = {(known.here.options[match].spec.name, known.here.options[match].negated) for match in matches}
    if not matches:
        return None
    facts = _base(engine, known, flag, spelling)
    if len(names) > 1:
        facts["hint"] = f"it could be {', '.join(matches[:4])}"
        facts["near"] = matches[0]
        facts["advice"] = "Write the name out"
        return Issue("unknown", flag, facts)
    facts["full"] = min(matches, key=len)
    return Issue("abbreviated", flag, facts)


def _unknown(engine: EngineConfig, known: Tables, flag: FlagValue, spelling: str) -> Issue | None:
    if known.wrapped:
        return None
    from planner.facts.foreign_flags import foreign

    facts = _base(engine, known, flag, spelling)
    other = foreign(engine.engine, spelling)
    near = nearest(known, spelling)
    if other is not None and not _same_but_a_letter(spelling, near):
        facts.update(other._asdict())
        facts["advice"] = other.advice
        return Issue("foreign", flag, facts)
    facts["near"] = near
    facts["hint"] = f"perhaps {near} is meant" if near else "no release has it"
    facts["advice"] = f"Write {near}" if near else "Remove it"
    return Issue("unknown", flag, facts)


def nearest(known: Tables, spelling: str) -> str:
    """The spelling of this release that is most like another one; empty where none is."""
    from difflib import get_close_matches

    if len(spelling) > 80:
        return ""
    candidates = [option for option in known.here.options if option.startswith("--")]
    found = get_close_matches(spelling, candidates, 1, _ALIKE)
    return found[0] if found else ""


def _same_but_a_letter(spelling: str, near: str) -> bool:
    """Whether a name is so near to one of this release that it is rather a slip than another engine's."""
    from difflib import SequenceMatcher

    return bool(near) and SequenceMatcher(None, spelling, near).ratio() > 0.95


def _advice(instead: str, otherwise: str) -> str:
    return f"Use --{instead}" if instead else otherwise


def _duplicates(engine: EngineConfig, known: Tables) -> list[Issue]:
    """Flags that stand twice on the command line itself; a config file's entries are meant to be overridden by it."""
    line = engine.command_line
    own = {word.position for word in line.words if not word.source.startswith("config:")} if line is not None else set()
    first: dict[str, FlagValue] = {}
    found = []
    for flag in engine.given:
        if flag.position is None or flag.position not in own or not normalized(flag.spelling, engine):
            continue
        if "." in flag.spelling.partition("=")[0] or known.here.collects(flag.name):
            continue
        earlier = first.get(flag.name)
        if earlier is not None and earlier.position != flag.position:
            same = earlier.raw == flag.raw and earlier.value == flag.value
            found.append(
                Issue(
                    "duplicate",
                    flag,
                    {
                        "flag": flag.spelling.partition("=")[0],
                        "first": _given(earlier),
                        "last": _given(flag),
                        "line": earlier.position.line if earlier.position else 0,
                        "effect": "to the same effect" if same else f"and {_given(flag)} wins over {_given(earlier)}",
                    },
                )
            )
        first[flag.name] = flag
    return found


def _given(flag: FlagValue) -> str:
    head = flag.spelling.partition("=")[0]
    return f"{head} {flag.raw}" if flag.raw else head
