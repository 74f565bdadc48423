"""Bytes that an engine keeps for the elements of a weight matrix, by storage format: values, scales, zero points, padding.

Sources: vLLM model_executor/layers/quantization (0.19 to 0.32), and the figures of shared/golden. ``n`` outputs and ``k``
inputs are those of one rank.
"""

from __future__ import annotations

from typing import NamedTuple

from planner.models.architecture import Format
from planner.units import ceil_div, round_up


class Kernel(NamedTuple):
    """What decides the layout beside the format: engine version, CUDA capability (None: another vendor), multiprocessors."""

    version: tuple[int, ...]
    capability: tuple[int, int] | None
    element: int = 2  # bytes of the model's dtype
    sms: int = 132

    @property
    def blackwell_data_center(self) -> bool:
        """Whether the device has FP4 tensor cores with the TRT-LLM kernels (sm_100, sm_103)."""
        return self.capability is not None and self.capability[0] == 10


def stored_bytes(
    form: Format, n: int, k: int, kernel: Kernel, *, count: int = 1, slices: int = 1, experts: bool = False
) -> int:
    """Bytes of ``count`` matrices of n × k in this format, all that stays alive after loading.

    ``slices``: parts fused in the matrix, each with its own per-tensor scale; ``experts``: the stacked matrices of a
    mixture of experts, whose kernels lay them out differently.
    """
    name = form.name
    if name == "model":
        return count * n * k * kernel.element
    if name == "bfloat16":
        return count * n * k * 2
    if name == "float32":
        return count * n * k * 4
    if name == "fp8_tensor":
        return count * (n * k + 4 * (1 if experts else 1))
    if name in ("fp8_channel", "int8", "bnb_int8"):
        return count * (n * k + 4 * n)
    if name == "fp8_block":
        rows, columns = form.block
        return count * (n * k + 4 * ceil_div(n, rows or 128) * ceil_div(k, columns or 128))
    if name == "mxfp8":
        return count * (n * k + n * ceil_div(k, 32))
    if name == "nvfp4" or name == "nvfp4_a16":
        scales = n * ceil_div(k, form.group or 16)
        if not experts:
            scales = round_up(n, 128) * round_up(ceil_div(k, form.group or 16), 4)
        return count * (n * ceil_div(k, 2) + scales + 12)
    if name == "mxfp4":
        return count * (n * ceil_div(k, 2) + n * ceil_div(k, 32))
    if name == "bnb_nf4":
        return count * (ceil_div(n * k, 2) + 4 * ceil_div(n * k, 64))
    bits = form.bits or 4
    group = form.group if form.group > 0 else k
    groups = ceil_div(k, group)
    size = int(n * k * bits) // 8 + n * groups * kernel.element
    if form.zero_points:
        size += int(n * groups * bits) // 8
    if form.act_order:
        size += 8 * k
    return count * size
