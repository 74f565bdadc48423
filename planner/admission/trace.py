"""Traces of requests: one line each, as JSON or as CSV, the public Azure LLM inference traces as they are.

JSON lines have ``arrival``, ``prompt_tokens`` and ``output_tokens``, and may have ``prefix`` (which common prefix, any
text or number) and ``prefix_tokens``. CSV has a header; the columns of the Azure traces (``TIMESTAMP``,
``ContextTokens``, ``GeneratedTokens``) and the usual names of other tools are understood. Arrivals may be dates and
times; they count in seconds from the first one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any

from planner.admission.scheduler import Requests
from planner.record import NamedTuple

#: column → the names it goes by, compared without case, spaces and underscores
_NAMES = {
    "arrival": ("arrival", "arrivaltime", "arrivedat", "timestamp", "time", "start", "starttime"),
    "prompt_tokens": (
        "prompttokens", "contexttokens", "inputtokens", "prompt", "inputlength", "promptlen", "numprefilltokens",
        "requesttokens", "prefilltokens",
    ),
    "output_tokens": (
        "outputtokens", "generatedtokens", "completiontokens", "output", "outputlength", "outputlen", "numdecodetokens",
        "responsetokens", "decodetokens",
    ),
    "prefix": ("prefix", "prefixid"),
    "prefix_tokens": ("prefixtokens", "sharedprefixtokens", "prefixlength"),
}  # fmt: skip
#: no engine has a context this long; larger numbers are mistakes
_MOST_TOKENS = 10**9
_MOST_REQUESTS = 5_000_000
_LONGEST_LINE = 100_000


class BadTrace(Exception):  # noqa: N818 - the file is wrong, not the program
    """A line that is no request; the text says which and why."""


class Trace(NamedTuple):
    """Requests in the order of arrival. ``timed``: arrivals were dates and times, now seconds from the first one."""

    requests: Requests
    timed: bool


def read_trace(lines: Iterable[str], name: str = "trace") -> Trace:
    """Reads a trace; ``name`` is what messages call it. Raises ``BadTrace`` for what is no request."""
    rows: list[tuple[float, int, int, tuple[int, int]]] = []
    numbers: dict[str, int] = {}
    timed = False
    for place, row in _rows(lines, name):
        if len(rows) >= _MOST_REQUESTS:
            raise BadTrace(f"{name}: more than {_MOST_REQUESTS:,} requests")
        arrival, is_time = _arrival(row.get("arrival", 0), place)
        if rows and is_time != timed:
            raise BadTrace(f"{place}: arrivals are numbers in one line and dates in another")
        timed = is_time
        prompt = _tokens(row, "prompt_tokens", place, least=1)
        output = _tokens(row, "output_tokens", place, least=0)
        shared = _tokens(row, "prefix_tokens", place, least=0) if row.get("prefix_tokens") not in (None, "") else 0
        prefix = numbers.setdefault(str(row.get("prefix", ""))[:200], len(numbers)) if shared else 0
        rows.append((arrival, prompt, output, (prefix, min(shared, prompt))))
    if not rows:
        raise BadTrace(f"{name}: holds no request")
    rows.sort(key=lambda row: row[0])
    first = rows[0][0] if timed else 0
    return Trace(
        Requests(
            [row[0] - first for row in rows],
            [row[1] for row in rows],
            [row[2] for row in rows],
            [row[3] for row in rows] if numbers else (),
        ),
        timed,
    )


def _rows(lines: Iterable[str], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, fields by their canonical names) of every line that is not blank."""
    header: list[str] | None = None
    separator = ","
    canonical: dict[str, str | None] = {}
    for number, line in enumerate(lines, 1):
        line = line.strip().removeprefix("\ufeff")
        if not line or line.startswith("#"):
            continue
        place = f"{name}:{number}"
        if len(line) > _LONGEST_LINE:
            raise BadTrace(f"{place}: a line of {len(line):,} characters is no request")
        if header is None and line[0] in "{[":
            yield place, _json_row(line, place, canonical)
            continue
        if header is None:
            separator = "\t" if "\t" in line else ";" if ";" in line and "," not in line else ","
            header = [_canonical(cell) or "" for cell in _cells(line, separator)]
            for column in ("prompt_tokens", "output_tokens"):
                if column not in header:
                    raise BadTrace(
                        f"{place}: the header has no column for {column}: expected {column} or ContextTokens and "
                        f"GeneratedTokens, found {line[:120]!r}"
                    )
            continue
        cells = _cells(line, separator)
        if len(cells) < len(header):
            raise BadTrace(f"{place}: {len(cells)} cells, and the header has {len(header)}")
        yield place, {key: cell for key, cell in zip(header, cells, strict=False) if key}


def _json_row(line: str, place: str, canonical: dict[str, str | None]) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadTrace(f"{place}: no JSON: {str(error)[:120]}") from None
    if isinstance(row, list) and len(row) == 3:
        return dict(zip(("arrival", "prompt_tokens", "output_tokens"), row, strict=True))
    if not isinstance(row, dict):
        raise BadTrace(f'{place}: a request reads {{"arrival": 0, "prompt_tokens": 800, "output_tokens": 200}}')
    found = {}
    for key, value in row.items():
        if key not in canonical and len(canonical) < 1000:
            canonical[key] = _canonical(key)
        known = canonical.get(key)
        if known:
            found[known] = value
    return found


def _cells(line: str, separator: str) -> list[str]:
    if '"' not in line:
        return [cell.strip() for cell in line.split(separator)]
    import csv

    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=separator), [])]
    except csv.Error:
        return [cell.strip().strip('"') for cell in line.split(separator)]


def _canonical(name: str) -> str | None:
    plain = name.strip().lower().replace("_", "").replace(" ", "").replace("-", "")
    return next((column for column, names in _NAMES.items() if plain in names), None)


def _tokens(row: dict[str, Any], column: str, place: str, least: int) -> int:
    value = row.get(column)
    if value is None:
        raise BadTrace(f"{place}: {column} is missing")
    try:
        if isinstance(value, (bool, list, dict)):
            raise ValueError
        number = float(value)
        if not isfinite(number) or number != int(number):
            raise ValueError
    except (ValueError, OverflowError, TypeError):
        raise BadTrace(f"{place}: {column} is {str(value)[:60]!r}, not a whole number") from None
    if not least <= number <= _MOST_TOKENS:
        raise BadTrace(f"{place}: {column} is {int(number):,}; it must be from {least} to {_MOST_TOKENS:,}")
    return int(number)


def _arrival(value: Any, place: str) -> tuple[float, bool]:
    """(number, whether it is a date)."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53:
        return value, False
    try:
        if isinstance(value, (bool, list, dict)) or value is None:
            raise ValueError
        number = float(value)
    except (ValueError, OverflowError, TypeError):
        return _seconds(str(value), place), True
    if not isfinite(number) or number < 0:
        raise BadTrace(f"{place}: arrival is {str(value)[:60]!r}; it must be zero or more")
    return number, False


def _seconds(text: str, place: str) -> float:
    from datetime import datetime, timezone

    # Seven digits behind the point (Azure) are one more than Python 3.10 reads; its fractions have three or six.
    plain = text.strip().replace("Z", "+00:00")
    head, point, rest = plain.partition(".")
    if point:
        digits = len(rest) - len(rest.lstrip("0123456789"))
        plain = f"{head}.{rest[:digits][:6]:0<6}{rest[digits:]}"
    try:
        moment = datetime.fromisoformat(plain[:60])
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        return moment.timestamp()
    except (ValueError, OverflowError):
        raise BadTrace(f"{place}: arrival is {text[:60]!r}, neither a number nor a date and time") from None
