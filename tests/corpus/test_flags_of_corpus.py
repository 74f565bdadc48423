"""Flags of public manifests and of starts that are known to work: none that is right is called wrong.

Skips where the corpus is not at hand. ``python -m tests.corpus.test_flags_of_corpus`` prints every finding.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from planner.engines import sglang, vllm
from planner.engines.version import is_version
from planner.facts import rule_facts
from planner.facts.flag_conflicts import conflict_facts
from planner.facts.flag_values import value_facts
from planner.facts.flags import flag_facts
from planner.plan import Plan
from planner.provenance import Fact, Provenance
from tests.conftest import SHARED

CORPUS = SHARED / "corpus"
LISTS = ("unknown_flags", "removed_flags", "foreign_flags", "invalid_values", "conflicts")

#: Findings of the manifests with a stated release, each checked against that release's source (``vllm/utils``: the parser
#: refuses ``serve --model``; ``vllm/config/cache.py``: no such cache format).
TRUE = {
    ("defilantech--llmkube--vllm-v0-20-qwen32b-turbo2", "--kv-cache-dtype"),
    ("vllm-project--aibrix--kvcache-infinistore-vllm", "--model"),
    ("vllm-project--aibrix--multimodality-vllm-qwen-audio", "--model"),
    ("vllm-project--aibrix--multimodality-vllm-qwen-vl", "--model"),
    ("vllm-project--aibrix--volcano-engine-deepseek-8b-kv-cluster", "--model"),
}
#: Starts of record whose flags were written down with a slip, or that ran a patched build.
PATCHED = {"--moe-backend"}

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not beside the project")


def of_manifests() -> Iterator[tuple[str, str, str]]:
    """(file, list, flag or message) of every finding that an error would be made of."""
    from tests.corpus.test_dev_manifests import projects

    for slug, project in projects().items():
        for plan in project.plans:
            engine = rule_facts(plan)[0]["engine"]
            for name in LISTS:
                for item in engine.get(name, ()):
                    if name != "removed_flags" or not engine["version_assumed"]:
                        yield slug, name, item.get("flag") or item["message"]


def of_starts() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(id, list, finding) of the recorded command lines that worked."""
    modules = {"vllm": vllm, "sglang": sglang}
    for line in (CORPUS / "known-good.jsonl").read_text().splitlines():
        row = json.loads(line)
        version, module = str(row["engine_version"]), modules.get(row["engine"])
        if module is None or not is_version(version) or version.startswith("20"):
            continue
        flags = row["flags"]
        words = shlex.split(flags) if isinstance(flags, str) else [str(flag) for flag in flags]
        plan = Plan(engine=module.parse_argv(words, version=Fact(version, Provenance("given", row["id"]))))
        facts = {**flag_facts(plan, {}), **value_facts(plan, {}), **conflict_facts(plan, {})}
        for name in LISTS:
            for item in facts[name]:
                yield row["id"], name, item


def test_no_right_flag_of_a_manifest_is_called_wrong() -> None:
    found = {(slug, "--model" if "--model" in what else what) for slug, _, what in of_manifests()}
    assert found <= TRUE, found - TRUE


def test_no_flag_of_a_start_that_worked_is_called_wrong() -> None:
    wrong = [(row, name, item) for row, name, item in of_starts() if item.get("flag") not in PATCHED]
    assert not wrong


if __name__ == "__main__":
    for finding in (*of_manifests(), *of_starts()):
        print(*finding)
