"""Vision-language models whose language part is one of the other families."""

from __future__ import annotations

from importlib import import_module

from planner.models.architecture import Matrix, Tower, UnknownModel, Vector
from planner.models.builder import Builder, Parts
from planner.models.config_reader import ConfigReader
from planner.models.families.gemma import filled, gemma3_text
from planner.models.families.llama import glm4, phi3, qwen2, qwen3
from planner.models.families.mixtral import glm4_moe, qwen3_moe
from planner.models.families.qwen_hybrid import shortened
from planner.models.families.table import FAMILIES
from planner.models.layers import vision

_GIVEN = "state its memory with the annotation planner/given"


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


def jina_vl(builder: Builder) -> Parts:
    """Jina reranker m0: Qwen2-VL with a scorer of two layers in 32 bits."""
    parts = qwen2_vl(builder)
    hidden, labels = builder.hidden, builder.config.integer("num_labels", default=1)
    score = Vector("score", hidden * (hidden + 1) + labels * (hidden + 1), dtype="float32")
    return parts._replace(head=None, pooling=True, final_vectors=(*parts.final_vectors, score))


def qwen2_5_vl(builder: Builder) -> Parts:
    """Qwen2.5-VL over Qwen2.5."""
    return with_towers(qwen2(builder), vision.qwen2_5_vl(builder, builder.root.require("vision_config")))


def qwen3_vl(builder: Builder) -> Parts:
    """Qwen3-VL over Qwen3."""
    parts = with_towers(qwen3(builder), vision.qwen3_vl(builder, builder.root.require("vision_config")))
    return parts._replace(tables=shortened(builder, parts.tables))


def qwen3_vl_moe(builder: Builder) -> Parts:
    """Qwen3-VL over Qwen3 MoE."""
    parts = with_towers(qwen3_moe(builder), vision.qwen3_vl(builder, builder.root.require("vision_config")))
    return parts._replace(tables=shortened(builder, parts.tables))


#: model_type of a nested language config → architecture class, for files that name none.
LANGUAGE_MODELS = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "ministral3": "Ministral3ForCausalLM",
    "mistral4": "Mistral4ForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "internlm2": "InternLM2ForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
}
_LLAMA_DEFAULTS = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
}


def language_model(builder: Builder) -> Parts:
    """The nested language model, by its own family. Raises UnknownModel where that is not understood."""
    names = builder.config.strings("architectures")
    kind = builder.config.text("model_type", default="llama")
    name = names[0] if names else LANGUAGE_MODELS.get(kind, kind)
    family = FAMILIES.get(name)
    if family is None or name not in LANGUAGE_MODELS.values():
        raise UnknownModel(f"the language model {name} inside {builder.architecture} is not understood", _GIVEN)
    inner = filled(builder, **_LLAMA_DEFAULTS) if kind in ("llama", "mistral") else builder
    inner.architecture = name
    parts: Parts = getattr(import_module(f"planner.models.families.{family[0]}"), family[1])(inner)
    return parts._replace(vocab=inner.vocab, hidden=inner.hidden)


def mistral3(builder: Builder) -> Parts:
    """Mistral Small 3.1 and later, Devstral 2 Small, Ministral 3: Pixtral's tower with a patch merger."""
    parts = language_model(builder)
    config = builder.root.require("vision_config")
    merge = builder.root.integer("spatial_merge_size", default=2, high=64)
    bias = builder.root.flag("multimodal_projector_bias")
    tower = vision.pixtral(builder, config)
    width, hidden = tower.hidden, parts.hidden
    matrices = (
        *tower.matrices,
        builder.plain("patch_merger", width, width * merge * merge),
        vision.linear(builder, "multi_modal_projector.linear_1", hidden, width, "column", bias=bias),
        vision.linear(builder, "multi_modal_projector.linear_2", hidden, hidden, "row", bias=bias),
    )
    return with_towers(parts, tower._replace(matrices=matrices, vectors=(*tower.vectors, Vector("norm", width))))


def llava(builder: Builder) -> Parts:
    """LLaVA 1.5 and its kin: the CLIP or SigLIP layers up to the one that is read, and a projector of two layers."""
    parts = language_model(builder)
    config = builder.root.require("vision_config")
    layer = builder.root.raw("vision_feature_layer")
    layer = layer if isinstance(layer, int) and not isinstance(layer, bool) else -2
    depth = config.layers(default=24)
    used = depth + 1 + layer if layer < 0 else layer
    kind = config.text("model_type", default="clip_vision_model")
    if not 0 < used <= depth or kind not in ("clip_vision_model", "siglip_vision_model", "pixtral"):
        raise UnknownModel(f"the vision tower {kind} with layer {layer} is not understood", _GIVEN)
    if kind == "clip_vision_model":
        tower = vision.clip(builder, config, layers=used)
    elif kind == "pixtral":
        tower = vision.pixtral(builder, config)
    else:
        tower = vision.siglip(builder, ConfigReader({**config.data, "num_hidden_layers": used}, config.where))
    bias = builder.root.flag("multimodal_projector_bias", default=True)
    project = (
        vision.linear(builder, "multi_modal_projector.linear_1", parts.hidden, tower.hidden, "column", bias=bias),
        vision.linear(builder, "multi_modal_projector.linear_2", parts.hidden, parts.hidden, "row", bias=bias),
    )
    tiled = any(word in builder.root.strings("architectures")[0] for word in ("Next", "Onevision"))
    extra = (Vector("image_newline", parts.hidden),) if tiled else ()
    return with_towers(parts, tower._replace(matrices=(*tower.matrices, *project), vectors=(*tower.vectors, *extra)))


def internvl(builder: Builder) -> Parts:
    """InternVL 2 to 3.5: InternViT, pixel shuffle, a projector with a norm in front."""
    parts = language_model(builder)
    config = builder.root.require("vision_config")
    layer = builder.root.raw("select_layer")
    depth = config.layers(default=24)
    layer = layer if isinstance(layer, int) and not isinstance(layer, bool) else -1
    used = depth + 1 + layer if layer < 0 else layer
    if not 0 < used <= depth:
        raise UnknownModel(f"select_layer {layer} of {depth} layers", "correct config.json")
    tower = vision.intern_vit(builder, config, used)
    width = 4 * tower.hidden
    project = (
        Matrix("mlp1.1", parts.hidden, width, "replicated", "plain", bias=True),
        Matrix("mlp1.3", parts.hidden, parts.hidden, "replicated", "plain", bias=True),
    )
    vectors = (*tower.vectors, Vector("mlp1.0", 2 * width))
    return with_towers(parts, tower._replace(matrices=(*tower.matrices, *project), vectors=vectors))


def phi3_vision(builder: Builder) -> Parts:
    """Phi-3 Vision and Phi-3.5 Vision: CLIP-L/336 up to its last layer but one, pictures in tiles."""
    parts = phi3(builder)
    settings = builder.root.section("img_processor") or ConfigReader({}, "img_processor")
    width = 4 * settings.integer("image_dim_out", default=1024)
    tower = vision.clip(builder, ConfigReader({}, "CLIP-L/336"), "vision_embed_tokens.img_processor", layers=23)
    hidden = parts.hidden
    project = (
        Matrix("img_projection.0", hidden, width, "replicated", "plain", bias=True),
        Matrix("img_projection.2", hidden, hidden, "replicated", "plain", bias=True),
    )
    vectors = (*tower.vectors, Vector("separators", 2 * width))
    return with_towers(parts, tower._replace(matrices=(*tower.matrices, *project), vectors=vectors))


def glm4v(builder: Builder) -> Parts:
    """GLM-4.1V: GLM-4 with a tower of its own."""
    parts = glm4(builder)
    return with_towers(parts, vision.glm4v(builder, builder.root.require("vision_config")))


def glm4v_moe(builder: Builder) -> Parts:
    """GLM-4.5V and 4.6V: GLM-4.5 with the same tower."""
    parts = glm4_moe(builder)
    return with_towers(parts, vision.glm4v(builder, builder.root.require("vision_config")))


def glm_ocr(builder: Builder) -> Parts:
    """GLM-OCR: GLM-4 with the tower of GLM-5.3-Flash."""
    parts = glm4(builder)
    middle = builder.config.integer("intermediate_size")
    return with_towers(parts, vision.glm_next(builder, builder.root.require("vision_config"), middle, 8192))


def dots_ocr(builder: Builder) -> Parts:
    """dots.ocr: Qwen2 with a tower of its own."""
    return with_towers(qwen2(builder), vision.dots(builder, builder.root.require("vision_config")))
