"""The shipped tables of flags, variables and quantization methods: complete, consistent, and those of the real parsers."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog.engines.table import entry_document, entry_tables, flag_document, flag_tables, write_flags
from planner.data import data_folder
from planner.engines import variable_table, vllm_quantization
from planner.engines.sglang_flag_table import flag_table as sglang_table
from planner.engines.version import parse_version
from planner.engines.vllm_flag_table import flag_table

GOLDEN = Path(__file__).parents[1] / "golden"
ENGINES = data_folder("schemas") / "engines"
PARSERS = json.loads((GOLDEN / "vllm-serve-arguments.json").read_text())["releases"]
SGLANG_PARSERS = json.loads((GOLDEN / "sglang-server-arguments.json").read_text())["releases"]


def document(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ENGINES / f"{name}.json").read_text())
    return found


@pytest.mark.parametrize("release", PARSERS)
def test_the_table_has_exactly_the_options_of_the_releases_own_parser(release: str) -> None:
    """Names, short forms and negations; the golden file says how the parser was asked."""
    spellings = {spelling.replace("_", "-") for spelling in flag_table(parse_version(release)).options}
    if release.startswith("0.6"):
        spellings.remove("--config")  # added by `vllm serve` itself, which these releases build elsewhere
    wanted = PARSERS[release]
    assert len(spellings) == wanted["spellings"]
    assert hashlib.sha256("\n".join(sorted(spellings)).encode()).hexdigest() == wanted["sha256"]


@pytest.mark.parametrize("release", SGLANG_PARSERS)
def test_so_has_sglangs(release: str) -> None:
    spellings = {spelling.replace("_", "-") for spelling in sglang_table(parse_version(release)).options}
    wanted = SGLANG_PARSERS[release]
    assert len(spellings) == wanted["spellings"]
    assert hashlib.sha256("\n".join(sorted(spellings)).encode()).hexdigest() == wanted["sha256"]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_flag_tables_follow_their_schema_and_come_out_of_the_document_unchanged(engine: str, tmp_path: Path) -> None:
    found = document(f"{engine}_flags")
    jsonschema.validate(found, json.loads((data_folder("schemas") / "engine-flags.schema.json").read_text()))
    again = flag_document(found, flag_tables(found))
    assert again == found
    write_flags(tmp_path / "flags.json", again)
    assert (tmp_path / "flags.json").read_text() == (ENGINES / f"{engine}_flags.json").read_text()
    assert found["releases"] == sorted(found["releases"], key=parse_version)
    for old, new in found["renamed"].items():
        assert old in found["flags"]
        assert new in found["flags"] or new.removeprefix("no-") in found["flags"]


@pytest.mark.parametrize(
    ("name", "key"),
    [("vllm_variables", "variables"), ("sglang_variables", "variables"), ("vllm_quantization", "methods")],
)
def test_entries_come_out_of_their_document_unchanged(name: str, key: str) -> None:
    found = document(name)
    jsonschema.validate(found, json.loads((data_folder("schemas") / "engine-entries.schema.json").read_text()))
    assert entry_document(found, key, entry_tables(found, key)) == found
    assert found["releases"] == document(f"{name.partition('_')[0]}_flags")["releases"]


RELEASES = ("0.6.0", "0.6.3.post1", "0.7.0", "0.10.0", "0.11.1")
definitions = st.fixed_dictionaries({"kind": st.sampled_from(("int", "str"))}, optional={"default": st.integers(0, 2)})
tables = st.fixed_dictionaries(
    {release: st.dictionaries(st.sampled_from("abc"), definitions, max_size=3) for release in RELEASES}
)


@settings(max_examples=60, deadline=None)
@given(tables)
def test_any_tables_survive_being_written_as_variants(found: dict[str, Any]) -> None:
    """Flags that come, change, go and come back."""
    made = flag_document({"engine": "x", "renamed": {"a": "b"}}, found)
    assert flag_tables(made) == found


@pytest.mark.parametrize(
    ("release", "exact", "nearest"),
    [("0.11.0", True, "0.11.0"), ("0.11.0.post1", False, "0.11.0"), ("0.5.4", False, "0.6.0"), ("0.99.0", False, "0.33.0"),
     ("0.11.1rc1", False, "0.11.0")],
)  # fmt: skip
def test_a_release_that_was_not_read_has_the_table_of_the_nearest(release: str, exact: bool, nearest: str) -> None:
    table = flag_table(parse_version(release))
    assert (table.exact, table.release) == (exact, nearest)


def test_facts_by_release() -> None:
    """Spot checks against the change log in the reference on vLLM's memory, section 10, and 2.7."""
    for name, since, until in (
        ("swap-space", None, "0.18.0"), ("num-scheduler-steps", None, "0.10.1"), ("enable-dbo", "0.11.0", None),
        ("cuda-graph-sizes", "0.9.0", "0.13.0"), ("calculate-kv-scales", "0.7.0", "0.28.0"),
        ("optimization-level", "0.12.0", None), ("kv-cache-memory-bytes", "0.10.2", None), ("watermark", "0.24.0", None),
        ("guided-decoding-backend", None, "0.12.0"), ("disable-log-requests", None, "0.17.0"),
    ):  # fmt: skip
        if since:
            assert flag_table(parse_version(since)).has(name), name
            assert flag_table((0, 6)).added_in(name) == since, name
        if until:
            table = flag_table(parse_version(until))
            assert not table.has(name), name
            assert table.gone_in(name) == until, name
    utilization = [
        flag_table(parse_version(release)).flags["gpu-memory-utilization"] for release in ("0.19.1", "0.20.0")
    ]
    assert [spec.default for spec in utilization] == [0.9, 0.92]
    assert utilization[1].facts["range"] == {"gt": 0, "le": 1}
    assert "fp8_ds_mla" not in flag_table((0, 11, 0)).flags["kv-cache-dtype"].choices
    assert "fp8_ds_mla" in flag_table((0, 11, 1)).flags["kv-cache-dtype"].choices
    assert flag_table((0, 33, 0)).flags["disable-cascade-attn"].deprecated
    assert "hermes" in flag_table((0, 11, 0)).flags["tool-call-parser"].facts["registered"]
    assert sglang_table((0, 5, 5)).flags["host"].default == "127.0.0.1"


def test_variables_by_release() -> None:
    def read(name: str, release: str) -> bool:
        found = variable_table.variable("vllm", name, parse_version(release))
        return found is not None and found.read

    assert read("VLLM_ATTENTION_BACKEND", "0.14.1")
    assert not read("VLLM_ATTENTION_BACKEND", "0.15.0")
    assert read("VLLM_USE_V1", "0.11.0")
    assert not read("VLLM_USE_V1", "0.11.1")
    assert read("VLLM_SNAPSHOT_TIMEOUT_S", "0.33.0")  # read outside of vllm/envs.py
    assert variable_table.variable("vllm", "VLLM_LOGING_LEVEL", (0, 11, 0)) is None
    found = variable_table.variable("vllm", "VLLM_ATTENTION_BACKEND", (0, 26, 0))
    assert found is not None
    assert (found.until, found.instead) == ("0.15.0", "--attention-backend")


def test_quantization_methods_by_release() -> None:
    """Section 5.7 of the reference on vLLM's memory."""
    found = vllm_quantization.method("bitsandbytes", (0, 28, 0))
    assert found is not None
    assert not found.active
    assert found.until == "0.28.0"
    gguf = vllm_quantization.method("gguf", (0, 24, 0))
    assert gguf is not None
    assert gguf.until == "0.24.0"
    capability = {}
    for name, release in (
        ("fp8", "0.11.0"),
        ("fp8", "0.33.0"),
        ("awq_marlin", "0.11.0"),
        ("gptq", "0.33.0"),
        ("modelopt", "0.17.1"),
    ):
        entry = vllm_quantization.method(name, parse_version(release))
        assert entry is not None
        capability[name, release] = entry.capability
    assert capability == {
        ("fp8", "0.11.0"): 80, ("fp8", "0.33.0"): 75, ("awq_marlin", "0.11.0"): 80, ("gptq", "0.33.0"): 60,
        ("modelopt", "0.17.1"): 89,
    }  # fmt: skip
    deprecated = vllm_quantization.method("fbgemm_fp8", (0, 33, 0))
    assert deprecated is not None
    assert deprecated.deprecated
    assert vllm_quantization.method("no-such-method", (0, 33, 0)) is None
