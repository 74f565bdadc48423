"""Which containers start an engine, and which one."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from planner.documents.read import read_path
from planner.engines.detect import detect, find_engine, find_engines
from planner.workloads.extract import extract
from tests.engines.containers import VLLM, container

SHARED = Path(__file__).resolve().parents[2].parent / "shared"


@pytest.mark.parametrize(
    ("command", "args", "image", "engine", "words"),
    [
        (["vllm", "serve"], ["m"], VLLM, "vllm", ["m"]),
        (["/app/venv/bin/vllm", "serve", "m"], None, "x:1", "vllm", ["m"]),
        (["vllm", "run-batch", "-i", "f"], None, VLLM, "vllm", ["-i", "f"]),
        (["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"], None, None, "vllm", ["--model", "m"]),
        (["python", "-u", "-m", "vllm.entrypoints.api_server"], ["--model=m"], None, "vllm", ["--model=m"]),
        (["python3", "/workspace/vllm/vllm/entrypoints/openai/api_server.py", "--x"], None, None, "vllm", ["--x"]),
        (["python3.12", "-mvllm.entrypoints.openai.api_server", "--x"], None, None, "vllm", ["--x"]),
        (["python", "-m", "vllm.entrypoints.cli.main", "serve", "m"], None, None, "vllm", ["m"]),
        (["sh", "-c", "vllm serve m --x"], None, VLLM, "vllm", ["m", "--x"]),
        (["ray", "job", "submit", "--", "vllm", "serve", "m"], None, VLLM, "vllm", ["m"]),
        (None, ["--model", "m"], VLLM, "vllm", ["--model", "m"]),
        (None, ["org/m", "--x"], VLLM, "vllm", ["org/m", "--x"]),
        (None, ["gpt2"], VLLM, "vllm", ["gpt2"]),
        (None, ["/models/m"], VLLM, "vllm", ["/models/m"]),
        (None, None, VLLM, "vllm", []),
        (None, ["serve", "m"], "rocm/vllm:latest", "vllm", ["m"]),
        (None, ["vllm", "serve", "m"], "nvcr.io/nvidia/vllm:25.09-py3", "vllm", ["m"]),
        (None, ["sh", "-c", "vllm serve m"], VLLM, "vllm", ["m"]),
        (None, ["-c", "cd /x && vllm serve m"], "acme/own:1", "vllm", ["m"]),
        (None, ["cd /x && vllm serve m"], "acme/own:1", "vllm", ["m"]),
        (None, ["--model", "m"], "harbor.example/docker-proxy/vllm/vllm-openai:v0.9.2", "vllm", ["--model", "m"]),
        (None, ["--model", "m"], "ghcr.io/llm-d/llm-d-cuda:v0.3.0", "vllm", ["--model", "m"]),
        (None, ["--model", "m"], "registry.redhat.io/rhaiis/vllm-cuda-rhel9:3.2.1", "vllm", ["--model", "m"]),
        (None, ["--model=m", "--tensor-parallel-size=2"], "V_IMAGE_NAME", "vllm", ["--model=m", "--tensor-parallel-size=2"]),
        (None, ["--model=m", "--max_model_len=2"], "replaced-by-kustomize", "vllm", ["--model=m", "--max_model_len=2"]),
        (["vllm", "serve", "m", "--omni"], None, "vllm/vllm-omni:v0.20.0", "vllm-omni", ["m", "--omni"]),
        (["python3", "-m", "sglang.launch_server", "--tp", "1"], None, None, "sglang", ["--tp", "1"]),
        (["sglang", "serve", "--tp", "1"], None, None, "sglang", ["--tp", "1"]),
        (["text-generation-launcher", "--num-shard", "1"], None, None, "tgi", ["--num-shard", "1"]),
        (None, ["--model-id=m"], "ghcr.io/huggingface/text-generation-inference:2.4.0", "tgi", ["--model-id=m"]),
        (["/opt/nvidia/nvidia_entrypoint.sh"], ["trtllm-serve", "m"], None, "trtllm", ["m"]),
        (["/app/llama-server"], ["-m", "x.gguf"], None, "llama.cpp", ["-m", "x.gguf"]),
        (None, None, "nvcr.io/nim/meta/llama-3.1-8b-instruct:1.8", "nim", []),
        (None, None, "ollama/ollama:0.6", "ollama", []),
        (["python3", "-m", "huggingfaceserver", "--x"], None, None, "huggingfaceserver", ["--x"]),
        (["tritonserver", "--x"], None, None, "triton", ["--x"]),
        (["python3", "-m", "dynamo.vllm", "--model", "m"], None, None, "dynamo-vllm", ["--model", "m"]),
    ],
)  # fmt: skip
def test_engines(
    command: list[str] | None, args: list[str] | None, image: str | None, engine: str, words: list[str]
) -> None:
    start = find_engine(container(command, args, image=image))
    assert start is not None
    assert start.engine == engine
    assert [word.text for word in start.command_line.words] == words
    assert start.reason


@pytest.mark.parametrize(
    ("command", "args", "image"),
    [
        (None, ["--port=8000", "--vllm-port=8200"], "ghcr.io/llm-d/llm-d-routing-sidecar:v0.3.0"),
        (None, ["--policy", "cache_aware", "--tp-size", "2"], "lmsysorg/sgl-model-gateway:v0.3.2"),
        (None, ["--routing-logic", "session"], "lmcache/lmstack-router:latest"),
        (["vllm-router", "--port", "1"], None, VLLM),
        (["python3", "-m", "vllm_router.app"], None, VLLM),
        (["python3", "-m", "sglang_router.launch_router"], None, None),
        (None, ["--model", "m", "--max-model-len", "9"], "ghcr.io/llm-d/llm-d-inference-sim:v0.5"),
        (["vllm", "serve", "m"], None, "acme/vllm-simulator:latest"),
        (None, None, "ghcr.io/open-webui/open-webui:main"),
        (None, None, "acme/vllm-chat-ui:1"),
        (None, ["--config", "c.yaml"], "ghcr.io/berriai/litellm:main"),
        (["vllm", "bench", "serve", "--model", "m"], None, VLLM),
        (["python3", "benchmark_serving.py", "--model", "m"], None, VLLM),
        (["vllm", "collect-env"], None, VLLM),
        (["vllm", "--version"], None, VLLM),
        (["sleep", "infinity"], None, VLLM),
        (["sh", "-c", "sleep infinity"], None, VLLM),
        (["tail", "-f", "/dev/null"], None, VLLM),
        (["huggingface-cli", "download", "m"], None, VLLM),
        (["bash", "-c", "pip install x && hf download m"], None, VLLM),
        (["ray", "start", "--head", "--block"], None, VLLM),
        (["sh", "-c", "bash /x/multi-node-serving.sh worker --ray_address=a"], None, VLLM),
        (["lmcache_server", "0.0.0.0", "1"], None, "lmcache/vllm-openai:latest"),
        (["python3", "client.py"], None, VLLM),
        (None, None, "nvcr.io/nvidia/vllm:25.09-py3"),
        (None, None, "nginx:1.27"),
        (None, ["--port", "80"], "acme/web:1"),
        (None, None, None),
    ],
)
def test_no_engines(command: list[str] | None, args: list[str] | None, image: str | None) -> None:
    found = detect(container(command, args, image=image))
    assert found.engines == ()
    assert found.reason


def test_idle_development_pod_says_so() -> None:
    assert "keeps the container alive" in detect(container(["sleep", "infinity"])).reason


def test_script_in_the_image_is_an_engine_of_low_confidence() -> None:
    start = find_engine(container(["/entrypoint.sh"], image="acme/vllm-opt125m:1"))
    assert start is not None
    assert start.confidence == "low"
    assert [word.known for word in start.command_line.words] == [False]


def test_own_image_without_arguments_may_bring_its_model() -> None:
    start = find_engine(container(image="acme/vllm-llama8b:1"))
    assert start is not None
    assert start.confidence == "medium"
    assert [word.known for word in start.command_line.words] == [False]


def test_several_engines_in_one_script() -> None:
    starts = find_engines(container(["sh", "-c", "vllm serve a --port 1 & vllm serve b --port 2 & wait"]))
    assert [start.command_line.words[0].text for start in starts] == ["a", "b"]
    assert all(start.certain for start in starts)


def test_reachable_start_comes_first() -> None:
    script = 'if [ -n "$S" ]; then vllm serve a; fi; vllm serve b'
    starts = find_engines(container(["sh", "-c", script], env={"S": None}))
    assert [(start.command_line.words[0].text, start.certain) for start in starts] == [("b", True), ("a", False)]


def test_restart_loop_is_one_start() -> None:
    assert len(find_engines(container(["sh", "-c", "while true; do vllm serve m; sleep 5; done"]))) == 1


def test_written_config_file_is_handed_on() -> None:
    script = "cat > /tmp/c.yaml <<EOF\nmax-model-len: 10\nEOF\nvllm serve m --config /tmp/c.yaml"
    start = find_engine(container(["sh", "-c", script]))
    assert start is not None
    assert start.files == (("/tmp/c.yaml", "max-model-len: 10\n"),)


CORE = {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod", "Job", "CronJob", "LeaderWorkerSet"}


@pytest.mark.skipif(not SHARED.is_dir(), reason="the corpus is not at hand")
def test_corpus() -> None:
    """Of the files that run vLLM on a core kind per the index, at least 98 % have it recognised, each within the time."""
    folder = SHARED / "corpus" / "manifests"
    index = {}
    for line in (folder / "index.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if entry["split"] == "dev" and entry["engine"] and CORE & set(entry["kinds"]):
            index[entry["slug"]] = entry
    expected = recognised = 0
    missed: list[str] = []
    for name in sorted(os.listdir(folder / "dev")):
        entry = index.get(name.rpartition(".")[0])
        if entry is None or entry["engine"] != "vllm":
            continue
        content = read_path(folder / "dev" / name, name)
        containers = [
            box
            for workload in extract(content.documents).workloads
            if workload.kind in CORE
            for pod in workload.pods
            for box in pod.containers
            if not box.init or box.sidecar
        ]
        if not containers or entry["kinds"][0] not in CORE:
            continue
        begin = time.process_time()
        engines = {start.engine for box in containers for start in find_engines(box)}
        assert time.process_time() - begin < 0.5
        expected += 1
        if engines & {"vllm", "vllm-omni"}:
            recognised += 1
        else:
            missed.append(name)
    assert expected >= 50
    assert recognised >= 0.98 * expected, missed
