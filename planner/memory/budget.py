"""The budget of one rank, term by term in the engine's own order of accounting."""

from __future__ import annotations

from planner.estimate import Estimate
from planner.record import NamedTuple, dataclass, field


class Input(NamedTuple):
    """One number that went into a formula, and where it came from."""

    name: str
    value: str
    source: str


class Term(NamedTuple):
    """One memory term of a rank: its estimate in bytes, and how it came about.

    ``grows_with``: what makes it larger (``context``, ``concurrency``, ``batched tokens``, ``precision``, ``graphs``),
    each with its sensitivity in bytes per unit, as text.
    """

    name: str
    bytes: Estimate
    formula: str = ""
    inputs: tuple[Input, ...] = ()
    grows_with: tuple[tuple[str, str], ...] = ()
    counted: bool = True  # whether this engine version subtracts it before sizing the cache


class KVGroup(NamedTuple):
    """Layers that share one block table. ``blocks_per_request`` is for one request of the maximum length.

    ``page_bytes``: one layer's page, or the sum over the layers here where they differ; ``pages`` says (page bytes,
    layers) of each kind. A request of L tokens holds ``ceil(min(ceil(L / shards), held_tokens) / block_size)`` +
    ``extra_blocks`` (``held_tokens`` 0: all of them), or always ``fixed_blocks`` where that is not 0.
    """

    kind: str
    layers: int
    block_size: int
    page_bytes: int
    blocks_per_request: int
    padding_layers: int = 0
    window: int = 0
    pages: tuple[tuple[int, int], ...] = ()
    held_tokens: int = 0
    extra_blocks: int = 0
    fixed_blocks: int = 0
    shards: int = 1


@dataclass(frozen=True, eq=False)
class KVPlan:
    """How the engine lays out the cache of one rank, before the number of blocks is known.

    ``bytes_per_block``: what one block id costs on this rank over all its layers. ``bytes_per_token``: the growth per
    token of a long request, all groups that grow with the context. ``blocks_per_request``: of one maximum-length
    request over all groups. ``block_size``: the one the engine reports (the smallest of the groups).
    ``admission_bytes_per_block``: what the start-up check counts per block where that differs (0: it does not).
    """

    block_size: int
    bytes_per_block: int
    page_bytes: int
    bytes_per_token: float
    groups: tuple[KVGroup, ...]
    blocks_per_request: int
    notes: tuple[str, ...] = ()
    admission_bytes_per_block: int = 0


@dataclass(frozen=True, eq=False)
class RankBudget:
    """The memory of one GPU. ``kv_available`` is what is left for blocks (it may be negative)."""

    rank: int
    pod: int
    gpu: int
    tensor_rank: int
    pipeline_rank: int
    terms: dict[str, Term]
    kv: KVPlan | None
    num_blocks: Estimate | None = None

    def bytes(self, name: str) -> Estimate:
        """The estimate of one term."""
        return self.terms[name].bytes


@dataclass(frozen=True, eq=False)
class Capacity:
    """What the tightest rank allows for the whole engine copy. ``longest_request`` is the longest length that the
    engine would start with; estimates are tokens, requests or lengths."""

    kv_tokens: Estimate
    max_concurrency: tuple[float, float, float]
    longest_request: Estimate
    blocks: Estimate
    bytes_per_request: int


@dataclass(frozen=True, eq=False)
class MemoryBudget:
    """All ranks of one engine copy, and its capacity (None where the KV layout is not known).

    ``fitted_length``: the maximum length in tokens that the engine sets itself to where it is told ``auto``, else None.
    ``refused``: why the engine surely does not start with pools that have memory, for people; empty where it may.
    """

    ranks: tuple[RankBudget, ...]
    capacity: Capacity | None
    verdict: str  # fits, may-not-fit, does-not-fit or unknown
    tightest: int = 0
    notes: tuple[str, ...] = field(default_factory=tuple)
    fitted_length: Estimate | None = None
    refused: str = ""
