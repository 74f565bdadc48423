"""What makes a finding the same one after an edit elsewhere: its rule, the object, the container and what it points at; no
lines, and no numbers of its message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.lint.finding import Finding

#: Keys of an item (a flag, a variable, a resource …) that say which one it is, the best first.
_NAMES = ("id", "name", "flag", "variable", "where", "word", "path", "key", "what")


def subject(item: Mapping[str, Any]) -> str:
    """Which of several items a finding is about: the item's name, else its first text with the numbers taken out."""
    for key in _NAMES:
        value = item.get(key)
        if isinstance(value, str) and value:
            return value
    text = next((value for value in item.values() if isinstance(value, str) and value), "")
    return re.sub(r"\d[\d,.]*", "#", text)


def fingerprints(findings: Iterable[Finding]) -> list[str]:
    """A fingerprint for each finding, in order: 32 hexadecimal digits that an edit elsewhere leaves as they are. Equal
    findings of one file are told apart by their order."""
    import hashlib  # OpenSSL's, which plain reports would pay for

    from planner.report.location import uri

    seen: dict[str, int] = {}
    found = []
    for finding in findings:
        text = "\0".join((finding.rule, uri(finding.position.file), *finding.identity[1:]))
        count = seen[text] = seen.get(text, 0) + 1
        found.append(hashlib.sha256(f"{text}\0{count}".encode("utf-8", "backslashreplace")).hexdigest()[:32])
    return found
