"""Properties of reading: places are right in any style of writing, and nothing that is thrown at it raises."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from planner.documents.document import FileContent
from planner.documents.node import Node
from planner.documents.read import may_hold_workload, read_bytes
from planner.documents.source import split_lines

DEV = Path(__file__).resolve().parents[2].parent / "shared" / "corpus" / "manifests" / "dev"

WORDS = st.text(st.sampled_from("ab-: #'\"\\{}[]$&*!|>%@,\n\t é😀\u2028"), max_size=30)
LINES = st.lists(st.text(st.sampled_from("ab \\-:'\"#é"), max_size=12), max_size=8).map("\n".join)
TREES: st.SearchStrategy[Any] = st.recursive(
    WORDS | LINES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.just("a"), inner, max_size=4),
    max_leaves=15,
)


def scalars(node: Node) -> Iterator[Node]:
    if node.kind == "scalar":
        yield node
    for item in node:
        yield from scalars(item)
    for key, value in node.items():
        name = node.key_node(key)
        assert name is not None
        assert value.key_position == name.position
        yield name
        yield from scalars(value)


def texts(node: Node) -> Any:
    if node.kind == "sequence":
        return [texts(item) for item in node]
    if node.kind == "mapping":
        return {key: texts(value) for key, value in node.items()}
    return node.text


def char_at(lines: list[str], line: int, column: int) -> str:
    return (lines[line - 1] + "\n")[column - 1]


def check_places(text: str, content: FileContent) -> None:
    lines = split_lines(text) + [""]
    for document in content.documents:
        for node in scalars(document.root):
            first = char_at(lines, node.position.line, node.position.column)
            assert first == node.style or (not node.style and first == node.text[:1])
            assert node.position.line <= node.position.end_line
            for offset, char in enumerate(node.text):
                if char.isspace():
                    continue
                _, line, column, _ = node.position_at(offset)
                found = char_at(lines, line, column)
                assert found == char or (found == "\\" and node.style == '"')
                assert node.position.line <= line <= node.position.end_line


@settings(max_examples=60, deadline=None)
@given(
    TREES.filter(lambda tree: tree not in ("", None)),
    st.sampled_from(["", "'", '"', "|", ">"]),
    st.sampled_from([None, True, False]),
    st.sampled_from([8, 20, 80]),
    st.booleans(),
    st.sampled_from([2, 4]),
    st.sampled_from(["", "# é\n---\n", "a: b: c\n---\n", "\r\n"]),
)
def test_places_in_every_style(
    tree: Any, style: str, flow: bool | None, width: int, unicode: bool, indent: int, before: str
) -> None:
    dumped = yaml.safe_dump(
        tree,
        default_style=style or None,
        default_flow_style=flow,
        width=width,
        allow_unicode=unicode,
        indent=indent,
        sort_keys=False,
    )
    try:
        assume(yaml.load(dumped, yaml.CBaseLoader) == tree)  # PyYAML cannot read all that it writes
    except yaml.YAMLError:
        assume(False)
    text = before + dumped
    content = read_bytes(text.encode(), "f")
    assume(not content.notices)
    assert len(content.documents) == 1, content.problems
    assert texts(content.documents[0].root) == tree
    check_places(text, content)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.text(st.sampled_from("ab -#:'\\"), max_size=8)), min_size=1, max_size=9),
    st.sampled_from(["|", ">", "|-", ">-", "|+", ">+", "|2", ">2-"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_places_in_block_scalars(lines: list[tuple[int, str]], header: str, newline: str) -> None:
    body = [" " * (2 + indent) + line for indent, line in lines]
    text = newline.join(["kind: x", f"a: {header}", *body, "b: end", ""])
    content = read_bytes(text.encode(), "f")
    if content.problems:  # leading blank lines that are indented deeper than the text
        return
    assert content.documents[0].root.string("b") == "end"
    check_places(text, content)


CHARACTERS = st.characters(exclude_characters="\x7f", exclude_categories=["Cs"])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(CHARACTERS, max_size=20),
    # YAML takes keys of up to 1,024 characters, written out
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(CHARACTERS, max_size=20), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from("abc"), JSON, min_size=1), st.sampled_from([None, 2, "\t"]))
def test_json_is_read_as_json(data: Any, indent: int | str | None) -> None:
    content = read_bytes(json.dumps(data, indent=indent).encode(), "f")
    assert content.problems == ()
    assert content.documents[0].root.plain() == data


def walk(content: FileContent) -> None:
    """Everything a caller can ask."""
    for document in content.documents:
        assert isinstance(document.kind + document.api_version + document.name + document.namespace, str)
        document.root.plain()
        for node in scalars(document.root):
            assert node.position.line >= 1
            assert node.position.column >= 1
            node.position_at(len(node.text) // 2)
            assert isinstance(node.path, str)
    for comment in (comment for document in content.documents for comment in document.comments):
        assert 1 <= comment.position.line <= comment.covers <= comment.covers_end <= len(content.lines)
    for problem in content.problems:
        assert problem.message
        assert 1 <= problem.position.line <= len(content.lines) + 1


def read(data: bytes) -> None:
    start = time.perf_counter()
    content = read_bytes(data, "f")
    may_hold_workload(data)
    if content.lines:
        walk(content)
    assert time.perf_counter() - start < 2


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    read(data)


TOKENS = st.sampled_from(
    [
        *(
            "- ",
            "? ",
            ": ",
            "\n",
            "\n  ",
            "\n    ",
            " ",
            "\t",
            "[",
            "]",
            "{",
            "}",
            ",",
            "&a ",
            "*a",
            "*a ",
            "&b ",
            "*b",
        ),
        *(
            "!!str ",
            "!x ",
            "'",
            '"',
            "|\n",
            ">-\n",
            "# planner: ignore[x] y\n",
            "---\n",
            "...\n",
            "%YAML 1.1\n",
            "a",
            "b: ",
        ),
        *(
            "<<: ",
            "<<<<<<< HEAD\n",
            "{{ .Values.x }}",
            "{{",
            "}}",
            "{%",
            "%}",
            "\\",
            "\r",
            "\u2028",
            "\ufeff",
            "\x07",
            "null",
        ),
        *(
            "kind: List\n",
            "items:\n",
            "apiVersion: v1\n",
            "args:\n",
            "- |\n",
            "vllm serve x \\\n",
            "~",
            "0x1f",
            "😀",
            "\\ud83d",
        ),
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(TOKENS, max_size=40).map("".join))
def test_any_tokens(text: str) -> None:
    read(text.encode())


@pytest.mark.skipif(not DEV.is_dir(), reason="the corpus is not beside the project")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_mutated_manifests(data: st.DataObject) -> None:
    files = sorted(DEV.iterdir())
    text = bytearray(data.draw(st.sampled_from(files)).read_bytes()[:6000])
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text)))
        if data.draw(st.booleans()):
            text[at:at] = data.draw(TOKENS).encode()
        else:
            del text[at : at + data.draw(st.integers(1, 40))]
    read(bytes(text))
