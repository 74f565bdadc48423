"""Which release a plan is of, where an annotation states one."""

from __future__ import annotations

import json

import pytest

from tests.facts.plans import LLAMA, plan_of
from tests.rules.manifests import manifest


@pytest.mark.parametrize(
    ("stated", "release"),
    [("0.8.5", "0.8.5"), ("vllm==v0.8.5", "0.8.5"), ("latest", "0.10.0"), ("", "0.10.0"), ("see wiki", "0.10.0")],
)
def test_a_word_that_is_no_release_does_not_hide_what_the_image_says(stated: str, release: str) -> None:
    document = json.loads(manifest([LLAMA], "0.10.0"))
    document["metadata"]["annotations"] = {"planner/engine-version": stated}
    assert plan_of(json.dumps(document)).engine.version.value == release
