"""``--format json`` is the contract: valid by its schema, complete by DESIGN §6, and says what the result says."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from planner.data import data_folder
from planner.documents.document import FileContent
from planner.documents.read import read_bytes
from planner.lint.run import lint, select_rules
from planner.plan import plan_files
from planner.report import json_report
from planner.report.budget import render_json
from planner.report.result import LintResult
from planner.settings import Settings
from tests.cli import house
from tests.conftest import SHARED
from tests.report.conftest import Lint, manifests

#: Every key that the contract (DESIGN §6) names.
FINDING = {
    "rule", "severity", "message", "file", "line", "column", "end_line", "workload", "container", "remedy", "url", "fix",
}  # fmt: skip
LINT = {"schema", "findings", "not_evaluated", "files", "workloads", "engines", "errors"}
PLAN = {
    "workload", "container", "engine", "model", "accelerator", "gpus_per_pod", "pods", "parallel", "ranks", "capacity",
    "reserve", "verdict", "unknown",
}  # fmt: skip
MEMORY = {"device", "requested", "weights", "activations", "non_torch", "graphs", "kv_available", "outside"}


def validator(name: str) -> Any:
    schema = json.loads((data_folder("schemas") / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def strict(text: str) -> Any:
    """JSON as any reader takes it: no NaN, no key twice, ASCII only."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(found)) == len(found), "a key twice"
        return dict(found)

    def constant(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    assert text.isascii()
    return json.loads(text, object_pairs_hook=pairs, parse_constant=constant)


def budget(contents: list[FileContent], settings: Settings) -> Any:
    project = plan_files(contents, settings)
    return strict(render_json(project.plans, project.problems))


def test_the_schemas_require_all_that_the_contract_names() -> None:
    lint_schema = json.loads((data_folder("schemas") / "lint.schema.json").read_text())
    assert set(lint_schema["required"]) >= LINT
    assert set(lint_schema["properties"]["findings"]["items"]["required"]) >= FINDING
    gaps = lint_schema["properties"]["not_evaluated"]["items"]["required"]
    assert set(gaps) >= {"rule", "workload", "fact", "reason", "remedy"}
    assert set(lint_schema["properties"]["errors"]["items"]["required"]) >= {"file", "line", "column", "message"}
    plan_schema = json.loads((data_folder("schemas") / "plan.schema.json").read_text())
    definitions = plan_schema["$defs"]
    assert set(plan_schema["required"]) >= {"schema", "plans"}
    assert set(definitions["plan"]["required"]) >= PLAN
    assert set(definitions["rank"]["required"]) >= {
        "rank", "pod", "gpu", "tensor_rank", "pipeline_rank", "memory", "kv",
    }  # fmt: skip
    assert set(definitions["rank"]["properties"]["memory"]["required"]) >= MEMORY
    assert set(definitions["estimate"]["required"]) >= {"low", "expected", "high", "basis"}
    kv = definitions["rank"]["properties"]["kv"]["oneOf"][1]
    assert set(kv["required"]) >= {"block_size", "num_blocks", "page_bytes", "bytes_per_token", "groups"}
    capacity = definitions["plan"]["properties"]["capacity"]["oneOf"][1]
    assert set(capacity["required"]) >= {"kv_tokens", "max_model_len", "max_num_seqs", "max_concurrency"}


def test_lint_of_all_examples_is_valid_and_says_what_the_result_says(everything: LintResult) -> None:
    document = strict(json_report.render(everything))
    validator("lint").validate(document)
    assert document["schema"] == "planner/v1"
    assert len(document["findings"]) == len(everything.findings) > 20
    for found, finding in zip(document["findings"], everything.findings, strict=True):
        assert set(found) == FINDING
        assert (found["rule"], found["severity"], found["message"]) == (finding.rule, finding.severity, finding.message)
        assert (found["file"], found["line"], found["column"]) == finding.position[:3]
        assert found["end_line"] >= found["line"]
    assert [entry["rule"] for entry in document["suppressed"]] == ["image-not-pinned"]
    assert document["suppressed"][0]["reason"] == "on purpose"
    assert document["suppressed"][0]["by"].startswith("suppressed.yaml:")
    unused = [entry for entry in document["unused_suppressions"] if entry["file"] == "suppressed.yaml"]
    assert [entry["rules"] for entry in unused] == [["gpus-idle"]]
    assert [error["file"] for error in document["errors"]] == ["broken.yaml"]
    assert document["not_evaluated"]
    assert (document["files"], document["workloads"]) == (everything.files, everything.workloads)


@pytest.mark.parametrize(("name", "text"), list(manifests()), ids=lambda value: value if ".yaml" in value[:90] else "")
def test_budget_of_every_example_is_valid(name: str, text: str) -> None:
    document = budget([read_bytes(text.encode(), name)], Settings())
    validator("plan").validate(document)
    assert document["errors"] == []
    assert document["plans"]
    for plan in document["plans"]:
        assert set(plan) >= PLAN
        for rank in plan["ranks"]:
            assert set(rank["memory"]) >= MEMORY
            for term in rank["memory"].values():
                assert term["low"] <= term["expected"] <= term["high"]


def test_a_finding_is_told_by_the_contract(house_lint: Lint) -> None:
    document = strict(json_report.render(house_lint({"a.yaml": house.manifest("error")})))
    assert document["findings"] == [
        {
            "rule": "house-error",
            "severity": "error",
            "message": "The workload is called error.",
            "file": "a.yaml",
            "line": house.NAME_LINE,
            "column": 17,
            "end_line": house.NAME_LINE,
            "workload": "Deployment/error",
            "container": "vllm",
            "remedy": "Call it otherwise.",
            "url": "",
            "fix": None,
        }
    ]


DEV = SHARED / "corpus" / "manifests" / "dev"


def sample() -> Iterator[Any]:
    files = sorted(DEV.glob("*.yaml")) if DEV.is_dir() else []
    for path in random.Random(1).sample(files, min(30, len(files))):
        yield pytest.param(path, id=path.stem)


@pytest.mark.parametrize("path", list(sample()))
def test_public_manifests_give_valid_json(path: Any) -> None:
    """Skips where the corpus of public manifests is not beside the project."""
    content = read_bytes(path.read_bytes(), path.name)
    settings = Settings(assume_accelerator="H100-80GB-SXM")
    validator("lint").validate(strict(json_report.render(lint([content], select_rules(settings), settings))))
    validator("plan").validate(budget([content], settings))
