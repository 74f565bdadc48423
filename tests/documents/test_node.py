"""Looking things up in a document, and where they stand."""

from __future__ import annotations

import pytest

from planner.documents.node import Node
from planner.documents.read import read_bytes

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: llm
  labels: {app: llm, "planner/x": y}
spec:
  replicas: 2
  template:
    spec:
      containers:
        - name: vllm
          args: ["--model", 'a b']
          tty: yes
          command:
          - sh
          - |
            vllm serve x \\
              --port 80

        -
          name: &side sidecar
          env: ~
  other: *side
"""


def root(text: str = MANIFEST) -> Node:
    content = read_bytes(text.encode(), "f.yaml")
    assert content.problems == ()
    return content.documents[0].root


def place(node: Node | None) -> tuple[int, int]:
    assert node is not None
    return node.position.line, node.position.column


def test_lookup() -> None:
    node = root()
    assert node.string("spec", "template", "spec", "containers", 0, "name") == "vllm"
    assert node.string("spec", "template", "spec", "containers", -1, "name") == "sidecar"
    assert node.integer("spec", "replicas") == 2
    assert node.string("spec", "replicas") == "2"
    assert node.boolean("spec", "template", "spec", "containers", 0, "tty") is True
    assert node.integer("metadata", "name") is None
    assert node.boolean("spec", "replicas") is None
    assert node.string("metadata") is None


@pytest.mark.parametrize(
    "keys",
    [
        ("nothing",),
        ("kind", "nothing"),
        ("spec", 0),
        ("spec", "template", "spec", "containers", 2),
        ("spec", "template", "spec", "containers", -3),
        ("spec", "template", "spec", "containers", "name"),
        ("spec", "template", "spec", "containers", True),
        ("spec", "template", "spec", "containers", 1, "env"),
        ("kind", 0),
    ],
)
def test_absent_or_of_another_type_is_none(keys: tuple[str | int, ...]) -> None:
    node = root()
    assert node.get(*keys) is None
    assert node.string(*keys) is None
    assert node.integer(*keys) is None
    assert node.boolean(*keys) is None


def test_positions() -> None:
    node = root()
    containers = node.get("spec", "template", "spec", "containers")
    assert place(node) == (1, 1)
    assert place(containers) == (11, 9)
    assert containers is not None
    assert place(containers.get(0)) == (11, 11)
    assert place(containers.get(0, "args", 1)) == (12, 29)
    assert place(containers.get(0, "command", 1)) == (16, 13)
    # behind the anchor, and where the anchor is for the alias
    assert place(containers.get(1, "name")) == (21, 23)
    assert place(node.get("spec", "other")) == (21, 23)
    assert str(containers.position) == "f.yaml:11:9"


def test_key_positions() -> None:
    node = root()
    name = node.get("metadata", "name")
    other = node.get("spec", "other")
    item = node.get("spec", "template", "spec", "containers", 0)
    assert name is not None
    assert other is not None
    assert item is not None
    assert name.key_position[1:3] == (4, 3)
    assert other.key_position[1:3] == (23, 3)
    assert item.key_position == item.position
    assert place(node.key_node("metadata")) == (3, 1)
    assert node.key_node("nothing") is None
    assert {key: value.key_position.line for key, value in node.items()} == {
        "apiVersion": 1,
        "kind": 2,
        "metadata": 3,
        "spec": 6,
    }


def test_end_lines() -> None:
    node = root()
    containers = node.get("spec", "template", "spec", "containers")
    assert containers is not None
    lines = {item.path: item.position.end_line for item in containers}
    assert lines == {"spec.template.spec.containers[0]": 18, "spec.template.spec.containers[1]": 22}
    assert node.position.end_line == 23
    labels = root("a: {b: 1,\n  c: 2\n}\n\nd: 1\n").get("a")
    assert labels is not None
    assert labels.position.end_line == 3
    node = root("a:\n- &x {b: 1}\n- - *x\n\n  # c\n- *x\n\nb: |\n  x\n\n\nc:\n\n")
    assert [value.position.end_line for _, value in node.items()] == [6, 9, 12]


def test_paths() -> None:
    node = root()
    tail = node.get("spec", "template")
    assert tail is not None
    inner = tail.get("spec", "containers", 0, "args", 1)
    assert inner is not None
    assert inner.path == "spec.template.spec.containers[0].args[1]"
    label = node.get("metadata", "labels", "planner/x")
    assert label is not None
    assert label.path == 'metadata.labels["planner/x"]'
    assert node.path == ""


def test_kinds_and_spelling() -> None:
    node = root("a: 0x10\nb: '0x10'\nc: ~\nd: [1]\ne: {}\nf: !!str 5\n")
    kinds = {key: value.kind for key, value in node.items()}
    assert kinds == {
        "a": "scalar",
        "b": "scalar",
        "c": "null",
        "d": "sequence",
        "e": "mapping",
        "f": "scalar",
    }
    assert {key: value.text for key, value in node.items()} == {
        "a": "0x10",
        "b": "0x10",
        "c": "~",
        "d": "",
        "e": "",
        "f": "5",
    }
    assert [key for key, value in node.items() if value.quoted] == ["b", "f"]
    assert [value.style for _, value in node.items()] == ["", "'", "", "", "", ""]
    assert {key: value.value for key, value in node.items()} == {
        "a": 16,
        "b": "0x10",
        "c": None,
        "d": None,
        "e": None,
        "f": "5",
    }


def test_iteration_and_length() -> None:
    node = root("a: [1, ~, [2]]\nb: {c: 1, d: 2}\ne: x\n")
    a, b, e = node.get("a"), node.get("b"), node.get("e")
    assert a is not None
    assert b is not None
    assert e is not None
    assert [item.kind for item in a] == ["scalar", "null", "sequence"]
    assert list(b) == []
    assert list(e.items()) == []
    assert (len(a), len(b), len(e)) == (3, 2, 0)
    assert bool(e)
    assert a.get(0) == a.get(0)
    assert a.get(0) != a.get(2)
    assert len({a, node.get("a")}) == 1


def test_integers_as_kubernetes_takes_them() -> None:
    node = root("a: 8.0\nb: 1e3\nc: '8'\nd: true\ne: 8.5\nf: .inf\n")
    assert [node.integer(key) for key in "abcdef"] == [8, 1000, None, None, None, None]


def test_merge_keys() -> None:
    node = root(
        "base: &base {a: 1, b: 2}\nother: &other\n  b: 3\n  c: 4\n"
        "one:\n  <<: *base\n  a: 9\ntwo:\n  <<: [*other, *base]\nthree:\n  '<<': x\nfour:\n  <<: {q: 1}\n"
    )
    plain = node.plain()
    assert plain["one"] == {"a": 9, "b": 2}
    assert plain["two"] == {"b": 3, "c": 4, "a": 1}
    assert plain["three"] == {"<<": "x"}
    assert plain["four"] == {"q": 1}
    assert place(node.get("two", "a")) == (1, 17)
    one = node.get("one")
    assert one is not None
    assert one.position.end_line == 7


def test_an_anchor_may_be_defined_twice() -> None:
    assert root("a: &x 1\nb: *x\nc: &x 2\nd: *x\n").plain() == {"a": 1, "b": 1, "c": 2, "d": 2}


def test_keys_are_strings_as_in_json() -> None:
    assert root("8000: a\n1.5: b\ntrue: c\n&k key: d\nother: *k\n").plain() == {
        "8000": "a",
        "1.5": "b",
        "true": "c",
        "key": "d",
        "other": "key",
    }


def at(text: str, key: str, needle: str, count: int = 0) -> tuple[int, int]:
    node = root(text).get(key)
    assert node is not None
    offset = -1
    for _ in range(count + 1):
        offset = node.text.index(needle, offset + 1)
    return node.position_at(offset)[1:3]


def test_position_in_plain_and_quoted_scalars() -> None:
    assert at("a: x --port 80\n", "a", "--port") == (1, 6)
    assert at("a: 'x --port 80'\n", "a", "--port") == (1, 7)
    assert at("a: 'it''s --port'\n", "a", "--port") == (1, 11)
    assert at('a: "x \\u00e9 --port"\n', "a", "--port") == (1, 14)
    assert at("a: &anchor !!str 'x --port 80'\n", "a", "--port") == (1, 21)
    assert at("a: x\n  y\n\n\n  --port 80\n", "a", "--port") == (5, 3)
    assert at('a: "x\n  y \\\n\n     --port 80"\n', "a", "--port") == (4, 6)
    assert at('a: "x\\\n\n\n     --port 80"\n', "a", "--port") == (4, 6)
    assert at('a: "x\\n\\ \n  \\  --port 80"\n', "a", "--port") == (2, 6)
    assert at("a: 'x  \n\n\n  --port'\n", "a", "--port") == (4, 3)


def test_position_in_literal_scalars() -> None:
    text = "a: |2-\n\n     x\n   \n    --port 80 \\\n     --tp 2\n\nb: 1\n"
    assert at(text, "a", "x") == (3, 6)
    assert at(text, "a", "--port") == (5, 5)
    assert at(text, "a", "80") == (5, 12)
    assert at(text, "a", "--tp") == (6, 6)
    assert at("a: |\r\n  x\r\n  --port\r\n", "a", "--port") == (3, 3)


def test_position_in_folded_scalars() -> None:
    text = "a: >\n  vllm serve\n  --port 80\n\n    --more 1\n    --even 2\n\n\n  --tp 2\n"
    assert at(text, "a", "vllm") == (2, 3)
    assert at(text, "a", "serve") == (2, 8)
    assert at(text, "a", "--port") == (3, 3)
    assert at(text, "a", "--more") == (5, 5)
    assert at(text, "a", "--even") == (6, 5)
    assert at(text, "a", "--tp") == (9, 3)


def test_position_of_offsets_outside_the_text() -> None:
    node = root("a: abc\nb: [x]\nc: |\n  x\n").get("a")
    assert node is not None
    assert node.position_at(-5)[1:3] == (1, 4)
    assert node.position_at(99)[1:3] == (1, 7)
    other = root("a: abc\nb: [x]\n").get("b")
    assert other is not None
    assert other.position_at(7) == other.position


def test_unicode_line_separators_do_not_shift_lines() -> None:
    node = root("a: 'x\u2028y\u0085z'\nb: 1\nc: |\n  q\u2028  --port\n  r\n")
    assert place(node.get("b")) == (2, 4)
    c = node.get("c")
    assert c is not None
    assert c.position_at(c.text.index("--port"))[1:3] == (4, 7)
    assert c.position_at(c.text.rindex("r"))[1:3] == (5, 3)


def test_old_line_ends() -> None:
    node = root("a: 1\rb: 2\r\nc: 3\n")
    assert [place(node.get(key)) for key in "abc"] == [(1, 4), (2, 4), (3, 4)]
