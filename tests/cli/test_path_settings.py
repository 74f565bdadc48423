"""``paths`` in ``planner.yaml``: settings that hold for some files only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli import house
from tests.cli.conftest import Run

HOUSE = "rules: [../house]\nselect: [house]\n"
LONG = house.manifest("m").replace("8192", "131072")
UNNAMED = LONG.replace("      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}\n", "")
LENGTH = "kv-cache-below-one-request"


def place(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def found(run: Run, *arguments: str) -> list[tuple[str, str, str]]:
    """(file, rule, severity) of every finding."""
    report: dict[str, Any] = json.loads(run("lint", "--format", "json", *arguments).stdout)
    assert report["errors"] == []
    return [(f["file"], f["rule"], f["severity"]) for f in report["findings"]]


@pytest.fixture
def two(folder: Path) -> Path:
    """The same violation in two folders."""
    place(folder, {"dev/a.yaml": house.manifest("error"), "prod/deep/a.yaml": house.manifest("error")})
    return folder


@pytest.mark.parametrize("glob", ["dev", "dev/", "dev/**", "dev/*.yaml", "./dev/a.yaml", "**/dev/*"])
def test_ignore_and_severity_by_path(run: Run, two: Path, glob: str) -> None:
    (two / "planner.yaml").write_text(f"{HOUSE}paths:\n  '{glob}':\n    ignore: house-error\n")
    assert found(run) == [("prod/deep/a.yaml", "house-error", "error")]
    (two / "planner.yaml").write_text(f"{HOUSE}paths:\n  '{glob}':\n    severity: {{house-error: info}}\n")
    assert found(run) == [("dev/a.yaml", "house-error", "info"), ("prod/deep/a.yaml", "house-error", "error")]


def test_severity_everywhere_and_a_path_above_it(run: Run, two: Path) -> None:
    (two / "planner.yaml").write_text(
        HOUSE + "severity: {house-error: info}\npaths:\n  prod:\n    severity: {house-error: warning}\n"
    )
    assert found(run) == [("dev/a.yaml", "house-error", "info"), ("prod/deep/a.yaml", "house-error", "warning")]
    assert run("lint").exit_code == 0
    assert run("lint", "--fail-on", "warning").exit_code == 1


def test_select_by_path_may_choose_what_the_rest_does_not(run: Run, folder: Path) -> None:
    place(folder, {"dev/a.yaml": LONG, "prod/a.yaml": LONG.replace("H100-80GB-HBM3", "L4")})
    (folder / "planner.yaml").write_text(f"select: image-not-pinned\npaths:\n  prod: {{select: {LENGTH}}}\n")
    assert found(run) == [("prod/a.yaml", LENGTH, "error")]
    # What the command line selects holds for all paths.
    assert found(run, "--select", "image-not-pinned") == []


def test_globs_are_seen_from_the_settings_file(run: Run, two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (two / "planner.yaml").write_text(HOUSE + "paths: {prod/deep/*: {ignore: [house]}}\n")
    monkeypatch.chdir(two / "prod")
    (two / "house").symlink_to(two.parent / "house")
    assert found(run, "..") == [("../dev/a.yaml", "house-error", "error")]


def test_later_entries_are_laid_over_earlier_ones(run: Run, folder: Path) -> None:
    place(folder, {"dev/a.yaml": UNNAMED, "dev/big/a.yaml": UNNAMED})
    (folder / "planner.yaml").write_text(
        f"select: {LENGTH}\npaths:\n  dev/**: {{accelerator: L4}}\n  dev/big: {{accelerator: H200}}\n"
    )
    assert found(run) == [("dev/a.yaml", LENGTH, "error")]
    # … and an option over all of them.
    assert found(run, "--assume-accelerator", "H200") == []


def test_models_parameters_and_the_demand_by_path(run: Run, folder: Path) -> None:
    text = LONG.replace("meta-llama/Llama-3.1-8B-Instruct", "/models/ours")
    place(folder, {"a/a.yaml": text, "b/a.yaml": text, "own/own.yaml": house.rule("own", violated="parameters.loud") +
                   "parameters: {loud: false}\n"})  # fmt: skip
    (folder / "planner.yaml").write_text(
        "select: [weights-do-not-fit, house-own]\nrules: own\nmodels: {/models/ours: Qwen/Qwen3-8B}\npaths:\n"
        "  a: {models: {/models/ours: meta-llama/Llama-3.3-70B-Instruct}}\n"
        "  b: {parameters: {house-own: {loud: true}}}\n"
    )
    assert found(run, "a", "b") == [("a/a.yaml", "weights-do-not-fit", "error"), ("b/a.yaml", "house-own", "error")]
    plan = json.loads(run("budget", "a", "--format", "json").stdout)["plans"][0]
    assert plan["model"]["id"] == "meta-llama/Llama-3.3-70B-Instruct", "the budget of a path has its settings too"


def test_model_stands_for_whatever_the_manifest_names(run: Run, folder: Path) -> None:
    text = LONG.replace("meta-llama/Llama-3.1-8B-Instruct", "/models/ours")
    place(folder, {"a/a.yaml": text, "b/a.yaml": text})
    (folder / "planner.yaml").write_text("paths: {a: {model: meta-llama/Llama-3.3-70B-Instruct}}\n")
    assert found(run, "--select", "weights-do-not-fit") == [("a/a.yaml", "weights-do-not-fit", "error")]
    annotated = text.replace("    metadata: {", '    metadata: {annotations: {planner/model: "Qwen/Qwen3-8B"}, ')
    (folder / "a/a.yaml").write_text(annotated)
    assert found(run, "--select", "weights-do-not-fit") == [], "an annotation is nearer"


def test_a_suppression_is_not_unused_where_its_rule_is_ignored(run: Run, folder: Path) -> None:
    text = house.manifest("clean").replace("- name: vllm", "- name: vllm  # planner: ignore[house-error]")
    place(folder, {"dev/a.yaml": text, "prod/a.yaml": text})
    (folder / "planner.yaml").write_text(HOUSE + "paths: {dev: {ignore: house-error}}\n")
    report = json.loads(run("lint", "--format", "json").stdout)
    assert [entry["file"] for entry in report["unused_suppressions"]] == ["prod/a.yaml"]


def test_standard_input_has_no_path(run: Run, folder: Path) -> None:
    (folder / "planner.yaml").write_text(HOUSE + "paths: {'**': {ignore: house}, '*stdin*': {ignore: house}}\n")
    assert run("lint", "-", stdin=house.manifest("error")).exit_code in (0, 1)


@pytest.mark.parametrize(
    ("text", "place_", "says"),
    [
        ("paths: [a]\n", (1, 1), "paths must be a mapping of globs"),
        ("paths:\n  dev: strict\n", (2, 3), "paths: dev must be a mapping of settings"),
        ("paths:\n  dev:\n    strict: true\n", (3, 5), "unknown setting 'strict'; known are accelerator, "),
        ("paths:\n  dev:\n    severity: {house-error: fatal}\n", (3, 16), "severity: house-error must be one of info"),
        ("paths:\n  dev:\n    memory: {weights: 3}\n", (3, 14), "memory: weights must be a mapping"),
        ("memory:\n  weights: {value: 3, unit: GiB}\n", (2, 3), "memory: weights needs a reason"),
        ("memory:\n  wights: {value: 3, unit: GiB, reason: x}\n", (2, 3), "memory: 'wights' is no memory term"),
        ("\nworkload: {concurency: 3}\n", (2, 1), "workload: 'concurency' is no key of a workload"),
        ("workload: {concurrency: many}\n", (1, 1), "workload: "),
        ("format: html5\n", (1, 1), "format must be one of text, json"),
        ("quiet: perhaps\n", (1, 1), "quiet must be true or false"),
        ("baseline: ../known.json\n", (1, 1), "baseline must be a file below the folder of planner.yaml"),
        ("baseline: /etc/known.json\n", (1, 1), "baseline must be a file below"),
        ("render: true\n", (1, 1), "unknown setting 'render'"),
    ],
)  # fmt: skip
def test_what_is_wrong_has_a_place(run: Run, folder: Path, text: str, place_: tuple[int, int], says: str) -> None:
    (folder / "planner.yaml").write_text(text)
    result = run("lint")
    assert result.exit_code == 2
    assert f"planner.yaml:{place_[0]}:{place_[1]}: cannot check: {says}" in result.stdout


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("select: [memory, nonsense]\n", "planner.yaml:1:18: 'nonsense' is neither a rule nor a category"),
        ("paths:\n  dev:\n    ignore:\n      - gpu-idle\n", "planner.yaml:4:9: 'gpu-idle' is neither a rule nor"),
        (
            "paths:\n  dev:\n    severity:\n      gpu-idle: info\n",
            "planner.yaml:4:7: severity of 'gpu-idle', which is no",
        ),
        ("severity: {memory: info}\n", "planner.yaml:1:12: severity of 'memory', which is no rule"),
    ],
)
def test_an_unknown_rule_is_told_with_its_place(run: Run, folder: Path, text: str, says: str) -> None:
    (folder / "planner.yaml").write_text(text)
    result = run("lint")
    assert result.exit_code == 2
    assert says in result.stderr


def test_everything_else_of_the_command_line(run: Run, folder: Path) -> None:
    place(folder, {"a.yaml": house.manifest("error"), "other.yaml": "services: {\n"})
    (folder / "planner.yaml").write_text(HOUSE + "format: json\nmanifests-only: true\nquiet: true\ncolor: true\n")
    assert [f["rule"] for f in json.loads(run("lint", ".", "other.yaml").stdout)["findings"]] == ["house-error"]
    run("lint", "a.yaml", "--format", "text", "-o", "report.txt")
    assert "\x1b[31merror" in (folder / "report.txt").read_text()
    (folder / "planner.yaml").write_text("force-accelerator: L4\nforce-engine-versions: {vllm: v0.8.5}\n")
    (folder / "a.yaml").write_text(LONG)
    assert found(run, "a.yaml", "--select", LENGTH) == [("a.yaml", LENGTH, "error")]
    plan = json.loads(run("budget", "a.yaml", "--format", "json").stdout)["plans"][0]
    assert (plan["engine"]["version"], plan["accelerator"]["name"]) == ("0.8.5", "L4")
