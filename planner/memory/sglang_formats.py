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
#: Release from which an automatic choice of runner is one that unpacks FP4 experts on Hopper and data-centre Blackwell.
RUNNER_CHOSEN = (0, 5, 19)
#: By the major compute capability: releases from which an automatic runner of DeepSeek-V4's FP4 experts is another one than
#: Triton's, newest first (``arg_groups/model_overrides/deepseek_v4.py``, earlier ``overrides.py`` and ``server_args.py``).
_AUTOMATIC = {
    9: ((RUNNER_CHOSEN, "flashinfer_mxfp4"),),
    10: ((RUNNER_CHOSEN, "flashinfer_mxfp4"),),
    12: (((0, 5, 16), "flashinfer_mxfp4"), ((0, 5, 14), "marlin")),
}
#: Elements of an MXFP4 block, which share a scale.
_BLOCK = 32


def unpacks(model: ModelArchitecture, accelerator: Accelerator | None) -> bool:
    """Whether SGLang unpacks matrices while loading: DeepSeek-V4's first output projection stays at FP8 only where DeepGEMM
    multiplies with packed scales, on data-centre Blackwell."""
    capability = accelerator.capability if accelerator else None
    return capability is not None and capability[0] != 10 and model.architecture.startswith("DeepseekV4")


def as_kept(model: ModelArchitecture) -> ModelArchitecture:
    """The model with the matrices that ``unpacks`` speaks of at 16 bits."""
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
    """Bytes of expert scales beyond those of the checkpoint. ``model`` has local shapes.

    FP4 experts of an FP8 checkpoint are read with 32-bit scales. Up to 0.5.15 these stay alive beside those that Marlin
    repacks; where no runner converts them, which is what an automatic choice comes to in older releases, they stay instead
    of the checkpoint's 8-bit ones (such a start fails at its first forward pass, after the weights are loaded).
    """
    runner = expert_runner(model, config, accelerator)
    if runner == "marlin" and config.version < _SCALES_DROPPED:
        more = 4
    elif runner == "triton" and model.architecture.startswith("DeepseekV4"):
        more = 3
    else:
        return 0
    total = 0
    for index in stage:
        for matrix in model.layers[index].matrices:
            if matrix.experts and matrix.format == "mxfp4" and not matrix.bias:
                total += more * matrix.experts * matrix.n * ceil_div(matrix.k, _BLOCK)
    return total


def expert_runner(model: ModelArchitecture, config: SGLangConfig, accelerator: Accelerator | None) -> str:
    """The kernels that FP4 experts run on; ``auto`` where the choice is not followed (exchanges between ranks, other
    vendors)."""
    if config.expert_runner != "auto" or not model.architecture.startswith("DeepseekV4"):
        return config.expert_runner
    capability = accelerator.capability if accelerator else None
    if capability is None or config.shared_replicated:
        return "auto"
    chosen = (runner for since, runner in _AUTOMATIC.get(capability[0], ()) if config.version >= since)
    return next(chosen, "triton")
