"""``EngineConfig`` → ``EffectiveConfig``: what vLLM makes of its arguments on this model and this device.

Every value carries the place that states it, or says which release sets it and on which condition. Sources: vLLM
``engine/arg_utils.py`` and ``config/`` of 0.6.0 to 0.33.0, by release. The context is always the API server's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from planner.engines import vllm_placement as placement
from planner.engines.config import EffectiveConfig, EngineConfig, Parallelism
from planner.engines.resolver import Resolver, Version, parallel_size
from planner.engines.vllm import count, env_flag, env_text
from planner.engines.vllm_cache_dtype import compressed_takes_fp8_alone
from planner.engines.vllm_graphs import GraphInputs, capture_sizes, graph_mode
from planner.engines.vllm_runner import runner
from planner.engines.vllm_speculative import draft
from planner.provenance import Fact, Provenance
from planner.units import GIB, ceil_div

if TYPE_CHECKING:
    from planner.accelerators.accelerator import Accelerator
    from planner.models.architecture import ModelArchitecture

T = TypeVar("T")

#: Sizes beyond these are refused by the engine or are typing errors; the bounds keep the arithmetic small.
_MOST_TOKENS = 1 << 40

_DTYPES = {
    "half": "float16",
    "fp16": "float16",
    "float": "float32",
    "fp32": "float32",
    "bf16": "bfloat16",
    "float16": "float16",
    "float32": "float32",
    "bfloat16": "bfloat16",
}

#: Architectures whose cache becomes FP8 by itself on compute capability 10, and since when (``models/config.py``).
_FP8_ON_BLACKWELL_SINCE = {
    "GlmMoeDsaForCausalLM": (0, 32),
    "Glm5NextForCausalLM": (0, 33),
    "Glm5NextForConditionalGeneration": (0, 33),
}

#: Names of EAGLE-like methods, which asynchronous scheduling of every runner works with.
_DRAFTED = ("eagle", "eagle3", "mtp", "draft_model", "dflash", "ngram_gpu")

#: KV connectors that work with several groups of layers; others turn the hybrid manager off (0.22.1 on).
_HYBRID_CONNECTORS = frozenset(
    (
        "DecodeBenchConnector",
        "ExampleHiddenStatesConnector",
        "HiSparseConnector",
        "MoRIIOConnector",
        "MooncakeConnector",
        "MooncakeStoreConnector",
        "NixlConnector",
        "NixlPullConnector",
        "NixlPushConnector",
        "OffloadingConnector",
        "SimpleCPUOffloadConnector",
        "UMBPStoreConnector",
    )
)

#: Families whose recurrent layers can keep a state for every block (``mamba_cache_mode`` "all").
_STATE_PER_BLOCK = frozenset(
    ("mamba", "mamba2", "jamba", "nemotron_h", "nemotron_h_v2", "zamba2", "granitemoehybrid", "falcon_h1")
)


def effective(
    config: EngineConfig,
    model: ModelArchitecture,
    accelerator: Accelerator | None,
    gpus_per_pod: int | None,
    pods: int = 1,
) -> EffectiveConfig:
    """All settings of a vLLM start that decide memory. Never raises for whatever the flags hold.

    Without an accelerator the defaults that hang on the device are those of the small tier, as vLLM itself takes them
    where it cannot ask the device; such facts say that they are assumed.
    """
    return _Resolver(config, model, accelerator, gpus_per_pod, pods).resolve()


def parallelism(config: EngineConfig, gpus_per_pod: int | None = None, pods: int = 1) -> Parallelism:
    """Parallel sizes from the flags; a size that cannot be known counts as 1.

    Copies in one pod: as stated, one where each pod is one rank (``--data-parallel-rank``, external load balancing),
    otherwise as many as the pod's GPUs hold, or the copies spread over the pods.
    """
    tensor = parallel_size(config, "tensor-parallel-size")
    pipeline = parallel_size(config, "pipeline-parallel-size")
    prefill = parallel_size(config, "prefill-context-parallel-size")
    data = parallel_size(config, "data-parallel-size")
    world = tensor * pipeline * prefill
    local = config.get("data-parallel-size-local")
    if isinstance(local, int) and not isinstance(local, bool) and local > 0:
        data_local = min(local, data)
    elif config.get("data-parallel-external-lb") is True or config.stated("data-parallel-rank"):
        data_local = 1
    elif data == 1 or (pods <= 1 and gpus_per_pod is None):
        data_local = data
    elif pods > 1:
        fitting = gpus_per_pod // world if gpus_per_pod else 0
        data_local = min(data, max(1, fitting or ceil_div(data, pods)))
    else:
        data_local = data
    return Parallelism(
        tensor=tensor,
        pipeline=pipeline,
        data=data,
        data_local=data_local,
        expert=config.get("enable-expert-parallel") is True,
        context=parallel_size(config, "decode-context-parallel-size"),
        prefill_context=prefill,
    )


def derived_length(model: ModelArchitecture, version: Version) -> tuple[int, str]:
    """The longest context in tokens that a release derives from config.json, and how.

    Source: ``_get_and_verify_max_len`` (config/model.py). YaRN factors multiply the original length up to 0.29 and are
    taken as already contained from 0.30 on.
    """
    if model.derived_max_len <= 0:
        return 2048, "config.json states no length, vLLM takes 2048"
    base, key = model.derived_max_len, model.max_len_key or "max_position_embeddings"
    kind, factor = model.rope_type, model.rope_factor
    if kind in ("", "su", "longrope", "llama3") or "gemma3" in model.model_type or not factor > 0:
        return base, key
    if "yarn" in kind or kind == "deepseek_llama_scaling":
        if version >= (0, 30):
            return base, key
        base = model.original_max_len or base
        key = "original_max_position_embeddings"
    if factor == 1.0:
        return base, key
    return int(min(base * factor, _MOST_TOKENS)), f"{key} × {factor:g} ({kind})"


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


class _Resolver(Resolver):
    """The settings of one vLLM start."""

    def __init__(
        self,
        config: EngineConfig,
        model: ModelArchitecture,
        accelerator: Accelerator | None,
        gpus_per_pod: int | None,
        pods: int,
    ) -> None:
        super().__init__("vLLM", config, model, accelerator, parallelism(config, gpus_per_pod, pods))
        self.cuda = config.platform == "cuda"

    def resolve(self) -> EffectiveConfig:
        """The settings, each with its source."""
        self.draft = draft(self.config, self.model)
        self.runner, reason = runner(self.config, self.model, self.capability, self.parallel, self.draft)
        if reason:
            text = f"vLLM {self.config.version.value} runs its V0 engine: {reason}"
            self.notes.append(Provenance("engine-default", text))
        dtype = self._dtype()
        cache_dtype = self._cache_dtype(dtype)
        derived, _ = derived_length(self.model, self.version)
        self.length = self._max_model_len()
        self.chunked = self._chunked_prefill()
        self.sequences, self.batched = self._batch()
        prefix = self._prefix_caching()
        eager = self._flag("enforce-eager", False, bool)
        graphs = GraphInputs(
            self.config,
            self.model,
            self.capability,
            self.parallel,
            self.draft,
            self.runner,
            self.sequences.value,
            self.batched.value,
        )
        mode = graph_mode(graphs, eager.value)
        asynchronous = self._async_scheduling()
        quantization = self.config.get("quantization")
        return EffectiveConfig(
            engine="vllm",
            version=self.version,
            parallel=self.parallel,
            dtype=dtype,
            kv_cache_dtype=cache_dtype,
            max_model_len=self.length,
            max_num_seqs=self.sequences,
            max_num_batched_tokens=self.batched,
            gpu_memory_utilization=self._utilization(),
            block_size=self._block_size(cache_dtype.value),
            enforce_eager=eager,
            chunked_prefill=self.chunked,
            prefix_caching=prefix,
            hybrid_kv_cache_manager=self._hybrid_manager(),
            async_scheduling=asynchronous,
            capture_sizes=capture_sizes(graphs, mode),
            cudagraph_mode=mode,
            max_model_len_auto=self.config.get("max-model-len") == -1 and self.version >= (0, 14),
            max_num_batched_tokens_in_flight=self.batched.value * self._batches_in_flight(asynchronous.value),
            kv_cache_memory_bytes=self._given_count("kv-cache-memory-bytes"),
            num_gpu_blocks_override=self._given_count("num-gpu-blocks-override"),
            speculative_tokens=self.draft.tokens,
            speculative_method=self.draft.method,
            speculative_model=self.draft.model,
            cpu_offload_gib=placement.cpu_offload_gib(self.config),
            quantization=quantization if isinstance(quantization, str) else self.model.quantization,
            lora=self._lora(),
            runner=self.runner,
            mamba_cache_mode=self._state_mode(prefix.value),
            mamba_cache_dtype=self._text("mamba-cache-dtype", "auto"),
            mamba_ssm_cache_dtype=self._text("mamba-ssm-cache-dtype", "auto"),
            derived_max_model_len=derived,
            sampler=self._sampler(),
            multimodal_profiled=self._multimodal(),
            multimodal_item_tokens=placement.item_tokens(self.config, self.model),
            eplb_redundant=self._redundant_experts(),
            graphs_estimated=env_flag(self.config, "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"),
            layer_partition=placement.layer_partition(self.config),
            towers_loaded=placement.towers_loaded(self.config, self.model),
            towers_whole=placement.towers_whole(self.config),
            attention_backend=placement.attention_backend(self.config),
            kv_cache_skip_layers=placement.skipped_cache_layers(self.config),
            expert_balancing=self.config.get("enable-eplb") is True,
            offload_groups=placement.offload_groups(self.config),
            draft_tensor=self.draft.tensor,
            draft_kv_cache_dtype=self.draft.kv_cache_dtype,
            frontend_reserved=placement.frontend_reserved(self.config),
            oldest_release=self._oldest_release(),
            notes=tuple(self.notes),
        )

    # ---- reading flags ------------------------------------------------------------------------------------------

    def _given_count(self, name: str) -> Fact[int] | None:
        fact = self._given(name, int)
        return fact if fact is not None and fact.value > 0 else None

    def _flag(self, name: str, default: T, kind: type | tuple[type, ...]) -> Fact[T]:
        return self._given(name, kind) or self._default(name, default)

    # ---- types --------------------------------------------------------------------------------------------------

    def _dtype(self) -> Fact[str]:
        given = self._given("dtype", str)
        if given is not None and given.value != "auto" and given.value in _DTYPES:
            return Fact(_DTYPES[given.value], given.provenance)
        own = self.model.dtype
        before = self.capability is not None and self.capability < (8, 0)
        if own == "float32":
            if self.version < (0, 9):
                value = "bfloat16" if self.model.model_type.startswith("gemma2") else "float16"
                return self._default("dtype", value, "a float32 checkpoint")
            value = "float16" if before or self.model.pooling else "bfloat16"
            return self._default("dtype", value, "a float32 checkpoint on this device", device=not self.model.pooling)
        if own == "bfloat16" and before and self.version >= (0, 9):
            return self._default("dtype", "float16", "no bfloat16 below compute capability 8.0")
        return self._default("dtype", own, "the checkpoint's own")

    def _cache_dtype(self, dtype: Fact[str]) -> Fact[str]:
        """The element type of the KV cache (``resolve_kv_cache_dtype_string``, ``kv_cache_scheme`` of checkpoints)."""
        given = self._given("kv-cache-dtype", str)
        hint = self._cache_hint()
        if self.model.architecture.startswith("MiMoV2") and self.version < (0, 32):
            # its decoder layers were built without the cache's configuration
            return self._default("kv-cache-dtype", dtype.value, "MiMo-V2's layers do not read --kv-cache-dtype")
        if given is not None and given.value not in ("auto", ""):
            overrules = (
                hint == "fp8"
                and (0, 15, 1) <= self.version < (0, 22)
                and not (self.model.quantization or "").startswith("modelopt")
            )
            if overrules and given.value != hint:
                text = f"the checkpoint's kv_cache_scheme, which vLLM {self.config.version.value} puts above --kv-cache-dtype"
                return Fact(self._sparse_name("fp8", True), Provenance("derived", text))
            name = {"float16": "float16", "bfloat16": "bfloat16"}.get(given.value, given.value)
            return Fact(self._sparse_name(name, True), given.provenance)
        if hint:
            if hint == "fp8" and self._sparse and (self.model.quantization or "").startswith("modelopt"):
                hint = "fp8_e4m3"  # its full name, by which another kernel is found on Hopper
            return self._default("kv-cache-dtype", self._sparse_name(hint, False), "auto: the checkpoint asks for it")
        if self._compressed and not compressed_takes_fp8_alone(self.version, self.capability):
            return self._default("kv-cache-dtype", "fp8_ds_mla", "auto: DeepSeek-V4's own layout")
        if self._sparse and self.version[:3] == (0, 11, 0):
            return self._default("kv-cache-dtype", "fp8_ds_mla", "auto: sparse attention")
        blackwell = self.capability is not None and self.capability[0] == 10
        since = _FP8_ON_BLACKWELL_SINCE.get(self.model.architecture)
        if since is not None and self.version >= since and blackwell:
            return self._default("kv-cache-dtype", "fp8", "auto: GLM's sparse attention on Blackwell")
        return self._default("kv-cache-dtype", dtype.value, f"auto: the model's dtype, {dtype.provenance.text}")

    def _cache_hint(self) -> str | None:
        """What the checkpoint makes of ``auto`` in this release."""
        hint = self.model.kv_cache_dtype_hint
        if not hint:
            return None
        if (self.model.quantization or "").startswith("modelopt"):
            if hint.startswith("nvfp4"):
                return hint if self.version >= (0, 23) else None
            return hint if self.version >= (0, 14) else None
        return hint if self.version >= (0, 15, 1) else None

    @property
    def _sparse(self) -> bool:
        from planner.models.architecture import LatentAttention

        return any(isinstance(x.attention, LatentAttention) and x.attention.indexer_dim > 0 for x in self.model.layers)

    @property
    def _unrotated(self) -> bool:
        from planner.models.architecture import LatentAttention

        return any(isinstance(x.attention, LatentAttention) and not x.attention.rope_dim for x in self.model.layers)

    @property
    def _compressed(self) -> bool:
        from planner.models.architecture import LatentAttention

        return any(
            isinstance(x.attention, LatentAttention) and (x.attention.window > 0 or x.attention.compress_ratio > 0)
            for x in self.model.layers
        )

    def _sparse_name(self, name: str, given: bool) -> str:
        """fp8 in the layout that the sparse kernels want: 656 bytes a token on Hopper, plain on Blackwell (FlashInfer)."""
        del given
        if self._compressed:
            return "fp8_ds_mla" if name.startswith("fp8") else name
        if not name.startswith("fp8") or not self._sparse or name == "fp8_ds_mla":
            return name
        if self.version < (0, 18):
            return "fp8_ds_mla"
        blackwell = self.capability is not None and self.capability[0] == 10
        if self._unrotated and not blackwell and (self.capability is None or self.capability[0] == 9):
            return name  # FlashInfer's kernel for latents without rotation reads plain FP8
        hopper = self.capability is not None and self.capability[0] == 9
        if name == "fp8_e4m3" and hopper and self.version >= (0, 30):
            return name  # FlashMLA takes "fp8" alone; by its full name FlashInfer's kernel for Hopper gets it, unpacked
        few_heads = self.model.heads // self.parallel.tensor <= 16
        if blackwell and (self.version >= (0, 19) or few_heads):
            return name
        return "fp8_ds_mla"

    # ---- lengths and batches ------------------------------------------------------------------------------------

    def _max_model_len(self) -> Fact[int]:
        derived, how = derived_length(self.model, self.version)
        given = self._given("max-model-len", int)
        if given is not None and 0 < given.value <= _MOST_TOKENS:
            return given
        if self.version >= (0, 11, 1) and self.model.rope_type == "longrope" and self.model.original_max_len:
            return self._default(
                "max-model-len", self.model.original_max_len, "original_max_position_embeddings, longrope"
            )
        condition = f"the model's {how}"
        if given is not None and given.value == -1 and self.version >= (0, 14):
            text = f"auto: {condition}, or the longest that fits if that is less"
            return Fact(derived, Provenance("derived", text, given.position))
        return self._default("max-model-len", derived, condition)

    def _batch(self) -> tuple[Fact[int], Fact[int]]:
        """(max_num_seqs, max_num_batched_tokens), in the order in which vLLM settles them."""
        given_sequences = self._given_count("max-num-seqs")
        given_tokens = self._given_count("max-num-batched-tokens")
        length = self.length.value
        if self.runner == "v0":
            return given_sequences or self._default("max-num-seqs", 256), given_tokens or self._v0_tokens()
        tokens, count, condition = self._tier()
        device = True
        if self._batched_experts() and self.version >= (0, 20):
            tokens, condition, device = 256, "experts in batches over data parallel ranks", False
        if self.config.get("performance-mode") == "throughput" and self.version >= (0, 17):
            tokens, count = tokens * 2, count * 2
            condition += ", performance mode throughput"
        wanted = given_sequences.value if given_sequences else count
        if given_tokens is not None:
            value = given_tokens.value
        else:
            value = tokens
            if not self.chunked.value:
                value = max(value, length)
            item = max((tower.max_tokens_per_item for tower in self.model.towers), default=0)
            if self.version >= (0, 22) and self.model.model_type in ("gemma3", "gemma4") and self._multimodal():
                value = max(value, item)
            if self.version >= (0, 9):
                value = min(value, wanted * length)
            given_tokens = self._default("max-num-batched-tokens", value, f"API server, {condition}", device=device)
        if given_sequences is not None:
            return given_sequences, given_tokens
        limits = self.version >= (0, 11, 1) or (
            self.version >= (0, 10, 2) and self.config.stated("max-num-batched-tokens")
        )
        count = min(count, value) if limits else count
        return self._default("max-num-seqs", count, f"API server, {condition}", device=True), given_tokens

    def _tier(self) -> tuple[int, int, str]:
        """(batched tokens, sequences, condition) by device (``get_batch_defaults``)."""
        if self.config.platform == "cpu":
            world = self.parallel.tensor * self.parallel.pipeline
            return 2048 * world, 128 * world, "CPU"
        memory = self.accelerator.memory.expected if self.accelerator else 0
        name = self.accelerator.name.lower() if self.accelerator else ""
        if self.version < (0, 8, 5):
            large = "h100" in name or "h200" in name
            sequences = 1024 if large or self.version < (0, 8, 4) else 256
            return (8192 if large else 2048), sequences, "an H100 or H200" if large else "not an H100 or H200"
        if self.version >= (0, 28) and memory >= 160 * GIB:
            return 16384, 1024, "device memory of 160 GiB or more"
        spark = self.version >= (0, 33) and self.capability == (12, 1)
        a100 = "a100" in name and self.version >= (0, 9)
        if memory >= 70 * GIB and not a100 and not spark:
            return 8192, 1024, "device memory of 70 GiB or more"
        why = "an A100" if a100 else "GB10" if spark else "device memory below 70 GiB"
        return 2048, 256, why

    def _batched_experts(self) -> bool:
        backend = self.config.get("all2all-backend") or env_text(self.config, "VLLM_ALL2ALL_BACKEND")
        return (
            self.parallel.expert
            and self.parallel.data > 1
            and self.model.is_moe
            and backend in ("deepep_low_latency", "nixl_ep")
        )

    def _v0_tokens(self) -> Fact[int]:
        length = self.length.value
        name = "max-num-batched-tokens"
        if self.chunked.value:
            if self.version < (0, 6, 1):
                return self._default(name, 512, "V0 engine, chunked prefill")
            return self._default(name, 2048, "V0 engine, chunked prefill")
        tokens = max(length, 2048)
        if self.model.pooling:
            tokens = max(tokens, 32768)
        if self.model.multimodal:
            tokens = max(tokens, 4096 if self.version < (0, 6, 6) else 5120)
        return self._default(name, tokens, "V0 engine, no chunked prefill: the model length")

    def _chunked_prefill(self) -> Fact[bool]:
        name = "enable-chunked-prefill"
        given = self._given(name, bool)
        model = self.model
        if self.runner != "v0":
            if model.encoder_decoder:
                return self._default(name, False, "an encoder-decoder model")
            return given or self._default(name, True, "V1 engine")
        if given is not None:
            return given
        from planner.models.architecture import LatentAttention, SlidingWindow

        plain = not any(isinstance(x.attention, (LatentAttention, SlidingWindow)) for x in model.layers)
        long = self.length.value > 32768 and self.config.platform == "cuda" and plain and not model.multimodal
        if long and not self.draft.method and self.config.get("enable-lora") is not True:
            return self._default(name, True, "V0 engine, a length beyond 32768")
        return self._default(name, False, "V0 engine")

    def _prefix_caching(self) -> Fact[bool]:
        name = "enable-prefix-caching"
        given = self._given(name, bool)
        if given is not None:
            return given
        if self.runner == "v0":
            return self._default(name, False, "V0 engine")
        if self.model.encoder_decoder:
            return self._default(name, False, "an encoder-decoder model")
        if self.model.is_recurrent:
            from planner.models.architecture import NoAttention, RecurrentState

            # On by default from 0.28: 0.26 and 0.27 support it, but "keep it opt-in" (arg_utils.py).
            attends = any(not isinstance(x.attention, (NoAttention, RecurrentState)) for x in self.model.layers)
            return self._default(name, attends and self.version >= (0, 28), "a model with recurrent layers")
        return self._default(name, True, "V1 engine")

    def _utilization(self) -> Fact[float]:
        # --device-memory-utilization is an alias of the same name from 0.31.0 on, and before it no flag.
        given = self._given("gpu-memory-utilization", (float, int))
        if given is not None:
            return Fact(float(given.value), given.provenance)
        return self._default("gpu-memory-utilization", 0.92 if self.version >= (0, 20) else 0.9)

    # ---- cache layout -------------------------------------------------------------------------------------------

    def _block_size(self, cache_dtype: str) -> Fact[int]:
        given = self._given_count("block-size")
        if given is not None:
            return given
        if self.config.platform == "cpu" and self.version >= (0, 10):
            return self._default("block-size", 128, "CPU")
        # The kernels decide; their table stands beside the layouts that they impose.
        from planner.memory.kv_block_size import default_block_size
        from planner.memory.kv_specs import LayoutRefused

        try:
            size = default_block_size(
                self.model,
                cache_dtype,
                self.capability,
                self.version,
                multimodal=self._multimodal(),
                backend=placement.attention_backend(self.config),
            )
        except LayoutRefused as refused:
            return self._default("block-size", 16, str(refused), device=True)
        return self._default("block-size", size, "the attention kernel's", device=size != 16)

    def _hybrid_manager(self) -> Fact[bool]:
        """Whether layers of different kinds keep groups of their own (``disable_hybrid_kv_cache_manager``)."""
        name = "disable-hybrid-kv-cache-manager"
        if self.version < (0, 9, 1) or self.runner == "v0":
            return self._default(name, False, "this engine has none")
        given = self._given(name, bool)
        if given is not None and (given.value or self.version >= (0, 13)):
            return Fact(not given.value, given.provenance)
        if self.config.platform not in ("cuda", "rocm", "xpu"):
            return self._default(name, False, f"on {self.config.platform}")
        connector = self._connector()
        if connector and (self.version < (0, 22) or not _keeps_groups(_dict(self.config.get("kv-transfer-config")))):
            return self._default(name, False, f"KV connector {connector[:40]}")
        events = _dict(self.config.get("kv-events-config"))
        if self.version < (0, 20) and events.get("enable_kv_cache_events") is True:
            return self._default(name, False, "KV events")
        from planner.models.architecture import ChunkedLocal

        if any(isinstance(layer.attention, ChunkedLocal) for layer in self.model.layers):
            variable = "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE"
            allowed = env_flag(self.config, variable)
            if self.draft.method.startswith("eagle"):
                return self._default(name, False, "chunked attention with EAGLE")
            if not (allowed if allowed is not None else self.version >= (0, 14)):
                return self._default(name, False, f"chunked attention without {variable}=1")
        return self._default(name, True)

    def _connector(self) -> str:
        transfer = _dict(self.config.get("kv-transfer-config"))
        connector = transfer.get("kv_connector")
        return connector if isinstance(connector, str) else ""

    def _state_mode(self, prefix: bool) -> str:
        """``mamba_cache_mode``: how many states a sequence keeps in the recurrent layers."""
        if not self.model.is_recurrent or not prefix or self.runner == "v0":
            return "none"
        if self.version < (0, 12):
            return "none"
        per_block = self.model.model_type in _STATE_PER_BLOCK or (
            self.model.model_type == "bamba" and self.version < (0, 21)
        )
        if self.version < (0, 15):
            return "all"
        given = self.config.get("mamba-cache-mode")
        if self.version >= (0, 32):
            return "align"
        if given == "align":
            return "align"
        if given == "all":
            return "all" if per_block else "align"
        if self.version >= (0, 28) or not per_block:
            return "align"
        if (0, 20) <= self.version < (0, 22) and self.draft.method:
            return "align"
        return "all"

    # ---- scheduling ---------------------------------------------------------------------------------------------

    def _async_scheduling(self) -> Fact[bool]:
        name = "async-scheduling"
        given = self._given(name, bool)
        if given is not None and self.runner != "v0":
            return given
        if self.version < (0, 14) or self.runner == "v0":
            return self._default(name, False)
        backend = self.config.get("distributed-executor-backend")
        if self.model.pooling:
            return self._default(name, False, "a pooling model")
        if backend == "ray" and env_flag(self.config, "VLLM_USE_RAY_V2_EXECUTOR_BACKEND") is not True:
            return self._default(name, False, "the ray executor")
        first = self.runner == "v1"
        if first and self.draft.method and self.draft.method not in _DRAFTED:
            return self._default(name, False, f"speculative method {self.draft.method[:30]}")
        if first and self.parallel.pipeline > 1 and not (0, 15) <= self.version < (0, 27):
            return self._default(name, False, "pipeline parallelism")
        return self._default(name, True)

    def _batches_in_flight(self, asynchronous: bool) -> int:
        """Batches whose tokens a sliding window must still hold (``max_concurrent_batches``)."""
        if self.version < (0, 26):
            return 1
        stages = self.parallel.pipeline
        if asynchronous:
            if self.runner == "v2":
                return stages + 1
            if stages <= 1:
                return 2
        return stages

    # ---- the rest -----------------------------------------------------------------------------------------------

    def _lora(self) -> tuple[int, int] | None:
        if self.config.get("enable-lora") is not True:
            return None
        loras, rank = count(self.config.get("max-loras")), count(self.config.get("max-lora-rank"))
        return min(loras or 1, 4096), min(rank or 16, 4096)

    def _sampler(self) -> str:
        wanted = env_flag(self.config, "VLLM_USE_FLASHINFER_SAMPLER")
        on = wanted if wanted is not None else self.version >= (0, 21)
        if on and self.cuda and self.runner != "v0":
            return "flashinfer"
        return "triton" if self.version >= (0, 17) and self.runner != "v0" else "torch"

    def _multimodal(self) -> bool:
        """Whether the profile run includes the multimodal encoder."""
        skipped = self.config.get("skip-mm-profiling") is True
        return not skipped and not placement.excluded_modalities(self.config, self.model)

    def _oldest_release(self) -> Version:
        """Where nothing states the release: the first that has the model."""
        if not self.config.version_assumed:
            return ()
        from planner.engines.architectures import supported_since

        return supported_since("vllm", self.model.architecture) or ()

    def _redundant_experts(self) -> int:
        if self.config.get("enable-eplb") is not True:
            return 0
        stated = _dict(self.config.get("eplb-config")).get("num_redundant_experts")
        value = count(stated if stated is not None else self.config.get("num-redundant-experts"))
        return min(value or 0, 1 << 16)


def _keeps_groups(transfer: dict[str, Any]) -> bool:
    """Whether a connector (all children of a MultiConnector) works with the hybrid manager."""
    name = transfer.get("kv_connector")
    if name == "MultiConnector":
        children = _dict(transfer.get("kv_connector_extra_config")).get("connectors")
        if not isinstance(children, list) or not children:
            return False
        return all(_dict(child).get("kv_connector") in _HYBRID_CONNECTORS for child in children[:64])
    return name in _HYBRID_CONNECTORS
