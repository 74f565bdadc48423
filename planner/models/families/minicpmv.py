"""MiniCPM-V 2.5 to 4.5: a decoder of another family behind SigLIP and a resampler with a fixed number of queries."""

from __future__ import annotations

from planner.models.architecture import Matrix, UnknownModel, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.families.llama import llama, qwen2, qwen3
from planner.models.layers import vision

_DECODERS = {"2.5": llama, "2.6": qwen2, "4.0": llama, "4": llama, "4.5": qwen3}


def minicpmv(builder: Builder) -> Parts:
    """The version in config.json decides what the decoder is; a file without one is 2.5. The head is never tied."""
    root = builder.root
    stated = root.raw("version")
    version = "2.5" if stated is None else str(stated)[:8]
    decoder = _DECODERS.get(version)
    if decoder is None or (stated is None and builder.hidden == 2304):
        raise UnknownModel(f"MiniCPM-V {version} is not understood", "correct config.json")
    parts = decoder(builder)
    config = root.require("vision_config")
    tower = vision.siglip(builder, config, "vpm")
    width, queries = builder.hidden, root.integer("query_num", default=64)
    # the resampler is a module of PyTorch that every rank holds whole
    matrices = (
        Matrix("resampler.kv_proj", width, tower.hidden, "replicated", "plain"),
        Matrix("resampler.in_proj", 3 * width, width, "replicated", "plain", bias=True),
        Matrix("resampler.out_proj", width, width, "replicated", "plain", bias=True),
        Matrix("resampler.proj", width, width, "replicated", "plain"),
    )
    vectors = (Vector("resampler.query", queries * width), norm("resampler.norms", width, bias=True, count=3))
    tower = tower._replace(matrices=(*tower.matrices, *matrices), vectors=(*tower.vectors, *vectors))
    return parts._replace(towers=(tower,), multimodal=True)
