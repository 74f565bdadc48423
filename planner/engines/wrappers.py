"""Programs that start another program (``env``, ``exec``, ``tini --``, ``timeout 10``), and how shells are called."""

from __future__ import annotations

import re
from collections.abc import Sequence

from planner.record import NamedTuple

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})

# name → (options that take a separate value, positional arguments before the program)
_WRAPPERS: dict[str, tuple[str, int]] = {
    "exec": ("-a", 0),
    "command": ("", 0),
    "builtin": ("", 0),
    "env": ("-u -C --unset --chdir", 0),
    "nohup": ("", 0),
    "setsid": ("", 0),
    "time": ("-f -o --format --output", 0),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c -n -p --class --classdata", 0),
    "chrt": ("-T -P -D", 1),
    "stdbuf": ("-i -o -e --input --output --error", 0),
    "unbuffer": ("", 0),
    "numactl": ("-N -m -C -i -p --cpunodebind --membind --physcpubind --interleave --preferred", 0),
    "taskset": ("", 1),
    "timeout": ("-s -k --signal --kill-after", 1),
    "tini": ("-p -e", 0),
    "tini-static": ("-p -e", 0),
    "dumb-init": ("-r --rewrite", 0),
    "catatonit": ("", 0),
    "catchsegv": ("", 0),
    "sudo": ("-u -g -h -p -C -U -r -t --user --group", 0),
    "gosu": ("", 1),
    "su-exec": ("", 1),
    "s6-setuidgid": ("", 1),
    "setpriv": ("--reuid --regid --groups", 0),
    "chroot": ("", 1),
    "flock": ("-w -E --timeout", 1),
    "prlimit": ("", 0),
    "with-contenv": ("", 0),
    "vault-env": ("", 0),
    "ddtrace-run": ("", 0),
    "opentelemetry-instrument": (
        "--traces_exporter --metrics_exporter --logs_exporter --service_name --exporter_otlp_endpoint",
        0,
    ),
    "uvx": ("--from --with -p --python --index-url", 0),
    "trtllm-llmapi-launch": ("", 0),
    "nvidia_entrypoint.sh": ("", 0),
    "mpirun": ("-n -np -N -H -x --hostfile --host --bind-to --map-by --npernode --wdir -wdir", 0),
    "mpiexec": ("-n -np -N -H -x --hostfile --host", 0),
}
_TWO_VALUES = frozenset({"--mca", "-mca", "--gmca"})

# Programs with a sub-command that starts another: name → (sub-commands, options that take a separate value)
_RUNNERS: dict[str, tuple[str, str]] = {
    "uv": (
        "run",
        "--with --with-requirements -p --python --extra --group --project --directory --env-file --index-url",
    ),
    "poetry": ("run", ""),
    "pipenv": ("run", ""),
    "pdm": ("run", ""),
    "rye": ("run", ""),
    "conda": ("run", "-n -p --name --prefix --cwd"),
    "mamba": ("run", "-n -p --name --prefix --cwd"),
    "micromamba": ("run", "-n -p --name --prefix --cwd"),
    "infisical": ("run", "--env --path --projectId"),
    "doppler": ("run", "-p -c --project --config"),
    "op": ("run", "--env-file"),
    "nsys": ("profile launch", "-o -t -c -s -d -y -w -f -x --trace --output --delay --duration --capture-range"),
    "py-spy": ("record", "-o -f -r -d --output --format --rate --duration"),
}

_ENVIRONMENT = r"(?a)[A-Za-z_]\w*="


class Program(NamedTuple):
    """Where in an argument vector the real program stands (its length: nowhere), and ``NAME=value`` items before it."""

    start: int
    assignments: tuple[int, ...] = ()


def program_in(words: Sequence[str]) -> Program:
    """Goes past programs that only start another one."""
    at, count = 0, len(words)
    assignments: list[int] = []
    for _ in range(12):
        if at >= count:
            break
        name = words[at].rpartition("/")[2]
        if name.startswith("wait-for") and "--" in words[at : at + 16]:
            at = words.index("--", at) + 1
            continue
        wrapper = _WRAPPERS.get(name)
        if wrapper is None:
            runner = _RUNNERS.get(name)
            if runner is None or at + 1 >= count or words[at + 1] not in runner[0].split():
                break
            wrapper = (runner[1], 0)
            at += 1
        options, positionals = wrapper
        if name == "command" and words[at + 1 : at + 2] and words[at + 1] in ("-v", "-V"):
            return Program(count)
        at += 1
        values = options.split()
        while at < count and words[at].startswith("-") and words[at] != "-":
            option = words[at]
            at += 1
            if option == "--":
                break
            at += 2 if option in _TWO_VALUES else 1 if option in values else 0
        at += positionals
        if name == "env":
            while at < count and re.match(_ENVIRONMENT, words[at]):
                assignments.append(at)
                at += 1
    return Program(min(at, count), tuple(assignments))


class ShellCall(NamedTuple):
    """How a shell is called: ``script`` and ``file`` are indices of words (-1: none), ``rest`` that of ``$0`` or ``$1``."""

    script: int
    file: int
    rest: int


def shell_call(words: Sequence[str]) -> ShellCall | None:
    """Reads the arguments of ``sh -c SCRIPT [NAME [ARG…]]`` and ``sh FILE [ARG…]``; None if this is no shell."""
    if not words:
        return None
    at = 1
    name = words[0].rpartition("/")[2]
    if name == "busybox" and len(words) > 1:
        name, at = words[1], 2
    if name in ("su", "runuser"):
        for index, word in enumerate(words[:16]):
            if word in ("-c", "--command") and index + 1 < len(words):
                return ShellCall(index + 1, -1, len(words))
        return None
    if name not in SHELLS:
        return None
    command = False
    while at < len(words):
        word = words[at]
        if word in ("--", "-"):
            at += 1
            break
        if word.startswith("--"):
            at += 2 if word in ("--rcfile", "--init-file") else 1
        elif len(word) > 1 and word[0] in "-+":
            command = command or (word[0] == "-" and "c" in word[1:])
            at += 2 if "o" in word[1:] or "O" in word[1:] else 1
        else:
            break
    if at >= len(words):
        return ShellCall(-1, -1, len(words))
    return ShellCall(at, -1, at + 1) if command else ShellCall(-1, at, at + 1)
