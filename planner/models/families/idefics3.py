"""Idefics3 and SmolVLM: SigLIP, a pixel shuffle with one projection, a Llama decoder."""

from __future__ import annotations

from planner.models.builder import Builder, Parts
from planner.models.families.multimodal import language_model
from planner.models.layers import vision


def idefics3(builder: Builder) -> Parts:
    """The projection takes ``scale_factor``² patches at once and has no bias."""
    parts = language_model(builder)
    root = builder.root
    tower = vision.siglip(builder, root.require("vision_config"), "model.vision_model")
    scale = root.integer("scale_factor", default=2, high=64)
    width = tower.hidden * scale * scale
    project = vision.linear(
        builder, "model.connector.modality_projection.proj", parts.hidden, width, "replicated", bias=False
    )
    tower = tower._replace(matrices=(*tower.matrices, project))
    return parts._replace(towers=(tower,), multimodal=True)
