"""Hostile input: a problem in the time of any other file, never a crash."""

from __future__ import annotations

import time

import pytest

from planner.documents.compose import DEEPEST, MOST_ALIASED
from planner.documents.document import FileContent
from planner.documents.read import read_bytes


def read(text: str, seconds: float = 2.0) -> FileContent:
    start = time.process_time()
    content = read_bytes(text.encode(), "f")
    for document in content.documents[:10]:
        document.root.plain()
        assert document.root.position.line >= 1
    assert time.process_time() - start < seconds
    return content


@pytest.mark.parametrize("opening", ["[", "{", "- ", "? ", "[a, ", "{a: ", "- ? ", "{? ", "[{", '{"a":['])
@pytest.mark.parametrize("count", [130, 200_000])
def test_deep_nesting(opening: str, count: int) -> None:
    content = read(opening * count)
    assert content.documents == ()
    assert len(content.problems) == 1
    assert "nested" in content.problems[0].message


def test_deep_blocks() -> None:
    text = "".join(" " * level + "a:\n" for level in range(400))
    assert "nested" in read(text + "---\nkind: B\n").problems[0].message
    assert read(text + "---\nkind: B\n").documents[0].kind == "B"


def test_the_limit_of_nesting() -> None:
    assert read("[" * DEEPEST + "]" * DEEPEST).problems == ()
    assert len(read("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1)).problems) == 1


def test_alias_bombs() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 40)]
    content = read("\n".join(lines))
    assert [p.message for p in content.problems] == [
        f"the aliases of this file stand for more than {MOST_ALIASED:,} nodes"
    ]
    merges = ["a0: &a0 {k: v}"] + [f"a{i}: &a{i}\n  <<: [*a{i - 1}, *a{i - 1}]\n  k{i}: v" for i in range(1, 60)]
    assert len(read("\n".join(merges)).problems) == 1


def test_chains_of_aliases_are_deep() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 2000)]
    content = read("\n".join(lines))
    assert "aliases written out" in content.problems[0].message


def test_ordinary_aliases_are_fine() -> None:
    text = "env: &env [" + "{name: a, value: b}, " * 100 + "]\nall:\n" + "- *env\n" * 100
    content = read(text)
    assert content.problems == ()
    assert len(content.documents[0].root.plain()["all"][99]) == 100


@pytest.mark.parametrize(
    "line",
    [
        "- \n",
        "a: 1\n",
        "- *a\n",
        "---\n",
        "--- {}\n",
        "{{ a }}\n",
        "a: {{ b }}\n",
        "{% a %}\n",
        "# planner: x\n",
        "- &a\n",
    ],
)
def test_many_lines(line: str) -> None:
    read(line * 100_000)


@pytest.mark.parametrize(
    "text",
    [
        "{{" * 200_000,
        "kind: {{" + " " * 300_000 + "x",
        "{{" + " .a" * 100_000,
        '{"a": "' + "\\ud83d" * 100_000 + '"}',
        "a: " + "'" * 300_001,
        'a: "' + "\\n" * 200_000 + '"',
        "a: >\n" + "  x\n\n" * 60_000,
        "a: |\n" + " " * 200_000 + "x\n",
        "".join(f"%TAG !a{i}! x\n" for i in range(50_000)),
        "args:\n- |\n" + "  x # planner: ignore \\\n" * 50_000,
        "a: " + "&x " * 100_000,
        "a: 'x''" + " " * 300_000 + "y'",
        "a: x\n " + " " * 300_000 + "y",
        "a" * 300_000 + ": 1",
        "? " + "a" * 300_000 + "\n: 1",
        "\ufeff\n" * 100_000,
        "a\u2028" * 100_000,
    ],
)
def test_long_lines(text: str) -> None:
    content = read(text)
    for document in content.documents:
        for _, node in document.root.items():
            node.position_at(len(node.text) // 2)


def test_long_scalars_give_many_positions() -> None:
    text = "a: >\n" + "  word\n" * 20_000 + 'b: "' + "\\x41" * 20_000 + '"\n'
    root = read_bytes(text.encode(), "f").documents[0].root
    start = time.process_time()
    for key in "ab":
        node = root.get(key)
        assert node is not None
        for offset in range(0, len(node.text), 5):
            node.position_at(offset)
    assert time.process_time() - start < 2


def test_too_many_nodes() -> None:
    content = read("---\nkind: A\n---\n[" + "a," * 500_000 + "]\n---\nkind: B\n", seconds=3)
    assert [p.message for p in content.problems] == ["not read from here on: more than 400,000 nodes"]
    assert [d.kind for d in content.documents] == ["A"]
