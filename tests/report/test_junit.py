"""JUnit XML: well formed, with the elements and attributes that readers know, and counts that agree."""

from __future__ import annotations

from xml.etree import ElementTree

from planner.report import junit
from planner.report.result import LintResult
from tests.cli import house
from tests.report.conftest import Lint

#: element → (attributes it must have, attributes it may have, children it may have), after the schema of Jenkins' xUnit
#: plugin (junit-10.xsd).
SHAPE: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors"}, {"skipped", "time", "id", "file"}, {"testcase"}),
    "testcase": ({"name"}, {"classname", "time"}, {"skipped", "error", "failure", "system-out", "system-err"}),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "skipped": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}


def suites_of(result: LintResult) -> ElementTree.Element:
    """The root of a report that parses and keeps to the shape, with counts that are those of its cases."""
    root = ElementTree.fromstring(junit.render(result).encode("utf-8"))
    assert root.tag == "testsuites"
    for element in root.iter():
        must, may, children = SHAPE[element.tag]
        assert must <= set(element.attrib) <= must | may, element.attrib
        assert {child.tag for child in element} <= children
    for suite in [root, *root]:
        cases = list(suite.iter("testcase"))
        assert int(suite.get("tests", "")) == len(cases)
        for name, tag in (("failures", "failure"), ("errors", "error")):
            assert int(suite.get(name, "")) == sum(case.find(tag) is not None for case in cases)
        if "skipped" in suite.attrib:
            assert int(suite.attrib["skipped"]) == sum(case.find("skipped") is not None for case in cases)
    return root


def test_all_examples_keep_to_the_shape(everything: LintResult) -> None:
    root = suites_of(everything)
    grave = [finding for finding in everything.findings if finding.severity == "error"]
    assert int(root.get("failures", "")) == len(grave) > 5
    assert int(root.get("errors", "")) == len(everything.problems) > 0
    names = [suite.get("name") for suite in root]
    assert len(set(names)) == len(names)


def test_what_a_case_says(house_lint: Lint) -> None:
    result = house_lint({"a.yaml": house.manifest("error") + "---\n" + house.manifest("warning")})
    failed, passed = suites_of(result).iter("testcase")
    assert failed.attrib == {"classname": "a.yaml", "name": "house-error at line 12 (Deployment/error)"}
    failure = failed.find("failure")
    assert failure is not None
    assert failure.attrib == {"message": "The workload is called error.", "type": "error"}
    assert failure.text == "a.yaml:12:17: The workload is called error. → Call it otherwise."
    said = passed.find("system-out")
    assert said is not None
    assert (said.text or "").startswith("warning: a.yaml:")


def test_fail_on_decides_what_fails(house_lint: Lint) -> None:
    text = {"a.yaml": house.manifest("info")}
    assert suites_of(house_lint(text)).get("failures") == "0"
    assert suites_of(house_lint(text, fail_on="info")).get("failures") == "1"


def test_a_clean_file_is_a_passed_case(house_lint: Lint) -> None:
    (case,) = suites_of(house_lint({"a.yaml": house.manifest("clean")})).iter("testcase")
    assert case.get("name") == "no findings"
    assert list(case) == []


def test_nothing_at_all_is_a_document_too(house_lint: Lint) -> None:
    assert list(suites_of(house_lint({}))) == []
