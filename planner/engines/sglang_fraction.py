"""The share of memory that SGLang takes where nobody says it, with the chunk size and graph sizes it depends on.

Sizes are MiB as the driver tool prints them (0: not known). Source: ``ServerArgs`` of 0.3.6 to 0.5.23, and from 0.5.19
``arg_groups/memory_hook.py``; the tables stand in the reference on SGLang's memory, 3.2 and 4.1.
"""

from __future__ import annotations

from planner.record import NamedTuple

Version = tuple[int, ...]


class Inputs(NamedTuple):
    """What the heuristic looks at. ``chunk`` and ``graph_max`` are resolved (before DP attention divides the chunk);
    ``speculation`` is the algorithm's name or empty; ``prefill_graphs`` is None where prefill graphs are off."""

    version: Version
    mib: int
    tensor: int
    pipeline: int
    chunk: int
    max_prefill_tokens: int
    graph_max: int
    decode_graphs: bool
    prefill_graphs: tuple[int, ...] | None
    prefill_graph_limit: int
    latent: bool
    attention_data: int
    speculation: str
    draft_tokens: int
    requests: int | None
    role: str
    deepep: bool
    cuda: bool


class Fraction(NamedTuple):
    """The share, and the sum behind it in words."""

    value: float
    formula: str


def default_chunk(version: Version, mib: int, role: str = "") -> int:
    """Tokens of a prefill chunk by device memory."""
    if version < (0, 4, 8):
        if version >= (0, 4, 7) and (mib > 180_000 or role):
            return 16384
        return 2048 if mib and mib < 25_000 else 8192
    if not mib:
        return 4096
    if version < (0, 5, 3):
        return 2048 if mib < 35 * 1024 else 8192 if mib < 160 * 1024 else 16384
    if mib < 20 * 1024:
        return 2048
    if mib < 35 * 1024:
        return 4096 if version >= (0, 5, 20) else 2048
    if mib < 60 * 1024:
        return 4096
    return 8192 if mib < 160 * 1024 else 16384


def default_graph_max(version: Version, mib: int, tensor: int, attention_data: int = 1) -> int:
    """The largest batch whose decode step is captured as a graph, by device memory."""
    wide = tensor >= 4
    if version < (0, 4, 8):
        if mib and mib < 25_000:
            if version < (0, 4):
                return 4
            return 80 if wide and version >= (0, 4, 3) else 8
        if version >= (0, 4, 6) and mib > 81_920 and attention_data == 1:
            return 256
        return 96 if attention_data > 1 and version < (0, 4, 3) else 160
    if version < (0, 5, 3):
        if mib and mib < 35 * 1024:
            return 80 if wide else 8
        return 512 if mib > 160_000 else 256 if mib > 90 * 1024 else 160
    if not mib:
        return 160
    if mib < 20 * 1024:
        return 8
    if mib < 35 * 1024:
        if version >= (0, 5, 20):
            return 160 if wide else 48
        return 80 if wide else 24 if version >= (0, 5, 5) else 16
    if mib < 60 * 1024:
        return 160 if wide else 32
    if mib < 160 * 1024:
        return 512 if wide else 256
    return 512


def mem_fraction(inputs: Inputs) -> Fraction:
    """mem-fraction-static where nobody sets it, before adjustments for multimodal models and attention backends."""
    ranks, version, mib = inputs.tensor * inputs.pipeline, inputs.version, inputs.mib
    if version < (0, 4, 6):
        return Fraction(_by_ranks(version, ranks), f"table by ranks ({ranks})")
    if version < (0, 4, 7):
        if not mib or mib <= 81_920:
            return Fraction(_by_ranks(version, ranks), f"table by ranks ({ranks})")
        return Fraction((mib - 13 * 1024) / mib, f"({mib} − 13 × 1024) / {mib}")
    if version < (0, 4, 8):
        return _of_0_4_7(inputs)
    if not mib:
        return Fraction(0.95 if version >= (0, 5, 20) else 0.88, "device memory is not known")
    reserve, parts = _of_classes(inputs) if version < (0, 5, 3) else _of_terms(inputs)
    words = " + ".join(f"{name} {size:g}" for name, size in parts)
    return Fraction(round((mib - reserve) / mib, 3), f"({mib} − {reserve:g} MiB) / {mib}: {words}")


def _by_ranks(version: Version, ranks: int) -> float:
    eight, four = (0.82, 0.85) if version < (0, 4) else (0.81, 0.85)
    for least, value in ((16, 0.79), (8, eight), (4, four), (2, 0.87)):
        if ranks >= least:
            return value
    return 0.88


def _of_0_4_7(inputs: Inputs) -> Fraction:
    mib, ranks = inputs.mib, inputs.tensor * inputs.pipeline
    share = _by_ranks(inputs.version, ranks) if mib and mib <= 81_920 else 0.88
    if mib > 180_000 and inputs.cuda:
        return Fraction(0.79, "a device of more than 180000 MiB")
    if mib > 96 * 1024:
        reserve = (20 if inputs.speculation else 18) * 1024
        share = min(share + 48 * 1024 * (1 - share) / mib, (mib - reserve) / mib)
        return Fraction(share, f"a device of {mib} MiB")
    return Fraction(share * 0.95 if inputs.speculation else share, f"table by ranks ({ranks})")


def _of_classes(inputs: Inputs) -> tuple[float, list[tuple[str, float]]]:
    """0.4.8 to 0.5.2: a reserve by class of device."""
    mib, ranks = inputs.mib, inputs.tensor * inputs.pipeline
    if mib < 35 * 1024:
        base = (2.8 + ranks / 10) * 1024
    elif mib < 90 * 1024:
        base = (9.5 + ranks / 2) * 1024
    elif mib < 160 * 1024:
        base = (12 + ranks / 2) * 1024
    else:
        base = 32 * 1024.0
    parts = [("device class", base)]
    if inputs.speculation:
        standalone = inputs.speculation == "STANDALONE" and inputs.version >= (0, 5, 2)
        parts.append(("speculation", (6 if standalone else 2) * 1024.0))
    if inputs.attention_data > 1:
        parts.append(("DP attention", 4 * 1024.0))
    return sum(size for _, size in parts), parts


def _of_terms(inputs: Inputs) -> tuple[float, list[tuple[str, float]]]:
    """0.5.3 and later: activations, graphs and parallelism add up, with a floor on large devices."""
    version, graph_max = inputs.version, inputs.graph_max
    roles = version >= (0, 5, 15)
    decode_role, prefill_role = roles and inputs.role == "decode", roles and inputs.role == "prefill"
    if decode_role:
        tokens = max((inputs.requests or graph_max or 1) * (inputs.draft_tokens or 1), 2048)
    else:
        tokens = max(inputs.chunk if inputs.chunk > 0 else inputs.max_prefill_tokens, 2048)
    parts: list[tuple[str, float]] = [
        ("constant", 512.0),
        ("activations", tokens * 1.5),
        ("parallelism", inputs.tensor * inputs.pipeline / 8 * 1024),
    ]
    if not roles or (inputs.decode_graphs and not prefill_role):
        parts.append(("decode graphs", graph_max * 2.0))
    if inputs.attention_data > 1 and not prefill_role:
        factor = 4.5 if graph_max > 300 else 3.0
        parts.append(("DP attention", graph_max * inputs.attention_data * factor))
    late: list[tuple[str, float]] = []
    if inputs.prefill_graphs is not None and not decode_role:
        if version < (0, 5, 8):
            late.append(("prefill graphs", float(inputs.prefill_graph_limit // (4 if version < (0, 5, 7) else 8))))
        elif version < (0, 5, 10) or not inputs.latent:
            parts.append(("prefill graphs", len(inputs.prefill_graphs) * 8.0))
        else:
            parts.append(("prefill graphs", 1536.0))
        if inputs.deepep and version >= (0, 5, 17):
            parts.append(("DeepEP prefill", 1024.0))
    total = sum(size for _, size in parts)
    if inputs.mib > 60 * 1024 and total < 10 * 1024:
        parts.append(("up to the floor", 10 * 1024 - total))
    if inputs.speculation and version < (0, 5, 14):
        if inputs.speculation == "STANDALONE":
            late.append(("speculation", 6144.0))
        elif inputs.speculation != "NGRAM":
            late.append(("speculation", 4096.0 if version >= (0, 5, 10) else 2048.0))
    if roles and inputs.deepep and inputs.decode_graphs and not prefill_role:
        late.append(("DeepEP buffers", 2048.0))
    parts += late
    return sum(size for _, size in parts), parts


def multimodal_factor(version: Version, layers: int, hidden: int) -> float:
    """What the default share is multiplied by for a model with a vision tower of ``layers`` × ``hidden``."""
    if version < (0, 4, 5):
        return 1.0
    if version < (0, 4, 10):
        return 0.9
    score = layers * hidden**2 / (24 * 1024**2)
    return 0.95 * max(0.8, min(1.05, 1.0 - 0.1 * (score - 1.0)))
