"""Capacity in requests and the policies of the reserve."""

from __future__ import annotations

import pytest

from planner.admission.capacity import Cache, request_capacity, running_requests
from planner.admission.growth import Growth, growth_of_group, growths
from planner.admission.mix import mix_of
from planner.admission.reserve import POLICIES, next_step_blocks, progress, reserve_of
from planner.admission.workload import read_workload
from planner.memory.budget import KVGroup, KVPlan

CACHE = Cache(3000, (Growth(16),), 256, 16384, 8192)
WORKLOAD = read_workload(
    {"prompt_tokens": "p50=800,p95=3000,max=6000", "output_tokens": "p50=200,p95=800,max=2000"}, 16384
)
MIX = mix_of(WORKLOAD, CACHE.growths, 16384)


def test_the_policies_ask_for_more_and_more() -> None:
    next_step, finish, quantile, worst = (reserve_of(policy, CACHE, MIX, 12, 0.01) for policy in POLICIES)
    assert next_step.held < next_step.needed < finish.needed < worst.needed
    assert next_step.needed < quantile.needed < worst.needed
    assert next_step.reserved == 12
    assert finish.reserved == 11 + 125  # eleven next steps, and 2,000 tokens of output to go
    assert worst.needed == 12 * 500


def test_a_policy_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="there are next-step, finish-longest"):
        reserve_of("hope", CACHE, MIX, 12, 0.01)


def test_lookahead_takes_more_in_a_step() -> None:
    assert next_step_blocks((Growth(16), Growth(16, fixed=1, copies=4)), 0) == 1
    assert next_step_blocks((Growth(16, copies=3),), 20) == 6


def test_what_keeps_the_reserve_keeps_it() -> None:
    found = progress(CACHE, MIX, 100, 0.01)
    assert not found.kept
    assert found.overflow.risk == 1
    assert 0 < found.most_running < 3000 / MIX.mean
    again = progress(CACHE, MIX, found.most_running, 0.01)
    assert again.kept
    assert again.overflow.risk <= 0.0101
    assert again.available + again.required.reserved == 3000
    assert not progress(CACHE, MIX, found.most_running + 1, 0.01).kept


def test_the_engines_own_watermark_is_counted() -> None:
    found = progress(CACHE, MIX, 100, 0.01)
    assert 0 < found.watermark < 0.3
    kept = progress(CACHE._replace(watermark_blocks=int(found.watermark * 3001)), MIX, 100, 0.01)
    assert kept.running < 100  # no more are let in
    assert kept.engine_keeps == kept.required.held + int(found.watermark * 3001) - kept.required.held
    assert kept.kept
    half = progress(CACHE._replace(watermark_blocks=int(found.watermark * 3001) // 2), MIX, 100, 0.01)
    assert not half.kept


@pytest.mark.parametrize("policy", POLICIES)
def test_the_policy_that_is_asked_for_is_the_one_that_counts(policy: str) -> None:
    mix = MIX._replace(policy=policy)
    found = progress(CACHE, mix, 20, 0.01)
    assert found.required == found.policies[POLICIES.index(policy)]
    most = found.most_running
    assert progress(CACHE, mix, most, 0.01).kept
    assert not progress(CACHE, mix, most + 1, 0.01).kept
    assert (found.watermark > 0) == (policy == "quantile")


def test_capacity_in_requests() -> None:
    found = request_capacity(CACHE, MIX, 15)
    assert found.full_length == pytest.approx(3000 / 1024)
    assert found.of_mix == pytest.approx(3000 / MIX.mean)
    assert found.tokens_of_mix == pytest.approx(3000 * 16, rel=0.02)


def test_the_running_set_is_what_is_asked_for_as_far_as_the_engine_lets_it() -> None:
    assert running_requests(CACHE, MIX, None) == 256
    assert running_requests(CACHE, MIX, 50) == 50
    assert running_requests(CACHE._replace(copies=4), MIX, 50) == 13
    assert running_requests(CACHE, MIX, 500) == 256
    # A batch of 64 tokens feeds prompts for a dozen requests only.
    assert running_requests(CACHE._replace(max_num_batched_tokens=64), MIX, None) < 20


def test_groups_of_a_layout_become_growths() -> None:
    full = KVGroup("full", 8, 16, 4096, 1024)
    window = KVGroup("window", 8, 16, 4096, 578, window=1024, held_tokens=1023 + 8192, extra_blocks=1)
    state = KVGroup("state", 8, 528, 4096, 2, fixed_blocks=2)
    layout = KVPlan(16, 8 * 4096, 4096, 0.0, (full, window, window, state), 2182)
    found = growths(layout)
    assert [growth.copies for growth in found] == [1, 2, 1]
    decoding, admitted = found[1].blocks(16384), found[1].admission_blocks(16384)
    assert (decoding, admitted) == (65, 577)
    assert found[2].blocks(1) == found[2].blocks(10**6) == 2
    chunk = growth_of_group(KVGroup("chunked", 8, 16, 4096, 1, window=8192, held_tokens=16384))
    assert chunk.blocks(10**6) == 512
