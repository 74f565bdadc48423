"""Bytes that an engine keeps for the elements of a weight matrix, by storage format: values, scales, zero points, padding.

Sources: vLLM model_executor/layers/quantization and layers/fused_moe/oracle (0.19 to 0.32), checked against golden data of
the engine. ``n`` outputs and ``k`` inputs are those of one rank.
"""

from __future__ import annotations

from planner.models.architecture import Format
from planner.record import NamedTuple
from planner.units import ceil_div, round_up


class Kernel(NamedTuple):
    """What decides the layout beside the format: engine version, CUDA capability (None: unknown or another vendor), bytes
    of the model's dtype, whether the device is AMD's, and whether Triton's own MXFP4 kernels are installed (Hopper)."""

    version: tuple[int, ...]
    capability: tuple[int, int] | None
    element: int = 2
    rocm: bool = False
    triton: bool = True

    @property
    def hopper(self) -> bool:
        """Capability 9.0: Machete, DeepGEMM and Triton's own MXFP4 layouts."""
        return self.capability is not None and self.capability[0] == 9

    @property
    def blackwell(self) -> bool:
        """The data-center Blackwells (10.x) with the TRT-LLM kernels."""
        return self.capability is not None and self.capability[0] == 10


def linear_bytes(form: Format, n: int, k: int, kernel: Kernel, slices: int = 1) -> int:
    """Bytes of one linear layer's n × k weight after loading. ``slices``: parts fused in it, each with scales of its own."""
    name = form.name
    if name == "model":
        return n * k * kernel.element
    if name == "bfloat16":
        return n * k * 2
    if name == "float32":
        return n * k * 4
    if name == "fp8_tensor":
        if _weight_only_fp8(kernel):
            return n * k + 2 * n
        return n * k + 8
    if name == "fp8_channel":
        return n * k + (2 if _weight_only_fp8(kernel) else 4) * n
    if name == "int8" or name == "bnb_int8":
        return n * k + 4 * n
    if name == "fp8_block":
        rows, columns = form.block[0] or 128, form.block[1] or 128
        if kernel.blackwell:  # DeepGEMM repeats the scales for every row and packs four exponents into a word
            return n * k + 4 * n * ceil_div(ceil_div(k, columns), 4)
        return n * k + 4 * ceil_div(n, rows) * ceil_div(k, columns)
    if name == "mxfp8":
        return n * k + n * ceil_div(k, 32)
    if name == "nvfp4" or name == "nvfp4_a16":
        # Scales are laid out in tiles of 128 rows and 4 columns.
        return n * ceil_div(k, 2) + round_up(n, 128) * round_up(ceil_div(k, form.group or 16), 4) + 12
    if name == "mxfp4":
        return n * ceil_div(k, 2) + n * ceil_div(k, 32)
    if name == "bnb_nf4":
        return ceil_div(n * k, 2) + 4 * ceil_div(n * k, 64)
    return _integer_bytes(form, n, k, kernel)


def _weight_only_fp8(kernel: Kernel) -> bool:
    """Devices without FP8 arithmetic keep FP8 weights through Marlin, with 16-bit scales per output."""
    return kernel.capability is not None and kernel.capability < (8, 9)


def _integer_bytes(form: Format, n: int, k: int, kernel: Kernel) -> int:
    """Weight-only integers (AWQ, GPTQ, compressed-tensors): packed values, 16-bit scales, zero points, orders."""
    bits = form.bits or 4
    group = form.group if 0 < form.group <= k else k
    groups = max(k // group, 1)
    size = int(n * k * bits) // 8 + n * groups * 2
    if form.zero_points:
        # Machete (Hopper) keeps zero points as 16-bit numbers, Marlin packed like the values.
        wide = kernel.hopper and form.group in (-1, 128) and n % 128 == 0 and k % 64 == 0
        size += n * groups * 2 if wide else int(n * groups * bits) // 8
    elif form.spare_zeros:
        size += int(n * groups * bits) // 8
    return size + (8 * k if form.act_order else 0)


class ExpertShape(NamedTuple):
    """One rank's experts: how many, hidden and intermediate width, projections in w13 (2 with a gate), biases."""

    experts: int
    hidden: int
    inner: int
    slices: int
    bias: bool


def expert_bytes(form: Format, shape: ExpertShape, kernel: Kernel) -> int:
    """Bytes of the stacked w13 and w2 of one layer after loading, padding and repacking included."""
    hidden, inner = padded_expert(form, shape, kernel)
    wide = shape.slices * inner
    size = 0
    triton = _triton_mxfp4(form, kernel, shape.bias)
    for n, k, slices in ((wide, hidden, shape.slices), (hidden, inner, 1)):
        if triton:
            size += n * ceil_div(k, 2) + _hopper_scales(n, ceil_div(k, 32), kernel)
        else:
            size += _expert_matrix(form, n, k, slices, kernel)
    if shape.bias:
        size += (wide + hidden) * (4 if triton else kernel.element)
    return shape.experts * size


def padded_expert(form: Format, shape: ExpertShape, kernel: Kernel) -> tuple[int, int]:
    """(hidden, intermediate) as the expert kernels of this device and version want them."""
    hidden, inner, name = shape.hidden, shape.inner, form.name
    if name == "model" and kernel.blackwell and not shape.bias:
        return hidden, round_up(inner, 128)  # TRT-LLM's 16-bit kernels
    if name == "mxfp4":
        if kernel.rocm:
            return round_up(hidden, 256), round_up(inner, 256)
        if kernel.blackwell:
            return round_up(hidden, 256), round_up(inner, 128 if kernel.version >= (0, 25) else 256)
        if _triton_mxfp4(form, kernel, shape.bias):
            return hidden, round_up(inner, 64)
        return round_up(hidden, 256), round_up(inner, 128)
    return hidden, inner


def _triton_mxfp4(form: Format, kernel: Kernel, bias: bool) -> bool:
    """gpt-oss (the experts with biases) runs on Triton's own kernels on Hopper, where they are installed."""
    wanted = form.name == "mxfp4" and bias and kernel.triton
    return wanted and (kernel.hopper or kernel.capability is None) and not kernel.rocm


def _expert_matrix(form: Format, n: int, k: int, slices: int, kernel: Kernel) -> int:
    name = form.name
    if name == "fp8_tensor":
        return n * k + 8
    if name == "fp8_block":
        rows, columns = form.block[0] or 128, form.block[1] or 128
        return n * k + 4 * ceil_div(n, rows) * ceil_div(k, columns)
    if name == "nvfp4" or name == "nvfp4_a16":
        return n * ceil_div(k, 2) + n * ceil_div(k, form.group or 16) + 4 * slices + 4
    if name == "mxfp4":
        return n * ceil_div(k, 2) + n * ceil_div(k, 32)
    if name in ("model", "bfloat16", "float32", "fp8_channel", "int8", "mxfp8", "bnb_nf4", "bnb_int8"):
        return linear_bytes(form, n, k, kernel._replace(capability=(9, 0)))
    return _integer_bytes(form._replace(spare_zeros=False), n, k, kernel._replace(capability=None))


def _hopper_scales(rows: int, columns: int, kernel: Kernel) -> int:
    """MXFP4 scales in Hopper's swizzled layout: rows to 256, from 0.25 on columns to 4.

    Up to 0.24 the unswizzled scales stay alive beside them, and from 0.12 to 0.19 rows that are no multiple of 256 cost
    more (fitted to golden data of 0.19.1 and 0.24.0 and to start-up logs of 0.11.0; the versions in between are not known).
    """
    if kernel.version >= (0, 25):
        return round_up(rows, 256) * round_up(columns, 4)
    extra = 0
    if (0, 12) <= kernel.version < (0, 20) and rows % 256:
        extra = 2**17 // (rows & -rows)
    return (round_up(rows, 256) + rows + extra) * columns
