"""``planner simulate``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run

GOLDEN = Path(__file__).parents[1] / "golden" / "scheduler-digest.jsonl"
CONTRACT = {"steps", "preemptions", "peak_blocks", "mean_blocks", "peak_running", "recomputed_tokens"}


def write_trace(path: Path, requests: list[list[int]]) -> None:
    names = ("arrival", "prompt_tokens", "output_tokens")
    path.write_text("".join(json.dumps(dict(zip(names, request, strict=True))) + "\n" for request in requests))


@pytest.mark.parametrize("line", GOLDEN.read_text().splitlines(), ids=lambda line: json.loads(line)["id"])
def test_the_contract_holds_with_the_engines_figures(run: Run, folder: Path, line: str) -> None:
    case = json.loads(line)
    write_trace(folder / "trace.jsonl", case["requests"])
    flags = [
        f"--{name.replace('_', '-')}={case[name]}"
        for name in (
            "num_blocks", "block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len", "watermark"
        )
    ]  # fmt: skip
    result = run("simulate", "--trace", "trace.jsonl", "--arrival-unit", "step", *flags, "--format", "json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["schema"] == "planner/v1"
    assert {name: document[name] for name in CONTRACT} == case["expected"]


def test_text_says_what_happened_and_draws_it(run: Run, folder: Path) -> None:
    write_trace(folder / "trace.jsonl", [[0, 200, 300], [0, 200, 300], [5, 9000, 10]])
    result = run("simulate", "--trace", "trace.jsonl", "--num-blocks", "40", "--max-model-len", "600")
    assert result.exit_code == 0
    assert "2 requests in" in result.output
    assert "of 1 requests" in result.output  # preempted
    assert "request 3 has 9,000 prompt tokens" in result.output
    assert "preempted" in result.output
    assert result.output.count("|") >= 16


def test_seconds_are_said_to_be_assumed_where_they_are(run: Run, folder: Path) -> None:
    Path("trace.csv").write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.1,30,4\n2024-05-10 00:00:09,30,4\n"
    )
    result = run("simulate", "--trace", "trace.csv", "--num-blocks", "40")
    assert result.exit_code == 0
    assert "assumed, --step-seconds says it" in result.output
    assert "time                9.0 s" in result.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--num-blocks", "1"), "--num-blocks"),
        (("--max-num-seqs", "300", "--max-num-batched-tokens", "200"), "max-num-batched-tokens"),
        (("--engine", "sglang"), "only vLLM"),
        (("--engine", "vllm==0.18.0", "--watermark", "0.1"), "no --watermark"),
        (("--trace", "missing.jsonl"), "missing.jsonl"),
    ],
)
def test_what_cannot_run_exits_2_and_says_why(run: Run, folder: Path, options: tuple[str, ...], words: str) -> None:
    write_trace(folder / "trace.jsonl", [[0, 20, 30]])
    base = () if "--num-blocks" in options else ("--num-blocks", "40")
    result = run("simulate", "--trace", "trace.jsonl", *base, *options)
    assert result.exit_code == 2
    assert words in result.output


def test_admission_follows_the_release(run: Run, folder: Path) -> None:
    """Before 0.19 a request came in when its first chunk fitted, and was thrown out again."""
    write_trace(folder / "trace.jsonl", [[0, 500, 200], [0, 500, 200], [0, 500, 200]])
    common = ("simulate", "--trace", "trace.jsonl", "--num-blocks", "60", "--max-num-batched-tokens", "256", "--format")
    old = json.loads(run(*common, "json", "--engine", "vllm==0.18.0").stdout)
    new = json.loads(run(*common, "json").stdout)
    assert old["preemptions"] > new["preemptions"]


def test_ten_thousand_requests_in_a_process(folder: Path) -> None:
    write_trace(folder / "trace.jsonl", [[n * 3, 500 + n % 700, 300 + n % 900] for n in range(10_000)])
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-m", "planner", "simulate", "--trace", "trace.jsonl", "--num-blocks", "8000", "--max-model-len", "8192"],
        capture_output=True, text=True, check=True, env={"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONUTF8": "1"},
    )  # fmt: skip
    after = os.times()  # processor time: a busy machine makes the wall clock say nothing
    assert after.children_user + after.children_system - before.children_user - before.children_system < 5
    assert done.stdout.startswith("10,000 requests")
    assert done.stderr == ""  # no bar where nobody looks


def test_requests_are_drawn_from_a_workload(run: Run) -> None:
    stated = '{"concurrency": 6, "prompt_tokens": "p50=300,max=900", "output_tokens": 100, "shared_prefix_tokens": 160}'
    common = ("simulate", "--workload", stated, "--num-blocks", "400", "--requests", "50", "--format", "json")
    first = json.loads(run(*common).stdout)
    assert first["finished"] == 50
    assert first["peak_running"] == 6
    assert first["generated_tokens"] == 5000
    assert json.loads(run(*common).stdout) == first  # the same seed
    assert json.loads(run(*common, "--seed", "1").stdout) != first
    assert json.loads(run(*common, "--prefix-caching").stdout)["mean_blocks"] < first["mean_blocks"]


def test_a_manifest_gives_the_engine(run: Run, folder: Path) -> None:
    from tests.cli.house import manifest

    Path("llm.yaml").write_text(manifest("llm"))
    result = run("simulate", "llm.yaml", "--requests", "40")
    assert result.exit_code == 0
    assert "engine settings of Deployment/llm" in result.output
    assert "assumed from max-model-len" in result.output
    small = run(
        "simulate", "llm.yaml", "--requests", "40", "--num-blocks", "600", "--max-num-seqs", "7", "--format", "json"
    )
    assert json.loads(small.stdout)["peak_running"] <= 7


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--num-blocks is missing"),
        (("--num-blocks", "50"), "--trace or --workload"),
        (("--num-blocks", "50", "--workload", "["), "--workload"),
        (("--num-blocks", "50", "--workload", '{"concurrency": "x"}'), "is no number"),
        (("empty.yaml",), "no engine"),
    ],
)
def test_a_question_that_is_not_complete(run: Run, folder: Path, arguments: tuple[str, ...], words: str) -> None:
    Path("empty.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n")
    result = run("simulate", *arguments)
    assert result.exit_code == 2
    assert words in result.output
