"""Weights that SGLang keeps in another form than the weight model says: by release, device and kernel of the experts.

Source: ``models/deepseek_v4.py``, ``server_args.py`` and ``layers/quantization/`` (``mxfp4_marlin_moe.py``,
``marlin_utils_fp4.py``) of 0.5.12 to 0.5.23.
"""

from __future__ import annotations

from planner.accelerators.accelerator import Accelerator
from planner.engines.sglang_config import SGLangConfig
from planner.models.architecture import Layer, ModelArchitecture
from planner.record import replace
from planner.units import ceil_div

#: Release from which Marlin's repacking drops the scales that it read.
_SCALES_DROPPED = (0, 5, 16)
#: Elements of an MXFP4 block, which share a scale.
_BLOCK = 32


def as_kept(model: ModelArchitecture, accelerator: Accelerator | None) -> ModelArchitecture:
    """The model with the matrices that SGLang unpacks while loading at 16 bits.

    DeepSeek-V4's first output projection stays at FP8 only where DeepGEMM multiplies with packed scales, on data-centre
    Blackwell; elsewhere it is dequantized.
    """
    capability = accelerator.capability if accelerator else None
    if capability is None or capability[0] == 10 or not model.architecture.startswith("DeepseekV4"):
        return model
    done: dict[int, Layer] = {}

    def unpacked(layer: Layer) -> Layer:
        found = done.get(id(layer))
        if found is None:
            matrices = tuple(m._replace(format="bfloat16") if m.name == "wo_a" else m for m in layer.matrices)
            found = done[id(layer)] = layer._replace(matrices=matrices)
        return found

    return replace(
        model,
        layers=tuple(unpacked(layer) for layer in model.layers),
        mtp_layers=tuple(unpacked(layer) for layer in model.mtp_layers),
    )


def leftover_scales(
    model: ModelArchitecture, stage: range, config: SGLangConfig, accelerator: Accelerator | None
) -> int:
    """Bytes of expert scales that stay alive beside their repacked copies. ``model`` has local shapes.

    Up to 0.5.15 FP4 experts of an FP8 checkpoint are read into 32-bit scales, and Marlin stores its own beside them.
    """
    if config.version >= _SCALES_DROPPED or not runs_marlin(config, accelerator):
        return 0
    total = 0
    for index in stage:
        for matrix in model.layers[index].matrices:
            if matrix.experts and matrix.format == "mxfp4" and not matrix.bias:
                total += 4 * matrix.experts * matrix.n * ceil_div(matrix.k, _BLOCK)
    return total


def runs_marlin(config: SGLangConfig, accelerator: Accelerator | None) -> bool:
    """Whether FP4 experts run on Marlin's kernels: where the flag says so, and by default on workstation Blackwell."""
    if config.expert_runner != "auto":
        return config.expert_runner == "marlin"
    capability = accelerator.capability if accelerator else None
    return capability is not None and capability[0] == 12
