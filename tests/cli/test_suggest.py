"""``planner suggest`` for a new deployment, through the command line."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import Result

from planner.data import data_folder
from planner.report.result import LintResult

LENGTHS = ("--prompt-tokens", "p50=800,p95=4000,max=16000", "--output-tokens", "p50=200,p95=800,max=2000")
QWEN = ("suggest", "--model", "Qwen/Qwen3-8B", "--concurrency", "32", *LENGTHS)


def documents(result: Result) -> dict[str, Any]:
    """The manifest's objects by kind."""
    return {document["kind"]: document for document in yaml.safe_load_all(result.stdout)}


def container(workload: dict[str, Any]) -> dict[str, Any]:
    """The engine's container of a Deployment."""
    found: dict[str, Any] = workload["spec"]["template"]["spec"]["containers"][0]
    return found


def test_the_manifest_alone_stands_on_standard_output(
    run: Callable[..., Result], lint_text: Callable[..., LintResult]
) -> None:
    result = run(*QWEN, "--accelerator", "L4")
    assert result.exit_code == 0
    found = documents(result)
    assert list(found) == ["PersistentVolumeClaim", "Deployment", "Service"]
    linted = lint_text(result.stdout)
    assert linted.findings == ()
    assert linted.problems == ()
    assert linted.engines == 1
    assert "next best" in result.stderr
    assert "budget" in result.stderr


def test_a_deployment_is_complete(run: Callable[..., Result]) -> None:
    found = documents(run(*QWEN, "--accelerator", "L4", "--name", "chat", "--namespace", "llm"))
    deployment = found["Deployment"]
    pod, engine = deployment["spec"]["template"]["spec"], container(deployment)
    assert {document["metadata"]["namespace"] for document in found.values()} == {"llm"}
    assert engine["image"] == "vllm/vllm-openai:v0.33.0"
    assert engine["resources"]["limits"] == {"nvidia.com/gpu": 2}
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-L4"}
    assert pod["tolerations"][0]["key"] == "nvidia.com/gpu"
    assert {"name": "shm", "mountPath": "/dev/shm"} in engine["volumeMounts"]
    assert {probe for probe in engine if probe.endswith("Probe")} == {"startupProbe", "readinessProbe", "livenessProbe"}
    startup = engine["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] < deployment["spec"]["progressDeadlineSeconds"]
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    # 8.19e9 parameters of two bytes, and room beside them
    size = int(found["PersistentVolumeClaim"]["spec"]["resources"]["requests"]["storage"].removesuffix("Gi"))
    assert 17 <= size <= 25


def test_accelerators_are_ranked_by_gpus(run: Callable[..., Result]) -> None:
    result = run(*QWEN, "--accelerator", "L4", "--accelerator", "H100-80GB", "--format", "json")
    answers = json.loads(result.stdout)["suggestions"]
    assert [(answer["accelerator"], answer["gpus"]) for answer in answers] == [("H100-80GB-SXM", 1), ("L4", 2)]
    assert list(yaml.safe_load_all(answers[0]["manifest"]))[1]["kind"] == "Deployment"


def test_prices_decide_where_all_are_known(run: Callable[..., Result], folder: Any) -> None:
    (folder / "planner.yaml").write_text("prices: {L4: 0.7, H100-80GB: 2.5}\n")
    result = run(*QWEN, "--accelerator", "L4", "--accelerator", "H100-80GB", "--format", "json")
    answers = json.loads(result.stdout)["suggestions"]
    assert [(answer["accelerator"], answer["price_per_hour"]) for answer in answers] == [
        ("L4", 1.4),
        ("H100-80GB-SXM", 2.5),
    ]


def test_a_limit_that_cannot_be_kept_is_said_with_numbers(run: Callable[..., Result]) -> None:
    model = ("--model", "meta-llama/Llama-3.1-70B-Instruct", "--concurrency", "32", *LENGTHS)
    result = run("suggest", *model, "--accelerator", "A100-80GB-SXM", "--max-gpus", "1")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "3 GPUs are needed" in result.stderr
    assert "--max-gpus allows 1" in result.stderr


def test_a_copy_over_several_nodes_is_a_leader_worker_set(
    run: Callable[..., Result], lint_text: Callable[..., LintResult]
) -> None:
    model = ("--model", "meta-llama/Llama-3.1-405B-Instruct", "--concurrency", "20", *LENGTHS)
    result = run("suggest", *model, "--accelerator", "H100-80GB")
    assert result.exit_code == 0
    found = documents(result)
    group = found["LeaderWorkerSet"]["spec"]["leaderWorkerTemplate"]
    leader = group["leaderTemplate"]["spec"]["containers"][0]
    worker = group["workerTemplate"]["spec"]["containers"][0]
    assert "--node-rank=0" in leader["args"]
    assert "--headless" not in leader["args"]
    assert "--headless" in worker["args"]
    assert "startupProbe" not in worker
    assert leader["env"][0]["valueFrom"]["secretKeyRef"]["name"] == "hf-token"
    assert found["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"]
    assert [finding.rule for finding in lint_text(result.stdout).findings if finding.severity != "info"] == []


def test_flags_behind_dashes_are_kept(run: Callable[..., Result]) -> None:
    result = run(*QWEN, "--accelerator", "L4", "--", "--gpu-memory-utilization=0.85", "--kv-cache-dtype=fp8")
    args = container(documents(result)["Deployment"])["args"]
    assert args[-2:] == ["--gpu-memory-utilization=0.85", "--kv-cache-dtype=fp8"]
    assert sum(arg.startswith("--gpu-memory-utilization") for arg in args) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--accelerator", "L5"), "not in the accelerator catalog"),
        (("--accelerator", "A100"), "name one of these"),
        (("--accelerator", "L4", "--max-model-len", "9999999"), "is more than the 40,960 tokens of the model"),
        (("--accelerator", "L4", "--engine", "sglang==0.5.0"), "only vLLM"),
        (("--accelerator", "L4", "--name", "Not A Name"), "lower-case letters"),
        (("--accelerator", "L4", "--", "--no-such-flag"), "does not take these flags"),
        (("--accelerator", "L4", "--", "--port=9000"), "the Service, the probes and the engine use 8000"),
        (("--accelerator", "L4", "--", "--data-parallel-size=2"), "more copies are more replicas"),
        (("--accelerator", "L4", "--", "--max-model-len=1000"), "name it in front of --"),
        (("--accelerator", "L4", "--engine", "vllm==9.9"), "no release that is known"),
        (("--accelerator", "L4", "--engine", "vllm==latest"), "no release of vLLM"),
        ((), "no accelerator is named"),
        (("--accelerator", "L4", "--keep", "max-model-len"), "belong to manifests"),
    ],
)
def test_what_cannot_be_asked(run: Callable[..., Result], options: tuple[str, ...], message: str) -> None:
    result = run(*QWEN, *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_the_image_is_tagged_as_the_release_is(run: Callable[..., Result]) -> None:
    result = run(*QWEN, "--accelerator", "L4", "--engine", "vllm==0.18")
    assert container(documents(result)["Deployment"])["image"] == "vllm/vllm-openai:v0.18.0"


def test_a_load_must_be_stated(run: Callable[..., Result]) -> None:
    result = run("suggest", "--model", "Qwen/Qwen3-8B", "--accelerator", "L4", *LENGTHS)
    assert result.exit_code == 2
    assert "--concurrency N or --requests-per-second R" in result.stderr
    result = run("suggest", "--model", "Qwen/Qwen3-8B", "--accelerator", "L4", "--concurrency", "4")
    assert result.exit_code == 2
    assert "--prompt-tokens is missing" in result.stderr


def test_the_command_of_the_readme(run: Callable[..., Result]) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    command, table = re.findall(r"<!-- suggest command -->\n```sh\n(.*?)```\n\n```text\n(.*?)```", readme, re.DOTALL)[0]
    result = run(*shlex.split(command.removeprefix("planner ").partition(" > ")[0]))
    assert result.exit_code == 0
    for line in table.splitlines():
        # What a copy holds moves with every measured term of memory; where a copy runs does not.
        stated, requests = line.rsplit(None, 1)
        found = next((other for other in result.stderr.splitlines() if other.startswith(stated)), "")
        assert found, line
        if requests.isdigit():
            assert int(found.rsplit(None, 1)[1]) == pytest.approx(int(requests), rel=0.1)


def test_a_mapped_path_stays_a_path(run: Callable[..., Result], lint_text: Callable[..., LintResult]) -> None:
    model = ("--model", "/models/chat", "--model-map", "/models/chat=Qwen/Qwen3-8B", "--concurrency", "4", *LENGTHS)
    result = run("suggest", *model, "--accelerator", "H100-80GB")
    deployment = documents(result)["Deployment"]
    assert container(deployment)["args"][0] == "/models/chat"
    assert {"name": "weights", "mountPath": "/models/chat"} in container(deployment)["volumeMounts"]
    assert deployment["metadata"]["annotations"]["planner/model"] == "Qwen/Qwen3-8B"
    assert lint_text(result.stdout).findings == ()


def test_an_fp8_cache_only_where_the_limit_asks_for_it(run: Callable[..., Result]) -> None:
    model = ("--model", "Qwen/Qwen3-8B", "--concurrency", "16", *LENGTHS, "--accelerator", "L4")
    free = run("suggest", *model)
    assert "--kv-cache-dtype" not in free.stdout
    assert "--kv-cache-dtype fp8, which changes results slightly: 1 GPU" in free.stderr
    limited = run("suggest", *model, "--max-gpus", "1")
    assert limited.exit_code == 0
    assert "--kv-cache-dtype=fp8" in limited.stdout
    assert "without it 2 GPUs are needed" in limited.stderr


def test_a_pooling_model_needs_no_reserve(run: Callable[..., Result]) -> None:
    result = run("suggest", "--model", "BAAI/bge-large-en-v1.5", "--concurrency", "4", *LENGTHS, "--accelerator", "L4")
    assert result.exit_code == 1
    assert "is a pooling model" in result.stderr


def test_no_manifest_of_an_engine_that_is_not_evaluated(run: Callable[..., Result]) -> None:
    result = run(*QWEN, "--accelerator", "TPU-v5e")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "only on NVIDIA and AMD GPUs" in result.stderr


def test_a_broken_rule_of_ones_own_is_said(run: Callable[..., Result], folder: Path) -> None:
    (folder / "own").mkdir()
    (folder / "own" / "broken.yaml").write_text("id: broken\n")
    (folder / "planner.yaml").write_text("rules: [own]\n")
    result = run(*QWEN, "--accelerator", "L4")
    assert result.exit_code == 2
    assert "broken.yaml" in result.stderr


def test_a_trace_of_the_settings_is_the_demand(run: Callable[..., Result], folder: Path) -> None:
    (folder / "trace.jsonl").write_text(
        "".join(f'{{"arrival": {n}, "prompt_tokens": {200 + 10 * n}, "output_tokens": {50 + n}}}\n' for n in range(100))
    )
    (folder / "planner.yaml").write_text("workload: {concurrency: 8, trace: trace.jsonl}\n")
    result = run("suggest", "--model", "Qwen/Qwen3-8B", "--accelerator", "L4")
    assert result.exit_code == 0
    assert "100 requests of a trace" in result.stderr
    args = container(documents(result)["Deployment"])["args"]
    assert "--max-model-len=1536" in args  # 1190 + 149 tokens, to a multiple of 256
    assert "annotations" not in documents(result)["Deployment"]["metadata"]


def test_json_follows_its_schema(run: Callable[..., Result]) -> None:
    schema = json.loads((data_folder("schemas") / "suggest.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    devices = ("--accelerator", "L4", "--accelerator", "TPU-v5e", "--accelerator", "T4", "--max-gpus", "2")
    document = json.loads(run(*QWEN, *devices, "--format", "json").stdout)
    jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
    assert [answer["works"] for answer in document["suggestions"]] == [True, False, False]


def test_another_policy_takes_more_gpus(run: Callable[..., Result]) -> None:
    usual = run(*QWEN, "--accelerator", "H100-80GB", "--format", "json")
    worst = run(*QWEN, "--accelerator", "H100-80GB", "--format", "json", "--policy", "worst-case")
    gpus = [json.loads(result.stdout)["suggestions"][0]["gpus"] for result in (usual, worst)]
    assert gpus[0] < gpus[1]
