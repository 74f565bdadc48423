"""Hostile inputs, generated: mutated manifests, random YAML, random command lines. Nothing may crash or take over 2 s.

    python tests/fuzz/hostile.py [--count 100000] [--seed 1] [--folder MANIFESTS]

Each input is linted and budgeted in-process; a crash or a slow input is printed with the seed that makes it again, and the
exit code is 1. The test suite runs a small share of the same generator.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from planner.documents.read import read_bytes
from planner.engines.vllm import parse_argv
from planner.lint.rule import Rule
from planner.lint.run import lint, select_rules
from planner.plan import Plan, complete
from planner.provenance import Fact, Provenance
from planner.report import budget as budget_report
from planner.report import github, json_report, sarif, text
from planner.settings import Settings

SLOW_SECONDS = 2.0
_TOKENS = (
    "args", "command", "containers", "env", "value", "valueFrom", "- ", ": ", "null", "~", "[]", "{}", "[", "]", "{", "}",
    "|\n", ">-\n", "&a ", "*a", "<<: *a", "!!binary x", "!!python/object:os.system x", "? ", "\t", "\r\n", "\x00", "\x85",
    "\ufeff", "\u2028", "'", '"', "`", "$(", "${", "$((", "))", "<<EOF\n", "--model", "--tensor-parallel-size", "-tp", "0",
    "-1", "1e999", "99999999999999999999", "NaN", "0x7fffffffffffffff", "true", "on", "::error::x", "\x1b[31m", "{{ .Values.x }}",
    "--max-model-len=", "=", "kind: List\nitems:\n", "---\n", "...\n", "nvidia.com/gpu", "1Gi", "1.5", "8" * 400, "a" * 5000,
)  # fmt: skip
_FLAGS = (
    "--model", "--tensor-parallel-size", "-tp", "-pp", "-dp", "--max-model-len", "--max-num-seqs", "--max-num-batched-tokens",
    "--gpu-memory-utilization", "--kv-cache-dtype", "--dtype", "--quantization", "--speculative-config", "--compilation-config",
    "--compilation-config.mode", "-O", "-O3", "--enforce-eager", "--block-size", "--kv-cache-memory-bytes", "--config",
    "--num-gpu-blocks-override", "--enable-expert-parallel", "--data-parallel-size", "--hf-overrides", "--no-enable-prefix-caching",
    "--max-num-batched-token", "--cpu-offload-gb", "--lora-modules", "--enable-lora", "--max-lora-rank", "--pipeline-parallel-size",
)  # fmt: skip
_VALUES = (
    "0", "1", "2", "3", "7", "8", "-1", "1e9", "99999999999999999999999", "0.9", "1.0", "1.5", "nan", "inf", "auto", "fp8", "32k",
    "32K", "1.5m", "", "{", "{}", '{"method":"eagle","num_speculative_tokens":3}', "[1,2]", "null", "true", "bfloat16", "half",
    "Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B-Instruct", "deepseek-ai/DeepSeek-V3", "/models/x", "../../../etc/passwd", "\x00", "é" * 99,
    "google/gemma-3-27b-it", "openai/gpt-oss-20b", "Qwen/Qwen3-Next-80B-A3B-Instruct", "$X", "$(X)", "--", "-", "=",
)  # fmt: skip
_ACCELERATORS = ("L4", "H100-80GB", "T4", "B200", "MI300X", "GB10", "nonsense", "")
_SEED_MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: x, annotations: {planner/accelerator: L4}}
spec:
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.11.0
        command: [sh, -c]
        args: ["export A=1; exec vllm serve Qwen/Qwen3-8B --max-model-len $A \\"$@\\""]
        env: [{name: A, value: "8192"}, {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: s, key: k}}}]
        resources: {limits: {nvidia.com/gpu: 1}}
"""


def mutate(data: bytes, rng: random.Random) -> bytes:
    """A few random edits: cuts, repeats, swaps of lines, foreign tokens, flipped bytes."""
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            data = data[:at] + rng.choice(_TOKENS).encode() + data[at:]
        elif kind == 1:
            data = data[:at] + data[at + rng.randint(1, 40) :]
        elif kind == 2:
            piece = data[at : at + rng.randint(1, 80)]
            data = data[:at] + piece * rng.randint(2, 5) + data[at:]
        elif kind == 3:
            lines = data.split(b"\n")
            rng.shuffle(lines)
            data = b"\n".join(lines)
        elif kind == 4 and data:
            at = rng.randrange(len(data))
            data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        else:
            data = data[:at] + b"\n" + b" " * rng.randint(0, 12) + rng.choice(_TOKENS).encode() + b"\n" + data[at:]
    return data[:200_000]


def random_yaml(rng: random.Random) -> bytes:
    """Tokens in no order, deep nesting, or a wide document."""
    kind = rng.randrange(4)
    if kind == 0:
        return "".join(rng.choice(_TOKENS) for _ in range(rng.randint(1, 80))).encode("utf-8", "surrogatepass")
    if kind == 1:
        return (rng.choice("[{") * rng.randint(1, 3000)).encode()
    if kind == 2:
        depth = rng.randint(1, 400)
        return "\n".join(" " * level + "a:" for level in range(depth)).encode()
    return bytes(rng.randrange(256) for _ in range(rng.randint(0, 300)))


def random_argv(rng: random.Random) -> list[str]:
    """Flags and values in no order, joined or apart."""
    words = []
    for _ in range(rng.randint(0, 14)):
        flag, value = rng.choice(_FLAGS), rng.choice(_VALUES)
        words.extend(rng.choice(([flag, value], [f"{flag}={value}"], [flag], [value], [flag.replace("-", "_"), value])))
    return words


def check_manifest(data: bytes, rules: Sequence[Rule], settings: Settings) -> None:
    """Lints and prints in every format."""
    result = lint([read_bytes(data, "input.yaml")], rules, settings)
    for render in (text.render, json_report.render, sarif.render, github.render):
        render(result)


def check_argv(argv: list[str], model: str, accelerator: str, version: str) -> None:
    """Plans a command line and prints it."""
    source = Provenance("option", "fuzz")
    config = parse_argv(argv, version=Fact(version, source), model=Fact(model, source), platform="cuda")
    settings = Settings(accelerator=accelerator)
    plans = list(complete(Plan(engine=config, gpus_per_pod=Fact(2, source)), settings, {}))
    budget_report.render_json(plans, [])
    budget_report.render_text(plans, [], explain=True)


def run(count: int, seed: int, corpus: list[bytes], report: Callable[[str], None]) -> int:
    """Runs ``count`` inputs; the number of crashes and slow inputs."""
    settings = Settings()
    rules = select_rules(settings)
    bad = 0
    for number in range(count):
        rng = random.Random(f"{seed}-{number}")
        kind = rng.randrange(3)
        start = time.perf_counter()
        try:
            if kind == 0:
                check_manifest(mutate(rng.choice(corpus), rng), rules, settings)
            elif kind == 1:
                check_manifest(random_yaml(rng), rules, settings)
            else:
                version = rng.choice(("0.6.3", "0.8.5", "0.11.0", "0.19.1", "0.33.0", "junk", ""))
                check_argv(random_argv(rng), rng.choice(_VALUES), rng.choice(_ACCELERATORS), version)
        except Exception:
            bad += 1
            report(f"crash at --seed {seed} input {number}:\n{traceback.format_exc(limit=-3)}")
        seconds = time.perf_counter() - start
        if seconds > SLOW_SECONDS:
            bad += 1
            report(f"{seconds:.1f} s at --seed {seed} input {number}")
    return bad


def corpus_of(folder: Path | None) -> list[bytes]:
    """Manifests to mutate: those of a folder, else one of our own."""
    found = [path.read_bytes() for path in sorted(folder.glob("*.yaml"))] if folder else []
    return found or [_SEED_MANIFEST.encode()]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    start = time.perf_counter()
    bad = run(options.count, options.seed, corpus_of(options.folder), print)
    print(
        f"{options.count} inputs in {time.perf_counter() - start:.0f} s: {bad} crashed or took over {SLOW_SECONDS:g} s"
    )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
