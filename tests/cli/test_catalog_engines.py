"""``planner catalog engines``: the flags of a release, and what an upgrade changes."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Run


def test_a_release_shows_its_flags(run: Run) -> None:
    found = json.loads(run("catalog", "engines", "vllm", "0.11.0", "--format", "json").stdout)
    assert (found["engine"], found["release"], found["note"]) == ("vllm", "0.11.0", "")
    assert len(found["flags"]) == 183
    rows = {row["flag"]: row for row in found["flags"]}
    assert rows["--swap-space"] | {"note": ""} == {
        "flag": "--swap-space", "value": "float", "default": "4", "since": "≤0.6.0", "until": "0.18.0", "note": "",
    }  # fmt: skip
    assert rows["--disable-log-requests"]["note"] == "deprecated, use --no-enable-log-requests"
    assert "VLLM_USE_V1" in found["variables"]
    text = run("catalog", "engines", "vllm", "0.11.0").stdout
    assert text.splitlines()[0].split() == ["flag", "value", "default", "since", "until", "note"]
    assert "183 flags of vllm 0.11.0, which reads" in text


def test_one_flag_in_full(run: Run) -> None:
    text = run("catalog", "engines", "vllm", "0.11.0", "kv_cache_dtype").stdout
    assert "choices:  auto, bfloat16, fp8, fp8_e4m3, fp8_e5m2, fp8_inc" in text
    assert "--tool-call-parser" in run("catalog", "engines", "vllm", "0.11.0", "tool-call").stdout
    missing = run("catalog", "engines", "vllm", "0.33.0", "swap-space")
    assert missing.exit_code == 2
    assert "it was removed in 0.18.0" in missing.stderr


def test_a_release_that_was_not_read_says_so(run: Run) -> None:
    text = run("catalog", "engines", "vllm", "0.99.0", "max-num-seqs").stdout
    assert "vllm 0.99.0 was not read: this is the table of 0.33.0, the nearest release." in text
    assert "531 flags of sglang 0.5.23" in run("catalog", "engines", "sglang").stdout


def test_what_an_upgrade_changes(run: Run) -> None:
    found = json.loads(run("catalog", "engines", "vllm", "--diff", "0.10.2", "0.11.0", "--format", "json").stdout)
    changes = {(row["change"], row["flag"]): row["detail"] for row in found["changes"]}
    assert ("removed", "--max-seq-len-to-capture") in changes
    assert ("removed", "--preemption-mode") in changes
    assert ("added", "--enable-dbo") in changes
    assert changes["deprecated", "--guided-decoding-backend"] == "deprecated, use --structured-outputs-config"
    assert changes["changed", "--kv-cache-dtype"] == "also bfloat16"
    assert next(row["change"] for row in found["changes"]) == "removed"
    text = run("catalog", "engines", "vllm", "--diff", "0.14.1", "0.15.0").stdout
    assert "variable, use --attention-backend" in text
    assert "changes from vllm 0.14.1 to 0.15.0" in text
    assert "default 0.9 → 0.92" in run("catalog", "engines", "vllm", "--diff", "0.19.1", "0.20.0").stdout


@pytest.mark.parametrize(
    "arguments",
    [(), ("ollama",), ("vllm", "latest"), ("vllm", "0.11.0", "no-such-flag"), ("vllm", "0.11.0", "--diff", "0.1", "0.2"),
     ("vllm", "--diff", "old", "new")],
    ids=" ".join,
)  # fmt: skip
def test_what_cannot_be_answered_is_two(run: Run, arguments: tuple[str, ...]) -> None:
    result = run("catalog", "engines", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
