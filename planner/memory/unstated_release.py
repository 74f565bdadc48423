"""A start whose release nothing states: what older releases would have done, so that the intervals cover it.

Expected values stay those of the newest release (or of the oldest that matters, where most public logs without a release are
of it); only what a release decides is widened, never what the manifest says.
"""

from __future__ import annotations

from planner.engines.config import EffectiveConfig
from planner.estimate import Estimate
from planner.memory.budget import Input, Term
from planner.models.architecture import (
    ChunkedLocal,
    LatentAttention,
    ModelArchitecture,
    RecurrentState,
    SlidingWindow,
)
from planner.record import replace

#: Default of gpu-memory-utilization before 0.20, for a release that is only assumed.
_OLDER_UTILIZATION = 0.9
#: Release that stands for the older ones where nothing states the release: the last with the samplers and the accounting
#: before 0.12, which most public start-up logs without a release show.
_OLDER_RELEASE = (0, 11, 2)
#: Releases up to 0.20.1 log a number of slots that says little of windows and states; the later meaning stands for them too.
_TOKENS_SINCE = (0, 20, 2)
#: The last releases before the cache's arithmetic changed: windows keep two batches (0.26), hybrids cache prefixes by
#: default (0.28), pages of several sizes are packed anew (0.29).
_ONE_BATCH, _NO_PREFIXES, _FIRST_PREFIXES = (0, 25, 1), (0, 27, 1), (0, 28)
_DEFAULTED = ("engine-default", "assumption")


def older_release(config: EffectiveConfig) -> EffectiveConfig | None:
    """The same start under the oldest release that matters, None where that is not known or the same: the last release of
    the old accounting, or the first that has the model."""
    if not config.oldest_release:
        return None
    version = max(_OLDER_RELEASE, config.oldest_release)
    if version >= config.version:
        return None
    utilization = config.gpu_memory_utilization
    if version < (0, 20) and utilization.provenance.source in _DEFAULTED:
        utilization = replace(utilization, value=min(_OLDER_UTILIZATION, utilization.value))
    return replace(
        config,
        version=version,
        runner=config.runner if version >= (0, 25) else "v1",
        sampler="torch" if version < (0, 17) else "triton" if version < (0, 21) else config.sampler,
        gpu_memory_utilization=utilization,
        frontend_reserved=0,
    )


def is_typical(older: EffectiveConfig) -> bool:
    """Whether a start without a release is more likely of this older release: most such public logs are."""
    return older.version <= _OLDER_RELEASE


def joined(newest: Term, older: Term, release: tuple[int, ...], typical: bool) -> Term:
    """One term for a release that nothing states: both intervals, and the expectation of the older where that is typical."""
    if newest.bytes == older.bytes and newest.counted == older.counted:
        return newest
    shown = older if typical else newest
    size = spanning(shown.bytes, [newest.bytes, older.bytes])
    return shown._replace(bytes=size._replace(basis="assumed"), inputs=(*shown.inputs, unstated(release)))


def spanning(shown: Estimate, others: list[Estimate]) -> Estimate:
    """An estimate whose interval spans those of other releases; the expectation stays."""
    low = min((shown.low, *(other.low for other in others)))
    high = max((shown.high, *(other.high for other in others)))
    if (low, high) == (shown.low, shown.high):
        return shown
    return Estimate(low, shown.expected, high, "assumed")


def unstated(since: tuple[int, ...]) -> Input:
    """Says of a term that its interval spans several releases."""
    return Input(
        "release", f"not stated: {'.'.join(map(str, since[:3]))} up to the newest", "start-up logs without one"
    )


def accountings(model: ModelArchitecture, config: EffectiveConfig) -> list[EffectiveConfig]:
    """The start under releases that count the cache's tokens otherwise, oldest first; none where all count alike.

    Full attention alone is counted alike by all of them. Source: reference on vLLM's memory, 2.3, 3.3–3.7.
    """
    if not config.oldest_release or config.runner == "v0":
        return []
    first = max(_TOKENS_SINCE, config.oldest_release)
    kinds = {layer.attention for layer in model.layers}
    recurrent = any(isinstance(kind, RecurrentState) for kind in kinds)
    packed = any(getattr(kind, "window", 0) and isinstance(kind, LatentAttention) for kind in kinds)
    versions: set[tuple[int, ...]] = set()
    if packed or any(isinstance(kind, (SlidingWindow, ChunkedLocal)) for kind in kinds):
        versions.add(_ONE_BATCH)
    if recurrent:
        versions.add(_NO_PREFIXES)
    if recurrent or packed:  # until 0.28 pages are packed otherwise, until 0.31 fewer states are held
        versions.add(max(_FIRST_PREFIXES, first))
    made = []
    for version in sorted(versions):
        if not first <= version < config.version:
            continue
        prefix, mode = config.prefix_caching, config.mamba_cache_mode
        if recurrent and version < (0, 28) and prefix.provenance.source in _DEFAULTED:
            prefix, mode = replace(prefix, value=False), "none"
        in_flight = config.max_num_batched_tokens_in_flight
        made.append(
            replace(
                config,
                version=version,
                prefix_caching=prefix,
                mamba_cache_mode=mode,
                max_num_batched_tokens_in_flight=config.max_num_batched_tokens.value
                if version < (0, 26)
                else in_flight,
            )
        )
    return made
