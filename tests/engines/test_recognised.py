from __future__ import annotations

import pytest

from tests.workloads.planning import gaps, plan, plans, summary


def pod(image: str, args: str = "[]", command: str = "", env: str = "[]") -> str:
    first = f"command: {command}, " if command else ""
    return f"""
    apiVersion: v1
    kind: Pod
    metadata: {{name: x}}
    spec:
      containers:
        - {{name: a, image: {image}, {first}args: {args}, env: {env}, resources: {{limits: {{nvidia.com/gpu: 2}}}}}}
    """


@pytest.mark.parametrize(
    ("image", "args", "expected"),
    [
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", "[-hf, a/b-GGUF]", "llama.cpp a/b-GGUF 1x1x1"),
        ("ghcr.io/huggingface/text-embeddings-inference:1.5", "[--model-id, BAAI/bge-m3]", "tei BAAI/bge-m3 1x1x1"),
        (
            "kserve/huggingfaceserver:v0.14.0",
            "[--model_id=a/b, --tensor-parallel-size=2]",
            "huggingfaceserver a/b 2x1x1",
        ),
        ("openmmlab/lmdeploy:v0.6", "[a/b]", "lmdeploy a/b 1x1x1"),
        ("nvcr.io/nim/meta/llama-3.1-8b-instruct:1.3", "[]", "nim ? 1x1x1"),
    ],
)
def test_model_and_sizes(image: str, args: str, expected: str):
    found = plan(pod(image, args))
    assert summary(found) == f"{expected} 2x1"
    assert "not evaluated" in gaps(found)


def test_variables():
    env = "[{name: NIM_MODEL_NAME, value: a/b}, {name: NIM_TENSOR_PARALLEL_SIZE, value: '2'}]"
    assert summary(plan(pod("nvcr.io/nim/nvidia/llm-nim:1", env=env))) == "nim a/b 2x1x1 2x1"


@pytest.mark.parametrize("size", ["two", "-1", "${N}", "99999999", "²"])
def test_size_that_is_no_number(size: str):
    assert summary(plan(pod("kserve/huggingfaceserver:v1", f"[--model_id=a, --tensor-parallel-size, '{size}']"))) == (
        "huggingfaceserver a ? 2x1"
    )


def test_nothing_else_is_an_engine():
    assert not plans(pod("docker.io/nginx:1.27"))
