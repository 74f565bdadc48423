"""Host memory: what a container's limit must hold, and what RAM-backed volumes take from it.

Only memory that the kernel cannot give back counts. Weights that are mapped from safetensors files are page cache: a
limit below the weights alone kills nothing (F287).

Sources: ``--cpu-offload-gb`` GiB for each GPU (vllm/config/cache.py, model_executor/offloader; sglang/srt/utils/offloader.py),
``--swap-space`` GiB for each GPU, allocated by the V0 engine only (vllm/worker/worker.py 0.6.3; no V1 worker reads it),
``--kv-offloading-size`` GiB of all ranks together (vllm/config/vllm.py 0.11.1 to 0.33.0: ``num_kv_ranks``),
``cpu_bytes_to_use`` likewise; SGLang's ``--hicache-size`` GB (10⁹) for each rank, else ``--hicache-ratio`` times the pool on
the device (sglang/srt/mem_cache/memory_pool_host.py 0.4.6 to 0.5.20); LMCACHE_MAX_LOCAL_CPU_SIZE GiB for each worker, 5
where nothing states it (lmcache/v1/config.py, F039); run:ai's streamer keeps RUNAI_STREAMER_MEMORY_LIMIT bytes in each rank,
40 GB by default (F155). Resident memory without weights: 4 GiB for one rank (F287), a few GiB more for each further one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from planner.facts.caches import mount_of
from planner.facts.environment import is_true, script_text, variable
from planner.facts.places import is_gap, key_position
from planner.record import NamedTuple
from planner.units import format_bytes, format_gib, parse_quantity

if TYPE_CHECKING:
    from planner.plan import Plan
    from planner.provenance import Position
    from planner.workloads.workload import Container, Mount

_GIB = 1 << 30
#: Resident bytes of the server and of each rank, without weights: the least that any of them gets by with, and what they
#: take as a rule.
_SERVER = (_GIB // 2, 2 * _GIB)
_RANK = (_GIB // 2, 3 * _GIB)
#: Queues between the ranks in /dev/shm (24 MiB x 10) and NCCL's segments.
_QUEUES = 256 << 20
#: Default of the storage initializer's limit in KServe's ConfigMap ``inferenceservice-config``, and from which size of
#: checkpoint downloads from the hub have been seen to need more than this (F143: 40 GB died with 1 to 2 GiB; F144).
_INITIALIZER = _GIB
_LARGE_DOWNLOAD = 20_000_000_000
_DOWNLOAD_NEEDS = 4 * _GIB


class _Part(NamedTuple):
    """A part of what a container needs: bytes at the least and as a rule."""

    text: str
    low: int
    high: int


def host_memory_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """``host_memory``: containers of the pod that have a memory limit: ``limit``, ``low`` and ``high`` (bytes that they
    need at the least and as a rule), ``text`` (what of). ``memory_volumes``: RAM-backed volumes of the engine with a size,
    and what the limit ``leaves`` them."""
    container = plan.container
    if container is None:
        return {}
    found: list[dict[str, Any]] = []
    limit = container.limits.get("memory")
    facts: dict[str, Any] = {"host_memory": found, "memory_volumes": []}
    ranks = _ranks(plan)
    parts = _on_cpu(plan) if limit is not None else []
    if limit is not None and ranks is not None:
        parts = _parts(plan, container, ranks)
    if limit is not None and parts:
        if limit.position is not None:
            positions["container.host_memory[0]"] = limit.position
        low, high = sum(part.low for part in parts), sum(part.high for part in parts)
        found.append(
            {
                "limit": int(limit.value),
                "low": low,
                "high": high,
                "who": f"The container {container.name}",
                "text": " + ".join(part.text for part in parts),
                "remedy": "Raise limits.memory, or offload less",
            }
        )
    if limit is not None:
        facts["memory_volumes"] = _memory_volumes(container, int(limit.value), ranks or 1, positions)
    found += _downloaders(plan, len(found), positions)
    return facts


def _ranks(plan: Plan) -> int | None:
    """Ranks in one pod; None where their number is not known."""
    from planner.facts.parallel import _ranks_in_pod, sizes_of

    if plan.engine.platform not in ("cuda", "rocm") or is_gap(plan, "parallel"):
        return None
    if not plan.gpu_resource and not (plan.container and plan.container.claims):
        return None  # it may well be a start on the CPU, which keeps other things in memory
    sizes = sizes_of(plan)
    return _ranks_in_pod(plan, sizes) if sizes is not None else None


def _on_cpu(plan: Plan) -> list[_Part]:
    """What vLLM's CPU backend keeps in memory: the weights, which it copies out of their files, and the cache.

    Source: vllm/v1/worker/cpu_worker.py and platforms/cpu.py 0.11.0 to 0.33.0; VLLM_CPU_KVCACHE_SPACE in GiB. Without it the
    cache takes what its release thinks fit, which is not counted here."""
    engine = plan.engine
    if engine.engine != "vllm" or engine.platform != "cpu" or engine.model is None:
        return []
    if any((engine.get(flag) or 1) != 1 for flag in ("tensor-parallel-size", "pipeline-parallel-size")):
        return []
    from planner.models.architecture import UnknownModel

    try:
        model = plan.names.resolve(engine.model.value).architecture
    except UnknownModel:
        return []
    from planner.facts.storage import model_bytes

    weights = model_bytes(model)
    if model.dtype == "float32" and engine.get("dtype") != "float32":
        weights //= 2  # "auto" takes 16 bits
    parts = [_Part(f"the server {format_gib(_SERVER[0], 1)} to {format_gib(_SERVER[1], 1)}", *_SERVER)]
    parts.append(_Part(f"the weights {format_gib(weights, 1)}", weights, weights))
    stated = variable(plan, "VLLM_CPU_KVCACHE_SPACE")
    if re.fullmatch(r"(?a)\d{1,6}", stated.text) and int(stated.text):
        space = int(stated.text) * _GIB
        parts.append(_Part(f"VLLM_CPU_KVCACHE_SPACE {stated.text} GiB", space, space))
    return parts


def _parts(plan: Plan, container: Container, ranks: int) -> list[_Part]:
    low, high = (_SERVER[end] + _RANK[end] * ranks for end in (0, 1))
    many = f"{ranks} ranks" if ranks > 1 else "one rank"
    base = f"the server and {many} {format_gib(low, 1)} to {format_gib(high, 1)}"
    parts = [_Part(base, low, high)]
    if ranks > 1:
        parts.append(_Part(f"their queues {format_bytes(_QUEUES)}", _QUEUES, _QUEUES))
    parts += _offloaded_weights(plan, ranks)
    parts += _offloaded_cache(plan, ranks)
    parts += _streamed(plan, ranks)
    volume = _weights_in_memory(plan, container)
    if volume is not None:
        parts.append(volume)
    return parts


def _offloaded_weights(plan: Plan, ranks: int) -> list[_Part]:
    amount = plan.engine.get("cpu-offload-gb")
    if not isinstance(amount, (int, float)) or not 0 < amount < 1e6 or not _reads(plan, "vllm", "sglang"):
        return []
    from planner.facts.storage import checkpoint_bytes

    wanted = int(amount * _GIB) * ranks
    # No more than there is: a rank offloads its own share of the weights at the most.
    weights = checkpoint_bytes(plan)
    low = min(wanted, weights) if weights is not None else 0
    text = f"--cpu-offload-gb {amount:g} GiB × {ranks}"
    return [_Part(text if low in (0, wanted) else f"{text}, of the weights' {format_gib(low, 1)}", low, low or wanted)]


def _offloaded_cache(plan: Plan, ranks: int) -> list[_Part]:
    engine = plan.engine
    found: list[_Part] = []

    def add(text: str, low: float, high: float = 0.0) -> None:
        if 0 < low < 1e16:
            found.append(_Part(text, int(low), int(high or low)))

    if _reads(plan, "vllm"):
        swap = plan.effective.runner == "v0" if plan.effective is not None else False
        if swap:
            amount = engine.get("swap-space") if "swap-space" in engine.flags else 4
            if isinstance(amount, (int, float)):
                add(f"--swap-space {amount:g} GiB × {ranks}", amount * _GIB * ranks)
        size = engine.get("kv-offloading-size")
        native = engine.get("kv-offloading-backend") in (None, "native")
        share = _share_of_pod(plan, ranks)
        if isinstance(size, (int, float)) and native:
            add(f"--kv-offloading-size {size:g} GiB" + (" of this pod" if share < 1 else ""), size * _GIB * share)
        transfer = engine.get("kv-transfer-config")
        connector = str(transfer.get("kv_connector")) if isinstance(transfer, dict) else ""
        extra = transfer.get("kv_connector_extra_config") if isinstance(transfer, dict) else None
        wanted = extra.get("cpu_bytes_to_use") if isinstance(extra, dict) else None
        if isinstance(wanted, (int, float)) and "Offloading" in connector:
            add(f"cpu_bytes_to_use {format_gib(wanted, 1)}", wanted * share)
        if connector.startswith("LMCache"):
            part = _lmcache(plan, ranks)
            if part is not None:
                found.append(part)
    if _reads(plan, "sglang") and engine.get("enable-hierarchical-cache") is True:
        size = engine.get("hicache-size")
        if isinstance(size, (int, float)) and size > 0:
            add(f"--hicache-size {size:g} GB × {ranks}", size * 1e9 * ranks)
        elif plan.budget is not None and plan.budget.ranks:
            # From 0.5.18 on the default depends on the mode, and from 0.5.21 on the pod's limit.
            ratio = engine.get("hicache-ratio") or (2.0 if engine.version_key < (0, 5, 18) else None)
            pool = plan.budget.ranks[0].bytes("kv_available")
            if isinstance(ratio, (int, float)) and pool.low > 0:
                add(
                    f"--hicache-ratio {ratio:g} × the cache × {ranks}",
                    ratio * pool.low * ranks,
                    ratio * pool.high * ranks,
                )
    return found


def _lmcache(plan: Plan, ranks: int) -> _Part | None:
    """LMCache's tier in host memory, of each worker."""
    if variable(plan, "LMCACHE_CONFIG_FILE").maybe_set:
        return None
    switch, size = variable(plan, "LMCACHE_LOCAL_CPU"), variable(plan, "LMCACHE_MAX_LOCAL_CPU_SIZE")
    if not (switch.known and size.known) or (switch.text and not is_true(switch.text)):
        return None
    try:
        amount = float(size.text or 5.0)
    except ValueError:
        return None
    if not 0 < amount < 1e6:
        return None
    total = int(amount * _GIB * ranks)
    stated = "" if size.text else ", its default,"
    return _Part(f"LMCACHE_MAX_LOCAL_CPU_SIZE {amount:g} GiB{stated} × {ranks}", total if size.text else 0, total)


def _streamed(plan: Plan, ranks: int) -> list[_Part]:
    """Buffers of run:ai's streamer, which every rank has for itself."""
    form = plan.engine.get("load-format")
    if not (isinstance(form, str) and form.startswith("runai_streamer")):
        return []
    from planner.facts.storage import checkpoint_bytes

    weights = checkpoint_bytes(plan)
    stated = variable(plan, "RUNAI_STREAMER_MEMORY_LIMIT")
    if not stated.known:
        return []
    limit = 40_000_000_000
    if re.fullmatch(r"-?\d{1,16}", stated.text):
        limit = int(stated.text)
    if limit < 0:
        limit = weights or 0
    each = min(limit, weights) if weights else limit
    if each <= 0:
        return []
    return [_Part(f"buffers of the streamer up to {format_gib(each, 1)} × {ranks}", 0, each * ranks)]


def _weights_in_memory(plan: Plan, container: Container) -> _Part | None:
    """Weights that lie on a RAM-backed volume."""
    reference = plan.engine.model
    if reference is None:
        return None
    from planner.facts.caches import downloads, hub_cache
    from planner.facts.user import user_of

    path = reference.value if reference.value.startswith("/") else None
    if path is None and downloads(plan) and any(mount.medium == "Memory" for mount in container.mounts):
        path = hub_cache(plan, user_of(plan)).path
    mount = mount_of(container, path) if path is not None else None
    if mount is None or mount.kind != "emptyDir" or mount.medium != "Memory":
        return None
    from planner.facts.storage import checkpoint_bytes

    weights = checkpoint_bytes(plan)
    return (
        None
        if weights is None
        else _Part(f"the weights in RAM at {mount.path} {format_gib(weights, 1)}", weights, weights)
    )


def _reads(plan: Plan, *engines: str) -> bool:
    return plan.engine.engine.removeprefix("dynamo-") in engines


def _share_of_pod(plan: Plan, ranks: int) -> float:
    """The part of an engine's ranks that stand in one pod, times the engine copies there."""
    from planner.facts.parallel import sizes_of

    sizes = sizes_of(plan)
    return ranks / sizes.world if sizes is not None and sizes.world else 1.0


# -- RAM-backed volumes ------------------------------------------------------------------------------------------------


def _memory_volumes(
    container: Container, limit: int, ranks: int, positions: dict[str, Position]
) -> list[dict[str, Any]]:
    """RAM-backed volumes with a size of their own; what is written there counts against the limit of the container."""
    found: list[dict[str, Any]] = []
    leaves = limit - _SERVER[0] - _RANK[0] * ranks
    for mount in container.mounts:
        if mount.kind != "emptyDir" or mount.medium != "Memory" or mount.size_bytes is None:
            continue
        place = _size_limit(mount)
        if place is not None:
            positions[f"container.memory_volumes[{len(found)}]"] = place
        found.append({"path": mount.path, "size": mount.size_bytes, "limit": limit, "leaves": max(leaves, 0)})
    return found


def _size_limit(mount: Mount) -> Position | None:
    node = mount.volume_node
    return key_position(node, "emptyDir", "sizeLimit") or node.position if node is not None else mount.node.position


# -- downloaders -------------------------------------------------------------------------------------------------------


def _downloaders(plan: Plan, number: int, positions: dict[str, Position]) -> list[dict[str, Any]]:
    """Init containers that fetch a large checkpoint from the hub with little memory: KServe's storage initializer, which
    it adds to the pod, and the manifest's own. Their buffers grow with the files."""
    found: list[dict[str, Any]] = []

    def add(who: str, limit: int, size: int, remedy: str, place: Position | None) -> None:
        if place is not None:
            positions[f"container.host_memory[{number + len(found)}]"] = place
        text = f"buffers for a checkpoint of {format_bytes(size)} from the hub, a few GiB"
        found.append({"limit": limit, "low": 0, "high": _DOWNLOAD_NEEDS, "who": who, "text": text, "remedy": remedy})

    initializer = _initializer(plan)
    if initializer is not None:
        limit, said, size, place = initializer
        remedy = "Raise storageInitializer.memoryLimit in KServe's ConfigMap inferenceservice-config (16Gi)"
        add(f"KServe's storage initializer ({said})", limit, size, remedy, place)
    for container in plan.pod.containers if plan.pod is not None else ():
        amount = container.limits.get("memory")
        if not container.init or amount is None or not _fetches(container):
            continue
        size = _large(plan)
        if size:
            remedy = "Raise its limits.memory, or set HF_XET_NUM_CONCURRENT_RANGE_GETS low or HF_HUB_DISABLE_XET=1"
            add(f"The init container {container.name}", int(amount.value), size, remedy, amount.position)
    return found


def _initializer(plan: Plan) -> tuple[int, str, int, Position | None] | None:
    """(limit, what says so, bytes of the checkpoint, place of the address) of the storage initializer."""
    workload, reference = plan.workload, plan.container.model if plan.container is not None else None
    if workload is None or reference is None or not reference.value.startswith("hf://"):
        return None
    if not workload.api_version.startswith("serving.kserve.io/"):
        return None
    size = _large(plan, reference.value.removeprefix("hf://"))
    if not size:
        return None
    limit, said = _INITIALIZER, "1Gi, its default"
    lookup = plan.objects.config_map("inferenceservice-config", "kserve", "") if plan.objects is not None else None
    if lookup is not None and lookup.found is not None:
        node = lookup.found.data.get("storageInitializer")
        stated = re.search(r'"memoryLimit"\s*:\s*"([^"]{1,40})"', node.text) if node is not None else None
        if stated is not None:
            try:
                limit, said = int(parse_quantity(stated.group(1))), f"{stated.group(1)} in inferenceservice-config"
            except (ValueError, OverflowError):
                return None
    return limit, said, size, reference.position


def _large(plan: Plan, name: str = "") -> int:
    """Bytes of the checkpoint where it is a large one, else 0."""
    from planner.facts.storage import checkpoint_bytes, model_bytes

    size = checkpoint_bytes(plan)
    if size is None and name:
        from planner.models.architecture import UnknownModel
        from planner.models.resolve import resolve

        try:
            size = model_bytes(resolve(name).architecture)
        except UnknownModel:
            return 0
    return size if size is not None and size >= _LARGE_DOWNLOAD else 0


_FETCHERS = r"\bhf download\b|huggingface-cli\s+download|snapshot_download"


def _fetches(container: Container) -> bool:
    return bool(re.search(_FETCHERS, script_text(container)))
