"""Attention kernels, block sizes and graph modes that vLLM refuses, by release, model and device.

Sources: ``VLLM_ATTENTION_BACKEND`` in ``envs.py`` and ``attention/selector.py``; the kernels' names in ``platforms/interface.py``
(0.6 to 0.11.0) and ``attention/backends/registry.py`` (0.11.1 on); ``validate_configuration`` and what each kernel declares in
``v1/attention/backends`` (0.11.1 to 0.33); ``select_common_block_size``; ``resolve_cudagraph_mode_and_sizes``. 0.19.1, 0.24.0
and 0.32.0 themselves were asked about each kernel on six devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.engines.config import FlagValue
from planner.facts.flag_conflicts import Conflict
from planner.record import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from planner.engines.config import EngineConfig
    from planner.facts.flag_conflicts import Case
    from planner.memory.kv_block_size import Shapes
    from planner.models.architecture import ModelArchitecture

Version = tuple[int, ...]
VARIABLE = "VLLM_ATTENTION_BACKEND"
#: First release that validates a named kernel; before, one that does not fit was left out, or failed in its own way.
VALIDATED: Version = (0, 11, 1)

# ---- names -------------------------------------------------------------------------------------------------------------

#: Names by release: (release, those that came with it, those that went).
_NAMES: tuple[tuple[Version, str, str], ...] = (
    ((0, 6), "FLASH_ATTN XFORMERS ROCM_FLASH TORCH_SDPA OPENVINO FLASHINFER PALLAS IPEX", ""),
    ((0, 6, 3), "NO_ATTENTION", ""),
    ((0, 6, 4), "FLASH_ATTN_VLLM_V1 HPU_ATTN", ""),
    ((0, 7), "BLOCK_SPARSE_FLASH_ATTN TRITON_MLA PALLAS_VLLM_V1", ""),
    ((0, 8), "FLASHMLA", ""),
    ((0, 8, 3), "TRITON_ATTN_VLLM_V1 ROCM_AITER_MLA", "OPENVINO"),
    ((0, 9), "ROCM_AITER_MLA_VLLM_V1 DUAL_CHUNK_FLASH_ATTN", ""),
    ((0, 9, 1), "FLASHINFER_VLLM_V1 TRITON_MLA_VLLM_V1 FLASHMLA_VLLM_V1 CUTLASS_MLA_VLLM_V1 FLEX_ATTENTION", ""),
    ((0, 10), "DIFFERENTIAL_FLASH_ATTN", "BLOCK_SPARSE_FLASH_ATTN HPU_ATTN"),
    ((0, 10, 1), "ROCM_AITER_FA CUTLASS_MLA TREE_ATTN XFORMERS_VLLM_V1", "CUTLASS_MLA_VLLM_V1"),
    ((0, 10, 2), "TORCH_SDPA_VLLM_V1 FLASHINFER_MLA FLASH_ATTN_MLA", ""),
    ((0, 11), "TRITON_ATTN ROCM_ATTN", "FLASH_ATTN_VLLM_V1 TRITON_ATTN_VLLM_V1 ROCM_AITER_MLA_VLLM_V1 TORCH_SDPA_VLLM_V1 "
     "FLASHINFER_VLLM_V1 TRITON_MLA_VLLM_V1 FLASHMLA_VLLM_V1 PALLAS_VLLM_V1 XFORMERS_VLLM_V1"),
    ((0, 11, 1), "FLASHMLA_SPARSE ROCM_AITER_UNIFIED_ATTN CPU_ATTN CUSTOM",
     "ROCM_FLASH DUAL_CHUNK_FLASH_ATTN DIFFERENTIAL_FLASH_ATTN"),
    ((0, 12), "ROCM_AITER_TRITON_MLA ROCM_AITER_MLA_SPARSE", "XFORMERS"),
    ((0, 14), "FLASH_ATTN_DIFFKV", "PALLAS"),
    ((0, 16), "", "IPEX"),
    ((0, 17), "FLASHINFER_MLA_SPARSE", ""),
    ((0, 18), "XPU_MLA_SPARSE", ""),
    ((0, 20), "TURBOQUANT", ""),
    ((0, 21), "TOKENSPEED_MLA", "TREE_ATTN"),
    ((0, 23), "FLASHMLA_SPARSE_DSV4 FLASHINFER_MLA_SPARSE_DSV4 ROCM_FLASHMLA_SPARSE_DSV4", ""),
    ((0, 24), "TRITON_ATTN_DIFFKV FLASHINFER_MLA_SPARSE_SM120 MINIMAX_M3_SPARSE", ""),
    ((0, 25), "FLASH_ATTN_MLA_SPARSE HPC_ATTN", ""),
    ((0, 27), "CUTLASS_MSA TRITON_MSA", ""),
    ((0, 28), "CPU_MLA", ""),
    ((0, 29), "AMX_MLA", ""),
    ((0, 30), "TRITON_FLASH_ATTN TRITON_FLASHINFER FLASHINFER_MLA_SPARSE_SM90 FLASHMLA_SPARSE_DSV41 "
     "FLASHINFER_MLA_SPARSE_DSV41 B12X", ""),
    ((0, 31), "FLASHMLA_MEGA_ATTN_DSV41", ""),
    ((0, 32), "ROCM_SEGMENTED_ATTN ULTRAQUANT", ""),
    ((0, 33), "ROCM_FLASHMLA_SPARSE_DSV41 FLASH_ATTN_MLA_SPARSE_FA4 STEP5_DSA ROCM_OCTAVE", ""),
)  # fmt: skip
#: Releases that ignore a variable's value that is no name; all others refuse it.
_IGNORED: tuple[Version, Version] = ((0, 7), (0, 10, 1))
#: Names for other platforms that the V0 engine refuses on CUDA once it is not latent attention that is asked for (0.7 to 0.10).
_FOREIGN_V0 = frozenset(["TORCH_SDPA", "IPEX", "ROCM_FLASH", "OPENVINO", "HPU_ATTN"])
#: Names without a decoder kernel behind them on CUDA: of the vision encoder, or of a platform's package that is not installed.
_HOLLOW = frozenset(["TORCH_SDPA", "NO_ATTENTION", "PALLAS", "IPEX"])
_REMOVE = "Remove it: vLLM chooses a kernel that fits"


class Choice(NamedTuple):
    """A kernel that is asked for: ``name`` as the release reads it, ``stated`` for messages, ``flag`` to point at."""

    name: str
    stated: str
    flag: FlagValue


def choices(engine: EngineConfig) -> list[Choice]:
    """Every place that names a kernel, the one that counts first: the variable overrides flags until 0.14, and from 0.15 on is
    not read."""
    found: list[Choice] = []
    variable = engine.env.get(VARIABLE)
    if variable is not None and engine.version_key < (0, 15):
        flag = FlagValue(VARIABLE, variable.value, VARIABLE, variable.value, variable.position, variable.position)
        found.append(Choice(variable.value, f"{VARIABLE}={variable.value[:60]}", flag))
    flag_, config = engine.flags.get("attention-backend"), engine.flags.get("attention-config")
    if flag_ is not None and flag_.known and isinstance(flag_.value, str):
        found.append(Choice(flag_.value.upper(), f"--attention-backend {flag_.value[:60]}", flag_))
    elif config is not None and config.known and isinstance(config.value, dict):
        name = config.value.get("backend")
        if isinstance(name, str):
            found.append(Choice(name.upper(), f"backend {name[:60]} of --attention-config", config))
    automatic = engine.version_key >= (0, 18)
    return [choice for choice in found if not (automatic and choice.name == "AUTO")]


def names(version: Version) -> set[str]:
    """The names of kernels that a release has."""
    found: set[str] = set()
    for since, came, went in _NAMES:
        if version >= since:
            found = (found | set(came.split())) - set(went.split())
    return found


def _unknown_names(case: Case) -> Iterator[Conflict]:
    """Names that the release has not: the variable is refused until 0.6.6 and from 0.10.1 on, with regard to case, and ignored
    between; the flag is refused without regard to case. Suffixes ``_VLLM_V1`` are gone with 0.11."""
    known = names(case.version)
    for choice in choices(case.engine):
        ignored = choice.flag.name == VARIABLE and case.within(*_IGNORED)
        if choice.name in known or ignored or not case.within((0, 6)):
            continue
        from difflib import get_close_matches

        plain = choice.name.upper().removesuffix("_VLLM_V1")
        near = [plain] if plain in known else get_close_matches(plain, sorted(known), 1, 0.8)
        # A newer release may have one more name, and no older one.
        certain = not case.engine.version_assumed or any(choice.name in came.split() for _, came, _ in _NAMES)
        yield Conflict(
            choice.flag, f"{choice.stated}: vLLM {case.engine.version.value} has no attention backend of this name",
            f"Write {near[0]}" if near else _REMOVE, refused=certain,
        )  # fmt: skip


def _stated_twice(case: Case) -> Iterator[Conflict]:
    """0.13 on: the attention kernel as a flag and as a key of --attention-config."""
    flag, config = case.flag("attention-backend"), case.engine.get("attention-config")
    if flag is not None and isinstance(config, dict) and config.get("backend") is not None and case.within((0, 13)):
        yield Conflict(
            flag, "--attention-backend stands beside the same key of --attention-config", "State one of the two"
        )


# ---- what a kernel can -------------------------------------------------------------------------------------------------


class Kernel(NamedTuple):
    """What a kernel declares. ``lowest`` and ``highest``: compute capabilities, ten times the number; ``heads``: head sizes
    (None: all); ``sinks``: major compute capabilities where it has attention sinks (None: all); ``formats``: formats of the
    cache beside 16 bits (None: not described here); ``wide``: whether it computes in 32 bits; ``block``: what a block size
    must be a multiple of."""

    latent: bool = False
    sparse: bool = False
    lowest: int = 0
    highest: int = 999
    heads: Container[int] | None = None
    sinks: tuple[int, ...] | None = ()
    formats: tuple[str, ...] | None = None
    wide: bool = False
    block: int = 16


_E4M3 = ("fp8", "fp8_e4m3")
_FP8 = (*_E4M3, "fp8_e5m2")
_STEPS_OF_32 = (32, 64, 96, 128, 160, 192, 224, 256)
_HOPPER, _BLACKWELL = (90, 99), (100, 109)
_KERNELS: dict[str, Kernel] = {
    "FLASH_ATTN": Kernel(lowest=80, heads=_STEPS_OF_32, sinks=(9, 10)),
    "FLASHINFER": Kernel(lowest=75, highest=121, heads=(64, 128, 256), sinks=(10,), formats=_FP8),
    "TRITON_ATTN": Kernel(heads=range(32, 1 << 16), sinks=None, formats=_FP8, wide=True),
    "FLEX_ATTENTION": Kernel(formats=(), wide=True, block=1),
    "TREE_ATTN": Kernel(heads=_STEPS_OF_32, formats=()),
    "XFORMERS": Kernel(heads=range(32, 257, 8), formats=()),
    "B12X": Kernel(lowest=120, highest=121, heads=(64, 128, 192, 256), sinks=None),
    "FLASHMLA": Kernel(True, False, *_HOPPER, formats=_E4M3, block=64),
    "FLASH_ATTN_MLA": Kernel(True, False, *_HOPPER, formats=()),
    "FLASHINFER_MLA": Kernel(True, False, *_BLACKWELL, formats=_E4M3, block=32),
    "CUTLASS_MLA": Kernel(True, False, *_BLACKWELL, formats=_E4M3, block=128),
    "TOKENSPEED_MLA": Kernel(True, False, *_BLACKWELL, block=32),
    "TRITON_MLA": Kernel(True, formats=()),
    "FLASHMLA_SPARSE": Kernel(True, True, 90, 109, block=64),
    "FLASHINFER_MLA_SPARSE": Kernel(True, True, *_BLACKWELL, block=32),
    "FLASHINFER_MLA_SPARSE_SM90": Kernel(True, True, *_HOPPER, block=64),
    "FLASHINFER_MLA_SPARSE_SM120": Kernel(True, True, 120, 129, block=64),
    "FLASH_ATTN_MLA_SPARSE": Kernel(True, True, *_HOPPER, block=64),
    "FLASH_ATTN_MLA_SPARSE_FA4": Kernel(True, True, *_BLACKWELL, block=64),
}  # fmt: skip
#: How that changed: (release, what is different from it on).
_LATER: dict[str, tuple[tuple[Version, dict[str, Any]], ...]] = {
    "FLASH_ATTN": (
        ((0, 12), {"heads": range(8, 257, 8)}),
        ((0, 20), {"heads": range(8, 513, 8)}),  # FlashAttention 4 has wide heads, where it runs
        ((0, 22), {"formats": _E4M3}),  # before, whatever began with fp8
    ),
    "FLASHINFER": (
        ((0, 21), {"formats": (*_FP8, "nvfp4")}),
        ((0, 22), {"heads": (64, 128, 256, 512)}),
        ((0, 24), {"lowest": 80}),
        ((0, 28), {"formats": (*_FP8, "nvfp4", "nvfp4_4over6", "nvfp4_ds_mla"), "sinks": (10, 12)}),
        ((0, 30), {"sinks": (9, 10, 12)}),
    ),
    "TRITON_ATTN": (
        ((0, 20), {"formats": (*_FP8, "int8_per_token_head", "fp8_per_token_head")}),
        ((0, 25, 1), {"formats": (*_FP8, "int4_per_token_head", "int8_per_token_head", "fp8_per_token_head")}),
    ),
    "FLEX_ATTENTION": (((0, 21), {"block": 16}),),
    "TRITON_MLA": (((0, 18), {"formats": _E4M3}),),
    "FLASHINFER_MLA_SPARSE": (((0, 24), {"highest": 129}),),
}  # fmt: skip


def kernel(name: str, version: Version) -> Kernel | None:
    """What the kernel of a name can in a release that validates it; None where that is not described."""
    found = _KERNELS.get(name) if version >= VALIDATED and name in names(version) else None
    for since, changes in _LATER.get(name, ()):
        if found is not None and version >= since:
            found = found._replace(**changes)
    return found


def shapes_of(model: ModelArchitecture | None, engine: EngineConfig) -> Shapes | None:
    """What kernels ask about a model; None where it has attention of its own (DeepSeek-V4, MiniMax-M3) or none at all, where
    its layers differ too much, or where something makes another model of it."""
    if model is None or "VLLM_MLA_DISABLE" in engine.env or "hf-overrides" in engine.flags:
        return None
    from planner.memory.kv_block_size import kernel_shapes

    found = kernel_shapes(model)
    own = found.compressed or found.indexer or found.asymmetric or (found.latent is not None and found.head_dims)
    return None if own or (found.latent is None and not found.head_dims) else found


def _named(case: Case) -> Choice | None:
    """The kernel that counts, None where none is named, or where kinds of layers have kernels of their own."""
    config = case.engine.get("attention-config")
    if isinstance(config, dict) and config.get("backend_per_kind"):
        return None
    return next(iter(choices(case.engine)), None)


def _unfit_kernels(case: Case) -> Iterator[Conflict]:
    """0.11.1 on: a named kernel is checked against model and device, and refused with the reasons. Before, some releases
    refused names of other platforms, and otherwise took another kernel."""
    choice = _named(case)
    if choice is None or case.engine.platform != "cuda" or choice.name not in names(case.version):
        return
    reason = _unfit(case, choice.name) if case.within(VALIDATED) else _foreign(case, choice.name)
    if reason:
        yield Conflict(choice.flag, f"{choice.stated} {reason}", _REMOVE, refused=not case.engine.version_assumed)


def _foreign(case: Case, name: str) -> str:
    """Why a release of the V0 engine refuses a name for another platform: latent attention never came to that check."""
    model = case.plan.model
    if name in _FOREIGN_V0 and case.within((0, 7), (0, 11)) and model is not None and not model.is_multi_latent:
        return "is for other platforms, and this release refuses it on CUDA"
    return ""


def _unfit(case: Case, name: str) -> str:
    """Why a kernel does not fit, as the end of a sentence; empty where it does as far as is known."""
    model, accelerator = case.plan.model, case.plan.accelerator
    if name in _HOLLOW:
        return "names no attention backend of decoders that CUDA images have"
    if name in ("TURBOQUANT", "ULTRAQUANT"):
        return _packed(case, name)
    found, shapes = kernel(name, case.version), shapes_of(model, case.engine)
    if found is None:
        return ""
    if model is not None and shapes is not None:
        latent = shapes.latent is not None
        if found.latent != latent:
            return (
                f"is a kernel for latent attention, which {model.id} has not"
                if found.latent
                else f"has no latent attention, which {model.id} has"
            )
        if found.sparse != shapes.sparse:
            return (
                f"is a kernel for sparse attention, which {model.id} has not"
                if found.sparse
                else f"has no sparse attention, which {model.id} has"
            )
        if not latent and found.heads is not None and not any(size in found.heads for size in shapes.head_dims):
            sizes = ", ".join(str(size) for size in sorted(shapes.head_dims))
            return f"has no kernels for heads of {sizes} elements ({model.id})"
    if name == "FLEX_ATTENTION" and model is not None and model.model_type == "gemma2":
        return f"does not cap attention logits, as {model.id} wants"
    if accelerator is not None and accelerator.capability:
        major, minor = accelerator.capability
        if not found.lowest <= major * 10 + minor <= found.highest:
            return (
                f"has no kernels for {accelerator.name} (compute capability {major}.{minor}); it needs "
                f"{_range(found.lowest, found.highest)}"
            )
        chosen = "attention-config" in case.engine.flags and major >= 9  # can choose FlashAttention's version
        if shapes is not None and shapes.sinks and found.sinks is not None and major not in found.sinks and not chosen:
            return (
                f"has no attention sinks on compute capability {major}.{minor} in this release, which "
                f"{model.id if model is not None else 'the model'} has"
            )
    if case.effective("dtype") == "float32" and not found.wide:
        return "computes in 16 bits only, and the dtype is float32"
    return ""


def _packed(case: Case, name: str) -> str:
    """TurboQuant's kernels cannot stand for every layer: dense models keep their outer layers at 16 bits."""
    flag, model = case.engine.flags.get("kv-cache-dtype"), case.plan.model
    if (flag is not None and not flag.known) or (flag is None and not case.complete) or model is None:
        return ""
    stated = str(flag.value) if flag is not None else "auto"
    if stated.startswith(name.lower()) and (model.is_hybrid or "kv-cache-dtype-skip-layers" in case.engine.flags):
        return ""
    if stated.startswith(name.lower()):
        return "is asked of the outer layers too, which keep 16 bits and need another kernel"
    return f"keeps no cache in {stated}"


def _major(case: Case) -> int:
    """The device's major compute capability, 0 where it is not known."""
    accelerator = case.plan.accelerator
    return accelerator.capability[0] if accelerator is not None and accelerator.capability else 0


def _range(lowest: int, highest: int) -> str:
    """Compute capabilities as people write them."""
    if highest == 999:
        return f"{lowest / 10:.1f} or newer"
    if lowest // 10 == highest // 10:
        return f"{lowest // 10}.x"
    return f"{lowest / 10:.1f} to {highest // 10}.{highest % 10 if highest % 10 < 9 else 'x'}"


# ---- block size --------------------------------------------------------------------------------------------------------

#: Kernels of 0.11.1 to 0.17 that share no size with a block of 1 or 8 tokens.
_OF_16 = frozenset(["FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "TREE_ATTN", "XFORMERS"])
_PLAIN = ("auto", "bfloat16", "float16")


def _block_size(case: Case) -> Iterator[Conflict]:
    """A block size that no kernel takes, or not the one that is named. 0.6.6: at most 32 tokens on CUDA."""
    flag, size = case.flag("block-size"), case.number("block-size")
    if flag is None or size is None or size < 1 or case.engine.platform != "cuda":
        return
    if size > 32 and case.within((0, 6, 6), (0, 7)):
        yield Conflict(flag, f"--block-size {size}: this release takes at most 32 tokens on CUDA", "Set it to 32 or 16")
        return
    step, who = _step(case)
    if step and size % step:
        yield Conflict(
            flag, f"--block-size {size}: {who} takes multiples of {step} tokens only",
            f"Set it to {-(-size // step) * step}, or remove it", refused=not case.engine.version_assumed,
        )  # fmt: skip


def _step(case: Case) -> tuple[int, str]:
    """What a block size must be a multiple of, and for whom; 0 where that is not known or sizes are adjusted."""
    model, shapes, choice = case.plan.model, shapes_of(case.plan.model, case.engine), _named(case)
    anyone = f"every attention backend of vLLM {case.engine.version.value} that {model.id if model else ''} can have"
    # Blocks of hybrid models were aligned before anyone looked at them.
    if model is None or shapes is None or (model.is_hybrid and not case.within((0, 24))):
        return 0, ""
    if choice is None and len(choices(case.engine)):
        return 0, ""  # kinds of layers have kernels of their own
    if case.within((0, 18)):
        return _checked_step(case, shapes, choice, anyone)
    if shapes.latent is not None or min(shapes.head_dims) < 32:
        return 0, ""  # a size that does not fit latent attention was replaced
    if case.within(VALIDATED):
        return (16, choice.name if choice else anyone) if choice is None or choice.name in _OF_16 else (0, "")
    flash = choice is None or choice.name in ("FLASH_ATTN", "FLASH_ATTN_VLLM_V1")
    effective, ampere = case.plan.effective, _major(case) in (8, 9)
    first = effective is not None and effective.runner == "v1" and case.within((0, 8))
    return (16, "FlashAttention") if flash and ampere and first and shapes.head_dims <= {*_STEPS_OF_32} else (0, "")


def _checked_step(case: Case, shapes: Shapes, choice: Choice | None, anyone: str) -> tuple[int, str]:
    """0.18 on: the size is among what kernels are asked about. FlexAttention took any size until 0.20."""
    latent = shapes.latent is not None
    indexed = shapes.latent is not None and shapes.sparse
    if indexed and shapes.latent is not None and shapes.latent.index_ratio > 1:
        return 0, ""  # pages of pooled index keys
    if choice is not None:
        found = kernel(choice.name, case.version)
        if found is None or found.latent != latent or found.sparse != shapes.sparse:
            return 0, ""
        return (64 if indexed else found.block), choice.name
    if indexed:
        return 64, "the indexer of sparse attention"
    stated = case.engine.flags.get("kv-cache-dtype")
    packed = stated is not None and stated.known and stated.value not in _PLAIN
    return (16, anyone) if latent or shapes.sinks or packed or case.within((0, 21)) else (0, "")


# ---- graphs ------------------------------------------------------------------------------------------------------------

#: Kernels without graphs of whole batches: (first release that checks, first that has them).
_NO_GRAPHS: dict[str, tuple[Version, Version]] = {
    "FLEX_ATTENTION": ((0, 11), (0, 20)),
    "TRITON_MLA": ((0, 11), (0, 22)),
    "TREE_ATTN": ((0, 11), (0, 21)),
    "XFORMERS": ((0, 11), (0, 12)),
}


def _whole_graphs(case: Case) -> Iterator[Conflict]:
    """0.11 on: graphs of whole batches (FULL) are refused where the kernel has none; all other modes are lowered."""
    config, flag = case.engine.get("compilation-config"), case.flag("compilation-config")
    if flag is None or not isinstance(config, dict) or str(config.get("cudagraph_mode")).upper() != "FULL":
        return
    if (
        case.engine.platform != "cuda"
        or not case.off("enforce-eager")
        or not case.lacks("decode-context-parallel-size")
    ):
        return
    choice, shapes = _named(case), shapes_of(case.plan.model, case.engine)
    name = choice.name if choice is not None else ""
    if not choices(case.engine) and shapes is not None and shapes.latent is not None and not shapes.sparse:
        # What is left on devices that none of the other kernels is built for.
        name = "TRITON_MLA" if _major(case) in (8, 12) else ""
    since, until = _NO_GRAPHS.get(name, ((), ()))
    if since and case.within(since, until) and (shapes is None or kernel_fits(name, shapes)):
        yield Conflict(
            flag, f"cudagraph_mode FULL needs graphs of whole batches, which {name} has not in this release",
            "Set cudagraph_mode to PIECEWISE", refused=not case.engine.version_assumed,
        )  # fmt: skip


def kernel_fits(name: str, shapes: Shapes) -> bool:
    """Whether a kernel is for the model's kind of attention."""
    return _KERNELS[name].latent == (shapes.latent is not None)


CONSTRAINTS: tuple[Callable[[Case], Iterator[Conflict]], ...] = (
    _stated_twice,
    _unknown_names,
    _unfit_kernels,
    _block_size,
    _whole_graphs,
)
