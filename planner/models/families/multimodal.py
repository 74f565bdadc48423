"""Vision-language models whose language part is one of the other families."""

from __future__ import annotations

from planner.models.architecture import Tower, Vector
from planner.models.builder import Builder, Parts
from planner.models.config_reader import ConfigReader
from planner.models.families.gemma import gemma3_text
from planner.models.families.llama import qwen2, qwen3
from planner.models.families.mixtral import qwen3_moe
from planner.models.families.qwen_hybrid import shortened
from planner.models.layers import vision


def with_towers(parts: Parts, *towers: Tower) -> Parts:
    """The model with its towers."""
    return parts._replace(towers=towers, multimodal=True)


def gemma3(builder: Builder) -> Parts:
    """Gemma 3 (4B and larger): SigLIP and a projection."""
    parts = gemma3_text(builder)
    config = builder.root.section("vision_config")
    if config is None:
        return parts
    config = ConfigReader({"hidden_size": 768, **config.data}, config.where)
    width = config.integer("hidden_size")
    hidden = parts.embedding.k if parts.embedding else builder.hidden
    tower = vision.siglip(builder, config)
    vectors = (*tower.vectors, Vector("mm_input_projection", width * hidden), Vector("mm_soft_emb_norm", width))
    tokens = builder.root.integer("mm_tokens_per_image", default=256)
    return with_towers(parts, tower._replace(vectors=vectors, max_tokens_per_item=tokens))


def qwen2_vl(builder: Builder) -> Parts:
    """Qwen2-VL over Qwen2."""
    return with_towers(qwen2(builder), vision.qwen2_vl(builder, builder.root.require("vision_config")))


def qwen2_5_vl(builder: Builder) -> Parts:
    """Qwen2.5-VL over Qwen2.5."""
    return with_towers(qwen2(builder), vision.qwen2_5_vl(builder, builder.root.require("vision_config")))


def qwen3_vl(builder: Builder) -> Parts:
    """Qwen3-VL over Qwen3."""
    parts = with_towers(qwen3(builder), vision.qwen3_vl(builder, builder.root.require("vision_config")))
    return parts._replace(tables=shortened(parts.tables))


def qwen3_vl_moe(builder: Builder) -> Parts:
    """Qwen3-VL over Qwen3 MoE."""
    parts = with_towers(qwen3_moe(builder), vision.qwen3_vl(builder, builder.root.require("vision_config")))
    return parts._replace(tables=shortened(parts.tables))
