"""Random layouts: after an edit every line but those of the flag is byte for byte the same, and every object elsewhere too."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.suggest.editing import changed_lines, manifests, remove_flag, set_flag

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
FLAGS = {
    "--port": "8000",
    "--max-model-len": "8192",
    "--served-model-name": "llama: the 3rd",
    "--gpu-memory-utilization": "0.9",
    "--max-num-batched-tokens": "4096",
    "--enforce-eager": None,
    "--chat-template": "it's {{ x }} # no comment",
}
COMMENTS = ("", "  # a comment", "\t# after a tab", "  # --max-num-seqs=1")


@st.composite
def layouts(draw: st.DrawFn) -> tuple[str, bool]:
    """(a manifest, whether it has --max-num-seqs)."""
    names = draw(st.lists(st.sampled_from(sorted(FLAGS)), unique=True, max_size=5))
    words: list[list[str]] = [
        ["--model", MODEL],
        *([name] if FLAGS[name] is None else [name, str(FLAGS[name])] for name in names),
    ]
    present = draw(st.booleans())
    if present:
        words.insert(draw(st.integers(0, len(words))), ["--max-num-seqs", "128"])
    joined = draw(st.booleans())
    items = [item for pair in words for item in (["=".join(pair)] if joined else pair)]
    quote = draw(st.sampled_from(("'", '"')))
    plain = draw(st.booleans())
    margin = " " * draw(st.integers(10, 14))
    end = draw(st.sampled_from(("\n", "\r\n")))

    def scalar(text: str) -> str:
        if (
            plain
            and text.replace("-", "").replace("=", "").replace("/", "").replace(".", "").isalnum()
            and not text[0].isdigit()
        ):
            return text
        return "'" + text.replace("'", "''") + "'" if quote == "'" else '"' + text.replace('"', '\\"') + '"'

    style = draw(st.sampled_from(("block", "flow", "lines")))
    if style == "block":
        gap = " " * draw(st.integers(1, 3))
        lines = [f"{margin}-{gap}{scalar(item)}{draw(st.sampled_from(COMMENTS))}" for item in items]
        if draw(st.booleans()):
            lines.insert(draw(st.integers(1, len(lines))), f"{margin}# in between")
        arguments = ["          args:", *lines]
    elif style == "flow":
        arguments = [f"          args: [{', '.join(map(scalar, items))}]{draw(st.sampled_from(COMMENTS))}"]
    else:
        comma = "," if draw(st.booleans()) else ""
        inner = [f"{margin}{scalar(item)}," for item in items]
        inner[-1] = inner[-1][:-1] + comma
        arguments = ["          args: [", *inner, "          ]"]
    before = draw(st.sampled_from(((), ('          env: [{name: A,   value: "1"}]',), ("          # nothing",))))
    after = draw(
        st.sampled_from(
            ((), ("          ports: [{containerPort: 8000}]   # http",), ("", "      restartPolicy: Always"))
        )
    )
    lines = [
        draw(st.sampled_from(("# head", "---", "%YAML 1.1\n---".replace("\n", end)))),
        "apiVersion: apps/v1", "kind: Deployment", "metadata: {name:   'llm'}", "spec:", "  template:", "    spec:",
        "      containers:", "        - name: vllm", "          image: vllm/vllm-openai:v0.24.0", *before, *arguments, *after,
    ]  # fmt: skip
    if draw(st.booleans()):
        lines += ["---", "kind: ConfigMap", "apiVersion: v1", "metadata: {name: c}", 'data: {a:   "\\u00e9", b: yes}']
    return end.join(lines) + (end if draw(st.booleans()) else ""), present


@st.composite
def scripts(draw: st.DrawFn) -> tuple[str, bool]:
    """(a manifest whose engine is started by a shell script, whether it has --max-num-seqs)."""
    names = draw(
        st.lists(
            st.sampled_from(sorted(set(FLAGS) - {"--chat-template", "--served-model-name"})), unique=True, max_size=4
        )
    )
    joiner = draw(st.sampled_from(("=", " ", "  ")))
    words = [name if FLAGS[name] is None else f"{name}{joiner}{FLAGS[name]}" for name in names]
    present = draw(st.booleans())
    if present:
        quote = draw(st.sampled_from(("", '"', "'")))
        words.insert(draw(st.integers(0, len(words))), f"--max-num-seqs{joiner}{quote}128{quote}")
    style = draw(st.sampled_from(("|", "|-", ">", ">-", "line", "quoted")))
    before = draw(st.sampled_from(((), ("set -e",), ("export HF_HOME=/cache  # 128", "echo 128"))))
    command = f"{draw(st.sampled_from(('exec ', '')))}vllm serve {MODEL}"
    after = draw(st.sampled_from(("", " 2>&1", " || sleep 128")))
    margin = " " * draw(st.integers(12, 15))
    if style in ("|", "|-"):
        rows = [command, *("  " + word for word in words)]
        lines = [*before, *(row + " \\" for row in rows[:-1]), rows[-1] + after]
    elif style in (">", ">-"):
        lines = [command, *words[:-1], (words[-1] if words else "") + after] if words else [command + after]
    else:
        lines = ["; ".join((*(line.partition("  #")[0] for line in before), " ".join((command, *words)) + after))]
    if style in ("line", "quoted"):
        text = lines[0] if style == "line" else '"' + lines[0].replace('"', '\\"') + '"'
        if style == "line" and (": " in text or " #" in text):
            text = "'" + text.replace("'", "''") + "'"
        body = [f"            - {text}"]
    else:
        body = [f"            - {style}", *(margin + "  " + line for line in lines)]
    end = draw(st.sampled_from(("\n", "\r\n")))
    rows = [
        "apiVersion: apps/v1", "kind: Deployment", "metadata: {name: llm}", "spec:", "  template:", "    spec:",
        "      containers:", "        - name: vllm", "          image: vllm/vllm-openai:v0.24.0", "          command: [bash, -c]",
        "          args:", *body, *draw(st.sampled_from(((), ("          # the end", "          ports: []")))),
    ]  # fmt: skip
    return end.join(rows) + end, present


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(scripts(), st.sampled_from(("1", "16", "1024")))
def test_a_script_changes_only_where_the_flag_stands(script: tuple[str, bool], value: str) -> None:
    text, present = script
    found = manifests(text)
    assert set_flag(found, "max-num-seqs", value) == ""
    after = found.texts["a.yaml"]
    old, new = arguments(objects(text))[0], arguments(objects(after))[0]
    gone, added = changed_lines(text, after)
    if present:
        assert len(gone) == len(added) == 1
        mark = old.index("--max-num-seqs") + len("--max-num-seqs")
        assert new == old[:mark] + old[mark:].replace("128", value, 1)
    else:
        assert (len(gone), len(added)) in ((0, 1), (1, 1))
        words = [word for word in new.split() if word != "\\"]
        place = next(number for number, word in enumerate(words) if word.startswith("--max-num-seqs"))
        width = 1 if "=" in words[place] else 2
        assert words[place : place + width] in ([f"--max-num-seqs={value}"], ["--max-num-seqs", value])
        assert words[:place] + words[place + width :] == [word for word in old.split() if word != "\\"]
    assert without_arguments(objects(after)) == without_arguments(objects(text))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(scripts())
def test_a_flag_comes_out_of_a_script_and_leaves_a_whole_command(script: tuple[str, bool]) -> None:
    text, present = script
    found = manifests(text)
    if not present:
        assert set_flag(found, "max-num-seqs", "16") == ""
    flags = dict(found.plans()[next(iter(found.plans()))][0].engine.flags)
    assert remove_flag(found, "max-num-seqs") == ""
    after = found.plans()[next(iter(found.plans()))][0].engine.flags
    assert {name: flag.raw for name, flag in after.items()} == {
        name: flag.raw for name, flag in flags.items() if name != "max-num-seqs"
    }
    assert "\\\n\n" not in arguments(objects(found.texts["a.yaml"]))[0].replace(" ", "")


def objects(text: str) -> list[Any]:
    return list(yaml.load_all(text, yaml.CSafeLoader))


def arguments(documents: list[Any]) -> list[str]:
    found: list[str] = documents[0]["spec"]["template"]["spec"]["containers"][0]["args"]
    return found


def without_arguments(documents: list[Any]) -> list[Any]:
    documents[0]["spec"]["template"]["spec"]["containers"][0]["args"] = None
    return documents


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(layouts(), st.sampled_from(("1", "16", "1024")))
def test_setting_a_flag_changes_only_its_lines(layout: tuple[str, bool], value: str) -> None:
    text, present = layout
    found = manifests(text)
    assert set_flag(found, "max-num-seqs", value) == ""
    after = found.texts["a.yaml"]
    words = " ".join(arguments(objects(after))).replace("=", " ").split()
    assert words[words.index("--max-num-seqs") + 1] == value
    gone, added = changed_lines(text, after)
    if present:
        assert len(gone) == len(added) == 1
        assert gone[0].replace("128", value, 1) == added[0] or gone[0].replace("128", value) == added[0]
    else:
        assert len(gone) <= 1  # the line of a flow list, or one that gets a comma or a line break
        assert len(added) <= 3
    if not present:
        kept = [word for word in arguments(objects(after)) if "max-num-seqs" not in word]
        kept = [word for word in kept if word != value] if value not in arguments(objects(text)) else kept
        assert kept[: len(arguments(objects(text)))] == arguments(objects(text))
    assert without_arguments(objects(after)) == without_arguments(objects(text))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(layouts())
def test_what_was_added_can_be_taken_out_again(layout: tuple[str, bool]) -> None:
    text, present = layout
    found = manifests(text)
    if present:
        before = arguments(objects(text))
        assert remove_flag(found, "max-num-seqs") == ""
        place = next(number for number, word in enumerate(before) if word.startswith("--max-num-seqs"))
        width = 1 if "=" in before[place] else 2
        assert arguments(objects(found.texts["a.yaml"])) == before[:place] + before[place + width :]
    else:
        assert set_flag(found, "max-num-seqs", "16") == ""
        assert remove_flag(found, "max-num-seqs") == ""
        assert found.texts["a.yaml"] == text
