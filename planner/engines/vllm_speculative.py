"""Speculative decoding as the flags ask for it: method, draft model, tokens per step.

Source: vLLM ``config/speculative.py`` (how a method is told from the model's name) and the older single flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.engines.config import EngineConfig
from planner.record import NamedTuple

if TYPE_CHECKING:
    from planner.models.architecture import ModelArchitecture

_MOST_TOKENS = 1024


class Draft(NamedTuple):
    """``method`` is empty without speculative decoding; all MTP spellings are ``mtp``. ``tokens``: drafted per step.
    ``tensor``: ranks that share the draft model (0: the target's); ``kv_cache_dtype``: of its cache (empty: the target's)."""

    method: str = ""
    model: str = ""
    tokens: int = 0
    tensor: int = 0
    kv_cache_dtype: str = ""


def draft(config: EngineConfig, model: ModelArchitecture) -> Draft:
    """What ``--speculative-config`` or the flags before and beside it ask for."""
    stated = config.get("speculative-config")
    options = stated if isinstance(stated, dict) else {}
    named = options.get("model") or config.get("spec-model") or config.get("speculative-model")
    method = options.get("method") or config.get("spec-method")
    if not (options or named or method):
        return Draft()
    name = named if isinstance(named, str) else ""
    lower = name.lower()
    if isinstance(method, str) and method:
        method = "mtp" if method.endswith("mtp") else method[:40]
    elif lower in ("ngram", "[ngram]"):
        method, name = "ngram", ""
    elif "eagle3" in lower or "eagle-3" in lower:
        method = "eagle3"
    elif "eagle" in lower:
        method = "eagle"
    elif "dflash" in lower:
        method = "dflash"
    elif "medusa" in lower:
        method = "medusa"
    elif not lower or (config.model is not None and lower == config.model.value.lower()):
        method = "mtp"
    else:
        method = "draft_model"
    tokens = 1 if method == "mtp" and not model.mtp_layers else len(model.mtp_layers) if method == "mtp" else 0
    for value in (
        options.get("num_speculative_tokens"),
        config.get("spec-tokens"),
        config.get("num-speculative-tokens"),
    ):
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            tokens = value
            break
    tensor = options.get("draft_tensor_parallel_size") or config.get("speculative-draft-tensor-parallel-size")
    dtype = options.get("kv_cache_dtype")
    return Draft(
        method,
        name,
        min(tokens, _MOST_TOKENS),
        min(tensor, 1 << 16) if isinstance(tensor, int) and not isinstance(tensor, bool) and tensor > 0 else 0,
        dtype[:40] if isinstance(dtype, str) and dtype != "auto" and config.version_key >= (0, 26) else "",
    )
