"""Engine versions: parsing and order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.engines.version import NEWEST_VLLM, is_version, parse_version, version_key

IN_ORDER = [
    "0.6.3",
    "0.6.3.post1",
    "0.6.4.dev12+g1234abc",
    "0.6.4",
    "0.8.5",
    "0.8.5.post1",
    "0.10.1",
    "0.10.1.1",
    "0.10.2",
    "0.11.0.dev5",
    "0.11.0rc1",
    "0.11.0rc2",
    "0.11.0",
    "0.11.1rc3",
    "0.11.1",
    NEWEST_VLLM,
    "1.0.0",
]


def test_releases_follow_each_other() -> None:
    keys = [parse_version(text) for text in IN_ORDER]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("0.6.3.post1", (0, 6, 3, 1)),
        ("0.10.1.1", (0, 10, 1, 1)),
        ("v0.11.0", (0, 11, 0)),
        ("0.11.0-cu129", (0, 11, 0)),
        ("0.11.0+cu129", (0, 11, 0)),
        ("0.11", (0, 11, 0)),
        (" 1 ", (1, 0, 0)),
    ],
)
def test_spellings(text: str, key: tuple[int, ...]) -> None:
    assert parse_version(text) == key


@pytest.mark.parametrize("text", ["", "latest", "nightly", "0.11.x", "gemma4", "9" * 5000, "0." * 500])
def test_what_is_no_version(text: str) -> None:
    assert not is_version(text)
    with pytest.raises(ValueError, match="is not a version"):
        parse_version(text)
    assert version_key(text) == parse_version(NEWEST_VLLM)


@settings(max_examples=60)
@given(st.text(max_size=40))
def test_never_another_error(text: str) -> None:
    assert isinstance(version_key(text), tuple)
    if is_version(text):
        assert len(parse_version(text)) >= 3
