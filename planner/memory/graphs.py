"""CUDA graphs: what capturing them keeps, and what the engine sets aside for them."""

from __future__ import annotations

from planner.accelerators.accelerator import Accelerator
from planner.engines.config import EffectiveConfig
from planner.estimate import ZERO, Estimate
from planner.memory.budget import Input, Term
from planner.memory.coefficients import GRAPH_BASE_GIB, GRAPH_PER_LAYER_GIB, GRAPH_RANKS_FACTOR
from planner.models.architecture import ModelArchitecture
from planner.units import GIB, format_bytes

#: What recurrent layers take of what dense ones do: 0.55 and 0.78 in logs of Nemotron and Qwen3.6 that print the graphs, and
#: 0.36 to 0.7 in four starts of Qwen3.5 and Qwen3.8 on RTX 5090, as what their other terms leave.
_HYBRID_SHARE = (0.5, 0.65, 1.0)
#: What the engine's estimate is multiplied with for sparse attention, whose indexers and compressors are kernels of their
#: own: starts of DeepSeek-V4 on H100 and B200 leave 1.7 and 4.7 times what dense layers cost, and logs of GLM-5.1 print
#: estimates of 5.1 to 6.8 GiB, five times that, for graphs of 1.2 to 2.2 GiB. Runner V2 captures most of them to know.
_SPARSE_ESTIMATE = {"v1": (1.0, 2.0, 5.0), "v2": (1.0, 2.0, 3.0)}


def graph_memory(model: ModelArchitecture, config: EffectiveConfig, accelerator: Accelerator | None = None) -> Term:
    """Bytes that captured graphs hold on one rank, or that the engine takes them to hold. Zero where nothing is captured.

    Every captured graph costs driver memory for each kernel, so that it grows with layers × graphs. Where the release
    subtracts its own estimate (``counted``), that estimate is meant, which extrapolates from the two largest graphs and
    misses in both directions. Source: reference on vLLM's memory, 1.4, 7.1, and start-up logs (no formula is known).
    """
    graphs = captured_graphs(config)
    if not graphs:
        return Term("graphs", ZERO, "no graphs are captured", counted=counts_graphs(config, accelerator))
    layers = max(1, model.num_layers // config.parallel.pipeline)
    ranks = GRAPH_RANKS_FACTOR if config.parallel.tensor > 1 else (1.0, 1.0, 1.0)
    bounds = [
        (GRAPH_BASE_GIB[bound] + GRAPH_PER_LAYER_GIB[bound] * layers * graphs) * ranks[bound] for bound in range(3)
    ]
    bounds[2] *= graph_surplus(model, config)
    if model.is_hybrid:
        bounds = [bound * share for bound, share in zip(bounds, _HYBRID_SHARE, strict=True)]
    counted = counts_graphs(config, accelerator)
    if counted and model.is_sparse:
        bounds = [
            bound * more
            for bound, more in zip(bounds, _SPARSE_ESTIMATE["v2" if config.runner == "v2" else "v1"], strict=True)
        ]
    per_graph = GRAPH_PER_LAYER_GIB[1] * layers * ranks[1] * GIB
    return Term(
        "graphs",
        Estimate(int(bounds[0] * GIB), int(bounds[1] * GIB), int(bounds[2] * GIB), "measured"),
        "base + share × layers × graphs",
        (
            Input("graphs", str(graphs), f"{len(config.capture_sizes)} sizes, cudagraph mode {config.cudagraph_mode}"),
            Input("layers", str(layers), "of this pipeline stage"),
        ),
        (("graphs", f"{format_bytes(per_graph)} per graph"),),
        counted=counted,
    )


def graph_surplus(model: ModelArchitecture, config: EffectiveConfig) -> float:
    """What the high end is multiplied with: hybrids and speculative decoding capture more kernels per layer."""
    return 1.3 if model.is_hybrid or config.speculative_tokens else 1.0


def captured_graphs(config: EffectiveConfig) -> int:
    """How many graphs are captured: one per size for mixed batches, and one per size that decoding reaches.

    Source: reference on vLLM's memory, 2.5.
    """
    sizes = config.capture_sizes
    mode = config.cudagraph_mode
    decode_limit = config.max_num_seqs.value * (1 + config.speculative_tokens)
    decode = sum(1 for size in sizes if size <= decode_limit)
    if mode == "full_and_piecewise":
        return len(sizes) + decode
    return decode if mode == "full_decode_only" else len(sizes)


def counts_graphs(config: EffectiveConfig, accelerator: Accelerator | None = None) -> bool:
    """Whether this version subtracts an estimate of the graphs before it sizes the cache.

    From 0.20.0 for model runner V1 (0.26.0 on ROCm) and from 0.29.0 for V2, where ``VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS``
    does not say otherwise (0.18 on). Source: reference on vLLM's memory, 1.2, 1.4.
    """
    if config.graphs_estimated is not None and config.version >= (0, 18):
        able = config.version >= (0, 29) if config.runner == "v2" else config.runner == "v1"
        return config.graphs_estimated and able
    if config.runner == "v2":
        return config.version >= (0, 29)
    rocm = accelerator is not None and accelerator.vendor == "amd"
    return config.version >= ((0, 26) if rocm else (0, 20))
