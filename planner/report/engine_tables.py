"""The flags and variables of an engine's release, and what an upgrade changes, as plain rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.engines.version import parse_version
from planner.facts.flag_tables import table_of

if TYPE_CHECKING:
    from planner.engines.vllm_flag_table import FlagSpec, FlagTable

#: Engines whose releases were read one by one.
ENGINES = ("vllm", "sglang")


class NoSuchRelease(ValueError):  # noqa: N818 - an answer to a question
    """What was asked for is no release, or no flag; the argument says so."""


def newest(engine: str) -> str:
    """The newest release that was read."""
    return _table(engine, "0").releases[-1]


def release_rows(engine: str, release: str, name: str = "") -> tuple[list[dict[str, Any]], str]:
    """(rows, note): a row for each flag whose name holds ``name``, and what to say where the release itself was not read.

    A name that is exactly a flag's gives that one in full. Raises NoSuchRelease.
    """
    table = _table(engine, release)
    wanted = name.lstrip("-").replace("_", "-").lower()
    active = [spec for spec in table.flags.values() if spec.active]
    exact = [spec for spec in active if spec.name == wanted]
    found = exact or [spec for spec in active if wanted in spec.name]
    if not found:
        raise NoSuchRelease(f"no flag of {engine} {release} holds {name!r}{_elsewhere(table, wanted)}")
    return [_row(table, spec, full=bool(exact)) for spec in found], _note(engine, table, release)


def variable_names(engine: str, release: str) -> list[str]:
    """The environment variables that a release reads."""
    from planner.engines.variable_table import names, variable

    place = _table(engine, release).version
    found = ((name, variable(engine, name, place)) for name in names(engine))
    return sorted(name for name, entry in found if entry is not None and entry.read)


def difference_rows(engine: str, before: str, after: str) -> tuple[list[dict[str, Any]], str]:
    """(rows, note): ``change`` (``removed``, ``added``, ``deprecated``, ``changed``), ``flag`` and ``detail`` of what is not
    the same in two releases, what breaks first; environment variables after the flags. Raises NoSuchRelease."""
    old, new = _table(engine, before), _table(engine, after)
    rows: list[dict[str, Any]] = []
    for name in sorted({*old.flags, *new.flags}):
        rows.extend(_changes(old, new, name))
    first, second = set(variable_names(engine, before)), set(variable_names(engine, after))
    rows += [_variable_row(engine, name, new.version) for name in sorted(first - second)]
    rows += [{"change": "added", "flag": name, "detail": "variable"} for name in sorted(second - first)]
    order = ("removed", "deprecated", "changed", "added")
    rows.sort(key=lambda row: (order.index(row["change"]), not row["flag"].startswith("--"), row["flag"]))
    return rows, " ".join(filter(None, (_note(engine, old, before), _note(engine, new, after))))


def _table(engine: str, release: str) -> FlagTable:
    try:
        place = parse_version(release)
    except ValueError as error:
        raise NoSuchRelease(str(error)) from None
    found = table_of(engine, place)
    if found is None:
        raise NoSuchRelease(f"{engine} has no table of flags")
    return found


def _note(engine: str, table: FlagTable, release: str) -> str:
    if table.exact:
        return ""
    return f"{engine} {release} was not read: this is the table of {table.release}, the nearest release."


def _elsewhere(table: FlagTable, name: str) -> str:
    spec = table.flags.get(name)
    if spec is None:
        return ""
    gone, since = table.gone_in(name), table.added_in(name)
    where = f"it was removed in {gone}" if gone else f"it came with {since}"
    instead = table.renamed.get(name)
    return f": {where}{f'; now --{instead}' if gone and instead else ''}"


def _row(table: FlagTable, spec: FlagSpec, full: bool) -> dict[str, Any]:
    facts = spec.facts
    row: dict[str, Any] = {
        "flag": "--" + spec.name,
        "value": _value(spec),
        "default": "computed" if facts.get("computed") else _text(spec.default),
        "since": spec.since or f"≤{table.releases[0]}",
        "until": spec.until or "-",
        "note": _status(table, spec),
    }
    if full:
        row["aliases"] = ", ".join(spec.aliases) or "-"
        row["choices"] = ", ".join(spec.choices or facts.get("registered", ())) or "-"
    return row


def _value(spec: FlagSpec) -> str:
    """What may stand behind a flag, in a few words."""
    facts = spec.facts
    kind = {"switch": "on/off", "true": "-", "false": "-"}.get(spec.kind, spec.kind)
    if spec.kind == "list":
        kind = f"{spec.element} × {facts['count']}" if "count" in facts else f"{spec.element} …"
    if spec.choices:
        kind = "choice" if spec.kind in ("str", "int") else f"{kind} of choices"
    bounds = {"gt": "> {:g}", "ge": "≥ {:g}", "lt": "< {:g}", "le": "≤ {:g}"}
    limits = [bounds[name].format(limit) for name, limit in facts.get("range", {}).items()]
    return f"{kind} {', '.join(limits)}" if limits else kind


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value) or '""'


def _status(table: FlagTable, spec: FlagSpec) -> str:
    if not spec.deprecated:
        return ""
    instead = table.renamed.get(spec.name)
    return f"deprecated{f', use --{instead}' if instead else ''}"


def _changes(old: FlagTable, new: FlagTable, name: str) -> list[dict[str, Any]]:
    before, after = old.flags.get(name), new.flags.get(name)
    had, has = before is not None and before.active, after is not None and after.active
    flag = f"--{name}"
    if had and not has:
        instead = new.renamed.get(name)
        return [{"change": "removed", "flag": flag, "detail": f"use --{instead}" if instead else ""}]
    if has and not had and after is not None:
        return [{"change": "added", "flag": flag, "detail": _value(after)}]
    if not had or before is None or after is None:
        return []
    found = []
    if after.deprecated and not before.deprecated:
        found.append({"change": "deprecated", "flag": flag, "detail": _status(new, after)})
    details = []
    if before.kind != after.kind:
        details.append(f"{_value(before)} → {_value(after)}")
    if before.default != after.default and not (before.facts.get("computed") or after.facts.get("computed")):
        details.append(f"default {_text(before.default)} → {_text(after.default)}")
    for key in ("choices", "registered"):
        first, second = set(before.facts.get(key, ())), set(after.facts.get(key, ()))
        if first and second:
            details += [f"no longer {', '.join(sorted(first - second))}"] if first - second else []
            details += [f"also {', '.join(sorted(second - first))}"] if second - first else []
    if before.facts.get("range") != after.facts.get("range") and "range" in after.facts:
        details.append(f"must be {_value(after)}")
    if details:
        found.append({"change": "changed", "flag": flag, "detail": "; ".join(details)})
    return found


def _variable_row(engine: str, name: str, version: tuple[int, ...]) -> dict[str, Any]:
    from planner.engines.variable_table import variable

    entry = variable(engine, name, version)
    instead = entry.instead if entry is not None else ""
    return {"change": "removed", "flag": name, "detail": f"variable{f', use {instead}' if instead else ''}"}
