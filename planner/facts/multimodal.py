"""Facts of the multimodal encoder in the profile run: what its largest input takes from the cache where nothing limits it.

V1 profiles as many of the largest items as its encoder budget holds, which is one as a rule. V0 profiles all that a prompt may
have (``--limit-mm-per-prompt``), and with cross attention one for each sequence. Sources: reference on vLLM's memory, 5.6
and 6.1; the V0 engine's ``profile_run`` (worker/model_runner.py, worker/enc_dec_model_runner.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.engines.config import EffectiveConfig
    from planner.models.architecture import ModelArchitecture
    from planner.plan import Plan

#: Words in the names of options that bound how large an item becomes (``max_pixels``, ``longest_edge``, ``num_crops`` …).
_BOUNDS = ("pixel", "size", "edge", "patch", "crop", "tile", "token", "frame", "resolution", "width", "height")
#: Patches of one image of families with cross attention: four tiles of 1032 (mllama).
_CROSS_ATTENTION_PATCHES = {"mllama": 4128}
_ELEMENT = 2


def multimodal_facts(plan: Plan) -> dict[str, Any]:
    """``budget.multimodal``: bytes that are ``left`` for the cache of a rank and that would be ``left_without`` the largest
    input, and those ``needed`` for one request; empty where no encoder is profiled or something bounds its input."""
    model, config, budget = plan.model, plan.effective, plan.budget
    if plan.engine.engine != "vllm" or model is None or config is None or budget is None or not budget.ranks:
        return {}
    if not model.multimodal or not model.towers or not config.multimodal_profiled or _bounded(plan):
        return {}
    if config.cache_stated:
        return {}
    counts = _counts(plan)
    if counts and config.runner != "v0":
        return {}
    rank = next((rank for rank in budget.ranks if rank.pipeline_rank == 0), None)
    if rank is None or rank.kv is None or rank.bytes("activations").basis == "given":
        return {}
    from planner.memory.activations import profile_peak
    from planner.memory.kv_cache import least_bytes
    from planner.record import replace

    text_only = replace(config, multimodal_profiled=False)
    last = config.parallel.pipeline == 1
    text = profile_peak(model, text_only, plan.accelerator, last_stage=last).bytes.expected
    items = _items(model, config, counts)
    peak = max(rank.bytes("activations").expected, _peak_of(model, config, items, text))
    taken = sum(rank.bytes(name).expected for name in ("weights", "non_torch"))
    if rank.terms["graphs"].counted:
        taken += rank.bytes("graphs").expected
    room = rank.bytes("requested").expected - config.frontend_reserved - taken
    length = 1 if config.max_model_len_auto else None
    return {
        "items": items,
        "items_text": f"{items:,} items of the largest size" if items > 1 else "one item of the largest size",
        "peak": peak,
        "text_peak": text,
        "left": room - peak,
        "left_without": room - text,
        "needed": least_bytes(rank.kv, config.version, length),
        "advice": _advice(model, config, counts),
    }


def _bounded(plan: Plan) -> bool:
    """Whether an option bounds the size of an item."""
    named = []
    processor = plan.engine.get("mm-processor-kwargs")
    if isinstance(processor, dict):
        named += [str(name) for name in processor]
    limits = plan.engine.get("limit-mm-per-prompt")
    if isinstance(limits, dict):
        named += [str(name) for item in limits.values() if isinstance(item, dict) for name in item]
    hidden = [name for name in ("mm-processor-kwargs", "limit-mm-per-prompt") if name in plan.engine.flags]
    unknown = any(not plan.engine.flags[name].known for name in hidden)
    return unknown or any(word in name.lower() for name in named for word in _BOUNDS)


def _counts(plan: Plan) -> dict[str, int]:
    """Items of each modality that a prompt may have, as far as they are stated."""
    limits = plan.engine.get("limit-mm-per-prompt")
    found = {}
    for name, item in list(limits.items())[:16] if isinstance(limits, dict) else ():
        count = item.get("count") if isinstance(item, dict) else item
        if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= 100_000:
            found[str(name)] = count
    return found


def _items(model: ModelArchitecture, config: EffectiveConfig, counts: dict[str, int]) -> int:
    """Largest items that the profile run encodes at once."""
    if config.runner != "v0":
        return 1
    if model.model_type in _CROSS_ATTENTION_PATCHES:
        return config.max_num_seqs.value
    return max(1, sum(counts.values()))


def _peak_of(model: ModelArchitecture, config: EffectiveConfig, items: int, text: int) -> int:
    """The profile run's peak in bytes with several items at once; 0 for one, whose peak the budget has."""
    if items <= 1:
        return 0
    from planner.memory.activations import encoder_kind, phases
    from planner.memory.coefficients import ENCODER_FACTOR

    factor = ENCODER_FACTOR[encoder_kind(model)][1]
    patches = _CROSS_ATTENTION_PATCHES.get(model.model_type)
    if patches is not None:
        # The states of five layers are kept beside the last one's and then joined; the mask has a row for every patch.
        tower = max(model.towers, key=lambda tower: tower.hidden)
        encoder = _ELEMENT * patches * (4 * tower.hidden + 3 * tower.intermediate + 2 * 6 * tower.hidden + patches)
        encoded, factor = _ELEMENT * patches * model.hidden_size, 1.0
    else:
        sizes = phases(model, config)
        encoder, encoded = sizes.encoder, sizes.encoded
    return int(max(text + items * encoded, items * encoder * factor))


def _advice(model: ModelArchitecture, config: EffectiveConfig, counts: dict[str, int]) -> str:
    """What to set."""
    if config.runner == "v0" and model.model_type in _CROSS_ATTENTION_PATCHES:
        return "Lower --max-num-seqs, of which each sequence has an image in the profile run."
    if model.model_type.startswith("qwen"):
        bound = "max_pixels in --mm-processor-kwargs (1003520 are 1,280 tokens with Qwen2.5-VL)"
    else:
        bound = "the largest size that you serve in --mm-processor-kwargs"
    if config.runner == "v0" and sum(counts.values()) > 1:
        return f"Set {bound}, or allow fewer items with --limit-mm-per-prompt."
    return f"Set {bound}, or leave out with --limit-mm-per-prompt what is not served (a count of 0)."
