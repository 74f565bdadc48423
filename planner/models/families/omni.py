"""Models that listen and look: Qwen2.5-Omni and Qwen3-Omni (what the engine runs of them, the thinker) and Qwen3-ASR."""

from __future__ import annotations

from planner.models.architecture import Matrix, Tower, UnknownModel, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.families.llama import qwen2, qwen3
from planner.models.families.mixtral import qwen3_moe
from planner.models.layers import vision


def _thinker(builder: Builder) -> ConfigReader:
    """The section with the encoders: ``thinker_config``, or the whole file."""
    return builder.root.section("thinker_config") or builder.root


def qwen2_5_omni(builder: Builder) -> Parts:
    """Qwen2.5 with the tower of Qwen2.5-VL and an audio encoder; the talker is not loaded."""
    parts = qwen2(builder)
    thinker = _thinker(builder)
    sight = vision.qwen2_5_vl(builder, thinker.require("vision_config"))
    config = thinker.require("audio_config")
    width = config.integer("d_model", default=1280)
    depth, inner = config.layers("encoder_layers", default=32), config.integer("encoder_ffn_dim", default=5120)
    bins, out = config.integer("num_mel_bins", default=128), config.integer("output_dim", default=3584)
    # Transformers' own module: every rank holds all of it, keys have no bias
    matrices = (
        Matrix("qkv", 3 * width, width, "replicated", "plain", depth),
        Matrix("out_proj", width, width, "replicated", "plain", depth, bias=True),
        Matrix("fc1", inner, width, "replicated", "plain", depth, bias=True),
        Matrix("fc2", width, inner, "replicated", "plain", depth, bias=True),
        Matrix("proj", out, width, "replicated", "plain", bias=True),
    )
    positions = config.integer("max_source_positions", default=1500)
    vectors = (
        Vector("query_value_bias", 2 * width, count=depth),
        norm("norms", width, bias=True, count=2 * depth + 1),
        Vector("conv1", width * (3 * bins + 1)),
        Vector("conv2", width * (3 * width + 1)),
        Vector("audio_bos_eos_token", 2 * out),
        Vector("positions", positions * width, dtype="float32", buffer=True),
    )
    hearing = Tower("audio encoder", matrices, vectors, "all", depth, width, inner)
    return parts._replace(towers=(sight, hearing), multimodal=True)


def _audio(builder: Builder, config: ConfigReader, path: str) -> Tower:
    """The encoder of Qwen3-Omni: three strided convolutions in two dimensions, blocks that are split over ranks."""
    width, heads = config.integer("d_model", default=1280), config.integer("encoder_attention_heads", default=20)
    depth, inner = config.layers("encoder_layers", default=32), config.integer("encoder_ffn_dim", default=5120)
    bins, narrow = (
        config.integer("num_mel_bins", default=128, high=4096),
        config.integer("downsample_hidden_size", default=480),
    )
    out = config.integer("output_dim", default=3584)
    names = ("self_attn.q_proj", "self_attn.out_proj", "fc1", "fc2")
    matrices, vectors = vision.blocks(builder, f"{path}.layers", depth, width, heads, inner, names=names)
    rows = (((bins + 1) // 2 + 1) // 2 + 1) // 2
    matrices += [
        Matrix("conv_out", width, narrow * rows, "replicated", "plain"),
        Matrix("proj1", width, width, "replicated", "plain", bias=True),
        Matrix("proj2", out, width, "replicated", "plain", bias=True),
    ]
    vectors += [
        Vector("conv2d1", narrow * (9 + 1)),
        Vector("conv2d", narrow * (9 * narrow + 1), count=2),
        norm("ln_post", width, bias=True),
        Vector("positions", config.integer("max_source_positions", default=1500) * width, dtype="float32", buffer=True),
    ]
    return Tower("audio encoder", tuple(matrices), tuple(vectors), "all", depth, width, inner)


def qwen3_omni(builder: Builder) -> Parts:
    """Qwen3-MoE with the tower of Qwen3-VL and an audio encoder."""
    parts = qwen3_moe(builder)
    thinker = _thinker(builder)
    sight = vision.qwen3_vl(builder, _deep(thinker.require("vision_config")))
    hearing = _audio(builder, thinker.require("audio_config"), "thinker.audio_tower")
    return parts._replace(towers=(sight, hearing), multimodal=True)


def _deep(config: ConfigReader) -> ConfigReader:
    """The tower's config with the mergers that its class has where the file names none."""
    if "deepstack_visual_indexes" in config.data:
        return config
    return ConfigReader({**config.data, "deepstack_visual_indexes": [8, 16, 24]}, config.where)


def qwen3_asr(builder: Builder) -> Parts:
    """Qwen3-ASR: Qwen3 behind the audio encoder of Qwen3-Omni."""
    parts = qwen3(builder)
    config = _thinker(builder).section("audio_config")
    if config is None:
        raise UnknownModel("config.json has no audio_config", "correct config.json")
    return parts._replace(towers=(_audio(builder, config, "audio_tower"),), multimodal=True)
