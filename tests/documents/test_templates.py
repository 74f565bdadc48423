"""Templates are told from manifests that merely hold braces."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.documents.read import read_bytes, read_path

POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n"


def notices(text: str, file: str = "f.yaml") -> list[str]:
    content = read_bytes(text.encode(), file)
    assert content.problems == ()
    assert not (content.documents and content.notices)
    return [f"{n.position} {n.message}" for n in content.notices]


@pytest.mark.parametrize(
    "text",
    [
        "{{- if .Values.enabled }}\nkind: Pod\n{{- end }}\n",
        POD.format(name="{{ .Release.Name }}-x"),
        POD.format(name='"{{ .Values.name }}"'),
        POD.format(name="{{ include 'x' . }}"),
        POD.format(name="x") + "spec:\n  {{- toYaml .Values.spec | nindent 2 }}\n",
        POD.format(name="x") + "spec:\n  args:\n  - |\n    vllm serve {{ .Values.model }}\n",
        POD.format(name="x")
        + "  labels:\n    {{- range $k, $v := .Values.labels }}\n    {{ $k }}: {{ $v }}\n    {{- end }}\n",
        "{{- /*\nCopyright\n*/ -}}\n{{ $x := .Values.a }}\nkind: Pod\n",
    ],
)
def test_helm(text: str) -> None:
    (notice,) = notices(text)
    assert notice.endswith(" not rendered: helm template CHART | planner lint -")


def test_helm_names_the_chart_of_the_path() -> None:
    text = "{{ if .Values.x }}\nkind: Pod\n{{ end }}\n"
    assert notices(text, "deploy/my chart/templates/sub/x.yaml") == [
        "deploy/my chart/Chart.yaml:1:1 not rendered: helm template 'deploy/my chart' | planner lint -"
    ]
    assert notices(text, "templates/x.yaml") == ["Chart.yaml:1:1 not rendered: helm template . | planner lint -"]


@pytest.mark.parametrize(
    "text",
    [
        POD.format(name="{{ name }}"),
        POD.format(name="llm-{{ name }}"),
        "{% if gpu %}\nkind: Pod\n{% endif %}\n",
        POD.format(name="x") + "spec:\n  {% for a in b %}\n  - {{ a }}\n  {% endfor %}\n",
        POD.format(name="x") + "spec:\n  replicas: {{ replicas | default(1) }}\n",
    ],
)
def test_other_templates(text: str) -> None:
    (notice,) = notices(text)
    assert notice.endswith(" template, not rendered")


@pytest.mark.parametrize(
    "text",
    [
        POD.format(name='"{{ name }}"'),
        POD.format(name="'{{.Name}}'"),
        POD.format(name="x") + "spec:\n  template: |\n    {%- if x %}{{- bos_token }}{% endif %}\n",
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  x.tpl: |\n    {{ .Values.x }}\n",
        "apiVersion: serving.kserve.io/v1alpha1\nkind: ServingRuntime\nspec:\n  args:\n  - --name={{.Name}}\n",
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec:\n  name: a-{{workflow.uid}}\n",
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nspec:\n  a: 'x-{{ .Release.Name }}'\n",
        "# {{ .Values.x }}\n" + POD.format(name="x"),
        "kind: Pod\napiVersion: v1\na: {b: {c: d}}\n",
        '{"kind": "Pod", "a": {"b": {"c": "{{ x }}"}}}',
    ],
)
def test_braces_that_are_data(text: str) -> None:
    assert notices(text) == []
    assert len(read_bytes(text.encode(), "f").documents) == 1


def test_a_true_syntax_error_beside_braces_stays_one() -> None:
    content = read_bytes(b"a: '{{ x }}'\nb: c: d\nt: |\n  {{ bos }}\n", "f")
    assert content.notices == ()
    assert [p.message for p in content.problems] == ["a second ': ' on the line; quote the value"]


def test_a_chart_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    templates = tmp_path / "charts" / "llm" / "templates"
    templates.mkdir(parents=True)
    (templates.parent / "Chart.yaml").write_text("name: llm\n")
    quoted = templates / "quoted.yaml"
    quoted.write_text('apiVersion: v1\nkind: Pod\nmetadata: {name: "{{ .x }}"}\n')
    plain = templates / "plain.yaml"
    plain.write_text("apiVersion: v1\nkind: Pod\n")
    monkeypatch.chdir(tmp_path)
    message = "not rendered: helm template charts/llm | planner lint -"
    first = read_path(Path("charts/llm/templates/quoted.yaml"), "charts/llm/templates/quoted.yaml")
    assert [(str(n.position), n.message) for n in first.notices] == [("charts/llm/Chart.yaml:1:1", message)]
    assert read_path(plain, "charts/llm/templates/plain.yaml").documents[0].kind == "Pod"
    monkeypatch.chdir(templates)
    assert read_path(Path("quoted.yaml"), "quoted.yaml").notices[0].message == (
        "not rendered: helm template .. | planner lint -"
    )
