"""CUDA graphs: what capturing them keeps."""

from __future__ import annotations

from planner.engines.config import EffectiveConfig
from planner.estimate import ZERO, Estimate
from planner.memory.budget import Input, Term
from planner.models.architecture import ModelArchitecture
from planner.units import GIB


def graph_memory(model: ModelArchitecture, config: EffectiveConfig) -> Term:
    """Bytes that captured graphs hold on one rank. Zero where nothing is captured.

    Source: reference on vLLM's memory, 7.1 (observed values; no formula is known).
    """
    sizes = len(config.capture_sizes)
    if not sizes:
        return Term("graphs", ZERO, "no graphs are captured")
    expected = 0.25 + 0.006 * sizes
    high = (3.0 if model.is_hybrid or config.speculative_tokens else 2.0) if model.num_layers > 8 else 1.0
    return Term(
        "graphs",
        Estimate(int(0.1 * GIB), int(expected * GIB), int(max(high, expected) * GIB), "measured"),
        "0.25 GiB + 6 MiB × captured sizes",
        (Input("captured sizes", str(sizes), f"cudagraph mode {config.cudagraph_mode}"),),
        (("graphs", "6 MiB per captured size"),),
        counted=counts_graphs(config),
    )


def counts_graphs(config: EffectiveConfig) -> bool:
    """Whether this version subtracts an estimate of the graphs before it sizes the cache.

    From 0.20.0 for model runner V1 and from 0.29.0 for V2. Source: reference on vLLM's memory, 1.2 and 1.4.
    """
    return config.version >= ((0, 29) if config.runner == "v2" else (0, 20))
