"""``planner.yaml`` and its schema; how it is found and used is tested with the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from planner.data import data_folder
from planner.settings import CONFIG_NAMES, PathSettings, Settings, find_config, load_config

SCHEMA = json.loads((data_folder("schemas") / "config.schema.json").read_text())

FULL = """\
accelerator: H100-80GB-SXM
models:
  /models/x: Qwen/Qwen3-8B
model-folders: {/mnt/models: ./models}
engine-versions: {vllm: v0.11.0}
select: [memory, engine]
ignore: image-not-pinned
fail-on: warning
rules: [own, /absolute]
exclude: ["*.tmp.yaml"]
parameters:
  shared-memory-too-small: {minimum_mib: 64}
strict: true
severity: {gpus-idle: info}
baseline: known.json
format: json
quiet: true
color: false
manifests-only: true
rule-pages: https://example.org/rules.md
force-accelerator: L4
force-engine-versions: {vllm: 0.12.0}
workload: {concurrency: 4}
memory: {graphs: {value: 1, unit: GiB, reason: measured}}
paths:
  dev/**: {ignore: memory, model: Qwen/Qwen3-8B, accelerator: L4}
  prod: {severity: {gpus-idle: error}}
  nothing:
"""


def load(folder: Path, text: str) -> tuple[Settings, list[str]]:
    path = folder / "planner.yaml"
    path.write_text(text)
    settings, problems = load_config(path)
    return settings, [f"{p.position.line}:{p.position.column}: {p.message}" for p in problems]


def valid(text: str) -> bool:
    return bool(jsonschema.Draft202012Validator(SCHEMA).is_valid(yaml.safe_load(text)))


def test_everything_that_may_stand_in_it(tmp_path: Path) -> None:
    settings, problems = load(tmp_path, FULL)
    assert problems == []
    assert settings._replace(places={}) == Settings(
        assume_accelerator="H100-80GB-SXM",
        models={"/models/x": "Qwen/Qwen3-8B"},
        model_folders={"/mnt/models": "./models"},
        default_versions={"vllm": "0.11.0"},
        select=("memory", "engine"),
        ignore=("image-not-pinned",),
        fail_on="warning",
        rules=(str(tmp_path / "own"), "/absolute"),
        exclude=("*.tmp.yaml",),
        parameters={"shared-memory-too-small": {"minimum_mib": 64}},
        strict=True,
        severity={"gpus-idle": "info"},
        baseline=str(tmp_path / "known.json"),
        format="json",
        quiet=True,
        color=False,
        manifests_only=True,
        rule_pages="https://example.org/rules.md",
        accelerator="L4",
        engine_versions={"vllm": "0.12.0"},
        workload={"concurrency": 4},
        memory={"graphs": {"value": 1, "unit": "GiB", "reason": "measured"}},
        paths=(
            PathSettings("dev/**", {"ignore": ("memory",), "model": "Qwen/Qwen3-8B", "assume_accelerator": "L4"}),
            PathSettings("prod", {"severity": {"gpus-idle": "error"}}),
        ),
        source=str(tmp_path / "planner.yaml"),
    )


def test_the_schema_knows_the_same_settings(tmp_path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert valid(FULL)
    _, problems = load(tmp_path, "nonsense: 1\n")
    known = problems[0].partition("known are ")[2].split(", ")
    assert set(known) == set(SCHEMA["properties"])
    for name in known:
        assert load(tmp_path, f"{name}:\n")[1] == [], "an empty setting is an unset one"


@pytest.mark.parametrize("name", [name for name in SCHEMA["properties"] if "-" in name])
def test_underscores_are_hyphens(tmp_path: Path, name: str) -> None:
    value: Any = {"fail-on": "info", "assume-accelerator": "L4"}.get(name, "{a: b}")
    value = {"manifests-only": "true", "rule-pages": "a", "force-accelerator": "L4"}.get(name, value)
    value = "{vllm: 0.33.0}" if name.endswith("versions") else value
    expected = load(tmp_path, f"{name}: {value}\n")
    assert load(tmp_path, f"{name.replace('-', '_')}: {value}\n") == expected
    assert expected[1] == []


@pytest.mark.parametrize(
    "text",
    [
        "accelerator: [a]", "models: a", "models: {a: [b]}", "model-folders: [a]", "engine-versions: 1", "select: {a: b}",
        "ignore: [[a]]", "fail-on: never", "fail-on: [error]", "rules: {a: b}", "exclude: [{a: b}]", "parameters: [a]",
        "parameters: {a: b}", "strict: 1", "strict: yes please", "nonsense: 1", "- a", "text", "severity: [a]",
        "severity: {a: fatal}", "paths: [a]", "paths: {a: b}", "paths: {a: {strict: true}}", "paths: {a: {select: {b: c}}}",
        "format: html5", "quiet: 1", "color: red", "manifests-only: [a]", "memory: {weights: 3}", "memory: [a]",
        "workload: 3", "force-engine-versions: [a]",
    ],
)  # fmt: skip
def test_what_the_schema_refuses_is_a_problem(tmp_path: Path, text: str) -> None:
    assert not valid(text)
    settings, problems = load(tmp_path, text)
    assert problems
    assert settings._replace(source="", rules=(), select=(), ignore=()).fail_on == "error"


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "null\n"])
def test_an_empty_file_sets_nothing(tmp_path: Path, text: str) -> None:
    settings, problems = load(tmp_path, text)
    assert problems == []
    assert settings._replace(source="") == Settings()


def test_find_config_takes_the_nearest_and_stops_at_the_repository(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    for name in CONFIG_NAMES:
        (tmp_path / name).write_text("strict: true\n")
    assert find_config(deep) == str(tmp_path / "planner.yaml")
    (tmp_path / "a" / ".planner.yaml").write_text("strict: true\n")
    assert find_config(deep) == str(tmp_path / "a" / ".planner.yaml")
    (deep / ".git").write_text("gitdir: elsewhere\n")  # a worktree or a submodule
    assert find_config(deep) is None
