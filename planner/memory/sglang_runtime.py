"""What an SGLang rank needs outside its static share: before the baseline is taken, and after the pools are made.

SGLang measures none of it; it must fit into what mem-fraction-static leaves. Source: reference on SGLang's memory, 1, 4
and 6, and start-up logs.
"""

from __future__ import annotations

from planner.accelerators.accelerator import Accelerator
from planner.engines.sglang_config import SGLangConfig
from planner.estimate import ZERO, Estimate, exactly
from planner.memory.activations import phases
from planner.memory.budget import Input, Term
from planner.memory.coefficients import Spread
from planner.models.architecture import ModelArchitecture
from planner.units import GIB, format_bytes

#: GiB of one process's context with the kernels that are loaded before the baseline, by major compute capability (public
#: logs: L40S 0.51, RTX 3090 and L4 of several ranks 0.54 to 0.65, H100 0.71, RTX PRO 6000 0.73, B200 0.79).
_CONTEXT: dict[int, Spread] = {8: (0.3, 0.47, 0.7), 9: (0.35, 0.65, 0.85), 10: (0.45, 0.78, 1.0), 12: (0.35, 0.7, 0.9)}
_CONTEXT_ELSEWHERE: Spread = (0.3, 0.55, 0.9)
#: GiB of communicators by link (public logs: 0.1 on PCIe; eight ranks 0.75 on H20, 1.0 to 2.0 on H200).
_COMMUNICATORS: dict[str, Spread] = {"pcie": (0.03, 0.13, 0.6), "pair": (0.1, 0.5, 1.0), "mesh": (0.4, 1.2, 2.2)}
#: Peak of a prefill chunk over the tensor sizes of one layer, and over the work space of its experts.
_FORWARD: Spread = (0.4, 1.1, 2.0)
_EXPERTS: Spread = (0.2, 1.0, 1.5)
#: Copies of the logits (32 bit) that are alive at once.
_LOGITS: Spread = (0.5, 1.5, 2.5)
#: GiB of captured decode graphs: a constant, and a share per layer and graph; the factor of models with experts.
_GRAPH_BASE: Spread = (0.02, 0.1, 0.3)
_GRAPH_SHARE: Spread = (0.0001, 0.0005, 0.001)
_GRAPH_EXPERTS: Spread = (1.0, 2.5, 3.5)
#: GiB per prefill graph.
_PREFILL_GRAPH: Spread = (0.002, 0.02, 0.06)
#: GiB of attention work space, and of what communicators and libraries take later.
_WORKSPACE: Spread = (0.05, 0.4, 0.9)
_GROWTH: Spread = (0.02, 0.1, 0.4)
_GROWTH_RANKS: Spread = (0.05, 0.4, 1.0)
#: Share of a unified device's memory that the host's own processes take.
_HOST_SHARE: Spread = (0.02, 0.05, 0.12)
#: GiB of DeepEP's buffers.
_DEEPEP: Spread = (0.3, 1.5, 3.0)


def baseline(config: SGLangConfig, accelerator: Accelerator | None) -> Term:
    """Bytes in use on the device when the engine takes its baseline: the context, and the communicators of several ranks."""
    capability = accelerator.capability if accelerator is not None else None
    context = _CONTEXT.get(capability[0] if capability else 0, _CONTEXT_ELSEWHERE)
    bounds = list(context)
    inputs = [Input("context", f"{context[1]:.2f} GiB", "context of one process, from start-up logs")]
    ranks = config.parallel.world
    if ranks > 1:
        linked = accelerator is None or accelerator.vendor == "amd" or _fast(accelerator)
        extra = _COMMUNICATORS["pcie" if not linked else "pair" if ranks == 2 else "mesh"]
        bounds = [bound + more for bound, more in zip(bounds, extra, strict=True)]
        inputs.append(Input("communicators", f"{extra[1]:.2f} GiB", f"{ranks} ranks"))
    if accelerator is not None and accelerator.unified:
        total = accelerator.memory.expected / GIB
        bounds = [bound + share * total for bound, share in zip(bounds, _HOST_SHARE, strict=True)]
        inputs.append(Input("host", f"{_HOST_SHARE[1] * total:.1f} GiB", "processes of the host share the memory"))
    if config.prealloc:
        bounds = [bound + config.prealloc / GIB for bound in bounds]
        inputs.append(Input("symmetric memory", format_bytes(config.prealloc), "--enable-symm-mem"))
    return Term("baseline", _estimate(bounds), "in use when the engine takes its baseline", tuple(inputs), counted=True)


def _fast(accelerator: Accelerator) -> bool:
    """Whether ranks reach each other by NVLink (bridges between two cards take no more than PCIe does)."""
    return "NVLink" in accelerator.interconnect and "bridge" not in accelerator.interconnect


def activations(model: ModelArchitecture, config: SGLangConfig) -> Term:
    """The transient peak of the largest prefill chunk and of the logits, which the engine does not measure."""
    sizes = phases(model, config)
    rows = min(config.max_num_seqs.value, 512)
    logits = 4 * rows * model.vocab_size // (1 if config.head_data else max(1, config.parallel.tensor))
    logits = max(logits, 4 * rows * model.vocab_size // 4)
    bounds = []
    for bound in range(3):
        forward = _FORWARD[bound] * sizes.forward + max(sizes.experts * _EXPERTS[bound], 0)
        bounds.append((forward + logits * _LOGITS[bound]) / GIB)
    tokens = config.max_num_batched_tokens
    return Term(
        "activations",
        _estimate(bounds),
        "forward + experts + logits",
        (
            Input("prefill chunk", f"{tokens.value:,}", str(tokens.provenance)),
            Input(
                "forward", format_bytes(_FORWARD[1] * sizes.forward), "hidden, intermediate and head sizes of the model"
            ),
            Input("experts", format_bytes(_EXPERTS[1] * sizes.experts), "routed experts per token"),
            Input("logits", format_bytes(_LOGITS[1] * logits), f"{rows} rows × vocabulary at 32 bits"),
        ),
        (("batched tokens", f"{format_bytes(sizes.forward / max(tokens.value, 1))} per token of the chunk"),),
        counted=False,
    )


def graphs(model: ModelArchitecture, config: SGLangConfig) -> Term:
    """Bytes of captured decode and prefill graphs; zero where none are captured."""
    decode, prefill = len(config.capture_sizes), len(config.prefill_graph_sizes)
    if not decode and not prefill:
        return Term("graphs", ZERO, "no graphs are captured", counted=False)
    layers = max(1, model.num_layers // config.parallel.pipeline)
    bounds = []
    for bound in range(3):
        factor = _GRAPH_EXPERTS[bound] if model.is_moe and config.parallel.tensor > 1 else 1.0
        size = (_GRAPH_BASE[bound] + _GRAPH_SHARE[bound] * layers * decode * factor) if decode else 0.0
        bounds.append(size + _PREFILL_GRAPH[bound] * prefill)
    return Term(
        "graphs",
        _estimate(bounds),
        "base + share × layers × decode graphs + prefill graphs",
        (
            Input("decode graphs", str(decode), f"batches up to {max(config.capture_sizes, default=0)}"),
            Input(
                "prefill graphs", str(prefill), f"chunks up to {max(config.prefill_graph_sizes, default=0):,} tokens"
            ),
            Input("layers", str(layers), "of this pipeline stage"),
        ),
        (("graphs", f"{format_bytes(_GRAPH_SHARE[1] * layers * GIB)} per graph"),),
        counted=False,
    )


def non_torch(config: SGLangConfig, requests: int = 0) -> Term:
    """Attention work space, and what communicators and libraries take after the baseline. ``requests``: those that the
    scheduler may run, where the work space grows with them."""
    growth = _GROWTH_RANKS if config.parallel.world > 1 else _GROWTH
    bounds = [workspace + more for workspace, more in zip(_WORKSPACE, growth, strict=True)]
    inputs = [Input("attention work space", f"{_WORKSPACE[1]:.2f} GiB", "from start-up logs")]
    if config.shared_replicated:
        bounds = [bound + more for bound, more in zip(bounds, _DEEPEP, strict=True)]
        inputs.append(Input("expert exchange", f"{_DEEPEP[1]:.1f} GiB", "buffers of the all-to-all backend"))
    each = config.request_workspace
    if each and requests:
        bounds = [bound + requests * each / GIB for bound in bounds]
        why = "outputs, maxima and sums of AITER's attention for every 256 tokens of the context"
        inputs.append(Input("requests", f"{requests:,} × {format_bytes(each)}", why))
    return Term("non_torch", _estimate(bounds), "work space + growth after the baseline", tuple(inputs), counted=False)


def request_table(config: SGLangConfig, requests: int) -> Term:
    """The table that maps requests to tokens: four bytes for each position that a request may have."""
    extra = 4 + config.draft_tokens
    rows = max(1, requests) + 1
    if config.role == "decode":
        rows = 2 * rows if requests <= 32 else rows
    size = rows * (config.max_model_len.value + extra) * 4
    length = config.max_model_len
    return Term(
        "request_table",
        exactly(size, "derived"),
        "(requests + 1) × (context length + extra) × 4 bytes",
        (
            Input("requests", f"{requests:,}", "max-running-requests, or 2048 to 4096 by the pool's tokens"),
            Input("context length", f"{length.value:,}", str(length.provenance)),
        ),
        (
            ("context", f"{format_bytes(4 * rows)} per token of the context length"),
            ("concurrency", f"{format_bytes(4 * length.value)} per running request"),
        ),
        counted=False,
    )


def _estimate(bounds: list[float]) -> Estimate:
    return Estimate(int(bounds[0] * GIB), int(bounds[1] * GIB), int(bounds[2] * GIB), "measured")
