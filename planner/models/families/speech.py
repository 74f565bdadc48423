"""Whisper, and language models that listen through a Whisper encoder."""

from __future__ import annotations

from planner.models.architecture import CrossAttention, FullAttention, Layer, Matrix, Tower, UnknownModel, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.config_reader import ConfigReader
from planner.models.families.gemma import filled
from planner.models.families.llama import qwen2
from planner.models.layers import attention, vision


def whisper_encoder(builder: Builder, config: ConfigReader, path: str = "encoder.layers") -> Tower:
    """Two convolutions over the spectrogram, fixed positions, pre-norm blocks with biases."""
    hidden, depth = config.integer("d_model"), config.layers("encoder_layers", "num_hidden_layers")
    heads, inner = config.integer("encoder_attention_heads"), config.integer("encoder_ffn_dim")
    bins, positions = config.integer("num_mel_bins", default=80), config.integer("max_source_positions", default=1500)
    names = ("self_attn.q_proj", "self_attn.out_proj", "fc1", "fc2")
    matrices, vectors = vision.blocks(builder, path, depth, hidden, heads, inner, names=names)
    vectors += [
        Vector("conv1", hidden * (3 * bins + 1)),
        Vector("conv2", hidden * (3 * hidden + 1)),
        Vector("embed_positions", positions * hidden),
        norm("layer_norm", hidden, bias=True),
    ]
    return Tower(
        "audio encoder", tuple(matrices), tuple(vectors), "all", depth, hidden, inner, max_tokens_per_item=positions
    )


def whisper(builder: Builder) -> Parts:
    """Whisper. A decoder layer caches its own keys and values and the encoder's: it stands as two layers here, of which
    the second has no weights."""
    config = builder.config
    hidden, depth = config.integer("d_model"), config.layers("decoder_layers")
    if depth > 500:
        raise UnknownModel(f"config.json: decoder_layers is {depth}", "correct config.json")
    heads, inner = config.integer("decoder_attention_heads"), config.integer("decoder_ffn_dim")
    if hidden % heads:
        raise UnknownModel(f"config.json: {hidden} is no multiple of {heads} heads", "correct config.json")
    head_dim = hidden // heads
    source = config.integer("max_source_positions", default=1500)
    targets = config.integer("max_target_positions", default=448)
    path = "model.layers.0"
    own = attention.projections(
        builder, f"{path}.self_attn", hidden, heads, heads, head_dim, qkv_bias=True, out_bias=True, out="out_proj"
    )
    cross = attention.projections(
        builder, f"{path}.encoder_attn", hidden, heads, heads, head_dim, qkv_bias=True, out_bias=True, out="out_proj"
    )
    mlp = (
        builder.linear(f"{path}.fc1", inner, hidden, "column", bias=True),
        builder.linear(f"{path}.fc2", hidden, inner, "row", bias=True),
    )
    first = Layer(
        FullAttention(heads, heads, head_dim, head_dim),
        (*own, *cross, *mlp),
        (norm("norms", hidden, bias=True, count=3),),
    )
    second = Layer(CrossAttention(heads, heads, head_dim, head_dim), ())
    vocab = config.integer("vocab_size")
    return Parts(
        layers=(first, second) * depth,
        embedding=Matrix("embed_tokens", vocab, hidden, "replicated", "plain"),
        head=None,
        tied=True,
        final_vectors=(norm("layer_norm", hidden, bias=True),),
        towers=(whisper_encoder(builder, config),),
        embedding_vectors=(Vector("embed_positions", targets * hidden),),
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        intermediate=inner,
        encoder_decoder=True,
        multimodal=True,
        extra=(("max_source_positions", str(source)), ("encoder_tokens", str(source))),
        vocab=vocab,
        hidden=hidden,
    )


def qwen2_audio(builder: Builder) -> Parts:
    """Qwen2-Audio: Qwen2 with a Whisper encoder and one projection."""
    inner = filled(builder, hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=32)
    parts = qwen2(inner)
    tower = whisper_encoder(builder, builder.root.require("audio_config"), "audio_tower.layers")
    project = Matrix("multi_modal_projector", parts.hidden, tower.hidden, "replicated", "plain", bias=True)
    # the encoder is Transformers' own module, whole on every rank
    whole = tuple(matrix._replace(shard="replicated") for matrix in tower.matrices)
    return parts._replace(towers=(tower._replace(matrices=(*whole, project)),), multimodal=True)
