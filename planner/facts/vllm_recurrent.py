"""What vLLM refuses of models with recurrent layers (Mamba, gated delta nets, short convolutions).

Sources: ``resolve_cudagraph_mode_and_sizes`` in config/compilation.py (0.20 to 0.33), the kernels' ``_cudagraph_support``
under v1/attention/backends, and ``MambaModelConfig`` in model_executor/models/config.py (0.15 to 0.33).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.facts.flag_conflicts import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planner.engines.config import EffectiveConfig
    from planner.facts.flag_conflicts import Case
    from planner.models.architecture import ModelArchitecture

#: kernels that capture steps of several tokens a sequence; whether FlashInfer's do hangs on the heads and the device
_SEVERAL_TOKENS = ("FLASH_ATTN", "TRITON_ATTN")


def fewer_blocks_than_sequences(case: Case) -> Iterator[Conflict]:
    """0.20 on: more sequences than the cache has blocks, where whole decoding steps are captured as graphs: each sequence has
    its state in a block of its own. 0.18 and 0.19 capture fewer graphs instead. The number of blocks is an estimate: refused
    where even the most of them are too few; a warning where all but the most favourable are, since recipes that were seen to
    start leave the number to a default that lies within the estimate."""
    config, budget, model = case.plan.effective, case.plan.budget, case.plan.model
    capacity = budget.capacity if budget is not None else None
    if not case.within((0, 20)) or config is None or capacity is None or model is None or not model.is_recurrent:
        return
    sequences, blocks, longest = case.effective("max_num_seqs"), capacity.blocks, capacity.longest_request
    if (
        sequences is None
        or 2 * sequences <= blocks.expected + blocks.high
        or not _captures_decoding(case, config, model)
    ):
        return
    refused = sequences > blocks.high and not case.engine.version_assumed
    # where not even one request fits, that is refused first and said by rules of its own
    if blocks.high < 1 or (longest.high if refused else longest.expected) < config.max_model_len.value:
        return
    count = f"{blocks.expected:,} blocks"
    if blocks.low < blocks.high:
        count = f"about {count} ({max(0, blocks.low):,} to {blocks.high:,})"
    source = "--max-num-seqs" if case.engine.stated("max-num-seqs") else "the default of --max-num-seqs"
    remedy = "Raise --gpu-memory-utilization, or lower --max-num-seqs"
    if blocks.low > 0:
        remedy = f"Set --max-num-seqs {blocks.low} or less, with which it starts; more would never run at once"
    yield Conflict(
        case.flag("max-num-seqs"),
        f"{sequences:,} sequences ({source}) {'are' if refused else 'may be'} more than the cache has blocks, {count}: each "
        "keeps its recurrent state in one, and the engine refuses to capture its graphs with fewer",
        remedy,
        refused=refused,
    )  # fmt: skip


def _captures_decoding(case: Case, config: EffectiveConfig, model: ModelArchitecture) -> bool:
    """Whether whole decoding steps are surely captured: a CUDA graph mode with FULL that nothing takes back."""
    if "full" not in config.cudagraph_mode or model.pooling:
        return False
    compilation = case.engine.flags.get("compilation-config")
    if compilation is not None and not isinstance(compilation.value, dict):
        return False
    if "layerwise" in str(case.engine.get("kv-transfer-config")) or case.engine.get("all2all-backend") == "moonep":
        return False
    return not config.speculative_method or _captures_drafts(case, config, model)


def _captures_drafts(case: Case, config: EffectiveConfig, model: ModelArchitecture) -> bool:
    """Whether all kernels capture steps of several tokens a sequence: else the graphs of decoding are dropped."""
    from planner.memory.kv_block_size import kernel_for
    from planner.memory.kv_layers import distinct_attentions

    device = case.plan.accelerator
    if device is None or "num_speculative_tokens_per_batch_size" in str(case.engine.get("speculative-config")):
        return False
    kernel = kernel_for(
        model, config.kv_cache_dtype.value, device.capability, config.version,
        multimodal=config.multimodal_profiled, backend=config.attention_backend,
    )  # fmt: skip
    linear = any(getattr(layer, "kind", "") == "linear" for layer in distinct_attentions(model)[1])
    return kernel.name in _SEVERAL_TOKENS and not linear


def states_without_chunks(case: Case) -> Iterator[Conflict]:
    """0.15 on: prefix caching that keeps states at the bounds of blocks (mode ``align``) needs chunked prefill, and until 0.16
    no speculation."""
    config, model = case.plan.effective, case.plan.model
    if not case.within((0, 15)) or config is None or model is None or not model.is_recurrent:
        return
    if config.mamba_cache_mode != "align" or not config.prefix_caching.value:
        return
    flag = case.flag("enable-chunked-prefill")
    if flag is not None and flag.value is False:
        yield Conflict(
            flag, f"prefix caching of {model.id}, whose recurrent layers save states between chunks, needs chunked prefill",
            "Let chunked prefill on, or add --no-enable-prefix-caching",
        )  # fmt: skip
    drafts = case.flag("speculative-config")
    if drafts is not None and config.speculative_method and case.within((), (0, 17)):
        yield Conflict(
            drafts, f"this release has no speculative decoding with prefix caching of {model.id}, which has recurrent layers",
            "Add --no-enable-prefix-caching, or run 0.17 or newer",
        )  # fmt: skip


CONSTRAINTS: tuple[Callable[[Case], Iterator[Conflict]], ...] = (fewer_blocks_than_sequences, states_without_chunks)
