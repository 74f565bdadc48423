"""Documents of an input: several in one file, JSON, lists, encodings, files that are none."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from planner.documents.read import LARGEST, may_hold_workload, read_bytes, read_path


def test_several_documents() -> None:
    content = read_bytes(
        b"# only a comment\n---\nkind: A\napiVersion: v1\nmetadata: {name: a, namespace: n}\n---\n---\n# nothing\n...\n"
        b"---\nkind: B\nmetadata:\n  generateName: b-\n",
        "f",
    )
    assert [(d.kind, d.api_version, d.name, d.namespace, d.index) for d in content.documents] == [
        ("A", "v1", "a", "n", 0),
        ("B", "", "b-", "", 1),
    ]
    assert content.documents[1].root.position.line == 11
    assert content.problems == ()
    assert content.lines[2] == "kind: A"
    assert len(content.lines) == 13


def test_nothing() -> None:
    for data in (b"", b"\n\n", b"# x\n", b"---\n", b"\xef\xbb\xbf"):
        content = read_bytes(data, "f")
        assert (content.documents, content.problems) == ((), ())


def test_other_yaml_is_a_document_without_kind() -> None:
    content = read_bytes(b"- 1\n- {kind: x}\n", "f")
    assert [(d.kind, d.api_version, d.name, d.namespace) for d in content.documents] == [("", "", "", "")]


def test_json_with_tabs_and_escapes() -> None:
    text = '{\n\t"kind": "Pod",\n\t"a\\/b": "\\ud83d\\ude00 \\ud83d x",\t"c": [1, true, null, 1.5e3]\n}\n'
    content = read_bytes(text.encode(), "f.json")
    assert content.problems == ()
    root = content.documents[0].root
    assert root.plain() == {"kind": "Pod", "a/b": "😀 \ufffd x", "c": [1, True, None, 1500.0]}
    c = root.get("c", 1)
    assert c is not None
    line, column = c.position[1:3]
    assert text.splitlines()[line - 1][column - 1 :].startswith("true")


def test_json_equals_json() -> None:
    data = {"kind": "List", "apiVersion": "v1", "x": {"a": [1, 2.5, "s\n\t\"'", None, True], "b": {}}, "d": []}
    for indent in (None, 1, "\t"):
        assert read_bytes(json.dumps(data, indent=indent).encode(), "f").documents[0].root.plain() == data


def test_lists_are_taken_apart() -> None:
    content = read_bytes(
        b"kind: List\napiVersion: v1\nitems:\n- kind: A\n- kind: PodList\n  items:\n  - {kind: B}\n  - {kind: C}\n"
        b"- ~\n- 5\n- kind: D\n---\nkind: E\n---\nkind: FooList\nspec: {}\n",
        "f",
    )
    assert [(d.kind, d.index, d.root.position.line, d.root.path) for d in content.documents] == [
        ("A", 0, 4, ""),
        ("B", 1, 7, ""),
        ("C", 2, 8, ""),
        ("D", 3, 11, ""),
        ("E", 4, 13, ""),
        ("FooList", 5, 15, ""),
    ]
    assert [str(p.position) + " " + p.message for p in content.problems] == [
        "f:10:3 an item of a List that is no object"
    ]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_encodings(encoding: str) -> None:
    text = ("\ufeff" if encoding == "utf-16-le" else "") + "kind: Pod\napiVersion: v1\nname: é😀\n"
    data = text.encode(encoding)
    content = read_bytes(data, "f")
    assert content.problems == ()
    assert content.documents[0].root.string("name") == "é😀"
    assert content.documents[0].root.position.column == 1
    assert may_hold_workload(data)


def test_text_that_is_none() -> None:
    cases = {
        b"\x7fELF\0\0": "f:1:1 a binary file (it holds NUL bytes)",
        b"a: 1\nb: \xc3\xa9 \xff\n": "f:2:6 not UTF-8 text (byte 0xff)",
        b"\xef\xbb\xbfa: \xff\n": "f:1:4 not UTF-8 text (byte 0xff)",
        b"\xff\xfea": "f:1:1 starts like UTF-16 but is not: truncated data",
        b"a: x\x07y\nb: 1\n": "f:1:5 the control character U+0007 is not allowed in YAML",
        b"x" * (LARGEST + 1): "f:1:1 larger than 10 MiB, not read",
    }
    for data, expected in cases.items():
        content = read_bytes(data, "f")
        assert content.documents == ()
        assert [f"{p.position} {p.message}" for p in content.problems] == [expected]


def test_a_mark_inside_the_file() -> None:
    content = read_bytes("\ufeffkind: A\n---\n\ufeffkind: B\n".encode(), "f")
    assert [f"{p.position} {p.message}" for p in content.problems] == [
        "f:3:1 a byte order mark (U+FEFF) inside the file; remove it"
    ]


def test_paths(tmp_path: Path) -> None:
    manifest = tmp_path / "x.yaml"
    manifest.write_text("kind: Pod\n")
    (tmp_path / "link.yaml").symlink_to(manifest)
    assert read_path(manifest, "shown").documents[0].file == "shown"
    assert read_path(tmp_path / "link.yaml", "l").documents[0].kind == "Pod"


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    start = time.monotonic()
    messages = {}
    for path in (tmp_path / "pipe.yaml", tmp_path / "none.yaml", tmp_path, Path("/dev/zero"), tmp_path / "loop.yaml"):
        content = read_path(path, "f")
        assert content.documents == ()
        (problem,) = content.problems
        messages[path.name] = problem.message
    assert time.monotonic() - start < 1
    assert messages["pipe.yaml"] == messages["zero"] == "not a regular file, not opened"
    assert messages["none.yaml"] == "no such file"
    assert messages[tmp_path.name] == "a folder, not a file"
    assert messages["loop.yaml"].startswith("cannot be read: ")


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    with large.open("wb") as stream:
        stream.truncate(200 * 1024 * 1024)
    assert [p.message for p in read_path(large, "f").problems] == ["larger than 10 MiB, not read"]


def test_files_that_grow_while_they_are_read() -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc")
    content = read_path(Path("/proc/self/status"), "f")
    assert content.lines[0].startswith("Name:")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"apiVersion: v1\nkind: Pod\n", True),
        (b'{"apiVersion":"v1","kind":"Pod"}', True),
        (b'{"items":[{"kind" : "Pod", "apiVersion" : "v1"}]}', True),
        (b"- 'kind': Pod\n  'apiVersion': v1\n", True),
        (b"{kind: Pod,apiVersion: v1}", True),
        (b"kind: x\n", False),
        (b"apiVersion: v1\n", False),
        (b"name: CI\non: push\njobs: {build: {runs-on: x}}\n", False),
        (b'{"name": "kind-of", "kinds": 1, "myapiVersion": 2}', False),
        (b"services:\n  web:\n    image: x\n", False),
        (b"", False),
    ],
)
def test_prefilter(data: bytes, expected: bool) -> None:
    assert may_hold_workload(data) is expected
