"""SGLang command lines → EngineConfig."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.data import data_folder
from planner.engines.config import EngineConfig, Word
from planner.engines.sglang import NEWEST_SGLANG, parse, parse_argv
from planner.engines.sglang_flag_table import flag_table
from planner.engines.version import parse_version
from planner.provenance import Position, from_default, from_file


def config(line: str, version: str = "0.5.12", env: dict[str, Any] | None = None) -> EngineConfig:
    return parse_argv(shlex.split(line), version=from_default(version, "test"), env=env)


def values(line: str, version: str = "0.5.12") -> dict[str, Any]:
    return {name: flag.value for name, flag in config(line, version).flags.items()}


def problems(line: str, version: str = "0.5.12") -> list[str]:
    return [message for _, message in config(line, version).argument_problems]


class File:
    """A stand-in for the node of a mounted file."""

    def __init__(self, text: str) -> None:
        self.text = text

    def position_at(self, offset: int) -> Position:
        return Position("config.yaml", 1, offset + 1)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--model-path a/b --tp-size 8", {"model-path": "a/b", "tensor-parallel-size": 8}),
        ("--model a/b --tensor-parallel-size=8", {"model-path": "a/b", "tensor-parallel-size": 8}),
        (
            "--tp 2 --dp 4 --pp-size 2",
            {"tensor-parallel-size": 2, "data-parallel-size": 4, "pipeline-parallel-size": 2},
        ),
        ("--ep 4 --mem-frac 0.8", {"expert-parallel-size": 4, "mem-fraction-static": 0.8}),
        ("--cuda-graph-bs 1 2 4 --disable-radix-cache", {"cuda-graph-bs": [1, 2, 4], "disable-radix-cache": True}),
        ("--chunked-prefill-size -1", {"chunked-prefill-size": -1}),
    ],
)
def test_values(line: str, expected: dict[str, Any]) -> None:
    assert values(line) == expected
    assert problems(line) == []


def test_last_value_wins() -> None:
    assert values("--tp 2 --tp-size 4") == {"tensor-parallel-size": 4}


@pytest.mark.parametrize(
    ("line", "version", "words"),
    [
        ("--disable_radix_cache", "0.5.12", "SGLang spells it --disable-radix-cache"),
        ("--max-model-len 8192", "0.5.12", "unrecognized arguments: --max-model-len"),
        ("--cuda-graph-max-bs 8", "0.5.23", "removed in 0.5.20; now --cuda-graph-max-bs-decode"),
        ("--enable-ep-moe", "0.5.6", "removed in 0.5.4.post1; now --expert-parallel-size"),
        ("--swa-full-tokens-ratio 0.5", "0.4.6", "from 0.4."),
        ("--tp-size x", "0.5.12", "invalid int value"),
        ("--dtype int8", "0.5.12", "invalid choice"),
    ],
)
def test_what_the_release_refuses(line: str, version: str, words: str) -> None:
    found = problems(line, version)
    assert len(found) == 1
    assert words in found[0]


def test_underscores_are_read_as_they_were_meant() -> None:
    assert values("--mem_fraction_static 0.7") == {"mem-fraction-static": 0.7}


@pytest.mark.parametrize(
    "line",
    [
        "python3 -m sglang.launch_server --model-path a/b --port 1",
        "python -m sglang.launch_server --model a/b --port 1",
        "sglang serve a/b --port 1",
        "sglang serve --model-path a/b --port 1",
        "serve a/b --port 1",
        "--model-path a/b --port 1",
    ],
)
def test_programs(line: str) -> None:
    found = parse([Word(text, None) for text in line.split()], version=from_default("0.5.20", "test"))
    assert found.model is not None
    assert found.model.value == "a/b"
    assert found.get("port") == 1
    assert found.argument_problems == ()


def test_launch_server_takes_no_positional() -> None:
    words = [Word(text, None) for text in ["python", "-m", "sglang.launch_server", "a/b"]]
    found = parse(words, version=from_default("0.5.12", "test"))
    assert found.model is None
    assert "unrecognized arguments: a/b" in found.argument_problems[0][1]


def test_model_is_required() -> None:
    assert [gap.fact for gap in config("--tp 2").unknown] == ["model"]


def test_unexpanded_model() -> None:
    words = [Word("--model-path", None), Word("$MODEL", Position("a.yaml", 3, 4), known=False)]
    found = parse(words, version=from_default("0.5.12", "test"))
    (gap,) = found.unknown
    assert gap.fact == "model"
    assert "define MODEL" in gap.remedy
    assert gap.position == Position("a.yaml", 3, 4)


def test_config_file_stands_before_the_command_line() -> None:
    files: dict[str, Any] = {"/c.yaml": File("tp-size: 4\nmodel-path: a/b\nenable-metrics: true\n")}
    words = [Word(text, None) for text in ("--config", "/c.yaml", "--tp-size", "2")]
    found = parse(words, version=from_default("0.5.12", "test"), files=files)
    assert found.get("tensor-parallel-size") == 2
    assert found.get("enable-metrics") is True
    assert found.model is not None
    assert found.model.value == "a/b"


def test_config_file_that_is_missing_hides_arguments() -> None:
    words = [Word(text, None) for text in ("--config", "/c.yaml")]
    found = parse(words, version=from_default("0.5.12", "test"))
    assert "engine.arguments" in {gap.fact for gap in found.unknown}


def test_environment_keeps_what_acts() -> None:
    place = Position("a.yaml", 1, 1)
    env = {"SGLANG_USE_AITER": from_file("0", place), "PATH": from_file("/bin", place)}
    assert list(config("--model a/b", env=env).env) == ["SGLANG_USE_AITER"]


def test_table_agrees_with_its_schema_and_its_releases() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    root = data_folder("schemas")
    document = json.loads((root / "engines" / "sglang_flags.json").read_text())
    schema = json.loads((root / "engine-flags.schema.json").read_text())
    jsonschema.validate(document, schema)
    releases = [parse_version(text) for text in document["releases"]]
    assert releases == sorted(releases)
    assert document["releases"][-1] == NEWEST_SGLANG
    assert set(document["renamed"].values()) <= set(document["flags"])


@pytest.mark.parametrize(
    ("version", "count"),
    [("0.4.0", 82), ("0.4.6", 124), ("0.5.3", 246), ("0.5.12", 387), ("0.5.18", 488), ("0.5.23", 531)],
)
def test_number_of_arguments(version: str, count: int) -> None:
    """Counts of the arguments that the releases' own parsers define, read from their sources."""
    table = flag_table(parse_version(version))
    assert sum(1 for spec in table.flags.values() if spec.active) == count


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(max_size=30) | st.sampled_from(["--tp", "--model-path", "--config", "-1", "=", "--cuda-graph-bs"]))
)
def test_never_raises(words: list[str]) -> None:
    parse_argv(words, version=from_default("0.5.12", "test"))
