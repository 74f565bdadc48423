"""DeepSeek-OCR: a small DeepSeek mixture of experts behind SAM-B and CLIP-L, whose sizes its class fixes."""

from __future__ import annotations

from planner.models.architecture import Matrix, Tower, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.families.deepseek import deepseek_v1
from planner.models.layers import vision

_CLIP_L = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "image_size": 224,
    "patch_size": 14,
}


def deepseek_ocr(builder: Builder) -> Parts:
    """Both encoders look at every picture; their features are joined and projected."""
    parts = deepseek_v1(builder)
    hidden = builder.hidden
    clip = vision.clip(builder, ConfigReader(_CLIP_L, "CLIP-L/224"), "vision_model")
    project = Matrix("projector", hidden, 2 * clip.hidden, "replicated", "plain", bias=True)
    marks = Vector("image_newline_and_separator", 2 * hidden)
    clip = clip._replace(matrices=(*clip.matrices, project), vectors=(*clip.vectors, marks))
    return parts._replace(towers=(_sam(), clip), multimodal=True)


def _sam() -> Tower:
    """SAM's ViT-B for 1024 pixels, four of its layers global, with a neck that compresses 16 times; whole on every rank."""
    width, depth, inner, neck = 768, 12, 3072, 256
    matrices = (
        Matrix("qkv", 3 * width, width, "replicated", "plain", depth, bias=True),
        Matrix("proj", width, width, "replicated", "plain", depth, bias=True),
        Matrix("lin1", inner, width, "replicated", "plain", depth, bias=True),
        Matrix("lin2", width, inner, "replicated", "plain", depth, bias=True),
    )
    head_dim, side, window = 64, 64, 14
    relative = (depth - 4) * 2 * (2 * window - 1) + 4 * 2 * (2 * side - 1)
    vectors = (
        norm("norms", width, bias=True, count=2 * depth),
        Vector("relative_positions", relative * head_dim),
        Vector("pos_embed", side * side * width),
        Vector("patch_embed", width * (3 * 16 * 16 + 1)),
        Vector("neck", width * neck + 9 * neck * neck),
        norm("neck_norms", neck, bias=True, count=2),
        Vector("compressor", 9 * (neck * 2 * neck + 2 * neck * 4 * neck)),
    )
    return Tower("SAM encoder", matrices, vectors, "all", depth, width, inner)
