"""The catalog's files, and finding a product by any of its names."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.accelerators.catalog import all_accelerators, candidates, lookup, named, suggest
from planner.accelerators.instance_types import instance_type
from planner.units import GIB

ROOT = Path(__file__).resolve().parents[2]
CATALOG = ROOT / "planner" / "catalog" / "accelerators"
SHARED = ROOT.parent / "shared"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared reference facts are not here")


def names(text: str) -> list[str]:
    return [accelerator.name for accelerator in candidates(text)]


def test_every_file_follows_the_schema() -> None:
    import jsonschema

    schema = json.loads((ROOT / "schemas" / "catalog-accelerator.schema.json").read_text(encoding="utf-8"))
    product = jsonschema.Draft202012Validator(schema)
    instances = jsonschema.Draft202012Validator({**schema["$defs"]["instances"], "$schema": schema["$schema"]})
    files = sorted(CATALOG.glob("*.json"))
    assert len(files) >= 45
    for file in files:
        entry = json.loads(file.read_text(encoding="utf-8"))
        product.validate(entry)
        assert file.stem == entry["name"].lower()
        memory = entry["memory"]
        assert memory["low_gib"] <= memory["expected_gib"] <= memory["high_gib"], file
        assert file.stat().st_size < 65536
    tables = sorted((CATALOG / "instances").glob("*.json"))
    assert sum(len(json.loads(t.read_text(encoding="utf-8"))["instances"]) for t in tables) >= 60
    for table in tables:
        instances.validate(json.loads(table.read_text(encoding="utf-8")))


def test_every_machine_type_names_a_product() -> None:
    for table in (CATALOG / "instances").glob("*.json"):
        for machine, entry in json.loads(table.read_text(encoding="utf-8"))["instances"].items():
            found = instance_type(machine)
            if found is None:  # Alibaba's table holds families
                found = instance_type(f"{machine}-c8g1.2xlarge")
            assert found, machine
            assert found.accelerators
            assert found.gpus == entry[1]


def test_every_product_is_found_by_its_own_name() -> None:
    for accelerator in all_accelerators():
        assert lookup(accelerator.name) == accelerator
        assert named(accelerator.name) == accelerator
        assert accelerator.name in names(accelerator.name.lower().replace("-", " "))


def test_ascending_memory() -> None:
    memory = [accelerator.memory.expected for accelerator in all_accelerators()]
    assert memory == sorted(memory)
    assert len(memory) == len(list(CATALOG.glob("*.json")))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("H100", "H100-80GB-SXM"),
        ("H100-80GB", "H100-80GB-SXM"),
        ("h100-sxm", "H100-80GB-SXM"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB-SXM"),
        ("NVIDIA H100 PCIe", "H100-80GB-PCIe"),
        ("NVIDIA-H100-NVL", "H100-NVL-94GB"),
        ("nvidia-l4", "L4"),
        ("A100-80GB", "A100-80GB-SXM"),
        ("Tesla-A100-80G", "A100-80GB-SXM"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"),
        ("A100-SXM4-40GB", "A100-40GB-SXM"),
        ("RTX-4090", "RTX-4090"),
        ("rtx4090", "RTX-4090"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA GeForce RTX 4090 D", "RTX-4090D"),
        ("RTX 4090 48GB", "RTX-4090-48GB"),
        ("nvidia-2080ti", "RTX-2080-Ti"),
        ("RTX 4070 Ti SUPER", "RTX-4070-Ti-SUPER"),
        ("MI300X", "MI300X"),
        ("AMD_Instinct_MI300X_OAM", "MI300X"),
        ("AMD Instinct MI300X VF", "MI300X"),
        ("MI355X (gfx950, 288 GiB/card)", "MI355X"),
        ("B200", "B200"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA GH200 480GB", "GH200-96GB"),
        ("NVIDIA GH200 144G HBM3e", "GH200-144GB"),
        ("GB200 NVL72", "GB200"),
        ("H200", "H200"),
        ("H200 NVL", "H200-NVL"),
        ("H200-SXM5-141GB", "H200"),
        ("NVIDIA-H20-SXM5-96GB", "H20-96GB"),
        ("H20-3e", "H20-141GB"),
        ("RTX PRO 6000", "RTX-PRO-6000-Server"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX-PRO-6000-Workstation"),
        ("RTX PRO 6000 Blackwell Max-Q", "RTX-PRO-6000-Max-Q"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada"),
        ("Quadro RTX 6000", "Quadro-RTX-6000"),
        ("A6000", "RTX-A6000"),
        ("GB10", "GB10"),
        ("DGX Spark", "GB10"),
        ("NVIDIA Thor", "Jetson-Thor-128GB"),
        ("Tesla T4", "T4"),
        ("L40S 48GB", "L40S"),
        ("Gaudi 3", "Gaudi3"),
        ("tpu-v5-lite-podslice", "TPU-v5e"),
        ("TPU v6e", "TPU-v6e"),
        ("Ascend910B3", "Ascend-910B-64GB"),
        ("Intel Arc Pro B60", "Arc-Pro-B60"),
        ("AMD Radeon AI PRO R9700", "R9700"),
        ("trn1", "Trainium1"),
    ],
)
def test_names_as_people_and_drivers_write_them(text: str, name: str) -> None:
    found = lookup(text)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A100", ["A100-40GB-SXM", "A100-80GB-SXM", "A100-40GB-PCIe", "A100-80GB-PCIe"]),
        ("H20", ["H20-141GB", "H20-96GB"]),
        ("V100", ["V100-16GB", "V100-32GB"]),
        ("RTX-3080", ["RTX-3080-10GB", "RTX-3080-12GB"]),
        ("RTX PRO 5000 Blackwell", ["RTX-PRO-5000-Blackwell-48GB", "RTX-PRO-5000-Blackwell-72GB"]),
    ],
)
def test_names_that_leave_the_memory_open(text: str, expected: list[str]) -> None:
    assert names(text) == expected
    assert lookup(text) is None


def test_a_name_for_two_forms_covers_both() -> None:
    found, sxm, pcie = lookup("H100-80GB"), named("H100-80GB-SXM"), named("H100-80GB-PCIe")
    assert found is not None
    assert found.variants == ("H100-80GB-PCIe",)
    assert found.memory.low == min(sxm.memory.low, pcie.memory.low)
    assert found.memory.high == max(sxm.memory.high, pcie.memory.high)
    assert found.memory.expected == sxm.memory.expected


@pytest.mark.parametrize(
    "text",
    ["", " ", "nvidia", "gpu", "GeForce RTX", "RTX 4090 Laptop GPU", "RTX 6000", "H100-SXM5-94GB", "T4 96GB", "m5.xlarge",
     "../../etc/passwd", "h100/../h200", "\x00", "🦄", "a" * 100_000, "((((((", "%s%n", "true", "48GB", "SXM"],
)  # fmt: skip
def test_what_is_no_product_of_the_catalog(text: str) -> None:
    assert candidates(text) == ()
    assert lookup(text) is None


def test_memory_of_measured_cards() -> None:
    h100 = named("H100-80GB-SXM")
    assert h100.memory.basis == "measured"
    assert abs(h100.memory.expected / GIB - 79.18) < 0.01
    assert h100.capability == (9, 0)
    assert "fp8" in h100.low_precision
    assert named("GB10").unified
    assert named("GH200-96GB").coherent
    assert not named("GH200-96GB").unified
    assert named("MI300X").capability is None
    assert named("MI300X").arch == "gfx942"


def test_suggestions() -> None:
    assert "RTX-6000-Ada" in suggest("RTX 6000")
    assert suggest("H1000")
    assert suggest("🦄") == ()


@given(st.text(max_size=300))
@settings(max_examples=150, deadline=None)
def test_no_text_breaks_a_look_up(text: str) -> None:
    found = candidates(text)
    assert len(found) <= len(all_accelerators())
    assert len(suggest(text)) <= 3


@given(st.sampled_from(["h100", "RTX", "4090", "80", "GB", "A", "100", "-", " ", "(", "MI300X", "Ti", "nvl", "sxm"]).flatmap(
    lambda word: st.lists(st.sampled_from([word, "-", " ", "80GB", "SXM4", "Ada", "x2"]), max_size=40)
))  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_no_combination_of_words_is_slow(words: list[str]) -> None:
    start = time.perf_counter()
    candidates("".join(words))
    assert time.perf_counter() - start < 0.5


@needs_shared
def test_the_names_in_the_corpus_resolve() -> None:
    asked: list[str] = []
    for log in (SHARED / "corpus" / "logs").glob("*.jsonl"):
        asked += [json.loads(line).get("gpu") for line in log.read_text(encoding="utf-8").splitlines()]
    known_good = SHARED / "corpus" / "known-good.jsonl"
    asked += [json.loads(line).get("accelerator") for line in known_good.read_text(encoding="utf-8").splitlines()]
    asked = sorted({name for name in asked if name})
    missing = [name for name in asked if lookup(name) is None]
    assert len(asked) > 20
    assert len(missing) <= 0.03 * len(asked), missing


@needs_shared
def test_the_memory_that_logs_print_lies_in_the_interval() -> None:
    seen = 0
    for log in (SHARED / "corpus" / "logs").glob("*.jsonl"):
        for line in log.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            card, size = lookup(case.get("gpu") or ""), case.get("gpu_memory_gib")
            if card and size and size < 143:  # one case prints nvidia-smi's MiB / 1000
                seen += 1
                assert card.memory.low / GIB - 0.06 <= size <= card.memory.high / GIB + 0.06, case["id"]
    assert seen > 10


@needs_shared
def test_every_described_product_of_the_reference_is_in_the_catalog() -> None:
    missing = []
    with (SHARED / "reference" / "accelerators.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            found = lookup(row["name"])
            if found is None:
                missing.append(row["name"])
                continue
            if row["reported_gib_min"]:  # the interval holds every figure that was reported on Linux
                assert (
                    found.memory.low / GIB <= float(row["reported_gib_min"]) + 0.005 or found.memory.basis == "assumed"
                )
                assert found.memory.high / GIB >= float(row["reported_gib_max"]) - 0.005, row["name"]
    assert missing == ["B100"]  # no public figure of its memory
