"""Suppressions: every place where people write them, what they cover, and what is said of those that cover nothing."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from planner.report import json_report, text
from planner.report.result import LintResult
from planner.settings import Settings

Lint = Callable[..., LintResult]

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment                                              # KIND
metadata:
  name: llm
  annotations: {}
spec:
  selector: {matchLabels: {app: llm}}
  template:
    metadata:
      labels: {app: llm}
      annotations: {}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
      containers:
        - name: vllm                                          # NAME
          image: vllm/vllm-openai:latest                      # IMAGE
          args:                                               # ARGS
            - --model=meta-llama/Llama-3.1-8B-Instruct
            - --max-model-len                                 # FLAG
            - "131072"                                        # VALUE
          resources: {limits: {nvidia.com/gpu: 1}}
"""
LENGTH, IMAGE = "kv-cache-below-one-request", "image-not-pinned"
SETTINGS = Settings(select=(LENGTH, IMAGE))


def at(mark: str, comment: str) -> str:
    """MANIFEST with a comment at the end of the marked line."""
    assert f"# {mark}\n" in MANIFEST
    return MANIFEST.replace(f"# {mark}\n", f"{comment}\n")


def above(mark: str, *comments: str) -> str:
    """MANIFEST with comments on lines of their own above the marked line."""
    lines = MANIFEST.splitlines()
    index = next(number for number, line in enumerate(lines) if line.endswith(f"# {mark}"))
    indent = " " * (len(lines[index]) - len(lines[index].lstrip()))
    return "\n".join([*lines[:index], *(indent + comment for comment in comments), *lines[index:]]) + "\n"


def rules(result: LintResult) -> list[str]:
    return sorted(finding.rule for finding in result.findings)


def suppressed(result: LintResult) -> list[tuple[str, str]]:
    return sorted((finding.rule, suppression.reason) for finding, suppression in result.suppressed)


def test_without_one_both_rules_speak(lint_text: Lint) -> None:
    assert rules(lint_text(MANIFEST, settings=SETTINGS)) == [IMAGE, LENGTH]


@pytest.mark.parametrize("mark", ["VALUE", "FLAG", "ARGS", "NAME", "KIND"])
@pytest.mark.parametrize("where", [at, above])
def test_a_comment_at_or_above_the_place_its_flag_its_container_or_its_object(
    lint_text: Lint, where: Callable[..., str], mark: str
) -> None:
    result = lint_text(where(mark, f"# planner: ignore[{LENGTH}] we will change the card"), settings=SETTINGS)
    assert rules(result) == [IMAGE]
    assert suppressed(result) == [(LENGTH, "we will change the card")]
    assert result.unused_suppressions == ()
    assert result.problems == ()


@pytest.mark.parametrize("mark", ["IMAGE", "NAME", "KIND"])
def test_a_comment_covers_its_own_place_only(lint_text: Lint, mark: str) -> None:
    result = lint_text(at(mark, f"# planner: ignore[{IMAGE}]"), settings=SETTINGS)
    assert rules(result) == [LENGTH]
    other = lint_text(at("VALUE", f"# planner: ignore[{IMAGE}]"), settings=SETTINGS)
    assert rules(other) == [IMAGE, LENGTH]
    assert [unused.rules for unused in other.unused_suppressions] == [(IMAGE,)]


@pytest.mark.parametrize(
    ("comment", "reason"),
    [
        (f"# planner: ignore[{LENGTH}]", ""),
        (f"# planner: ignore[{LENGTH}] a reason", "a reason"),
        (f"# planner: ignore[{LENGTH}]: a reason: with [brackets] # and more", "a reason: with [brackets] # and more"),
        (f"#planner:ignore[{LENGTH}]a", "a"),
        (f"#   planner:   ignore [ {LENGTH} ]  a", "a"),
        (f"# planner: ignore[{LENGTH},{IMAGE}] a", "a"),
        (f"# planner: ignore[{IMAGE}, {LENGTH}] a", "a"),
        (f"# planner: ignore[{IMAGE} {LENGTH}] a", "a"),
        (f"# see below # planner: ignore[{LENGTH}] a", "a"),
    ],
)
def test_how_a_comment_may_be_written(lint_text: Lint, comment: str, reason: str) -> None:
    assert suppressed(lint_text(at("VALUE", comment), settings=SETTINGS)) == [(LENGTH, reason)]


def test_one_comment_for_several_rules_on_the_container(lint_text: Lint) -> None:
    result = lint_text(at("NAME", f"# planner: ignore[{LENGTH}, {IMAGE}] a test rig"), settings=SETTINGS)
    assert rules(result) == []
    assert suppressed(result) == [(IMAGE, "a test rig"), (LENGTH, "a test rig")]
    assert result.unused_suppressions == ()
    assert result.exit_code == 0


def test_the_rules_of_a_comment_that_match_nothing_are_told_alone(lint_text: Lint) -> None:
    result = lint_text(at("VALUE", f"# planner: ignore[{LENGTH}, {IMAGE}]"), settings=SETTINGS)
    assert suppressed(result) == [(LENGTH, "")]
    assert [unused.rules for unused in result.unused_suppressions] == [(IMAGE,)]


def test_comments_above_one_another(lint_text: Lint) -> None:
    comments = ("# planner: ignore[kv-cache-below-one-request] one", "# why", f"# planner: ignore[{IMAGE}] two")
    result = lint_text(above("NAME", *comments), settings=SETTINGS)
    assert suppressed(result) == [(IMAGE, "two"), (LENGTH, "one")]


SCRIPT = """\
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.11.0
      command: [sh, -c]
      args:
        - |
          set -e
          ABOVE
          exec vllm serve meta-llama/Llama-3.1-8B-Instruct \\
            --gpu-memory-utilization 0.92 \\
            --max-model-len 131072  END
      resources: {limits: {nvidia.com/gpu: 1}}
"""


@pytest.mark.parametrize(("above_line", "end"), [(True, False), (False, True)])
def test_a_comment_inside_a_script(lint_text: Lint, above_line: bool, end: bool) -> None:
    comment = f"# planner: ignore[{LENGTH}] in a script"
    manifest = SCRIPT.replace("ABOVE", comment if above_line else "# nothing").replace("END", comment if end else "")
    result = lint_text(manifest, settings=SETTINGS)
    assert rules(result) == []
    assert suppressed(result) == [(LENGTH, "in a script")]


def test_a_comment_above_a_long_command_covers_all_of_its_lines(lint_text: Lint) -> None:
    """The finding stands two lines below the line that the comment is above of."""
    result = lint_text(SCRIPT.replace("ABOVE", f"# planner: ignore[{LENGTH}]").replace("END", ""), settings=SETTINGS)
    (finding, suppression), *_ = result.suppressed
    assert (finding.position.line, suppression.first, suppression.last) == (16, 14, 16)


def annotated(place: int, value: str) -> str:
    """MANIFEST with an annotation: on the object (0) or the pod template (1)."""
    parts = MANIFEST.split("annotations: {}")
    parts[place] += f"annotations: {{planner/ignore: {json.dumps(value)}}}"
    parts[1 - place] += "annotations: {}"
    return "".join(parts)


@pytest.mark.parametrize("place", [0, 1], ids=["object", "pod template"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (LENGTH, [(LENGTH, "")]),
        (f"{LENGTH}: a reason: of two parts", [(LENGTH, "a reason: of two parts")]),
        (f"{LENGTH}, {IMAGE}: both", [(IMAGE, "both"), (LENGTH, "both")]),
        (f"{LENGTH}: one; {IMAGE}: two", [(IMAGE, "two"), (LENGTH, "one")]),
        (f"{LENGTH}: one\n{IMAGE}: two\n", [(IMAGE, "two"), (LENGTH, "one")]),
    ],
)
def test_an_annotation(lint_text: Lint, place: int, value: str, expected: list[tuple[str, str]]) -> None:
    result = lint_text(annotated(place, value), settings=SETTINGS)
    assert suppressed(result) == expected
    assert result.unused_suppressions == ()


def test_an_annotation_speaks_for_its_object_only(lint_text: Lint) -> None:
    both = annotated(0, LENGTH) + "---\n" + MANIFEST.replace("name: llm", "name: other")
    result = lint_text(both, settings=Settings(select=(LENGTH,)))
    assert [finding.workload for finding in result.findings] == ["Deployment/other"]
    assert [finding.workload for finding, _ in result.suppressed] == ["Deployment/llm"]


@pytest.mark.parametrize("quiet_first", [True, False])
def test_objects_of_the_same_kind_and_name_are_told_apart(lint_text: Lint, quiet_first: bool) -> None:
    """In one file (two namespaces) and in two files (two overlays)."""
    quiet, loud = annotated(0, LENGTH), MANIFEST
    pair = (quiet, loud) if quiet_first else (loud, quiet)
    one_file = lint_text("---\n".join(pair), settings=Settings(select=(LENGTH,)))
    two_files = lint_text(*pair, settings=Settings(select=(LENGTH,)))
    for result in (one_file, two_files):
        assert len(result.findings) == len(result.suppressed) == 1
    first, second = one_file.findings[0].position.line, one_file.suppressed[0][0].position.line
    assert (second < first) == quiet_first
    assert two_files.findings[0].position.file == ("manifest-2.yaml" if quiet_first else "manifest-1.yaml")


def test_what_both_a_comment_and_an_annotation_cover_leaves_neither_unused(lint_text: Lint) -> None:
    manifest = annotated(0, LENGTH).replace("# VALUE", f"# planner: ignore[{LENGTH}]")
    result = lint_text(manifest, settings=SETTINGS)
    assert len(result.suppressed) == 1
    assert result.unused_suppressions == ()


def test_an_unused_one_is_told_with_its_place(lint_text: Lint) -> None:
    result = lint_text(at("IMAGE", "# planner: ignore[gpus-idle] time slicing"))
    unused = [entry for entry in result.unused_suppressions if entry.rules == ("gpus-idle",)]
    assert [(entry.position.line, entry.position.column) for entry in unused] == [(16, 63)]
    assert "manifest-1.yaml:16:63: unused suppression: nothing to ignore for gpus-idle" in text.render(result)
    entry = json.loads(json_report.render(result))["unused_suppressions"][0]
    assert (entry["file"], entry["line"], entry["rules"]) == ("manifest-1.yaml", 16, ["gpus-idle"])
    assert result.exit_code == 1, "it is no error of its own; the findings decide"


@pytest.mark.parametrize(
    "manifest",
    [
        at("VALUE", "# planner: ignore[kv-cache-below-one-reqest] typo"),
        annotated(0, "kv-cache-below-one-reqest: typo"),
        annotated(1, "kv-cache-below-one-reqest"),
    ],
    ids=["comment", "object", "pod template"],
)
def test_an_unknown_rule_is_said_with_the_nearest_one(lint_text: Lint, manifest: str) -> None:
    result = lint_text(manifest)
    assert [unused.message for unused in result.unused_suppressions] == [
        f"suppression of 'kv-cache-below-one-reqest', which is no rule; did you mean {LENGTH}?"
    ]
    assert LENGTH in rules(result)


def test_an_unknown_rule_is_said_even_where_only_some_rules_run(lint_text: Lint) -> None:
    result = lint_text(at("VALUE", "# planner: ignore[nonsense, gpus-idle]"), settings=SETTINGS)
    assert [unused.rules for unused in result.unused_suppressions] == [("nonsense",)]


def test_a_rule_that_does_not_run_is_not_called_unused(lint_text: Lint) -> None:
    manifest = at("IMAGE", f"# planner: ignore[{IMAGE}]")
    assert lint_text(manifest, settings=Settings(select=(LENGTH,))).unused_suppressions == ()
    assert lint_text(manifest, settings=Settings(ignore=(IMAGE,))).unused_suppressions == ()


def test_a_rule_that_could_not_be_evaluated_is_not_called_unused(lint_text: Lint) -> None:
    unknown = at("VALUE", f"# planner: ignore[{LENGTH}] on our cards").replace(
        "      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}\n", ""
    )
    result = lint_text(unknown, settings=SETTINGS)
    assert LENGTH in {gap.rule for gap in result.not_evaluated}
    assert result.unused_suppressions == ()
    # … but it is where another file is the one that lacks the fact.
    fits = at("VALUE", f"# planner: ignore[{LENGTH}]").replace("131072", "8192")
    both = lint_text(fits, unknown, settings=SETTINGS)
    assert [unused.position.file for unused in both.unused_suppressions] == ["manifest-1.yaml"]


def test_an_effect_that_its_cause_speaks_for_is_not_called_unused(lint_text: Lint) -> None:
    too_large = MANIFEST.replace("Llama-3.1-8B-Instruct", "Llama-3.3-70B-Instruct").replace(
        "# VALUE", f"# planner: ignore[{LENGTH}] known"
    )
    result = lint_text(too_large, settings=Settings(select=(LENGTH, "weights-do-not-fit")))
    assert rules(result) == ["weights-do-not-fit"]
    assert result.unused_suppressions == ()


@pytest.mark.parametrize(
    "comment",
    [
        "# planner: something else",
        "# planner: v1.2.3",
        "# planner: ignored by the old scheduler",
        "# planner: ignore-me",
        "# planner:",
        "# planner: [ignore]",
        "# my planner ignore[x]",
        "# query planner: see the wiki",
    ],
)
def test_comments_for_other_planners_are_silent(lint_text: Lint, comment: str) -> None:
    result = lint_text(at("VALUE", comment), settings=SETTINGS)
    assert result.problems == ()
    assert result.unused_suppressions == ()
    assert rules(result) == [IMAGE, LENGTH]


@pytest.mark.parametrize(
    "comment", ["# planner: ignore", "# planner: ignore[]", "# planner: ignore[ , ]", "# planner: ignore x"]
)
def test_a_comment_that_names_no_rule_is_an_error(lint_text: Lint, comment: str) -> None:
    result = lint_text(at("VALUE", comment), settings=SETTINGS)
    assert [(problem.position.line, "ignore[rule-id] reason" in problem.message) for problem in result.problems] == [
        (20, True)
    ]
    assert result.exit_code == 2


@pytest.mark.parametrize(("value", "wrong"), [("", False), ("  ", False), (": reason", True), (";;", True)])
def test_an_annotation_that_names_no_rule_is_an_error(lint_text: Lint, value: str, wrong: bool) -> None:
    result = lint_text(annotated(0, value), settings=SETTINGS)
    assert [problem.message for problem in result.problems] == ["planner/ignore must read 'rule-id: reason'"] * wrong


def test_text_inside_values_is_no_comment(lint_text: Lint) -> None:
    manifest = MANIFEST.replace("name: llm\n", f'name: "llm # planner: ignore[{LENGTH}]"\n', 1)
    assert LENGTH in rules(lint_text(manifest, settings=SETTINGS))


def test_suppressed_findings_are_counted_and_listed(lint_text: Lint) -> None:
    result = lint_text(at("NAME", f"# planner: ignore[{LENGTH}, {IMAGE}] a test rig"), settings=SETTINGS)
    assert text.render(result) == "0 errors, 0 warnings, 0 info; 2 suppressed (1 file, 1 workload, 1 engine)\n"
    listed = json.loads(json_report.render(result))["suppressed"]
    assert [(entry["rule"], entry["reason"], entry["by"]) for entry in listed] == [
        (IMAGE, "a test rig", "manifest-1.yaml:15:63"),
        (LENGTH, "a test rig", "manifest-1.yaml:15:63"),
    ]
