"""``planner budget``: of manifests, and of a configuration given by options."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.cli import house
from tests.cli.conftest import Run

OPTIONS = ("--engine", "vllm==0.11.0", "--model", "Qwen/Qwen3-8B", "--accelerator", "L4")


def plans(run: Run, *arguments: str) -> list[dict[str, Any]]:
    result = run("budget", "--format", "json", *arguments)
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout, parse_constant=_no_constant)["plans"]
    return found


def _no_constant(name: str) -> float:
    raise AssertionError(f"{name} is not JSON")


def test_options_stand_for_a_manifest(run: Run, folder: Path) -> None:
    """The same configuration gives the same budget either way."""
    (folder / "a.yaml").write_text(house.manifest("m"))
    flags = ("--", "--max-model-len", "8192")
    stated = ("--engine", "vllm==0.11.0", "--model", "meta-llama/Llama-3.1-8B-Instruct", "--gpus", "1")
    by_option = plans(run, *stated, "--accelerator", "H100-80GB-SXM", *flags)[0]
    by_manifest = plans(run, "a.yaml", "--accelerator", "H100-80GB-SXM")[0]
    assert by_option["workload"] is None
    assert by_manifest["workload"]["name"] == "m"
    for key in ("ranks", "capacity", "verdict", "model", "accelerator", "parallel", "gpus_per_pod"):
        if key == "model":
            continue
        assert by_option[key] == by_manifest[key], key
    assert by_option["model"]["id"] == by_manifest["model"]["id"]


def test_the_terms_of_a_rank_add_up(run: Run) -> None:
    memory = plans(run, *OPTIONS)[0]["ranks"][0]["memory"]
    counted = sum(memory[name]["expected"] for name in ("weights", "activations", "non_torch", "kv_available"))
    rest = memory["requested"]["expected"] - counted
    assert rest in (0, memory["graphs"]["expected"])
    assert memory["device"]["expected"] == memory["requested"]["expected"] + memory["outside"]["expected"]


def test_gpus_are_spread_over_pods(run: Run) -> None:
    flags = ("--", "--tensor-parallel-size", "4", "--pipeline-parallel-size", "2")
    plan = plans(run, *OPTIONS, "--gpus", "8", "--pods", "2", *flags)[0]
    assert (plan["gpus_per_pod"], plan["pods"]) == (4, 2)
    assert [rank["pod"] for rank in plan["ranks"]] == [0] * 4 + [1] * 4
    assert plan["parallel"] | {"context": 0} == {"tensor": 4, "pipeline": 2, "data": 1, "expert": False, "context": 0}


def test_a_given_cache_size_gives_its_tokens(run: Run) -> None:
    """36 layers × 2 × 8 KV heads × 128 × 2 bytes are 147,456 bytes a token of Qwen3-8B."""
    plan = plans(run, *OPTIONS, "--kv-cache-memory", str(147_456 * 16 * 100))[0]
    tokens = plan["capacity"]["kv_tokens"]
    assert (tokens["low"], tokens["expected"], tokens["high"]) == (1600, 1600, 1600)


@pytest.mark.parametrize(
    "flags",
    [
        ("--max-model-len", "9" * 5000),
        ("--max-model-len", "1e400"),
        ("--max-model-len=-1",),
        ("--gpu-memory-utilization", "nan"),
        ("--gpu-memory-utilization", "1e-320"),
        ("--hf-overrides", '{"a": NaN, "b": [Infinity], "c": 1e999}'),
        ("--hf-overrides", '{"a": ' + "[" * 700 + "]" * 700 + "}"),
        ("--hf-overrides", '{"a": "\\ud800"}'),
        ("--tensor-parallel-size", "0"),
        ("--block-size", "-16"),
        ("--no-such-flag", "x"),
        ("a", "lot", "of", "words"),
    ],
    ids=lambda flags: " ".join(flags)[:40],
)
def test_any_flags_give_json(run: Run, flags: tuple[str, ...]) -> None:
    plan = plans(run, *OPTIONS, "--", *flags)[0]
    assert plan["verdict"] in ("fits", "may-not-fit", "does-not-fit", "unknown")
    for rank in plan["ranks"]:
        for term in rank["memory"].values():
            assert all(isinstance(term[end], int) and math.isfinite(term[end]) for end in ("low", "expected", "high"))


def test_strict_is_two_where_a_budget_is_not_known(run: Run) -> None:
    known = run("budget", *OPTIONS, "--gpus", "1", "--strict")
    assert known.exit_code == 0
    unknown = ("budget", "--engine", "vllm==0.11.0", "--model", "nobody/nothing", "--accelerator", "L4")
    assert run(*unknown).exit_code == 0
    assert run(*unknown, "--strict").exit_code == 2


def test_another_engine_is_recognised_and_not_worked_out(run: Run) -> None:
    plan = plans(run, "--engine", "ollama==0.5.0", "--model", "Qwen/Qwen3-8B", "--accelerator", "L4")[0]
    assert plan["verdict"] == "unknown"
    assert plan["unknown"][0]["fact"] == "engine.memory"


def test_text_draws_a_bar_and_tells_what_fits(run: Run) -> None:
    text = run("budget", *OPTIONS).stdout
    bar = next(line for line in text.splitlines() if "[W" in line)
    assert len(bar.split("[")[1].split("]")[0]) == 60
    for expected in ("longest request that fits", "concurrency at max-model-len", "verdict: ", "weights"):
        assert expected in text


def test_explain_shows_formulas_and_sources(run: Run) -> None:
    plain = run("budget", *OPTIONS).stdout
    explained = run("budget", *OPTIONS, "--explain").stdout
    assert "        = " in explained
    assert "        = " not in plain
    assert "grows with" in explained


def test_without_an_engine_it_says_so(run: Run, folder: Path) -> None:
    (folder / "a.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
    result = run("budget", "a.yaml")
    assert result.exit_code == 0
    assert "no engine found" in result.stdout


def test_parse_errors_are_two_beside_the_plans(run: Run, folder: Path) -> None:
    (folder / "a.yaml").write_text(house.manifest("m"))
    (folder / "b.yaml").write_text(house.BROKEN)
    result = run("budget", "a.yaml", "b.yaml", "--format", "json")
    assert result.exit_code == 2
    document = json.loads(result.stdout)
    assert len(document["plans"]) == 1
    assert document["errors"][0]["file"] == "b.yaml"


def test_output_and_stdin(run: Run, folder: Path) -> None:
    result = run("budget", "-", "--format", "json", "-o", "plan.json", stdin=house.manifest("m"))
    assert (result.exit_code, result.stdout) == (0, "")
    assert json.loads((folder / "plan.json").read_text())["plans"][0]["workload"]["file"] == "<stdin>"


def test_sglang_settings_say_where_they_come_from(run: Run) -> None:
    """The engine's own names and heuristics, as text and as JSON."""
    options = ("--engine", "sglang==0.5.12", "--model", "Qwen/Qwen3-8B", "--accelerator", "H100-80GB-SXM")
    found = plans(run, *options, "--", "--max-running-requests", "64")[0]["engine"]["effective"]
    assert found["mem_fraction_static"]["value"] == 0.83
    assert "activations 12288" in found["mem_fraction_static"]["source"]
    assert found["chunked_prefill_size"] == {
        "value": 8192,
        "source": "SGLang 0.5.12 default (device memory of 81,559 MiB)",
    }
    assert found["max_running_requests"] == {"value": 64, "source": "command line: --max-running-requests"}
    assert found["cuda_graph_max_bs"]["value"] == found["cuda_graph_bs"]["value"][-1] == 256
    assert found["prefill_cuda_graph_bs"]["value"][-1] == 8192
    text = run("budget", *options).stdout
    for name in ("mem-fraction-static", "chunked-prefill-size", "max-running-requests", "cuda-graph-bs"):
        assert f"\n  {name} " in text
    assert "gpu-memory-utilization" not in text


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2024-05-10 00:00:{second:02d}.1000000,{600 + second},{80 + second}\n" for second in range(60)
)


def test_the_demand_of_options_comes_before_the_manifests(run: Run, folder: Path) -> None:
    text = house.manifest("m").replace("metadata:", "metadata:\n  annotations: {planner/workload: 'concurrency: 3'}", 1)
    assert "planner/workload" in text
    (folder / "a.yaml").write_text(text)
    (folder / "azure.csv").write_text(AZURE)
    assert plans(run, "a.yaml", "--accelerator", "L4")[0]["reserve"]["workload"]["in_flight"] == 3
    by_option = plans(run, "a.yaml", "--accelerator", "L4", "--workload", '{"concurrency": 5, "policy": "worst-case"}')
    assert by_option[0]["reserve"]["workload"]["in_flight"] == 5
    assert by_option[0]["reserve"]["policy"] == "worst-case"
    traced = plans(run, "a.yaml", "--accelerator", "L4", "--trace", "azure.csv")[0]["reserve"]
    assert traced["workload"]["source"] == "--trace"
    assert traced["workload"]["prompt_tokens"] == pytest.approx(629.5, rel=0.01)
    assert traced["workload"]["in_flight"] == math.ceil(0.03 * 109.5)  # one a second, 30 ms a token


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--workload", "{", "--workload"),
        ("--workload", '{"concurrency": -1}', "more than zero"),
        ("--workload", '{"trace": "/etc/passwd"}', "--trace"),
        ("--trace", "a.yaml", "trace"),
    ],
)
def test_a_demand_that_cannot_be_read(run: Run, folder: Path, option: str, value: str, words: str) -> None:
    (folder / "a.yaml").write_text(house.manifest("m"))
    result = run("budget", "a.yaml", "--accelerator", "L4", option, value)
    assert result.exit_code == 2
    assert words in result.output
