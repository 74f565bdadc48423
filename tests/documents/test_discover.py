"""Which files a run reads, in which order, and which not."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from planner.documents.discover import discover
from planner.documents.inputs import read_inputs

POD = "apiVersion: v1\nkind: Pod\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        "b.yaml",
        "a/z.yml",
        "a/y.json",
        "a/deep/x.yaml",
        "a/readme.md",
        ".hidden/x.yaml",
        "node_modules/m/x.yaml",
        "vendor/x.yaml",
        "__pycache__/x.yaml",
        "env/pyvenv.cfg",
        "env/lib/x.yaml",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(POD)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(*paths: str, exclude: tuple[str, ...] = ()) -> list[str]:
    sources = list(discover(paths, exclude))
    assert all(source.problem is None for source in sources)
    return [source.file for source in sources]


def problems(*paths: str) -> list[str]:
    return [f"{s.problem.position} {s.problem.message}" for s in discover(paths) if s.problem is not None]


def test_folders(tree: Path) -> None:
    assert names(".") == ["a/deep/x.yaml", "a/y.json", "a/z.yml", "b.yaml"]
    assert names("a") == ["a/deep/x.yaml", "a/y.json", "a/z.yml"]
    assert names("./a") == ["./a/deep/x.yaml", "./a/y.json", "./a/z.yml"]
    assert names(str(tree / "a" / "deep")) == [str(tree / "a" / "deep" / "x.yaml")]
    assert names(".hidden", "vendor") == [".hidden/x.yaml", "vendor/x.yaml"]


def test_named_files_are_always_read(tree: Path) -> None:
    assert names("a/readme.md", ".hidden/x.yaml", exclude=("*",)) == ["a/readme.md", ".hidden/x.yaml"]
    assert [source.named for source in discover(["b.yaml", "a"])] == [True, False, False, False]


def test_each_file_once(tree: Path) -> None:
    (tree / "link.yaml").symlink_to("b.yaml")
    assert names("b.yaml", "./b.yaml", "link.yaml", str(tree / "b.yaml"), "a/../b.yaml", ".") == [
        "b.yaml",
        "a/deep/x.yaml",
        "a/y.json",
        "a/z.yml",
    ]


def test_globs(tree: Path) -> None:
    assert names("a/*.yml") == ["a/z.yml"]
    assert names("**/*.yaml") == ["a/deep/x.yaml", "b.yaml"]
    assert names("a/**/x.yaml") == ["a/deep/x.yaml"]
    assert names("a/**") == ["a/deep/x.yaml", "a/y.json", "a/z.yml"]
    assert names("a/d*") == ["a/deep/x.yaml"]
    assert names("[!a].yaml", "?/[yz].*") == ["b.yaml", "a/y.json", "a/z.yml"]
    assert names("*/*.md") == ["a/readme.md"]
    assert names(str(tree) + "/*.yaml") == [str(tree / "b.yaml")]
    assert problems("c/*.yaml", "*.toml", "[") == [
        "c/*.yaml:1:1 no file fits this pattern",
        "*.toml:1:1 no file fits this pattern",
        "[:1:1 no file fits this pattern",
    ]


def test_a_name_with_glob_characters_is_a_name(tree: Path) -> None:
    (tree / "[x].yaml").write_text(POD)
    assert names("[x].yaml") == ["[x].yaml"]


def test_exclude(tree: Path) -> None:
    assert names(".", exclude=("deep",)) == ["a/y.json", "a/z.yml", "b.yaml"]
    assert names(".", exclude=("*.json", "b.*")) == ["a/deep/x.yaml", "a/z.yml"]
    assert names(".", exclude=("a/*.yml",)) == ["a/deep/x.yaml", "a/y.json", "b.yaml"]
    assert names(".", exclude=("./a/",)) == ["b.yaml"]
    assert names("a/**", exclude=("**/deep/**",)) == ["a/y.json", "a/z.yml"]
    assert names(".", exclude=("[z-a].yaml", "e")) == ["a/deep/x.yaml", "a/y.json", "a/z.yml", "b.yaml"]


def test_links_do_not_lead_out_of_the_folder(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.yaml").write_text(POD)
    (tree / "a" / "out.yaml").symlink_to(outside / "secret.yaml")
    (tree / "a" / "outfolder").symlink_to(outside)
    (tree / "a" / "loop").symlink_to(tree)
    (tree / "a" / "broken.yaml").symlink_to("nothing")
    (tree / "a" / "self.yaml").symlink_to("self.yaml")
    (tree / "a" / "in.yaml").symlink_to("deep/x.yaml")
    os.mkfifo(tree / "a" / "pipe.yaml")
    assert names("a") == ["a/deep/x.yaml", "a/y.json", "a/z.yml"]
    assert names("a/**") == ["a/deep/x.yaml", "a/y.json", "a/z.yml"]
    # what the user names is another matter
    assert names("a/outfolder") == ["a/outfolder/secret.yaml"]


def test_paths_that_are_none(tree: Path) -> None:
    assert problems("none.yaml", "x\0y", "no\nne\udcff") == [
        "none.yaml:1:1 no such file or folder",
        "x\\x00y:1:1 not a path",
        "no\\nne\\udcff:1:1 no such file or folder",
    ]
    (tree / "broken.yaml").symlink_to("nothing")
    (content,) = read_inputs(["broken.yaml"])
    assert [p.message for p in content.problems] == ["no such file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission(tree: Path) -> None:
    (tree / "a" / "deep").chmod(0)
    try:
        assert problems("a") == ["a/deep:1:1 cannot be listed: Permission denied"]
    finally:
        (tree / "a" / "deep").chmod(0o755)


def test_deep_folders(tree: Path) -> None:
    start = os.getcwd()
    for _ in range(600):
        os.mkdir("d")
        os.chdir("d")
    Path("x.yaml").write_text(POD)
    os.chdir(start)
    assert len([s for s in discover(["d"]) if s.problem is None]) == 1


def test_unprintable_names(tree: Path) -> None:
    (tree / "a" / "deep" / "x\n::error::y.yaml").write_text(POD)
    assert names("a/deep") == ["a/deep/x\\n::error::y.yaml", "a/deep/x.yaml"]


@pytest.fixture
def chart(tree: Path) -> Path:
    chart = tree / "charts" / "llm"
    (chart / "templates" / "sub").mkdir(parents=True)
    (chart / "charts" / "dep" / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: llm\n")
    (chart / "values.yaml").write_text("replicas: 1\n")
    (chart / "charts" / "dep" / "Chart.yaml").write_text("apiVersion: v2\nname: dep\n")
    (chart / "templates" / "sub" / "a.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {{ .Values.x }}\n")
    (chart / "templates" / "sub" / "b.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {{ .Values.x }}\n")
    (chart / "templates" / "c.yaml").write_text("apiVersion: v1\nkind: ConfigMap\ndata: {}\n")
    return chart


MESSAGE = "not rendered: helm template charts/llm | planner lint -"


def test_charts_are_noticed_once(chart: Path) -> None:
    notices = [s.notice for s in discover(["charts"]) if s.notice is not None]
    assert [(str(n.position), n.message) for n in notices] == [("charts/llm/Chart.yaml:1:1", MESSAGE)]
    assert names("charts") == ["charts/llm/Chart.yaml", "charts/llm/templates", "charts/llm/values.yaml"]
    contents = list(read_inputs([".", "charts/llm/templates/sub/a.yaml", "charts/llm/templates/sub/b.yaml"]))
    assert [n.message for c in contents for n in c.notices] == [MESSAGE]
    contents = list(read_inputs(["charts/llm/templates/sub/a.yaml", "charts/llm/templates/sub/b.yaml"]))
    assert [n.message for c in contents for n in c.notices] == [MESSAGE]


def test_a_chart_without_objects_says_nothing(chart: Path) -> None:
    for path in chart.glob("templates/**/*.yaml"):
        path.write_text("{{ define x }}{{ end }}\n")
    assert [s for s in discover(["charts"]) if s.notice is not None] == []


def test_read_inputs_filters_what_nobody_named(tree: Path) -> None:
    (tree / "a" / "ci.yaml").write_text("on: push\na: b: c\n")
    (tree / "a" / "broken.yaml").write_text(POD + " x: y\n")
    (tree / "a" / "y.json").write_bytes(b"\0\1")
    shown = {c.file: [p.message for p in c.problems] for c in read_inputs(["a"])}
    assert list(shown) == ["a/broken.yaml", "a/deep/x.yaml", "a/z.yml"]
    assert len(shown["a/broken.yaml"]) == 1
    named = {c.file: len(c.problems) for c in read_inputs(["a/ci.yaml", "a/y.json"])}
    assert named == {"a/ci.yaml": 1, "a/y.json": 1}
    assert list(read_inputs(["a/ci.yaml", "a/y.json"], prefilter=True)) == []


def test_stdin(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(POD.encode())

    monkeypatch.setattr(sys, "stdin", Stdin())
    contents = list(read_inputs(["-", "b.yaml", "-"]))
    assert [(c.file, len(c.documents)) for c in contents] == [("<stdin>", 1), ("b.yaml", 1)]
