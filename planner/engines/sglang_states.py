"""State slots that SGLang keeps for each running request of a model with recurrent layers.

Source: ``_calculate_mamba_ratio``, ``_handle_mamba_radix_cache`` (0.5.14) and ``_mamba_radix_cache_resolution`` (from
0.5.15), with the architectures as of each release's ``_MAMBA_EXTRA_BUFFER_ARCHS``.
"""

from __future__ import annotations

_BUFFERED: tuple[tuple[tuple[int, int, int], frozenset[str]], ...] = (
    (
        (0, 5, 14),
        frozenset(
            {
                "Qwen3_5ForConditionalGeneration",
                "Qwen3_5MoeForConditionalGeneration",
                "Qwen3NextForCausalLM",
                "InternS2PreviewForConditionalGeneration",
                "MiniCPMV4_6ForConditionalGeneration",
                "BailingMoeV2_5ForCausalLM",
                "FalconH1ForCausalLM",
                "GraniteMoeHybridForCausalLM",
                "NemotronHForCausalLM",
                "NemotronHPuzzleForCausalLM",
            }
        ),
    ),
    ((0, 5, 16), frozenset({"KimiLinearForCausalLM"})),
    ((0, 5, 18), frozenset({"KimiK3ForConditionalGeneration"})),
    (
        (0, 5, 20),
        frozenset(
            {
                "Qwen3_5MoeForCausalLM",
                "Qwen3_5ForCausalLM",
                "Qwen4ExpForConditionalGeneration",
                "BailingMoeV3ForCausalLM",
                "Glm5NextForConditionalGeneration",
                "NemotronH_Omni_Reasoning_V3",
            }
        ),
    ),
    (
        (0, 5, 23),
        frozenset(
            {
                "MiniCPMV4_7ForConditionalGeneration",
                "BailingMoeV3VLForConditionalGeneration",
                "InklingForConditionalGeneration",
                "InklingForConditionalGenerationMTP",
            }
        ),
    ),
)
"""Architectures whose states a prefix cache can copy aside while requests run, from which release on."""


def buffers_states(version: tuple[int, ...], architecture: str, backend: str) -> bool:
    """Whether this release can keep the states of ``architecture`` in extra buffers (Triton linear attention only)."""
    return backend == "triton" and any(version >= since and architecture in names for since, names in _BUFFERED)


def strategy(
    version: tuple[int, ...], given: str, architecture: str, backend: str, *, overlap: bool, paged: bool
) -> str:
    """The prefix cache's way with recurrent states: ``no_buffer``, ``extra_buffer`` or ``extra_buffer_lazy``.

    Up to 0.5.13 ``auto`` means ``no_buffer``; from 0.5.14 the buffers are taken where the model can have them and either
    scheduling overlaps or pages are larger than a token.
    """
    if given and given != "auto":
        return given
    if version < (0, 5, 14):
        return "no_buffer"
    if architecture.startswith("Inkling"):
        return "extra_buffer"
    able = buffers_states(version, architecture, backend)
    return "extra_buffer" if able and (overlap or paged) else "no_buffer"


def slots_per_request(version: tuple[int, ...], kept: str, *, prefix_cache: bool, overlap: bool) -> int:
    """State slots for one running request: itself, two for the prefix cache, and what is copied aside as it runs."""
    if not prefix_cache or version < (0, 5, 4):
        return 1
    if kept == "extra_buffer":
        return 5 if overlap else 4
    return 4 if kept == "extra_buffer_lazy" else 3
