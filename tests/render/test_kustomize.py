"""Kustomizations: rendered when asked, with what is installed, and told at the file that people edit."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from planner.render import tools as renderer
from tests.render.conftest import Run, Tools, findings, write

BASE = """\
# the base
apiVersion: apps/v1
kind: Deployment
metadata:
  name: llm
spec:
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:latest
          args:
            - --model=Qwen/Qwen3-8B
            - --max-model-len=131072
          resources: {limits: {nvidia.com/gpu: 1}}
"""
OVERLAY = """\
resources: [../../base]
namePrefix: prod-
images:
  - name: vllm/vllm-openai
    newTag: v0.11.0
patches:
  - path: gpu.yaml
  - target: {kind: Deployment}
    patch: |
      - op: add
        path: /spec/template/spec/containers/0/args/-
        value: --foo
"""
GPU = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  template:
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
"""
#: What kustomize makes of them.
RENDERED = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: prod-llm
spec:
  selector:
    matchLabels:
      app: llm
  template:
    metadata:
      labels:
        app: llm
    spec:
      containers:
      - args:
        - --model=Qwen/Qwen3-8B
        - --max-model-len=131072
        - --foo
        image: vllm/vllm-openai:v0.11.0
        name: vllm
        resources:
          limits:
            nvidia.com/gpu: 1
      nodeSelector:
        nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3
"""
REPOSITORY = {
    "base/deployment.yaml": BASE,
    "base/kustomization.yaml": "resources: [deployment.yaml]\n",
    "overlays/prod/kustomization.yaml": OVERLAY,
    "overlays/prod/gpu.yaml": GPU,
}
RULES = ("--select", "image-not-pinned", "--select", "unknown-flag", "--select", "max-model-len-exceeds-model",
         "--select", "toleration-missing", "--format", "json")  # fmt: skip
TOO_LONG = ("max-model-len-exceeds-model", "base/deployment.yaml", 16)


@pytest.fixture
def repository(folder: Path) -> Path:
    write(folder, REPOSITORY)
    return folder


@pytest.fixture(params=["fake kustomize", "kustomize", "kubectl"])
def kustomize(request: pytest.FixtureRequest, path_of_old: str, tools: Tools) -> str:
    """A renderer: one that prints what kustomize would, and those that are installed."""
    if request.param.startswith("fake"):
        tools.make("kustomize", RENDERED)
        return "fake"
    found = shutil.which(request.param, path=path_of_old)
    if found is None:
        pytest.skip(f"{request.param} is not installed")
    (tools.folder / request.param).symlink_to(os.path.realpath(found))
    return str(request.param)


def test_what_was_rendered_is_told_where_it_is_written(lint: Run, repository: Path, kustomize: str) -> None:
    """The base, a patch file, a patch in the kustomization itself; the image's tag is repaired by the overlay."""
    result = lint("--render", *RULES)
    assert findings(result) == [
        TOO_LONG,
        ("toleration-missing", "overlays/prod/gpu.yaml", 7),
        ("unknown-flag", "overlays/prod/kustomization.yaml", 12),
    ]
    report = json.loads(result.stdout)
    assert {tuple(finding["rendered_by"]) for finding in report["findings"]} == {("overlays/prod",)}
    assert {finding["workload"] for finding in report["findings"]} == {"Deployment/prod-llm"}
    assert (report["workloads"], report["errors"]) == (1, [])


def test_text_shows_the_line_of_the_source(lint: Run, repository: Path, kustomize: str) -> None:
    said = lint("--render", *RULES[:-2]).stdout
    assert "base/deployment.yaml\n  16:" in said
    assert "    16 |             - --max-model-len=131072\n" in said
    assert "(Deployment/prod-llm · vllm, rendered from overlays/prod)" in said


def test_without_the_flag_nothing_runs_and_it_is_said(lint: Run, repository: Path, tools: Tools) -> None:
    tools.make("kustomize", body="sys.exit(3)")
    report = json.loads(lint(*RULES).stdout)
    assert not tools.log.exists()
    assert [notice["file"] for notice in report["notices"]] == ["overlays/prod/kustomization.yaml"]
    assert "not rendered, so what it changes is not checked" in report["notices"][0]["message"]
    assert ("image-not-pinned", "base/deployment.yaml", 13) in [
        (f["rule"], f["file"], f["line"]) for f in report["findings"]
    ]
    assert report["files"] == 2


def test_a_settings_file_cannot_ask_for_it(lint: Run, repository: Path, tools: Tools) -> None:
    tools.make("kustomize", RENDERED)
    (repository / "planner.yaml").write_text("render: true\n")
    assert lint().exit_code == 2
    assert not tools.log.exists()


@pytest.mark.parametrize(
    "text",
    ["resources: [../../base]\n", "resources: [../../base]\nnamespace: ai\ncommonLabels: {a: b}\n"],
    ids=["only lists", "labels"],
)
def test_a_kustomization_that_changes_no_pod_is_not_worth_a_word(lint: Run, repository: Path, text: str) -> None:
    (repository / "overlays/prod/kustomization.yaml").write_text(text)
    assert json.loads(lint(*RULES).stdout)["notices"] == []


def test_nor_is_one_without_an_engine(lint: Run, repository: Path) -> None:
    (repository / "base/deployment.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
    write(repository, {"other/pod.yaml": BASE})
    assert json.loads(lint(*RULES).stdout)["notices"] == []


def test_many_are_said_in_one_line(lint: Run, repository: Path) -> None:
    for number in range(5):
        shutil.copytree(repository / "overlays/prod", repository / f"overlays/prod-{number}")
    lines = [line for line in lint(*RULES[:-2]).stdout.splitlines() if "not rendered" in line]
    assert len(lines) == 1
    assert lines[0].startswith("overlays/prod/kustomization.yaml, overlays/prod-0/kustomization.yaml, ")
    assert " and 3 more: not rendered" in lines[0]


def test_a_commit_of_a_kustomization_alone_is_silent(lint: Run, repository: Path) -> None:
    result = lint("--manifests-only", "overlays/prod/kustomization.yaml")
    assert (result.exit_code, result.stdout) == (0, "")


def test_the_tool_gets_nothing_of_the_person_who_runs_it(
    lint: Run, repository: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("KUBECONFIG", "/home/somebody/.kube/config")
    tools.make("kustomize", RENDERED)
    lint("--render")
    call = tools.call
    assert call["argv"] == ["build", str(repository / "overlays/prod")], (
        "once, for the overlay; the base is a part of it"
    )
    assert "AWS_SECRET_ACCESS_KEY" not in call["env"]
    assert call["env"]["KUBECONFIG"] == os.devnull
    assert call["env"]["HTTPS_PROXY"] == "http://127.0.0.1:9"
    assert call["env"]["HOME"] == call["cwd"] != str(Path.home())
    assert not Path(call["cwd"]).exists(), "its home is gone"
    assert os.path.dirname(call["env"]["PATH"]) == call["cwd"], "no other program is in its reach"


def test_kubectl_is_taken_where_kustomize_is_not(lint: Run, repository: Path, tools: Tools) -> None:
    tools.make("kubectl", RENDERED)
    assert TOO_LONG in findings(lint("--render", *RULES))
    assert tools.call["argv"][0] == "kustomize"


def test_a_program_of_the_checkout_is_never_run(
    lint: Run, repository: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(tools.make("kustomize", RENDERED), repository / "kustomize")
    for path in (".", "", "bin:.", "./"):
        monkeypatch.setenv("PATH", path)
        result = lint("--render")
        assert result.exit_code == 2
        assert "neither kustomize nor kubectl is on PATH" in result.stdout
    assert not tools.log.exists()


def test_without_a_tool_it_is_said_and_the_files_are_read_as_they_stand(
    lint: Run, repository: Path, tools: Tools
) -> None:
    result = lint("--render", *RULES)
    report = json.loads(result.stdout)
    assert result.exit_code == 2
    assert [(e["file"], e["line"]) for e in report["errors"]] == [("overlays/prod/kustomization.yaml", 1)]
    assert report["errors"][0]["message"] == (
        "not rendered: neither kustomize nor kubectl is on PATH; install one of them, or leave --render out"
    )
    assert TOO_LONG in findings(result)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "sys.stderr.write('working\\nError: no matches for Id\\nUsage: …\\n'); sys.exit(1)",
            "failed: Error: no matches for Id",
        ),
        ("sys.exit(7)", "failed: exit code 7"),
        ("import time; time.sleep(60)", "took longer than 1 seconds and was stopped"),
        ("import os, time\nif os.fork() == 0: time.sleep(60)", "took longer than 1 seconds and was stopped"),
        ("sys.stdout.write('x' * (11 << 20))", "printed more than 10 MiB and was stopped"),
        ("sys.stderr.write('x' * (40 << 20)); sys.exit(1)", "failed: "),
    ],
    ids=["fails", "fails silently", "sleeps", "leaves a child", "prints much", "complains much"],
)
def test_a_tool_that_goes_wrong_is_said_and_stopped(
    lint: Run, repository: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch, body: str, says: str
) -> None:
    monkeypatch.setattr(renderer, "TIMEOUT", 1.0 if "sleep" in body else 20.0)
    tools.make("kustomize", body=body)
    result = lint("--render", *RULES)
    assert result.exit_code == 2
    assert f"not rendered: kustomize {says}" in json.loads(result.stdout)["errors"][0]["message"]
    assert TOO_LONG in findings(result)


REMOTE = [
    ("resources:\n  - https://example.org/a.yaml\n", 2, "https://example.org/a.yaml"),
    ("resources:\n  - github.com/org/repo/deploy?ref=v1\n", 2, "github.com/org/repo/deploy?ref=v1"),
    ("resources: []\nbases:\n  - git@example.org:org/repo\n", 3, "git@example.org:org/repo"),
    ("components:\n  - ../nowhere\n", 2, "../nowhere"),
    ("patches:\n  - path: https://example.org/p.yaml\n", 2, "https://example.org/p.yaml"),
    ("patchesStrategicMerge:\n  - missing.yaml\n", 2, "missing.yaml"),
    ("crds:\n  - https://example.org/crd.yaml\n", 2, "https://example.org/crd.yaml"),
    ("openapi:\n  path: https://example.org/o.json\n", 2, "https://example.org/o.json"),
    ("replacements:\n  - path: http://example.org/r.yaml\n", 2, "http://example.org/r.yaml"),
    ("transformers:\n  - https://example.org/t.yaml\n", 2, "https://example.org/t.yaml"),
    ("configMapGenerator:\n  - name: a\n    files: [x=https://example.org/x]\n", 3, "https://example.org/x"),
    ("helmCharts:\n  - {name: a, repo: https://example.org}\n", 1, "helmCharts would fetch charts"),
]


@pytest.mark.parametrize(("text", "line", "what"), REMOTE, ids=[what for _, _, what in REMOTE])
def test_what_would_reach_the_network_is_refused(
    lint: Run, folder: Path, tools: Tools, text: str, line: int, what: str
) -> None:
    tools.make("kustomize", RENDERED)
    write(folder, {"kustomization.yaml": text})
    report = json.loads(lint("--render", *RULES).stdout)
    assert [(e["file"], e["line"]) for e in report["errors"]] == [("kustomization.yaml", line)]
    assert what in report["errors"][0]["message"]
    assert not tools.log.exists()


def test_a_remote_base_of_a_base_is_refused_where_it_is_named(lint: Run, repository: Path, tools: Tools) -> None:
    tools.make("kustomize", RENDERED)
    (repository / "base/kustomization.yaml").write_text("resources:\n  - deployment.yaml\n  - https://example.org/x\n")
    report = json.loads(lint("--render", *RULES).stdout)
    assert [(e["file"], e["line"]) for e in report["errors"]] == [("base/kustomization.yaml", 3)]
    assert not tools.log.exists()


def test_nothing_outside_of_the_repository_is_read(lint: Run, folder: Path, tmp_path: Path, tools: Tools) -> None:
    tools.make("kustomize", RENDERED)
    write(tmp_path, {"outside/kustomization.yaml": "resources: [a.yaml]\n", "outside/a.yaml": BASE})
    (folder / "link").symlink_to(tmp_path / "outside")
    for entry in ("../outside", "link", "../outside/a.yaml", "link/a.yaml"):
        (folder / "kustomization.yaml").write_text(f"resources: [{entry}]\n")
        report = json.loads(lint("--render", *RULES).stdout)
        assert [e["message"] for e in report["errors"]] == [f"not rendered: {entry} leads out of the repository"]
    assert not tools.log.exists()


def test_a_circle_of_kustomizations_comes_to_an_end(lint: Run, folder: Path, tools: Tools) -> None:
    tools.make("kustomize", body="sys.stderr.write('Error: cycle'); sys.exit(1)")
    write(folder, {"a/kustomization.yaml": "resources: [../b]\n", "b/kustomization.yaml": "resources: [../a]\n"})
    assert lint("--render").exit_code in (0, 2)


def test_overlays_of_one_base_say_once_what_they_have_in_common(lint: Run, repository: Path, kustomize: str) -> None:
    shutil.copytree(repository / "overlays/prod", repository / "overlays/test")
    report = json.loads(lint("--render", *RULES).stdout)
    common = [f for f in report["findings"] if f["file"] == "base/deployment.yaml"]
    assert [(f["line"], f["rendered_by"]) for f in common] == [(16, ["overlays/prod", "overlays/test"])]
    assert report["workloads"] == 2


def test_suppressions_of_the_sources_count(lint: Run, repository: Path, kustomize: str) -> None:
    text = BASE.replace("=131072\n", "=131072  # planner: ignore[max-model-len-exceeds-model] with RoPE\n")
    text = text.replace("name: vllm\n", "name: vllm  # planner: ignore[gpus-idle] old\n")
    (repository / "base/deployment.yaml").write_text(text)
    report = json.loads(lint("--render", *RULES, "--select", "gpus-idle").stdout)
    assert [(f["rule"], f["reason"], f["by"]) for f in report["suppressed"]] == [
        ("max-model-len-exceeds-model", "with RoPE", "base/deployment.yaml:16:39")
    ]
    assert [(u["file"], u["line"]) for u in report["unused_suppressions"]] == [("base/deployment.yaml", 12)]


def test_an_annotation_in_a_patch_counts(lint: Run, repository: Path, tools: Tools) -> None:
    annotated = RENDERED.replace(
        "  name: prod-llm\n", "  name: prod-llm\n  annotations:\n    planner/ignore: 'unknown-flag: on purpose'\n"
    )
    tools.make("kustomize", annotated)
    report = json.loads(lint("--render", *RULES).stdout)
    assert [(f["rule"], f["file"]) for f in report["suppressed"]] == [
        ("unknown-flag", "overlays/prod/kustomization.yaml")
    ]
    assert report["unused_suppressions"] == []


def test_the_baseline_knows_what_was_rendered(lint: Run, repository: Path, kustomize: str) -> None:
    assert lint("--render", *RULES, "--write-baseline").exit_code == 0
    result = lint("--render", *RULES, "--baseline", "planner-baseline.json")
    report = json.loads(result.stdout)
    assert (report["findings"], report["stale_baseline"], len(report["baselined"])) == ([], [], 3)


def test_settings_of_a_path_hold_for_what_is_rendered_there(lint: Run, repository: Path, kustomize: str) -> None:
    (repository / "planner.yaml").write_text("paths: {overlays/prod: {ignore: unknown-flag}}\n")
    assert "unknown-flag" not in [rule for rule, _, _ in findings(lint("--render", *RULES))]


def test_what_is_not_of_kustomize_is_left_alone(lint: Run, folder: Path, tools: Tools) -> None:
    tools.make("kustomize", RENDERED)
    flux = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: a}\nspec: {patches: []}\n"
    component = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches: []\n"
    write(folder, {"a/kustomization.yaml": flux, "b/kustomization.yaml": component, "c.yaml": BASE})
    assert [file for _, file, _ in findings(lint("--render", *RULES))] == ["c.yaml", "c.yaml"]
    assert not tools.log.exists()


@pytest.mark.parametrize("name", ["kustomization.yml", "Kustomization"])
def test_other_names_of_the_file(lint: Run, repository: Path, tools: Tools, name: str) -> None:
    tools.make("kustomize", RENDERED)
    (repository / "overlays/prod/kustomization.yaml").rename(repository / "overlays/prod" / name)
    assert ("unknown-flag", f"overlays/prod/{name}", 12) in findings(lint("--render", *RULES))
    assert ("unknown-flag", f"overlays/prod/{name}", 12) in findings(lint("--render", *RULES, f"overlays/prod/{name}"))


SECOND = BASE.replace("name: llm\n", "name: llm-router\n").replace("- --max-model-len=131072", "- --bar=1")
DELETES = """\
resources: [../../base]
patches:
  - patch: |
      $patch: delete
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: llm}
"""


def installed(path_of_old: str, tools: Tools) -> None:
    """The renderer that is installed, whichever it is."""
    for name in ("kustomize", "kubectl"):
        found = shutil.which(name, path=path_of_old)
        if found:
            (tools.folder / name).symlink_to(os.path.realpath(found))
            return
    pytest.skip("neither kustomize nor kubectl is installed")


def test_an_engine_that_the_overlay_leaves_out_is_read_where_the_base_makes_it(
    lint: Run, folder: Path, path_of_old: str, tools: Tools
) -> None:
    """Nothing is lost, and what the overlay makes is not said once more as the base has it."""
    installed(path_of_old, tools)
    write(folder, {
        "base/a.yaml": BASE, "base/b.yaml": SECOND, "base/kustomization.yaml": "resources: [a.yaml, b.yaml]\n",
        "overlays/prod/kustomization.yaml": DELETES,
    })  # fmt: skip
    report = json.loads(lint("--render", *RULES).stdout)
    told = {(f["rule"], f["file"], f["line"]): f["rendered_by"] for f in report["findings"]}
    assert told[("max-model-len-exceeds-model", "base/a.yaml", 16)] == ["base"]
    assert told[("unknown-flag", "base/b.yaml", 16)] == ["overlays/prod"]
    assert (report["workloads"], report["errors"]) == (2, [])


def test_objects_whose_names_begin_alike_are_told_apart(
    lint: Run, folder: Path, path_of_old: str, tools: Tools
) -> None:
    installed(path_of_old, tools)
    write(folder, {
        "base/b.yaml": SECOND, "base/a.yaml": BASE, "base/kustomization.yaml": "resources: [a.yaml, b.yaml]\n",
        "overlays/prod/kustomization.yaml": "resources: [../../base]\nnameSuffix: -prod\n",
    })  # fmt: skip
    found = findings(lint("--render", *RULES))
    assert TOO_LONG[::2] in [entry[::2] for entry in found if entry[1] == "base/a.yaml"]
    assert [entry for entry in found if entry[0] == "unknown-flag"] == [("unknown-flag", "base/b.yaml", 16)]
