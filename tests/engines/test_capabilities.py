"""The least compute capability of the engines' own images; the values are those of the releases' build files."""

from __future__ import annotations

import pytest

from planner.engines.capabilities import always, floor, newest_for
from planner.engines.version import parse_version

VLLM, SGLANG, TRTLLM = "vllm/vllm-openai", "lmsysorg/sglang", "nvcr.io/nvidia/tensorrt-llm/release"


@pytest.mark.parametrize(
    ("engine", "version", "image", "refused"),
    [
        ("vllm", "0.2.7", f"{VLLM}:v0.2.7", (7, 0)),
        ("vllm", "0.8.5.post1", f"{VLLM}:v0.8.5.post1", (7, 0)),
        ("vllm", "0.9.0", f"{VLLM}:v0.9.0", (7, 5)),
        ("vllm", "0.9.2", f"{VLLM}:v0.9.2", (7, 5)),
        ("vllm", "0.9.1", f"{VLLM}:v0.9.1-cu126", (7, 0)),
        ("vllm", "0.10.0", f"{VLLM}:v0.10.0", (7, 0)),
        ("vllm", "0.19.1", f"{VLLM}:v0.19.1", (7, 0)),
        ("vllm", "0.19.1", f"{VLLM}:v0.19.1-cu130", (7, 5)),
        ("vllm", "0.19.1", f"{VLLM}:v0.19.1-cu129", (7, 0)),
        ("vllm", "0.20.0", f"{VLLM}:v0.20.0", (7, 5)),
        ("vllm", "0.20.0", f"{VLLM}:v0.20.0-cu129", (7, 5)),
        ("vllm", "0.33.0", f"mirror.example.com/docker.io/{VLLM}:v0.33.0", (7, 5)),
        ("vllm", "0.33.0", f"{VLLM}-nonroot:v0.33.0", (7, 5)),
        ("sglang", "0.2.15", f"{SGLANG}:v0.2.15-cu121", (7, 5)),
        ("sglang", "0.5.23", f"{SGLANG}:v0.5.23", (7, 5)),
        ("trtllm", "0.15.0", f"{TRTLLM}:0.15.0", (7, 5)),
        ("trtllm", "1.2.0", f"{TRTLLM}:1.2.0", (8, 0)),
        ("trtllm", "1.2.1", "nvcr.io/nvidia/ai-dynamo/tensorrtllm-runtime:1.3.0", (8, 0)),
    ],
)
def test_what_an_engines_own_image_refuses(engine: str, version: str, image: str, refused: tuple[int, int]) -> None:
    found = floor(engine, parse_version(version), image)
    assert found is not None
    assert found.refused == refused


@pytest.mark.parametrize(
    ("engine", "version", "image"),
    [
        ("vllm", "0.33.0", "example.com/team/vllm-openai:v0.33.0"),  # may be built for other devices
        ("vllm", "0.33.0", "ghcr.io/someone/vllm-pascal:v0.33.0"),
        ("vllm", "0.33.0", "vllm/vllm-openai-rocm:v0.33.0"),
        ("sglang", "0.2.14", f"{SGLANG}:v0.2.14"),  # before the check
        ("sglang", "0.5.23", "example.com/sglang-v100:v0.5.23"),
        ("trtllm", "0.14.0", f"{TRTLLM}:0.14.0"),
        ("tgi", "3.3.0", "ghcr.io/huggingface/text-generation-inference:3.3.0"),  # falls back
    ],
)
def test_where_nothing_is_certain(engine: str, version: str, image: str) -> None:
    assert floor(engine, parse_version(version), image) is None


def test_the_newest_release_for_a_device() -> None:
    assert newest_for("vllm", (7, 0)) == "0.19.1"
    assert newest_for("vllm", (6, 0)) == ""
    assert newest_for("sglang", (7, 0)) == ""
    assert newest_for("trtllm", (7, 5)) == ""


def test_what_no_release_runs_on() -> None:
    assert always("vllm") == (7, 0)
    assert always("sglang") == (7, 5)
    assert always("tgi") == (0, 0)
