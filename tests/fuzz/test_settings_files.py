"""Files that steer a run may come from a stranger as well: whatever they hold, they are read or refused, and nothing crashes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.documents.read import read_path
from planner.lint import baseline
from planner.render.kustomize import is_kustomization, read_tree
from planner.settings import PATH_SETTINGS, SETTINGS, load_config

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from(
        [
            "a.yaml",
            "..",
            "/etc",
            "**",
            "[",
            "**/**/*",
            "planner/v1/baseline",
            "error",
            "file:///etc/passwd",
            "https://x/y",
            "L4",
            "\0",
        ]
    )
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
fuzz = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.yaml").write_text("kind: Pod\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, data: Any) -> str:
    path.write_text(json.dumps(data))
    return os.path.relpath(path)


@fuzz
@given(
    top=st.dictionaries(st.sampled_from(SETTINGS), values, max_size=5),
    paths=st.dictionaries(
        st.text(max_size=10), st.dictionaries(st.sampled_from(PATH_SETTINGS), values, max_size=4), max_size=3
    ),
)
def test_settings(place: Path, top: dict[str, Any], paths: dict[str, Any]) -> None:
    found, problems = load_config(write(place / "planner.yaml", {**top, "paths": paths}))
    for problem in problems:
        assert problem.position.line >= 1
        assert problem.message
    for file in ("a.yaml", "deep/er/a.yaml", "../a.yaml", "<stdin>", "x (rendered)"):
        chosen = found.for_file(file)
        assert chosen.fail_on in ("info", "warning", "error")
        assert set(chosen.severity.values()) <= {"info", "warning", "error"}
    assert not found.baseline or os.path.realpath(found.baseline).startswith(str(place.resolve()))


@fuzz
@given(st.lists(st.dictionaries(st.sampled_from(["file", "rule", "workload", "container", "subject", "severity", "count"]),
                                values, max_size=7), max_size=4) | values)  # fmt: skip
def test_a_baseline(place: Path, entries: Any) -> None:
    path = write(place / "known.json", {"schema": baseline.SCHEMA, "findings": entries})
    found, problems = baseline.read(path)
    assert all(entry.times > 0 for entry in found)
    assert len(found) + len(problems) >= (len(entries) if isinstance(entries, list) else 0)


KEYS = ("resources", "bases", "components", "patches", "patchesStrategicMerge", "patchesJson6902", "crds", "openapi",
        "replacements", "configMapGenerator", "helmCharts", "kind", "apiVersion", "transformers")  # fmt: skip


@fuzz
@given(st.dictionaries(st.sampled_from(KEYS), values, max_size=6))
def test_a_kustomization(place: Path, data: dict[str, Any]) -> None:
    path = write(place / "kustomization.yaml", data)
    is_kustomization(read_path(path, path))
    tree = read_tree(path, path, str(place))
    inside = str(place.resolve())
    assert all(real.startswith(inside) for real in tree.files), "nothing outside of the repository is read"
