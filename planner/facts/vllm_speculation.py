"""Speculative decoding that vLLM refuses before it loads a weight, with the releases that do.

Source: ``config.py`` and ``config/speculative.py`` (0.6.0 to 0.33.0), ``_set_max_num_scheduled_tokens`` of ``config/vllm.py``,
``engine/arg_utils.py``. Every constraint was also asked of 0.19.1, 0.24.0 and 0.32.0 themselves. Drafts by n-grams need
neither ``prompt_lookup_max`` nor ``prompt_lookup_min`` from 0.8.2 on: the releases fill in 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.facts.flag_conflicts import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planner.engines.config import FlagValue
    from planner.facts.flag_conflicts import Case
    from planner.models.architecture import ModelArchitecture

#: Flags beside ``--speculative-config`` that state one of its keys (0.22 on).
_BESIDE = {"spec-method": "method", "spec-model": "model", "spec-tokens": "num_speculative_tokens"}
#: The flags before it (0.6.0 to 0.8.1; 0.8.2 has both).
_BEFORE = {
    "speculative-model": "model",
    "num-speculative-tokens": "num_speculative_tokens",
    "speculative-max-model-len": "max_model_len",
    "speculative-draft-tensor-parallel-size": "draft_tensor_parallel_size",
    "ngram-prompt-lookup-max": "prompt_lookup_max",
    "ngram-prompt-lookup-min": "prompt_lookup_min",
}
_NGRAM = ("ngram", "[ngram]")
#: Methods that draft with weights of their own, so that nothing but the user can say how many tokens.
_OF_A_MODEL = ("eagle", "eagle3", "draft_model", "medusa")
#: Words in a draft's name from which releases read another method than ``draft_model``.
_OTHER_METHODS = ("eagle", "medusa", "mtp", "flash", "spark", "specul", "lookahead")
#: Families whose config no release rewrites to one of MTP layers, and whose config has no ``n_predict``.
_PLAIN = frozenset(
    (
        "gemma", "gemma2", "gemma3_text", "granite", "llama", "mistral", "mixtral", "olmo2", "opt", "phi", "phi3", "qwen2",
        "qwen2_moe", "qwen3", "qwen3_moe", "smollm3",
    )
)  # fmt: skip
#: Target models that take EAGLE-3, by words in ``model_type``: (first release of the list, words). 0.22 asks the model.
_EAGLE3: tuple[tuple[tuple[int, ...], tuple[str, ...]], ...] = (
    ((0, 8, 5), ("llama",)),
    ((0, 10, 1), ("llama", "qwen")),
    ((0, 11), ("llama", "qwen", "minicpm", "gpt_oss")),
    ((0, 16), ("llama", "qwen", "minicpm", "gpt_oss", "hunyuan", "afmoe")),
    ((0, 17), ("llama", "qwen", "minicpm", "gpt_oss", "hunyuan", "afmoe", "nemotron_h")),
    (
        (0, 18),
        ("llama", "qwen", "minicpm", "gpt_oss", "hunyuan", "afmoe", "nemotron_h", "deepseek", "kimi", "minimax", "gemma4", "laguna"),
    ),
)  # fmt: skip
#: Keys of ``--speculative-config``: (first release, the first without it).
_KEYS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    **dict.fromkeys(
        ("num_speculative_tokens", "method", "draft_tensor_parallel_size", "model", "quantization", "max_model_len", "revision",
         "code_revision", "prompt_lookup_max", "prompt_lookup_min", "target_model_config", "target_parallel_config",
         "draft_model_config", "draft_parallel_config"), ((), ())),
    **dict.fromkeys(
        ("acceptance_method", "disable_mqa_scorer", "posterior_threshold", "posterior_alpha"), ((), (0, 10))),
    **dict.fromkeys(("disable_logprobs", "enable_chunked_prefill", "disable_log_stats"), ((), (0, 11, 1))),
    "disable_by_batch_size": ((), (0, 17)),
    "speculative_token_tree": ((0, 9), (0, 21)),
    **dict.fromkeys(("enforce_eager", "disable_padded_drafter_batch"), ((0, 11), ())),
    **dict.fromkeys(
        ("suffix_decoding_max_tree_depth", "suffix_decoding_max_cached_requests", "suffix_decoding_max_spec_factor",
         "suffix_decoding_min_token_prob"), ((0, 11, 1), ())),
    "tensor_parallel_size": ((0, 15), ()),
    "parallel_drafting": ((0, 16), ()),
    **dict.fromkeys(("use_local_argmax_reduction", "draft_load_config"), ((0, 17), ())),
    "rejection_sample_method": ((0, 18), ()),
    "moe_backend": ((0, 19), ()),
    "synthetic_acceptance_rate": ((0, 19), (0, 20)),
    **dict.fromkeys(("synthetic_acceptance_rates", "synthetic_acceptance_length"), ((0, 20), ())),
    **dict.fromkeys(("attention_backend", "draft_sample_method"), ((0, 21), ())),
    "num_speculative_tokens_per_batch_size": ((0, 24), ()),
    "use_heterogeneous_vocab": ((0, 25), ()),
    "kv_cache_dtype": ((0, 26), ()),
    **dict.fromkeys(("enable_adaptive_verification", "dspark_draft_topk"), ((0, 28), ())),
    "index_share_for_mtp_iteration": ((0, 29), ()),
    "disable_eagle_block_drop": ((0, 30), ()),
    **dict.fromkeys(
        ("disable_lookahead_block_hashes", "draft_lm_head_quantization", "xpress_topc", "fly_window_size",
         "fly_entropy_threshold", "fly_entropy_top_k"), ((0, 33), ())),
}  # fmt: skip


def _settings(case: Case) -> tuple[FlagValue, dict[str, Any]] | None:
    """(the flag to point at, keys as in ``--speculative-config``); None where nothing is asked for or a part is not known."""
    config = case.engine.flags.get("speculative-config")
    names = {**_BESIDE, **(_BEFORE if config is None else {})}
    if any(name in case.engine.flags and case.flag(name) is None for name in names):
        return None
    stated = {key: case.engine.get(name) for name, key in names.items() if case.flag(name) is not None}
    if config is not None and not (config.known and isinstance(config.value, dict)):
        return None
    keys = {**(config.value if config is not None else {}), **stated}
    flag = config if config is not None else next((f for f in map(case.flag, names) if f is not None), None)
    return (flag, keys) if flag is not None and keys else None


def _ordinary_draft(case: Case, keys: dict[str, Any]) -> ModelArchitecture | None:
    """The draft, where every release takes it for a model of its own that drafts token by token."""
    draft, name = case.plan.draft, keys.get("model")
    if draft is None or not isinstance(name, str) or keys.get("method") not in (None, "draft_model"):
        return None
    if draft.model_type not in _PLAIN or draft.mtp_layers or any(word in name.lower() for word in _OTHER_METHODS):
        return None
    return draft


def _count(keys: dict[str, Any], name: str) -> int | None:
    value = keys.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _together(case: Case) -> Iterator[Conflict]:
    """0.8.3 on: keys of --speculative-config that need each other."""
    flag = case.flag("speculative-config")
    config = flag.value if flag is not None and isinstance(flag.value, dict) else {}
    # From 0.22 on flags of their own can add what the object lacks.
    if flag is None or not config or any(name.startswith("spec-") for name in case.engine.flags):
        return
    method, count, model = config.get("method"), config.get("num_speculative_tokens"), config.get("model")
    if isinstance(count, int) and count < 1:
        yield Conflict(flag, f"num_speculative_tokens {count} must be at least 1", "Set it to 1 or more")
    if method in _NGRAM and count is None:
        yield Conflict(flag, "the ngram method needs num_speculative_tokens", "Add num_speculative_tokens")
    if (
        isinstance(count, int)
        and model is None
        and method in (None, "eagle", "eagle3", "draft_model", "medusa")
        and case.within((0, 11))
    ):
        yield Conflict(
            flag, "num_speculative_tokens without a model that drafts them"
            + ("" if method is None else f", which {method} needs"), "Add model, or the method (mtp, ngram …)",
        )  # fmt: skip
    least, most = config.get("prompt_lookup_min"), config.get("prompt_lookup_max")
    if method in _NGRAM and isinstance(least, int) and isinstance(most, int) and least > most:
        yield Conflict(flag, f"prompt_lookup_min {least} is more than prompt_lookup_max {most}", "Swap them")
    draft, tensor = config.get("draft_tensor_parallel_size"), case.size("tensor-parallel-size")
    if isinstance(draft, int) and model is not None and tensor is not None and draft not in (1, tensor):
        yield Conflict(
            flag, f"draft_tensor_parallel_size {draft} of --tensor-parallel-size {tensor}: a draft runs on one rank or on all",
            f"Set it to 1 or {tensor}",
        )  # fmt: skip
    sharing = case.flag("kv-sharing-fast-prefill")
    eagle = isinstance(method, str) and (method in ("eagle", "eagle3", "mtp") or method.endswith("_mtp"))
    if sharing is not None and sharing.value is True and eagle and case.within((0, 11, 1)):
        yield Conflict(sharing, f"--kv-sharing-fast-prefill leaves out what {method} drafts from", "Remove one of them")


def _tokens_missing(case: Case) -> Iterator[Conflict]:
    """All releases: a draft without ``n_predict`` in its config drafts as many tokens as one says; so does, from 0.8.2 on, a
    method without a model, MTP too: its own layers are looked at only once the number is there. 0.9 to 0.20 read the number
    off a token tree."""
    found = _settings(case)
    if found is None or not case.complete:
        return
    flag, keys = found
    # A number for each batch size says it as well.
    if any("num_speculative_tokens" in key or key == "speculative_token_tree" for key in keys if keys[key] is not None):
        return
    method, model = keys.get("method"), keys.get("model")
    draft = _ordinary_draft(case, keys)
    bare = model is None and isinstance(method, str) and (method in _OF_A_MODEL or method.endswith("mtp"))
    if draft is not None or (bare and case.within((0, 8, 2))):
        yield Conflict(
            flag, "num_speculative_tokens is missing" + (f": {draft.id} does not say how many it drafts" if draft else ""),
            "Add num_speculative_tokens",
        )  # fmt: skip


def _tokens_of_layers(case: Case) -> Iterator[Conflict]:
    """0.15.1 on: more tokens than a model has MTP layers must be a multiple of them. Most models have one; only of Step is it
    sure that releases count all layers of the config."""
    found, model = _settings(case), case.plan.model
    if found is None or model is None or not case.within((0, 15, 1)):
        return
    flag, keys = found
    method, count, layers = keys.get("method"), _count(keys, "num_speculative_tokens"), len(model.mtp_layers)
    own = isinstance(method, str) and method.endswith("mtp") and keys.get("model") is None
    if own and model.model_type == "step3p5" and count is not None and 1 < layers < count and count % layers:
        yield Conflict(
            flag, f"num_speculative_tokens {count} of {model.id}, which has {layers} layers that draft: it must be a multiple",
            f"Use {layers} or {2 * layers}",
        )  # fmt: skip


def _lookup(case: Case) -> Iterator[Conflict]:
    """All releases: n-grams of at least one token; 0.6.0 to 0.8.1 want to be told the longest."""
    found = _settings(case)
    if found is None:
        return
    flag, keys = found
    if keys.get("method") not in _NGRAM and keys.get("model") not in _NGRAM:
        return
    for name in ("prompt_lookup_max", "prompt_lookup_min"):
        value = _count(keys, name)
        if value is not None and value < 1:
            yield Conflict(flag, f"{name} {value} must be at least 1", "Set it to 1 or more, or leave it out")
    if case.within((), (0, 8, 2)) and case.lacks("ngram-prompt-lookup-max") and case.lacks("speculative-config"):
        yield Conflict(
            flag, "this release wants to know how long n-grams are looked up", "Add --ngram-prompt-lookup-max"
        )


def _no_draft_models(case: Case) -> Iterator[Conflict]:
    """0.10.0 to 0.14.1: the V1 engine has no draft models yet, and V0's are gone. From 0.11 on the method's name is refused
    before the draft is looked at."""
    found = _settings(case)
    if found is None or not case.within((0, 10), (0, 15)):
        return
    flag, keys = found
    draft, named = _ordinary_draft(case, keys), keys.get("method") == "draft_model" and case.within((0, 11))
    if draft is not None or named:
        yield Conflict(
            flag, "releases 0.10 to 0.14 have no speculative decoding with a draft model" + (f" ({draft.id})" if draft else ""),
            "Use ngram, eagle3 or mtp, or run 0.15 or newer",
        )  # fmt: skip


def _vocabulary(case: Case) -> Iterator[Conflict]:
    """0.15.0 on: target and draft have vocabularies of one size; 0.25 on has a key that lifts it."""
    found, model = _settings(case), case.plan.model
    if found is None or model is None or not case.within((0, 15)) or "hf-overrides" in case.engine.flags:
        return
    flag, keys = found
    draft = _ordinary_draft(case, keys)
    if draft is None or keys.get("use_heterogeneous_vocab") or not (draft.vocab_size and model.vocab_size):
        return
    if draft.vocab_size != model.vocab_size:
        yield Conflict(
            flag, f"{draft.id} has a vocabulary of {draft.vocab_size} tokens and {model.id} one of {model.vocab_size}",
            "Use a draft of the same family and vocabulary size",
        )  # fmt: skip


def _length(case: Case) -> Iterator[Conflict]:
    """All releases: the draft's own limit of length is not above what draft or target can do."""
    found = _settings(case)
    if found is None:
        return
    flag, keys = found
    length, draft = _count(keys, "max_model_len"), _ordinary_draft(case, keys)
    if length is None or draft is None:
        return
    target = case.effective("max_model_len")
    auto = case.plan.effective is None or case.plan.effective.max_model_len_auto
    if target is not None and not auto and length > target:
        yield Conflict(
            flag, f"max_model_len {length} of the draft is more than the {target} of --max-model-len",
            f"Lower it to {target}, or leave it out",
        )  # fmt: skip
    elif (
        draft.derived_max_len
        and length > draft.derived_max_len
        and "VLLM_ALLOW_LONG_MAX_MODEL_LEN" not in case.engine.env
    ):
        yield Conflict(
            flag, f"max_model_len {length} is more than the {draft.derived_max_len} that {draft.id} supports",
            f"Lower it to {draft.derived_max_len}, or leave it out",
        )  # fmt: skip


def _old_ranks(case: Case) -> Iterator[Conflict]:
    """0.6.0 to 0.8.1: a draft runs on one rank, from 0.6.4 on also on all of the target's."""
    flag, ranks = (
        case.flag("speculative-draft-tensor-parallel-size"), case.number("speculative-draft-tensor-parallel-size")
    )  # fmt: skip
    tensor = case.size("tensor-parallel-size")
    if flag is None or ranks is None or tensor is None or not case.within((), (0, 8, 2)):
        return
    allowed = (1,) if case.within((), (0, 6, 4)) else (1, tensor)
    if case.flag("speculative-model") is not None and ranks not in allowed:
        yield Conflict(
            flag, f"--speculative-draft-tensor-parallel-size {ranks}: a draft runs on "
            + ("one rank in this release" if len(allowed) == 1 else f"one rank or on all {tensor}"),
            f"Set it to {' or '.join(str(size) for size in sorted(set(allowed)))}",
        )  # fmt: skip


def _keys(case: Case) -> Iterator[Conflict]:
    """0.8.2 to 0.33: the object's keys are arguments, and one that the release does not have is refused. Where the release is
    only assumed, what none of them has. ``tensor_parallel_size`` has been there since 0.15.0, to say what to write."""
    flag = case.flag("speculative-config")
    if flag is None or not isinstance(flag.value, dict) or not case.within((0, 8, 2), (0, 34)):
        return
    if case.engine.platform not in ("cuda", "rocm", "cpu"):
        return
    for key in list(flag.value)[:64]:
        since, until = _KEYS.get(key, ((), ()))
        there = case.within(since, until or (10**6,)) or case.engine.version_assumed
        if key == "tensor_parallel_size" and flag.value[key] is not None:
            yield Conflict(
                flag, f"{key} is no key of --speculative-config", "Write draft_tensor_parallel_size"
            )  # fmt: skip
        elif key not in _KEYS or not there:
            yield Conflict(
                flag, f"{str(key)[:60]} is no key of --speculative-config in this release"
                + (f" ({'.'.join(str(part) for part in since)} has it)" if since and not case.within(since) else ""),
                "Remove it",
            )  # fmt: skip


def _eagle3_targets(case: Case) -> Iterator[Conflict]:
    """0.8.5 to 0.21: EAGLE-3 of the families that a list names. A model with images is listed by its text model, which its
    own name need not tell."""
    found, model = _settings(case), case.plan.model
    if found is None or model is None or model.multimodal or not case.within((0, 8, 5), (0, 22)):
        return
    words = next(words for since, words in reversed(_EAGLE3) if case.within(since))
    if found[1].get("method") == "eagle3" and model.model_type and not any(word in model.model_type for word in words):
        yield Conflict(
            found[0], f"this release has no EAGLE-3 for {model.model_type} ({model.id})",
            "Use another method, or a newer release (0.22 has no list)",
        )  # fmt: skip


def _slots(case: Case) -> Iterator[Conflict]:
    """A step holds the slots that drafting adds beside at least one token: 0.20 to 0.27 for all sequences together, 0.28 to
    0.32 for one. With adapters a step holds every sequence's drafts (0.11.1 on)."""
    found = _settings(case)
    batch, sequences = case.effective("max_num_batched_tokens"), case.effective("max_num_seqs")
    # Their defaults hang on the device.
    stated = {"max-num-batched-tokens", "max-num-seqs"} <= case.engine.flags.keys()
    if found is None or batch is None or sequences is None or not (stated or case.plan.accelerator is not None):
        return
    flag, keys = found
    count = _count(keys, "num_speculative_tokens")
    if count is None or count < 1:
        return
    if case.on("enable-lora") and case.within((0, 11, 1)) and batch < sequences * (count + 1):
        yield Conflict(
            flag, f"with --enable-lora a batch holds {count} drafted tokens and one more of each of {sequences} sequences, "
            f"{sequences * (count + 1)} together, and --max-num-batched-tokens is {batch}",
            f"Raise --max-num-batched-tokens to {sequences * (count + 1)}, or lower --max-num-seqs",
        )  # fmt: skip
        return
    if _ordinary_draft(case, keys) is None or not case.within((0, 20), (0, 33)):
        return
    slots = count if keys.get("parallel_drafting") is True else 1
    together = case.within((), (0, 28))
    needed = slots * sequences if together else slots
    if batch <= needed:
        yield Conflict(
            flag, f"drafting takes {needed} slots of a step" + (f" ({slots} for each of {sequences} sequences)" if together else "")
            + f", and --max-num-batched-tokens {batch} leaves none for a token",
            f"Raise --max-num-batched-tokens well above {needed}, or lower --max-num-seqs",
        )  # fmt: skip


CONSTRAINTS: tuple[Callable[[Case], Iterator[Conflict]], ...] = (
    _together, _tokens_missing, _tokens_of_layers, _lookup, _no_draft_models, _vocabulary, _length, _old_ranks, _keys,
    _eagle3_targets, _slots,
)  # fmt: skip
