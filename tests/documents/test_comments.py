"""``# planner:`` comments and the lines they cover."""

from __future__ import annotations

from planner.documents.document import Comment
from planner.documents.read import read_bytes


def found(text: str) -> list[list[Comment]]:
    content = read_bytes(text.encode(), "f")
    assert content.problems == ()
    return [list(document.comments) for document in content.documents]


def short(comments: list[Comment]) -> list[tuple[int, int, str, bool, int, int]]:
    return [(c.position.line, c.position.column, c.text, c.own_line, c.covers, c.covers_end) for c in comments]


def test_own_line_and_trailing() -> None:
    (comments,) = found(
        """\
# planner: ignore[a] why
# other

kind: Pod
args:
  #planner:ignore[b]
  # planner: ignore[c]
  - --x  # planner: ignore[d] because
  - --y=#planner: no
  - "--z # planner: no"
  - '--z # planner: no'
  - [a, b] #  planner:   ignore[e]
  # planner: ignore[end]
"""
    )
    assert short(comments) == [
        (1, 1, "ignore[a] why", True, 4, 4),
        (6, 3, "ignore[b]", True, 8, 8),
        (7, 3, "ignore[c]", True, 8, 8),
        (8, 10, "ignore[d] because", False, 8, 8),
        (12, 12, "ignore[e]", False, 12, 12),
        (13, 3, "ignore[end]", True, 13, 13),
    ]


def test_scripts() -> None:
    (comments,) = found(
        """\
command:
- sh
- -c
- |
  # planner: ignore[a] tested
  exec vllm serve x \\
    --tp 2 \\
    --port 80
  echo "# planner: no"  # planner: ignore[b]
  echo '
  # planner: ignore[c]
  '
text: |
  Write
  # planner: ignore[x]
  in the manifest.
start.sh: |
  # planner: ignore[d]

  x
folded: >
  export A=1
  # planner: no
"""
    )
    assert short(comments) == [
        (5, 3, "ignore[a] tested", True, 6, 8),
        (9, 25, "ignore[b]", False, 9, 9),
        (11, 3, "ignore[c]", True, 12, 12),
        (18, 3, "ignore[d]", True, 20, 20),
    ]


def test_each_document_has_its_own() -> None:
    documents = found(
        "# planner: a\n---\nkind: A\n# planner: b\n---\n# planner: c\nkind: B # planner: d\n---\n# planner: e\n---\nkind: C\n"
        "...\n# planner: f\n"
    )
    assert [[c.text for c in comments] for comments in documents] == [["a", "b"], ["c", "d"], ["e", "f"]]
    assert documents[0][0].covers == 3


def test_items_of_a_list_have_their_own() -> None:
    documents = found(
        "kind: List # planner: a\nitems:\n# planner: b\n- kind: A\n  x: 1 # planner: c\n# planner: d\n- kind: B\n# planner: e\n"
    )
    assert [[c.text for c in comments] for comments in documents] == [["a", "b", "c"], ["d", "e"]]


def test_after_a_syntax_error() -> None:
    content = read_bytes(b"a: b: c # planner: x\n---\n# planner: y\nkind: B\n", "f")
    assert "y" in [c.text for c in content.documents[0].comments]


def test_windows_line_ends() -> None:
    (comments,) = found("kind: Pod\r\n# planner: ignore[a]\r\nb: 1\r\n")
    assert short(comments) == [(2, 1, "ignore[a]", True, 3, 3)]
