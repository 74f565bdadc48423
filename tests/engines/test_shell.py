"""What shell scripts start. Expectations of `SCRIPTS` are compared with a real bash where there is one."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.engines.command import program_starts
from planner.engines.detect import detect
from planner.engines.shell_arithmetic import evaluate, glob_matches
from tests.engines.containers import container, container_of, started, words_of

ENV = {
    "MODEL": "org/model",
    "TP": "2",
    "EXTRA": "--a 1  --b=2",
    "EMPTY": "",
    "PATHY": "/models/x.y/z.tar.gz",
}

# script, arguments after it ($0 first), the words of each `vllm` that it starts
SCRIPTS: list[tuple[str, list[str], list[list[str]]]] = [
    ("vllm serve $MODEL --tp $TP", [], [["serve", "org/model", "--tp", "2"]]),
    ("vllm serve \\\n  org/m \\\n  --tp 2 # comment 'x\n", [], [["serve", "org/m", "--tp", "2"]]),
    ("vllm serve $EXTRA", [], [["serve", "--a", "1", "--b=2"]]),
    ('vllm serve "$EXTRA"', [], [["serve", "--a 1  --b=2"]]),
    ('vllm serve $EMPTY "$EMPTY" \'\'', [], [["serve", "", ""]]),
    ("vllm serve 'a $TP' \"b \\\"$TP\\\" \\$TP\" c\\ d $'e\\tf'", [], [["serve", "a $TP", 'b "2" $TP', "c d", "e\tf"]]),
    ("vllm serve --x='{\"m\": \"'\"$MODEL\"'\"}'", [], [["serve", '--x={"m": "org/model"}']]),
    ("export X=1 Y='2 3'; Z=$X; vllm serve $X $Y \"$Z\"", [], [["serve", "1", "2", "3", "1"]]),
    ("X=1 vllm serve $X", [], [["serve"]]),
    ("vllm serve ${NOPE:-a b} ${TP:-x} ${EMPTY:-d} ${EMPTY-d} \"${NOPE:-a b}\"", [], [["serve", "a", "b", "2", "d", "a b"]]),
    ('vllm serve ${TP:+--tp "$TP"} ${NOPE:+--x} ${NOPE:=y} $NOPE', [], [["serve", "--tp", "2", "y", "y"]]),
    ("vllm serve ${PATHY##*/} ${PATHY%.*} ${PATHY%%.*} ${PATHY#/models/} ${MODEL/o/0} ${MODEL//o/0}", [], [
        ["serve", "z.tar.gz", "/models/x.y/z.tar", "/models/x", "x.y/z.tar.gz", "0rg/model", "0rg/m0del"]]),
    ("vllm serve ${MODEL^^} ${#MODEL} ${PATHY:1:6} ${PATHY: -2}", [], [["serve", "ORG/MODEL", "9", "models", "gz"]]),
    ("vllm serve $((TP * 4 - 1)) $(( (TP+1) % 2 )) $((7/2)) $((-7/2)) $((0x10))", [], [["serve", "7", "1", "3", "-3", "16"]]),
    ('A=(--a "b c"); A+=(--d); vllm serve "${A[@]}" ${#A[@]} "${A[1]}" "${A[@]:1}"', [], [
        ["serve", "--a", "b c", "--d", "3", "b c", "b c", "--d"]]),
    ("A=(\n  --a  # why\n  1\n)\nexec vllm serve ${A[@]}\nvllm serve never", [], [["serve", "--a", "1"]]),
    ('set -- serve "$MODEL"; set -- "$@" --x; exec vllm "$@"', [], [["serve", "org/model", "--x"]]),
    ('vllm serve "$@" "$1" $# "$*"', ["zero", "a", "b c"], [["serve", "a", "b c", "a", "2", "a b c"]]),
    ('shift; vllm serve "$@"', ["zero", "a", "b"], [["serve", "b"]]),
    ('vllm serve "$@"', ["zero"], [["serve"]]),
    ("if [ -n \"$TP\" ]; then vllm serve yes; else vllm serve no; fi", [], [["serve", "yes"]]),
    ("if [[ $MODEL == org/* && $TP -gt 1 ]]; then vllm serve yes; fi", [], [["serve", "yes"]]),
    ("if test \"$TP\" = 3; then vllm serve a; elif [ ! -z \"$EMPTY\" ]; then vllm serve b; else vllm serve c; fi", [], [["serve", "c"]]),
    ("[ \"$TP\" -eq 2 ] && X=--two || X=--other; vllm serve $X", [], [["serve", "--two"]]),
    ("(( TP > 1 )) && vllm serve many", [], [["serve", "many"]]),
    ("case \"$TP\" in 1) vllm serve one;; 2|3) vllm serve few;; *) vllm serve many;; esac", [], [["serve", "few"]]),
    ("for i in 0 1; do vllm serve m --port 800$i & done; wait", [], [
        ["serve", "m", "--port", "8000"], ["serve", "m", "--port", "8001"]]),
    ("for i in {1..3}; do X=\"$X $i\"; done; vllm serve $X", [], [["serve", "1", "2", "3"]]),
    ('while [ $# -gt 0 ]; do case "$1" in --*) X="$X $1";; esac; shift; done; vllm serve $X', ["z", "--a", "b", "--c"], [
        ["serve", "--a", "--c"]]),
    ("run() { vllm serve \"$@\" --common; }\nrun a\nrun b c", [], [["serve", "a", "--common"], ["serve", "b", "c", "--common"]]),
    ("f() { return 0; vllm serve never; }; f; vllm serve m", [], [["serve", "m"]]),
    ("(X=1; vllm serve $X); vllm serve $X; { Y=2; }; vllm serve $Y", [], [["serve", "1"], ["serve"], ["serve", "2"]]),
    ("cat <<'EOF' >/dev/null\nvllm serve in heredoc $(\nEOF\nvllm serve after", [], [["serve", "after"]]),
    ("cat <<-EOF >/dev/null\n\tvllm serve no\n\tEOF\nvllm serve after", [], [["serve", "after"]]),
    ("bash <<EOF\nvllm serve $MODEL\nEOF", [], [["serve", "org/model"]]),
    ("sh -c 'vllm serve $1' zero $MODEL", [], [["serve", "org/model"]]),
    ("X=1; export Y=2; sh -c 'vllm serve \"$X\" \"$Y\"'", [], [["serve", "", "2"]]),
    ("CMD=\"vllm serve $MODEL\"; $CMD; eval \"$CMD --x 'a b'\"", [], [
        ["serve", "org/model"], ["serve", "org/model", "--x", "a b"]]),
    ("vllm serve $(echo \"$MODEL\") \"$(printf '%s' a)\" `echo b`", [], [["serve", "org/model", "a", "b"]]),
    ("set -e; exit 0; vllm serve never", [], []),
    ("true || vllm serve never; false && vllm serve never; vllm serve m 2>&1 | cat", [], [["serve", "m"]]),
    ("! false && vllm serve m > /dev/null 2>&1", [], [["serve", "m"]]),
    ("env A=1 B=2 vllm serve m; nohup vllm serve n; timeout 9 vllm serve o", [], [["serve", "m"], ["serve", "n"], ["serve", "o"]]),
    ("X=a; unset X; vllm serve ${X-unset}", [], [["serve", "unset"]]),
    ("N=MODEL; vllm serve ${!N}", [], [["serve", "org/model"]]),
    ("i=0; while [ $i -lt 3 ]; do i=$((i+1)); done; ((i++)); let i+=2; vllm serve $i", [], [["serve", "6"]]),
]  # fmt: skip


@pytest.mark.parametrize(("script", "arguments", "expected"), SCRIPTS, ids=[script[:40] for script, _, _ in SCRIPTS])
def test_script_starts(script: str, arguments: list[str], expected: list[list[str]]) -> None:
    found = [
        words[1:] for words in started(script.replace("`echo b`", "b"), *arguments, env=dict(ENV)) if words[0] == "vllm"
    ]
    assert found == expected


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash")
def test_expectations_are_bash_own(tmp_path: Path) -> None:
    """The table above is what bash itself does, with a `vllm` that writes its words down."""
    (tmp_path / "vllm").write_text('#!/bin/sh\nprintf \'%s\\000\' "$@" > "$(mktemp "$OUT/XXXXXX")"\n')
    (tmp_path / "vllm").chmod(0o755)
    for number, (script, arguments, expected) in enumerate(SCRIPTS):
        out = tmp_path / str(number)
        out.mkdir()
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "OUT": str(out), **ENV}
        command = ["bash", "-c", script, *arguments]
        subprocess.run(command, env=environment, capture_output=True, timeout=20, cwd=tmp_path, check=False)
        starts = [file.read_text().split("\0")[:-1] for file in out.iterdir()]
        assert sorted(starts) == sorted(expected), script


def test_unknown_condition_visits_both_branches() -> None:
    box = container(
        ["sh", "-c", 'if [ "$ROLE" = leader ]; then exec vllm serve a; else exec vllm serve b; fi'], env={"ROLE": None}
    )
    starts = program_starts(box).starts
    assert [start.texts for start in starts] == [["vllm", "serve", "a"], ["vllm", "serve", "b"]]
    assert [start.certain for start in starts] == [False, False]


def test_what_follows_an_uncertain_exec_is_uncertain() -> None:
    script = 'if [ "$ROLE" = leader ]; then exec vllm serve a; fi\nexec vllm serve b --headless'
    starts = program_starts(container(["sh", "-c", script], env={"ROLE": None})).starts
    assert [start.certain for start in starts] == [False, False]


def test_uncertain_exit_keeps_the_rest_certain() -> None:
    script = "if [ ! -f /models/config.json ]; then echo missing; exit 1; fi\nvllm serve /models"
    starts = program_starts(container(["sh", "-c", script])).starts
    assert [(start.texts, start.certain) for start in starts] == [(["vllm", "serve", "/models"], True)]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        # a value that both branches agree on stays known, another is unknown
        ('if [ -n "$S" ]; then X=1; Y=2; else X=1; Y=3; fi; vllm serve $X $Y', [["vllm", "serve", "1", "?$Y"]]),
        # what one branch appends may be there
        ('A=(--a); if [ -n "$S" ]; then A+=(--b c); fi; vllm serve "${A[@]}" --z', [["vllm", "serve", "--a", "?--b", "?c", "--z"]]),
        ('X=--a; if [ -n "$S" ]; then X="$X --b"; fi; vllm serve $X', [["vllm", "serve", "--a", "?--b"]]),
        ('set -- m; [ -n "$S" ] && set -- "$@" --api-key "$S"; vllm serve "$@"', [["vllm", "serve", "m", "?--api-key", "?$S"]]),
        # unknown words keep their spelling
        ("G=$(nvidia-smi -L | wc -l); vllm serve --tp $G", [["vllm", "serve", "--tp", "?$G"]]),
        ("vllm serve \"${S:-x}\" ${S:+--x y}", [["vllm", "serve", "?${S:-x}", "?${S:+--x y}"]]),
        ("vllm serve $((S + 1)) --n=$(nproc) `hostname`", [["vllm", "serve", "?$((S + 1))", "?--n=$(nproc)", "?`hostname`"]]),
        ("read M; vllm serve $M", [["vllm", "serve", "?$M"]]),
        # a list of unknown length
        ('for m in $S; do A+=(--lora "$m"); done; vllm serve x "${A[@]}"', [["vllm", "serve", "x", "?$A"]]),
        # a file that is not shown may set anything that nothing else sets
        (". /etc/config; vllm serve $NOPE", [["vllm", "serve", "?$NOPE"]]),
        ("vllm serve $HOME/m $LWS_X $A_SERVICE_HOST", [["vllm", "serve", "?$HOME/m", "?$LWS_X", "?$A_SERVICE_HOST"]]),
        # placeholders are one word
        ("vllm serve <MODEL> {{ .Name }} ${a.b}", [["vllm", "serve", "?<MODEL>", "?{{ .Name }}", "?${a.b}"]]),
        ("vllm serve m < /dev/null", [["vllm", "serve", "m"]]),
    ],
)  # fmt: skip
def test_unknown_stays_unknown(script: str, expected: list[list[str]]) -> None:
    assert started(script, env={"S": None}) == expected


def test_variable_that_nothing_sets_is_empty_in_an_engine_image_and_unknown_in_another() -> None:
    assert started("vllm serve m $NOPE") == [["vllm", "serve", "m"]]
    assert started("vllm serve m $NOPE", image="registry.example/own:1") == [["vllm", "serve", "m", "?$NOPE"]]


def test_written_script_is_run() -> None:
    script = "cat > /tmp/run.sh <<EOF\n#!/bin/sh\nexec vllm serve $MODEL\nEOF\nchmod +x /tmp/run.sh\n/tmp/run.sh"
    box = container(["sh", "-c", script], env=dict(ENV))
    assert words_of(box) == [["vllm", "serve", "org/model"]]
    assert set(program_starts(box).files) == {"/tmp/run.sh"}


def test_positions_in_block_scalars_variables_and_arguments() -> None:
    manifest = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: engine
    image: vllm/vllm-openai:v0.11.0
    command: [bash, -c]
    args:
    - |
      # start
      exec vllm serve "$MODEL" \\
        --max-model-len "${LEN:-4096}" \\
        $EXTRA "$@"
    - zero
    - --port=9
    env:
    - name: MODEL
      value: org/model
    - name: EXTRA
      value: "--dtype half"
"""
    start = detect(container_of(manifest)).engines[0]
    places = [
        (word.text, word.position.line, word.position.column, word.source)
        for word in start.command_line.words
        if word.position
    ]
    assert places == [
        ("org/model", 19, 14, "env:MODEL"),
        ("--max-model-len", 13, 9, "script"),
        ("4096", 13, 33, "script"),
        ("--dtype", 21, 15, "env:EXTRA"),
        ("half", 21, 23, "env:EXTRA"),
        ("--port=9", 16, 7, "args"),
    ]


def test_exported_variables_reach_the_start() -> None:
    box = container(["sh", "-c", "export VLLM_USE_V1=0\nOTHER=1 vllm serve m"])
    environment = {name: value.text for name, value in detect(box).engines[0].environment}
    assert environment == {"VLLM_USE_V1": "0", "OTHER": "1"}


def told(script: str, **env: str) -> tuple[dict[str, str | None], tuple[str, ...], str]:
    """What a start has: its variables (None: set, and not known to what), those taken away, and what may set others."""
    start = detect(container(["sh", "-c", script], env=env)).engines[0]
    environment = {name: value.text if value.known else None for name, value in start.environment}
    return environment, start.removed, start.sourced


@pytest.mark.parametrize(
    ("script", "environment"),
    [
        ("export A=$(cat /t) B=1\nvllm serve m", {"A": None, "B": "1"}),
        ("A=$(cat /t) vllm serve m", {"A": None}),
        ("env A=$(cat /t) B=1 vllm serve m", {"A": None, "B": "1"}),
        ("A=1\nvllm serve m", {}),
        ("A=1\nexport A\nvllm serve m", {"A": "1"}),
        ("read -r A < /t\nexport A\nvllm serve m", {"A": None}),
        ("set -a\nA=1\nset +a\nB=2\nvllm serve m", {"A": "1"}),
        ("set -euo pipefail -o allexport\nA=1\nvllm serve m", {"A": "1"}),
        ("set -o errexit\nA=1\nvllm serve m", {}),
        ("if [ -f /t ]; then export A=1; fi\nvllm serve m", {"A": None}),
        ("(export A=1)\nvllm serve m", {}),
        ("OUTER=2\nvllm serve m", {"OUTER": "2"}),
        ("cat > /s.sh <<'EOF'\nexport A=$(cat /t)\nexec vllm serve m\nEOF\nbash /s.sh", {"A": None}),
    ],
)
def test_what_a_start_finds_in_its_environment(script: str, environment: dict[str, str | None]) -> None:
    assert told(script, OUTER="1") == (environment, (), "")


@pytest.mark.parametrize(
    ("script", "sourced"),
    [
        ("source /vault/secrets/env\nvllm serve m", "/vault/secrets/env"),
        ("set -a; . /run/env; set +a\nvllm serve m", "/run/env"),
        ("eval $(vault read x)\nvllm serve m", "a command whose output the script evaluates"),
        ("export $(cat /run/env | xargs)\nvllm serve m", "what $(cat /run/env | xargs) stands for"),
        ("source /opt/venv/bin/activate\nvllm serve m", ""),
        ("source /run/env\nsource /opt/venv/bin/activate\nvllm serve m", "/run/env"),
        ("source /opt/venv/bin/activate\nsource /run/env\nvllm serve m", "/run/env"),
    ],
)
def test_what_may_set_variables_unseen(script: str, sourced: str) -> None:
    assert told(script)[2] == sourced


def test_a_start_without_a_variable_that_the_container_has() -> None:
    assert told("unset OUTER VLLM_PORT\nvllm serve m", OUTER="1") == ({}, ("OUTER", "VLLM_PORT"), "")
    assert told("unset OUTER\nOUTER=2 vllm serve m", OUTER="1") == ({"OUTER": "2"}, (), "")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("-(2 - 5) % 2", 1),
        ("a + b", None),
        ("10 / 0", None),
        ("1 <", None),
        ("1 2", None),
        (")", None),
        ("((((1))))", 1),
        ("08", None),
        ("9" * 18 + "*" + "9" * 18, None),
        ("2 > 1 && 1 != 2 || 0", 1),
    ],
)
def test_arithmetic(text: str, value: int | None) -> None:
    assert evaluate(text, {"a": 1}.get) == value


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [("org/*", "org/m", True), ("*a*b*", "xxaxxb", True), ("a?c", "ac", False), ("[ab]", "a", None), ("", "", True)],
)
def test_glob(pattern: str, text: str, expected: bool | None) -> None:
    assert glob_matches(pattern, text) is expected


_SHELL_SIGNS = (
    '$( ${ ) } (( )) " \' ` \\ ; ;; && || | & < > $ $@ "$@" ${A[@]} A=( A+=( x = [ ] [[ ]] { # $1 ${A:- ${A% $(( 1+ $\''
)
_SHELL_WORDS = (
    "if then else fi do done case esac in for while vllm serve exec eval set -- shift f() f sh -c '...' bash source"
)
_OTHER_WORDS = "{{ }} <model> unset export read cat > /x <<EOF EOF local ! -n -eq * ? true \x00 \ufffc é"
TOKENS = ("\n", *_SHELL_SIGNS.split(" "), *_SHELL_WORDS.split(" "), *_OTHER_WORDS.split(" "))


@given(st.lists(st.sampled_from(TOKENS), max_size=60), st.sampled_from([" ", ""]))
@settings(max_examples=150, deadline=2000)
def test_no_script_breaks_the_reader(tokens: list[str], space: str) -> None:
    script = space.join(tokens)
    for box in (
        container(["sh", "-c", script, "zero", "a"], env={"A": "1 2", "S": None}),
        container([script], [script]),
    ):
        for start in program_starts(box).starts:
            assert all(isinstance(text, str) for text in start.texts)
        detect(box)


@pytest.mark.parametrize(
    "unit",
    ["(", "((", "$(", "${a:-", "{ ", "if x; then ", '"$(', "`", "<<E\n", "a=$a$a; ", "x() { x; x; }; x; ", "A+=(y) ",
     '[ -n "$S" ] && A+=(y)\n', "for i in {1..60}; do ", "vllm serve m --x 1\n", "# comment\n", "[[ ", "case x in "],
)  # fmt: skip
def test_long_scripts_take_bounded_time(unit: str) -> None:
    box = container(["sh", "-c", unit * (200_000 // len(unit))], env={"S": None})
    begin = time.process_time()
    detect(box)
    assert time.process_time() - begin < 2.5


HARD = {
    # flags are built up in the positional parameters; the words `vllm serve` never stand together
    "positional parameters": (
        'set -eu\nset -- serve "$MODEL" \\\n  --tp "$TP"\nif [ "${TRUST:-}" = "1" ]; then\n  set -- "$@" --trust\nfi\n'
        'if [ -n "${EXTRA:-}" ]; then\n  # shellcheck disable=SC2086\n  set -- "$@" $EXTRA\nfi\nexec vllm "$@"\n',
        [],
        [["vllm", "serve", "org/model", "--tp", "2", "--a", "1", "--b=2"]],
    ),
    # a Python program in a heredoc, with quotes and parentheses that never close
    "heredoc of another language": (
        "set -euo pipefail\nV=$(python3 -c 'import x; print(x.v)')\npip install -q x 2>&1 | tail -5 \\\n  || echo \"failed (fine)\"\n"
        "python3 - <<'PY'\nprint(f\"don't {1}\")\nif (True: pass\nPY\nexec python3 -m sglang.launch_server \"$@\"\n",
        ["launcher", "--model", "m"],
        [["python3", "-"], ["python3", "-m", "sglang.launch_server", "--model", "m"]],
    ),
    # warm-up in the background, then the arguments of another object
    "warm-up loop": (
        'MAX="${MAX:-16}"\ncount=0\nfor f in $(find /m -type f); do\n  dd if="$f" of=/dev/null &\n  count=$((count + 1))\n'
        '  if (( count >= MAX )); then\n    wait -n\n    count=$((count - 1))\n  fi\ndone\nwait\npython3 -m huggingfaceserver "$@"\n',
        ["--", "--model_name=x"],
        [["python3", "-m", "huggingfaceserver", "--model_name=x"]],
    ),
    # both branches start the engine, and the condition is about the pod
    "leader and worker": (
        'START=$(( ${LWS_WORKER_INDEX:-0} * TP ))\nif [ "${LWS_WORKER_INDEX:-0}" -eq 0 ]; then\n  exec /venv/bin/vllm serve \\\n'
        "    __MODEL__ --tp $TP --rank $START\nelse\n  exec /venv/bin/vllm serve __MODEL__ --headless\nfi\n",
        [],
        [
            ["/venv/bin/vllm", "serve", "__MODEL__", "--tp", "2", "--rank", "?$START"],
            ["/venv/bin/vllm", "serve", "__MODEL__", "--headless"],
        ],
    ),
    # arrays with keys, loops over files, a C-style loop, an early break
    "network discovery": (
        "N=${N:-3}\nfor ((i=1; i<=N; i++)); do\n  A=$(getent hosts x | cut -d' ' -f1)\n  if [ -n \"$A\" ]; then\n    break\n  fi\ndone\n"
        'hcas=()\nfor d in /sys/class/infiniband/mlx5_*; do\n  if [ -d "$d" ] && grep -q "x" ${t} 2>/dev/null; then\n'
        '    hcas+=("$(basename "$d")")\n  fi\ndone\nif [ ${#hcas[@]} -gt 0 ]; then\n  declare -A count\n'
        '  count["${i}"]=$((${count["${i}"]} + 1))\n  list=$(IFS=,; echo "${hcas[*]}")\n  export NCCL_IB_HCA=${NCCL_IB_HCA:-${list}}\nfi\n'
        'eval "vllm serve $MODEL --tp $TP ${EXTRA}"\n',
        [],
        [["vllm", "serve", "org/model", "--tp", "2", "--a", "1", "--b=2"]],
    ),
    # merge-conflict markers in the script
    "merge conflict": (
        "<<<<<<< HEAD\nvllm serve m --tp 16\n=======\nvllm serve m --tp 8\n>>>>>>> other\n",
        [],
        [["vllm", "serve", "m", "--tp", "16"], ["======="], ["vllm", "serve", "m", "--tp", "8"]],
    ),
    # a folded scalar with line ends escaped: every `\\ ` is an escaped blank, and `ulimit` takes it all
    "folded continuation": ("ulimit -l unlimited X=0 \\ python -m dynamo.vllm \\ --model $MODEL", [], []),
}  # fmt: skip


@pytest.mark.parametrize("name", HARD)
def test_hard_patterns(name: str) -> None:
    script, arguments, expected = HARD[name]
    assert started(script, *arguments, env=dict(ENV)) == expected
