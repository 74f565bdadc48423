"""``--baseline``: known findings do not fail a run, and come back only where what they say has changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli import house
from tests.cli.conftest import Run

FILE = "planner-baseline.json"


def report(run: Run, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("lint", "--format", "json", "--baseline", FILE, *arguments).stdout)
    return found


def house_options(*arguments: str) -> tuple[str, ...]:
    return ("--rules", "../house", "--select", "house", *arguments)


def ids(found: dict[str, Any], key: str = "findings") -> list[str]:
    return [entry["rule"] for entry in found[key]]


@pytest.fixture
def known(run: Run, folder: Path) -> Path:
    """An error that the baseline knows."""
    (folder / "a.yaml").write_text(house.manifest("error"))
    result = run("lint", *house_options("--write-baseline"))
    assert (result.exit_code, result.stdout) == (0, f"{FILE}: 1 finding known from now on\n")
    return folder / "a.yaml"


def test_a_known_finding_does_not_fail_and_is_counted(run: Run, known: Path) -> None:
    result = run("lint", *house_options("--baseline", FILE))
    assert result.exit_code == 0
    assert result.stdout == "0 errors, 0 warnings, 0 info; 1 in the baseline (1 file, 1 workload, 1 engine)\n"
    assert run("lint", *house_options()).exit_code == 1
    found = report(run, *house_options())
    assert (ids(found), ids(found, "baselined"), found["stale_baseline"]) == ([], ["house-error"], [])


def test_the_file_is_made_to_be_read_and_merged(known: Path) -> None:
    text = (known.parent / FILE).read_text()
    assert json.loads(text) == {
        "schema": "planner/v1/baseline",
        "findings": [
            {
                "file": "a.yaml",
                "rule": "house-error",
                "workload": "Deployment/error",
                "container": "vllm",
                "subject": "",
                "severity": "error",
                "count": 1,
            }
        ],
    }
    assert len(text.splitlines()) == 6, "one line an entry"


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: "# a comment\n\n" + text,
        lambda text: house.manifest("clean") + "---\n" + text,
        lambda text: text.replace("8192", "4096").replace("v0.11.0", "v0.12.0"),
        lambda text: text.replace("          args:", "          ports: [{containerPort: 8000}]\n          args:"),
        lambda text: text.replace("kind: Deployment", "kind:    Deployment  # a comment"),
    ],
)
def test_edits_elsewhere_do_not_bring_it_back(run: Run, known: Path, edit: Any) -> None:
    known.write_text(edit(known.read_text()))
    assert ids(report(run, *house_options())) == []


def test_another_object_another_container_and_another_rule_are_new(run: Run, known: Path) -> None:
    text = known.read_text()
    for changed in (
        text.replace("kind: Deployment", "kind: StatefulSet"),
        text.replace("name: vllm", "name: engine"),
        text.replace("name: error", "name: warning"),
    ):
        known.write_text(changed)
        found = report(run, *house_options())
        assert len(found["findings"]) == 1
        assert [entry["line"] for entry in found["stale_baseline"]] == [4]


def test_equal_findings_are_counted(run: Run, known: Path) -> None:
    known.write_text(house.manifest("error") + "---\n" + house.manifest("error"))
    assert len(report(run, *house_options())["findings"]) == 1, "one of two is known"
    run("lint", *house_options("--write-baseline"))
    assert json.loads((known.parent / FILE).read_text())["findings"][0]["count"] == 2
    assert report(run, *house_options())["findings"] == []
    known.write_text(house.manifest("error"))
    stale = report(run, *house_options())["stale_baseline"]
    assert [entry["message"] for entry in stale] == [
        "stale: house-error (Deployment/error · vllm) in a.yaml: 1 of 2 is no longer found; --write-baseline takes it out"
    ]


def test_two_flags_are_two_findings(run: Run, folder: Path) -> None:
    """What it points at is a part of it: repairing one wrong flag does not pay for another one."""
    text = house.manifest("m")
    (folder / "a.yaml").write_text(
        text.replace("            - --max-model-len", "            - --foo=1\n            - --max-model-len")
    )
    run("lint", "--select", "unknown-flag", "--write-baseline")
    assert report(run, "--select", "unknown-flag")["findings"] == []
    more = text.replace(
        "            - --max-model-len", "            - --bar=1\n            - --foo=2\n            - --max-model-len"
    )
    (folder / "a.yaml").write_text(more)
    found = report(run, "--select", "unknown-flag")
    assert ["--bar" in entry["message"] for entry in found["findings"]] == [True]
    assert len(found["baselined"]) == 1


def test_a_graver_one_is_new_and_a_milder_one_is_known(run: Run, known: Path, folder: Path) -> None:
    (folder / "planner.yaml").write_text("severity: {house-error: warning}\n")
    assert ids(report(run, *house_options())) == []
    run("lint", *house_options("--write-baseline"))
    (folder / "planner.yaml").unlink()
    assert ids(report(run, *house_options())) == ["house-error"]


def test_a_file_that_moved_takes_its_entries_along(run: Run, known: Path, folder: Path) -> None:
    (folder / "deep").mkdir()
    known.rename(folder / "deep" / "b.yaml")
    found = report(run, *house_options())
    assert (ids(found), found["stale_baseline"]) == ([], [])
    # A copy is not a move.
    (folder / "a.yaml").write_text((folder / "deep" / "b.yaml").read_text())
    assert [entry["file"] for entry in report(run, *house_options())["findings"]] == ["deep/b.yaml"]


def test_a_repaired_finding_leaves_a_stale_entry_that_is_told(run: Run, known: Path) -> None:
    known.write_text(house.manifest("clean"))
    result = run("lint", *house_options("--baseline", FILE))
    assert result.exit_code == 0
    assert f"{FILE}:4:3: stale: house-error (Deployment/error · vllm) in a.yaml: it is no longer found" in result.stdout
    for format_ in ("text", "github", "gitlab", "junit", "json", "sarif"):
        strict = run("lint", *house_options("--baseline", FILE, "--strict", "--format", format_))
        assert strict.exit_code == 1, format_
        assert format_ == "sarif" or "is no longer found" in strict.stdout, format_
    assert run("lint", *house_options("--write-baseline")).stdout == f"{FILE}: 0 findings known from now on\n"
    assert run("lint", *house_options("--baseline", FILE, "--strict")).exit_code == 0


def test_what_a_run_does_not_look_at_is_neither_stale_nor_lost(run: Run, known: Path, folder: Path) -> None:
    (folder / "b.yaml").write_text(house.manifest("warning"))
    run("lint", *house_options("--write-baseline"))
    for arguments in (house_options("b.yaml"), ("--rules", "../house", "--select", "house-warning"),
                      house_options("--ignore", "house-error")):  # fmt: skip
        assert report(run, *arguments)["stale_baseline"] == [], arguments
        run("lint", *arguments, "--write-baseline")
        entries = json.loads((folder / FILE).read_text())["findings"]
        assert [entry["rule"] for entry in entries] == ["house-error", "house-warning"], arguments
    (folder / "a.yaml").unlink()
    assert ids(report(run, *house_options("b.yaml")), "stale_baseline") == ["house-error"]


def test_a_suppressed_finding_needs_no_baseline(run: Run, known: Path) -> None:
    known.write_text(known.read_text().replace("- name: vllm", "- name: vllm  # planner: ignore[house-error] known"))
    found = report(run, *house_options())
    assert (ids(found, "suppressed"), ids(found, "stale_baseline")) == (["house-error"], ["house-error"])


def test_paths_are_seen_from_the_baseline(run: Run, known: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "deep").mkdir()
    monkeypatch.chdir(folder / "deep")
    result = run("lint", "..", "--rules", "../../house", "--select", "house", "--baseline", f"../{FILE}")
    assert result.exit_code == 0
    absolute = run("lint", str(folder), "--rules", "../../house", "--select", "house", "--baseline", str(folder / FILE))
    assert absolute.exit_code == 0


def test_the_settings_file_may_name_it(run: Run, known: Path, folder: Path) -> None:
    (folder / "planner.yaml").write_text(f"baseline: {FILE}\nrules: ../house\nselect: house\n")
    assert run("lint").exit_code == 0
    known.write_text(house.manifest("warning"))
    assert run("lint", "--fail-on", "warning").exit_code == 1
    assert run("lint", "--write-baseline").exit_code == 0
    assert run("lint", "--fail-on", "warning").exit_code == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, f"{FILE}:1:1: cannot check: no such file (--write-baseline makes a baseline)"),
        ("", f"{FILE}:1:1: cannot check: an empty baseline"),
        ("[]", f"{FILE}:1:1: cannot check: a baseline has the key schema"),
        ('{"schema": "planner/v9"}', f"{FILE}:1:1: cannot check: a baseline has the key schema"),
        ('{"schema": "planner/v1/baseline",\n "findings": [3]}', f"{FILE}:2:15: cannot check: an entry of a baseline"),
        ('{"schema": "planner/v1/baseline",\n "findings": [{"rule": "a"}]}', f"{FILE}:2:15: cannot check: an entry"),
        ('{"schema": ', f"{FILE}:"),
    ],
)
def test_what_is_wrong_with_it_is_two(run: Run, folder: Path, text: str | None, says: str) -> None:
    if text is not None:
        (folder / FILE).write_text(text)
    (folder / "a.yaml").write_text(house.manifest("error"))
    result = run("lint", "a.yaml", *house_options("--baseline", FILE))
    assert result.exit_code == 2
    assert says in result.stdout
    assert "house-error" in result.stdout


def test_what_cannot_be_read_is_said_while_it_is_written(run: Run, folder: Path) -> None:
    (folder / "a.yaml").write_text(house.manifest("error"))
    (folder / "b.yaml").write_text(house.BROKEN)
    result = run("lint", *house_options("--write-baseline"))
    assert result.exit_code == 2
    assert "b.yaml" in result.stderr
    assert "1 finding known" in result.stdout


def test_in_sarif_a_known_finding_is_suppressed_from_outside(run: Run, known: Path) -> None:
    log = json.loads(run("lint", *house_options("--baseline", FILE, "--format", "sarif")).stdout)
    (result,) = log["runs"][0]["results"]
    assert result["suppressions"] == [{"kind": "external", "justification": "in the baseline"}]


def test_strict_fails_for_an_unused_suppression(run: Run, folder: Path) -> None:
    text = house.manifest("clean").replace("- name: vllm", "- name: vllm  # planner: ignore[house-error] old")
    (folder / "a.yaml").write_text(text)
    assert run("lint", *house_options()).exit_code == 0
    strict = run("lint", *house_options("--strict"))
    assert strict.exit_code == 1
    assert "unused suppression: nothing to ignore for house-error" in strict.stdout


def test_the_kind_that_nobody_knows_is_named(run: Run, folder: Path) -> None:
    text = house.manifest("m").replace("apps/v1", "example.org/v1").replace("kind: Deployment", "kind: LlmThing")
    (folder / "a.yaml").write_text(text)
    assert "read by their shape alone, the kind is not known: LlmThing (1)\n" in run("lint", *house_options()).stdout
    assert json.loads(run("lint", "--format", "json").stdout)["unknown_kinds"] == {"LlmThing": 1}
