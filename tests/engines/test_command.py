"""How ``command`` and ``args`` become command lines."""

from __future__ import annotations

from typing import Any

import pytest

from planner.engines.command import command_lines
from planner.engines.variables import Variables, expand_references
from planner.engines.wrappers import program_in, shell_call
from tests.engines.containers import container, container_of, words_of


def line_of(*args: Any, **more: Any) -> Any:
    return command_lines(container(*args, **more))[0]


def test_command_and_args_are_joined() -> None:
    line = line_of(["vllm", "serve"], ["m", "--tp", "2"])
    assert [word.text for word in line.words] == ["vllm", "serve", "m", "--tp", "2"]
    assert {word.source for word in line.words} == {"command", "args"}
    assert not line.shell
    assert line.unexpanded == ()


def test_arguments_of_the_entrypoint() -> None:
    assert words_of(container(None, ["--model", "m"])) == [["--model", "m"]]
    assert words_of(container(None, None)) == [[]]


def test_kubelet_references() -> None:
    line = line_of(None, ["--model=$(MODEL)", "$(TP)", "$$(TP)", "$(", "a$"], env={"MODEL": "org/m", "TP": "2"})
    assert [(word.text, word.known, word.source) for word in line.words] == [
        ("--model=org/m", True, "args"),
        ("2", True, "env:TP"),
        ("$(TP)", True, "args"),
        ("$(", True, "args"),
        ("a$", True, "args"),
    ]
    assert line.unexpanded == ()


def test_reference_to_a_secret_is_unknown_and_no_mistake() -> None:
    line = line_of(None, ["--api-key=$(KEY)"], env={"KEY": None})
    assert (line.words[0].text, line.words[0].known) == ("--api-key=$(KEY)", False)
    assert "Secret" in line.words[0].reason
    assert line.unexpanded == ()


def test_undefined_reference_stays_as_written() -> None:
    line = line_of(None, ["--model=$(NOPE)"])
    (word, variable, reason) = line.unexpanded[0]
    assert (word.text, word.known, variable) == ("--model=$(NOPE)", False, "NOPE")
    assert "stays as it is written" in reason


def test_undefined_reference_may_come_from_a_source_that_was_not_read() -> None:
    box = container(None, ["--model=$(NOPE)"], envFrom=[{"configMapRef": {"name": "elsewhere"}}])
    line = command_lines(box)[0]
    assert not line.words[0].known
    assert "elsewhere" in line.words[0].reason
    assert line.unexpanded == ()


@pytest.mark.parametrize("name", ["LWS_LEADER_ADDRESS", "REDIS_SERVICE_HOST", "JOB_COMPLETION_INDEX"])
def test_variables_that_kubernetes_sets(name: str) -> None:
    line = line_of(["vllm", "serve", f"--x=$({name})"])
    assert not line.words[2].known
    assert line.unexpanded == ()


@pytest.mark.parametrize(
    ("text", "env", "variable"),
    [
        ("--tp=$TP", {"TP": "2"}, "TP"),
        ("--tp=${TP}", {"TP": "2"}, "TP"),
        ("--tp=${TP:-1}", {}, "TP"),
        ("$TP", {}, "TP"),
        ("--n=$(nvidia-smi -L | wc -l)", {}, "nvidia-smi -L | wc -l"),
        # no variables
        ('{"$ref": "x", "p": "$5"}', {}, None),
        ("^a$", {}, None),
        ("--x=${vLLM.x}", {}, None),
        ("--x=$$(TP)", {"TP": "2"}, None),
    ],
)
def test_references_that_only_a_shell_expands(text: str, env: dict[str, str | None], variable: str | None) -> None:
    line = line_of(["vllm", "serve", text], env=env)
    assert [found for _, found, _ in line.unexpanded] == ([variable] if variable else [])
    if variable:
        assert not line.words[2].known


def test_braces_in_a_file_that_another_tool_fills_in_are_placeholders() -> None:
    line = line_of(None, ["--tp=${TP}"], image="${REGISTRY}/vllm:${TAG}")
    assert line.unexpanded == ()


@pytest.mark.parametrize(
    "text", ["--model=<MODEL>", "__MODEL__", "REPLACE_ME", "--x={{ .Name }}", "${a.b}", "YOUR_MODEL"]
)
def test_placeholders_are_unknown(text: str) -> None:
    word = line_of(None, [text]).words[0]
    assert (word.text, word.known) == (text, False)
    assert "placeholder" in word.reason


@pytest.mark.parametrize(
    "text", ['{"start": "<think>"}', "--chat-template={% for m in messages %}{{ m }}{% endfor %}", "a__b__c", "<s>"[:1]]
)
def test_what_only_looks_like_a_placeholder(text: str) -> None:
    assert line_of(None, [text]).words[0].known


@pytest.mark.parametrize(
    ("command", "args", "words"),
    [
        (["vllm serve org/m --x 'a b'"], None, ["vllm", "serve", "org/m", "--x", "a b"]),
        (["python3 -m vllm.x --model m"], None, ["python3", "-m", "vllm.x", "--model", "m"]),
        (None, ["--model m --max-model-len 8192"], ["--model", "m", "--max-model-len", "8192"]),
        (None, ["--model=m --max-model-len=8192"], ["--model=m", "--max-model-len=8192"]),
        (["vllm", "serve"], ["m", "--x 1"], ["vllm", "serve", "m", "--x", "1"]),
        (["vllm", "serve"], ["m --x 1"], ["vllm", "serve", "m", "--x", "1"]),
        (None, ["--model m\n--x 1\n"], ["--model", "m", "--x", "1"]),
    ],
)  # fmt: skip
def test_whole_command_line_in_one_element(command: list[str] | None, args: list[str] | None, words: list[str]) -> None:
    line = line_of(command, args)
    assert [word.text for word in line.words] == words
    assert line.whole_in_one is not None
    assert line.whole_in_one.text in (command or []) + (args or [])


@pytest.mark.parametrize(
    "args",
    [
        ["--served-model-name", "a b --c"],
        ["--chat-template={{ a }} --b"],
        ['--x={"a": 1, "b": "--c d"}'],
        ["--x", '{"a": 1}'],
        ["/models/my model"],
    ],
)
def test_values_with_blanks_are_no_command_lines(args: list[str]) -> None:
    line = line_of(None, args)
    assert line.whole_in_one is None
    assert [word.text for word in line.words] == args


def test_element_with_a_shell_in_it() -> None:
    line = line_of(["sh -c 'vllm serve m --x 1'"])
    assert [word.text for word in line.words] == ["vllm", "serve", "m", "--x", "1"]
    assert line.shell
    assert line.whole_in_one is not None


@pytest.mark.parametrize(
    "words",
    [
        ["sh", "-c", "vllm serve m"],
        ["/bin/bash", "-lc", "vllm serve m"],
        ["bash", "-euo", "pipefail", "-c", "vllm serve m"],
        ["/usr/bin/env", "bash", "-c", "vllm serve m"],
        ["tini", "-g", "--", "bash", "-c", "exec vllm serve m"],
        ["/usr/bin/dumb-init", "--", "vllm", "serve", "m"],
        ["numactl", "--cpunodebind=0", "--membind=0", "vllm", "serve", "m"],
        ["timeout", "-k", "5", "10", "vllm", "serve", "m"],
        ["nohup", "env", "-u", "A", "B=1", "vllm", "serve", "m"],
        ["uv", "run", "--with", "vllm", "vllm", "serve", "m"],
        ["nice", "-n", "5", "sudo", "-E", "-u", "me", "vllm", "serve", "m"],
        ["mpirun", "-n", "8", "--mca", "a", "b", "vllm", "serve", "m"],
        ["bash", "-c", 'exec "$@"', "zero", "vllm", "serve", "m"],
        ["sh", "-c", "sh -c \"bash -c 'vllm serve m'\""],
        ["su", "-", "me", "-c", "vllm serve m"],
        ["busybox", "sh", "-c", "vllm serve m"],
    ],
)
def test_programs_that_start_another(words: list[str]) -> None:
    assert words_of(container(words)) == [["vllm", "serve", "m"]]


def test_wrapper_without_a_program() -> None:
    assert program_in(["env", "A=1"]).start == 2
    assert program_in(["exec"]).start == 1
    assert program_in(["command", "-v", "vllm"]).start == 3
    assert shell_call([]) is None
    assert words_of(container(["timeout"])) == []


def test_kubelet_expands_inside_scripts_and_undefined_names_become_commands() -> None:
    line = line_of(["sh", "-c", "vllm serve $(MODEL) $(NOPE) $(nproc)"], env={"MODEL": "org/m"})
    assert [(word.text, word.known) for word in line.words[2:]] == [
        ("org/m", True),
        ("$(NOPE)", False),
        ("$(nproc)", False),
    ]
    assert [variable for _, variable, _ in line.unexpanded] == ["NOPE"]


def test_quotes_that_keep_the_shell_from_expanding() -> None:
    line = line_of(["sh", "-c", 'vllm serve m --x \'{"m": "$MODEL"}\''], env={"MODEL": "org/m"})
    assert [variable for _, variable, _ in line.unexpanded] == ["MODEL"]


def test_flux_escapes() -> None:
    assert words_of(container(["sh", "-c", "vllm serve $${MODEL} $$TP"], env={"MODEL": "m", "TP": "2"})) == [
        ["vllm", "serve", "m", "2"]
    ]


def test_mounted_script_and_its_arguments() -> None:
    manifest = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: scripts}
data:
  start.sh: |
    #!/bin/bash
    exec vllm serve "$MODEL" "$@"
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: engine
    image: vllm/vllm-openai:v0.11.0
    command: [COMMAND]
    args: [--tp, "2"]
    env: [{name: MODEL, value: org/m}]
    volumeMounts: [{name: s, mountPath: /scripts}]
  volumes: [{name: s, configMap: {name: scripts}}]
"""
    for command in ("/scripts/start.sh", "bash, /scripts/start.sh", "sh, -c, 'cd /scripts && ./start.sh --tp 2'"):
        box = container_of(manifest.replace("COMMAND", command))
        if "cd " in command:
            continue  # the working directory of a script is not followed
        assert words_of(box) == [["vllm", "serve", "org/m", "--tp", "2"]]
        word = command_lines(box)[0].words[1]
        assert word.position is not None
        assert (word.text, word.position.line) == ("serve", 7)


def test_expansion_takes_linear_time() -> None:
    box = container(["x"])
    text = "$(" * 200_000 + ")"
    assert "".join(piece.text for piece in expand_references(text, box.node, "args", Variables(box))) == text
