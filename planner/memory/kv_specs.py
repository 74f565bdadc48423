"""What one layer's cache is made of: bytes per token, tokens per block and how long a request keeps them.

A *spec* describes the cache of one layer; a *page* is what the layer needs for one block. Everything is per rank: KV
heads are divided by tensor parallelism while there are heads to divide, latent vectors (MLA) and indexer keys are whole
on every rank. Sources: vLLM ``v1/kv_cache_interface.py`` (0.11 to 0.32) and the backends' own packings.
"""

from __future__ import annotations

import math

from planner.models.architecture import (
    Attention,
    ChunkedLocal,
    CrossAttention,
    FullAttention,
    LatentAttention,
    SlidingWindow,
)
from planner.record import NamedTuple

Version = tuple[int, ...]

_TWO_BYTES = frozenset({"auto", "bfloat16", "float16", "half", "bf16", "fp16"})
#: key bits (8: plain FP8 keys) and value bits
_TURBOQUANT = {
    "turboquant_k8v4": (8, 4),
    "turboquant_4bit_nc": (4, 4),
    "turboquant_k3v4_nc": (3, 4),
    "turboquant_3bit_nc": (3, 3),
}
#: bytes of one token in the packed latent formats of sparse MLA
_PACKED_LATENT = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
#: FP8 scales that the DeepSeek-V3.2 indexer keeps beside its key, bytes per token
_INDEXER_SCALE = 4


class LayoutRefused(Exception):  # noqa: N818 - what the engine says, not a bug of ours
    """The engine would not start with this cache, whatever the memory; ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Spec(NamedTuple):
    """The cache of one layer on one rank.

    ``block`` tokens share a page of ``block / ratio`` rows of ``row`` bytes (``row`` is the whole state for ``state``
    specs), rounded up to ``align`` and at least ``padded`` bytes. ``content`` tells layers apart whose rows happen to
    have the same size. ``reach`` is the window or chunk in tokens. ``fixed`` blocks are all that a request ever holds
    (0: they grow with it); ``extra`` blocks come on top of those that its tokens fill.
    """

    kind: str  # full, latent, window, window_latent, chunked, cross, ring or state
    block: int
    row: int
    content: tuple[object, ...] = ()
    reach: int = 0
    ratio: int = 1
    align: int = 1
    padded: int = 0
    fixed: int = 0
    extra: int = 0

    @property
    def page(self) -> int:
        """Bytes of one block of this layer."""
        if self.kind == "state":
            return max(self.row, self.padded)
        natural = self.block // self.ratio * self.row
        return max(-(-natural // self.align) * self.align, self.padded)

    @property
    def family(self) -> tuple[object, ...]:
        """Layers of one family and one block size can share a block table even where their pages differ."""
        if self.kind in ("full", "latent"):
            return ("full",)
        if self.kind == "state":
            return ("state", self.page, self.fixed, self.extra, self.content[1:])  # split or the same on every rank
        return (self.kind, self.reach, self.fixed)


def element_bytes(dtype: str) -> int:
    """Bytes of one element of an unpacked cache or state dtype; raises ``LayoutRefused`` for names nobody knows."""
    if dtype in _TWO_BYTES:
        return 2
    if dtype.startswith("fp8") or dtype in ("int8", "uint8"):
        return 1
    if dtype in ("float32", "float"):
        return 4
    raise LayoutRefused(f"KV cache dtype {dtype} is not known")


def token_head_bytes(dtype: str, key: int, value: int, *, windowed: bool = False, version: Version = (99,)) -> int:
    """Bytes of one token in one KV head: key and value of ``key`` and ``value`` elements with the scales beside them."""
    if dtype in ("int8_per_token_head", "fp8_per_token_head"):
        return key + value + 8
    if dtype == "int4_per_token_head":
        return key // 2 + value // 2 + 8
    if dtype.startswith("nvfp4"):
        if windowed and version < (0, 21):
            return key + value  # 0.20 budgets sliding windows at one byte per element
        return key // 2 + key // 16 + value // 2 + value // 16
    if dtype in _TURBOQUANT:
        key_bits, value_bits = _TURBOQUANT[dtype]
        slot = (key if key_bits == 8 else math.ceil(key * key_bits / 8) + 2) + math.ceil(value * value_bits / 8) + 4
        return slot + slot % 2
    if dtype == "ultraquant_4bit":
        return key // 2 + key // 32 + value // 2 + value // 32
    return (key + value) * element_bytes(dtype)


def latent_token_bytes(dtype: str, latent: int) -> int:
    """Bytes of one token of an MLA cache: one vector of ``latent`` elements, no factor two, no heads."""
    if dtype in _PACKED_LATENT:
        return _PACKED_LATENT[dtype]
    if dtype in ("int8_per_token_head", "fp8_per_token_head"):
        return latent + 8
    if dtype == "int4_per_token_head":
        return latent // 2 + 8
    return latent * element_bytes(dtype)


def latent_dtype(dtype: str, sparse: bool, capability: tuple[int, int] | None, version: Version) -> str:
    """How an MLA cache of this dtype is really stored; sparse kernels pack FP8 their own way, by GPU generation.

    Raises ``LayoutRefused`` for packed formats where no kernel reads them.
    """
    if not sparse:
        if dtype in _PACKED_LATENT:
            raise LayoutRefused(f"no attention backend reads a {dtype} cache without sparse attention")
        return dtype
    blackwell = capability is not None and capability[0] == 10
    if dtype == "nvfp4_ds_mla" and not blackwell and capability is not None:
        raise LayoutRefused("no attention backend reads an nvfp4_ds_mla cache before compute capability 10.0")
    if dtype in ("fp8", "fp8_e4m3"):
        hopper = capability is not None and capability[0] == 9
        if (blackwell and version >= (0, 18)) or (hopper and dtype == "fp8_e4m3" and version >= (0, 30)):
            return dtype
        return "fp8_ds_mla"
    return dtype


def is_quantized(dtype: str) -> bool:
    """Whether the cache is smaller than 16 bits per element."""
    return dtype not in _TWO_BYTES and dtype not in ("float32", "float")


def local_heads(kv_heads: int, tensor: int) -> int:
    """KV heads on one rank: divided while there are heads, then replicated."""
    return max(1, kv_heads // tensor)


def in_flight_tokens(
    batched_tokens: int, version: Version, *, async_scheduling: bool, pipeline: int, runner: str
) -> int:
    """Tokens that may be scheduled and not yet settled, which windows keep beside themselves.

    One batch before 0.26; then one per concurrent step: two with asynchronous scheduling, one per pipeline stage (and
    one more with asynchronous scheduling of the V2 runner).
    """
    if version < (0, 26):
        return batched_tokens
    steps = pipeline
    if async_scheduling:
        if runner == "v2":
            steps = pipeline + 1
        elif pipeline <= 1:
            steps = 2
    return steps * batched_tokens


def attention_specs(
    attention: Attention,
    *,
    dtype: str,
    model_dtype: str,
    block: int,
    window_block: int,
    tensor: int,
    sparse: bool,
    capability: tuple[int, int] | None,
    version: Version,
    encoder_tokens: int = 0,
    encoder_length: int = 0,
    speculative: int = 0,
    axes: int = 0,
) -> tuple[Spec, ...]:
    """The specs of one attention layer that is no recurrent state and no DeepSeek-V4 layer.

    ``dtype`` is the resolved cache dtype (``auto`` and 16-bit names mean two bytes), ``block`` the block size of the
    engine and ``window_block`` that of sliding windows. ``sparse``: the model selects tokens with an indexer, which not
    every layer need have of its own (GLM-5.2). ``encoder_tokens`` are those that the engine counts for a request of an
    encoder and decoder, ``encoder_length`` the most that there can be. ``speculative`` tokens per step and ``axes`` of rotary
    positions (0: one, not kept) matter to the ring of an indexer that compresses.
    """
    if isinstance(attention, LatentAttention):
        return _latent_specs(attention, dtype, model_dtype, block, sparse, capability, version, speculative)
    if not isinstance(attention, (FullAttention, SlidingWindow, ChunkedLocal, CrossAttention)):
        return ()
    cache = model_dtype if dtype == "auto" else dtype
    heads = local_heads(attention.kv_heads, tensor)
    # narrower values (MiMo-V2) were padded to the keys before there was a kernel for both
    value = attention.head_dim if version < (0, 20) else attention.v_head_dim
    windowed = isinstance(attention, SlidingWindow)
    row = heads * token_head_bytes(cache, attention.head_dim, value, windowed=windowed, version=version)
    content = (heads, attention.head_dim, value, cache)
    if isinstance(attention, SlidingWindow):
        return (Spec("window", window_block, row, content, reach=attention.window),)
    if isinstance(attention, ChunkedLocal):
        return (Spec("chunked", block, row, content, reach=attention.chunk),)
    if isinstance(attention, CrossAttention):
        held = -(-encoder_tokens // block) if encoder_tokens else 0
        return (Spec("cross", block, row, content, reach=encoder_length, fixed=held),)
    full = Spec("full", block, row, content)
    if attention.indexer_dim:
        return (*_index_specs(attention, block, speculative, axes), full)
    return (full,)


def _index_specs(attention: FullAttention, block: int, speculative: int, axes: int) -> tuple[Spec, ...]:
    """What an indexer keeps beside keys and values, one 16-bit head on every rank.

    Either a key per token (MiniMax-M3), or one per ``index_ratio`` tokens and, in a ring that a request holds for all its
    life, the keys of the unfinished group with their ``axes`` positions of 8 bytes (Qwen4-Exp). ``speculative`` tokens
    lengthen the ring by whole groups.
    """
    key, ratio = 2 * attention.indexer_dim, attention.index_ratio
    keys = Spec("latent", block, key, ("indexer",), ratio=ratio)
    if ratio == 1:
        return (keys,)
    capacity = -(-(ratio + speculative) // ratio) * ratio
    width = -(-key // 8) * 8 + 8 * axes if axes else key
    return (Spec("ring", capacity, width, ("indexer",), fixed=1), keys)


def _latent_specs(
    attention: LatentAttention,
    dtype: str,
    model_dtype: str,
    block: int,
    sparse: bool,
    capability: tuple[int, int] | None,
    version: Version,
    speculative: int,
) -> tuple[Spec, ...]:
    """The latent cache and, where the layer has an indexer of its own, the indexer's key cache.

    An indexer that pools the keys of ``index_ratio`` tokens (GLM-5.3-Flash) keeps those of the unfinished pool, and their
    scores, at 16 bits in a ring; ``speculative`` tokens lengthen the ring by whole pools, to a power of two of them.
    """
    cache = model_dtype if dtype == "auto" else dtype
    latent = attention.kv_lora_rank + attention.rope_dim
    hopper = capability is None or capability[0] == 9
    if attention.rope_dim or not hopper:  # Hopper reads latents without rotation in plain FP8
        cache = latent_dtype(cache, sparse, capability, version)
    main = Spec("latent", block, latent_token_bytes(cache, latent), (latent, cache))
    if not attention.indexer_dim:
        return (main,)
    keys = Spec("latent", block, attention.indexer_dim + _INDEXER_SCALE, ("indexer",), ratio=attention.index_ratio)
    if attention.index_ratio == 1:
        return (keys, main)
    pools = 1 << (-(-speculative // attention.index_ratio)).bit_length()
    ring = Spec("ring", pools * attention.index_ratio, 4 * attention.indexer_dim, ("indexer",), fixed=1)
    return (main, keys, ring)
