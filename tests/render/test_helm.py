"""Charts: rendered when asked, with the helm that is installed, and told at the template or the values."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.render.conftest import Run, Tools, findings, write

TEMPLATE = """\
{{- if .Values.enabled }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}-llm
spec:
  selector: {matchLabels: {app: llm}}
  template:
    metadata:
      labels: {app: llm}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
      containers:
        - name: vllm
          image: vllm/vllm-openai:{{ .Values.image.tag }}
          args:
            - --model=Qwen/Qwen3-8B
            - --max-model-len={{ .Values.length }}
            - --foo=1
          resources: {limits: {nvidia.com/gpu: 1}}
{{- end }}
"""
VALUES = """\
enabled: true
image:
  tag: latest
length: 131072
"""
RENDERED = """\
---
# Source: chart/templates/deployment.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: release-name-llm
spec:
  selector: {matchLabels: {app: llm}}
  template:
    metadata:
      labels: {app: llm}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
      containers:
        - name: vllm
          image: vllm/vllm-openai:latest
          args:
            - --model=Qwen/Qwen3-8B
            - --max-model-len=131072
            - --foo=1
          resources: {limits: {nvidia.com/gpu: 1}}
"""
CHART = {
    "deploy/chart/Chart.yaml": "apiVersion: v2\nname: chart\nversion: 1.0.0\n",
    "deploy/chart/values.yaml": VALUES,
    "deploy/chart/templates/deployment.yaml": TEMPLATE,
}
RULES = ("--select", "image-not-pinned", "--select", "unknown-flag", "--select", "max-model-len-exceeds-model",
         "--format", "json")  # fmt: skip
FOUND = [
    ("unknown-flag", "deploy/chart/templates/deployment.yaml", 19),
    ("image-not-pinned", "deploy/chart/values.yaml", 3),
    ("max-model-len-exceeds-model", "deploy/chart/values.yaml", 4),
]


@pytest.fixture
def chart(folder: Path) -> Path:
    write(folder, CHART)
    return folder / "deploy" / "chart"


@pytest.mark.parametrize("named", ["", ".", "deploy", "deploy/chart", "deploy/chart/templates/deployment.yaml"])
def test_findings_are_told_at_the_template_or_the_value(lint: Run, chart: Path, tools: Tools, named: str) -> None:
    tools.make("helm", RENDERED)
    result = lint("--render", *RULES, *([named] if named else []))
    assert findings(result) == FOUND
    report = json.loads(result.stdout)
    assert (report["notices"], report["errors"], report["workloads"]) == ([], [], 1)
    assert {tuple(finding["rendered_by"]) for finding in report["findings"]} == {("deploy/chart",)}
    assert tools.call["argv"] == ["template", str(chart), "--skip-tests"]


def test_a_chart_in_the_current_folder(lint: Run, chart: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    tools.make("helm", RENDERED)
    monkeypatch.chdir(chart)
    assert [(rule, file) for rule, file, _ in findings(lint("--render", *RULES))] == [
        ("unknown-flag", "templates/deployment.yaml"), ("image-not-pinned", "values.yaml"),
        ("max-model-len-exceeds-model", "values.yaml"),
    ]  # fmt: skip


def test_without_the_flag_nothing_runs_and_it_is_said(lint: Run, chart: Path, tools: Tools) -> None:
    tools.make("helm", RENDERED)
    report = json.loads(lint(*RULES).stdout)
    assert [(n["file"], n["message"]) for n in report["notices"]] == [
        ("deploy/chart/Chart.yaml", "not rendered: helm template deploy/chart | planner lint -")
    ]
    assert not tools.log.exists()


def test_values_of_ones_own(lint: Run, chart: Path, tools: Tools, folder: Path) -> None:
    tools.make("helm", RENDERED.replace("131072", "262144"))
    write(folder, {"prod.yaml": "length: 262144\n"})
    result = lint("--render", "--values", "prod.yaml", *RULES)
    assert ("max-model-len-exceeds-model", "prod.yaml", 1) in findings(result)
    assert tools.call["argv"] == ["template", str(chart), "--skip-tests", "--values", str(folder / "prod.yaml")]
    assert lint("--values", "prod.yaml").exit_code == 2
    assert lint("--render", "--values", "missing.yaml").exit_code == 2


def test_what_no_template_says_word_for_word_is_told_at_the_template(lint: Run, chart: Path, tools: Tools) -> None:
    tools.make("helm", RENDERED.replace("--foo=1", "--bar=2"))
    assert ("unknown-flag", "deploy/chart/templates/deployment.yaml", 1) in findings(lint("--render", *RULES))


def test_a_comment_in_a_template_suppresses(lint: Run, chart: Path, tools: Tools) -> None:
    comment = "--foo=1  # planner: ignore[unknown-flag] a build of ours"
    for path, text in (("templates/deployment.yaml", TEMPLATE), ("../rendered", RENDERED)):
        (chart / path).write_text(text.replace("--foo=1", comment))
    tools.make("helm", (chart / "../rendered").read_text())
    report = json.loads(lint("--render", *RULES).stdout)
    assert [(f["rule"], f["file"], f["line"]) for f in report["suppressed"]] == [FOUND[0]]
    assert report["unused_suppressions"] == []


def test_without_helm_it_is_said(lint: Run, chart: Path, tools: Tools) -> None:
    report = json.loads(lint("--render", *RULES).stdout)
    assert [(e["file"], e["message"]) for e in report["errors"]] == [
        ("deploy/chart/Chart.yaml", "not rendered: helm is not on PATH; install it, or leave --render out")
    ]


def test_what_helm_complains_of_is_said(lint: Run, chart: Path, tools: Tools) -> None:
    message = (
        "Error: An error occurred while checking for chart dependencies: found in Chart.yaml, but missing in charts/"
    )
    tools.make("helm", body=f"sys.stderr.write({message!r}); sys.exit(1)")
    report = json.loads(lint("--render", *RULES).stdout)
    assert report["errors"][0]["message"] == f"not rendered: helm failed: {message}"


def test_a_library_is_not_rendered(lint: Run, chart: Path, tools: Tools) -> None:
    tools.make("helm", RENDERED)
    (chart / "Chart.yaml").write_text(CHART["deploy/chart/Chart.yaml"] + "type: library\n")
    report = json.loads(lint("--render", *RULES).stdout)
    assert report["errors"] == []
    assert not tools.log.exists()


@pytest.mark.parametrize("name", ["templates/passwd.yaml", "files/passwd", "charts/inner"])
def test_a_link_out_of_the_repository_is_refused(
    lint: Run, chart: Path, tools: Tools, tmp_path: Path, name: str
) -> None:
    tools.make("helm", RENDERED)
    (tmp_path / "outside").mkdir()
    (chart / name).parent.mkdir(exist_ok=True)
    (chart / name).symlink_to(tmp_path / "outside")
    report = json.loads(lint("--render", *RULES).stdout)
    assert report["errors"][0]["message"] == f"not rendered: {name} leads out of the repository"
    assert not tools.log.exists()


def test_a_source_line_that_leads_elsewhere_is_not_followed(
    lint: Run, chart: Path, tools: Tools, tmp_path: Path
) -> None:
    """A template may print any comment."""
    (tmp_path / "secret.yaml").write_text("- --foo=1\n")
    up = os.path.relpath(tmp_path / "secret.yaml", chart)
    tools.make("helm", RENDERED.replace("chart/templates/deployment.yaml", f"chart/{up}"))
    assert {file for _, file, _ in findings(lint("--render", *RULES))} == {"deploy/chart/Chart.yaml"}


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "\0",
        "- [",
        "# Source: \n",
        "# Source: chart/templates\nkind: Pod\n",
        "a: &a [*a]\n",
        "NOTES:\nEnjoy {{ it }}\n",
    ],
)
def test_whatever_it_prints_nothing_crashes(lint: Run, chart: Path, tools: Tools, printed: str) -> None:
    tools.make("helm", printed)
    assert lint("--render").exit_code in (0, 1, 2)


def test_both_in_one_run(lint: Run, chart: Path, tools: Tools, folder: Path) -> None:
    tools.make("helm", RENDERED)
    write(
        folder,
        {
            "plain/a.yaml": RENDERED.replace("release-name", "plain"),
            "plain/kustomization.yaml": "resources: [a.yaml]\n",
        },
    )
    tools.make("kustomize", RENDERED.replace("release-name", "plain"))
    found = findings(lint("--render", *RULES))
    assert set(FOUND) <= set(found)
    assert [entry for entry in found if entry[1] == "plain/a.yaml"] == [
        ("image-not-pinned", "plain/a.yaml", 16), ("max-model-len-exceeds-model", "plain/a.yaml", 19),
        ("unknown-flag", "plain/a.yaml", 20),
    ]  # fmt: skip
