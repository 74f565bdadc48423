"""Features that vLLM refuses beside others before it loads a weight, with the releases that do: KV connectors, the hybrid cache
manager, the model runner that a variable asks for, ReplaySSM, HiSparse and sleep mode.

Source: ``config/vllm.py`` (0.13.0 to 0.33.0: ``__post_init__``, ``_verify_kv_transfer_compat``, ``use_v2_model_runner``,
``_get_v2_model_runner_unsupported_features``, ``validate_mamba_cached_kernel``), ``distributed/kv_transfer/kv_connector``
(``factory.py`` and the classes that inherit ``SupportsHMA``), ``platforms/interface.py``. What needs no GPU was also asked of
0.19.1, 0.24.0 and 0.32.0 themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.engines.vllm import env_flag
from planner.facts.flag_conflicts import Conflict
from planner.models.architecture import RecurrentState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planner.engines.config import FlagValue
    from planner.facts.flag_conflicts import Case

_Release = tuple[int, ...]
#: The first release whose lists were not read: what one lacks may be there.
_UNREAD = (0, 34)
#: Connectors without the hybrid cache manager: (first release, the first that has it). LMCache's own package decides about
#: ``LMCacheMPConnector`` from 0.22 on, and a ``MultiConnector`` has from 0.21 on what all of its parts have.
_WITHOUT_HYBRID: dict[str, tuple[_Release, _Release]] = {
    "DecodeBenchConnector": ((0, 13), (0, 21)),
    "ExampleConnector": ((0, 13), _UNREAD),
    "ExampleHiddenStatesConnector": ((0, 17), (0, 22)),
    "FlexKVConnectorV1": ((0, 18), _UNREAD),
    "HF3FSKVConnector": ((0, 20), _UNREAD),
    "LMCacheConnectorV1": ((0, 13), _UNREAD),
    "LMCacheMPConnector": ((0, 13), (0, 22)),
    "MoRIIOConnector": ((0, 14), (0, 30)),
    "MooncakeConnector": ((0, 13), (0, 20)),
    "MooncakeStoreConnector": ((0, 21), (0, 22)),
    "MultiConnector": ((0, 13), (0, 21)),
    "NixlConnector": ((0, 13), (0, 18)),
    "OffloadingConnector": ((0, 13), (0, 21)),
    "P2pNcclConnector": ((0, 13), (0, 24)),
}
#: Switches that the V2 model runner lacks: (flag, what it is, first release that checks, the first that has it).
_V2_SWITCHES: tuple[tuple[str, str, _Release, _Release], ...] = (
    ("enable-dbo", "dual batch overlap", (0, 20), (0, 30)),
    ("kv-sharing-fast-prefill", "KV sharing in prefill", (0, 20), (0, 30)),
    ("enable-return-routed-experts", "the capture of routed experts", (0, 20), (0, 28)),
    ("enable-prompt-embeds", "prompt embeddings", (0, 22), (0, 29)),
    ("enable-elastic-ep", "elastic expert parallelism", (0, 24), (0, 32)),
)
#: Flags that it lacks whatever they say.
_V2_VALUES: tuple[tuple[str, str, _Release, _Release], ...] = (
    ("logits-processors", "custom logits processors", (0, 20), (0, 31)),
    ("ec-transfer-config", "the transfer of encoder caches", (0, 20), (0, 28)),
)
#: Methods of speculation that it has, then those that it lacks, by release.
_V2_METHODS: tuple[tuple[_Release, frozenset[str]], ...] = (
    ((0, 20), frozenset(("eagle", "eagle3", "mtp"))),
    ((0, 24), frozenset(("eagle", "eagle3", "mtp", "dflash"))),
    ((0, 25), frozenset(("eagle", "eagle3", "mtp", "dflash", "dspark"))),
    ((0, 29), frozenset(("eagle", "eagle3", "mtp", "dflash", "dspark", "extract_hidden_states"))),
)
_V2_MISSING_METHODS: tuple[tuple[_Release, frozenset[str]], ...] = (
    ((0, 30), frozenset(("ngram", "ngram_gpu", "draft_model", "suffix", "medusa", "mlp_speculator", "custom_class"))),
    ((0, 31), frozenset(("ngram", "ngram_gpu", "suffix", "medusa", "mlp_speculator", "custom_class"))),
    ((0, 32), frozenset(("suffix", "medusa", "mlp_speculator", "custom_class"))),
    ((0, 33), frozenset(("suffix", "custom_class"))),
)


# ---- KV connectors -----------------------------------------------------------------------------------------------------


def _connector(case: Case) -> tuple[FlagValue, str, dict[str, Any]] | None:
    """(flag, name of the connector, its settings), where a connector of vLLM's own is asked for."""
    flag = case.flag("kv-transfer-config")
    config = flag.value if flag is not None else None
    if flag is None or not isinstance(config, dict) or not isinstance(config.get("kv_connector"), str):
        return None
    return flag, config["kv_connector"], config


def _lacks_hybrid(case: Case, config: dict[str, Any], depth: int = 0) -> str:
    """The connector that has no hybrid cache manager in this release, empty where all have one or one is not known."""
    name = config.get("kv_connector")
    if not isinstance(name, str) or config.get("kv_connector_module_path") or depth > 8:
        return ""
    if name in _WITHOUT_HYBRID and case.within(*_WITHOUT_HYBRID[name]):
        return name
    extra = config.get("kv_connector_extra_config")
    parts = extra.get("connectors") if name == "MultiConnector" and isinstance(extra, dict) else None
    if not isinstance(parts, list):
        return ""
    lacking = (_lacks_hybrid(case, part, depth + 1) for part in parts[:64] if isinstance(part, dict))
    return next((part for part in lacking if part), "")


def _hybrid_manager(case: Case) -> Iterator[Conflict]:
    """0.13 on: the hybrid cache manager, asked for in words, beside what turns it off where nothing is said: a connector
    without it (refused as the connector is made), and KV events (to 0.19, refused with the settings)."""
    flag = case.flag("disable-hybrid-kv-cache-manager")
    if flag is None or flag.value is not False or not case.within((0, 13)):
        return
    remedy = f"Remove {flag.spelling.partition('=')[0]}: the engine then decides by itself"
    connector = _connector(case)
    lacking = _lacks_hybrid(case, connector[2]) if connector is not None else ""
    if lacking:
        yield Conflict(
            flag, f"the hybrid KV cache manager is asked for, and {lacking} of this release has none", remedy
        )
    if "kv-events-config" in case.engine.flags and case.within((), (0, 20)) and case.engine.get("kv-events-config"):
        yield Conflict(
            flag, "the hybrid KV cache manager is asked for, and this release has none with KV events", remedy
        )


def _expandable_segments(case: Case) -> Iterator[Conflict]:
    """0.21 on: any connector registers memory that PyTorch's expandable segments may move; sleep mode, and from 0.22 on its
    allocator alone, keep the cache out of them."""
    variable = case.engine.env.get("PYTORCH_CUDA_ALLOC_CONF")
    if variable is None or "expandable_segments:True" not in variable.value or not case.within((0, 21)):
        return
    # Older releases take it, and operators' defaults name images that the input does not show.
    if case.engine.version_assumed:
        return
    if not (case.off("enable-sleep-mode") and case.off("enable-cumem-allocator")):
        return
    connector, offloaded = _connector(case), case.flag("kv-offloading-size")
    flag, name = (connector[0], connector[1]) if connector is not None else (offloaded, "KV offloading")
    if connector is None and not (
        offloaded is not None and isinstance(offloaded.value, int | float) and offloaded.value > 0
    ):
        return
    if flag is not None:
        yield Conflict(
            flag, f"{name} beside PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, whose memory does not stay where it was "
            "registered", "Remove expandable_segments:True, or add --enable-cumem-allocator (0.22 on)",
        )  # fmt: skip


# ---- the model runner --------------------------------------------------------------------------------------------------


def _method(case: Case) -> tuple[FlagValue, str] | None:
    """(flag, method of speculation as its name is stated), MTP by its one name."""
    config = case.flag("speculative-config")
    stated = config.value.get("method") if config is not None and isinstance(config.value, dict) else None
    flag = config if stated is not None else case.flag("spec-method")
    if flag is None:
        return None
    name = stated if stated is not None else flag.value
    if not isinstance(name, str):
        return None
    model = config.value.get("model") if config is not None and isinstance(config.value, dict) else None
    # A draft's name overrides some methods.
    if isinstance(model, str) and any(word in model.lower() for word in ("eagle", "flash", "spark", "mtp")):
        return None
    return flag, "mtp" if name.endswith("mtp") else name.strip("[]")


def _second_runner(case: Case) -> Iterator[Conflict]:
    """0.20 on: ``VLLM_USE_V2_MODEL_RUNNER=1`` with what that runner lacks. Unasked, a release takes the runner that can."""
    if env_flag(case.engine, "VLLM_USE_V2_MODEL_RUNNER") is not True or not case.within((0, 20), _UNREAD):
        return

    def refused(flag: FlagValue, what: str) -> Conflict:
        return Conflict(
            flag, f"VLLM_USE_V2_MODEL_RUNNER=1 asks for a model runner that has no {what.removeprefix('the ')} in this release",
            "Remove the variable, or what it lacks",
        )  # fmt: skip

    for name, what, since, until in _V2_SWITCHES:
        flag = case.flag(name)
        if flag is not None and flag.value is True and case.within(since, until):
            yield refused(flag, what)
    for name, what, since, until in _V2_VALUES:
        flag = case.flag(name)
        if flag is not None and flag.value and case.within(since, until):
            yield refused(flag, what)
    model, logprobs, method = case.plan.model, case.flag("logprobs-mode"), _method(case)
    if (
        logprobs is not None
        and logprobs.value in ("raw_logits", "processed_logits")
        and model is not None
        and not model.pooling
        and case.within((0, 22), (0, 26))
    ):
        yield refused(logprobs, f"logprobs mode {logprobs.value}")
    if method is not None and _lacks_method(case, method[1]):
        yield refused(method[0], f"speculative method {method[1]}")
    stages = case.flag("pipeline-parallel-size")
    staged = stages is not None and (case.number("pipeline-parallel-size") or 1) > 1
    if stages is not None and staged and method is not None and method[1] == "eagle3" and case.within((0, 22), (0, 30)):
        yield refused(stages, "eagle3 with pipeline stages")
    prefill = case.flag("prefill-context-parallel-size")
    dense = model is not None and not model.is_multi_latent and case.within((0, 26), (0, 29))
    lacking = dense or case.within((0, 20), (0, 26))
    if prefill is not None and lacking and (case.number("prefill-context-parallel-size") or 1) > 1:
        yield refused(prefill, "prefill context parallelism" + (" but of MLA" if dense else ""))
    named = case.flag("model")
    if named is not None and model is not None and model.is_recurrent and case.within((0, 20), (0, 23)):
        yield refused(named, f"recurrent layers, as {model.id} has")


def _lacks_method(case: Case, method: str) -> bool:
    """Whether the V2 runner of this release has no such method of speculation."""
    missing = next((names for since, names in reversed(_V2_MISSING_METHODS) if case.within(since)), None)
    if missing is not None:
        return method in missing
    return method not in next(names for since, names in reversed(_V2_METHODS) if case.within(since))


def _first_runner(case: Case) -> Iterator[Conflict]:
    """``VLLM_USE_V2_MODEL_RUNNER=0`` with what only the V2 runner has: prefill context parallelism (0.27 on) and DSpark
    (0.29 on)."""
    if env_flag(case.engine, "VLLM_USE_V2_MODEL_RUNNER") is not False or not case.within((0, 27)):
        return
    prefill, method = case.flag("prefill-context-parallel-size"), _method(case)
    if prefill is not None and (case.number("prefill-context-parallel-size") or 1) > 1:
        yield Conflict(
            prefill, "prefill context parallelism needs the model runner that VLLM_USE_V2_MODEL_RUNNER=0 leaves out",
            "Remove the variable",
        )  # fmt: skip
    if method is not None and method[1] == "dspark" and case.within((0, 29)):
        yield Conflict(
            method[0], "dspark needs the model runner that VLLM_USE_V2_MODEL_RUNNER=0 leaves out", "Remove the variable"
        )


# ---- ReplaySSM, HiSparse, sleep mode -----------------------------------------------------------------------------------


def _replay(case: Case) -> Iterator[Conflict]:
    """0.27 on: ReplaySSM is of models with Mamba layers, without a connector; 0.27 and 0.28 also without speculation. To 0.29 it
    runs in Triton's kernels alone, and those from 0.30 on not in the V2 runner, which most models then have."""
    flag, model, connector = case.flag("use-replayssm"), case.plan.model, _connector(case)
    if flag is None or flag.value is not True or not case.within((0, 27)):
        return
    if model is not None and not model.is_recurrent:
        yield Conflict(flag, f"--use-replayssm of {model.id}, which has no Mamba layers", "Remove it")
    elif connector is not None and case.within((), (0, 33)):
        yield Conflict(flag, f"--use-replayssm excludes KV connectors ({connector[1]})", "Remove one of them")
    backend = case.engine.get("mamba-backend")
    if isinstance(backend, str) and backend.lower() != "triton" and case.within((), (0, 30)):
        yield Conflict(
            flag, f"--use-replayssm needs --mamba-backend triton in this release, not {backend}", "Remove it"
        )
    runner = case.plan.effective.runner if case.plan.effective is not None else ""
    states = [state for layer in model.layers for state in (layer.state, layer.attention)] if model is not None else []
    kinds = {state.kind for state in states if isinstance(state, RecurrentState)}
    triton = case.lacks("mamba-backend") or backend == "triton"
    speculation = case.engine.get("speculative-config")
    drafts = "speculative-config" in case.engine.flags
    if runner == "v2" and kinds == {"mamba2"} and triton and not drafts and case.within((0, 30), _UNREAD):
        yield Conflict(
            flag, "--use-replayssm in Triton's kernels needs the V1 model runner, and this release takes V2",
            "Set VLLM_USE_V2_MODEL_RUNNER=0",
        )  # fmt: skip
    if isinstance(speculation, dict) and speculation and case.within((), (0, 29)):
        yield Conflict(flag, "--use-replayssm excludes speculative decoding in this release", "Remove one of them")


def _sparse_host_cache(case: Case) -> Iterator[Conflict]:
    """0.30 on: HiSparse keeps the cache of sparse MLA on the host: models with an indexer, one pipeline stage, no decode
    context parallelism, the V2 runner and the hybrid manager; from 0.31 on whole prompts reserved, from 0.32 on no FULL graphs
    alone. A connector of its name asks for it too."""
    attention, connector = case.flag("attention-config"), _connector(case)
    asked = (
        isinstance(attention.value, dict) and attention.value.get("hisparse_config") if attention is not None else None
    )
    if isinstance(asked, dict):
        flag = attention
    elif connector is not None and connector[1] == "HiSparseConnector":
        flag = connector[0]
    else:
        return
    if flag is None or not case.within((0, 30)):
        return
    model, graphs = case.plan.model, case.engine.get("compilation-config")
    indexed = model is not None and any(getattr(layer.attention, "indexer_dim", 0) for layer in model.layers)
    if model is not None and not model.is_sparse and not indexed:
        yield Conflict(flag, f"HiSparse of {model.id}, which has no sparse MLA (index_topk)", "Remove it")
    for name in ("pipeline-parallel-size", "decode-context-parallel-size"):
        if (case.number(name) or 1) > 1:
            yield Conflict(flag, f"HiSparse excludes --{name} {case.number(name)}", "Remove one of them")
    if env_flag(case.engine, "VLLM_USE_V2_MODEL_RUNNER") is False:
        yield Conflict(
            flag, "HiSparse needs the model runner that VLLM_USE_V2_MODEL_RUNNER=0 leaves out", "Remove the variable"
        )
    if case.on("disable-hybrid-kv-cache-manager"):
        yield Conflict(flag, "HiSparse needs the hybrid KV cache manager", "Remove --disable-hybrid-kv-cache-manager")
    if case.engine.get("scheduler-reserve-full-isl") is False and case.within((0, 31)):
        yield Conflict(flag, "HiSparse reserves whole prompts", "Remove --no-scheduler-reserve-full-isl")
    if isinstance(graphs, dict) and str(graphs.get("cudagraph_mode")).upper() == "FULL" and case.within((0, 32)):
        yield Conflict(flag, "HiSparse excludes cudagraph_mode FULL", "Use FULL_AND_PIECEWISE, the default")


def _sleep_mode(case: Case) -> Iterator[Conflict]:
    """0.7.0 on: sleep mode is CUDA's; also ROCm's from 0.11.1 on. What plug-ins make of other platforms is theirs."""
    flag = case.flag("enable-sleep-mode")
    if flag is None or flag.value is not True or not case.within((0, 7)):
        return
    platform = case.engine.platform
    if platform == "cpu" or (platform == "rocm" and case.within((), (0, 11, 1))):
        yield Conflict(
            flag, f"--enable-sleep-mode on {'CPUs' if platform == 'cpu' else 'ROCm'}, which have none", "Remove it"
        )


CONSTRAINTS: tuple[Callable[[Case], Iterator[Conflict]], ...] = (
    _hybrid_manager, _expandable_segments, _second_runner, _first_runner, _replay, _sparse_host_cache, _sleep_mode,
)  # fmt: skip
