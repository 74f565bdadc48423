"""The peak of the profile run: what one step at full batch needs above the weights, and gives back afterwards.

The engine runs one forward pass over ``max_num_batched_tokens`` tokens and one pass of the sampler over
``min(max_num_seqs, max_num_batched_tokens)`` rows (and the multimodal encoder before them). The phases follow one another,
so the largest counts. Tensor sizes come from the architecture; how much of them is alive at once comes from start-up logs
(``planner.memory.coefficients``).
"""

from __future__ import annotations

from planner.accelerators.accelerator import Accelerator
from planner.engines.config import EffectiveConfig
from planner.estimate import Estimate
from planner.memory.budget import Input, Term
from planner.memory.coefficients import (
    ENCODER_FACTOR,
    EXPERTS_FACTOR,
    EXPERTS_KEPT,
    FORWARD_FACTOR,
    PROFILE_SLACK_GIB,
    SAMPLER_BYTES,
)
from planner.models.architecture import LatentAttention, ModelArchitecture
from planner.record import NamedTuple
from planner.units import GIB, MIB, ceil_div, format_bytes

#: Bytes per element of activations (16-bit types).
_ELEMENT = 2
#: Patches of the encoder per token of the decoder: 2×2 merging is usual, Gemma-3 pools 4×4.
_PATCHES_PER_TOKEN = {"gemma3": 16}
#: Largest item of encoders whose size follows the input (Qwen-VL class), in decoder tokens, and of families that bound it:
#: 1540 pixels in patches of 14, merged 2×2 (Mistral); 16 tiles and an overview of 144 tokens each (Llama 4).
_LARGEST_ITEM = 16384
_LARGEST_ITEMS = {"mistral3": 3025, "pixtral": 4096, "llama4": 2448}
#: Bytes of an indexer's key (128 values and a scale), and of the scores that one chunk of a prefill may take.
_INDEXER_KEY = 132
_INDEXER_SCORES = 512 * MIB
#: Quantisation methods that make a one-byte copy of every linear layer's input.
_QUANTISED_INPUTS = ("fp8", "compressed-tensors", "modelopt", "fbgemm_fp8", "int8", "w8a8", "deepseek")


class Phases(NamedTuple):
    """Bytes that the phases of the profile run hold at their peak, by tensor sizes alone, before any coefficient.

    ``forward``: one decoder layer of the forward pass; ``experts``: work space of the routed experts, and ``routing`` what
    is alive beside it instead of attention's tensors; ``latent``: the up-projection that MLA simulates; ``hidden``: the
    hidden states that stay alive for the sampler; ``entries``: sampled rows × vocabulary; ``encoder``: the multimodal
    encoder; ``encoded``: its outputs, which stay alive for the rest; ``sparse``: work space of sparse attention, which
    shares the experts' buffer; ``scores``: what its indexer sets aside.
    """

    forward: int
    experts: int
    latent: int
    hidden: int
    entries: int
    encoder: int
    encoded: int
    sparse: int = 0
    scores: int = 0
    routing: int = 0


def profile_peak(
    model: ModelArchitecture,
    config: EffectiveConfig,
    accelerator: Accelerator | None,
    *,
    last_stage: bool = True,
    first_stage: bool = True,
    since: tuple[int, ...] | None = None,
) -> Term:
    """The transient peak of the profile run of one rank, in bytes.

    ``last_stage``: this pipeline stage holds the head and samples; ``first_stage``: it runs the multimodal encoder.
    ``since``: the release is not stated, but is none before this one, so that the interval covers the samplers that releases
    from there on have. Source: reference on vLLM's memory, 6.1–6.3, and start-up logs.
    """
    fused = "fused" if fused_experts(model, config, accelerator) else "staged"
    sizes = phases(model, config, last_stage=last_stage, first_stage=first_stage)
    kind = sampler_kind(config)
    seen = encoder_kind(model)
    factor = FORWARD_FACTOR["eager" if is_eager(config) else "compiled"]
    bounds = []
    for bound in range(3):
        # One buffer serves the experts and sparse attention. The up-projection and the experts are never alive at once,
        # unless the buffer is kept for all layers.
        kept = (
            max(sizes.experts * EXPERTS_FACTOR[fused][1] * EXPERTS_KEPT[bound], sizes.sparse)
            if config.version >= (0, 13)
            else 0.0
        )
        buffer = max(sizes.experts * EXPERTS_FACTOR[fused][bound], sizes.sparse)
        attention = factor[bound] * sizes.forward + max(sizes.sparse, sizes.latent + kept)
        forward = max(attention, factor[bound] * sizes.routing + buffer) + sizes.scores
        sampling = sizes.entries * _sampler_bytes(config, kind, bound, since) + sizes.hidden + kept
        encoder = sizes.encoder * ENCODER_FACTOR[seen][bound]
        peak = max(max(forward, sampling) + sizes.encoded, encoder)
        bounds.append(int(peak + PROFILE_SLACK_GIB[bound] * GIB))
    expected = sizes.entries * SAMPLER_BYTES[kind][1]
    routed = sizes.experts * EXPERTS_FACTOR[fused][1]
    rows = sizes.entries // max(1, model.vocab_size)
    tokens = config.max_num_batched_tokens
    return Term(
        "activations",
        Estimate(bounds[0], bounds[1], bounds[2], "measured"),
        "max(forward + experts or latent up-projection, hidden + sampler, encoder) + slack",
        (
            Input("max_num_batched_tokens", f"{tokens.value:,}", str(tokens.provenance)),
            Input("max_num_seqs", f"{config.max_num_seqs.value:,}", str(config.max_num_seqs.provenance)),
            Input(
                "forward", format_bytes(factor[1] * sizes.forward), "hidden, intermediate and head sizes of the model"
            ),
            Input("experts", format_bytes(routed), "routed experts per token"),
            Input("latent", format_bytes(sizes.latent), "simulated up-projection of latent attention"),
            Input("sparse", format_bytes(sizes.sparse + sizes.scores), "gather buffers and scores of sparse attention"),
            Input("sampler", format_bytes(expected), f"{SAMPLER_BYTES[kind][1]:g} B × rows × vocabulary ({kind})"),
            Input("encoder", format_bytes(sizes.encoder * ENCODER_FACTOR[seen][1]), "largest multimodal input"),
        ),
        (
            (
                "batched tokens",
                f"{format_bytes((factor[1] * sizes.forward + routed) / max(tokens.value, 1))} per token",
            ),
            ("concurrency", f"{format_bytes(expected / max(rows, 1))} per sequence of max-num-seqs (sampler)"),
        ),
    )


def phases(
    model: ModelArchitecture, config: EffectiveConfig, *, last_stage: bool = True, first_stage: bool = True
) -> Phases:
    """The tensor sizes of each phase on one rank, in bytes. Source: reference on vLLM's memory, 6.2."""
    tokens = config.max_num_batched_tokens.value
    tp = max(1, config.parallel.tensor)
    hidden = model.hidden_size
    latent = next((a for layer in model.layers if isinstance(a := layer.attention, LatentAttention)), None)
    query = model.heads * model.head_dim // tp
    key_value = 2 * max(1, model.kv_heads // tp) * model.head_dim
    if latent is not None:
        query = latent.heads * (latent.nope_dim + latent.rope_dim) // tp
        key_value = latent.kv_lora_rank + latent.rope_dim + latent.q_lora_rank
    attention = 2 * query + key_value
    inner = model.intermediate_size // tp
    dense = 3 * inner + hidden if inner else 0
    if model.is_moe:
        dense = hidden if model.intermediate_size <= model.moe_intermediate_size else dense
    # The residual stays alive beside a layer's input, its intermediate results and its output (and the reduced copy).
    width = hidden + max(attention + hidden, dense) + (hidden if tp > 1 else 0) + _more_streams(model)
    forward = _ELEMENT * tokens * width
    if (model.quantization or "").startswith(_QUANTISED_INPUTS):
        forward += tokens * max(hidden, inner)
    if config.lora is not None:
        forward += tokens * (4 * config.lora[1] * 8 + _ELEMENT * hidden)
    if config.speculative_method.startswith("eagle"):
        forward += 3 * _ELEMENT * tokens * hidden
    rows = min(config.max_num_seqs.value, tokens)
    samples = last_stage and not model.pooling
    encoder, encoded = _encoder(model, config, tokens) if first_stage else (0, 0)
    return Phases(
        forward,
        _experts(model, config, tokens, tp),
        _up_projection(config, latent, tp),
        _ELEMENT * tokens * hidden,
        rows * model.vocab_size if samples else 0,
        encoder,
        encoded,
        *_sparse(model, config, latent),
        _routing(model, config, tokens, tp),
    )


def _routing(model: ModelArchitecture, config: EffectiveConfig, tokens: int, tp: int) -> int:
    """What is alive while the experts run, beside their work space: the residual and the layer's input, and their results
    or, with quantised inputs, the one-byte copies of what both stages read. The experts' results lie in the work space."""
    if not model.is_moe:
        return 0
    hidden, streams = model.hidden_size, _more_streams(model)
    if (model.quantization or "").startswith(_QUANTISED_INPUTS):
        inner = model.moe_intermediate_size if config.parallel.expert else max(1, model.moe_intermediate_size // tp)
        copies = _routed_width(model) + model.experts_per_token * inner
        return tokens * (_ELEMENT * (2 * hidden + streams) + copies)
    return _ELEMENT * tokens * (3 * hidden + streams)


def _more_streams(model: ModelArchitecture) -> int:
    """Elements per token of the residual streams beyond one, before and after they are mixed (hyper-connections)."""
    streams = dict(model.extra).get("streams", "")
    return 2 * (int(streams) - 1) * model.hidden_size if streams.isdecimal() else 0


def sampler_kind(config: EffectiveConfig) -> str:
    """Which sampler the profile run exercises, a key of ``SAMPLER_BYTES``.

    Model runner V2 takes only the greedy path through the sampler until 0.33. Source: reference, 6.1.
    """
    if config.runner == "v2" and config.version < (0, 33):
        return "greedy"
    return config.sampler if config.sampler in SAMPLER_BYTES else "torch"


def fused_experts(model: ModelArchitecture, config: EffectiveConfig, accelerator: Accelerator | None) -> bool:
    """Whether quantized experts run in one kernel, which keeps its intermediate results to itself: data-centre Blackwell with
    FlashInfer's TRT-LLM kernels or DeepGEMM's mega kernel. Source: reference on vLLM's memory, 6.2."""
    blackwell = accelerator is not None and accelerator.capability is not None and accelerator.capability[0] == 10
    return blackwell and bool(model.quantization) and config.version >= (0, 11)


def encoder_kind(model: ModelArchitecture) -> str:
    """How the multimodal encoder works, a key of ``ENCODER_FACTOR``: ``pooled`` encodes many tiles at once and pools them 4×4
    (Gemma-3), ``native`` one input whose size the user sets (Qwen-VL)."""
    if model.model_type in _PATCHES_PER_TOKEN:
        return "pooled"
    return "native" if any(tower.layers and not tower.max_tokens_per_item for tower in model.towers) else "tiled"


def is_eager(config: EffectiveConfig) -> bool:
    """Whether the forward pass of the profile run is not compiled. V0 never compiles; V1 does without graphs too."""
    return config.enforce_eager.value or config.runner == "v0"


def _sampler_bytes(config: EffectiveConfig, kind: str, bound: int, since: tuple[int, ...] | None) -> float:
    """Bytes per sampled row and vocabulary entry at one end of the interval."""
    if since is not None and bound != 1:
        # Torch's own sampler was the default until 0.17; what runs today may be any of the others.
        kinds = {kind, "greedy", "flashinfer", "triton"} | ({"torch"} if since < (0, 17) else set())
        ends = [SAMPLER_BYTES[each][bound] for each in kinds]
        return min(ends) if bound == 0 else max(ends)
    if bound == 0 and kind == "torch" and config.runner == "v1" and (0, 8, 3) <= config.version < (0, 11, 1):
        # These releases sample with FlashInfer where it is installed.
        return SAMPLER_BYTES["flashinfer"][0]
    return SAMPLER_BYTES[kind][bound]


def _experts(model: ModelArchitecture, config: EffectiveConfig, tokens: int, tp: int) -> int:
    """The work space of the fused experts: both intermediate results of every routed copy of a token.

    All tokens of all data-parallel ranks meet at the experts. Releases up to 0.17 cut them into chunks.
    """
    if not model.is_moe:
        return 0
    parallel = config.parallel
    inner = model.moe_intermediate_size if parallel.expert else max(1, model.moe_intermediate_size // tp)
    meeting = tokens * parallel.data
    if config.version < (0, 12):
        meeting = min(meeting, 32768)
    elif config.version < (0, 18):
        meeting = min(meeting, 16384)
    hidden = _routed_width(model)
    return _ELEMENT * meeting * model.experts_per_token * (max(inner, hidden) + max(2 * inner, hidden))


def _routed_width(model: ModelArchitecture) -> int:
    """Width of what the experts read, which some models narrow before they route (Kimi-K3, Nemotron-3 Super)."""
    for layer in model.layers:
        for matrix in layer.matrices:
            if matrix.shard == "expert_column":
                return matrix.k
    return model.hidden_size


def _up_projection(config: EffectiveConfig, latent: LatentAttention | None, tp: int) -> int:
    """Keys and values that latent attention makes of a chunk of cached context (V1 only; V0 has no chunks)."""
    if latent is None or config.runner == "v0" or latent.indexer_dim or latent.window or latent.compress_ratio:
        return 0
    block = config.block_size.value if config.block_size else 16
    chunk = min(max(8 * config.max_model_len.value, 4 * config.max_num_seqs.value * block), 65536)
    return _ELEMENT * chunk * (latent.heads // tp) * (latent.nope_dim + latent.v_head_dim)


def _sparse(model: ModelArchitecture, config: EffectiveConfig, latent: LatentAttention | None) -> tuple[int, int]:
    """(work space, scores) of sparse attention over a latent cache: keys that the indexer gathers, values that the kernel
    widens to 16 bits, and from 0.19 on the logits that the indexer may make.

    Sources: vLLM ``layers/sparse_attn_indexer.py``, ``attention/backends/mla/indexer.py`` and ``flashmla_sparse.py``,
    ``models/deepseek_v4/nvidia/flashmla.py``.
    """
    if latent is None or config.runner == "v0":
        return 0, 0
    length, tokens, version = config.max_model_len.value, config.max_num_batched_tokens.value, config.version
    factor = 5 if version < (0, 31) or length <= 256 * 1024 else 2
    kinds = {a for layer in model.layers if isinstance(a := layer.attention, LatentAttention)}
    if latent.window:
        ratio = min((kind.compress_ratio for kind in kinds if kind.compress_ratio > 1), default=1)
        gathered = 8 * factor * length // ratio * _INDEXER_KEY
        widened = (
            _ELEMENT * 4 * (ceil_div(length, ratio) + latent.window + tokens) * (latent.kv_lora_rank + latent.rope_dim)
        )
        return max(gathered, widened), _INDEXER_SCORES if version >= (0, 19) else 0
    if not any(kind.indexer_dim for kind in kinds):
        return 0, 0
    gathered = 8 * factor * length // latent.index_ratio * _INDEXER_KEY
    widened = 0
    if config.kv_cache_dtype.value == "fp8_ds_mla" and version >= (0, 13):
        widened = factor * length * (latent.kv_lora_rank + latent.rope_dim) * _ELEMENT
    return max(gathered, widened), _INDEXER_SCORES if version >= (0, 19) else 0


def _encoder(model: ModelArchitecture, config: EffectiveConfig, tokens: int) -> tuple[int, int]:
    """(peak of the multimodal encoder, its outputs) for a full encoder budget; zero where it is not profiled."""
    if not model.multimodal or not config.multimodal_profiled or not model.towers:
        return 0, 0
    if config.runner == "v2" and config.version < (0, 27):
        return 0, 0
    peak = 0
    budget = tokens
    for tower in model.towers:
        if not tower.layers or not tower.hidden:
            continue
        per_token = _PATCHES_PER_TOKEN.get(model.model_type, 4)
        item = tower.max_tokens_per_item // per_token or _LARGEST_ITEMS.get(model.model_type, _LARGEST_ITEM)
        if config.multimodal_item_tokens:
            item = min(item, config.multimodal_item_tokens)
        budget = max(budget, item) if config.runner != "v0" else item
        peak = max(peak, _ELEMENT * budget * per_token * (4 * tower.hidden + 3 * tower.intermediate))
    return (peak, _ELEMENT * budget * model.hidden_size) if peak else (0, 0)
