"""Names, values and paths of a stranger's manifest cannot forge lines, commands or terminal escapes in any report."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.documents.read import read_bytes
from planner.lint.run import lint, select_rules
from planner.plan import plan_files
from planner.report import budget, github, gitlab, json_report, junit, sarif, text
from planner.report.result import LintResult
from planner.settings import Settings
from tests.report.test_github import commands
from tests.report.test_gitlab import issues_of
from tests.report.test_junit import suites_of
from tests.report.test_sarif import log_of

NASTY = [
    "x\n::error::forged",
    "x\r\n::error file=a.yaml,line=1::forged",
    "x\r::warning::forged",
    "%0A::error::forged",
    "x\x1b[2J\x1b[31mred",
    "x\x1b]8;;http://evil\x07link",
    "\u202egnp.exe",
    "x\u2028::error::forged\u2029y\x85z",
    "]]><x/>&amp;",
    "\"quotes'`$(id)`",
    "##[error]forged ##vso[task.setvariable]x",
    "a,line=1,title=x::y",
    "\\u0000\\n\\",
    "{engine.max_model_len} {percent(x)} %s {0}",
    "\ufeff\u200b\u0000"[:2],
    "long " * 5000,
    "💥" * 300,
    "::error::forged",
]


def manifest(value: str) -> str:
    """A deployment with a hostile text wherever a person may write one, and several findings because of it."""
    key = value[:60]  # YAML, and so this reader of JSON, takes no key above 1024 characters
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": value,
                "namespace": value,
                "annotations": {"planner/accelerator": value, "planner/ignore": f"{value}: {value}"},
            },
            "spec": {
                "template": {
                    "metadata": {"annotations": {"planner/engine-version": value}},
                    "spec": {
                        "containers": [
                            {
                                "name": value,
                                "image": f"vllm/vllm-openai:{value}",
                                "command": ["vllm", "serve", value, "--served-model-name", value, f"--{value}"],
                                "args": ["--max-model-len", value, "--kv-cache-dtype", value, f"$({value})"],
                                "env": [
                                    {"name": value, "value": value},
                                    {"name": "HF_TOKEN", "value": f"hf_AbCdEfGhIjKlMnOpQrStUvWxYz0123{value}"},
                                    {"name": "CUDA_VISIBLE_DEVICES", "value": value},
                                ],
                                "resources": {"limits": {"nvidia.com/gpu": value, key: value}},
                                "livenessProbe": {"httpGet": {"path": value, "port": value}, "periodSeconds": 1},
                            }
                        ],
                        "nodeSelector": {"nvidia.com/gpu.product": value, key: value},
                    },
                }
            },
        }
    )


def result_of(value: str, file: str = "a.yaml") -> LintResult:
    configured = Settings()
    broken = f"kind: [\n# {value}".encode("utf-8", "replace")
    content = read_bytes(manifest(value).encode("utf-8", "surrogatepass"), file)
    return lint([content, read_bytes(broken, file)], select_rules(configured), configured)


def assert_plain(report: str, known_lines: int | None = None) -> None:
    """Only line feeds of our own and printable characters; no line that a log reader would take for a command."""
    for line in report.split("\n"):
        odd = [c for c in line if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
        assert not odd, (odd, line[:200])
        assert not line.strip().startswith("::"), line[:200]
        assert not re.search(r"##[a-z]*\[", line), line[:200]
    if known_lines is not None:
        assert len(report.split("\n")) == known_lines


each_value = pytest.mark.parametrize("value", NASTY, ids=[ascii(value)[:30] for value in NASTY])


@each_value
def test_text_stays_one_line_for_a_message(value: str) -> None:
    result = result_of(value)
    assert result.findings
    report = text.render(result)
    harmless = text.render(result_of("x"))
    assert_plain(report)
    # Whatever the text is, the report has the lines of a report: file, finding, source, message, remedy.
    for line in report.splitlines():
        assert re.match(
            r"$|a\.yaml$|a\.yaml:\d+:\d+: (cannot check: |not evaluated: |suppression of .|unused suppression: )|  \d+:\d+  |"
            r" *\d+ \| |      \S|      → |\d+ errors?, ",
            line,
        ), line[:100]
        assert len(line) < 3000
    assert len(report) < 40_000 + len(harmless)


@each_value
def test_github_has_exactly_one_command_for_each_finding(value: str) -> None:
    result = result_of(value)
    report = github.render(result)
    assert len(commands(report)) == len(result.findings) + len(result.problems)
    assert len(report.split("\n")) == len(result.findings) + len(result.problems) + 2
    for _, properties, _ in commands(report):
        assert set(properties) == {"file", "line", "col", "title"}
        assert properties["file"] == "a.yaml"
    assert report.replace("\n", "").isprintable()


@each_value
def test_json_and_sarif_parse(value: str) -> None:
    result = result_of(value)
    document = json.loads(json_report.render(result))
    for finding in document["findings"]:
        assert finding["message"].isprintable()
        assert finding["remedy"].isprintable()
    log = log_of(result)
    for entry in log["runs"][0]["results"]:
        assert entry["message"]["text"].isprintable()


@each_value
def test_gitlab_and_junit_parse_and_hold_no_more_than_was_found(value: str) -> None:
    result = result_of(value)
    issues = issues_of(result)
    assert len(issues) == len(result.findings) + len(result.problems)
    assert all(issue["description"].isprintable() for issue in issues)
    root = suites_of(result)
    cases = list(root.iter("testcase"))
    assert len(cases) == len(result.findings) + len(result.problems) + len(result.not_evaluated)
    assert all(
        text.isprintable()
        for case in cases
        for text in (*case.attrib.values(), *(e.text or "" for e in case if list(case)))
    )
    assert_plain(junit.render(result))


@each_value
def test_budget_stays_plain(value: str) -> None:
    project = plan_files([read_bytes(manifest(value).encode("utf-8", "surrogatepass"), "a.yaml")], Settings())
    assert project.plans
    assert_plain(budget.render_text(project.plans, project.problems, explain=True))
    json.loads(budget.render_json(project.plans, project.problems))


@each_value
def test_paths_cannot_break_out_either(value: str) -> None:
    """Paths are made printable when inputs are found; a report does not rely on it."""
    result = result_of("x", file=value)
    assert_plain(text.render(result))
    assert len(commands(github.render(result))) == len(result.findings) + len(result.problems)
    log_of(result)
    issues_of(result)
    suites_of(result)
    json.loads(json_report.render(result))


#: Anything that JSON can hold in a manifest, halves of surrogate pairs included.
any_text = st.text(max_size=60) | st.text(
    alphabet=st.sampled_from("\n\r\x00\x1b\x85\u2028\u202e:%#[],=→{}()'\"\\ ax1$`|&;<>!*-_./~\ud800\udfff"), max_size=40
)


@settings(max_examples=40, deadline=None)
@given(any_text)
def test_no_text_breaks_any_format(value: str) -> None:
    result = result_of(value)
    assert_plain(text.render(result))
    assert len(commands(github.render(result))) == len(result.findings) + len(result.problems)
    log_of(result)
    issues_of(result)
    suites_of(result)
    document: dict[str, Any] = json.loads(json_report.render(result))
    assert len(document["findings"]) == len(result.findings)


def test_a_secret_is_never_printed() -> None:
    """The rule says where a token stands; the token itself may stand only in the source line of the text report."""
    token = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
    result = result_of("x")
    shown = "".join(report.render(result) for report in (json_report, sarif, github, gitlab, junit))
    assert "token-literal" in shown
    assert token[:20] not in shown
