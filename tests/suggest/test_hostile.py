"""Manifests out of a stranger's hands, a little broken: fixes and suggestions never crash, and never write what was not meant."""

from __future__ import annotations

import random

import pytest

from planner.documents.read import read_bytes
from planner.lint.run import select_rules
from planner.settings import Settings
from planner.suggest.existing import improve
from planner.suggest.fixes import fix_all
from planner.suggest.manifests import Input, Manifests
from tests.fuzz.hostile import mutate
from tests.suggest.editing import pod

SETTINGS = Settings(assume_accelerator="L4")
SEEDS = (
    pod("args:\n  - --model=meta-llama/Llama-3.1-8B-Instruct\n  - --max-num-seq=128\n  - --port=1\n  - --port=2\n"),
    pod(
        "command: [sh, -c]\nargs:\n  - |\n    SEQS=128\n    vllm serve Qwen/Qwen3-8B --max-num-seqs $SEQS \\\n      --enforce-eagre\n"
    ),
    pod('args: ["--model", "Qwen/Qwen3-8B", "--max-num-seqs=$(N)"]\nenv: [{name: N, value: "128"}]\n'),
)


@pytest.mark.parametrize("seed", range(3))
def test_mutated_manifests(seed: int) -> None:
    rng = random.Random(seed)
    rules = select_rules(SETTINGS)
    for _ in range(25):
        data = mutate(SEEDS[seed].encode(), rng)
        for unsafe in (False, True):
            found = Manifests([Input("a.yaml", None, data)], [read_bytes(data, "a.yaml")], SETTINGS)
            if unsafe:
                fix_all(found, rules, True)
            else:
                improve(found, rules)
            if found.changed:
                assert read_bytes(found.texts["a.yaml"].encode(), "a.yaml").problems == ()
                assert found.diff().startswith("--- a/a.yaml\n")
