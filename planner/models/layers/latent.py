"""Multi-head latent attention (MLA): low-rank projections, and the sparse indexer that some models put beside it."""

from __future__ import annotations

from planner.models.architecture import LatentAttention, Matrix, UnknownModel, Vector
from planner.models.builder import Builder
from planner.models.config_reader import ConfigReader
from planner.record import NamedTuple


class LatentShape(NamedTuple):
    """Sizes of MLA: heads, ranks of queries and of keys and values, and head sizes without and with rotation."""

    hidden: int
    heads: int
    q_rank: int
    kv_rank: int
    nope: int
    rope: int
    value: int

    @classmethod
    def read(cls, config: ConfigReader) -> LatentShape:
        """The sizes as DeepSeek names them."""
        return cls(
            config.integer("hidden_size"),
            config.integer("num_attention_heads", high=100_000),
            config.count("q_lora_rank", default=0),
            config.integer("kv_lora_rank"),
            config.integer("qk_nope_head_dim"),
            config.count("qk_rope_head_dim", default=64),
            config.integer("v_head_dim"),
        )


class IndexerShape(NamedTuple):
    """A sparse-attention indexer: its heads and their size."""

    heads: int
    dim: int


def projections(
    builder: Builder, path: str, shape: LatentShape, *, bias: bool = False
) -> tuple[list[Matrix], list[Vector]]:
    """The projections of one layer; with a query rank, both down-projections are fused into one (vLLM ≥ 0.9)."""
    queries = shape.heads * (shape.nope + shape.rope)
    vectors = [Vector("kv_a_layernorm", shape.kv_rank)]
    if shape.q_rank:
        first = builder.linear(
            f"{path}.q_a_proj",
            shape.q_rank + shape.kv_rank + shape.rope,
            shape.hidden,
            "replicated",
            bias=bias,
            slices=2,
        )
        matrices = [
            first._replace(name="fused_qkv_a_proj"),
            builder.linear(f"{path}.q_b_proj", queries, shape.q_rank, "column"),
        ]
        vectors.append(Vector("q_a_layernorm", shape.q_rank))
    else:
        matrices = [
            builder.linear(f"{path}.q_proj", queries, shape.hidden, "column"),
            builder.linear(
                f"{path}.kv_a_proj_with_mqa", shape.kv_rank + shape.rope, shape.hidden, "replicated", bias=bias
            ),
        ]
    matrices += [
        builder.linear(f"{path}.kv_b_proj", shape.heads * (shape.nope + shape.value), shape.kv_rank, "column"),
        builder.linear(f"{path}.o_proj", shape.hidden, shape.heads * shape.value, "row", bias=bias),
    ]
    return matrices, vectors


def indexer(builder: Builder, path: str, shape: LatentShape, index: IndexerShape) -> tuple[list[Matrix], list[Vector]]:
    """The lightning indexer of DeepSeek-V3.2: whole on every rank; key and weight projections stay at 16 bits."""
    matrices = [
        builder.linear(f"{path}.wq_b", index.heads * index.dim, shape.q_rank or shape.hidden, "replicated"),
        builder.plain("wk_weights_proj", index.dim + index.heads, shape.hidden),
    ]
    return matrices, [Vector("indexer_k_norm", 2 * index.dim, dtype="float32")]


def cache(shape: LatentShape, indexer_dim: int = 0) -> LatentAttention:
    """What a layer caches."""
    return LatentAttention(shape.heads, shape.kv_rank, shape.rope, shape.nope, shape.value, shape.q_rank, indexer_dim)


def indexer_layers(config: ConfigReader, layers: int) -> tuple[bool, ...]:
    """Which layers have an indexer of their own; the others reuse the choice of an earlier one (GLM-5.2)."""
    kinds = config.strings("indexer_types")
    if kinds:
        if len(kinds) < layers:
            raise UnknownModel(f"indexer_types names {len(kinds)} of {layers} layers", "correct config.json")
        return tuple(kind == "full" for kind in kinds[:layers])
    pattern = config.raw("index_topk_pattern")
    if isinstance(pattern, (str, list)):
        return tuple(i >= len(pattern) or pattern[i] != "S" for i in range(layers))
    frequency = config.integer("index_topk_freq", default=1)
    offset = config.count("index_skip_topk_offset", default=2)
    return tuple(max(i - offset + 1, 0) % frequency == 0 for i in range(layers))
