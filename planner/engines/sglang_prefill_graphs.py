"""Whether SGLang captures graphs of prefills where nobody says so: rules by release.

Up to 0.5.9 only on request. 0.5.10 to 0.5.14 take compiled pieces ("tc_piecewise"), with many exceptions; from 0.5.15 CUDA
devices take breakable graphs, with fewer, and others none. Source: ``_disable_tc_piecewise_cudagraph_if_incompatible`` and
``_disable_breakable_cudagraph_if_incompatible`` of each release (``cuda_graph_hook.py`` from 0.5.19), which run before the
memory settings; ``default_prefill_backend``; the lists of architectures in ``configs/model_config.py``.
"""

from __future__ import annotations

from planner.record import NamedTuple

Release = tuple[int, ...]

_ALWAYS: Release = (1 << 30,)
#: Architectures that compiled pieces leave out: (prefix, first release that no longer does).
_NOT_COMPILED: tuple[tuple[str, Release], ...] = (
    ("DeepseekV32", (0, 5, 14)),
    ("GlmMoeDsa", (0, 5, 14)),
    ("DeepseekV4", _ALWAYS),
    ("Qwen3Next", _ALWAYS),
    ("BailingMoeV2_5", _ALWAYS),
    ("LLaDAModelLM", _ALWAYS),
)
#: Multimodal architectures with compiled pieces: (architecture, first release, first without).
_COMPILED_MULTIMODAL: tuple[tuple[str, Release, Release], ...] = (
    ("Cohere2VisionForConditionalGeneration", (0, 5, 14), (0, 5, 19)),
    ("KimiK25ForConditionalGeneration", (0, 5, 16), (0, 5, 18)),
    ("MiniMaxM3SparseForCausalLM", (0, 5, 16), (0, 5, 22)),
    ("MiniMaxM3SparseForConditionalGeneration", (0, 5, 16), (0, 5, 22)),
)
#: Multimodal architectures with breakable graphs: (architecture, first release).
_BREAKABLE_MULTIMODAL: tuple[tuple[str, Release], ...] = (
    ("Qwen3_5ForConditionalGeneration", (0, 5, 16)),
    ("Qwen3_5MoeForConditionalGeneration", (0, 5, 16)),
    ("InternS2MobiusForConditionalGeneration", (0, 5, 18)),
    ("MuseGlimmerForConditionalGeneration", (0, 5, 18)),
    ("KimiK3ForConditionalGeneration", (0, 5, 18)),
    ("KimiK25ForConditionalGeneration", (0, 5, 18)),
    ("Cohere2VisionForConditionalGeneration", (0, 5, 19)),
    ("PaddleOCRVLForConditionalGeneration", (0, 5, 19)),
    ("Glm5NextForConditionalGeneration", (0, 5, 20)),
    ("Qwen4ExpForConditionalGeneration", (0, 5, 22)),
    ("MiniMaxM3SparseForCausalLM", (0, 5, 22)),
    ("MiniMaxM3SparseForConditionalGeneration", (0, 5, 22)),
    ("MuseSparkForConditionalGeneration", (0, 5, 23)),
)
#: Exchanges of experts that breakable graphs are known to work with from 0.5.17.
_EXCHANGES = ("", "none", "deepep", "megamoe", "flashinfer")


class Facts(NamedTuple):
    """What the rules ask about. ``exchange``: --moe-a2a-backend; ``compiled_rules``: a setting is on that only compiled pieces
    shun (torch.compile, hierarchical cache, offload, determinism, symmetric memory, recorded experts, GGUF). ``context``:
    --attn-cp-size, ``decode_context``: --dcp-size, which came with 0.5.15 and switches graphs off from 0.5.16."""

    version: Release
    architecture: str
    cuda: bool
    multimodal: bool
    latent: bool
    sparse: bool
    kda: bool
    attention_data: bool
    pipeline: bool
    context: bool
    decode_context: bool
    two_batches: bool
    exchange: str
    adapters: bool
    role: str
    compiled_rules: bool


def captured(facts: Facts) -> bool:
    """Whether prefills are captured by default."""
    version = facts.version
    if version < (0, 5, 10) or not facts.cuda:
        return False
    if version < (0, 5, 15):
        return _compiled(facts)
    taken = any(facts.architecture == name and a <= version < z for name, a, z in _COMPILED_MULTIMODAL)
    if facts.multimodal and taken and version >= (0, 5, 16):
        return _compiled(facts)
    return _breakable(facts)


def _compiled(facts: Facts) -> bool:
    version = facts.version
    taken = any(facts.architecture == name and a <= version < z for name, a, z in _COMPILED_MULTIMODAL)
    return not (
        any(facts.architecture.startswith(prefix) and version < until for prefix, until in _NOT_COMPILED)
        or facts.attention_data
        or facts.pipeline
        or facts.exchange not in ("", "none")
        or facts.adapters
        or (facts.multimodal and not taken)
        or facts.role
        or facts.context
        or (facts.decode_context and version >= (0, 5, 16))
        or facts.compiled_rules
    )


def _breakable(facts: Facts) -> bool:
    version = facts.version
    listed = any(facts.architecture == name and version >= since for name, since in _BREAKABLE_MULTIMODAL)
    if (
        facts.architecture.startswith("DeepseekV4")
        or (facts.decode_context and version >= (0, 5, 16))
        or facts.context
        or (facts.multimodal and not listed)
        or (facts.pipeline and version >= (0, 5, 19))
        or (facts.role == "decode" and version >= (0, 5, 16))
    ):
        return False
    if version < (0, 5, 17):
        return not (facts.latent or facts.adapters or facts.attention_data or facts.exchange not in ("", "none"))
    if version < (0, 5, 18) and ((facts.latent and not facts.sparse) or facts.architecture.startswith("NemotronH")):
        return False
    if (
        facts.kda
        and version >= (0, 5, 20)
        and not (version >= (0, 5, 22) and facts.architecture.startswith("Glm5Next"))
    ):
        return False
    return not (facts.two_batches or facts.exchange not in _EXCHANGES)
