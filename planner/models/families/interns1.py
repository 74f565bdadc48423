"""Intern-S1 and InternVL as Transformers names its parts: InternViT whose attention every rank holds whole."""

from __future__ import annotations

from planner.models.architecture import Matrix, Tower, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.families.multimodal import language_model


def interns1(builder: Builder) -> Parts:
    """A language model of its own family, InternViT, and a projector behind a pixel shuffle."""
    parts = language_model(builder)
    root = builder.root
    config = root.require("vision_config")
    tower = _tower(builder, config)
    ratio = root.number("downsample_ratio", default=0.5)
    width = tower.hidden * int(1 / min(max(ratio, 0.01), 1.0)) ** 2
    project = (
        Matrix("linear_1", parts.hidden, width, "replicated", "plain", bias=True),
        Matrix("linear_2", parts.hidden, parts.hidden, "replicated", "plain", bias=True),
    )
    vectors = (*tower.vectors, norm("layer_norm", width, bias=True))
    tower = tower._replace(matrices=(*tower.matrices, *project), vectors=vectors)
    return parts._replace(towers=(tower,), multimodal=True)


def _tower(builder: Builder, config: ConfigReader) -> Tower:
    width, depth = config.integer("hidden_size", default=1024), config.layers(default=24)
    inner = config.integer("intermediate_size", default=4096)
    bias = config.flag("attention_bias")
    rms = config.text("norm_type", default="layer_norm") == "rms_norm"
    form = builder.quantization.tower("vision_tower.encoder.layer.0.mlp.fc1")
    matrices = (
        Matrix("qkv", 3 * width, width, "replicated", "plain", depth, bias),
        Matrix("projection_layer", width, width, "replicated", "plain", depth, bias=True),
        Matrix("fc1", inner, width, "column", form, depth, bias=True),
        Matrix("fc2", width, inner, "row", form, depth, bias=True),
    )
    patch, side = _side(config, "patch_size", 14), _side(config, "image_size", 448)
    patches = (side // patch) ** 2
    vectors = [
        norm("norms", width, bias=not rms, count=2 * depth),
        Vector("layer_scales", 2 * width, count=depth),
        Vector("patch_embedding", width * (config.integer("num_channels", default=3) * patch * patch + 1)),
        Vector("cls_token", width),
        Vector("position_embeddings", (patches + 1) * width),
    ]
    if config.flag("use_qk_norm"):
        vectors.append(norm("qk_norms", width, count=2 * depth))
    if config.flag("use_mask_token"):
        vectors.append(Vector("mask_token", width))
    return Tower(
        "vision tower", matrices, tuple(vectors), "all", depth, width, inner, max_tokens_per_item=max(patches // 4, 1)
    )


def _side(config: ConfigReader, name: str, default: int) -> int:
    """A side in pixels; a pair of equal sides is written out in some files."""
    value = config.raw(name)
    return (
        config.integers(name, low=1)[0] if isinstance(value, (list, tuple)) else config.integer(name, default=default)
    )
