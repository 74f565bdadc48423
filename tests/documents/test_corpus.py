"""Real files: every manifest is read, or what is truly wrong with it is named."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from planner.documents.read import may_hold_workload, read_path

MANIFESTS = Path(__file__).resolve().parents[2].parent / "shared" / "corpus" / "manifests"

pytestmark = pytest.mark.skipif(not MANIFESTS.is_dir(), reason="the corpus is not beside the project")


def files(name: str) -> list[Path]:
    return sorted((MANIFESTS / name).iterdir())


def test_every_manifest_is_read() -> None:
    problems = {}
    for path in files("dev"):
        content = read_path(path, path.name)
        assert content.notices == ()
        assert content.documents
        assert may_hold_workload(path.read_bytes())
        assert all(document.kind or document.index for document in content.documents) or path.name.startswith(
            "sgl-project"
        )
        for problem in content.problems:
            problems[str(problem.position)] = problem.message
    assert problems == {
        "sgl-project--sglang--k8s-distributed-sts.yaml:26:1": "a merge conflict that is not resolved (<<<<<<<)",
        "vllm-project--aibrix--adapter-adapter-s3-example.yaml:153:15": "duplicate key 'volumes', first on line 49",
    }


def test_every_template_is_one() -> None:
    for path in files("templates"):
        content = read_path(path, path.name)
        assert (content.documents, content.problems) == ((), ())
        (notice,) = content.notices
        data = path.read_bytes()
        helm = b".Values" in data
        assert notice.message.startswith("not rendered: helm template" if helm else "template, not rendered")


def test_every_values_file_is_read_and_passed_over() -> None:
    for path in files("values"):
        content = read_path(path, path.name)
        assert (content.problems, content.notices) == ((), ())
        assert [document.kind for document in content.documents] == [""] or may_hold_workload(path.read_bytes())


def test_the_time_is_that_of_libyaml() -> None:
    """All manifests within a few times what the parser alone takes; 40 ms on the machine this was written on."""
    from yaml._yaml import CParser

    paths = files("dev")
    texts = [path.read_bytes() for path in paths]

    def parse() -> None:
        for text in texts:
            parser = CParser(text)
            try:
                parser.raw_parse()
            except Exception:
                continue

    def read() -> None:
        for path in paths:
            read_path(path, path.name)

    def best(call: object) -> float:
        times = []
        for _ in range(3):
            start = time.perf_counter()
            call()  # type: ignore[operator]
            times.append(time.perf_counter() - start)
        return min(times)

    assert best(read) < 25 * best(parse)
