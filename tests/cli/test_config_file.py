"""``planner.yaml``: where it is found, what it changes, and how its errors are told."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli import house
from tests.cli.conftest import Run


def report(run: Run, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("lint", "--format", "json", *arguments).stdout)
    return found


def ids(found: dict[str, Any]) -> list[str]:
    return [finding["rule"] for finding in found["findings"]]


@pytest.fixture
def silent(folder: Path) -> Path:
    """A manifest without a GPU, whose length fits on an H200 and not on an L4."""
    text = house.manifest("m").replace("8192", "131072")
    path = folder / "a.yaml"
    path.write_text(text.replace("      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}\n", ""))
    return path


RULE = "select: kv-cache-below-one-request\n"


@pytest.mark.parametrize("name", ["planner.yaml", ".planner.yaml"])
def test_it_is_found_in_the_current_folder_and_above(
    run: Run, folder: Path, silent: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (folder / name).write_text(f"accelerator: L4\n{RULE}")
    assert ids(report(run, "a.yaml")) == ["kv-cache-below-one-request"]
    deep = folder / "deep" / "er"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert ids(report(run, "../../a.yaml")) == ["kv-cache-below-one-request"]


def test_the_nearest_one_counts_alone(run: Run, folder: Path, silent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "planner.yaml").write_text(f"accelerator: L4\n{RULE}")
    (folder / "deep").mkdir()
    (folder / "deep" / "planner.yaml").write_text(f"accelerator: H200\n{RULE}")
    monkeypatch.chdir(folder / "deep")
    assert ids(report(run, "../a.yaml")) == []


def test_it_is_not_looked_for_above_the_repository(run: Run, folder: Path, silent: Path) -> None:
    (folder.parent / "planner.yaml").write_text("nonsense: 1\n")
    assert run("lint", "a.yaml", "--select", "house", "--rules", "../house").exit_code == 0


def test_an_option_lays_over_it(run: Run, folder: Path, silent: Path) -> None:
    (folder / "planner.yaml").write_text(f"accelerator: L4\nfail-on: info\nstrict: true\n{RULE}")
    assert ids(report(run, "a.yaml", "--assume-accelerator", "H200")) == []
    assert ids(report(run, "a.yaml", "--select", "image-not-pinned")) == []
    assert run("lint", "a.yaml").exit_code == 1


def test_config_names_another_one(run: Run, folder: Path, silent: Path) -> None:
    (folder / "planner.yaml").write_text("nonsense: 1\n")
    (folder / "other.yaml").write_text(f"accelerator: L4\n{RULE}")
    assert ids(report(run, "a.yaml", "--config", "other.yaml")) == ["kv-cache-below-one-request"]


def test_fail_on_strict_and_ignore_come_from_it(run: Run, folder: Path, tmp_path: Path) -> None:
    (folder / "a.yaml").write_text(house.manifest("info"))
    settings = "rules: ../house\nselect: [house]\n"
    for text, expected in (
        ("fail-on: info\n", 1),
        ("fail-on: warning\n", 0),
        ("fail-on: info\nignore: house-info\n", 0),
        ("fail_on: info\n", 1),
        ("exclude: [a.yaml]\nfail-on: info\n", 0),
    ):
        (folder / "planner.yaml").write_text(settings + text)
        assert run("lint").exit_code == expected, text
    house.write_unknown_rule(tmp_path / "unknown")
    for text, expected in (("strict: true\n", 2), ("strict: false\n", 0)):
        (folder / "planner.yaml").write_text("rules: [../unknown]\nselect: [house]\n" + text)
        assert run("lint").exit_code == expected, text


def test_its_folders_are_relative_to_itself(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.yaml").write_text(house.manifest("error"))
    (folder / "deep").mkdir()
    (folder / "planner.yaml").write_text("rules: ../house\nselect: [house]\n")
    monkeypatch.chdir(folder / "deep")
    assert ids(report(run, "../a.yaml")) == ["house-error"]


def test_parameters_of_a_rule(run: Run, folder: Path) -> None:
    (folder / "own").mkdir()
    (folder / "own" / "own.yaml").write_text(
        house.rule("own", violated="workload.name in parameters.names && workload.group_size < parameters.most")
        + "parameters: {names: [a, b], most: 2}\n"
    )
    (folder / "a.yaml").write_text(house.manifest("c"))
    options = ("a.yaml", "--rules", "own", "--select", "house")
    assert ids(report(run, *options)) == []
    (folder / "planner.yaml").write_text("parameters: {house-own: {names: [c]}}\n")
    assert ids(report(run, *options)) == ["house-own"]
    (folder / "planner.yaml").write_text("parameters: {house-owm: {names: [c]}}\n")
    result = run("lint", *options)
    assert result.exit_code == 2
    assert "planner.yaml:1:14: parameters of 'house-owm', which is no rule; did you mean house-own?" in result.stderr


WRONG = [
    ("accelerator: L4\n  nonsense: 1\n", (2, 11)),
    ("acelerator: L4\n", (1, 1)),
    ("accelerator: L4\naccelerator: L4\n", (2, 1)),
    ("\nmodels: [a, b]\n", (2, 1)),
    ("models:\n  /models/x: [a]\n", (2, 3)),
    ("select: {a: b}\n", (1, 1)),
    ("ignore:\n  - memory\n  - [a]\n", (3, 5)),
    ("strict: maybe\n", (1, 1)),
    ("accelerator: L4\nfail-on: fatal\n", (2, 1)),
    ("accelerator: [L4]\n", (1, 1)),
    ("parameters: {a: 1}\n", (1, 14)),
    ("- accelerator: L4\n", (1, 1)),
    ("just text\n", (1, 1)),
    ("accelerator: L4\n---\naccelerator: L4\n", (3, 1)),
    ("accelerator: {{ gpu }}\n", None),
    ("\0", (1, 1)),
]


@pytest.mark.parametrize(("text", "place"), WRONG, ids=[repr(text) for text, _ in WRONG])
@pytest.mark.parametrize("format_", ["text", "json", "github"])
def test_what_is_wrong_in_it_has_a_place_and_is_two(
    lint: Run, folder: Path, text: str, place: tuple[int, int] | None, format_: str
) -> None:
    (folder / "planner.yaml").write_text(text)
    (folder / "a.yaml").write_text(house.manifest("error"))
    result = lint("a.yaml", "--format", format_)
    assert result.exit_code == 2
    assert "house-error" in result.stdout, "the rest is checked all the same"
    if place is None:
        assert "planner.yaml" in result.stdout
    elif format_ == "text":
        assert f"planner.yaml:{place[0]}:{place[1]}: cannot check: " in result.stdout
    elif format_ == "github":
        assert f"::error file=planner.yaml,line={place[0]},col={place[1]},title=cannot check::" in result.stdout
    else:
        errors = json.loads(result.stdout)["errors"]
        assert ("planner.yaml", *place) in [(e["file"], e["line"], e["column"]) for e in errors]


def test_its_place_is_told_from_the_current_folder(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "planner.yaml").write_text("nonsense: 1\n")
    (folder / "deep").mkdir()
    (folder / "deep" / "a.yaml").write_text(house.manifest("clean"))
    monkeypatch.chdir(folder / "deep")
    result = run("lint", "a.yaml")
    assert result.exit_code == 2
    assert "../planner.yaml:1:1: cannot check: unknown setting 'nonsense'" in result.stdout


@pytest.mark.parametrize("command", [("lint", "a.yaml"), ("budget", "a.yaml")])
@pytest.mark.parametrize(
    "text",
    [
        house.manifest("planner"),
        "# planner\n" * 600 + house.manifest("planner"),
        '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "planner"}}',
        "apiVersion: v1\r\nkind: Service\r\nmetadata: {name: planner}\r\n",
    ],
    ids=["manifest", "long-comment", "json", "crlf"],
)
def test_a_kubernetes_object_of_that_name_is_no_settings_file(
    run: Run, folder: Path, text: str, command: tuple[str, ...]
) -> None:
    (folder / "planner.yaml").write_text(text, newline="")
    (folder / "a.yaml").write_text(house.manifest("clean"))
    assert run(*command).exit_code == 0


def test_an_object_of_that_name_does_not_hide_the_settings_above(
    run: Run, folder: Path, silent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "planner.yaml").write_text(f"accelerator: L4\n{RULE}")
    (folder / "deploy").mkdir()
    (folder / "deploy" / "planner.yaml").write_text(house.manifest("planner"))
    monkeypatch.chdir(folder / "deploy")
    assert ids(report(run, "../a.yaml")) == ["kv-cache-below-one-request"]


def test_pipes_and_folders_of_that_name_are_passed_over(lint: Run, folder: Path) -> None:
    os.mkfifo(folder / "planner.yaml")
    (folder / ".planner.yaml").mkdir()
    (folder / "a.yaml").write_text(house.manifest("clean"))
    assert lint("a.yaml").exit_code == 0


def test_budget_reads_it_too(run: Run, folder: Path, silent: Path) -> None:
    (folder / "planner.yaml").write_text("accelerator: L4\n")
    plan = json.loads(run("budget", "a.yaml", "--format", "json").stdout)["plans"][0]
    assert plan["accelerator"]["name"] == "L4"
    (folder / "planner.yaml").write_text("nonsense: L4\n")
    result = run("budget", "a.yaml", "--format", "json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["errors"][0]["file"] == "planner.yaml"
