"""What a model is made of, as far as memory goes. Sizes are elements (not bytes) unless a name says otherwise.

Everything here is for the whole model on one GPU; ``memory/`` divides by ranks, because how it divides depends on the
engine. Layer objects are shared: a model of 80 equal layers holds 80 references to one ``Layer``.
"""

from __future__ import annotations

from planner.record import NamedTuple, dataclass


class FullAttention(NamedTuple):
    """Attention over the whole context (MHA, GQA or MQA): the cache keeps K and V of every token.

    ``sinks``: learned per-head sink weights, which cost no cache. ``kv_donor``: the index of the layer whose cache this
    one reads instead of having its own (Gemma-3n, Gemma-4), else None. ``indexer_dim`` > 0: the layer picks what it reads
    with an indexer, whose keys of that size it caches beside its own (MiniMax-M3): one for every ``index_ratio`` tokens,
    and where that is more than one, those of the unfinished group in a ring (Qwen4-Exp).
    """

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    kv_donor: int | None = None
    sinks: bool = False
    indexer_dim: int = 0
    index_ratio: int = 1


class SlidingWindow(NamedTuple):
    """Attention over the last ``window`` tokens."""

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    window: int
    kv_donor: int | None = None
    sinks: bool = False


class ChunkedLocal(NamedTuple):
    """Attention inside fixed chunks of ``chunk`` tokens (Llama-4)."""

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    chunk: int


class CrossAttention(NamedTuple):
    """Attention of a decoder over an encoder's output (Whisper, Llama-3.2-Vision)."""

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int


class LatentAttention(NamedTuple):
    """MLA: one latent vector of ``kv_lora_rank + rope_dim`` per token, shared by all heads.

    ``indexer_dim`` > 0: the layer has a sparse-attention indexer with its own cache of that key size (DeepSeek-V3.2),
    one key for every ``index_ratio`` tokens (GLM-5.3-Flash).
    ``window``: the latent cache is a sliding window (DeepSeek-V4), else 0. ``compress_ratio`` > 0: compressed KV beside it.
    """

    heads: int
    kv_lora_rank: int
    rope_dim: int
    nope_dim: int
    v_head_dim: int
    q_lora_rank: int = 0
    indexer_dim: int = 0
    window: int = 0
    compress_ratio: int = 0
    index_ratio: int = 1


class StateShape(NamedTuple):
    """One recurrent state tensor: its dimensions and which of them tensor parallelism divides (-1: none).

    ``dtype`` is ``model`` (the model's dtype), or a fixed one such as ``float32``; flags may override it by ``role``
    (``conv`` or ``ssm``). ``lookahead_dim``: the dimension that grows by the number of speculative tokens (-1: none).
    """

    shape: tuple[int, ...]
    shard_dim: int
    role: str
    dtype: str = "model"
    lookahead_dim: int = -1


class RecurrentState(NamedTuple):
    """A layer that keeps a state of fixed size per sequence instead of a cache that grows.

    ``kind``: ``mamba1``, ``mamba2``, ``gdn`` (gated delta net), ``kda``, ``linear`` (lightning) or ``short_conv``.
    ``groups``/``group_state``: Mamba-2's n_groups and the state size, since groups are extended where tp does not divide.
    """

    kind: str
    states: tuple[StateShape, ...]
    chunk: int = 0
    groups: int = 0
    group_state: int = 0


class NoAttention(NamedTuple):
    """A layer without any cache (an MLP-only layer of a hybrid, an encoder-only layer)."""


Attention = (
    FullAttention | SlidingWindow | ChunkedLocal | CrossAttention | LatentAttention | RecurrentState | NoAttention
)


class Matrix(NamedTuple):
    """``count`` equal weight tensors of one linear layer as the engine holds it: ``n`` outputs × ``k`` inputs.

    ``shard``: how tensor parallelism splits it —
    ``column`` (n / tp), ``row`` (k / tp), ``qkv`` (query and KV heads apart: ``heads`` and ``kv_heads`` of ``head_dim``
    each, KV replicated when tp > kv_heads), ``vocab`` (rows padded to ``pad`` and split), ``replicated`` (whole on every
    rank), ``host`` (kept in the host's memory), ``expert_column`` / ``expert_row`` (``experts`` of these: split by tp·dp,
    or whole experts per rank under
    expert parallelism), ``grouped`` (as column, but of ``kv_heads`` groups that are ``head_dim`` outputs wide each rank
    has at least one).
    ``format``: a key of ``ModelArchitecture.formats`` — how its elements are stored. ``model`` are linear layers at 16
    bits that an engine may quantize while loading, ``plain`` what it never quantizes (routers, embeddings, convolutions).
    ``bias``: a bias vector of n elements at 16 bits.
    """

    name: str
    n: int
    k: int
    shard: str
    format: str
    count: int = 1  # type: ignore[assignment]  # the field hides the tuple method
    bias: bool = False
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    v_head_dim: int = 0
    experts: int = 0
    pad: int = 64
    slices: int = 1  # logical shards fused in one parameter: qkv 3, gate_up 2
    until: tuple[int, ...] = ()  # held only by engine versions before this one, and no parameter of the model since
    least: int = 0  # the smallest width of an expert on one rank, to which narrower shares are padded (Kimi-K3)


class Vector(NamedTuple):
    """``count`` small parameters of ``n`` elements (norms, scales, A/D/dt).

    ``shard``: ``replicated``, ``column`` (split), ``column_kv`` (split, or one head's share where tp > kv heads),
    ``sink_heads`` (split, then padded to 64 or 128).
    """

    name: str
    n: int
    shard: str = "replicated"
    dtype: str = "model"
    count: int = 1  # type: ignore[assignment]  # the field hides the tuple method
    until: tuple[int, ...] = ()
    buffer: bool = False  # computed by the engine, no parameter of the model


class Format(NamedTuple):
    """How the elements of a matrix are stored.

    ``name``: ``model`` (the model's own dtype), ``bfloat16``, ``float32``, ``fp8_tensor``, ``fp8_channel``,
    ``fp8_block``, ``int8``, ``w4a16``, ``w8a16``, ``nvfp4``, ``mxfp4``, ``mxfp8``, ``bnb_nf4``, ``bnb_int8``, ``gguf`` …
    ``group``: inputs per scale (128; -1 for the whole row). ``zero_points``: asymmetric. ``block``: (n, k) of block fp8.
    """

    name: str
    group: int = 0
    zero_points: bool = False
    act_order: bool = False
    block: tuple[int, int] = (0, 0)
    bits: float = 0.0
    spare_zeros: bool = False  # zero points that symmetric GPTQ files carry and the engine keeps


class Layer(NamedTuple):
    """One decoder layer: what its cache is, and the weights it owns.

    ``state``: a recurrent state that the layer keeps beside its attention (Falcon-H1 runs both in parallel).
    """

    attention: Attention
    matrices: tuple[Matrix, ...]
    vectors: tuple[Vector, ...] = ()
    state: RecurrentState | None = None


class RotaryTable(NamedTuple):
    """A table of cosines and sines that the engine precomputes: ``positions`` × ``dim`` elements of ``dtype``.

    Every pipeline stage holds its own. Engine versions before ``since`` hold ``positions_before`` rows. ``enlarged``: how
    many times the model's positions vLLM's table for multimodal positions has (SGLang's has them once).
    """

    positions: int
    dim: int
    dtype: str = "model"
    count: int = 1  # type: ignore[assignment]  # the field hides the tuple method
    positions_before: int = 0
    since: tuple[int, ...] = ()
    wide_on_blackwell: bool = (
        False  # kept as float32 where FlashInfer rotates (DeepSeek's YaRN on compute capability 10)
    )
    enlarged: int = 1


class Tower(NamedTuple):
    """A part outside the decoder stack: a vision or audio encoder with its projector. ``stage``: which
    pipeline stages hold it (``all``, ``first`` or ``last``)."""

    name: str
    matrices: tuple[Matrix, ...]
    vectors: tuple[Vector, ...] = ()
    stage: str = "all"
    layers: int = 0
    hidden: int = 0
    intermediate: int = 0
    max_tokens_per_item: int = 0
    tables: tuple[RotaryTable, ...] = ()
    buffer_bytes: int = 0
    #: elements per token of a batch that the engine keeps for what the decoder takes in beside the embeddings
    #: (deepstack levels, per-layer inputs), as many as the largest batch has tokens
    batch_width: int = 0


@dataclass(frozen=True)
class ModelArchitecture:
    """A checkpoint as the engine would build it.

    ``dtype`` is the checkpoint's own (``bfloat16``, ``float16``, ``float32``); ``derived_max_len`` the length that the
    engine takes where none is given, with ``max_len_key`` the config key it came from; ``quantization`` the method's
    name in the engine's terms (``None``, ``fp8``, ``awq``, ``gptq``, ``compressed-tensors``, ``modelopt`` …);
    ``kv_cache_dtype_hint`` what the checkpoint asks ``--kv-cache-dtype auto`` to become (``fp8``, ``nvfp4`` or None).
    ``head``, ``embedding`` are outside the layers (head None when tied). ``buffers`` are persistent bytes per rank that
    loading leaves alive and that are no parameters (rotary tables), ``rope_tables`` says how they come about.
    """

    id: str
    architecture: str
    model_type: str
    dtype: str
    hidden_size: int
    vocab_size: int
    layers: tuple[Layer, ...]
    embedding: Matrix | None
    head: Matrix | None
    tied_embeddings: bool
    formats: dict[str, Format]
    final_vectors: tuple[Vector, ...] = ()
    towers: tuple[Tower, ...] = ()
    mtp_layers: tuple[Layer, ...] = ()
    buffers: int = 0
    rope_tables: str = ""
    derived_max_len: int = 0
    max_len_key: str = ""
    rope_type: str = ""
    rope_factor: float = 1.0
    original_max_len: int = 0
    quantization: str | None = None
    quant_group: int = 0
    kv_cache_dtype_hint: str | None = None
    intermediate_size: int = 0
    num_experts: int = 0
    experts_per_token: int = 0
    moe_intermediate_size: int = 0
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    parameters: int = 0
    pooling: bool = False
    encoder_decoder: bool = False
    multimodal: bool = False
    #: bytes of the checkpoint's files where somebody measured them, 0 where nobody did
    checkpoint_bytes: int = 0
    #: facts for the engine's own procedure, such as ("mamba_ssm_dtype", "float32")
    extra: tuple[tuple[str, str], ...] = ()
    #: the rotary tables that ``buffers`` sums up at 16 bits
    rotary_tables: tuple[RotaryTable, ...] = ()
    #: small 16-bit parameters beside the embedding on the first stage (learned positions, embedding norms)
    embedding_vectors: tuple[Vector, ...] = ()
    #: whether every pipeline stage holds the embedding or the head, used or not (the engine's model class decides)
    embedding_everywhere: bool = False
    head_everywhere: bool = False

    @property
    def num_layers(self) -> int:
        """Decoder layers, without MTP layers."""
        return len(self.layers)

    @property
    def is_moe(self) -> bool:
        """Whether any layer has routed experts."""
        return self.num_experts > 0

    @property
    def is_hybrid(self) -> bool:
        """Whether some layers keep a recurrent state and others a KV cache."""
        kinds = {isinstance(layer.attention, RecurrentState) for layer in self.layers}
        return len(kinds) == 2

    @property
    def is_recurrent(self) -> bool:
        """Whether any layer keeps a recurrent state, alone or beside its attention (Falcon-H1)."""
        return any(layer.state is not None or isinstance(layer.attention, RecurrentState) for layer in self.layers)

    @property
    def is_multi_latent(self) -> bool:
        """Whether the KV cache is a latent vector (MLA)."""
        return any(isinstance(layer.attention, LatentAttention) for layer in self.layers)

    @property
    def is_sparse(self) -> bool:
        """Whether latent attention reads a selection of the tokens only (an indexer, or compressed keys and values)."""
        kinds = {layer.attention for layer in self.layers}
        return any(isinstance(kind, LatentAttention) and (kind.indexer_dim or kind.window) for kind in kinds)


class UnknownModel(Exception):  # noqa: N818 - a finding for people, not a bug
    """The model cannot be described; ``reason`` says why and ``remedy`` the one line that would help."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy
