"""The wheel works elsewhere: in a clean environment, from another folder, with its rules, schemas and catalog."""

from __future__ import annotations

import email
import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("build")
pytest.importorskip("hatchling")

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "llama-8b-on-l4.yaml"


class Installed(NamedTuple):
    """An interpreter that has the wheel, and the environment to run it in."""

    python: str
    scripts: Path
    place: Path
    env: dict[str, str]


@pytest.fixture(scope="module")
def sources() -> set[str]:
    """The code and data of the checkout, as names inside the wheel; listed before the wheel is built."""
    found = {
        path.relative_to(ROOT) for path in (ROOT / "planner").rglob("*") if path.suffix in (".py", ".json", ".yaml")
    }
    data = {
        "planner/_data" / path.relative_to(ROOT) for name in ("rules", "schemas") for path in (ROOT / name).rglob("*.*")
    }
    return {path.as_posix() for path in found | data}


@pytest.fixture(scope="module")
def wheel(sources: set[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module", params=["clean environment", "beside our dependencies"])
def installed(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in a fresh environment with its dependencies from the package index where that answers quickly, and in a
    folder of its own with the dependencies of this environment."""
    place = tmp_path_factory.mktemp("elsewhere")
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    if request.param == "clean environment":
        home = place / "venv"
        venv.create(home, with_pip=False, symlinks=True)
        python = home / "bin" / "python"
        quick = ["--quiet", "--retries", "0", "--timeout", "3", "--only-binary", ":all:"]
        try:
            subprocess.run(
                [*pip, "--python", str(python), "install", *quick, str(wheel)],
                check=True, capture_output=True, timeout=60, env=env,
            )  # fmt: skip
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            pytest.skip("no package index answers quickly")
        return Installed(str(python), home / "bin", place, env)
    target = place / "target"
    subprocess.run(
        [*pip, "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel)],
        check=True, capture_output=True, timeout=60, env=env,
    )  # fmt: skip
    return Installed(sys.executable, target / "bin", place, {**env, "PYTHONPATH": str(target)})


def run(installed: Installed, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=installed.place, env=installed.env, capture_output=True, text=True, timeout=60, check=False
    )


def planner(installed: Installed, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(installed, installed.python, "-m", "planner", *arguments)


def test_it_runs_from_where_it_was_installed(installed: Installed) -> None:
    result = run(installed, installed.python, "-c", "import planner; print(planner.__file__)")
    assert Path(result.stdout.strip()).is_relative_to(installed.place)


def test_it_has_all_rules(installed: Installed) -> None:
    result = planner(installed, "rules", "--format", "json")
    assert result.returncode == 0, result.stderr
    listed = {rule["id"] for rule in json.loads(result.stdout)["rules"]}
    assert listed == {path.stem for path in (ROOT / "rules").rglob("*.yaml")}
    assert "Example 1" in planner(installed, "rules", "weights-do-not-fit").stdout


def test_it_finds_what_the_checkout_finds(installed: Installed) -> None:
    arguments = ("lint", str(EXAMPLE), "--format", "json")
    ours = subprocess.run(
        [sys.executable, "-m", "planner", *arguments],
        cwd=installed.place, env={**installed.env, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    theirs = planner(installed, *arguments)
    assert (theirs.returncode, theirs.stderr) == (1, "")
    assert theirs.stdout == ours.stdout
    assert json.loads(theirs.stdout)["findings"]


def test_it_has_the_catalog_and_the_schemas(installed: Installed) -> None:
    result = planner(installed, "budget", str(EXAMPLE), "--format", "json")
    plan = json.loads(result.stdout)["plans"][0]
    assert plan["model"]["known"]
    assert plan["accelerator"]["name"] == "L4"
    code = "from planner.data import data_folder; print(sorted(p.name for p in data_folder('schemas').iterdir()))"
    shipped = run(installed, installed.python, "-c", code).stdout.strip()
    assert shipped == str(sorted(path.name for path in (ROOT / "schemas").iterdir()))


@pytest.mark.parametrize("name", ["planner", "kv-planner"])
def test_both_names_of_the_command_run(installed: Installed, name: str) -> None:
    result = run(installed, str(installed.scripts / name), "--version")
    assert result.returncode == 0, result.stderr
    assert "kv-planner" in result.stdout


def test_it_holds_every_data_file_and_no_test(names: set[str], sources: set[str]) -> None:
    assert len(sources) > 200
    assert sources - names == set()
    assert all(name.startswith(("planner/", "kv_planner-")) for name in names)
    assert not [name for name in names if "test" in name.split("/")[1] or name.endswith((".pyc", ".orig", ".tmp"))]


def test_its_metadata(wheel: Path, names: set[str]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(info))
        scripts = archive.read(info.replace("METADATA", "entry_points.txt")).decode()
        licence = archive.read(info.replace("METADATA", "licenses/LICENSE")).decode()
    assert metadata["Name"] == "kv-planner"
    assert metadata["Requires-Python"] == ">=3.10"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert "Apache License" in licence
    assert "planner = planner.cli:main" in scripts
    assert "kv-planner = planner.cli:main" in scripts
    required = [text for text in metadata.get_all("Requires-Dist") or [] if "extra ==" not in text]
    assert {text.split(">")[0].split(";")[0].strip().lower() for text in required} == {
        "click", "pyyaml", "cel-expr-python", "cel-python",
    }  # fmt: skip
