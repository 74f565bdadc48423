"""Files, folders, globs and standard input, as the command line takes them; and what pre-commit hands over."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli import house
from tests.cli.conftest import Run


def files_of(stdout: str) -> list[str]:
    return [finding["file"] for finding in json.loads(stdout)["findings"]]


@pytest.fixture
def tree(folder: Path) -> Path:
    for name in ("a.yaml", "b.yml", "deploy/c.yaml", "deploy/prod/d.json", ".hidden/e.yaml", "node_modules/f.yaml"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(house.manifest("error"))
    (folder / "deploy" / "prod" / "d.json").write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "error"},
                "spec": {"containers": [{"name": "c", "image": "vllm/vllm-openai:v0.11.0"}]},
            }
        )
    )
    return folder


def test_the_current_folder_is_the_default(lint: Run, tree: Path) -> None:
    assert files_of(lint("--format", "json").stdout) == ["a.yaml", "b.yml", "deploy/c.yaml", "deploy/prod/d.json"]


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (("deploy",), ["deploy/c.yaml", "deploy/prod/d.json"]),
        (("deploy/",), ["deploy/c.yaml", "deploy/prod/d.json"]),
        (("b.yml", "a.yaml"), ["a.yaml", "b.yml"]),
        (("a.yaml", "a.yaml", "./a.yaml"), ["a.yaml"]),
        (("**/*.json",), ["deploy/prod/d.json"]),
        (("deploy/*",), ["deploy/c.yaml", "deploy/prod/d.json"]),
        ((".hidden/e.yaml",), [".hidden/e.yaml"]),
        (("--exclude", "deploy", "."), ["a.yaml", "b.yml"]),
        (("--exclude", "*.yml", "--exclude", "prod", "."), ["a.yaml", "deploy/c.yaml"]),
    ],
    ids=str,
)
def test_paths(lint: Run, tree: Path, paths: tuple[str, ...], expected: list[str]) -> None:
    assert files_of(lint(*paths, "--format", "json").stdout) == expected


def test_a_minus_is_standard_input(lint: Run) -> None:
    result = lint("-", "--format", "json", stdin=house.manifest("error"))
    assert result.exit_code == 1
    assert files_of(result.stdout) == ["<stdin>"]


def test_standard_input_beside_files(lint: Run, folder: Path) -> None:
    (folder / "a.yaml").write_text(house.manifest("error"))
    result = lint("-", "a.yaml", "-", "--format", "json", stdin=house.manifest("error"))
    assert sorted(files_of(result.stdout)) == ["<stdin>", "a.yaml"]


@pytest.mark.parametrize(
    ("stdin", "code"), [(b"", 0), (b"\n", 0), (b"\xff\xfe\x00", 2), (b"\x00\x01", 2), (b"kind: [", 2), (b"{}", 0)]
)
def test_standard_input_of_any_bytes(lint: Run, stdin: bytes, code: int) -> None:
    assert lint("-", stdin=stdin).exit_code == code


def test_references_between_files_of_one_run_resolve(run: Run, folder: Path) -> None:
    (folder / "a.yaml").write_text(
        house.manifest("m").replace("--max-model-len=8192", "--max-model-len=$(LENGTH)").replace(
            "          resources:", "          envFrom: [{configMapRef: {name: settings}}]\n          resources:"
        )
    )  # fmt: skip
    (folder / "b.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {LENGTH: '4096'}\n"
    )
    found = json.loads(run("budget", "a.yaml", "b.yaml", "--format", "json").stdout)["plans"][0]
    assert found["engine"]["effective"]["max_model_len"]["value"] == 4096


# What pre-commit hands over: every YAML and JSON file of a commit.

OTHERS = {
    "compose.yaml": "services:\n  vllm:\n    image: vllm/vllm-openai:latest\n    command: --model x\n",
    "broken-compose.yaml": "services:\n  vllm: {image: vllm/vllm-openai\n",
    ".github/workflows/ci.yml": "on: [push]\njobs:\n  a:\n    runs-on: x\n    steps:\n      - run: ${{ matrix.x }}\n",
    ".github/workflows/broken.yml": "on: [push\njobs:\n\t- a: : b\n",
    "package-lock.json": json.dumps({"name": "x", "lockfileVersion": 3, "packages": {"node_modules/kind-of": {}}}),
    "broken-lock.json": '{"name": "x", "lockfileVersion": 3,',
    "template.yaml": "{% for x in y %}\n{{ x }}\n{% endfor %}\n",
    "binary.yaml": "\0\1\2",
    "empty.yaml": "",
    "values.yaml": "image:\n  repository: vllm/vllm-openai\nkind: x\n",
    "Chart.yaml": "apiVersion: v2\nname: x\nversion: 0.1.0\n",
    "tags.yaml": "!reference [a, b]\n",
}


@pytest.mark.parametrize("name", OTHERS)
def test_manifests_only_passes_over_what_is_not_kubernetes_without_a_word(lint: Run, folder: Path, name: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(OTHERS[name])
    result = lint("--manifests-only", name)
    assert (result.exit_code, result.output) == (0, "")


def test_manifests_only_finds_the_one_manifest_among_them(lint: Run, folder: Path) -> None:
    for name, text in OTHERS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "a.yaml").write_text(house.manifest("error"))
    result = lint("--manifests-only", *OTHERS, "a.yaml", "--format", "json")
    assert result.exit_code == 1
    assert files_of(result.stdout) == ["a.yaml"]
    assert json.loads(result.stdout)["files"] == 1


def test_manifests_only_still_reports_a_broken_manifest(lint: Run, folder: Path) -> None:
    (folder / "a.yaml").write_text(house.BROKEN)
    result = lint("--manifests-only", "a.yaml")
    assert result.exit_code == 2
    assert "a.yaml:" in result.output


def test_without_manifests_only_a_named_file_is_read_whatever_it_is(lint: Run, folder: Path) -> None:
    (folder / "compose.yaml").write_text(OTHERS["broken-compose.yaml"])
    assert lint("compose.yaml").exit_code == 2


def test_manifests_only_still_prints_machine_formats_and_files(lint: Run, folder: Path) -> None:
    (folder / "values.yaml").write_text("a: 1\n")
    for format_ in ("json", "sarif"):
        assert json.loads(lint("--manifests-only", "values.yaml", "--format", format_).stdout)
    (folder / "report.txt").write_text("of yesterday")
    assert lint("--manifests-only", "values.yaml", "-o", "report.txt").exit_code == 0
    assert "yesterday" not in (folder / "report.txt").read_text()


NAMES = [
    "with space.yaml",
    "com,ma.yaml",
    "co:lon.yaml",
    "per%cent.yaml",
    "::error::x.yaml",
    "quo'te\".yaml",
    "ünï.yaml",
]


@pytest.mark.parametrize("name", NAMES)
def test_file_names_are_told_as_they_are(lint: Run, folder: Path, name: str) -> None:
    (folder / name).write_text(house.manifest("error"))
    assert files_of(lint(f"./{name}", "--format", "json").stdout) == [f"./{name}"]
    assert files_of(lint("--format", "json").stdout) == [name]


@pytest.mark.parametrize(
    "raw", [b"new\nline.yaml", b"latin-\xe9.yaml", b"esc\x1b[31m.yaml", "bidi-\u202e.yaml".encode()]
)
@pytest.mark.parametrize("format_", ["text", "json", "sarif", "github"])
def test_file_names_that_no_report_can_hold_are_escaped(lint: Run, folder: Path, raw: bytes, format_: str) -> None:
    with open(os.path.join(os.fsencode(folder), raw), "w") as file:
        file.write(house.manifest("error"))
    for arguments in ((os.fsdecode(raw),), ()):
        result = lint(*arguments, "--format", format_)
        assert result.exit_code == 1
        assert "\x1b" not in result.stdout
        assert "\u202e" not in result.stdout
        result.stdout.encode("utf-8")
        if format_ in ("json", "sarif"):
            json.loads(result.stdout)
        else:
            assert "line.yaml" not in [line.strip() for line in result.stdout.splitlines()]
