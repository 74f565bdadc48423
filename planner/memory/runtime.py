"""Memory that is no tensor of the engine: CUDA context, communicators, kernel modules; and the runner's own buffers."""

from __future__ import annotations

from planner.accelerators.accelerator import Accelerator
from planner.engines.config import EffectiveConfig
from planner.estimate import Estimate
from planner.memory.budget import Input, Term
from planner.memory.coefficients import (
    COMMUNICATORS_GIB,
    CONTEXT_COMMUNICATORS_GIB,
    CONTEXT_GIB,
    NON_TORCH_GIB,
    Spread,
)
from planner.models.architecture import ModelArchitecture
from planner.units import GIB, MIB, format_bytes

#: Share of the memory of a unified device that the host's own processes take, as its engines print it (GB10, Jetson).
_HOST_SHARE: Spread = (0.03, 0.07, 0.1)
#: GiB of page cache that may sit in the memory of a device that the host reaches coherently (GH200) before a start, and
#: the share of the weights' files that reading them may add: one public start lost 24.5 of its 50 GiB of weights that way.
_PAGE_CACHE_GIB = 11.0
_PAGE_CACHE_SHARE = 0.5
#: GiB that other pods may hold on a time-sliced device; nothing bounds it, so this widens the interval only.
_NEIGHBOURS_GIB = 2.0


def non_torch(
    config: EffectiveConfig,
    accelerator: Accelerator | None,
    model: ModelArchitecture | None = None,
    rest: int = 0,
    weights: int = 0,
) -> Term:
    """Bytes of one rank that the engine charges to its budget and that are no tensor of the model or of a forward pass.

    ``rest``: bytes that the allocator holds beyond the weights' tensors, which the engine counts with the weights.
    ``weights``: their bytes, which the page cache of the host may hold a second time on a coherent device.

    Up to vLLM 0.10.2 the first snapshot is taken before the communicators exist, so that they are charged; from 0.11.0
    only the growth after them is. V0 up to 0.6.4 and V1 up to 0.9.0 charge all memory in use on the device. From 0.27 on
    the engine charges every persistent allocation, and with ``model`` the state of runner V2's sampler is added.
    Source: reference on vLLM's memory, 1.1 (step 5), 1.2, 6.5, 7.2, and start-up logs.
    """
    device = device_class(accelerator)
    parts = [NON_TORCH_GIB[device]]
    inputs = [Input("device class", device, "growth of one GPU's process, from start-up logs")]
    link = link_kind(config, accelerator)
    if link:
        ranks = config.parallel.world
        each = COMMUNICATORS_GIB[link]
        if link == "pcie":
            each = (each[0] * ranks, each[1] * ranks, each[2] * ranks)
        parts.append(each)
        inputs.append(Input("communicators", f"{parts[-1][1]:.2f} GiB", f"{ranks} ranks ({link.split('_')[0]})"))
    if charges_whole_device(config):
        parts.append(CONTEXT_GIB)
        inputs.append(
            Input("context", f"{CONTEXT_GIB[1]:.2f} GiB", "this release charges all memory in use on the device")
        )
    bounds = [int(sum(part[bound] for part in parts) * GIB) for bound in range(3)]
    workspace = _attention_workspace(config, accelerator, model)
    if workspace:
        bounds = [bounds[0], bounds[1] + workspace, bounds[2] + workspace]
        inputs.append(
            Input("attention workspace", format_bytes(workspace), "FlashInfer's buffer, where its kernels run")
        )
    state = _runner_state(config, model)
    if state:
        bounds = [bound + state for bound in bounds]
        inputs.append(Input("sampler state", format_bytes(state), "max_num_seqs × vocabulary counts of runner V2"))
    if _page_cache_grows(accelerator) and weights:
        bounds[2] += int(weights * _PAGE_CACHE_SHARE)
        inputs.append(
            Input("page cache", f"up to {format_bytes(weights * _PAGE_CACHE_SHARE)}", "files read while loading")
        )
    if rest:
        bounds = [bound + rest for bound in bounds]
        inputs.append(Input("allocator", format_bytes(rest), "ends of segments that the weights' tensors leave unused"))
    return Term(
        "non_torch",
        Estimate(bounds[0], bounds[1], bounds[2], "measured"),
        "growth outside the allocator until the end of the profile run + what the allocator rounds up",
        tuple(inputs),
        (("concurrency", f"{format_bytes(state / config.max_num_seqs.value)} per sequence"),) if state else (),
    )


def baseline(config: EffectiveConfig, accelerator: Accelerator | None) -> Term:
    """What the device holds before the engine's first snapshot (context, and from 0.11.0 the communicators), in bytes.

    It is not charged to the engine's share, but must fit beside it: the engine refuses to start where less than its share
    is free. On unified devices it is the memory of the host's processes. Source: reference on vLLM's memory, 1.1, 7.2.
    """
    bounds = list(CONTEXT_GIB)
    inputs = [Input("context", f"{CONTEXT_GIB[1]:.2f} GiB", "CUDA context of one process, from start-up logs")]
    link = link_kind(config, accelerator)
    if link and config.version >= (0, 11):
        extra = CONTEXT_COMMUNICATORS_GIB["pcie" if link in ("pcie", "pair") else "mesh"]
        bounds = [bound + more for bound, more in zip(bounds, extra, strict=True)]
        inputs.append(Input("communicators", f"{extra[1]:.2f} GiB", f"{config.parallel.world} ranks"))
    if accelerator is not None and accelerator.unified:
        total = accelerator.memory.expected / GIB
        bounds = [bound + share * total for bound, share in zip(bounds, _HOST_SHARE, strict=True)]
        inputs.append(Input("host", f"{_HOST_SHARE[1] * total:.1f} GiB", "processes of the host share the memory"))
    if _page_cache_grows(accelerator):
        bounds[2] += _PAGE_CACHE_GIB
        inputs.append(
            Input("page cache", f"up to {_PAGE_CACHE_GIB:g} GiB", "the host may cache files in device memory")
        )
    if accelerator is not None and accelerator.shared:
        bounds[2] += _NEIGHBOURS_GIB
        inputs.append(Input("neighbours", "not known", "other pods share the device"))
    return Term(
        "baseline",
        Estimate(int(bounds[0] * GIB), int(bounds[1] * GIB), int(bounds[2] * GIB), "measured"),
        "in use before the engine's first snapshot",
        tuple(inputs),
    )


def device_class(accelerator: Accelerator | None) -> str:
    """The class of devices whose processes grow alike, a key of ``NON_TORCH_GIB``."""
    if accelerator is None:
        return "hopper"
    if accelerator.unified:
        return "unified"
    if accelerator.vendor == "amd":
        return "rocm"
    capability = accelerator.capability or (9, 0)
    if capability >= (10, 0):
        return "blackwell"
    return "hopper" if capability >= (9, 0) else "ampere"


def link_kind(config: EffectiveConfig, accelerator: Accelerator | None) -> str:
    """How the ranks of one copy are linked, a key of ``COMMUNICATORS_GIB``; empty for a single rank."""
    return link_of(accelerator, config.parallel.world, config.version)


def link_of(accelerator: Accelerator | None, ranks: int, version: tuple[int, ...]) -> str:
    """As ``link_kind``, for a number of ranks and a release.

    Multicast over NVLink, which takes most of the memory, needs Hopper or later and more than two ranks; partitions of a GPU
    reach each other neither by NVLink nor as peers.
    """
    if ranks <= 1:
        return ""
    fast = accelerator is None or (
        "NVLink" in accelerator.interconnect
        and "bridge" not in accelerator.interconnect
        and not accelerator.partition
        and (accelerator.capability or (0, 0)) >= (9, 0)
    )
    if not fast:
        return "pcie"
    if ranks == 2:
        return "pair"
    return "mesh_later" if version >= (0, 27) else "mesh"


def charges_whole_device(config: EffectiveConfig) -> bool:
    """Whether this release charges all memory in use on the device, other processes' and the CUDA context included."""
    if config.runner == "v0":
        return config.version < (0, 6, 6)
    return config.version < (0, 9, 1)


def _page_cache_grows(accelerator: Accelerator | None) -> bool:
    """Whether the host may keep files in the device's memory: seen on Grace Hopper alone, which offers it as a NUMA node."""
    return accelerator is not None and accelerator.coherent and (accelerator.capability or (0, 0)) == (9, 0)


def _attention_workspace(
    config: EffectiveConfig, accelerator: Accelerator | None, model: ModelArchitecture | None
) -> int:
    """FlashInfer's buffer in bytes where the engine charges it (from 0.20) and its kernels are likely: on data-centre
    Blackwell, and for an fp8 cache on cards whose FlashAttention has none. Source: reference on vLLM's memory, 6.5, 8.1.
    """
    if model is None or accelerator is None or accelerator.capability is None or config.version < (0, 20):
        return 0
    if model.is_multi_latent or config.runner == "v0" or not model.heads:
        return 0
    major = accelerator.capability[0]
    if major != 10 and not (config.kv_cache_dtype.value.startswith("fp8") and major in (8, 12)):
        return 0
    rows = config.max_num_batched_tokens.value * (model.heads // config.parallel.tensor) * model.head_dim
    return max(394 * MIB, 16 * rows) if config.version >= (0, 26) else 394 * MIB


def _runner_state(config: EffectiveConfig, model: ModelArchitecture | None) -> int:
    """Output counts (int32), prompt mask and grammar bitmask (a bit each) of runner V2, where the engine charges them."""
    if model is None or config.runner != "v2" or config.version < (0, 27) or model.pooling:
        return 0
    rows, vocabulary = config.max_num_seqs.value, model.vocab_size
    return rows * (4 * vocabulary + vocabulary // 8 + (1 + config.speculative_tokens) * (vocabulary // 8))
