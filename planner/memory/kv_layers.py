"""The caches of all layers of one engine: which spec each layer has under these settings, in the engine's own order."""

from __future__ import annotations

from typing import Any

from planner.engines.config import EffectiveConfig
from planner.engines.vllm_cache_dtype import compressed_takes_fp8_alone
from planner.memory import kv_deepseek_v4
from planner.memory.kv_block_size import Kernel, check_block_size, kernel_for
from planner.memory.kv_groups import Layers
from planner.memory.kv_hybrid import aligned_block, state_block_counts, state_bytes, state_spec
from planner.memory.kv_specs import LayoutRefused, Spec, Version, attention_specs, is_quantized
from planner.models.architecture import (
    Attention,
    ChunkedLocal,
    CrossAttention,
    LatentAttention,
    ModelArchitecture,
    NoAttention,
    RecurrentState,
    SlidingWindow,
)
from planner.provenance import Fact

#: tokens between the states that FlashInfer's delta kernel can save inside a prefill
_DELTA_CHECKPOINT = 64
#: sources of a value that are no wish of a person: the engine works them out itself
DEFAULT_SOURCES = frozenset({"engine-default", "assumption", "derived"})


def user_block(fact: Fact[int] | None) -> int | None:
    """The block size that somebody asked for; defaults are worked out from the kernels."""
    if fact is None or fact.provenance.source in DEFAULT_SOURCES:
        return None
    return fact.value


class EngineLayers:
    """Specs of all layers of the engine, with the numbers that they share."""

    def __init__(self, model: ModelArchitecture, config: EffectiveConfig, capability: tuple[int, int] | None) -> None:
        self.model = model
        self.config = config
        self.version = config.version
        self.tensor = max(1, config.parallel.tensor)
        self.capability = capability
        self.notes: list[str] = []
        self.dtype = config.kv_cache_dtype.value
        self.speculative = config.speculative_tokens
        self.by_object, self.attentions = distinct_attentions(model)
        latent = [a for a in self.attentions if isinstance(a, LatentAttention)]
        self.sparse = any(a.indexer_dim > 0 for a in latent)
        self.compressed = any(a.window > 0 for a in latent)
        #: whether pages of different sizes lie side by side in one block
        self.packed = self.compressed or any(getattr(a, "index_ratio", 1) > 1 for a in self.attentions)
        if (
            self.compressed
            and not self.dtype.startswith("fp8")
            and compressed_takes_fp8_alone(self.version, capability)
        ):
            raise LayoutRefused("this release keeps DeepSeek-V4's cache in FP8 alone: give --kv-cache-dtype fp8")
        self.states = [a for a in self.attentions if isinstance(a, RecurrentState)]
        self.kernel = kernel_for(
            model,
            self.dtype,
            capability,
            self.version,
            multimodal=config.multimodal_profiled,
            backend=config.attention_backend,
        )
        self.block = self._block()
        self.state_mode = self._state_mode()
        self.state_page = 0
        self.state_block = config.max_model_len.value
        if self.states:
            self._align()
        self.window_block = _window_block(self.kernel, self.block, self.version)
        if any(isinstance(a, CrossAttention) for a in self.attentions) and not self._encoder_length():
            self.notes.append("the encoder's length is not known: its cache is counted for the maximum length")
        if capability is None and (latent or is_quantized(self.dtype)):
            self.notes.append("GPU unknown: attention kernels of compute capability 9.0 assumed")

    def _block(self) -> int:
        given = user_block(self.config.block_size)
        if given is None:
            default = self.config.block_size
            # without a GPU whose kernels are known here (CPU, TPU) the engine's own default stands
            return default.value if default is not None and self.capability is None else self.kernel.preferred
        if given < 1:
            raise LayoutRefused(f"a block of {given} tokens")
        if self.version >= (0, 18):
            check_block_size(self.model, self.dtype, given, self.capability, self.version)
        elif given % self.kernel.smallest:
            return self.kernel.preferred
        if self.kernel.name == "TURBOQUANT":
            return max(given, self.kernel.preferred)
        return given

    def _state_mode(self) -> str:
        mode = self.config.mamba_cache_mode
        if (0, 12) <= self.version < (0, 15) and self.config.prefix_caching.value and self.states:
            return "all"
        return mode

    def _checkpoints(self, state: RecurrentState) -> int:
        """0 where the layer's kernel cannot save a state inside a prefill (mode ``align``), else the tokens such states are
        apart at least. A request then holds one state more.

        Sources: ``num_prefill_checkpoint_blocks`` in vLLM's ``models/kimi_k3`` (0.29), ``models/glm5next`` and
        ``mamba_mixer2.py`` (0.32), ``qwen_gdn_linear_attn.py`` and ``models/qwen4_exp`` (0.33): FlashKDA and FlashInfer's
        delta rule run on capabilities 9, 10 and 12, and the delta rule saves only where every recurrent layer can.
        """
        if self.state_mode != "align" or self.version < (0, 29):
            return 0
        fast = self.capability is None or self.capability[0] in (9, 10, 12)
        if state.kind == "mamba2":
            return 1 if self.version >= (0, 32) else 0
        if state.kind == "kda":
            return 16 if fast and (not self.packed or self.version >= (0, 32)) else 0
        if state.kind == "gdn" or (state.kind == "short_conv" and self.packed):
            return _DELTA_CHECKPOINT if fast and self.version >= (0, 33) else 0
        return 0

    def _checkpoint_granule(self) -> int:
        """Tokens that the attention block must be a multiple of so that saved states lie on its bounds (0.33)."""
        apart = [self._checkpoints(state) for state in self.states]
        return max(apart) if self.version >= (0, 33) and all(apart) else 1

    def _state_bytes(self, state: RecurrentState, tensor: int = 0) -> int:
        ssm = self.config.mamba_ssm_cache_dtype
        if ssm in ("auto", ""):
            ssm = dict(self.model.extra).get("mamba_ssm_dtype", "auto")
        return state_bytes(
            state,
            tensor=tensor or self.tensor,
            model_dtype=self.config.dtype.value,
            cache_dtype=self.config.mamba_cache_dtype,
            ssm_dtype=ssm,
            speculative_tokens=self.speculative if self.version >= (0, 12) else 0,
        )

    def _align(self) -> None:
        """Lengthen the attention block until its page holds a state."""
        largest = max(self._state_bytes(state) for state in self.states)
        token = 0
        latent = False
        head_dim = 0
        for attention in self.attentions:
            specs = self._attention(attention, block=1, window_block=1)
            if specs:
                token = max(spec.row for spec in specs)
                latent = isinstance(attention, LatentAttention)
                head_dim = getattr(attention, "head_dim", 0)
                break
        if not token or not largest:
            return
        chunk = max((state.chunk for state in self.states), default=0)
        self.block = aligned_block(
            state=largest,
            token=token,
            block=self.block,
            user_block=user_block(self.config.block_size) is not None,
            kernel_block=max(self.kernel.smallest, self._checkpoint_granule()),
            latent=latent,
            chunk=chunk,
            every_block=self.state_mode == "all",
            capability=self.capability,
            head_dim=head_dim,
            version=self.version,
        )
        self.state_page = self.block * token
        if self.state_mode in ("align", "all"):
            self.state_block = self.block

    def _attention(
        self, attention: Attention, *, block: int, window_block: int, dtype: str = "", tensor: int = 0
    ) -> tuple[Spec, ...]:
        return attention_specs(
            attention,
            dtype=dtype or self.dtype,
            model_dtype=self.config.dtype.value,
            block=block,
            window_block=window_block,
            tensor=tensor or self.tensor,
            sparse=self.sparse,
            capability=self.capability,
            version=self.version,
            encoder_tokens=self._encoder_tokens(),
            encoder_length=self._encoder_length(),
            speculative=self.speculative,
            axes=3 if self.config.multimodal_profiled and self.model.multimodal else 0,
        )

    def _encoder_tokens(self) -> int:
        """Tokens of an encoder's output that a request is counted with: up to 0.12 the longest, since then as many as the
        encoder may be given in one step (``max_num_encoder_input_tokens``), however long an output can be."""
        return self.config.max_num_batched_tokens.value if self.version >= (0, 13) else self._encoder_length()

    def _encoder_length(self) -> int:
        """The longest output of the encoder, 0 where the config does not say."""
        facts = dict(self.model.extra)
        for name in ("encoder_tokens", "max_source_positions"):
            if facts.get(name, "").isdecimal():
                return int(facts[name])
        return 0

    def specs_of(self, attention: Attention, dtype: str = "", tensor: int = 0) -> tuple[Spec, ...]:
        """Specs of one layer with the engine's block sizes; ``tensor`` ranks in place of the model's own."""
        if isinstance(attention, RecurrentState):
            fixed, extra = state_block_counts(self.state_mode, self.speculative, self.version)
            fixed += 1 if self._checkpoints(attention) else 0
            size = self._state_bytes(attention, tensor)
            return (state_spec(attention, size, self.state_page, self.state_block, fixed, extra),)
        if isinstance(attention, NoAttention) or self._reads_another(attention):
            return ()
        if self.compressed and isinstance(attention, LatentAttention):
            fact = self.config.kv_cache_dtype
            plain = not is_quantized(fact.value) and fact.provenance.source not in DEFAULT_SOURCES
            return kv_deepseek_v4.compressed_specs(attention, packed=not plain, block=self.block)
        return self._attention(attention, block=self.block, window_block=self.window_block, dtype=dtype, tensor=tensor)

    def _reads_another(self, attention: Attention) -> bool:
        """Whether the layer shares another layer's cache. The V2 runner before 0.20 gave it one of its own all the same."""
        if getattr(attention, "kv_donor", None) is None:
            return False
        return not (self.config.runner == "v2" and self.version < (0, 20))

    def layer_specs(self, draft: ModelArchitecture | None) -> Layers:
        """Specs of all layers in the order of their first layer; draft layers follow the model's own."""
        found: list[tuple[int, int, Spec, list[int]]] = []
        boundary = self._boundary_layers()
        for attention, indices in zip(self.attentions, self.by_object, strict=True):
            inner = [i for i in indices if i not in boundary] if boundary else indices
            outer = [i for i in indices if i in boundary] if boundary else []
            for part, dtype in ((inner, ""), (outer, self.config.dtype.value)):
                if part:
                    for order, spec in enumerate(self.specs_of(attention, dtype)):
                        found.append((part[0], order, spec, part))
        offset = self.model.num_layers
        # a draft model may have its own number of ranks and cache dtype
        own = ("", 0) if draft is None else (self.config.draft_kv_cache_dtype, self.config.draft_tensor)
        for attention in self._draft_attentions(draft):
            for order, spec in enumerate(self.specs_of(attention, *own)):
                found.append((offset, order, spec, [offset]))
            offset += 1
        if len(found) > 1:
            found.sort(key=lambda item: item[:2])
        layers: Layers = {}
        for _, _, spec, indices in found:
            if spec in layers:
                layers[spec] = sorted(layers[spec] + indices)
            else:
                layers[spec] = indices
        return layers

    def _boundary_layers(self) -> frozenset[int]:
        """Layers whose cache stays at the model's dtype: those that ``--kv-cache-dtype-skip-layers`` names by index or kind (0.19
        on), and with TurboQuant the first and the last two of a model without recurrent state."""
        count = self.model.num_layers
        named = self.config.kv_cache_skip_layers if self.version >= (0, 19) and is_quantized(self.dtype) else ()
        skipped = {int(name) for name in named if name.isdecimal() and len(name) < 6}
        if "sliding_window" in named:
            windows = (SlidingWindow, ChunkedLocal)
            skipped.update(i for i, layer in enumerate(self.model.layers) if isinstance(layer.attention, windows))
        if self.dtype.startswith("turboquant_") and not self.states:
            edge = min(2, count // 2)
            skipped.update((*range(edge), *range(count - edge, count)))
        return frozenset(skipped)

    def _draft_attentions(self, draft: ModelArchitecture | None) -> list[Attention]:
        """Attention layers that speculative decoding adds to the cache."""
        method = self.config.speculative_method
        if not method or method in ("ngram", "ngram_gpu", "suffix", "medusa", "mlp_speculator"):
            return []
        if draft is not None:
            # Of a checkpoint with MTP layers only these draft, as where the target is named once more
            # (``SpeculativeConfig.hf_config_override`` in vllm/config/speculative.py 0.11.0 to 0.33.0).
            mtp = draft.mtp_layers if method.endswith("mtp") else ()
            return [layer.attention for layer in mtp or draft.layers]
        if method.endswith("mtp"):
            if not self.model.mtp_layers:
                self.notes.append("MTP layers are not described for this model: their cache is not counted")
            return [layer.attention for layer in self.model.mtp_layers]
        self.notes.append("the draft model is not known: the cache of its layers is not counted")
        return []


def distinct_attentions(model: ModelArchitecture) -> tuple[list[list[int]], list[Attention]]:
    """Distinct attention objects in the order of their first layer, with the indices of their layers. Layers share
    objects, so a deep model has few of them."""
    seen: dict[int, int] = {}
    indices: list[list[int]] = []
    attentions: list[Attention] = []
    for index, layer in enumerate(model.layers):
        for attention in _mixers(layer):
            place = seen.get(id(attention))
            if place is None:
                seen[id(attention)] = len(indices)
                indices.append([index])
                attentions.append(attention)
            else:
                indices[place].append(index)
    return indices, attentions


def _mixers(layer: Any) -> tuple[Attention, ...]:
    """The attention of a layer and, where it runs one beside it (Falcon-H1), its recurrent state."""
    beside = getattr(layer, "state", None)
    return (layer.attention,) if beside is None else (layer.attention, beside)


def _window_block(kernel: Kernel, block: int, version: Version) -> int:
    """Sliding windows take the largest block that the kernel runs unsplit, from 0.26 on."""
    if version < (0, 26) or not kernel.window_limit or block <= kernel.window_limit:
        return block
    return kernel.window_limit
