"""``EngineConfig`` → ``SGLangConfig``: what SGLang makes of its arguments on this model and this device.

Every value carries the place that states it, or says which release sets it and on which condition. Sources: SGLang
``server_args.py`` of 0.4.0 to 0.5.18, then ``arg_groups/``; ``configs/model_config.py`` for what depends on the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from planner.engines.architectures import supported_since
from planner.engines.config import EngineConfig, Parallelism
from planner.engines.resolver import MOST_TOKENS, Resolver, Version, given_count, parallel_size
from planner.engines.sglang_config import SGLangConfig
from planner.engines.sglang_fraction import Inputs, default_chunk, default_graph_max, mem_fraction, multimodal_factor
from planner.engines.sglang_graphs import decode_sizes, prefill_sizes
from planner.engines.sglang_prefill_graphs import Facts, captured
from planner.engines.sglang_speculative import draft_shape
from planner.engines.sglang_states import slots_per_request, strategy
from planner.engines.version import parse_version
from planner.engines.vllm import env_text
from planner.provenance import Fact, Provenance
from planner.record import replace
from planner.units import GIB, MIB

if TYPE_CHECKING:
    from planner.accelerators.accelerator import Accelerator
    from planner.models.architecture import ModelArchitecture

T = TypeVar("T")

_NO_STATE_CACHE = {"KimiLinearForCausalLM", "BailingMoeV2_5ForCausalLM"}
"""Architectures with recurrent layers for which SGLang turned the prefix cache off up to 0.5.13."""

_DTYPES = {
    "half": "float16",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float": "float32",
    "float32": "float32",
}
#: Sliding-window families whose windows get no pool of their own, by the releases that say so (from, until).
_NO_WINDOW_POOL: tuple[tuple[str, Version, Version], ...] = (
    ("Gemma2", (0, 5, 1), (0, 5, 8)),
    ("Gemma3", (0, 5, 1), (0, 5, 8)),
    ("GptOss", (0, 5, 1), (0, 5, 8)),
    ("Olmo2", (0, 5, 4), (0, 5, 8)),
    ("Olmo3", (0, 5, 4), (0, 5, 8)),
)
#: Families with a pool for windows from 0.5.8 on, where only listed architectures have one: (prefix, first release).
_WINDOW_POOL: tuple[tuple[str, Version], ...] = (
    ("Llama4ForConditionalGeneration", (0, 5, 8)),
    ("GptOss", (0, 5, 8)),
    ("MiMoV2", (0, 5, 7)),
    ("Step3p5", (0, 5, 9)),
    ("Step3p7", (0, 5, 13)),
    ("Gemma4Unified", (0, 5, 12)),
    ("Gemma4", (0, 5, 11)),
    ("Laguna", (0, 5, 12)),
    ("DeepseekV4", (0, 5, 12)),
    ("UnlimitedOCR", (0, 5, 15)),
    ("Mellum", (0, 5, 16)),
    ("Inkling", (0, 5, 16)),
    ("MuseGlimmer", (0, 5, 18)),
    ("GraniteSWA", (0, 5, 19)),
    ("GraniteMoeSWA", (0, 5, 19)),
    ("IQuestQ1", (0, 5, 23)),
    ("MuseSpark", (0, 5, 23)),
    ("Beam", (0, 5, 23)),
)
#: Vision configs that name their depth otherwise than ``num_hidden_layers``, so that SGLang takes 24 layers.
_UNNAMED_DEPTH = ("qwen", "glm", "kimi", "ernie", "paddleocr")
#: The last releases before the accounting of memory changed: of the device's share and of pools of windows (0.5.12), of the
#: draft (0.5.14), of FP4 experts and compressed caches (0.5.16), of the default share (0.5.20).
_OLDER = ("0.5.11", "0.5.13", "0.5.15", "0.5.19")
#: Expert exchange that spreads whole experts over all tensor ranks.
_SPREADING = (
    "deepep",
    "deepep_v2",
    "mooncake",
    "nixl",
    "ascend_fuseep",
    "flashinfer",
    "flashinfer_megamoe",
    "mori",
    "pplx",
    "megamoe",
)


def effective(
    config: EngineConfig,
    model: ModelArchitecture,
    accelerator: Accelerator | None,
    gpus_per_pod: int | None = None,
    pods: int = 1,
) -> SGLangConfig:
    """All settings of an SGLang start that decide memory. Never raises for whatever the flags hold.

    Without an accelerator the defaults that hang on the device are those that SGLang takes where the driver tool does not
    answer; such facts say that they are assumed.
    """
    settled = _Resolver(config, model, accelerator, gpus_per_pod, pods).resolve()
    older = []
    for release in _older_releases(config, model):
        before = replace(config, version=replace(config.version, value=release), version_key=parse_version(release))
        older.append(_Resolver(before, model, accelerator, gpus_per_pod, pods).resolve())
    return replace(settled, older=tuple(older)) if older else settled


def _older_releases(config: EngineConfig, model: ModelArchitecture) -> list[str]:
    """Where nothing states the release: those that stand for the older ones, from the first that has the model."""
    if not config.version_assumed:
        return []
    since = supported_since("sglang", model.architecture)
    return [release for release in _OLDER if since and since <= parse_version(release)]


def parallelism(config: EngineConfig, gpus_per_pod: int | None = None, pods: int = 1) -> Parallelism:
    """Parallel sizes from the flags; a size that cannot be known counts as 1. ``data`` counts engine copies: data-parallel
    attention splits the ranks of one copy and is no copy (``attention_data_size``)."""
    del gpus_per_pod, pods
    tensor, pipeline = parallel_size(config, "tensor-parallel-size"), parallel_size(config, "pipeline-parallel-size")
    copies = 1 if attention_data_size(config) > 1 else parallel_size(config, "data-parallel-size")
    return Parallelism(
        tensor=tensor,
        pipeline=pipeline,
        data=copies,
        data_local=copies,
        expert=expert_size(config) > 1,
        context=parallel_size(config, "dcp-size"),
    )


def attention_data_size(config: EngineConfig) -> int:
    """Groups of data-parallel attention; 1 without it. From 0.5.22 it has a flag of its own."""
    own = parallel_size(config, "attn-dp-size")
    if own > 1:
        return min(own, parallel_size(config, "tensor-parallel-size"))
    if config.get("enable-dp-attention") is True:
        return min(parallel_size(config, "data-parallel-size"), parallel_size(config, "tensor-parallel-size"))
    return 1


def expert_size(config: EngineConfig) -> int:
    """Ranks that share whole experts between them: stated, or all tensor ranks where the exchange asks for it."""
    tensor = parallel_size(config, "tensor-parallel-size")
    if config.get("enable-ep-moe") is True or config.get("enable-deepep-moe") is True:
        return tensor
    if config.get("moe-a2a-backend") in _SPREADING:
        return tensor
    return min(parallel_size(config, "expert-parallel-size"), tensor)


def derived_length(model: ModelArchitecture) -> tuple[int, str]:
    """The context length in tokens that config.json gives, and how. The rope factor multiplies it unless the config states
    the original length (``get_context_length``)."""
    if model.derived_max_len <= 0:
        return 2048, "config.json states no length, SGLang takes 2048"
    base, key = model.derived_max_len, model.max_len_key or "max_position_embeddings"
    factor = model.rope_factor
    if not factor > 0 or factor == 1.0 or model.original_max_len or model.rope_type in ("", "llama3", "default"):
        return base, key
    return int(min(base * factor, MOST_TOKENS)), f"{key} × {factor:g}"


class _Resolver(Resolver):
    """The settings of one SGLang start."""

    def __init__(
        self,
        config: EngineConfig,
        model: ModelArchitecture,
        accelerator: Accelerator | None,
        gpus_per_pod: int | None,
        pods: int,
    ) -> None:
        super().__init__("SGLang", config, model, accelerator, parallelism(config, gpus_per_pod, pods))
        self.mib = driver_mib(accelerator)
        self.attention_data = attention_data_size(config)
        self.expert_ranks = expert_size(config)
        self.latent = model.is_multi_latent
        self.sparse = _has_indexer(model)
        mode = config.get("disaggregation-mode")
        self.role = mode if mode in ("prefill", "decode") else ""

    def resolve(self) -> SGLangConfig:
        """The settings, each with its source."""
        version = self.version
        algorithm = self._text("speculative-algorithm", "").upper()
        self.speculation = "EAGLE" if algorithm == "NEXTN" else algorithm
        dtype = self._dtype()
        steps, topk, draft_tokens = self._draft()
        self.length = self._context_length()
        given_requests = self._given_count("max-running-requests")
        self.requests = given_requests.value if given_requests else None
        chunk = self._chunk()
        limit = self._given_count("max-prefill-tokens")
        self.max_prefill = limit.value if limit else 16384
        graphs, decode_graphs = self._decode_graphs()
        graph_max = graphs.value
        prefill_graphs = self._prefill_graphs(chunk.value)
        fraction = self._fraction(chunk.value, graph_max, decode_graphs, prefill_graphs, draft_tokens)
        divided = chunk.value
        if self.attention_data > 1 and divided > 0:
            divided //= self.attention_data if version >= (0, 4, 5) else 2
        self.requests_why = ""
        if self.requests is None and version >= (0, 4, 5):
            if self.model.architecture.startswith("DeepseekV4"):
                self.requests, self.requests_why = 256, "DeepSeek-V4"
            elif self.speculation:
                self.requests, self.requests_why = 48, "speculative decoding"
        sequences = self._sequences(given_requests)
        if divided > 0:
            batched = Fact(divided, chunk.provenance)
        else:
            batched = limit or self._default("max-prefill-tokens", self.max_prefill, "chunked prefill is off")
        prefixes = self._prefix_cache()
        page = self._page_size()
        overlap = self.config.get("disable-overlap-schedule") is not True
        states = self._state_strategy(overlap, page.value) if prefixes.value else ""
        if states == "no_buffer" and version >= (0, 5, 4):
            overlap = False
        cache = self._cache_dtype(dtype)
        eager = self._eager(decode_graphs)
        spec_sizes = decode_sizes(
            version, graph_max, speculation=bool(self.speculation), padding=self._switch("disable-cuda-graph-padding")
        )
        stated = self._sizes("cuda-graph-bs-decode", "cuda-graph-bs")
        capture = (stated or spec_sizes) if decode_graphs else ()
        settled = SGLangConfig(
            engine="sglang",
            version=version,
            parallel=self.parallel,
            dtype=dtype,
            kv_cache_dtype=cache,
            max_model_len=self.length,
            max_num_seqs=sequences,
            max_num_batched_tokens=batched,
            gpu_memory_utilization=fraction,
            block_size=page,
            enforce_eager=eager,
            chunked_prefill=Fact(chunk.value > 0, chunk.provenance),
            prefix_caching=prefixes,
            hybrid_kv_cache_manager=self._inverse("disable-hybrid-swa-memory"),
            async_scheduling=self._overlap(overlap),
            capture_sizes=capture,
            cudagraph_mode="none" if not capture else "full_and_prefill" if prefill_graphs else "full",
            max_num_batched_tokens_in_flight=batched.value * (2 if overlap else 1),
            speculative_tokens=draft_tokens,
            speculative_method=self.speculation.lower(),
            speculative_model=self._text("speculative-draft-model-path", ""),
            cpu_offload_gib=self._number("cpu-offload-gb"),
            quantization=self._quantization(),
            lora=self._lora(),
            runner="sglang",
            derived_max_model_len=derived_length(self.model)[0],
            multimodal_profiled=not self._language_only(),
            notes=tuple(self.notes),
            attention_data=self.attention_data,
            attention_context=parallel_size(self.config, "attn-cp-size"),
            expert_ranks=self.expert_ranks,
            dense_tensor=self._integer("moe-dense-tp-size") or 0,
            head_data=self.config.get("enable-dp-lm-head") is True,
            shared_replicated=self.config.get("moe-a2a-backend") in _SPREADING
            or self.config.get("enable-deepep-moe") is True,
            redundant_experts=min(self._integer("ep-num-redundant-experts") or 0, 1 << 16),
            expert_runner=self._text("moe-runner-backend", "auto"),
            driver_mib=self.mib,
            chunk=divided,
            requests_given=self.requests,
            max_total_tokens=self._integer("max-total-tokens"),
            prefill_graph_sizes=prefill_graphs or (),
            window_pool=self._window_pool(),
            window_ratio=self._window_ratio(),
            window_ratio_given="swa-full-tokens-ratio" in self.config.flags,
            state_slots=self._integer("max-mamba-cache-size"),
            state_ratio=self._state_ratio(),
            state_dtype=self._state_dtype(),
            conv_dtype=env_text(self.config, "SGLANG_MAMBA_CONV_DTYPE") or "bfloat16",
            slots_per_request=slots_per_request(version, states, prefix_cache=prefixes.value, overlap=overlap),
            state_strategy=states,
            draft_steps=steps,
            draft_topk=topk,
            draft_tokens=draft_tokens,
            role=self.role,
            index_dtype=self._index_dtype(dtype.value, cache.value),
            request_workspace=self._request_workspace(),
            host_tables=self._host_tables(dtype.value),
            raw_sparse_rows=self._raw_sparse_rows(cache.value),
            multimodal_reserve=self._multimodal_reserve(),
            prealloc=self._prealloc(),
            kv_disabled=self.config.get("prefill-only-disable-kv-cache") is True,
        )
        return replace(settled, own=self._own(settled, chunk, graphs))

    def _own(self, settled: SGLangConfig, chunk: Fact[int], graphs: Fact[int]) -> tuple[tuple[str, Fact[Any]], ...]:
        """What SGLang makes of its own settings, under its own names, each with its source."""
        captured, prefill = settled.capture_sizes, settled.prefill_graph_sizes
        found: list[tuple[str, Fact[Any]]] = [
            ("context_length", settled.max_model_len),
            ("mem_fraction_static", settled.gpu_memory_utilization),
            ("chunked_prefill_size", self._per_group(chunk, settled.chunk)),
            ("max_prefill_tokens", self._setting("max-prefill-tokens", self.max_prefill)),
            ("max_running_requests", settled.max_num_seqs),
            ("cuda_graph_max_bs", graphs if captured else self._off(graphs)),
            ("cuda_graph_bs", Fact(list(captured), graphs.provenance)),
            (
                "prefill_cuda_graph_bs",
                self._default("cuda-graph-bs-prefill", list(prefill), "by the prefill chunk" if prefill else "off"),
            ),
        ]
        if settled.block_size is not None:
            found.append(("page_size", settled.block_size))
        if settled.window_pool:
            found.append(("swa_full_tokens_ratio", self._setting("swa-full-tokens-ratio", settled.window_ratio)))
        if self.model.is_recurrent:
            found += [
                ("mamba_full_memory_ratio", self._setting("mamba-full-memory-ratio", settled.state_ratio)),
                ("mamba_ssm_dtype", self._setting("mamba-ssm-dtype", settled.state_dtype)),
            ]
            if settled.state_strategy:
                name = "mamba_radix_cache_strategy" if self.version >= (0, 5, 14) else "mamba_scheduler_strategy"
                found.append((name, self._setting(name.replace("_", "-"), settled.state_strategy)))
            if settled.state_slots is not None:
                found.append(("max_mamba_cache_size", self._setting("max-mamba-cache-size", settled.state_slots)))
        if settled.max_total_tokens is not None:
            found.append(("max_total_tokens", self._setting("max-total-tokens", settled.max_total_tokens)))
        if self.speculation:
            found += [
                ("speculative_algorithm", self._setting("speculative-algorithm", self.speculation)),
                ("speculative_num_steps", self._setting("speculative-num-steps", settled.draft_steps)),
                ("speculative_eagle_topk", self._setting("speculative-eagle-topk", settled.draft_topk)),
                ("speculative_num_draft_tokens", self._setting("speculative-num-draft-tokens", settled.draft_tokens)),
            ]
        if self.attention_data > 1:
            name = "attn-dp-size" if "attn-dp-size" in self.config.flags else "data-parallel-size"
            found.append(("attention_data_parallel_size", self._setting(name, self.attention_data)))
        if self.expert_ranks > 1:
            found.append(("expert_parallel_size", self._setting("expert-parallel-size", self.expert_ranks)))
        return tuple(found)

    def _setting(self, name: str, value: T) -> Fact[T]:
        """A value with the flag that states it, or as a default."""
        given = self._given(name, (int, float, str))
        return Fact(value, given.provenance) if given else self._default(name, value)

    def _per_group(self, chunk: Fact[int], divided: int) -> Fact[int]:
        """The prefill chunk of one scheduler: attention groups divide it."""
        if divided == chunk.value:
            return chunk
        source = chunk.provenance
        text = f"{source.text}: {chunk.value:,} divided by {self.attention_data} attention groups"
        return Fact(divided, Provenance("derived", text, source.position))

    def _off(self, graphs: Fact[int]) -> Fact[int]:
        off = self._given("disable-cuda-graph", bool) or self._given("disable-decode-cuda-graph", bool)
        return Fact(0, off.provenance if off else graphs.provenance)

    # ---- reading flags ------------------------------------------------------------------------------------------

    def _given_count(self, name: str) -> Fact[int] | None:
        return given_count(self.config, name)

    def _integer(self, name: str) -> int | None:
        fact = self._given_count(name)
        return fact.value if fact else None

    def _number(self, name: str) -> float:
        fact = self._given(name, (int, float))
        return float(fact.value) if fact is not None and fact.value > 0 else 0.0

    def _sizes(self, *names: str) -> tuple[int, ...]:
        """A list of batch sizes, at most as many as any release captures."""
        for name in names:
            value = self.config.get(name)
            if isinstance(value, list):
                return tuple(sorted({x for x in value[:512] if isinstance(x, int) and 0 < x <= 1 << 20}))
        return ()

    def _switch(self, name: str) -> bool:
        """Whether a ``--disable-x`` switch is off."""
        return self.config.get(name) is not True

    def _inverse(self, name: str) -> Fact[bool]:
        given = self._given(name, bool)
        return Fact(not given.value, given.provenance) if given else self._default(name, True)

    # ---- types --------------------------------------------------------------------------------------------------

    def _dtype(self) -> Fact[str]:
        given = self._given("dtype", str)
        before = self.capability is not None and self.capability < (8, 0)
        if given is not None and given.value in _DTYPES and not (before and given.value == "bfloat16"):
            return Fact(_DTYPES[given.value], given.provenance)
        own = self.model.dtype
        if own == "float32":
            own = "bfloat16" if self.model.model_type.startswith("gemma") else "float16"
            return self._default("dtype", own, "a float32 checkpoint")
        if own == "bfloat16" and before:
            return self._default("dtype", "float16", "no bfloat16 below compute capability 8.0")
        return self._default("dtype", own, "the checkpoint's own")

    def _cache_dtype(self, dtype: Fact[str]) -> Fact[str]:
        """The element type of the KV cache (``configure_kv_cache_dtype``)."""
        name = "kv-cache-dtype"
        given = self._given(name, str)
        if given is not None and given.value not in ("auto", ""):
            return Fact("bfloat16" if given.value == "bf16" else given.value, given.provenance)
        if _is_compressed(self.model):
            return self._default(name, "fp8_e4m3", "auto: DeepSeek-V4")
        if self.sparse and self.version >= (0, 5, 4):
            blackwell = self.capability is not None and self.capability >= (10, 0)
            value = "fp8_e4m3" if blackwell else "bfloat16"
            return self._default(name, value, "auto: sparse attention, by compute capability", device=True)
        quantization = self.model.quantization or ""
        if (
            self.model.kv_cache_dtype_hint == "fp8"
            and quantization.startswith("modelopt")
            and self.version >= (0, 5, 6)
        ):
            return self._default(name, "fp8_e4m3", "auto: the checkpoint asks for it")
        return self._default(name, dtype.value, f"auto: the model's dtype, {dtype.provenance.text}")

    def _quantization(self) -> str | None:
        given = self.config.get("quantization")
        return given if isinstance(given, str) and given else self.model.quantization

    def _state_dtype(self) -> str:
        """Element type of the recurrent state: flag, environment, config.json, float32."""
        given = self.config.get("mamba-ssm-dtype")
        if isinstance(given, str) and given in _DTYPES:
            return _DTYPES[given]
        stated = env_text(self.config, "SGLANG_MAMBA_SSM_DTYPE")
        if stated in _DTYPES:
            return _DTYPES[stated]
        own = dict(self.model.extra).get("mamba_ssm_dtype", "")
        return _DTYPES.get(own, "float32") if self.version >= (0, 5, 9) else "float32"

    # ---- lengths, chunks and graphs -------------------------------------------------------------------------------

    def _context_length(self) -> Fact[int]:
        derived, how = derived_length(self.model)
        given = self._given_count("context-length")
        return given or self._default("context-length", derived, f"the model's {how}")

    def _chunk(self) -> Fact[int]:
        name = "chunked-prefill-size"
        given = self._given(name, int)
        if given is not None and -1 <= given.value <= MOST_TOKENS and given.value != 0:
            return given
        if self.version < (0, 4, 4) and self.speculation == "EAGLE":
            return self._default(name, -1, "speculative decoding turns chunking off")
        value = default_chunk(self.version, self.mib, self.role)
        return self._default(name, value, f"device memory of {self.mib:,} MiB" if self.mib else "", device=True)

    def _decode_graphs(self) -> tuple[Fact[int], bool]:
        """(largest batch, whether any decode graph is captured)."""
        name = "cuda-graph-max-bs"
        stated = self._sizes("cuda-graph-bs-decode", "cuda-graph-bs")
        given = self._given_count("cuda-graph-max-bs-decode") or self._given_count(name)
        if stated:
            sizes = self._given("cuda-graph-bs-decode", list) or self._given("cuda-graph-bs", list)
            largest = Fact(stated[-1], sizes.provenance) if sizes else self._default(name, stated[-1])
        elif given:
            largest = given
        else:
            value = default_graph_max(self.version, self.mib, self.parallel.tensor, self.attention_data)
            why = f"device memory of {self.mib:,} MiB, tensor {self.parallel.tensor}" if self.mib else ""
            if self.version >= (0, 5, 22) and self.requests is not None and self.requests < value:
                value, why = self.requests, "no more than max-running-requests"
            largest = self._default(name, value, why, device=True)
        off = (
            self.config.get("disable-cuda-graph") is True
            or self.config.get("disable-decode-cuda-graph") is True
            or self.config.get("cuda-graph-backend-decode") == "disabled"
            or (self.role == "prefill" and self.version >= (0, 5, 14))
        )
        return largest, not off

    def _eager(self, decode_graphs: bool) -> Fact[bool]:
        given = self._given("disable-cuda-graph", bool)
        return given or self._default("disable-cuda-graph", not decode_graphs)

    def _prefill_graphs(self, chunk: int) -> tuple[int, ...] | None:
        """Sizes of prefill graphs; None where they are off when the memory settings are made."""
        version = self.version
        if version < (0, 5, 4) or self._prefill_graphs_off():
            return None
        stated = self._sizes("cuda-graph-bs-prefill", "piecewise-cuda-graph-tokens")
        if stated:
            return stated
        limit = self._integer("cuda-graph-max-bs-prefill") or self._integer("piecewise-cuda-graph-max-tokens")
        if not limit:
            limit = self._prefill_graph_limit(chunk)
        if (0, 5, 13) <= version < (0, 5, 17) and "context-length" in self.config.flags:
            limit = min(limit, self.length.value)
        return prefill_sizes(limit, version) if limit > 0 else ()

    def _prefill_graph_limit(self, chunk: int) -> int:
        """Tokens of the largest prefill graph where nobody states them."""
        version = self.version
        if version < (0, 5, 7):
            return 4096
        if version < (0, 5, 8) or not self.latent:
            limit = chunk
        else:
            limit = min(8192, chunk) if version >= (0, 5, 23) else 2048
        if version < (0, 5, 10):
            return limit
        if version >= (0, 5, 19) and self.parallel.pipeline > 1:
            # Pipelines capture only when asked to, and small graphs then.
            limit = min(limit, 8192)
        total = self._integer("max-total-tokens")
        limit = min(limit, total) if total else limit
        if "llama-2" in (self.config.model.value if self.config.model else "").lower():
            limit = min(limit, 4096)
        return limit

    def _prefill_graphs_off(self) -> bool:
        config, version = self.config, self.version
        if version < (0, 5, 10):
            return config.get("enable-piecewise-cuda-graph") is not True
        if config.get("disable-piecewise-cuda-graph") is True or config.get("disable-prefill-cuda-graph") is True:
            return True
        backend = config.get("cuda-graph-backend-prefill")
        if backend == "disabled":
            return True
        if backend or config.get("enforce-piecewise-cuda-graph") is True:
            return False
        if config.get("disable-cuda-graph") is True and version >= (0, 5, 14):
            return True
        return not captured(self._graph_facts())

    def _graph_facts(self) -> Facts:
        """What decides about prefill graphs where no flag does."""
        from planner.models.architecture import RecurrentState

        config = self.config
        on = {
            name
            for name in (
                "enable-torch-compile",
                "enable-lora",
                "enable-hierarchical-cache",
                "enable-deterministic-inference",
                "enable-symm-mem",
                "enable-eplb",
                "enable-two-batch-overlap",
            )
            if config.get(name) is True
        }
        exchange = config.get("moe-a2a-backend")
        if exchange is None and config.get("enable-deepep-moe") is True:
            exchange = "deepep"
        return Facts(
            version=self.version,
            architecture=self.model.architecture,
            cuda=config.platform == "cuda",
            multimodal=self.model.multimodal,
            latent=self.latent,
            sparse=self.sparse,
            kda=any(isinstance(x.attention, RecurrentState) and x.attention.kind == "kda" for x in self.model.layers),
            attention_data=self.attention_data > 1 or config.get("enable-dp-attention") is True,
            pipeline=self.parallel.pipeline > 1,
            context=parallel_size(config, "attn-cp-size") > 1,
            decode_context=self.parallel.context > 1,
            two_batches="enable-two-batch-overlap" in on,
            exchange=exchange if isinstance(exchange, str) else "",
            adapters="enable-lora" in on or bool(config.get("lora-paths")),
            role=self.role,
            compiled_rules=bool(on - {"enable-lora", "enable-two-batch-overlap"})
            or config.get("expert-distribution-recorder-mode") is not None
            or config.get("load-format") == "gguf"
            or config.get("quantization") == "gguf"
            or self._number("cpu-offload-gb") > 0,
        )

    def _sequences(self, given: Fact[int] | None) -> Fact[int]:
        """Running requests of one rank's scheduler; without a flag the pool decides between 2048 and 4096."""
        name = "max-running-requests"
        if given is not None:
            return Fact(max(1, given.value // self.attention_data), given.provenance)
        if self.requests is not None:
            value = max(1, self.requests // self.attention_data)
            return self._default(name, value, self.requests_why)
        return self._default(name, 2048, "2048 to 4096, by the tokens of the pool")

    # ---- the static share ---------------------------------------------------------------------------------------

    def _fraction(
        self,
        chunk: int,
        graph_max: int,
        decode_graphs: bool,
        prefill_graphs: tuple[int, ...] | None,
        draft_tokens: int,
    ) -> Fact[float]:
        name = "mem-fraction-static"
        given = self._given(name, (float, int))
        if given is not None:
            value, why = float(given.value), ""
            if (0, 4, 5) <= self.version < (0, 4, 9) and self._sees_images():
                value, why = value * 0.9, " × 0.9 (multimodal)"
            factor = self._aiter_factor(given=True)
            if factor != 1.0:
                value, why = value * factor, f"{why} × {factor:g} (attention backend aiter)"
            if not why:
                return Fact(value, given.provenance)
            text = f"{given.provenance.text}: {given.value:g}{why}"
            return Fact(value, Provenance("derived", text, given.provenance.position))
        found = mem_fraction(
            Inputs(
                self.version,
                self.mib,
                self.parallel.tensor,
                self.parallel.pipeline,
                chunk,
                self.max_prefill,
                graph_max,
                decode_graphs,
                prefill_graphs,
                self._integer("piecewise-cuda-graph-max-tokens") or self._prefill_graph_limit(chunk),
                self.latent,
                self.attention_data,
                self.speculation,
                draft_tokens,
                self.requests,
                self.role,
                self.config.get("moe-a2a-backend") == "deepep",
                self.config.platform == "cuda",
            )
        )
        value, text = found.value, found.formula
        if self._sees_images():
            layers, hidden = self._vision()
            factor = multimodal_factor(self.version, layers, hidden)
            value *= factor
            text += f"; × {factor:.4g} (multimodal)"
        factor = self._aiter_factor(given=False)
        if factor != 1.0:
            value *= factor
            text += f"; × {factor:g} (attention backend aiter)"
        return self._default(name, value, text, device=True)

    def _sees_images(self) -> bool:
        if not self.model.multimodal or not self.model.towers or self._language_only():
            return False
        return not (self.role == "decode" and self.version >= (0, 5, 17))

    def _language_only(self) -> bool:
        return self.config.get("language-only") is True or self.config.get("language-model-only") is True

    def _vision(self) -> tuple[int, int]:
        """(layers, width) of the vision tower as SGLang reads them: 24 and 1024 where the config names them otherwise."""
        tower = max(self.model.towers, key=lambda tower: tower.hidden * tower.layers)
        kind = self.model.model_type.lower()
        if kind.startswith("kimi"):
            return 24, 1024
        layers = 24 if kind.startswith(_UNNAMED_DEPTH) else tower.layers or 24
        return layers, tower.hidden or 1024

    def _aiter_factor(self, *, given: bool) -> float:
        """AMD's AITER kernels want 15 % of the static share for long contexts."""
        if self.config.platform != "rocm" or self.version < (0, 4, 7) or self.length.value <= 8192:
            return 1.0
        honoured = env_text(self.config, "SGLANG_AITER_HONOR_EXPLICIT_MEM_FRACTION")
        if given and self.version >= (0, 5, 19) and (honoured or "").lower() in ("1", "true", "yes"):
            return 1.0
        return 0.85 if self._attention_backend() == "aiter" else 1.0

    def _request_workspace(self) -> int:
        """Bytes that AITER's attention sets aside for a request: a 32-bit output, a maximum and a sum for every 256 tokens of
        the context and every head (``AiterAttnBackend.__init__``); none for latent caches and unified attention."""
        from planner.models.architecture import ChunkedLocal, FullAttention, SlidingWindow

        if self._attention_backend() != "aiter" or self.latent or self.config.platform != "rocm":
            return 0
        unified = (env_text(self.config, "SGLANG_USE_AITER_UNIFIED_ATTN") or "").lower() in ("1", "true", "yes")
        if self.version >= (0, 5, 10) and (unified or self._window_pool()):
            return 0
        plain = [
            x.attention
            for x in self.model.layers
            if isinstance(x.attention, (FullAttention, SlidingWindow, ChunkedLocal))
        ]
        if not plain:
            return 0
        heads = plain[0].heads // max(1, self.parallel.tensor // self.attention_data)
        parts = -(-self.length.value // 256)
        return heads * parts * (4 * plain[0].v_head_dim + 8)

    def _attention_backend(self) -> str:
        given = self.config.get("attention-backend")
        if isinstance(given, str) and given:
            return given
        if self.config.platform != "rocm" or self.sparse or _is_compressed(self.model):
            return ""
        if (env_text(self.config, "SGLANG_USE_AITER") or "1") in ("0", "false"):
            return "triton"
        if self.latent:
            heads = self.model.heads // max(1, self.parallel.tensor // self.attention_data)
            return "aiter" if heads in (16, 128) else "triton"
        return "aiter"

    def _prealloc(self) -> int:
        if self.config.get("enable-symm-mem") is not True or self.version < (0, 5, 9):
            return 0
        stated = env_text(self.config, "SGLANG_SYMM_MEM_PREALLOC_GB_SIZE") or ""
        return (int(stated) if stated.isdecimal() and len(stated) < 4 else 4) * GIB

    def _multimodal_reserve(self) -> int:
        """Bytes that multimodal features take out of the pool (0.5.18 and later)."""
        if self.version < (0, 5, 18) or not self.model.multimodal:
            return 0
        size = _env_number(self.config, "SGLANG_VLM_CACHE_SIZE_MB", 100)
        if self.config.get("mm-feature-transport") in ("cuda_ipc", "cuda_vmm"):
            size += _env_number(self.config, "SGLANG_MM_FEATURE_CACHE_MB", 1024)
        return size * MIB

    # ---- pools --------------------------------------------------------------------------------------------------

    def _page_size(self) -> Fact[int]:
        name = "page-size"
        given = self._given_count(name)
        backends = {
            self.config.get(flag)
            for flag in ("attention-backend", "decode-attention-backend", "prefill-attention-backend")
        }
        blackwell = self.capability is not None and self.capability[0] == 10
        if _is_compressed(self.model):
            return self._default(name, 256, "DeepSeek-V4")
        if self.sparse and self.version >= (0, 5, 4):
            return self._default(name, 64, "sparse attention")
        forced = 0
        ratio = self._index_ratio()
        if ratio > 1 and self.version >= (0, 5, 20):
            return self._default(name, 64, "compressed indexer")
        if ratio == 1 and given is None and self.config.platform == "cuda" and self._kernels_of_its_own(backends):
            return self._default(name, 128, "MiniMax-M3's attention kernels")
        if "cutlass_mla" in backends:
            forced = 128
        elif "flashmla" in backends:
            forced = 64
        elif backends & {"trtllm_mla", "trtllm_mha", "cutedsl_mla"}:
            forced = given.value if given is not None and given.value in (16, 32, 64, 128) else 64
        elif "fa4" in backends and blackwell and not self.latent:
            forced = 128
        elif given is None and blackwell and self.version >= (0, 5, 4) and backends == {None}:
            recurrent = self.model.is_recurrent
            if not recurrent:
                return self._default(name, 64, "TensorRT-LLM attention kernels on this device")
        if forced:
            return self._default(name, forced, "the attention backend's")
        return given or self._default(name, 1)

    def _kernels_of_its_own(self, backends: set[Any]) -> bool:
        """Whether MiniMax-M3 runs on the kernels that its pages of 128 tokens belong to."""
        if self.capability is None or self.version < (0, 5, 16):
            return False
        own = {9: ("fa3",), 10: ("fa4", "trtllm_mha")}.get(self.capability[0], ())
        return bool(own) and (backends == {None} or bool(backends & set(own)))

    def _window_pool(self) -> bool:
        """Whether sliding-window (or chunked) layers get a pool of their own beside the full-attention one."""
        from planner.models.architecture import ChunkedLocal, SlidingWindow

        version, architecture = self.version, self.model.architecture
        if self.config.get("disable-hybrid-swa-memory") is True or version < (0, 4, 10):
            return False
        local = any(isinstance(layer.attention, (SlidingWindow, ChunkedLocal)) for layer in self.model.layers)
        if _is_compressed(self.model):
            return version >= (0, 5, 12)
        if not local:
            return False
        hierarchical = self.config.get("enable-hierarchical-cache") is True
        if hierarchical and architecture.startswith(("MiMoV2", "Step3p5")) and version < (0, 5, 19):
            return False
        for prefix, first in _WINDOW_POOL:
            if architecture.startswith(prefix) and version >= first:
                return True
        if version >= (0, 5, 8) or architecture.startswith("Llama4"):
            return False
        return not any(
            architecture.startswith(prefix) and since <= version < until for prefix, since, until in _NO_WINDOW_POOL
        )

    def _window_ratio(self) -> float:
        given = self._given("swa-full-tokens-ratio", (float, int))
        if given is not None and 0 < given.value <= 1:
            return float(given.value)
        if _is_compressed(self.model) or self.model.architecture.startswith("Inkling"):
            return 0.1
        return 0.8

    def _state_ratio(self) -> float:
        given = self._given("mamba-full-memory-ratio", (float, int))
        if given is not None and given.value > 0:
            return float(given.value)
        return 0.1 if self.model.architecture.startswith("Inkling") else 0.9

    def _prefix_cache(self) -> Fact[bool]:
        """Whether prefixes are kept: not by the decoding half of a split service, nor beside states that can't be."""
        name = "disable-radix-cache"
        given = self._inverse(name)
        if self.role == "decode":
            kept = self._given("disaggregation-decode-enable-radix-cache", bool)
            if kept is not None and kept.value:
                return kept
            return self._default(name, False, "off on a decode server") if given.value else given
        if given.value and self.version < (0, 5, 14) and self.model.architecture in _NO_STATE_CACHE:
            return self._default(name, False, f"off for {self.model.architecture}")
        return given

    def _overlap(self, effective: bool) -> Fact[bool]:
        given = self._inverse("disable-overlap-schedule")
        if given.value and not effective:
            return self._default("disable-overlap-schedule", False, "off beside a prefix cache without state buffers")
        return given

    def _state_strategy(self, overlap: bool, page: int) -> str:
        """What the prefix cache does with recurrent states; empty where there are none."""
        if not self.model.is_recurrent:
            return ""
        return strategy(
            self.version,
            self._text("mamba-radix-cache-strategy", "") or self._text("mamba-scheduler-strategy", ""),
            self.model.architecture,
            self._text("linear-attn-backend", "triton"),
            overlap=overlap,
            paged=page > 1,
        )

    def _host_tables(self, dtype: str) -> bool:
        """Whether n-gram embeddings are kept in the host's memory: by default for BF16 models on CUDA devices."""
        stated = self.config.get("ple-offload-embedding")
        return stated if isinstance(stated, bool) else self.config.platform == "cuda" and dtype == "bfloat16"

    def _index_dtype(self, dtype: str, cache: str) -> str:
        """Type of the keys of indexers beside keys and values: Qwen4-Exp's by a flag, MiniMax-M3's with FP8 caches."""
        if self._index_ratio() > 1:
            given = self._text("qsa-indexer-dtype", "auto")
            return given if self.version >= (0, 5, 22) and given.startswith("fp8") else "bfloat16"
        if cache == "fp8_e4m3" and self.version >= (0, 5, 21) and self.capability is not None:
            # On data-centre Blackwell FP8 caches choose the kernels that read FP8 keys, unless others are named.
            if self.capability == (9, 0):
                return cache
            if self.capability[0] == 10 and self._text("attention-backend", "trtllm_mha") == "trtllm_mha":
                return cache
        return dtype

    def _index_ratio(self) -> int:
        """Tokens for each key that an indexer beside keys and values keeps; 0 where no layer has one."""
        from planner.models.architecture import FullAttention

        return max(
            (
                x.attention.index_ratio
                for x in self.model.layers
                if isinstance(x.attention, FullAttention) and x.attention.indexer_dim
            ),
            default=0,
        )

    def _raw_sparse_rows(self, cache: str) -> bool:
        """Whether the sparse latent cache has plain rows (TensorRT-LLM kernels, TileLang on AMD)."""
        if not self.sparse or not cache.startswith("fp8"):
            return not cache.startswith("fp8")
        stated = {
            self.config.get(name)
            for name in (
                "nsa-prefill-backend",
                "nsa-decode-backend",
                "dsa-prefill-backend",
                "dsa-decode-backend",
                "nsa-prefill",
                "nsa-decode",
            )
        } - {None}
        rocm = self.config.platform == "rocm"
        if rocm:
            return not stated or bool(stated & {"tilelang", "triton", "aiter"})
        if "trtllm" in stated:
            return True
        if stated:
            return False
        return self.capability is not None and self.capability >= (10, 0) and self.version >= (0, 5, 9)

    # ---- speculation and adapters -------------------------------------------------------------------------------

    def _draft(self) -> tuple[int, int, int]:
        """(steps, top k, tokens of one verification); zeros without speculation."""
        if not self.speculation:
            return 0, 0, 0
        found = draft_shape(
            self.version,
            self.speculation,
            self.model.architecture,
            self._integer("speculative-num-steps"),
            self._integer("speculative-eagle-topk"),
            self._integer("speculative-num-draft-tokens") or self._integer("speculative-dflash-block-size"),
        )
        return min(found.steps, 1024), min(found.topk, 1024), min(found.tokens, 4096)

    def _lora(self) -> tuple[int, int] | None:
        if self.config.get("enable-lora") is not True and not self.config.get("lora-paths"):
            return None
        return min(self._integer("max-loras-per-batch") or 8, 4096), min(self._integer("max-lora-rank") or 16, 4096)


def driver_mib(accelerator: Accelerator | None) -> int:
    """MiB of device memory as the driver tool reports it, 0 where the accelerator is not known."""
    if accelerator is None:
        return 0
    if accelerator.smi_mib:
        return accelerator.smi_mib[0]
    return accelerator.memory.expected // MIB


def _env_number(config: EngineConfig, name: str, default: int) -> int:
    text = env_text(config, name) or ""
    return int(text) if text.isdecimal() and len(text) < 9 else default


def _has_indexer(model: ModelArchitecture) -> bool:
    from planner.models.architecture import LatentAttention

    return any(isinstance(x.attention, LatentAttention) and x.attention.indexer_dim > 0 for x in model.layers)


def _is_compressed(model: ModelArchitecture) -> bool:
    """Whether the model is DeepSeek-V4-like: latent windows beside compressed keys."""
    from planner.models.architecture import LatentAttention

    return any(
        isinstance(x.attention, LatentAttention) and (x.attention.window > 0 or x.attention.compress_ratio > 0)
        for x in model.layers
    )
