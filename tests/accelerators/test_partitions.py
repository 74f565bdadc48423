"""Slices and shares of a device."""

from __future__ import annotations

import pytest

from planner.accelerators.catalog import all_accelerators, named
from planner.accelerators.partitions import canonical_profile, fraction, limited, partition, resolve, time_shared
from planner.units import GIB


@pytest.mark.parametrize(
    ("text", "profile"),
    [("1g.10gb", "1g.10gb"), ("mig-1g.10gb.me", "1g.10gb+me"), ("nvidia.com/mig-3g.40gb", "3g.40gb"),
     ("MIG-1g.5gb", "1g.5gb"), ("1g.10gb+ME", "1g.10gb+me"), ("all", ""), ("1g10gb", ""), ("", "")],
)  # fmt: skip
def test_spellings_of_a_profile(text: str, profile: str) -> None:
    assert canonical_profile(text) == profile


def test_a_measured_slice() -> None:
    slice_ = partition(named("A100-40GB-SXM"), "1g.5gb")
    assert slice_.memory.expected == round(4.75 * GIB)
    assert slice_.memory.basis == "measured"
    assert slice_.partition == "1g.5gb"
    assert slice_.capability == (8, 0)


def test_a_slice_without_a_public_figure_is_its_share_of_the_memory() -> None:
    h200 = named("H200")
    slice_ = partition(h200, "3g.71gb")
    assert slice_.memory.basis == "assumed"
    assert 0.45 * h200.memory.expected < slice_.memory.low < slice_.memory.expected < slice_.memory.high
    assert slice_.memory.high == round(h200.memory.expected / 2)
    assert partition(named("A30"), "2g.12gb").memory.high == round(named("A30").memory.expected / 2)
    assert partition(named("RTX-PRO-6000-Server"), "1g.24gb").memory.high < 24 * GIB


def test_every_profile_of_the_catalog_gives_a_slice_within_its_product() -> None:
    profiles = 0
    for product in all_accelerators():
        for profile in product.partitions:
            slice_ = partition(product, profile)
            profiles += 1
            assert 0 < slice_.memory.low <= slice_.memory.expected <= slice_.memory.high <= product.memory.high
            size = float(profile.split(".")[1].split("gb")[0])
            assert 0.8 * size <= slice_.memory.expected / GIB <= size, (product.name, profile)
    assert profiles > 100


def test_unknown_profiles_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no MIG profile '1g.5gb'; its profiles: 1g.10gb"):
        partition(named("H100-80GB-SXM"), "1g.5gb")
    with pytest.raises(ValueError, match="its profiles: none"):
        partition(named("L4"), "1g.5gb")


def test_names_with_a_slice() -> None:
    [h200] = resolve("NVIDIA-H200-MIG-1g.18gb-SHARED")
    assert h200.shared
    assert h200.partition == "1g.18gb"
    assert h200.memory.expected == 16 * GIB
    assert [a.name for a in resolve("A100 1g.5gb")] == ["A100-40GB-SXM MIG 1g.5gb", "A100-40GB-PCIe MIG 1g.5gb"]
    assert resolve("A100-SXM4-40GB-MIG-1g.10gb")[0].partition == "1g.10gb"
    assert resolve("L4-SHARED")[0].shared
    assert resolve("L4 MIG 1g.5gb") == ()
    assert resolve("NVIDIA-A100-SXM4-80GB-MIG-INVALID") == ()


def test_shares() -> None:
    l4 = named("L4")
    assert limited(l4, 8 * GIB, "HAMi").memory.expected == 8 * GIB
    assert limited(l4, 80 * GIB, "HAMi").memory == l4.memory
    half = fraction(l4, 0.5, "half")
    assert half.memory.high == round(l4.memory.high / 2)
    assert half.memory.low < half.memory.expected < half.memory.high
    assert time_shared(l4).shared
    assert time_shared(l4).memory == l4.memory
