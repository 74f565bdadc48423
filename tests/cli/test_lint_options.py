"""What the options of ``planner lint`` choose and change."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli import house
from tests.cli.conftest import Run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def report(run: Run, *arguments: str, stdin: str | None = None) -> dict[str, Any]:
    """The JSON report of a run, without --select."""
    result = run("lint", "--format", "json", *arguments, stdin=stdin)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def ids(found: dict[str, Any]) -> list[str]:
    return [finding["rule"] for finding in found["findings"]]


@pytest.fixture
def several(folder: Path) -> Path:
    """A manifest with an error of memory, a warning of the engine category and an information of the accelerator one."""
    text = (EXAMPLES / "llama-8b-on-l4.yaml").read_text()
    text = text.replace("vllm-openai:v0.11.0", "vllm-openai:latest")
    path = folder / "several.yaml"
    path.write_text(text)
    return path


def test_select_takes_ids_and_categories(run: Run, several: Path) -> None:
    everything = set(ids(report(run, "several.yaml")))
    assert {"kv-cache-below-one-request", "image-not-pinned"} <= everything
    assert ids(report(run, "several.yaml", "--select", "image-not-pinned")) == ["image-not-pinned"]
    assert ids(report(run, "several.yaml", "--select", "memory")) == [
        "kv-cache-below-one-request",
        "no-feasible-utilization",
    ]
    both = ids(report(run, "several.yaml", "--select", "memory", "--select", "image-not-pinned"))
    assert sorted(both) == ["image-not-pinned", "kv-cache-below-one-request", "no-feasible-utilization"]


def test_ignore_takes_ids_and_categories_and_wins_over_select(run: Run, several: Path) -> None:
    assert "image-not-pinned" not in ids(report(run, "several.yaml", "--ignore", "image-not-pinned"))
    assert "kv-cache-below-one-request" not in ids(report(run, "several.yaml", "--ignore", "memory"))
    left = ids(report(run, "several.yaml", "--select", "memory", "--ignore", "kv-cache-below-one-request"))
    assert "kv-cache-below-one-request" not in left
    assert "image-not-pinned" not in left


@pytest.mark.parametrize("option", ["--select", "--ignore"])
@pytest.mark.parametrize(("name", "near"), [("image-not-pined", "image-not-pinned"), ("memry", "memory")])
def test_an_unknown_name_gets_a_hint(run: Run, several: Path, option: str, name: str, near: str) -> None:
    result = run("lint", "several.yaml", option, name)
    assert result.exit_code == 2
    assert f"{name!r} is neither a rule nor a category; did you mean {near}?" in result.stderr


def test_own_rules_run_beside_the_built_in_ones(run: Run, several: Path) -> None:
    several.write_text(several.read_text().replace("name: llama-8b", "name: error"))
    found = report(run, "several.yaml", "--rules", "../house")
    assert {"house-error", "kv-cache-below-one-request"} <= set(ids(found))
    own = next(finding for finding in found["findings"] if finding["rule"] == "house-error")
    assert own["message"] == "The workload is called error."
    assert own["remedy"] == "Call it otherwise."
    assert own["line"] == 20
    assert own["workload"] == "Deployment/error"


def test_own_rules_of_several_folders_and_both_suffixes(run: Run, folder: Path) -> None:
    for name, suffix in (("one", "yaml"), ("two", "yml")):
        (folder / name / "deep").mkdir(parents=True)
        (folder / name / "deep" / f"rule.{suffix}").write_text(house.rule(name, violated="workload.name == 'm'"))
    (folder / "a.yaml").write_text(house.manifest("m"))
    found = report(run, "a.yaml", "--rules", "one", "--rules", "two", "--select", "house")
    assert ids(found) == ["house-one", "house-two"]


def test_a_folder_without_rules_is_an_error(run: Run, folder: Path) -> None:
    (folder / "own").mkdir()
    result = run("lint", "--rules", "own")
    assert result.exit_code == 2
    assert "no rule in this folder" in result.stderr


@pytest.mark.parametrize(
    ("violated", "line", "says"),
    [
        ("workload.name ==", 6, "yntax error"),
        ("workloud.name == 'x'", 6, "undeclared reference to 'workloud"),
        ("workload.name * 1.5 > 2.0", 6, "o matching overload"),
        ("workload.name.nope(3)", 6, "undeclared reference to 'nope'"),
        ("workload.group_size", 6, "neither true nor false"),
        ("workload.group_size / 0 == 1", 6, "divide by zero"),
    ],
)
def test_a_broken_expression_is_named_with_file_line_and_the_message_of_cel(
    run: Run, folder: Path, violated: str, line: int, says: str
) -> None:
    (folder / "own").mkdir()
    (folder / "own" / "broken.yaml").write_text(house.rule("broken", violated=violated))
    (folder / "a.yaml").write_text(house.manifest("clean"))
    result = run("lint", "a.yaml", "--rules", "own")
    assert result.exit_code == 2
    assert f"own/broken.yaml:{line}: rule house-broken: {violated}: " in result.stderr
    assert says in result.stderr


def test_a_broken_expression_is_found_where_no_manifest_would_come_to_it(run: Run, folder: Path) -> None:
    """Behind a condition that never holds, in a second case, and without any engine in the inputs."""
    (folder / "own").mkdir()
    (folder / "own" / "broken.yaml").write_text(
        house.rule("broken").replace(
            "severity: error\nviolated: workload.name == 'broken'",
            "when: workload.name == 'never'\ncases:\n  - severity: error\n    violated: workload.name == 'x'\n"
            "  - severity: info\n    violated: >-\n      workload.name ==\n      nowhere.name",
        )
    )
    result = run("lint", "--rules", "own")
    assert result.exit_code == 2
    assert "own/broken.yaml:10: rule house-broken: " in result.stderr
    assert "nowhere" in result.stderr


def test_output_goes_to_the_file_and_nothing_to_stdout(lint: Run, folder: Path) -> None:
    (folder / "a.yaml").write_text(house.manifest("error"))
    plain = lint("a.yaml").stdout
    result = lint("a.yaml", "--output", "report.txt")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert (folder / "report.txt").read_text() == plain
    assert sorted(os.listdir(folder)) == [".git", "a.yaml", "report.txt"]


def test_output_dash_is_stdout(lint: Run, folder: Path) -> None:
    (folder / "a.yaml").write_text(house.manifest("error"))
    assert "house-error" in lint("a.yaml", "-o", "-").stdout
    assert sorted(os.listdir(folder)) == [".git", "a.yaml"]


def test_output_replaces_an_old_report_whole(lint: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader sees the old report or the new one; where the last step fails, the old one, and nothing is left over."""
    (folder / "a.yaml").write_text(house.manifest("error"))
    (folder / "report.json").write_text("old")
    seen: list[str] = []

    def refuse(source: object, target: object) -> None:
        seen.append((folder / "report.json").read_text())
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        result = lint("a.yaml", "--format", "json", "-o", "report.json")
    assert seen == ["old"]
    assert result.exit_code == 2
    assert "cannot write report.json: No space left on device" in result.stderr
    assert sorted(os.listdir(folder)) == [".git", "a.yaml", "report.json"]
    assert lint("a.yaml", "--format", "json", "-o", "report.json").exit_code == 1
    assert json.loads((folder / "report.json").read_text())["findings"]


def test_output_does_not_write_through_links_of_the_checkout(lint: Run, folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (folder / "report.txt").symlink_to(precious)
    (folder / ".report.txt.partial").symlink_to(precious)
    (folder / f"report.txt.{os.getpid()}.partial").symlink_to(precious)
    (folder / "a.yaml").write_text(house.manifest("error"))
    assert lint("a.yaml", "-o", "report.txt").exit_code == 2, "something stands where the new report would be prepared"
    (folder / f"report.txt.{os.getpid()}.partial").unlink()
    assert lint("a.yaml", "-o", "report.txt").exit_code == 1
    assert precious.read_text() == "precious"
    assert not (folder / "report.txt").is_symlink()


def test_output_to_a_device_keeps_the_device(lint: Run, folder: Path) -> None:
    (folder / "a.yaml").write_text(house.manifest("error"))
    assert lint("a.yaml", "-o", os.devnull).exit_code == 1
    assert not Path(os.devnull).is_file()


UNNAMED = house.manifest("m").replace("      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}\n", "")
TOO_LONG = UNNAMED.replace("8192", "131072")


def test_assume_accelerator_speaks_only_where_the_manifest_is_silent(run: Run, folder: Path) -> None:
    (folder / "silent.yaml").write_text(TOO_LONG)
    (folder / "named.yaml").write_text(house.manifest("m").replace("8192", "131072"))
    rule = ("--select", "kv-cache-below-one-request")
    assert ids(report(run, "silent.yaml", "--assume-accelerator", "L4", *rule)) == ["kv-cache-below-one-request"]
    assert ids(report(run, "named.yaml", "--assume-accelerator", "L4", *rule)) == []
    assert ids(report(run, "silent.yaml", "--assume-accelerator", "H200", *rule)) == []


def test_accelerator_speaks_before_the_manifest(run: Run, folder: Path) -> None:
    (folder / "named.yaml").write_text(house.manifest("m").replace("8192", "131072"))
    rule = ("--select", "kv-cache-below-one-request")
    assert ids(report(run, "named.yaml", "--accelerator", "L4", *rule)) == ["kv-cache-below-one-request"]


def test_an_accelerator_that_is_not_known_is_not_evaluated_and_says_so(run: Run, folder: Path) -> None:
    (folder / "silent.yaml").write_text(TOO_LONG)
    for option in ("--accelerator", "--assume-accelerator"):
        found = report(run, "silent.yaml", option, "GTX-1", "--select", "kv-cache-below-one-request")
        assert ids(found) == []
        assert [gap["reason"] for gap in found["not_evaluated"]] == ["'GTX-1' is not in the accelerator catalog"]


def test_model_map_says_what_a_path_is(run: Run, folder: Path) -> None:
    text = house.manifest("m").replace("meta-llama/Llama-3.1-8B-Instruct", "/models/ours")
    (folder / "a.yaml").write_text(text)
    rule = ("--select", "weights-do-not-fit")
    assert report(run, "a.yaml", *rule)["not_evaluated"]
    mapped = report(run, "a.yaml", *rule, "--model-map", "/models/ours=meta-llama/Llama-3.1-8B-Instruct")
    assert mapped["not_evaluated"] == []
    large = report(run, "a.yaml", *rule, "--model-map", "/models/ours=meta-llama/Llama-3.3-70B-Instruct")
    assert ids(large) == ["weights-do-not-fit"]


@pytest.mark.parametrize("spelled", ["vllm=0.8.5", "vllm==0.8.5", "vllm=v0.8.5", "vllm==v0.8.5"])
def test_engine_version_speaks_where_the_image_does_not_tell(run: Run, folder: Path, spelled: str) -> None:
    (folder / "a.yaml").write_text(house.manifest("m").replace("vllm-openai:v0.11.0", "vllm-openai:latest"))
    result = run("budget", "a.yaml", "--format", "json", "--engine-version", spelled)
    engine = json.loads(result.stdout)["plans"][0]["engine"]
    assert engine["version"] == "0.8.5"
    assert "assumed" not in engine["version_source"]


@pytest.mark.parametrize(
    ("stated", "told"),
    [("foo=1", "name one of vllm, sglang"), ("vllm=latest", "such as vllm=0."), ("vllm=0.1.x", "such as vllm=0.")],
)
def test_a_release_that_is_none_is_refused_not_ignored(run: Run, folder: Path, stated: str, told: str) -> None:
    (folder / "a.yaml").write_text(house.manifest("m"))
    result = run("lint", "a.yaml", "--engine-version", stated)
    assert result.exit_code == 2
    assert told in result.stderr
    name, _, release = stated.partition("=")
    (folder / "planner.yaml").write_text(f"force-engine-versions: {{{name}: '{release}'}}\n")
    result = run("lint", "a.yaml")
    assert result.exit_code == 2
    assert told in result.stderr + result.stdout


def test_quiet_leaves_out_what_could_not_be_evaluated(run: Run, folder: Path, tmp_path: Path) -> None:
    house.write_unknown_rule(tmp_path / "unknown")
    (folder / "a.yaml").write_text(house.manifest("error"))
    options = ("--rules", "../house", "--rules", "../unknown", "--select", "house")
    assert "not evaluated: house-unknown" in run("lint", "a.yaml", *options).stdout
    quiet = run("lint", "a.yaml", *options, "--quiet").stdout
    assert "not evaluated: " not in quiet
    assert "1 not evaluated" in quiet, "it still counts"


def test_a_rule_of_ones_own_may_have_a_page(run: Run, folder: Path) -> None:
    (folder / "own").mkdir()
    page = "https://wiki.example.org/names"
    (folder / "own" / "own.yaml").write_text(house.rule("m") + f"url: {page}\n")
    (folder / "a.yaml").write_text(house.manifest("m"))
    options = ("a.yaml", "--rules", "own", "--select", "house")
    assert [finding["url"] for finding in report(run, *options)["findings"]] == [page]
    listed = json.loads(run("rules", "house-m", "--rules", "own", "--format", "json").stdout)["rules"]
    assert [rule["url"] for rule in listed] == [page]
    log = json.loads(run("lint", *options, "--format", "sarif").stdout)
    assert [rule["helpUri"] for rule in log["runs"][0]["tool"]["driver"]["rules"]] == [page]


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("{workload.name}", "{workloud.name}", 8, "message: {workloud.name}: a field starts with one of workload, pod"),
        ("{workload.name}", "{gb(workload.name)}", 8, "message: {gb}: functions are gib, bytes, number"),
        ("Call it otherwise.", ">-\n  Call it\n  {nme} or so.", 12, "remedy: {nme}: a field starts with one of"),
        ("why: It is", "for_each: workloud.pods\nwhy: It is", 9, "for_each must name a list of workload"),
    ],
)
def test_a_field_that_no_fact_can_fill_is_the_authors_error(
    run: Run, folder: Path, old: str, new: str, line: int, says: str
) -> None:
    """Else people would read "unknown" in its place."""
    (folder / "own").mkdir()
    (folder / "own" / "own.yaml").write_text(house.rule("m").replace(old, new))
    result = run("lint", "--rules", "own")
    assert result.exit_code == 2
    assert f"own/own.yaml:{line}: rule house-m: " in result.stderr
    assert says in result.stderr


def test_a_rule_of_ones_own_takes_the_place_of_a_built_in_one(run: Run, folder: Path) -> None:
    (folder / "own").mkdir()
    (folder / "own" / "own.yaml").write_text(house.rule("m").replace("id: house-m", "id: image-not-pinned"))
    (folder / "a.yaml").write_text(house.manifest("m"))
    found = report(run, "a.yaml", "--rules", "own", "--select", "image-not-pinned")
    assert [(f["message"], f["url"]) for f in found["findings"]] == [("The workload is called m.", "")]
