"""What the families have in common: named modules with their storage, stacks of layers, and the parts of a model."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from planner.models.architecture import (
    Layer,
    Matrix,
    NoAttention,
    RotaryTable,
    Tower,
    UnknownModel,
    Vector,
)
from planner.models.config_reader import ConfigReader
from planner.models.quantization import Quantization
from planner.record import NamedTuple


class Parts(NamedTuple):
    """What a family function returns; ``config.architecture`` adds what all models have."""

    layers: tuple[Layer, ...]
    embedding: Matrix | None
    head: Matrix | None
    tied: bool
    final_vectors: tuple[Vector, ...] = ()
    tables: tuple[RotaryTable, ...] = ()
    towers: tuple[Tower, ...] = ()
    mtp_layers: tuple[Layer, ...] = ()
    embedding_vectors: tuple[Vector, ...] = ()
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    intermediate: int = 0
    experts: int = 0
    experts_per_token: int = 0
    expert_intermediate: int = 0
    multimodal: bool = False
    pooling: bool = False
    encoder_decoder: bool = False
    extra: tuple[tuple[str, str], ...] = ()
    vocab: int = 0
    hidden: int = 0


class Builder:
    """Reads one config (``config``: its language part, ``root``: the whole file) and names modules as checkpoints do."""

    def __init__(self, root: ConfigReader, config: ConfigReader, quantization: Quantization, architecture: str) -> None:
        self.root, self.config, self.quantization, self.architecture = root, config, quantization, architecture

    @property
    def hidden(self) -> int:
        """The width of the residual stream."""
        return self.config.integer("hidden_size", "n_embd", "d_model")

    @property
    def vocab(self) -> int:
        """Rows of the embedding before padding."""
        return self.config.integer("vocab_size", "padded_vocab_size")

    def heads(self, config: ConfigReader | None = None) -> tuple[int, int, int]:
        """(query heads, key-value heads, head size). Raises UnknownModel where they don't fit together."""
        config = config or self.config
        heads = config.integer("num_attention_heads", "n_head", "num_heads", high=100_000)
        kv_heads = config.integer("num_key_value_heads", "n_head_kv", "num_kv_heads", default=heads, high=100_000)
        head_dim = config.count("head_dim", default=0)
        if not head_dim:
            hidden = config.integer("hidden_size", "n_embd", "d_model")
            head_dim = hidden // heads
        if not head_dim or heads % kv_heads:
            raise UnknownModel(
                f"{config.where}: {heads} attention heads over {kv_heads} key-value heads of size {head_dim}",
                "correct config.json, or name another model with the annotation planner/model",
            )
        return heads, kv_heads, head_dim

    def tied(self, default: bool = False) -> bool:
        """Whether the head is the embedding. The language part's word counts; the whole file's where it is silent."""
        if "tie_word_embeddings" in self.config:
            return self.config.flag("tie_word_embeddings")
        return self.root.flag("tie_word_embeddings", default=default)

    def linear(self, path: str, n: int, k: int, shard: str, *, bias: bool = False, slices: int = 1) -> Matrix:
        """A linear layer of n outputs and k inputs; ``path`` is its name in the checkpoint (the first part if fused)."""
        return Matrix(_last(path), n, k, shard, self.quantization.linear(path), bias=bias, slices=slices)

    def plain(
        self, name: str, n: int, k: int, shard: str = "replicated", *, bias: bool = False, dtype: str = "model"
    ) -> Matrix:
        """A linear layer that no quantization touches (routers, small projections)."""
        return Matrix(name, n, k, shard, dtype, bias=bias)

    def embedding(self, vocab: int = 0, width: int = 0) -> Matrix:
        """The token embedding, its rows padded to 64 and split."""
        return Matrix("embed_tokens", vocab or self.vocab, width or self.hidden, "vocab", "plain")

    def head(self, path: str = "lm_head", *, bias: bool = False, vocab: int = 0) -> Matrix:
        """The output head; ``path`` is its name in the checkpoint."""
        return Matrix("lm_head", vocab or self.vocab, self.hidden, "vocab", self.quantization.head(path), bias=bias)

    def ends(self, tied: bool = False) -> tuple[Matrix, Matrix | None, bool]:
        """What stands before and behind the layers of a decoder, as ``Parts`` takes it: embedding, head (None where it is
        the embedding), and whether it is. ``tied``: what holds where the config is silent."""
        shared = self.tied(tied)
        return self.embedding(), None if shared else self.head(), shared

    def stack(
        self,
        kinds: Sequence[Hashable],
        build: Callable[[int, str], Layer],
        prefix: str = "model.layers",
        offset: int = 0,
    ) -> tuple[Layer, ...]:
        """One layer per kind. Layers of one kind whose modules are stored alike are one object."""
        made: dict[Hashable, Layer] = {}
        layers = []
        for index, kind in enumerate(kinds, offset):
            key = (kind, self.quantization.layer_key(index))
            layer = made.get(key)
            if layer is None:
                layer = made[key] = build(index, f"{prefix}.{index}")
            layers.append(layer)
        return tuple(layers)


def _last(path: str) -> str:
    return path.rsplit(".", 1)[-1]


def norm(name: str, size: int, *, bias: bool = False, count: int = 1) -> Vector:
    """RMSNorm (a weight) or LayerNorm (a weight and a bias)."""
    return Vector(name, size * (2 if bias else 1), count=count)


EMPTY_LAYER = Layer(NoAttention(), ())
