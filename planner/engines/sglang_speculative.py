"""How many tokens SGLang drafts where nobody says it.

Source: ``auto_choose_speculative_params`` and ``_handle_speculative_decoding`` of 0.5.6 to 0.5.12, then
``arg_groups/speculative_hook.py``.
"""

from __future__ import annotations

from planner.record import NamedTuple

Version = tuple[int, ...]

#: Architectures that draft a wide tree of five steps; all others three tokens in a line (a tree too before 0.5.8).
_WIDE = ("LlamaForCausalLM", "Grok1ForCausalLM", "Grok1VForCausalLM")
#: Architectures that draft three tokens in a line in releases before 0.5.8 as well.
_LINE = (
    "DeepseekV32ForCausalLM",
    "DeepseekV3ForCausalLM",
    "DeepseekV2ForCausalLM",
    "GptOssForCausalLM",
    "BailingMoeForCausalLM",
    "BailingMoeV2ForCausalLM",
)
_LINE_0_5_7 = (
    "Glm4MoeForCausalLM",
    "MistralLarge3ForCausalLM",
    "PixtralForConditionalGeneration",
    "MiMoV2FlashForCausalLM",
)
#: Tokens of a block where neither flags nor the draft's config tell.
_DFLASH_BLOCK = 16
_NGRAM_TOKENS, _NGRAM_BREADTH = 12, 10


class Draft(NamedTuple):
    """Steps of drafting, branches of each, and tokens that one verification looks at."""

    steps: int
    topk: int
    tokens: int


def draft_shape(
    version: Version, algorithm: str, architecture: str, steps: int | None, topk: int | None, tokens: int | None
) -> Draft:
    """The shape of drafts for what the flags give (None: not given). ``algorithm`` in capitals."""
    if algorithm in ("DFLASH", "DSPARK"):
        return Draft(1, 1, tokens or _DFLASH_BLOCK)
    if algorithm == "NGRAM":
        return Draft(steps or 0, topk or _NGRAM_BREADTH, tokens or _NGRAM_TOKENS)
    if steps is None and topk is None and tokens is None:
        wide = architecture in _WIDE
        if version < (0, 5, 8) and not wide:
            wide = architecture not in _LINE and (version < (0, 5, 7) or architecture not in _LINE_0_5_7)
        return Draft(5, 4, 8) if wide and algorithm != "STANDALONE" else Draft(3, 1, 4)
    steps = steps or max(1, (tokens or 2) - 1)
    topk = topk or 1
    if topk == 1 and version >= (0, 5):
        # A chain: every step's token is looked at, and the one before.
        return Draft(steps, 1, steps + 1)
    return Draft(steps, topk, tokens or steps + 1)
