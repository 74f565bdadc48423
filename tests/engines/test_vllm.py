"""vLLM command lines → EngineConfig."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.engines.config import EngineConfig, Word
from planner.engines.version import parse_version
from planner.engines.vllm import flag_fact, human_int, parse, parse_argv
from planner.engines.vllm_config_file import ConfigFileError, read_entries
from planner.engines.vllm_flag_table import flag_table
from planner.provenance import Fact, Position, from_default, from_file


def config(line: str, version: str = "0.11.0", env: dict[str, Any] | None = None) -> EngineConfig:
    return parse_argv(shlex.split(line), version=from_default(version, "test"), env=env)


def values(line: str, version: str = "0.11.0") -> dict[str, Any]:
    return {name: flag.value for name, flag in config(line, version).flags.items()}


def problems(line: str, version: str = "0.11.0") -> list[str]:
    return [message for _, message in config(line, version).argument_problems]


class File:
    """A stand-in for the node of a mounted file: one character is one column."""

    def __init__(self, text: str) -> None:
        self.text = text

    def position_at(self, offset: int) -> Position:
        before = self.text[:offset]
        return Position("cm.yaml", before.count("\n") + 1, offset - before.rfind("\n"))


# ---- spellings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [
        "",
        "serve",
        "vllm serve",
        "/usr/local/bin/vllm serve",
        "python3 -m vllm.entrypoints.openai.api_server",
        "python -u -m vllm.entrypoints.cli.main serve",
        "numactl --cpunodebind=0 vllm serve",
        "python3 /app/api_server.py",
        "python3 -m dynamo.vllm",
    ],
)
def test_programs(program: str) -> None:
    found = config(f"{program} --model org/name -tp 4")
    assert found.model is not None
    assert found.model.value == "org/name"
    assert found.get("tensor-parallel-size") == 4
    assert not [m for _, m in found.argument_problems if "unrecognized" in m]


@pytest.mark.parametrize(
    "flag",
    [
        "--tensor-parallel-size 8",
        "--tensor-parallel-size=8",
        "--tensor_parallel_size 8",
        "--tensor_parallel_size=8",
        "-tp 8",
        "-tp=8",
        "--tensor-par 8",
    ],
)
def test_one_flag_in_every_spelling(flag: str) -> None:
    assert values(f"m {flag}") == {"tensor-parallel-size": 8}


def test_positional_model_and_order() -> None:
    found = config("vllm serve org/name --max-model-len 1 --max-model-len 2")
    assert found.model is not None
    assert found.model.value == "org/name"
    assert [word.text for word in found.positionals] == ["org/name"]
    assert found.get("max-model-len") == 2
    assert [flag.value for flag in found.given] == [1, 2]


def test_model_after_other_flags() -> None:
    found = config("vllm serve --port 80 org/name")
    assert found.model is not None
    assert found.model.value == "org/name"
    assert not found.argument_problems


@pytest.mark.parametrize(
    ("version", "model"), [("0.9.2", "facebook/opt-125m"), ("0.10.0", "Qwen/Qwen3-0.6B"), ("0.33.0", "Qwen/Qwen3-0.6B")]
)
def test_default_model(version: str, model: str) -> None:
    found = config("--port 80", version)
    assert found.model is not None
    assert found.model.value == model
    assert found.model.provenance.source == "engine-default"


def test_serve_refused_the_model_flag() -> None:
    assert any("refuses --model" in text for text in problems("vllm serve --model m", "0.10.2"))
    assert not problems("vllm serve --model m", "0.11.1")
    assert not problems("--model m", "0.10.2")


@pytest.mark.parametrize(
    ("line", "version", "expected"),
    [
        ("-O3", "0.11.0", {"compilation-config": {"level": 3}}),
        ("-O 3", "0.11.0", {"compilation-config": 3}),
        ("-O.level=3", "0.11.0", {"compilation-config": {"level": 3}}),
        ("-O3", "0.13.0", {"optimization-level": "3"}),
        ("-O=1", "0.13.0", {"optimization-level": "1"}),
        ("-O 2", "0.13.0", {"optimization-level": "2"}),
        ("-O.mode=3", "0.13.0", {"compilation-config": {"mode": 3}}),
        ("-cc.mode=3", "0.20.0", {"compilation-config": {"mode": 3}}),
        ("""-O '{"mode": 3}'""", "0.11.0", {"compilation-config": {"mode": 3}}),
    ],
)
def test_optimization(line: str, version: str, expected: dict[str, Any]) -> None:
    assert values(f"m {line}", version) == expected


def test_dotted_json() -> None:
    found = values(
        "m --speculative-config.model x/y --speculative_config.num_speculative_tokens=3"
        " --compilation-config.pass_config.enable_fusion true --compilation-config.custom_ops+ +rms_norm,none",
        "0.13.0",
    )
    assert found["speculative-config"] == {"model": "x/y", "num_speculative_tokens": 3}
    assert found["compilation-config"] == {"pass_config": {"enable_fusion": True}, "custom_ops": ["+rms_norm", "none"]}


def test_dotted_value_with_a_point_is_no_dotted_flag() -> None:
    assert values("m --gpu-memory-utilization=0.95") == {"gpu-memory-utilization": 0.95}


def test_json() -> None:
    found = values("""m --speculative-config '{"method": "ngram", "num_speculative_tokens": 5}' --hf-overrides '{}'""")
    assert found["speculative-config"] == {"method": "ngram", "num_speculative_tokens": 5}
    assert found["hf-overrides"] == {}
    assert values("m --limit-mm-per-prompt image=4,video=1", "0.8.2") == {
        "limit-mm-per-prompt": {"image": 4, "video": 1}
    }


def test_invalid_json_is_unknown() -> None:
    found = config("m --speculative-config '{bad'")
    flag = found.flags["speculative-config"]
    assert (flag.value, flag.known, flag.raw) == (None, False, "{bad")
    assert [u.fact for u in found.unknown] == ["engine.flags.speculative-config"]
    assert "invalid JSON" in found.argument_problems[0][1]


@pytest.mark.parametrize(
    ("text", "value"),
    [("32K", 32768), ("32k", 32000), ("1.5m", 1_500_000), ("25g", 25 * 10**9), ("25G", 25 * 2**30), ("4096", 4096)],
)
def test_human_integers(text: str, value: int) -> None:
    assert human_int(text) == value
    assert values(f"m --max-model-len {text}") == {"max-model-len": value}
    assert values(f"m --max-num-batched-tokens {text}") == {"max-num-batched-tokens": value}


@pytest.mark.parametrize("text", ["25.6G", "25Gi", "25GB", "x", "9" * 30, "1e3"])
def test_what_is_no_human_integer(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        human_int(text)
    assert config(f"m --max-model-len {text}").flags["max-model-len"].known is False


def test_human_integers_by_version() -> None:
    assert not config("m --max-model-len 32k", "0.8.2").flags["max-model-len"].known
    assert config("m --max-model-len 32k", "0.8.4").get("max-model-len") == 32000
    assert config("m --max-model-len auto", "0.14.0").get("max-model-len") == -1
    assert config("m --max-model-len -1", "0.14.0").get("max-model-len") == -1
    assert not config("m --max-model-len auto", "0.13.0").flags["max-model-len"].known


def test_switches() -> None:
    assert values("m --no-enable-prefix-caching --enable-chunked-prefill --enforce-eager -ep", "0.16.0") == {
        "enable-prefix-caching": False,
        "enable-chunked-prefill": True,
        "enforce-eager": True,
        "enable-expert-parallel": True,
    }
    assert values("m --disable-prefix-caching", "0.33.0") == {"enable-prefix-caching": False}
    assert "unrecognized" in problems("m --disable-prefix-caching", "0.32.0")[0]
    assert values("m --enable-chunked-prefill false", "0.7.3") == {"enable-chunked-prefill": False}
    assert values("m --enable-chunked-prefill", "0.7.3") == {"enable-chunked-prefill": True}


def test_a_switch_takes_no_value() -> None:
    found = config("m --enforce-eager=False --enable-prefix-caching True")
    assert found.get("enforce-eager") is False
    assert found.get("enable-prefix-caching") is True
    assert len(found.argument_problems) == 2
    assert found.model is not None
    assert found.model.value == "m"


def test_lists() -> None:
    assert values("m --served-model-name a b --port 1")["served-model-name"] == ["a", "b"]
    assert values("m --cuda-graph-sizes 1 2 4")["cuda-graph-sizes"] == [1, 2, 4]


def test_abbreviations() -> None:
    found = config("m --max-num-batched-token 4096 --gpu-memory-util 0.5")
    assert found.get("max-num-batched-tokens") == 4096
    assert found.flags["max-num-batched-tokens"].spelling == "--max-num-batched-token"
    assert found.get("gpu-memory-utilization") == 0.5
    assert "ambiguous" in problems("m --max-num 3")[0]


def test_negative_numbers_are_values() -> None:
    assert values("m --seed -1 --max-logprobs -1") == {"seed": -1, "max-logprobs": -1}


def test_unknown_flags_keep_their_arity() -> None:
    found = config("m --foo 3 --bar --baz=1 --port 80")
    assert {n: f.value for n, f in found.flags.items()} == {"foo": "3", "bar": True, "baz": "1", "port": 80}
    assert [m for _, m in found.argument_problems] == [f"unrecognized arguments: --{n}" for n in ("foo", "bar", "baz")]


def test_removed_flags_keep_theirs() -> None:
    found = config("m --swap-space 4 --disable-log-requests --use-v2-block-manager --port 80", "0.18.0")
    assert found.get("swap-space") == 4.0
    assert found.get("disable-log-requests") is True
    assert found.get("port") == 80
    assert found.argument_problems[0][1] == "unrecognized arguments: --swap-space (removed in 0.18.0)"
    assert "now --no-enable-log-requests" in found.argument_problems[1][1]


def test_choices() -> None:
    assert "invalid choice" in problems("m --kv-cache-dtype fp7")[0]
    assert not problems("m --kv-cache-dtype fp8_e5m2")


# ---- what is not expanded ----------------------------------------------------------------------------------------


def unexpanded(*words: str) -> EngineConfig:
    position = Position("a.yaml", 3, 5)
    return parse([Word(text, position, "$" not in text) for text in words], version=from_default("0.11.0", "test"))


def test_unknown_values() -> None:
    found = unexpanded("vllm", "serve", "m", "--tensor-parallel-size", "$TP_SIZE", "--port=$PORT", "--enforce-eager")
    for name in ("tensor-parallel-size", "port"):
        assert found.flags[name].known is False
        assert found.flags[name].value is None
    assert found.get("enforce-eager") is True
    assert {u.fact for u in found.unknown} == {"engine.flags.tensor-parallel-size", "engine.flags.port"}
    assert "TP_SIZE" in found.unknown[0].remedy
    assert not found.argument_problems


def test_unknown_model() -> None:
    found = unexpanded("vllm", "serve", "$MODEL_ID", "--port", "80")
    assert found.model is None
    assert [u.fact for u in found.unknown] == ["model"]
    found = unexpanded("--model", "$MODEL_ID")
    assert found.model is None
    assert [u.fact for u in found.unknown] == ["model"]


def test_unknown_arguments() -> None:
    found = unexpanded("vllm", "serve", "$EXTRA_ARGS")
    assert found.model is None
    assert [u.fact for u in found.unknown] == ["engine.arguments", "model"]
    found = unexpanded("vllm", "serve", "m", "$REST")
    assert found.model is not None
    assert [u.fact for u in found.unknown] == ["engine.arguments"]


# ---- provenance, environment, config files -----------------------------------------------------------------------


def test_positions() -> None:
    words = [
        Word("m", Position("a.yaml", 1, 1)),
        Word("-tp", Position("a.yaml", 2, 3)),
        Word("8", Position("a.yaml", 3, 3)),
    ]
    found = parse(words, version=from_default("0.11.0", "test"))
    flag = found.flags["tensor-parallel-size"]
    assert (flag.position, flag.value_position) == (words[1].position, words[2].position)
    fact = flag_fact(found, "tensor-parallel-size")
    assert fact is not None
    assert fact.position == words[2].position
    assert found.model is not None
    assert found.model.position == words[0].position
    option = flag_fact(config("m -tp 2"), "tensor-parallel-size")
    assert option is not None
    assert option.provenance.source == "option"


def test_environment() -> None:
    env = {
        "VLLM_USE_V1": from_file("0", Position("a.yaml", 9, 9)),
        "HOME": from_file("/root", Position("a.yaml", 8, 8)),
    }
    found = config("m", env=env)
    assert list(found.env) == ["VLLM_USE_V1"]
    assert found.env["VLLM_USE_V1"].value == "0"


CONFIG = """\
# a comment
model: org/name
tensor-parallel-size: 4
max_model_len: 8192
enable-prefix-caching: false
enforce-eager: true
served-model-name: [a, b]
speculative-config:
  method: ngram
  num_speculative_tokens: 3
"""


def with_file(text: str, *more: str, version: str = "0.30.0") -> EngineConfig:
    position = Position("a.yaml", 1, 1)
    words = [Word(word, position) for word in ("vllm", "serve", "--config", "/etc/v.yaml", *more)]
    return parse(words, version=from_default(version, "test"), files={"/etc/v.yaml": File(text)})  # type: ignore[dict-item]


def test_config_file() -> None:
    found = with_file(CONFIG, "--max-model-len", "4096")
    assert found.model is not None
    assert found.model.value == "org/name"
    assert found.model.position == Position("cm.yaml", 2, 8)
    assert found.get("tensor-parallel-size") == 4
    assert found.flags["tensor-parallel-size"].value_position == Position("cm.yaml", 3, 23)
    assert found.get("max-model-len") == 4096
    assert found.get("enable-prefix-caching") is False
    assert found.get("enforce-eager") is True
    assert found.get("served-model-name") == ["a", "b"]
    assert found.get("speculative-config") == {"method": "ngram", "num_speculative_tokens": 3}


def test_false_in_a_config_file_was_ignored() -> None:
    assert not with_file(CONFIG, version="0.20.0").stated("enable-prefix-caching")


def test_config_file_that_is_not_there() -> None:
    found = parse([Word("--config", None), Word("/etc/v.yaml", None)], version=from_default("0.11.0", "test"), files={})
    assert found.model is None
    assert {u.fact for u in found.unknown} == {"engine.arguments", "model"}


@pytest.mark.parametrize(
    "text", ["[1, 2]", "just text", "a: [", "a: &x [*x]", "a: " + "[" * 50, "{1: {2: ", "? [a]\n: b", "\t", "a: b: c"]
)
def test_bad_config_files(text: str) -> None:
    with pytest.raises(ConfigFileError):
        read_entries(text)
    assert with_file(text).argument_problems


def test_empty_config_file() -> None:
    assert read_entries("") == []
    assert read_entries("# nothing") == []


# ---- the table ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.6.0", "0.7.3", "0.8.5", "0.10.1.1", "0.11.0", "0.20.0", "0.33.0", "0.40.0"])
def test_every_release_has_the_flags_that_decide_memory(version: str) -> None:
    table = flag_table(parse_version(version))
    for name in (
        "model",
        "tensor-parallel-size",
        "max-model-len",
        "gpu-memory-utilization",
        "kv-cache-dtype",
        "max-num-seqs",
    ):
        assert table.has(name)
    assert table.options["-tp"].spec.name == "tensor-parallel-size"


def test_table_follows_the_change_log() -> None:
    changes = {
        "swap-space": ("0.6.0", "0.18.0"),
        "kv-cache-memory-bytes": ("0.10.2", None),
        "max-seq-len-to-capture": ("0.6.0", "0.11.0"),
        "cuda-graph-sizes": ("0.9.0.1", "0.13.0"),
        "calculate-kv-scales": ("0.7.0", "0.28.0"),
        "performance-mode": ("0.17.0", None),
        "num-scheduler-steps": ("0.6.0", "0.10.1.1"),
        "watermark": ("0.24.0", None),
        "decode-context-parallel-size": ("0.10.2", None),
        "prefill-context-parallel-size": ("0.12.0", None),
    }
    for name, (since, until) in changes.items():
        assert flag_table(parse_version(since)).has(name), name
        assert until is None or not flag_table(parse_version(until)).has(name), name


# ---- hostile input -----------------------------------------------------------------------------------------------

_PIECES = st.sampled_from(
    [
        "vllm", "serve", "--", "-", "--config", "/etc/v.yaml", "-O", "-O3", "-O.", "-O.a.b=1", "--a.b.c+", "--a.", "--.=",
        "--model", "--model=", "-tp", "-tp=", "--tensor-parallel-size", "--max-model-len", "32K", "-1", "1.5", "{", '{"a": 1}',
        "[[[[", "$X", "--$X", "--x=$Y", "--speculative-config", "--served-model-name", "--enforce-eager=maybe", "--no-", "--=",
        "true", "",
    ]
)  # fmt: skip
_VERSIONS = st.sampled_from(
    ["0.6.0", "0.7.3", "0.8.5", "0.9.2", "0.10.2", "0.11.0", "0.13.0", "0.20.0", "0.33.0", "junk"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(_PIECES, st.text(max_size=20)), max_size=12), _VERSIONS)
def test_random_words_never_raise(words: list[str], version: str) -> None:
    given_words = [Word(text, None, "$" not in text) for text in words]
    found = parse(
        given_words,
        version=from_default(version, "test"),
        files={"/etc/v.yaml": File(CONFIG)},  # type: ignore[dict-item]
    )
    assert set(found.flags) == {flag.name for flag in found.given}
    for flag in found.flags.values():
        assert flag.known or flag.value is None


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80))
def test_random_config_files_never_crash(text: str) -> None:
    found = with_file(text)
    assert isinstance(found, EngineConfig)


def test_flag_table_follows_its_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    root = Path(__file__).resolve().parents[2]
    schema = json.loads((root / "schemas" / "engine-flags.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads((root / "schemas" / "engines" / "vllm_flags.json").read_text()), schema)


def test_large_input_is_linear() -> None:
    words = [f"--unknown-{index}" for index in range(20_000)] + [
        "--a." + "b." * 5_000 + "c",
        "1",
        "--json",
        "[" * 50_000,
    ]
    found = parse_argv(words, version=from_default("0.33.0", "test"))
    assert len(found.given) >= 20_000
    deep = parse_argv(["--speculative-config", "[" * 90_000], version=from_default("0.33.0", "test"))
    assert deep.flags["speculative-config"].known is False


def test_model_beside_the_flags() -> None:
    model: Fact[str] = from_default("org/other", "test")
    assert parse_argv(["-tp", "2"], version=from_default("0.11.0", "t"), model=model).model == model
    named = parse_argv(["--model", "org/name"], version=from_default("0.11.0", "t"), model=model).model
    assert named is not None
    assert named.value == "org/name"


@pytest.mark.parametrize(("version", "taken"), [("0.8.3", True), ("0.9.0.1", True), ("0.10.0", False)])
def test_pairs_where_json_is_asked_for(version: str, taken: bool) -> None:
    """OME's runtimes give --limit-mm-per-prompt image=1 to 0.9.0.1, whose parser still reads pairs."""
    read = config("--model a/b --limit-mm-per-prompt image=1", version=version)
    assert (read.get("limit-mm-per-prompt") == {"image": 1}) is taken
    assert bool(read.argument_problems) is not taken
