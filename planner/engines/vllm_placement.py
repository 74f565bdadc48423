"""Which weights a vLLM start keeps on the GPU, and on which: towers, offloading, pipeline partition, transfers.

Sources: vLLM ``config/offload.py``, ``config/multimodal.py``, ``models/interfaces.py`` (``_mark_tower_model``) and
``distributed/utils.py`` (``get_pp_indices``), by release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.engines.config import EngineConfig
from planner.engines.vllm import count, env_text
from planner.units import GIB

if TYPE_CHECKING:
    from planner.models.architecture import ModelArchitecture

#: A stage of more layers, or more stages, is no partition of a model.
_MOST_LAYERS = 1 << 16
_MOST_STAGES = 4096
#: Families whose encoder serves images and videos, so that both must be excluded before it is left out.
_VIDEO_FAMILIES = (
    "qwen",
    "glm4v",
    "glm5v",
    "ernie",
    "keye",
    "llava_onevision",
    "llava_next_video",
    "minicpm",
    "internvl",
)
#: Families that left an encoder out before every model could (0.15).
_EARLY_FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "mistral3")


def layer_partition(config: EngineConfig) -> tuple[int, ...] | None:
    """``VLLM_PP_LAYER_PARTITION`` as numbers of layers, None where it is unset or no list of numbers."""
    text = env_text(config, "VLLM_PP_LAYER_PARTITION")
    if not text:
        return None
    parts = text.split(",")
    if len(parts) > _MOST_STAGES or not all(part.strip().isdecimal() for part in parts):
        return None
    sizes = tuple(int(part.strip()[:6]) for part in parts)
    return sizes if all(size <= _MOST_LAYERS for size in sizes) else None


def excluded_modalities(config: EngineConfig, model: ModelArchitecture) -> bool:
    """Whether flags allow no multimodal input at all, so that encoders are neither profiled nor needed."""
    if config.get("language-model-only") is True:
        return True
    limits = config.get("limit-mm-per-prompt")
    if not isinstance(limits, dict) or not limits:
        return False
    zero = {
        str(name)
        for name, item in list(limits.items())[:64]
        if (item.get("count") if isinstance(item, dict) else item) == 0
    }
    needed = {"image", "video"} if model.model_type.startswith(_VIDEO_FAMILIES) else {"image"}
    return needed <= zero and len(zero) == len(limits)


#: Pixels along a side of what becomes one token, of families whose items are as large as the user sends them.
_TOKEN_SIDES = {"qwen2_vl": 28, "qwen2_5_vl": 28, "qwen2_5_omni": 28, "qwen3_vl": 32, "qwen3_5": 32}


def item_tokens(config: EngineConfig, model: ModelArchitecture) -> int:
    """Tokens of the largest image where an option bounds its pixels (``--mm-processor-kwargs``), 0 where none does or the
    family is not known. Source: ``smart_resize`` of the models' processors, which rounds to whole tokens."""
    options = config.get("mm-processor-kwargs")
    family = next((name for name in _TOKEN_SIDES if model.model_type.startswith(name)), None)
    if not isinstance(options, dict) or family is None:
        return 0
    size = options.get("size")
    pixels = options.get("max_pixels") or (size.get("longest_edge") if isinstance(size, dict) else None)
    if not isinstance(pixels, int) or isinstance(pixels, bool) or not 0 < pixels <= 1 << 40:
        return 0
    return max(1, pixels // _TOKEN_SIDES[family] ** 2)


def towers_loaded(config: EngineConfig, model: ModelArchitecture) -> bool:
    """Whether multimodal encoders are on the GPU: not where every modality is excluded and the release can leave them out."""
    if not model.towers or not excluded_modalities(config, model):
        return True
    version = config.version_key
    early = version >= (0, 10) and model.model_type.startswith(_EARLY_FAMILIES)
    return not (version >= (0, 15) or early)


def towers_whole(config: EngineConfig) -> bool:
    """Whether every tensor-parallel rank holds the whole encoder (``--mm-encoder-tp-mode data`` and the flag before it)."""
    return config.get("mm-encoder-tp-mode") == "data" or config.get("enable-multimodal-encoder-data-parallel") is True


def cpu_offload_gib(config: EngineConfig) -> float:
    """GiB of weights per GPU that ``--cpu-offload-gb`` moves to host memory, 0 where the other scheme is chosen."""
    if config.get("offload-backend") == "prefetch" or (
        config.get("offload-backend") != "uva" and offload_groups(config)
    ):
        return 0.0
    value = config.get("cpu-offload-gb")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1 << 20:
        return 0.0
    return float(value)


def offload_groups(config: EngineConfig) -> tuple[int, int, int] | None:
    """(layers in a group, the last how many of them are offloaded, layers fetched ahead) of 0.17's prefetching scheme."""
    size = count(config.get("offload-group-size"))
    if not size or config.get("offload-backend") == "uva" or config.version_key < (0, 17):
        return None
    inside = count(config.get("offload-num-in-group")) or 1
    ahead = count(config.get("offload-prefetch-step")) or 1
    return min(size, _MOST_LAYERS), min(inside, size), min(ahead, _MOST_LAYERS)


def frontend_reserved(config: EngineConfig) -> int:
    """Bytes of each GPU's cache that decoding of media in the API servers takes (0.25.1 on). Source: ``reserve_mm_ipc``."""
    if config.version_key < (0, 25):
        return 0
    value = config.get("mm-ipc-gpu-memory-gb")
    reserved = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else 0.0
    return int(min(reserved, 1 << 20) * GIB)


def attention_backend(config: EngineConfig) -> str:
    """The attention kernel that a variable (up to 0.14, where it overrides flags), a flag or ``--attention-config`` names,
    upper case; else empty."""
    options = config.get("attention-config")
    named: Any = env_text(config, "VLLM_ATTENTION_BACKEND") if config.version_key < (0, 15) else None
    if named is None:
        named = config.get("attention-backend") or (options.get("backend") if isinstance(options, dict) else None)
    name = named.strip().upper()[:60] if isinstance(named, str) else ""
    return "" if name == "AUTO" else name


def skipped_cache_layers(config: EngineConfig) -> tuple[str, ...]:
    """Layers (indices) and kinds of layers (``sliding_window``) that ``--kv-cache-dtype-skip-layers`` names."""
    value = config.get("kv-cache-dtype-skip-layers")
    if not isinstance(value, list):
        return ()
    return tuple(str(item).strip().lower()[:60] for item in value[:4096])
