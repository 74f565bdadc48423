"""Where an engine puts what it downloads and compiles, and whether it may write there.

Sources: huggingface_hub/constants.py (``HF_HUB_CACHE`` before ``HUGGINGFACE_HUB_CACHE`` before ``HF_HOME``/hub before
``XDG_CACHE_HOME``/huggingface/hub before ~/.cache/huggingface/hub; ``TRANSFORMERS_CACHE`` is not among them);
vllm/model_executor/model_loader/weight_utils.py (``cache_dir=--download-dir``, modelscope with ``VLLM_USE_MODELSCOPE``);
vllm/envs.py (``VLLM_CACHE_ROOT``); triton/knobs.py (``TRITON_CACHE_DIR``, ``TRITON_HOME``); flashinfer/jit/env.py
(``FLASHINFER_WORKSPACE_BASE``); text-generation-inference's launcher (``--huggingface-hub-cache``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from planner.facts.environment import is_true, stated, variable
from planner.record import NamedTuple

if TYPE_CHECKING:
    from planner.facts.user import User
    from planner.plan import Plan
    from planner.provenance import Position
    from planner.workloads.workload import Container, Mount


class Cache(NamedTuple):
    """A folder of the engine's process. ``path`` is None where it is not known, for ``reason``; ``by`` is what decides it
    (a variable, a flag, the home), ``set_by`` the variable that moves it."""

    path: str | None
    by: str
    set_by: str
    position: Position | None = None
    reason: str = ""


_HUB_ID = r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(?:[:@][\w.-]+)?"
#: Engines that load a model by its name on the hub themselves.
LOADERS = ("vllm", "dynamo-vllm", "sglang", "dynamo-sglang", "tgi", "trtllm")
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
#: First parts of names that are folders beside the engine rather than owners on the hub.
_FOLDERS = frozenset(("models", "model", "data", "mnt", "workspace", "checkpoints", "weights", "cache", "opt"))


def downloads(plan: Plan) -> bool:
    """Whether the engine downloads its weights from the hub when it starts: it is told a name there, it is not offline,
    and no operator puts the model into a folder of the container."""
    engine, container = plan.engine, plan.container
    reference = engine.model
    if reference is None or container is None or engine.engine not in LOADERS:
        return False
    name = reference.value
    if not re.fullmatch(_HUB_ID, name) or name.partition("/")[0].lower() in _FOLDERS:
        return False
    if reference.provenance.source == "engine-default" or (container.model_paths and container.model is reference):
        return False
    if engine.get("load-format") == "dummy":
        return False
    if any(mount.path.strip("/") == name for mount in container.mounts):  # a folder below the working directory
        return False
    # A switch whose value is not known may be on.
    switches = (stated(plan, name) for name in _OFFLINE)
    return not any(item is not None and (not item.known or is_true(item.text)) for item in switches)


def hub_cache(plan: Plan, user: User | None) -> Cache:
    """The folder that the engine downloads weights to."""
    engine = plan.engine
    own = "huggingface-hub-cache" if engine.engine == "tgi" else "download-dir"
    flag = engine.flags.get(own)
    if flag is not None:
        if not flag.known or not isinstance(flag.value, str):
            return Cache(None, f"--{own}", f"--{own}", flag.position, f"--{own} is {flag.raw!r}")
        return _absolute(Cache(flag.value, f"--{own}", f"--{own}", flag.value_position or flag.position), user)
    image = user.image if user is not None else None
    if any(is_true(variable(plan, f"{name}_USE_MODELSCOPE", image).text) for name in ("VLLM", "SGLANG")):
        return _by_variables(plan, user, (("MODELSCOPE_CACHE", ""),), ".cache/modelscope", "MODELSCOPE_CACHE")
    variables = (
        ("HF_HUB_CACHE", ""),
        ("HUGGINGFACE_HUB_CACHE", ""),
        ("HF_HOME", "hub"),
        ("XDG_CACHE_HOME", "huggingface/hub"),
    )
    return _by_variables(plan, user, variables, ".cache/huggingface/hub", "HF_HOME")


def compile_caches(plan: Plan, user: User | None) -> list[tuple[str, Cache]]:
    """What else the engine writes while it starts: (what it is, where)."""
    found = []
    if "vllm" in plan.engine.engine:
        variables = (("VLLM_CACHE_ROOT", ""), ("XDG_CACHE_HOME", "vllm"))
        found.append(("vLLM's", _by_variables(plan, user, variables, ".cache/vllm", "VLLM_CACHE_ROOT")))
    if "vllm" in plan.engine.engine or "sglang" in plan.engine.engine:
        variables = (("TRITON_CACHE_DIR", ""), ("TRITON_HOME", ".triton/cache"))
        found.append(("Triton's", _by_variables(plan, user, variables, ".triton/cache", "TRITON_CACHE_DIR")))
    return found


def _by_variables(
    plan: Plan, user: User | None, variables: tuple[tuple[str, str], ...], below_home: str, set_by: str
) -> Cache:
    image = user.image if user is not None else None
    for name, below in variables:
        item = variable(plan, name, image)
        if item.text:
            path = f"{item.text.rstrip('/')}/{below}" if below else item.text
            mover = set_by if name == "XDG_CACHE_HOME" else name
            return _absolute(Cache(path, name, mover, item.position), user)
        if not item.known:
            return Cache(None, name, set_by, item.position, item.reason)
    if user is None or user.home is None:
        reason = user.reason if user is not None else "there is no container"
        return Cache(None, "the home", set_by, None, reason)
    return Cache(f"{user.home.rstrip('/')}/{below_home}", user.home_by, set_by)


def _absolute(cache: Cache, user: User | None) -> Cache:
    path = cache.path or ""
    if path.startswith("~") and user is not None and user.home is not None:
        path = user.home.rstrip("/") + path[1:]
    if not path.startswith("/"):
        return cache._replace(path=None, reason=f"{cache.by} is no absolute path: {path[:80]!r}")
    return cache._replace(path=path)


# -- what stands at a path ---------------------------------------------------------------------------------------------

#: Volumes that hold a few files of the cluster's, and nothing that an engine writes.
_SMALL = ("configMap", "secret", "projected", "downwardAPI", "serviceAccountToken")
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/run/lock")


def mount_of(container: Container, path: str) -> Mount | None:
    """The mount that a path lies on: the one with the longest path above it, None where it lies in the container."""
    best: Mount | None = None
    for mount in container.mounts:
        base = mount.path.rstrip("/")
        if base and (path == base or path.startswith(base + "/")) and (best is None or len(base) > len(best.path)):
            best = mount
    return best


def has_room_elsewhere(container: Container) -> bool:
    """Whether any volume of the container could hold a model."""
    return any(
        mount.kind not in _SMALL and mount.medium != "Memory" and not mount.path.startswith(("/dev", "/etc", "/run"))
        for mount in container.mounts
    )


def may_write(container: Container, user: User, path: str) -> bool | None:
    """Whether the user may write to a folder, creating it where it is missing; None where that is not known.

    Volumes are taken to be writable unless they are mounted read-only: whom they belong to only the storage knows."""
    mount = mount_of(container, path)
    if mount is not None:
        return not (mount.read_only or mount.kind in ("configMap", "secret"))
    if user.read_only:
        return False
    if user.is_root:
        return True
    if not user.is_other:
        return None
    if any(path == folder or path.startswith(folder + "/") for folder in _TEMPORARY):
        return True
    first = "/" + path.strip("/").partition("/")[0]
    if first in ("/root", "/nonexistent"):
        return False
    image = user.image
    if image is None:
        # The root of an image belongs to root; a hidden folder in it is one that nobody has prepared.
        return False if first.startswith("/.") else None
    own = image.writable_home(user.uid if user.uid is not None else -1, user.gid if user.gid is not None else -1)
    if own and (path == own or path.startswith(own + "/")):
        return True
    return None if first in ("/home", "/opt", "/vllm-workspace", "/sgl-workspace", "/workspace", "/data") else False
