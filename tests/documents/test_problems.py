"""What cannot be read is said in one sentence at its place, and the rest is read."""

from __future__ import annotations

import pytest

from planner.documents.document import FileContent
from planner.documents.read import read_bytes


def read(text: str) -> FileContent:
    return read_bytes(text.encode(), "f")


def said(text: str) -> list[str]:
    return [f"{p.position.line}:{p.position.column} {p.message}" for p in read(text).problems]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: b: c\n", "1:5 a second ': ' on the line; quote the value"),
        ("a: x\n  b: 2\n", "2:4 a key where none can stand; check the indentation, and the ':' of the line above"),
        ("a:\n  b: 1\n c: 2\n", "3:2 the indentation does not match the block that began on line 1"),
        ("- - a\n - b\n", "2:2 the indentation does not match the list that began on line 1"),
        ("a:\n\tb: 1\n", "2:1 a tab cannot indent YAML; use spaces"),
        ("a: 'x\nb: 2\n", "1:4 this quote is never closed"),
        ('a: "x\nb: 2\n---\nkind: ok\n', "1:4 this quote is not closed in its document"),
        ("a: [1, 2\nb: 3\n", "2:2 a list that was opened with '[' on line 1 lacks a ',' or ']' here"),
        ("a: ['--x' '--y']\n", "1:11 a list that was opened with '[' on line 1 lacks a ',' or ']' here"),
        ("a: {b: 1\nc: 2\n", "2:2 a mapping that was opened with '{' on line 1 lacks a ',' or '}' here"),
        ("a: 1\n- b\n", "2:1 a '- ' where a 'key: value' is expected; check the indentation"),
        ("a: - b\n", "1:4 a '- ' where no list can start; check the indentation"),
        ("a: @x\n", "1:4 '@' cannot start a value; quote it"),
        ("a: %x\n", "1:4 '%' cannot start a value; quote it"),
        ("a: ]\n", "1:4 ']' where a value is expected; quote it"),
        ('a: "x" y\n', "1:8 text after a closing quote; quote the whole value"),
        ("a: *.example.com\n", "1:5 an '&' or '*' without a name; quote a value that starts with it"),
        ("a: |x\n  y\n", "1:5 text after '|' or '>'; the block starts on the next line"),
        (
            'a: "C:\\Windows"\n',
            "1:7 an unknown escape after '\\' in a double-quoted string; use single quotes, or '\\\\'",
        ),
        ("a: 1\nkey\nb: 1\n", "3:1 this line is neither a 'key: value' nor the continuation of a value"),
        ("{a: 1}}\n", "1:7 text after the end of the document; a '---' line or indentation is missing"),
        (": b\n", "1:1 a value without a key"),
        ("a: !e!x y\n", "1:4 a tag with a handle that nothing declares"),
        ("a: 1\na: 2\n", "2:1 duplicate key 'a', first on line 1"),
        ("a: {'b': 1, b: 2}\n", "1:13 duplicate key 'b', first on line 1"),
        ("? [a]\n: b\n", "1:3 a key that is a list or a mapping; Kubernetes knows only strings"),
        ("~: b\n", "1:1 a key that is null; quote it"),
        ("a: *x\n", "1:4 the alias *x has no anchor &x before it"),
        ("a: &b [*b]\n", "1:8 the alias *b stands inside its own anchor"),
        ("a: &b {<<: *b}\n", "1:12 the alias *b stands inside its own anchor"),
        ("a:\n  <<: x\n", "2:7 '<<' merges mappings; this is none"),
        ("a:\n  <<: [{b: 1}, x]\n", "2:16 '<<' merges mappings; this is none"),
    ],
)
def test_one_sentence(text: str, expected: str) -> None:
    assert said(text) == [expected]


def test_the_documents_around_a_syntax_error_are_read() -> None:
    content = read("kind: A\n---\nkind: B\n b: c\n---\nkind: C\n--- x: y\n---\n# c\nkind: D\n...\n")
    assert [d.kind for d in content.documents] == ["A", "C", "D"]
    assert [d.index for d in content.documents] == [0, 1, 2]
    assert [d.root.position.line for d in content.documents] == [1, 6, 10]
    assert [p.position.line for p in content.problems] == [4, 7]


def test_positions_after_a_syntax_error() -> None:
    content = read("\r\na: 'é\u2028\n---\nkind: B\nrun: |\n  x\n  --port\nz: &k 1\n")
    root = content.documents[0].root
    run, z = root.get("run"), root.get("z")
    assert run is not None
    assert z is not None
    assert run.position_at(run.text.index("--port"))[1:3] == (7, 3)
    assert z.position[1:3] == (8, 7)


def test_what_follows_without_a_document_line_spoils_the_document() -> None:
    assert read("{kind: A}\nkind: B\n---\nkind: C\n").documents[0].kind == "C"


def test_the_document_with_a_duplicate_key_is_read_as_kubernetes_reads_it() -> None:
    content = read("kind: A\nspec: {x: 1}\nspec: {x: 2}\n")
    assert content.documents[0].root.integer("spec", "x") == 2


def test_merge_conflicts() -> None:
    conflict = "<<<<<<< HEAD\n  image: a\n=======\n  image: b\n>>>>>>> theirs\n"
    content = read(f"kind: A\nspec:\n{conflict}---\nkind: B\n---\nkind: C\nspec:\n{conflict}")
    assert [d.kind for d in content.documents] == ["B"]
    assert said(f"kind: A\nspec:\n{conflict}") == ["3:1 a merge conflict that is not resolved (<<<<<<<)"]
    assert [p.position.line for p in content.problems] == [3, 13]
    # in a block scalar it is somebody's text
    assert said("a: |\n  <<<<<<< HEAD\n  =======\n") == []


def test_many_problems_are_cut() -> None:
    content = read("a: 1\n" * 500)
    assert len(content.problems) == 101
    assert content.problems[-1].message == "more problems; only the first 100 of this file are shown"
    content = read("---\na: b: c\n" * 50 + "---\nkind: Z\n")
    assert len(content.problems) == 21
    assert content.problems[-1].message == "not read from here on: 20 syntax errors before"
    assert content.documents == ()
