"""Qwen3.8-Flash-Next (Qwen4-Exp): gated-delta layers to one indexed full-attention layer, four residual streams, n-gram embeddings."""

from __future__ import annotations

from planner.models.architecture import FullAttention, Layer, Matrix, RecurrentState, StateShape, Vector
from planner.models.builder import Builder, Parts, norm
from planner.models.families.qwen_hybrid import shortened
from planner.models.layers import attention, delta, experts, feed_forward, vision
from planner.models.rope import rotary_table

#: Names of the attending layers over time; the released checkpoint says ``full_attention``.
INDEXED = ("full_attention", "qwen_sparse_attention", "indexed_attention")


def qwen4_exp_text(builder: Builder) -> Parts:
    """The language model. The n-gram table (51 of 180 billion parameters) stays in the host's memory."""
    config = builder.config
    count = config.layers()
    hidden, (heads, kv_heads, head_dim) = builder.hidden, builder.heads()
    interval = config.integer("full_attention_interval", default=4)
    kinds = config.layer_types(count) or tuple(
        "full_attention" if (i + 1) % interval == 0 else "linear_attention" for i in range(count)
    )
    streams = config.integer("hc_count", default=4, high=64)
    wide, rank = streams * hidden, config.integer("hc_lowrank", default=320)
    expert_count, inner = config.integer("num_experts"), config.integer("moe_intermediate_size")
    shared = config.count("shared_expert_intermediate_size", default=0)
    index_heads = config.count("indexer_n_heads", default=0)
    index_dim = config.integer("indexer_head_dim", default=128) if index_heads else 0
    ratio = config.integer("indexer_compress_ratio", default=1, high=1024) if index_heads else 1
    budget = config.count("indexer_budget", default=0)
    embedded = set(config.integers("ple_layer_ids", low=1))  # counted from 1
    state_dtype = config.text("mamba_ssm_dtype", default="model")

    def connections(combine: bool = True) -> tuple[list[Matrix], list[Vector]]:
        """A gated residual: its norm, the low-rank mix, and the injection weights that the engine pads to 16 rows."""
        rows = rank + (streams if combine else 0)
        vectors = [Vector("hc_norm", wide)]
        if combine and rows % 16:
            vectors.append(Vector("input_mix_padding", (-rows % 16) * wide, buffer=True))
        down = builder.plain("input_mix_weight_down", rows, wide)
        return [down, builder.plain("input_mix_weight_up", wide, rank)], vectors

    def moe(path: str) -> list[Matrix]:
        matrices = [
            experts.router(expert_count, hidden),
            *experts.routed(builder, f"{path}.mlp", hidden, inner, expert_count),
        ]
        if shared:
            matrices += feed_forward.gated(builder, f"{path}.mlp.shared_expert", hidden, shared)
            matrices.append(builder.plain("shared_expert_gate", 1, hidden))
        return matrices

    def build(index: int, path: str) -> Layer:
        mixing, vectors = connections()
        matrices = [m._replace(count=2) for m in mixing]
        vectors = [v._replace(count=2) for v in vectors]
        beside = None
        if index >= count or kinds[index] in INDEXED:
            pair = attention.projections(
                builder, f"{path}.self_attn", hidden, heads, kv_heads, head_dim, query_gate=True
            )
            matrices += pair
            vectors += attention.head_norms(head_dim)
            cache: FullAttention | RecurrentState = FullAttention(
                heads, kv_heads, head_dim, head_dim, indexer_dim=index_dim, index_ratio=ratio
            )
            if index_heads:
                rows = (index_heads + 1) * index_dim
                matrices.append(builder.linear(f"{path}.self_attn.indexer.index_qk_proj", rows, hidden, "replicated"))
                vectors.append(norm("index_norms", index_dim, count=2))
        else:
            cache, more, own = delta.gated_delta_net(
                builder, f"{path}.linear_attn", config, hidden, state_dtype=state_dtype
            )
            matrices, vectors = matrices + more, vectors + own
        if index + 1 in embedded and index < count:
            beside, more, own = _ngram(builder, f"{path}.ple", hidden, wide, sorted(embedded).index(index + 1))
            matrices, vectors = matrices + more, vectors + own
        return Layer(cache, (*matrices, *moe(path)), tuple(vectors), beside)

    drafts = min(config.count("mtp_num_hidden_layers", default=0), 16)
    mtp = [build(count + i, f"mtp.layers.{i}") for i in range(drafts)]
    if mtp:
        projections = builder.linear("mtp.fc_embedding", hidden, hidden, "column")._replace(count=2)
        mixing, vectors = connections(combine=False)
        mtp[0] = mtp[0]._replace(
            matrices=(*mtp[0].matrices, projections, *mixing),
            vectors=(*mtp[0].vectors, *vectors, norm("mtp_norms", hidden), norm("mtp_hidden_norm", wide)),
        )
    last, last_vectors = connections(combine=False)
    return Parts(
        builder.stack([(kind, i + 1 in embedded) for i, kind in enumerate(kinds)], build),
        *builder.ends(),
        final_vectors=(*last_vectors, *(Vector(m.name, m.n * m.k) for m in last)),
        tables=(rotary_table(config, head_dim),),
        mtp_layers=tuple(mtp),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        experts=expert_count,
        experts_per_token=config.integer("num_experts_per_tok", default=10),
        expert_intermediate=inner,
        extra=_extra(
            state_dtype, sum(kind in INDEXED for kind in kinds) * (budget + ratio) if index_heads else 0, streams
        ),
    )


def _extra(state_dtype: str, chosen: int, streams: int) -> tuple[tuple[str, str], ...]:
    """What memory terms ask for by name: the state's dtype, and how many choices per token all indexers write down."""
    extra: tuple[tuple[str, str], ...] = (("mamba_ssm_dtype", state_dtype),) if state_dtype != "model" else ()
    if chosen:
        extra = (*extra, ("index_topk", str(chosen)))
    return (*extra, ("streams", str(streams)))


def _ngram(
    builder: Builder, path: str, hidden: int, wide: int, place: int
) -> tuple[RecurrentState, list[Matrix], list[Vector]]:
    """The n-gram embedding of one layer: its table, its projections, and a dilated convolution with a state of its own.

    ``place``: how many layers before this one have such an embedding; the tables' sizes are consecutive primes.
    """
    config = builder.config
    size, longest = config.integer("ple_embed_dim", default=hidden), config.integer("ngram_size", default=3, high=16)
    table_heads = (longest - 1) * config.integer("heads_per_ngram", default=8, high=1024)
    base = config.integer("ngram_vocab_size_base", default=20_000_000)
    divisor = config.integer("make_ngram_vocab_size_divisible_by", default=128)
    primes = _primes(base, table_heads * (place + 1))[-table_heads:]
    rows = -(-sum(primes) // divisor) * divisor
    kernel = config.integer("ple_conv_kernel_size", default=4, high=1000)
    matrices = [
        Matrix("ngram_embedding", rows, max(size // table_heads, 1), "host", "plain"),
        builder.linear(f"{path}.key_proj", wide + hidden, size, "replicated", slices=2)._replace(name="kv_proj"),
    ]
    vectors = [
        Vector("ple_norms", wide, count=3),
        Vector("ple_conv1d", wide * kernel),
    ]
    state = RecurrentState("short_conv", (StateShape((wide, (kernel - 1) * longest), -1, "conv", "model", 1),))
    return state, matrices, vectors


def _primes(start: int, count: int) -> list[int]:
    """The first ``count`` primes from ``start`` on: the sizes of the hash tables."""
    found: list[int] = []
    candidate = max(start, 2)
    while len(found) < min(count, 1024):
        if _is_prime(candidate):
            found.append(candidate)
        candidate += 1
    return found


def _is_prime(number: int) -> bool:
    """Whether a number is prime: Miller-Rabin with bases that decide all 64-bit numbers."""
    for prime in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        if number % prime == 0:
            return number == prime
    odd, shifts = number - 1, 0
    while odd % 2 == 0:
        odd, shifts = odd // 2, shifts + 1
    for base in (2, 325, 9375, 28178, 450775, 9780504, 1795265022):
        witness = pow(base % number, odd, number)
        if witness in (0, 1, number - 1):
            continue
        for _ in range(shifts - 1):
            witness = witness * witness % number
            if witness == number - 1:
                break
        else:
            return False
    return True


def qwen4_exp(builder: Builder) -> Parts:
    """The same with the vision tower of Qwen3-VL."""
    parts = qwen4_exp_text(builder)
    tower = vision.qwen3_vl(builder, builder.root.require("vision_config"))
    return parts._replace(towers=(tower,), multimodal=True, tables=shortened(builder, parts.tables))
