"""Manifests of every kind with nodes replaced by something of another type: nothing may be raised, nothing may hang.

python -m tests.workloads.test_hostile_kinds COUNT SEED
"""

from __future__ import annotations

import random
import sys
import time
import traceback
from copy import deepcopy
from functools import cache
from typing import Any

import pytest
import yaml

from planner.documents.read import read_bytes
from planner.plan import plan_files
from planner.settings import Settings
from tests.conftest import SHARED

_MANIFESTS = SHARED / "corpus" / "manifests"
_REPLACEMENTS: tuple[Any, ...] = (
    None, True, 0, -1, 10**30, 1.5, "", "x", "${X}", "{{ .Values.x }}", "a: [b", "- x", "8", "\x00", "é" * 300, [], {}, [None],
    [[]], [{}], {"a": None}, {"name": []}, [{"name": {}}], {"value": {"valueFrom": 1}}, ["--model", None, 3], "a b c", "1e999",
    {"containers": "x"}, {"containers": [None, 1, {}]}, {"spec": {"spec": {"spec": {}}}}, {"": {"": ""}}, [["x"], {"x": ["y"]}],
)  # fmt: skip
_SLOW = 3.0


@cache
def _documents() -> list[tuple[str, list[Any]]]:
    found = []
    for folder in ("dev", "values"):
        for path in sorted((_MANIFESTS / folder).glob("*.y*ml")):
            try:
                documents = list(yaml.safe_load_all(path.read_text()))
            except yaml.YAMLError:
                continue
            found.append((path.name, [item for item in documents if isinstance(item, dict)]))
    return found


def _places(node: Any, into: list[tuple[Any, Any]]) -> None:
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in pairs:
        into.append((node, key))
        _places(value, into)


def _mutated(documents: list[Any], source: random.Random) -> str:
    copies = yaml.safe_load_all(yaml.safe_dump_all(documents))
    kept = list(copies)
    for _ in range(source.choice((1, 1, 2, 3, 8))):
        places: list[tuple[Any, Any]] = []
        _places(kept, places)
        if not places:
            break
        holder, key = source.choice(places)
        what = source.random()
        if what < 0.6:
            holder[key] = deepcopy(source.choice(_REPLACEMENTS))
        elif what < 0.75:
            other, other_key = source.choice(places)
            holder[key] = yaml.safe_load(yaml.safe_dump(other[other_key]))
        elif what < 0.9 and isinstance(holder, dict):
            del holder[key]
        elif isinstance(holder, dict):
            holder[str(key).upper()] = holder.pop(key)
    return yaml.safe_dump_all(kept, allow_unicode=True)


def run(count: int, seed: int) -> list[str]:
    """Reads ``count`` mutated manifests; returns what went wrong."""
    bad: list[str] = []
    for number in range(count):
        source = random.Random(f"{seed}.{number}")
        name, documents = source.choice(_documents())
        text = _mutated(documents, source)
        start = time.process_time()
        try:
            plan_files([read_bytes(text.encode(), f"values/{name}")], Settings())
        except Exception:
            bad.append(f"seed {seed}.{number} {name}\n{traceback.format_exc()}")
        if time.process_time() - start > _SLOW:
            bad.append(f"seed {seed}.{number} {name}: {time.process_time() - start:.1f} s")
    return bad


@pytest.mark.skipif(not _MANIFESTS.is_dir(), reason="the corpus is not at hand")
@pytest.mark.parametrize("seed", range(2))
def test_mutated_manifests(seed: int):
    assert not run(150, seed)


if __name__ == "__main__":
    problems = run(int(sys.argv[1]), int(sys.argv[2]))
    print("\n".join(problems[:20]), len(problems))
