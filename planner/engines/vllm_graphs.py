"""CUDA graphs: the mode and the batch sizes that a vLLM release captures.

Source: ``_set_cudagraph_sizes`` in config/vllm.py, ``cudagraph_capture_sizes`` in config/compilation.py, by release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.engines.config import EngineConfig, Parallelism
from planner.engines.vllm import count, env_text
from planner.engines.vllm_speculative import Draft
from planner.record import NamedTuple
from planner.units import ceil_div

if TYPE_CHECKING:
    from planner.models.architecture import ModelArchitecture

_MOST_CAPTURE_SIZE = 1 << 16


class GraphInputs(NamedTuple):
    """What decides about graphs. ``sequences`` and ``tokens``: max_num_seqs and max_num_batched_tokens."""

    config: EngineConfig
    model: ModelArchitecture
    capability: tuple[int, int] | None
    parallel: Parallelism
    draft: Draft
    runner: str
    sequences: int
    tokens: int

    @property
    def version(self) -> tuple[int, ...]:
        """The release."""
        return self.config.version_key

    @property
    def compilation(self) -> dict[str, Any]:
        """``--compilation-config``, empty where it is absent or not known."""
        value = self.config.get("compilation-config")
        return value if isinstance(value, dict) else {}


def _optimization_level(start: GraphInputs) -> int | None:
    level = start.config.get("optimization-level")
    text = str(level).upper().removeprefix("O") if level is not None else ""
    return int(text) if text in ("0", "1", "2", "3") else None


def graph_mode(start: GraphInputs, eager: bool) -> str:
    """``cudagraph_mode`` in lower case; ``none`` where nothing is captured."""
    if eager or start.config.platform == "cpu":
        return "none"
    if start.runner == "v0":
        return "full_decode_only"
    stated = start.compilation.get("cudagraph_mode")
    mode = stated.lower() if isinstance(stated, str) else ""
    if start.compilation.get("use_cudagraph") is False:
        return "none"
    level = start.compilation.get("mode", start.compilation.get("level"))
    compiles = level in (None, 3, "3", "VLLM_COMPILE", "vllm_compile")
    optimization = _optimization_level(start)
    if start.version < (0, 11):
        if not compiles:
            return "none"
        return mode or ("full" if start.compilation.get("full_cuda_graph") is True else "piecewise")
    if optimization == 0 and level is None:
        compiles = False
    if not mode:
        mode = {0: "none", 1: "piecewise"}.get(optimization if optimization is not None else 2, "full_and_piecewise")
        if start.version < (0, 12) and not compiles:
            mode = "none"
        mode = _limited_mode(start, mode)
    if not compiles and "piecewise" in mode:
        mode = "full_decode_only" if mode == "full_and_piecewise" and start.version >= (0, 29) else "none"
    return mode


def _limited_mode(start: GraphInputs, mode: str) -> str:
    if mode == "none":
        return mode
    backend = start.config.get("all2all-backend") or env_text(start.config, "VLLM_ALL2ALL_BACKEND")
    if start.parallel.data > 1 and backend == "deepep_high_throughput" and start.version < (0, 14):
        return "none"
    if start.model.pooling:
        return "piecewise"
    if start.model.encoder_decoder:
        return "full_decode_only" if start.version >= (0, 13) else "piecewise"
    if start.parallel.context > 1 and start.version < (0, 12):
        return "piecewise"
    return mode


def capture_sizes(start: GraphInputs, mode: str) -> tuple[int, ...]:
    """Batch sizes that graphs are captured for (``_set_cudagraph_sizes``)."""
    if mode == "none":
        return ()
    sequences, tokens = start.sequences, start.tokens
    if start.runner == "v0":
        return _v0_sizes(sequences)
    given = _given_sizes(start)
    if given is not None:
        return tuple(sorted({size for size in given if 0 < size <= tokens}))[:4096]
    largest = _largest_graph(start)
    if start.version >= (0, 11, 1):
        largest = min(largest, tokens)
    sizes = set(_grid(largest, 8 if start.version < (0, 11, 1) else 16))
    if start.config.get("performance-mode") == "interactivity" and start.version >= (0, 17):
        sizes.update(range(1, min(largest, 32) + 1))
    if start.version >= (0, 20) and tokens <= largest:
        sizes.add(tokens)
    query = 1 + start.draft.tokens
    stated = _stated_largest(start) is not None
    if start.version >= (0, 29) and query > 1 and not stated:
        limit = min(sequences, _graph_cap(start))
        sizes.update(n * query for n in {*_grid(limit, 16), limit} if 0 < n * query <= largest)
    if start.version >= (0, 33) and query == 1 and not stated and sequences <= largest:
        sizes.add(sequences)
    result = sorted(size for size in sizes if size <= tokens)
    if start.runner == "v1" and query > 1 and start.version >= (0, 11, 1):
        top = result[-1] if result else 0
        rounded = sorted({ceil_div(size, query) * query for size in result})
        result = [size for size in rounded if size <= top]
    return tuple(result)


def _given_sizes(start: GraphInputs) -> list[int] | None:
    for value in (
        start.config.get("cudagraph-capture-sizes"),
        start.compilation.get("cudagraph_capture_sizes"),
        start.config.get("cuda-graph-sizes"),
    ):
        if isinstance(value, list) and value:
            sizes = [size for size in value[:4096] if count(size)]
            if value is start.config.get("cuda-graph-sizes") and len(value) == 1:
                continue
            return sizes
    return None


def _stated_largest(start: GraphInputs) -> int | None:
    one = start.config.get("cuda-graph-sizes")
    for value in (
        start.config.get("max-cudagraph-capture-size"),
        start.compilation.get("max_cudagraph_capture_size"),
        one[0] if isinstance(one, list) and len(one) == 1 else None,
    ):
        size = count(value)
        if size is not None:
            return min(size, _MOST_CAPTURE_SIZE)
    return None


def _graph_cap(start: GraphInputs) -> int:
    blackwell = start.capability is not None and start.capability[0] == 10
    return 1024 if blackwell and start.version >= (0, 28) else 512


def _largest_graph(start: GraphInputs) -> int:
    stated = _stated_largest(start)
    if stated is not None:
        return stated
    if start.version < (0, 10):
        return 512
    if start.model.model_type == "gpt_oss" and start.version >= (0, 10, 1):
        return 992 if start.version[:3] == (0, 11, 0) else 1024
    query = 1 + start.draft.tokens if start.version >= (0, 13) else 1
    return min(2 * start.sequences * query, _graph_cap(start))


def _grid(largest: int, coarse: int) -> list[int]:
    """1, 2, 4, then multiples of 8 below 256 and of ``coarse`` from there on, up to ``largest``."""
    sizes = [size for size in (1, 2, 4) if size <= largest]
    sizes += range(8, min(largest + 1, 256), 8)
    sizes += range(256, largest + 1, coarse)
    return sizes


def _v0_sizes(sequences: int) -> tuple[int, ...]:
    """The V0 engine's sizes: 1, 2, 4 and multiples of 8 up to the first that holds ``sequences``."""
    sizes = [1, 2, 4, *range(8, 8193, 8)]
    for index, size in enumerate(sizes):
        if size >= sequences:
            return tuple(sizes[: index + 1])
    return tuple(sizes)
