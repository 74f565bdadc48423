"""The GitHub Action and the snippets of the README: their steps run here, with what they install made available."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from planner.cli import cli
from tests.cli import house
from tests.report.test_gitlab import SCHEMA

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
README = (ROOT / "README.md").read_text()
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text()
PLANNER = f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m planner "$@"\n'


def block(first_line: str) -> dict[str, Any]:
    """The YAML block of the README that starts with a comment."""
    found = re.search(rf"```yaml\n# {re.escape(first_line)}\n(.*?)```", README, re.DOTALL)
    assert found, first_line
    loaded: dict[str, Any] = yaml.safe_load(found.group(1))
    return loaded


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A checkout with a manifest that violates a rule, and programs that stand for what a job has installed."""
    (tmp_path / "bin").mkdir()
    for name, text in (("planner", PLANNER), ("pip", "#!/bin/sh\nexit 0\n")):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "work" / "deploy").mkdir(parents=True)
    (tmp_path / "work" / ".git").mkdir()
    shutil.copy(ROOT / "examples" / "llama-8b-on-l4.yaml", tmp_path / "work" / "deploy" / "llama.yaml")
    return tmp_path


def shell(place: Path, script: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": f"{place / 'bin'}:{os.environ['PATH']}", "HOME": str(place), **variables}
    return subprocess.run(
        ["bash", *options, "-c", script],
        cwd=place / "work",
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def lint_step(place: Path, **inputs: str) -> tuple[int, str, str]:
    """(exit code, log, outputs) of the action's second step, as GitHub runs it."""
    step = ACTION["runs"]["steps"][1]
    given = {name: str(entry["default"]) for name, entry in ACTION["inputs"].items()} | inputs
    variables = {"GITHUB_OUTPUT": str(place / "outputs")}
    for name, expression in step["env"].items():
        key = re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", r"\1", expression)
        variables[name] = str(place) if name == "PLACE" else given[key]
    result = shell(place, step["run"], "--noprofile", "--norc", "-eo", "pipefail", **variables)
    assert result.stderr == "", result.stderr
    return result.returncode, result.stdout, (place / "outputs").read_text()


def test_the_action_is_one() -> None:
    assert ACTION["runs"]["using"] == "composite"
    for step in ACTION["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "an input in a script would be a way to run anything"
    described = [*ACTION["inputs"].values(), *ACTION["outputs"].values()]
    assert all(entry["description"] for entry in described)


def test_the_action_installs_its_own_copy(place: Path) -> None:
    step = ACTION["runs"]["steps"][0]
    assert step["env"] == {"SOURCE": "${{ github.action_path }}", "PLACE": "${{ runner.temp }}/planner"}
    (place / "bin" / "python3").write_text(
        '#!/bin/sh\nmkdir -p "$3/bin"\nprintf \'#!/bin/sh\\necho "$@"\\n\' > "$3/bin/pip"\nchmod +x "$3/bin/pip"\n'
    )
    (place / "bin" / "python3").chmod(0o755)
    result = shell(place, step["run"], "-e", SOURCE="/the/copy", PLACE=str(place / "a b"))
    assert result.returncode == 0, result.stderr
    assert result.stdout.split()[-1] == "/the/copy"


def test_the_action_annotates_and_fails(place: Path) -> None:
    code, log, outputs = lint_step(place)
    assert code == 1
    assert re.search(
        r"^::error file=deploy/llama\.yaml,line=\d+,col=15,title=kv-cache-below-one-request::", log, re.MULTILINE
    )
    assert outputs == "exit-code=1\n"


def test_the_inputs_of_the_action(place: Path) -> None:
    (place / "work" / "a b.yaml").write_text(house.manifest("clean"))
    code, log, outputs = lint_step(place, paths="a b.yaml\n", args="--select engine\n--strict", format="text")
    assert (code, outputs) == (0, "exit-code=0\n")
    assert "(1 file, 1 workload, 1 engine)" in log
    code, log, _ = lint_step(place, paths="deploy\nmissing.yaml", format="sarif", output="planner.sarif")
    assert (code, log) == (2, "")
    assert json.loads((place / "work" / "planner.sarif").read_text())["runs"][0]["results"]
    assert lint_step(place, **{"args": "--select image-not-pinned", "fail-on": "info"})[0] == 0


def test_inputs_of_the_action_are_no_code(place: Path) -> None:
    for text in ("$(touch stolen)", "`touch stolen`", "; touch stolen", '"; touch stolen; "', "a\n$(touch stolen)"):
        for name in ("paths", "args", "output"):
            step = ACTION["runs"]["steps"][1]
            variables = dict.fromkeys(step["env"], "") | {
                "PLACE": str(place),
                "FORMAT": "json",
                "GITHUB_OUTPUT": "/dev/null",
            }
            shell(place, step["run"], "-eo", "pipefail", **{**variables, name.upper(): text})
            assert not (place / "work" / "stolen").exists()


def test_the_workflow_of_the_readme_uses_inputs_that_exist() -> None:
    (job,) = block(".github/workflows/planner.yml")["jobs"].values()
    given = job["steps"][1]["with"]
    assert set(given) <= set(ACTION["inputs"])
    usage = CliRunner().invoke(cli, ["lint", "--help"]).stdout
    assert all(option in usage for option in given["args"].split())


def test_the_job_for_gitlab_leaves_a_report(place: Path) -> None:
    job = block(".gitlab-ci.yml")["planner"]
    result = shell(place, "\n".join(job["script"]), "-eo", "pipefail")
    assert result.returncode == 1, result.stderr
    import jsonschema

    issues = json.loads((place / "work" / job["artifacts"]["reports"]["codequality"]).read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(issues)
    assert "kv-cache-below-one-request" in [issue["check_name"] for issue in issues]
    assert job["artifacts"]["when"] == "always", "the job fails where there is something to show"


def test_the_hook_for_argo_cd_stops_a_bad_sync(place: Path) -> None:
    job = block("presync.yaml")
    assert job["metadata"]["annotations"]["argocd.argoproj.io/hook"] == "PreSync"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    # A ConfigMap is mounted as links into a hidden folder.
    mounted = place / "manifests"
    (mounted / "..2026_11_29").mkdir(parents=True)
    (mounted / "..data").symlink_to("..2026_11_29")
    (mounted / "llama.yaml").symlink_to("..data/llama.yaml")
    (script,) = container["args"]
    assert container["command"] == ["sh", "-euc"]
    assert container["volumeMounts"][0]["mountPath"] == "/manifests"
    for text, code in (((place / "work/deploy/llama.yaml").read_text(), 1), (house.manifest("clean"), 0)):
        (mounted / "..2026_11_29" / "llama.yaml").write_text(text)
        result = shell(place, script.replace("/manifests", str(mounted)), "-eu")
        assert result.returncode == code, result.stdout + result.stderr


def test_the_hook_for_argo_cd_gets_the_manifests_of_its_commit(place: Path) -> None:
    """Built by kustomize, where that is installed: the job's volume is the ConfigMap with the manifest in it."""
    kubectl = shutil.which("kustomize") or shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("neither kustomize nor kubectl is installed")
    folder = place / "work" / "deploy"
    for name in ("kustomization.yaml", "presync.yaml"):
        (folder / name).write_text(yaml.safe_dump(block(name)))
    command = [kubectl, "build" if kubectl.endswith("kustomize") else "kustomize", str(folder)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    objects = {found["kind"]: found for found in yaml.safe_load_all(built.stdout)}
    volume = objects["Job"]["spec"]["template"]["spec"]["volumes"][0]
    assert volume["configMap"]["name"] == objects["ConfigMap"]["metadata"]["name"]
    assert objects["ConfigMap"]["data"]["llama.yaml"] == (folder / "llama.yaml").read_text()
    assert objects["ConfigMap"]["metadata"]["annotations"]["argocd.argoproj.io/hook"] == "PreSync"


def test_the_settings_of_the_documentation_are_right(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, rule = re.findall(r"```yaml\n(.*?)```", CONFIGURATION, re.DOTALL)[0::2]
    monkeypatch.chdir(place / "work")
    Path("policy/planner").mkdir(parents=True)
    Path("policy/planner/names.yaml").write_text(rule)
    Path("planner.yaml").write_text(settings)
    runner = CliRunner()
    result = runner.invoke(cli, ["lint", "--write-baseline", "deploy"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    Path("tmp.yaml").write_text(house.manifest("tmp-x"))
    found = json.loads(runner.invoke(cli, ["lint", "--format", "json", "--select", "house"]).stdout)
    assert [(f["rule"], f["message"], f["url"]) for f in found["findings"]] == [
        ("house-names", "Deployment/tmp-x looks like something temporary.", "https://wiki.example.org/names")
    ]
    assert found["errors"] == []
