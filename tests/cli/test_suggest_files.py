"""``planner suggest FILE…``: diff, ``--write``, JSON, exit codes, and files that must not be touched."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.suggest.editing import pod

MODEL = "--model=meta-llama/Llama-3.1-8B-Instruct"
MANY = pod(f"args:\n  - {MODEL}\n  - --max-model-len=8192\n  - --max-num-seqs=128  # as many as come\n")
FEW = MANY.replace("seqs=128", "seqs=8")
HUGE = MANY.replace("Llama-3.1-8B-Instruct", "Llama-3.1-70B-Instruct")


def test_a_diff_goes_to_standard_output_and_the_reasons_to_standard_error(run: Run, folder: Path) -> None:
    (folder / "llm.yaml").write_text(MANY)
    result = run("suggest", "llm.yaml")
    assert result.exit_code == 0
    assert result.stdout.startswith("--- a/llm.yaml\n+++ b/llm.yaml\n@@ ")
    assert "-            - --max-num-seqs=128  # as many as come\n+            - --max-num-seqs=" in result.stdout
    assert "mends progress-reserve-missing" in result.stderr
    assert (folder / "llm.yaml").read_text() == MANY


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_patch_takes_the_diff(run: Run, folder: Path, ending: str, last: bool) -> None:
    text = MANY.replace("\n", ending)
    data = (text if last else text.rstrip("\r\n")).encode()
    (folder / "llm.yaml").write_bytes(data)
    diff = run("suggest", "llm.yaml").stdout_bytes
    assert run("suggest", "--write", "llm.yaml").exit_code == 0
    written = (folder / "llm.yaml").read_bytes()
    (folder / "llm.yaml").write_bytes(data)
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], cwd=folder, input=diff, check=True)
    assert (folder / "llm.yaml").read_bytes() == written != data


def test_write_changes_the_file_once_and_keeps_its_permissions(run: Run, folder: Path) -> None:
    path = folder / "llm.yaml"
    path.write_text(MANY)
    path.chmod(0o640)
    result = run("suggest", "--write", "llm.yaml")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "1 file written" in result.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert "--max-num-seqs=128" not in path.read_text()
    assert os.listdir(folder) == [".git", "llm.yaml"] or sorted(os.listdir(folder)) == [".git", "llm.yaml"]
    again = run("suggest", "llm.yaml")
    assert (again.exit_code, again.stdout) == (0, "")
    assert "nothing to change" in again.stderr


def test_what_flags_cannot_mend_is_said_and_exits_1(run: Run, folder: Path) -> None:
    (folder / "llm.yaml").write_text(HUGE)
    result = run("suggest", "llm.yaml")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "needs 8 GPUs of L4" in result.stderr
    assert "smallest device memory" in result.stderr


def test_json_has_changes_diff_and_reasons(run: Run, folder: Path) -> None:
    (folder / "a.yaml").write_text(MANY)
    (folder / "b.yaml").write_text(HUGE)
    result = run("suggest", "--format", "json", ".")
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert document["files"] == ["a.yaml"]
    assert document["diff"].startswith("--- a/a.yaml")
    first, second = document["suggestions"]
    assert (first["file"], first["workload"], first["container"]) == ("a.yaml", "Deployment/llm", "vllm")
    assert [change["flag"] for change in first["changes"]] == ["max-num-seqs"]
    assert first["changes"][0]["before"] == "128"
    assert second["changes"] == []
    assert second["left"][0]["rule"] == "weights-do-not-fit"
    assert second["reasons"]


def test_keep(run: Run, folder: Path) -> None:
    (folder / "llm.yaml").write_text(MANY)
    result = run("suggest", "--keep", "max-num-seqs", "--keep", "max-model-len", "llm.yaml")
    assert "+            - --watermark=" in result.stdout
    assert "-            - --max" not in result.stdout


def test_standard_input_is_shown_and_not_written(run: Run) -> None:
    assert "+++ b/<stdin>" in run("suggest", "-", stdin=MANY).stdout
    result = run("suggest", "--write", "-", stdin=MANY)
    assert result.exit_code == 2
    assert "not written: it is standard input" in result.stderr


def test_links_are_not_written_through(run: Run, folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.yaml"
    outside.write_text(MANY)
    (folder / "deploy").mkdir()
    (folder / "link.yaml").symlink_to(outside)
    (folder / "deploy" / "link.yaml").symlink_to(outside)
    result = run("suggest", "--write", "link.yaml", "deploy")
    assert result.exit_code == 2
    assert "symbolic link" in result.stderr
    assert outside.read_text() == MANY
    assert (folder / "link.yaml").is_symlink()


def test_a_file_that_cannot_be_written_stays_and_exits_2(run: Run, folder: Path) -> None:
    (folder / "llm.yaml").write_text(MANY)
    (folder / f".llm.yaml.{os.getpid()}.planner").symlink_to(folder / "elsewhere")
    result = run("suggest", "--write", "llm.yaml")
    assert result.exit_code == 2
    assert "not written" in result.stderr
    assert (folder / "llm.yaml").read_text() == MANY
    assert not (folder / "elsewhere").exists()


def test_files_that_are_fine_or_no_manifests_are_left_alone(run: Run, folder: Path) -> None:
    (folder / "few.yaml").write_text(FEW)
    (folder / "notes.yaml").write_text("a: [1, 2]\n")
    (folder / "broken.yaml").write_text(MANY + "---\na: [\n")
    result = run("suggest", "--write", ".")
    assert result.exit_code == 2
    assert "broken.yaml" in result.stderr
    assert (folder / "few.yaml").read_text() == FEW
    assert (folder / "broken.yaml").read_text() == MANY + "---\na: [\n"


def test_control_characters_of_a_manifest_do_not_reach_the_terminal(run: Run, folder: Path) -> None:
    (folder / "llm.yaml").write_text(MANY.replace("name: llm  # the name", 'name: "x\\e[31m\\n::error::y"'))
    result = run("suggest", "llm.yaml")
    assert "\x1b" not in result.stderr
    assert "\n::error" not in result.stderr


def test_what_cannot_be_worked_out_is_said_with_the_line_that_would_tell(run: Run, folder: Path) -> None:
    (folder / "llm.yaml").write_text(
        MANY.replace("nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}", "hostIPC: false")
    )
    result = run("suggest", "llm.yaml")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "not worked out: accelerator is unknown" in result.stderr
    assert "planner/accelerator" in result.stderr
    assert "keeps its reserve" not in result.stderr
    document = json.loads(run("suggest", "--format", "json", "llm.yaml").stdout)
    assert [gap["fact"] for gap in document["not_evaluated"]] == ["accelerator"]


def test_the_readme_shows_what_it_prints(run: Run, folder: Path) -> None:
    project = Path(__file__).resolve().parents[2]
    shown = re.findall(
        r"<!-- change command -->\n```sh\nplanner (.*?)\n```.*?```diff\n(.*?)```",
        (project / "README.md").read_text(),
        re.DOTALL,
    )
    (folder / "examples").symlink_to(project / "examples")
    ((command, diff),) = shown
    assert run(*command.split()).stdout == diff
