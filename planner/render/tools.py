"""Runs a renderer (kustomize, kubectl, helm): found on PATH only, without a shell, a network, a home or much time."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence

from planner.documents.read import LARGEST

#: Seconds that one rendering may take.
TIMEOUT = 60.0
#: An address of this machine on which nothing listens: whoever wants to reach the network through it fails at once.
_NOWHERE = "http://127.0.0.1:9"
_LONGEST_ERROR = 64 * 1024


class CannotRender(Exception):  # noqa: N818 - told to people as it is
    """Why a tool gave no manifests."""


def find(names: Sequence[str]) -> str | None:
    """The first of some programs on PATH, None where there is none. Entries of PATH that depend on the current folder do
    not count: a stranger's checkout may hold a program of that name."""
    for name in names:
        for folder in os.environ.get("PATH", "").split(os.pathsep):
            candidate = os.path.join(folder, name)
            if os.path.isabs(folder) and os.path.isfile(candidate) and os.access(candidate, os.X_OK):
                return candidate
    return None


def run(command: Sequence[str], timeout: float | None = None) -> bytes:
    """What a command prints. Raises CannotRender where it fails, prints too much or takes too long.

    It runs in an empty folder that is its home as well: no settings, plugins, credentials or other programs of the
    person who runs planner are in its reach, and every way to the network that it takes by itself leads nowhere.
    """
    limit = TIMEOUT if timeout is None else timeout
    name = os.path.basename(command[0])
    with tempfile.TemporaryDirectory(prefix="planner-render-") as home:
        empty = os.path.join(home, "bin")
        os.mkdir(empty)
        environment = {
            "PATH": empty, "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "KUBECONFIG": os.devnull,
            "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home, "XDG_DATA_HOME": home, "HELM_PLUGINS": empty,
            "HTTP_PROXY": _NOWHERE, "HTTPS_PROXY": _NOWHERE, "ALL_PROXY": _NOWHERE, "NO_PROXY": "",
            "http_proxy": _NOWHERE, "https_proxy": _NOWHERE, "all_proxy": _NOWHERE, "no_proxy": "",
            "GIT_ALLOW_PROTOCOL": "none", "GIT_TERMINAL_PROMPT": "0",
        }  # fmt: skip
        try:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=home,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise CannotRender(f"{name} cannot be started: {error.strerror or error}") from None
        try:
            out, complaint = _read(process, name, limit)
        finally:
            _end(process)
    if process.returncode != 0:
        raise CannotRender(f"{name} failed: {_last_words(complaint) or f'exit code {process.returncode}'}")
    return out


def _read(process: subprocess.Popen[bytes], name: str, limit: float) -> tuple[bytes, bytes]:
    """Standard output and error of a process, both bounded; waits for its end."""
    assert process.stdout is not None
    assert process.stderr is not None
    deadline = time.monotonic() + limit
    parts: dict[int, list[bytes]] = {process.stdout.fileno(): [], process.stderr.fileno(): []}
    sizes = dict.fromkeys(parts, 0)
    with selectors.DefaultSelector() as selector:
        for handle in parts:
            selector.register(handle, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                raise CannotRender(f"{name} took longer than {limit:.0f} seconds and was stopped")
            for key, _ in selector.select(left):
                handle = key.fd
                data = os.read(handle, 1 << 16)
                if not data:
                    selector.unregister(handle)
                    continue
                sizes[handle] += len(data)
                if handle == process.stdout.fileno() and sizes[handle] > LARGEST:
                    raise CannotRender(f"{name} printed more than {LARGEST // 1024**2} MiB and was stopped")
                if sizes[handle] <= LARGEST:
                    parts[handle].append(data)
    try:
        process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise CannotRender(f"{name} took longer than {limit:.0f} seconds and was stopped") from None
    out, error = parts.values()
    return b"".join(out), b"".join(error)[-_LONGEST_ERROR:]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and what it has started."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            process.kill()
        process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _last_words(complaint: bytes) -> str:
    """The line of an error message that says what is wrong; the first that names an error, else the last one."""
    lines = [line.strip() for line in complaint.decode("utf-8", "replace").splitlines() if line.strip()]
    told = next((line for line in lines if line.lower().startswith("error:")), lines[-1] if lines else "")
    return told[:1000]
