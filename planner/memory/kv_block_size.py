"""The block size that vLLM chooses when nobody does: it follows the attention kernels, and those the GPU.

From 0.18 on the engine takes 16 tokens unless a kernel wants more; before, a list of exceptions for MLA kernels forced
the size. Sources: vLLM ``platforms/cuda.py`` (kernel priorities), ``platforms/interface.py`` and the kernels' supported
sizes under ``v1/attention/backends`` (0.11 to 0.32). Only CUDA kernels are described here.
"""

from __future__ import annotations

from planner.memory.kv_specs import LayoutRefused, Version, is_quantized
from planner.models.architecture import (
    ChunkedLocal,
    CrossAttention,
    FullAttention,
    LatentAttention,
    ModelArchitecture,
    SlidingWindow,
)
from planner.record import NamedTuple

DEFAULT_BLOCK_SIZE = 16

#: models that attend to an image in both directions, which few kernels can; ``config.json`` model types
_BIDIRECTIONAL_IMAGES = frozenset({"bagel", "gemma3", "molmo2", "moondream3", "paligemma", "gemma4"})
_PER_TOKEN_HEAD = frozenset({"int8_per_token_head", "fp8_per_token_head", "int4_per_token_head"})


class Kernel(NamedTuple):
    """An attention kernel as far as blocks go: it takes any multiple of ``smallest``, has ``preferred`` tokens when nobody
    says otherwise, and gives a sliding window blocks of at most ``window_limit`` tokens (0: no limit)."""

    name: str
    smallest: int
    preferred: int
    window_limit: int = 0


class Shapes(NamedTuple):
    """What kernels ask about a model's layers."""

    latent: LatentAttention | None
    sparse: bool
    compressed: bool
    head_dims: frozenset[int]
    asymmetric: bool
    sinks: bool
    indexer: int = 0  # tokens per index key beside keys and values, 0 where there is no such indexer


#: Kernels by the names of ``--attention-backend``, for caches of keys and values and for latent ones.
_NAMED = {
    "FLASH_ATTN": Kernel("FLASH_ATTN", 16, 16),
    "FLASHINFER": Kernel("FLASHINFER", 16, 16, 64),
    "TRITON_ATTN": Kernel("TRITON_ATTN", 16, 16),
    "FLEX_ATTENTION": Kernel("FLEX_ATTENTION", 16, 16),
}
_NAMED_LATENT = {
    "FLASHMLA": Kernel("FLASHMLA", 64, 64),
    "FLASHINFER_MLA": Kernel("FLASHINFER_MLA", 32, 32),
    "CUTLASS_MLA": Kernel("CUTLASS_MLA", 128, 128),
    "TRITON_MLA": Kernel("TRITON_MLA", 16, 16),
    "FLASH_ATTN_MLA": Kernel("FLASH_ATTN_MLA", 16, 16),
}


def default_block_size(
    model: ModelArchitecture,
    kv_cache_dtype: str,
    capability: tuple[int, int] | None,
    version: Version,
    *,
    multimodal: bool = True,
    backend: str = "",
) -> int:
    """Tokens per block without ``--block-size``, before hybrid models grow it (``kv_hybrid.aligned_block``).

    ``kv_cache_dtype`` as resolved; ``capability`` None: unknown GPU, taken as one of compute capability 9.0.
    ``multimodal`` False: every modality is limited to zero. ``backend``: the kernel that a flag or variable names. Raises
    ``LayoutRefused`` where no kernel can read the cache.
    """
    return kernel_for(model, kv_cache_dtype, capability, version, multimodal=multimodal, backend=backend).preferred


def check_block_size(
    model: ModelArchitecture, kv_cache_dtype: str, block_size: int, capability: tuple[int, int] | None, version: Version
) -> None:
    """Raises ``LayoutRefused`` where no kernel takes the block size that the user gave."""
    kernel = kernel_for(model, kv_cache_dtype, capability, version)
    # where the preferred kernel wants more than 16 tokens, the Triton kernel takes over; these have no such twin
    step = kernel.smallest if kernel.name in ("MLA_SPARSE", "DEEPSEEK_V4", "MINIMAX_M3") else DEFAULT_BLOCK_SIZE
    if block_size % step:
        raise LayoutRefused(f"no attention backend takes blocks of {block_size} tokens: not a multiple of {step}")


def kernel_for(
    model: ModelArchitecture,
    kv_cache_dtype: str,
    capability: tuple[int, int] | None,
    version: Version,
    *,
    multimodal: bool = True,
    backend: str = "",
) -> Kernel:
    """The kernel that the engine picks on this GPU for this model and cache, or that ``backend`` names (upper case; one that
    is not known here changes nothing). Raises ``LayoutRefused`` for none."""
    if backend:
        named = _named_kernel(model, backend, version)
        if named is not None:
            return named
    major = 9 if capability is None else capability[0]
    shapes = kernel_shapes(model)
    if shapes.compressed:
        return Kernel("DEEPSEEK_V4", 256, 256)
    if shapes.indexer == 1:  # a page is one block of the sparse choice
        return Kernel("MINIMAX_M3", 128, 128)
    if shapes.indexer:
        return Kernel("QWEN4_EXP_QSA", 16, 16)
    if shapes.latent is not None:
        return _latent_kernel(shapes.latent, shapes.sparse, kv_cache_dtype, capability, major, version)
    if kv_cache_dtype.startswith("turboquant_"):
        return _turboquant_kernel(model, major, version)
    if kv_cache_dtype == "ultraquant_4bit":
        return Kernel("ULTRAQUANT", 16, 64)
    if kv_cache_dtype in _PER_TOKEN_HEAD:
        return Kernel("TRITON_ATTN", 16, 16)
    if version < (0, 18):
        return Kernel("", 16, 16)
    images = multimodal and model.multimodal and model.model_type in _BIDIRECTIONAL_IMAGES
    if images and version >= (0, 30) and shapes.head_dims <= {256, 512}:
        if major == 10:
            return Kernel("TRITON_FLASHINFER", 64, 64, 64)
        if major == 9:
            wide = is_quantized(kv_cache_dtype) and 512 in shapes.head_dims
            return Kernel("TRITON_FLASH_ATTN", 64 if wide else 16, 64 if wide else 16)
    if images:
        return Kernel("TRITON_ATTN", 16, 16)
    if major == 9 and version >= (0, 30) and 512 in shapes.head_dims and kv_cache_dtype in ("fp8", "fp8_e4m3"):
        return Kernel("FLASH_ATTN", 64, 64)
    flash = not is_quantized(kv_cache_dtype) or (major == 9 and kv_cache_dtype in ("fp8", "fp8_e4m3"))
    if major == 10 and shapes.head_dims <= {64, 128, 256, 512} and not shapes.asymmetric:
        return Kernel("FLASHINFER", 16, 16, 64)
    if flash or (shapes.sinks and major < 9):
        return Kernel("FLASH_ATTN", 16, 16)
    return Kernel("FLASHINFER", 16, 16, 64)


def _named_kernel(model: ModelArchitecture, backend: str, version: Version) -> Kernel | None:
    """The kernel of ``--attention-backend`` where it suits the kind of cache; None where the engine's own choice stands."""
    shapes = kernel_shapes(model)
    if shapes.compressed or shapes.sparse:
        return None
    if shapes.latent is not None:
        return _NAMED_LATENT.get(backend)
    return _NAMED.get(backend.removesuffix("_VLLM_V1")) if version >= (0, 18) else None


def _latent_kernel(
    attention: LatentAttention,
    sparse: bool,
    dtype: str,
    capability: tuple[int, int] | None,
    major: int,
    version: Version,
) -> Kernel:
    """The kernel of an MLA model. Hopper: FlashAttention for 16 bits, FlashMLA for FP8; Blackwell: FlashInfer."""
    quantized = is_quantized(dtype)
    if sparse:
        # pages of pooled index keys hold 32 or 64 of them, on SM120 always 64
        least = max(64, (64 if major == 12 else 32) * attention.index_ratio if attention.index_ratio > 1 else 0)
        return Kernel("MLA_SPARSE", least, least)
    if version < (0, 18):
        if version < (0, 8) or major not in (9, 10):
            return Kernel("TRITON_MLA", 16, 16)
        if major == 9:
            return Kernel("FLASHMLA", 64, 64)
        return Kernel("FLASHINFER_MLA", 64, 64) if version >= (0, 16) else Kernel("CUTLASS_MLA", 128, 128)
    if major == 10:
        if attention.nope_dim in (64, 128, 192):
            return Kernel("FLASHINFER_MLA", 32, 32)
        return Kernel("CUTLASS_MLA", 128, 128)
    if major == 9:
        return Kernel("FLASHMLA", 64, 64) if quantized else Kernel("FLASH_ATTN_MLA", 16, 16)
    if quantized and capability is not None and capability < (8, 9):
        raise LayoutRefused("an FP8 cache needs compute capability 8.9 with the Triton MLA kernel")
    return Kernel("TRITON_MLA", 16, 16)


def _turboquant_kernel(model: ModelArchitecture, major: int, version: Version) -> Kernel:
    """TurboQuant keeps the first and last two layers of a dense model at 16 bits; both kinds must share a layout."""
    if model.is_hybrid:
        return Kernel("TURBOQUANT", 16, 16)
    if major == 10 and version >= (0, 29):
        raise LayoutRefused("no KV cache layout suits both the TurboQuant layers and the 16-bit layers on this GPU")
    if version < (0, 26):
        return Kernel("TURBOQUANT", 16, 16)
    # the block grows until a page of one-byte elements covers a 16-token page of the 16-bit layers
    return Kernel("TURBOQUANT", 16, 32)


def kernel_shapes(model: ModelArchitecture) -> Shapes:
    """What the kernels ask about: MLA or not, head sizes, sinks. Layers are shared, so few of them are looked at."""
    latent: LatentAttention | None = None
    sparse = compressed = asymmetric = sinks = False
    indexer = 0
    dims: set[int] = set()
    seen: set[int] = set()
    for layer in model.layers:
        attention = layer.attention
        if id(attention) in seen:
            continue
        seen.add(id(attention))
        if isinstance(attention, LatentAttention):
            latent = latent or attention
            sparse = sparse or attention.indexer_dim > 0
            compressed = compressed or attention.window > 0
        elif isinstance(attention, (FullAttention, SlidingWindow, ChunkedLocal, CrossAttention)):
            dims.add(attention.head_dim)
            asymmetric = asymmetric or attention.head_dim != attention.v_head_dim
            sinks = sinks or bool(getattr(attention, "sinks", False))
            if isinstance(attention, FullAttention) and attention.indexer_dim:
                indexer = attention.index_ratio
    return Shapes(latent, sparse, compressed, frozenset(dims), asymmetric, sinks, indexer)
