"""Where the weights come to lie, whether they have room there, and whether pods can share the volume."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from planner.engines.image_users import holds_no_model
from planner.facts.caches import Cache, downloads, has_room_elsewhere, hub_cache, mount_of
from planner.facts.environment import variable
from planner.facts.places import key_position
from planner.facts.rollout import surge_remedy, surges

if TYPE_CHECKING:
    from planner.facts.user import User
    from planner.models.architecture import ModelArchitecture
    from planner.plan import Plan
    from planner.provenance import Position
    from planner.workloads.workload import Container, Mount, Pod

#: Kinds whose pods have no other volumes than the manifest gives them, beside those of ``workload.as_written``.
_OWN_VOLUMES_ONLY = ("DynamoGraphDeployment", "RayService", "RayCluster", "RayJob", "RayClusterFleet")
#: Storage whose claims name a size that nothing enforces: network file systems without quotas, folders of the node, buckets.
_NOMINAL = (
    r"nfs|efs|local-?path|host-?path|gcsfuse|gcs|s3|blob|juicefs|lustre|fsx|cephfs|filestore|azurefile|smb|rook-cephfs"
)
#: How much of a checkpoint's computed size its files have at the least: the engine adds tables, and repacks what is
#: quantized.
_FILES, _QUANTIZED_FILES = 0.995, 0.97
#: The most GPUs that one node has (p2.16xlarge, a2-megagpu-16g), and of those that come on boards of eight.
_GPUS_OF_A_NODE, _GPUS_OF_A_BOARD = 16, 8
_ON_BOARDS = frozenset(
    ("H100-80GB-SXM", "H200", "H800-80GB-SXM", "H20-96GB", "H20-141GB", "B200", "B300", "MI300X", "MI325X", "MI355X")
)


def storage_facts(plan: Plan, user: User | None, positions: dict[str, Position]) -> dict[str, Any]:
    """``cache``: where the engine downloads its weights to; ``stores``: volumes that must hold something of a known size;
    ``shared_claims``: claims that several pods mount."""
    container, pod = plan.container, plan.pod
    if container is None or pod is None:
        return {}
    return {
        "cache": _cache(plan, container, user, positions),
        "stores": _stores(plan, container, pod, user, positions),
        "shared_claims": _shared_claims(plan, container, pod, positions),
    }


def checkpoint_bytes(plan: Plan) -> int | None:
    """The least bytes that the model's weight files can have; None where the model is not known."""
    return None if plan.model is None else model_bytes(plan.model)


def model_bytes(model: ModelArchitecture) -> int:
    """The least bytes that a model's weight files can have: as measured, else what its parts take on one rank."""
    if model.checkpoint_bytes:
        return model.checkpoint_bytes
    from planner.engines.config import Parallelism
    from planner.memory.weights import rank_weights

    term = rank_weights(model, Parallelism(), 0, 0, engine_version=(0, 11, 0), dtype=model.dtype)
    return int(term.bytes.low * (_QUANTIZED_FILES if model.quantization else _FILES))


# -- where the weights come to lie -------------------------------------------------------------------------------------


def _volumes_are_known(plan: Plan) -> bool:
    """Whether the pod has no volumes that an operator or a chart adds."""
    workload, container = plan.workload, plan.container
    if workload is None or container is None:
        return False
    from planner.facts.workload import _TAKEN_AS_WRITTEN

    if workload.kind in _TAKEN_AS_WRITTEN or workload.kind in _OWN_VOLUMES_ONLY:
        return True
    # The chart of vLLM's production stack: a volume for models where pvcStorage asks for one.
    return "servingEngineSpec.modelSpec[" in container.node.path


def _cache(plan: Plan, container: Container, user: User | None, positions: dict[str, Position]) -> dict[str, Any]:
    """``downloads``; and where the weights go: ``kind`` (``layer`` for the container's own file system, else the volume's),
    ``path``, ``by``, ``replicas``, ``size_text``. ``kind`` is absent where it is not known, for ``gap``."""
    cache = _nim_cache(plan)
    if cache is None:
        if not downloads(plan) or not _volumes_are_known(plan):
            return {"downloads": False}
        cache = hub_cache(plan, user)
    if cache.position is not None:
        positions["container.cache"] = cache.position
    facts: dict[str, Any] = {"downloads": True, "by": cache.by, "path": cache.path or "its cache"}
    facts["what"] = plan.engine.model.value if plan.engine.model is not None else "The model"
    facts["mover"] = cache.set_by
    facts["unread"] = _unread(plan, container)
    mount = mount_of(container, cache.path) if cache.path is not None else None
    if mount is not None:
        facts["kind"] = mount.kind or "undeclared"
    elif cache.path is None and has_room_elsewhere(container):
        facts["gap"] = cache.reason
        facts["gap_remedy"] = f"state it: {cache.set_by} with the folder of a volume"
    elif container.image is None or not holds_no_model(container.image.value):
        facts["gap"] = "no volume is mounted for the model, which may be a part of the image"
        facts["gap_remedy"] = "say that it is: HF_HUB_OFFLINE=1; else mount a volume for it"
    else:
        facts["kind"] = "layer"
        # Wherever the cache is where its folder is not known, it is not on a volume.
        facts["where"] = (
            f"{cache.path} ({cache.by}) is on no volume" if cache.path else "no volume is mounted that could hold it"
        )
    return facts


def _nim_cache(plan: Plan) -> Cache | None:
    """The folder that a NIM is told to keep its model in; None for other engines, where nothing tells it, and where an
    operator or a chart mounts a volume there."""
    workload = plan.workload
    if plan.engine.engine != "nim" or workload is None:
        return None
    if not (_volumes_are_known(plan) or workload.kind in ("ServingRuntime", "ClusterServingRuntime")):
        return None
    item = variable(plan, "NIM_CACHE_PATH")
    if not item.text.startswith("/") or item.text.startswith("/mnt/models"):
        return None
    return Cache(item.text, "NIM_CACHE_PATH", "NIM_CACHE_PATH", item.position)


def _unread(plan: Plan, container: Container) -> str:
    """A variable that points at a volume and is not what decides: what to say about it."""
    item = variable(plan, "TRANSFORMERS_CACHE")
    if item.text and mount_of(container, item.text) is not None:
        return " TRANSFORMERS_CACHE, which points at a volume, is not read for weights."
    return ""


# -- room --------------------------------------------------------------------------------------------------------------


def _stores(
    plan: Plan, container: Container, pod: Pod, user: User | None, positions: dict[str, Position]
) -> list[dict[str, Any]]:
    """What must hold the weights (or a cache on disk) and says how much it can: ``what``, ``needed``, ``size`` (bytes),
    ``where``, and ``enforced``: whether more than that certainly fails."""
    found: list[dict[str, Any]] = []

    def add(what: str, needed: int, room: tuple[int, str, bool, Position | None]) -> None:
        size, where, enforced, place = room
        if place is not None:
            positions[f"container.stores[{len(found)}]"] = place
        found.append({"what": what, "needed": needed, "size": size, "where": where, "enforced": enforced})

    path = _weights_path(plan, user)
    room = _room(container, pod, path) if path is not None else None
    if room is not None:
        needed = checkpoint_bytes(plan)
        if needed is not None and plan.model is not None:
            add(f"The weights of {plan.model.id}", needed, room)
    disk = _lmcache_disk(plan)
    if disk is not None:
        folder, total, text = disk
        room = _room(container, pod, folder)
        if room is not None:
            add(text, total, room)
    return found


def _weights_path(plan: Plan, user: User | None) -> str | None:
    """The folder that holds the weights, downloaded or not."""
    reference = plan.engine.model
    if reference is not None and reference.value.startswith("/"):
        return reference.value.rstrip("/")
    if downloads(plan) and _volumes_are_known(plan):
        return hub_cache(plan, user).path
    return None


def _room(container: Container, pod: Pod, path: str) -> tuple[int, str, bool, Position | None] | None:
    """What can be kept at a path: (bytes, what limits it, whether it is enforced, place); None where nothing says."""
    mount = mount_of(container, path)
    if mount is None:
        limit = container.limits.get("ephemeral-storage")
        if limit is None:
            return None
        return int(limit.value), "the container's ephemeral-storage limit", True, limit.position
    if mount.kind == "emptyDir" and mount.medium != "Memory":
        amounts = [item.limits.get("ephemeral-storage") for item in pod.containers if not item.init]
        stated = [item for item in amounts if item is not None]
        total = int(sum(item.value for item in stated))
        if stated and len(stated) == len(amounts) and (mount.size_bytes is None or total < mount.size_bytes):
            return total, "the pod's ephemeral-storage limits, which count its emptyDirs", True, stated[0].position
    if mount.size_bytes is None:
        return None
    place = _size_place(mount)
    if mount.kind == "emptyDir":
        return mount.size_bytes, f"the emptyDir at {mount.path}", True, place
    if mount.kind in ("persistentVolumeClaim", "ephemeral"):
        claim = mount.claim
        shared = claim is not None and any(mode in ("ReadWriteMany", "ReadOnlyMany") for mode in claim.access_modes)
        storage = claim.storage_class if claim is not None else ""
        if re.search(_NOMINAL, storage.lower()):
            return None
        name = f"the claim {mount.source} at {mount.path}" if mount.source else f"the volume at {mount.path}"
        return mount.size_bytes, name, not shared, place
    return None


def _size_place(mount: Mount) -> Position | None:
    node = mount.volume_node
    if mount.claim is not None and mount.claim.size_bytes is not None:
        return mount.claim.size_bytes.position
    if node is not None:
        return key_position(node, "emptyDir", "sizeLimit") or node.position
    return mount.node.position


def _lmcache_disk(plan: Plan) -> tuple[str, int, str] | None:
    """LMCache's tier on disk: (folder, bytes of all workers of the pod, text). Each worker keeps its own.

    Source: LMCACHE_LOCAL_DISK and LMCACHE_MAX_LOCAL_DISK_SIZE (GiB a worker) of lmcache/v1/config.py; F039."""
    size = variable(plan, "LMCACHE_MAX_LOCAL_DISK_SIZE").text
    folder = variable(plan, "LMCACHE_LOCAL_DISK").text.removeprefix("file://")
    try:
        one = float(size)
    except ValueError:
        return None
    if not folder.startswith("/") or not 0 < one < 1e9:
        return None
    from planner.facts.parallel import _ranks_in_pod, sizes_of

    sizes = sizes_of(plan)
    ranks = _ranks_in_pod(plan, sizes) if sizes is not None else 1
    text = f"LMCache's files ({size} GiB for each of {ranks} workers)"
    return folder.rstrip("/"), int(one * 2**30 * ranks), text


# -- sharing -----------------------------------------------------------------------------------------------------------


def _shared_claims(plan: Plan, container: Container, pod: Pod, positions: dict[str, Position]) -> list[dict[str, Any]]:
    """Claims that one node (``mode`` ``ReadWriteOnce``) or one pod (``ReadWriteOncePod``) may use at a time, and how many
    pods mount them: ``pods``; ``surge``: a rolling update starts one more, which ``remedy`` prevents; ``apart``: why they
    certainly stand on several nodes (empty where they may share one)."""
    workload = plan.workload
    if workload is None:
        return []
    found: list[dict[str, Any]] = []
    replicas = (
        workload.replicas if workload.replicas is not None else (workload.max_replicas or workload.min_replicas or 1)
    )
    for mount in container.mounts:
        claim = mount.claim
        own = mount.kind != "persistentVolumeClaim" or (
            mount.volume_node is not None and mount.volume_node.get("spec") is not None
        )
        if own or claim is None or not claim.access_modes:
            continue
        modes = set(claim.access_modes)
        if modes & {"ReadWriteMany", "ReadOnlyMany"} or any(item["claim"] == mount.source for item in found):
            continue
        mode = "ReadWriteOncePod" if "ReadWriteOncePod" in modes else "ReadWriteOnce"
        group = sum(item.count for item in workload.pods if _mounts(item, mount.source))
        pods = replicas * max(group, 1)
        positions[f"container.shared_claims[{len(found)}]"] = (
            key_position(claim.node, "spec", "accessModes") or mount.node.position
        )
        found.append(
            {
                "claim": mount.source,
                "mode": mode,
                "pods": pods,
                "surge": surges(workload),
                "remedy": surge_remedy(workload),
                "apart": _apart(plan, pod, pods) if pods > 1 else "",
            }
        )
    return found


def _mounts(pod: Pod, claim: str) -> bool:
    return any(
        mount.source == claim and mount.kind == "persistentVolumeClaim"
        for container in pod.containers
        for mount in container.mounts
    )


def _apart(plan: Plan, pod: Pod, pods: int) -> str:
    """Why the pods cannot stand on one node; empty where they may."""
    gpus = plan.gpus_per_pod.value if plan.gpus_per_pod is not None and plan.gpu_kind in ("", "gpu", "claim") else 0
    name = plan.accelerator.name if plan.accelerator is not None else ""
    if gpus * pods > (_GPUS_OF_A_BOARD if name in _ON_BOARDS else _GPUS_OF_A_NODE):
        return f"{pods} pods with {gpus} GPUs each are more than one node has"
    rules = pod.spec.get("affinity", "podAntiAffinity") if pod.spec is not None else None
    required = rules.get("requiredDuringSchedulingIgnoredDuringExecution") if rules is not None else None
    for term in required or ():
        if term.string("topologyKey") != "kubernetes.io/hostname":
            continue
        labels = term.get("labelSelector", "matchLabels")
        if labels is not None and all(pod.labels.get(key) == value.text for key, value in labels.items()):
            return "their anti-affinity keeps them on different nodes"
    return ""
