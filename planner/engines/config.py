"""What an engine is told to do, and what it makes of it."""

from __future__ import annotations

from typing import Any

from planner.provenance import Fact, Position, Provenance, Unknown
from planner.record import NamedTuple, dataclass, field


class Word(NamedTuple):
    """One word of a command line after the shell or the kubelet has expanded it.

    ``text`` holds what is known; ``known`` is False where a part could not be expanded, and ``text`` then keeps the
    source spelling (``$TP_SIZE``). ``position`` is the place of the word, inside block scalars too. ``source`` says
    what delivered it: ``args``, ``command``, ``script``, ``env:NAME``, ``config:PATH`` or ``option``. An unknown word can
    stand for several or for none; ``reason`` says why it is not known.
    """

    text: str
    position: Position | None
    known: bool = True
    source: str = "args"
    reason: str = ""


class CommandLine(NamedTuple):
    """One program start found in a container: its words, and what is worth saying about how it was written.

    ``unexpanded``: variables that nothing expands as the file means it ((word, variable, reason)).
    ``whole_in_one``: the word that holds a whole command line in one element without a shell, else None.
    """

    words: tuple[Word, ...]
    unexpanded: tuple[tuple[Word, str, str], ...] = ()
    whole_in_one: Word | None = None
    shell: bool = False


class FlagValue(NamedTuple):
    """One flag as given. ``name`` is canonical, without dashes, hyphens inside (``tensor-parallel-size``); ``value`` is
    typed by the flag table (int, float, bool, str, dict, list) or None where it cannot be known; ``spelling`` and
    ``raw`` are the user's. ``position`` is the flag's, ``value_position`` the value's place."""

    name: str
    value: Any
    spelling: str
    raw: str | None
    position: Position | None
    value_position: Position | None
    known: bool = True


@dataclass(frozen=True, eq=False)
class EngineConfig:
    """An engine start. ``flags``: canonical name → the last value given (as the engine's parser does); ``given``: all of
    them in order; ``unknown``: facts that could not be known. ``model`` is the reference as written (hub id or path).
    ``argument_problems``: positions and words of what the parser of this version would not take.
    """

    engine: str
    version: Fact[str]
    version_key: tuple[int, ...]
    model: Fact[str] | None
    flags: dict[str, FlagValue]
    given: tuple[FlagValue, ...] = ()
    env: dict[str, Fact[str]] = field(default_factory=dict)
    command_line: CommandLine | None = None
    image: Fact[str] | None = None
    platform: str = "cuda"  # cuda, rocm, cpu, tpu, gaudi, neuron, ascend, xpu
    unknown: tuple[Unknown, ...] = ()
    positionals: tuple[Word, ...] = ()
    argument_problems: tuple[tuple[Position | None, str], ...] = ()

    def get(self, name: str) -> Any:
        """The value given for a flag, None where it is absent or cannot be known."""
        flag = self.flags.get(name)
        return flag.value if flag and flag.known else None

    @property
    def version_assumed(self) -> bool:
        """Whether nothing states the release, so that the newest known stands for it."""
        return self.version.provenance.source == "assumption"

    def stated(self, name: str) -> bool:
        """Whether the flag is there and its value is known."""
        flag = self.flags.get(name)
        return flag is not None and flag.known


class Parallelism(NamedTuple):
    """Parallel sizes. ``data`` is the number of engine copies over all pods, ``data_local`` those in one pod; ``expert``:
    whether whole experts are spread over tensor × data ranks; ``context``: decode context parallel size."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    data_local: int = 1
    expert: bool = False
    context: int = 1
    prefill_context: int = 1

    @property
    def world(self) -> int:
        """Ranks of one engine copy."""
        return self.tensor * self.pipeline * self.prefill_context

    @property
    def groups(self) -> int:
        """Tensor parallel groups over all engine copies: each wants GPUs of its own."""
        return self.pipeline * self.prefill_context * self.data


@dataclass(frozen=True, eq=False)
class EffectiveConfig:
    """The settings that decide memory, after defaults: each with the place or the default that set it.

    Lengths and counts are tokens and sequences. ``kv_cache_dtype`` is resolved against the checkpoint (``fp8`` …, or the
    model's dtype). ``capture_sizes`` are the batch sizes that CUDA graphs are captured for (empty: none).
    ``max_num_batched_tokens_in_flight`` is what sliding windows reserve beside the window.
    """

    engine: str
    version: tuple[int, ...]
    parallel: Parallelism
    dtype: Fact[str]
    kv_cache_dtype: Fact[str]
    max_model_len: Fact[int]
    max_num_seqs: Fact[int]
    max_num_batched_tokens: Fact[int]
    gpu_memory_utilization: Fact[float]
    block_size: Fact[int] | None
    enforce_eager: Fact[bool]
    chunked_prefill: Fact[bool]
    prefix_caching: Fact[bool]
    hybrid_kv_cache_manager: Fact[bool]
    async_scheduling: Fact[bool]
    capture_sizes: tuple[int, ...] = ()
    cudagraph_mode: str = "none"
    max_num_batched_tokens_in_flight: int = 0
    kv_cache_memory_bytes: Fact[int] | None = None
    num_gpu_blocks_override: Fact[int] | None = None
    speculative_tokens: int = 0
    speculative_method: str = ""
    speculative_model: str = ""
    cpu_offload_gib: float = 0.0
    quantization: str | None = None
    lora: tuple[int, int] | None = None  # (max_loras, max_lora_rank)
    runner: str = "v1"  # v0 engine, v1 or v2 model runner
    mamba_cache_mode: str = "none"
    mamba_cache_dtype: str = "auto"
    mamba_ssm_cache_dtype: str = "auto"
    derived_max_model_len: int = 0
    sampler: str = "torch"  # flashinfer, triton or torch
    multimodal_profiled: bool = True
    multimodal_item_tokens: int = 0  # of the largest image where an option bounds its pixels, else 0
    eplb_redundant: int = 0
    #: ``--max-model-len auto``: the engine lowers ``max_model_len`` to what fits instead of refusing
    max_model_len_auto: bool = False
    #: whether the memory profiler subtracts its estimate of the graphs, where a variable says so (None: the release decides)
    graphs_estimated: bool | None = None
    #: ``VLLM_PP_LAYER_PARTITION``: decoder layers of each pipeline stage
    layer_partition: tuple[int, ...] | None = None
    #: whether multimodal encoders are loaded, and whole on every rank (``--mm-encoder-tp-mode data``)
    towers_loaded: bool = True
    towers_whole: bool = False
    #: attention kernel that a flag or variable asks for, in the engine's spelling (empty: the engine chooses)
    attention_backend: str = ""
    #: layers that ``--kv-cache-dtype-skip-layers`` leaves at the model's dtype: indices or kinds
    kv_cache_skip_layers: tuple[str, ...] = ()
    #: expert load balancing, which needs a buffer even without redundant experts
    expert_balancing: bool = False
    #: (layers in a group, how many of them are offloaded, layers fetched ahead) of ``--offload-group-size``
    offload_groups: tuple[int, int, int] | None = None
    #: tensor parallel size of the draft model (0: the target's) and the element type of its cache (empty: the target's)
    draft_tensor: int = 0
    draft_kv_cache_dtype: str = ""
    #: bytes that the frontend's multimodal decoding takes from the cache of each GPU
    frontend_reserved: int = 0
    #: the first release that has the model's architecture, where nothing states the release (empty: stated or not known)
    oldest_release: tuple[int, ...] = ()
    #: settings that only this engine has, by its own names with underscores, for people and for JSON
    own: tuple[tuple[str, Fact[Any]], ...] = ()
    notes: tuple[Provenance, ...] = ()

    @property
    def cache_stated(self) -> bool:
        """Whether the size of the cache is stated, so that it does not follow from a share of the device."""
        return self.kv_cache_memory_bytes is not None or self.num_gpu_blocks_override is not None
