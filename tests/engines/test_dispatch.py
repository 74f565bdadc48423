"""Every engine through the one door that the pipeline uses."""

from __future__ import annotations

import pytest

from planner.accelerators.catalog import candidates
from planner.engines.dispatch import engine_modules, newest_release
from planner.models.resolve import resolve
from planner.provenance import assumed

_MODEL = "Qwen/Qwen3-8B"


@pytest.mark.parametrize("name", ["vllm", "sglang", "tgi", "trtllm", "dynamo-sglang"])
def test_engines_answer_alike(name: str) -> None:
    modules = engine_modules(name)
    assert modules is not None
    version = assumed(newest_release(modules), "newest")
    config = modules.parse_argv([], version=version, model=assumed(_MODEL, "test"), platform="cuda")
    assert config.engine == modules.name
    assert config.model is not None
    assert config.model.value == _MODEL
    model, accelerator = resolve(_MODEL).architecture, candidates("H100-80GB")[0]
    settled = modules.effective(config, model, accelerator, 1, 1)
    assert settled.parallel == modules.parallelism(config, 1, 1)
    found = modules.budget(model, settled, accelerator, gpus_per_pod=1)
    assert found.verdict == "fits"
    assert found.capacity is not None
    terms = found.ranks[0].terms
    for term in (
        "device",
        "requested",
        "weights",
        "activations",
        "non_torch",
        "graphs",
        "kv_available",
        "outside",
        "baseline",
    ):
        assert term in terms, term
    assert 100_000 < found.capacity.kv_tokens.expected < 500_000
    given = modules.budget(model, settled, accelerator, gpus_per_pod=1, kv_cache_memory=10 * 2**30)
    assert given.capacity is not None
    assert given.capacity.kv_tokens.expected == pytest.approx(10 * 2**30 / (36 * 8 * 256 * 2), rel=0.001)


def test_other_engines_are_not_evaluated() -> None:
    for name in ("llama.cpp", "ollama", "nim", "", "VLLM"):
        assert engine_modules(name) is None
