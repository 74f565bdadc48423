from __future__ import annotations

import pytest

from planner.documents.derived import embedded, key_at, mapping_at, merged, sequence_at, substituted, text_at
from planner.documents.node import Node
from planner.documents.read import read_bytes


def root(text: str, file: str = "x.yaml") -> Node:
    (document,) = read_bytes(text.encode(), file).documents
    return document.root


def place(node: Node | None) -> tuple[int, int]:
    assert node is not None
    return node.position.line, node.position.column


def test_text_stands_where_its_node_does():
    node = root("a:\n  b: nvidia-gpu-l4:8\n").get("a", "b")
    assert node is not None
    made = text_at(node, "8")
    assert (made.text, made.value, made.kind, place(made)) == ("8", "8", "scalar", (2, 6))
    assert place(text_at(node, "8", 14)) == (2, 20)
    assert made.position_at(1).column == 6  # no text of its own in the file


def test_key():
    node = root("a:\n  maxLen: 8\n").get("a", "maxLen")
    assert node is not None
    assert place(key_at(node, "--max-len")) == (2, 3)


def test_mapping_keeps_the_places_of_its_parts():
    top = root("a: {x: 1, y: 2}\nb: 3\n")
    made = mapping_at(top, {"one": top.get("a", "x"), "two": top.get("b"), "none": None})
    assert made.kind == "mapping"
    assert [(name, value.text, place(value)) for name, value in made.items()] == [
        ("one", "1", (1, 8)),
        ("two", "3", (2, 4)),
    ]


def test_list():
    top = root("a: 1\nb: [2, 3]\n")
    items = [item for item in (top.get("a"), *(top.get("b") or ())) if item is not None]
    made = sequence_at(top, items)
    assert [(item.text, place(item)) for item in made] == [("1", (1, 4)), ("2", (2, 5)), ("3", (2, 8))]


def test_parts_of_another_file_are_left_out():
    one, other = root("a: 1\n"), root("b: 2\n", "y.yaml")
    assert [name for name, _ in mapping_at(one, {"a": one.get("a"), "b": other.get("b")}).items()] == ["a"]
    assert not list(sequence_at(one, [other]))


def test_strategic_merge():
    top = root(
        """
base:
  containers:
    - {name: a, image: i, args: [1, 2], env: [{name: X, value: "1"}, {name: Y, value: "2"}]}
    - {name: b, image: j}
patch:
  containers:
    - {name: a, args: [3], env: [{name: Y, value: "9"}]}
    - {name: c, image: k}
"""
    )
    base, patch = top.get("base"), top.get("patch")
    assert base is not None
    assert patch is not None
    made = merged(base, patch)
    assert [item.string("name") for item in made.get("containers") or ()] == ["a", "b", "c"]
    assert made.string("containers", 0, "image") == "i"
    assert [item.text for item in made.get("containers", 0, "args") or ()] == ["3"]
    assert [item.string("value") for item in made.get("containers", 0, "env") or ()] == ["1", "9"]
    assert place(made.get("containers", 0, "args", 0)) == (8, 24)
    assert place(made.get("containers", 0, "image")) == (4, 24)


def test_substitution():
    top = root("a: &x ['{{.Name}}', plain]\nb: *x\nc: {d: 1}\n")
    made = substituted(top, lambda text: text.replace("{{.Name}}", "me"))
    assert [item.text for item in made.get("b") or ()] == ["me", "plain"]
    assert place(made.get("a", 0)) == (1, 8)
    assert made.get("c", "d") is not None
    assert made.get("c", "d").value == 1  # type: ignore[union-attr]
    assert top.string("a", 0) == "{{.Name}}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v: |\n  a:\n    b: 1\n", (3, 8)),
        ("x: 1\nv: |-\n\n      a:\n          b: 1\n", (5, 14)),
        ('v: "a:\\n  b: 1"\n', (1, 14)),
        ("v: '{a: {b: 1}}'\n", (1, 13)),
        ("v: >-\n  {a:\n  {b: 1}}\n", (3, 7)),
    ],
)
def test_embedded_document_has_places_in_the_file(text: str, expected: tuple[int, int]):
    scalar = root(text).get("v")
    assert scalar is not None
    inner, problems = embedded(scalar)
    assert not problems
    assert inner is not None
    found = inner.get("a", "b")
    assert found is not None
    assert found.value == 1
    assert found.position.file == "x.yaml"
    assert place(found) == expected


def test_embedded_in_embedded():
    scalar = root("v: |\n  w: |\n    a: [1, 22]\n").get("v")
    assert scalar is not None
    inner, _ = embedded(scalar)
    assert inner is not None
    second = inner.get("w")
    assert second is not None
    innermost, _ = embedded(second)
    assert innermost is not None
    assert place(innermost.get("a", 1)) == (3, 12)


def test_problem_of_an_embedded_document_has_its_place():
    scalar = root("v: |\n  a: 1\n  b: [1\n").get("v")
    assert scalar is not None
    _, problems = embedded(scalar)
    assert [problem.position.line for problem in problems][:1] in ([3], [4])


@pytest.mark.parametrize("text", ["v: ''\n", "v: '   '\n", "v: |\n"])
def test_nothing_embedded(text: str):
    scalar = root(text).get("v")
    assert scalar is not None
    assert embedded(scalar)[0] is None
