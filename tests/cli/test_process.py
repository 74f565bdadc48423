"""The real process: its exit code, its streams, what it imports, and that it never opens a socket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import house

ROOT = Path(__file__).resolve().parents[2]


def planner(
    folder: Path, *arguments: str, stdin: bytes | None = b"", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "planner", *arguments],
        cwd=folder,
        input=stdin,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        timeout=60,
        check=False,
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    house.write_rules(tmp_path / "house")
    for name in ("clean", "error"):
        (tmp_path / f"{name}.yaml").write_text(house.manifest(name))
    (tmp_path / "broken.yaml").write_text(house.BROKEN)
    return tmp_path


OPTIONS = ("--rules", "house", "--select", "house")


@pytest.mark.parametrize(("name", "code"), [("clean", 0), ("error", 1), ("broken", 2), ("missing", 2)])
def test_exit_codes(place: Path, name: str, code: int) -> None:
    assert planner(place, "lint", f"{name}.yaml", *OPTIONS).returncode == code


def test_a_pipe_is_read(place: Path) -> None:
    result = planner(place, "lint", "-", *OPTIONS, stdin=house.manifest("error").encode())
    assert result.returncode == 1
    assert b"<stdin>" in result.stdout


def test_a_crash_is_two_and_not_one(place: Path) -> None:
    """Python's own exit code for a crash would read as findings."""
    code = "import planner.lint.run as l; l.lint_paths = lambda *o: 1 / 0; import planner.cli as c; c.main()"
    result = subprocess.run(
        [sys.executable, "-c", code, "lint", "clean.yaml"],
        cwd=place, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == 2
    assert b"ZeroDivisionError" in result.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "utf-16"])
def test_any_encoding_of_the_terminal_holds_the_report(place: Path, encoding: str) -> None:
    result = planner(place, "lint", "error.yaml", *OPTIONS, env={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"})
    assert result.returncode == 1, result.stderr
    # click takes ASCII for a terminal that nobody has configured, and writes UTF-8.
    assert "house-error" in result.stdout.decode("utf-8" if encoding == "ascii" else encoding)


def test_a_reader_that_stops_reading_causes_no_traceback(place: Path) -> None:
    command = f"{sys.executable} -m planner rules --format json | head -c 1"
    result = subprocess.run(
        ["bash", "-c", command],
        cwd=place, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60, check=False,
    )  # fmt: skip
    assert result.stdout == b"{"
    assert b"Traceback" not in result.stderr


#: Slow to import, or able to reach the network; none of them is needed to lint.
HEAVY = {
    "jsonschema", "ruamel", "kubernetes", "huggingface_hub", "socket", "_socket", "ssl", "http.client", "urllib.request",
    "requests", "asyncio", "multiprocessing", "concurrent.futures", "pydantic", "importlib.metadata", "email", "sqlite3",
    "xml", "unittest", "pytest", "hypothesis",
}  # fmt: skip


def imported(place: Path, *arguments: str) -> set[str]:
    """The modules that a run has imported by its end, without those of a bare interpreter in this environment."""
    code = (
        "import os, sys; before = set(sys.modules)\n"
        "os._exit = sys.exit\n"  # a plain lint run ends the process without unwinding
        "from planner.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write('\\n' + ' '.join(sorted(set(sys.modules) - before)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=place, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60, check=True,
    )  # fmt: skip
    return set(result.stderr.splitlines()[-1].split())


native_runtime = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="the pure-Python CEL runtime imports a great deal"
)


@native_runtime
@pytest.mark.parametrize(
    "arguments",
    [("lint", "clean.yaml"), ("lint", "error.yaml", "--format", "github"), ("lint", "error.yaml", "--format", "json")],
    ids=" ".join,
)
def test_lint_imports_nothing_slow_and_nothing_that_reaches_the_network(
    place: Path, arguments: tuple[str, ...]
) -> None:
    modules = imported(place, *arguments)
    assert "planner.lint.run" in modules
    assert "yaml" in modules
    assert not modules & HEAVY, modules & HEAVY


def test_lint_of_plain_paths_does_without_click(place: Path) -> None:
    for arguments in (("lint", "clean.yaml"), ("lint", "--manifests-only", "clean.yaml")):
        assert "click" not in imported(place, *arguments)


def test_version_imports_hardly_anything(place: Path) -> None:
    modules = imported(place, "--version")
    assert {name for name in modules if name.startswith("planner")} == {"planner", "planner.cli", "planner.cli.app"}
    assert not modules & (HEAVY | {"yaml", "cel_expr_python", "json", "dataclasses"}), modules & HEAVY


def test_a_run_opens_no_socket(place: Path) -> None:
    """Neither lint nor budget; with a model that nothing here knows, too."""
    (place / "unknown.yaml").write_text(house.manifest("x").replace("meta-llama/Llama-3.1-8B-Instruct", "no/body"))
    code = (
        "import socket, sys, json\n"
        "def refuse(*args, **kwargs): raise AssertionError('the network')\n"
        "socket.socket = socket.create_connection = socket.getaddrinfo = refuse\n"
        "sys.addaudithook(lambda event, args: refuse() if event.startswith('socket.') else None)\n"
        "from planner.cli import main\n"
        "main()\n"
    )
    for arguments in (
        ("lint", "clean.yaml", "unknown.yaml", "--format", "json"),
        ("budget", "clean.yaml", "unknown.yaml", "--format", "json"),
    ):
        result = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=place, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60, check=False,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr.decode()
        assert json.loads(result.stdout)["errors"] == []


def test_no_subprocess_and_no_write_happens_in_a_lint_run(place: Path) -> None:
    """Input from a stranger is only read: nothing is executed, and no file is written."""
    code = (
        "import os, sys\n"
        "from planner.cli import main\n"
        "def watch(event, args):\n"
        "    if event in ('os.exec', 'os.posix_spawn', 'os.fork', 'os.system', 'subprocess.Popen', 'exec.unsafe'):\n"
        "        raise AssertionError(event)\n"
        "    if event == 'open' and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):\n"
        "        raise AssertionError(f'{event} {args}')\n"
        "sys.dont_write_bytecode = True\n"
        "sys.addaudithook(watch)\n"
        "main()\n"
    )
    evil = house.manifest("error").replace(
        "          args:\n",
        '          command: [sh, -c, "touch /tmp/x; $(touch /tmp/y) vllm serve `touch z`"]\n          args:\n',
    )
    (place / "evil.yaml").write_text(evil)
    result = subprocess.run(
        [sys.executable, "-c", code, "lint", "evil.yaml", "error.yaml", *OPTIONS],
        cwd=place, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == 1, result.stderr.decode()
    assert not (place / "z").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    "arguments", [("lint", "error.yaml"), ("lint", "error.yaml", "--format", "json"), ("rules",)], ids=" ".join
)
def test_a_report_that_cannot_be_written_is_said_in_a_sentence(place: Path, arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "planner", *arguments],
            cwd=place, stdout=full, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60,
            check=False,
        )  # fmt: skip
    assert result.returncode == 2
    assert result.stderr.startswith(b"Error: the report could not be written: ")
    assert b"Traceback" not in result.stderr
