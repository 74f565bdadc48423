"""From a model and its engine settings to blocks of KV cache, and from blocks to the numbers that the engine logs.

``kv_plan`` lays out the cache of one pipeline stage (all tensor-parallel ranks of a stage are alike); ``num_blocks``,
``admits``, ``report`` and ``longest_request`` answer what the engine would do with some available memory. Pure
arithmetic that follows vLLM 0.6 to 0.33; sources: ``v1/core/kv_cache_utils.py``, ``v1/kv_cache_interface.py`` and, for
V0, ``worker/cache_engine.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.engines.config import EffectiveConfig
from planner.memory import kv_deepseek_v4
from planner.memory.budget import KVGroup, KVPlan
from planner.memory.kv_block_size import DEFAULT_BLOCK_SIZE
from planner.memory.kv_groups import Group, form_groups
from planner.memory.kv_layers import EngineLayers
from planner.memory.kv_specs import LayoutRefused, Version, in_flight_tokens
from planner.models.architecture import ModelArchitecture

__all__ = [
    "LayoutRefused",
    "admits",
    "blocks_over_ranks",
    "blocks_per_request",
    "kv_plan",
    "least_bytes",
    "longest_request",
    "num_blocks",
    "report",
]

#: the block count of a stage that keeps no cache at all: it never decides
NO_LIMIT = 1 << 40


def kv_plan(
    model: ModelArchitecture,
    config: EffectiveConfig,
    pipeline_rank: int,
    capability: tuple[int, int] | None,
    layers: range | None = None,
    draft: ModelArchitecture | None = None,
) -> KVPlan:
    """The cache layout of one pipeline stage, before the memory is known. Bytes and tokens are integers.

    ``capability``: compute capability of the GPU, None where it is unknown (then kernels of 9.0 are assumed and noted).
    ``layers``: decoder layers of this stage (None: all of them with one stage, the engine's own split otherwise).
    ``draft``: the draft model of speculative decoding where it is another checkpoint. Raises ``LayoutRefused`` where the
    engine would not start whatever the memory: no kernel for the cache dtype or block size, indivisible state, pages
    that cannot be unified.
    """
    if _is_v0(config):
        from planner.memory.kv_v0 import v0_plan

        return v0_plan(model, config, _stage(model, config, pipeline_rank, layers), capability)
    stage = _stage(model, config, pipeline_rank, layers)
    builder = EngineLayers(model, config, capability)
    specs = builder.layer_specs(draft)
    if builder.packed:
        groups = kv_deepseek_v4.packed_groups(specs, config.version)
    else:
        hybrid_manager = config.hybrid_kv_cache_manager.value and config.version >= (0, 9, 1)
        groups = form_groups(specs, hybrid_manager=hybrid_manager, version=config.version)
    last = pipeline_rank == config.parallel.pipeline - 1
    return _plan_of_groups(groups, config, stage, last, model.num_layers, builder)


def num_blocks(plan: KVPlan, available_bytes: int, version: Version, override: int | None = None) -> int:
    """Blocks that fit one rank: ``available_bytes`` over the bytes of a block, rounded down, never negative.

    ``override`` is ``--num-gpu-blocks-override``, which replaces the number whatever the memory. A model without any
    cache has one block (the null block); a pipeline stage without one never limits the others (``NO_LIMIT``).
    """
    del version
    if not plan.groups:
        return 1
    if override is not None:
        return override
    if plan.bytes_per_block == 0:
        return NO_LIMIT
    return max(0, available_bytes // plan.bytes_per_block)


def blocks_over_ranks(
    plans: Sequence[KVPlan], available: Sequence[int], version: Version, override: int | None = None
) -> int:
    """Blocks of the engine: the fewest over all pipeline stages; ``available`` in bytes, one per plan."""
    return min(num_blocks(plan, size, version, override) for plan, size in zip(plans, available, strict=True))


def blocks_per_request(plan: KVPlan, length: int) -> int:
    """Blocks that one request of ``length`` tokens holds at most, over all groups."""
    return sum(_group_blocks(group, length) for group in plan.groups)


def admits(
    plan: KVPlan,
    available_bytes: int,
    version: Version,
    *,
    length: int | None = None,
    override: int | None = None,
) -> bool:
    """Whether the engine starts: one request of the maximum length (or of ``length`` tokens) must fit the cache.

    From 0.29 on the null block, which no request can have, is not counted. With ``override`` (blocks) versions from
    0.20 on plan with the memory of that many blocks; earlier ones check what was profiled.
    """
    if not plan.groups or plan.bytes_per_block == 0:
        return True
    if override is not None and version >= (0, 20):
        available_bytes = override * plan.bytes_per_block
    if available_bytes <= 0:
        return False
    if version >= (0, 29):
        available_bytes -= plan.bytes_per_block
    if available_bytes <= 0:
        return False
    return _request_bytes(plan, version, length) <= available_bytes


def least_bytes(plan: KVPlan, version: Version, length: int | None = None) -> int:
    """The fewest available bytes with which ``admits`` holds for one request of ``length`` tokens (None: the maximum)."""
    if not plan.groups or plan.bytes_per_block == 0:
        return 1
    return _request_bytes(plan, version, length) + (plan.bytes_per_block if version >= (0, 29) else 0)


def report(plan: KVPlan, num_blocks: int, config: EffectiveConfig) -> tuple[int, float]:
    """(tokens, requests) that this version logs as "GPU KV cache size" and "Maximum concurrency".

    Three generations: plain token slots up to 0.9.0; slots of the smallest block divided over the groups up to 0.20.1;
    from 0.20.2 the concurrency times the maximum length, which is not a number of slots for windows and hybrids.
    """
    version = config.version
    length = config.max_model_len.value
    if not plan.groups or length <= 0:
        return 0, 0.0
    if _is_v0(config) or version < (0, 9, 1):
        tokens = num_blocks * plan.block_size
        return tokens, tokens / length
    if version >= (0, 27):
        request = plan.blocks_per_request
    else:
        # What the log says of a worker's groups. The engine's own state (``kv_cache_max_concurrency``, 0.24 to 0.26) takes
        # one layer's page for each group, which is another number where pages of several sizes lie side by side.
        first = plan.groups[0].page_bytes
        total = sum(group.blocks_per_request * group.page_bytes for group in plan.groups)
        request = -(-total // first) if first else plan.blocks_per_request
    concurrency = num_blocks / request if request else 0.0
    if version >= (0, 20, 2):
        return int(concurrency * length), concurrency
    tokens = num_blocks // len(plan.groups) * min(group.block_size for group in plan.groups)
    if version >= (0, 10, 2):
        tokens *= config.parallel.context
    if version >= (0, 12):
        tokens *= config.parallel.prefill_context
    return tokens, concurrency


def longest_request(
    model: ModelArchitecture,
    config: EffectiveConfig,
    capability: tuple[int, int] | None,
    layers: Sequence[range] | None,
    available: Sequence[int],
    limit: int | None = None,
    draft: ModelArchitecture | None = None,
) -> int:
    """The longest ``max-model-len`` that the engine would start with, 0 for none: what its error message estimates.

    ``layers`` and ``available`` (bytes): one per pipeline stage. ``limit``: the longest length to consider (None: the
    model's own, or the configured one where that is longer). Batched tokens stay as they are configured.
    """
    stages = config.parallel.pipeline
    plans = [
        kv_plan(model, config, stage, capability, layers[stage] if layers else None, draft) for stage in range(stages)
    ]
    if limit is None:
        limit = max(config.derived_max_model_len, config.max_model_len.value)
    override = config.num_gpu_blocks_override.value if config.num_gpu_blocks_override else None
    return longest_of_plans(plans, available, config.version, limit, override)


def longest_of_plans(
    plans: Sequence[KVPlan], available: Sequence[int], version: Version, limit: int, override: int | None = None
) -> int:
    """As ``longest_request`` for plans at hand; the layout does not depend on the length."""

    def fits(length: int) -> bool:
        return all(
            admits(plan, size, version, length=length, override=override)
            for plan, size in zip(plans, available, strict=True)
        )

    if limit < 1 or not fits(1):
        return 0
    low, high = 1, limit
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _request_bytes(plan: KVPlan, version: Version, length: int | None) -> int:
    """Bytes that the start-up check asks for, for a request of ``length`` tokens (None: of the maximum length)."""
    if version < (0, 14):
        # these versions add up layers, without the padding of unequal groups
        return sum(
            (group.blocks_per_request if length is None else _group_blocks(group, length)) * page * layers
            for group in plan.groups
            for page, layers in group.pages
        )
    blocks = plan.blocks_per_request if length is None else blocks_per_request(plan, length)
    return blocks * (plan.admission_bytes_per_block or plan.bytes_per_block)


def _group_blocks(group: KVGroup, length: int) -> int:
    if group.fixed_blocks:
        return group.fixed_blocks
    tokens = -(-max(1, length) // group.shards)
    if group.held_tokens:
        tokens = min(tokens, group.held_tokens)
    return -(-tokens // group.block_size) + group.extra_blocks


def _is_v0(config: EffectiveConfig) -> bool:
    return config.runner == "v0" or config.version < (0, 8)


def _stage(model: ModelArchitecture, config: EffectiveConfig, pipeline_rank: int, layers: range | None) -> range:
    """The decoder layers of a stage."""
    if layers is not None:
        return layers
    if config.parallel.pipeline <= 1:
        return range(model.num_layers)
    from planner.memory.weights import stage_layers

    return stage_layers(model.num_layers, config.parallel.pipeline, config.version, None)[pipeline_rank]


def _plan_of_groups(
    groups: tuple[Group, ...],
    config: EffectiveConfig,
    stage: range,
    last: bool,
    decoder_layers: int,
    builder: EngineLayers,
) -> KVPlan:
    """The plan of one stage: the groups of the whole engine, restricted to the layers that are here."""
    whole = config.parallel.pipeline <= 1
    counts = [
        [
            len(indices) if whole else sum(1 for i in indices if i in stage or (last and i >= decoder_layers))
            for _, indices in group.members
        ]
        for group in groups
    ]
    length = config.max_model_len.value
    in_flight = config.max_num_batched_tokens_in_flight or in_flight_tokens(
        config.max_num_batched_tokens.value,
        config.version,
        async_scheduling=config.async_scheduling.value,
        pipeline=config.parallel.pipeline,
        runner=config.runner,
    )
    widest = max((sum(here) for here in counts), default=0)
    made = []
    grown = 0.0
    for group, here in zip(groups, counts, strict=True):
        made.append(_kv_group(group, here, config, in_flight, length, widest, builder.packed))
    if builder.packed:
        per_block = kv_deepseek_v4.bytes_per_block(groups, counts, config.version) if groups else 0
        admission = kv_deepseek_v4.admission_bytes_per_block(groups, counts, config.version)
    else:
        per_block = max((group.page_bytes * (1 if len(group.pages) > 1 else group.layers) for group in made), default=0)
        admission = 0
    for kv_group in made:
        if not kv_group.held_tokens and not kv_group.fixed_blocks:
            grown += per_block / (kv_group.block_size * kv_group.shards)
    return KVPlan(
        block_size=min((group.block_size for group in made if group.kind != "ring"), default=DEFAULT_BLOCK_SIZE),
        bytes_per_block=per_block,
        page_bytes=max((page for group in made for page, _ in group.pages), default=0),
        bytes_per_token=grown,
        groups=tuple(made),
        blocks_per_request=sum(group.blocks_per_request for group in made),
        notes=tuple(builder.notes),
        admission_bytes_per_block=admission,
    )


def _kv_group(
    group: Group,
    here: list[int],
    config: EffectiveConfig,
    in_flight: int,
    length: int,
    widest: int,
    packed: bool,
) -> KVGroup:
    """One group as this stage has it: what it costs and how many blocks a request takes from it."""
    spec = group.first
    version = config.version
    held = extra = fixed = 0
    shards = 1
    if spec.kind in ("full", "latent"):
        shards = config.parallel.context if version >= (0, 10, 2) else 1
        if (0, 12) <= version < (0, 26):
            shards *= config.parallel.prefill_context
    elif spec.kind in ("window", "window_latent"):
        held = max(1, spec.reach - 1 + _retained(config) + in_flight)
        extra = 1
    elif spec.kind == "chunked":
        held = max(1, spec.reach + in_flight)
    else:
        fixed, extra = spec.fixed, spec.extra
    pages = tuple((member.page, count) for (member, _), count in zip(group.members, here, strict=True))
    layers = sum(here)
    kv_group = KVGroup(
        kind=spec.kind,
        layers=layers,
        block_size=spec.block,
        page_bytes=sum(page * count for page, count in pages) if packed or len(pages) > 1 else pages[0][0],
        blocks_per_request=0,
        padding_layers=0 if packed or len(pages) > 1 else widest - layers,
        window=spec.reach,
        pages=pages,
        held_tokens=held,
        extra_blocks=extra,
        fixed_blocks=fixed,
        shards=shards,
    )
    return kv_group._replace(blocks_per_request=_group_blocks(kv_group, length))


def _retained(config: EffectiveConfig) -> int:
    """Tokens below the window that several MTP modules may read again."""
    if config.version < (0, 28) or not config.speculative_method.endswith("mtp"):
        return 0
    return max(0, config.speculative_tokens - 1)
