"""What a container fetches from the model hub at its start: whether it may, and which code it then runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from planner.facts.environment import script_text, stated, unseen

if TYPE_CHECKING:
    from planner.plan import Plan
    from planner.provenance import Position
    from planner.workloads.workload import Container, Pod

#: Variables that huggingface_hub takes a token from, or a file with one (huggingface_hub/constants.py, utils/_auth.py), and
#: TGI's older name.
_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HUGGINGFACE_TOKEN", "HF_API_TOKEN")
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
_OTHER_HUBS = ("VLLM_USE_MODELSCOPE", "SGLANG_USE_MODELSCOPE")
_TRUE = ("1", "true", "yes", "on")
#: Words of a command that gives the hub library a token otherwise.
_LOGINS = ("hf auth login", "huggingface-cli login", "login(", "--hf-token")
_HUB_ID = r"(?a)[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}"
_COMMIT = r"[0-9a-f]{7,40}"
#: Words of a command that fetches a model, with a token of its own or without.
_FETCHES = ("snapshot_download", "hf download", "huggingface-cli", "hf_transfer", "git clone", "aws s3", "gsutil", "gcloud",
            "rclone", "azcopy", "oras", "wget", "curl", "rsync", "cp -")  # fmt: skip


def hub_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """``gated_downloads``: a gated model that the container fetches without a token (``model``, ``empty`` where a variable for
    one is there and empty). ``remote_code``: a model whose code is trusted at no fixed revision (``model``, ``revision`` in
    words)."""
    container, pod, reference = plan.container, plan.pod, plan.engine.model
    if container is None or pod is None or reference is None or not _fetched(plan, container, reference.value):
        return {"gated_downloads": [], "remote_code": []}
    return {
        "gated_downloads": _gated(plan, container, pod, positions),
        "remote_code": _remote_code(plan, reference.value, positions),
    }


def _fetched(plan: Plan, container: Container, reference: str) -> bool:
    """Whether the engine fetches its model from Hugging Face by its id, as far as the manifest tells."""
    name = reference.removeprefix("hf://").partition(":")[0].partition("@")[0]
    if not re.fullmatch(_HUB_ID, name):
        return False
    if any(_is_set(plan, variable) for variable in (*_OFFLINE, *_OTHER_HUBS)):
        return False
    endpoint = stated(plan, "HF_ENDPOINT")
    if endpoint is not None and not any(host in endpoint.text for host in ("huggingface.co", "hf-mirror")):
        return False
    local = any(mount.path.strip("/") == name for mount in container.mounts)
    return not local and plan.engine.get("load-format") not in ("runai_streamer", "tensorizer")


def _is_set(plan: Plan, name: str) -> bool:
    """Whether a switch is on, or may be."""
    variable = stated(plan, name)
    return variable is not None and (not variable.known or variable.text.strip().lower() in _TRUE)


def _gated(plan: Plan, container: Container, pod: Pod, positions: dict[str, Position]) -> list[dict[str, Any]]:
    if not plan.gated or plan.model is None or unseen(plan):
        return []
    empty, place = "", None
    for name in _TOKENS:
        variable = stated(plan, name)
        if variable is None:
            continue
        if variable.maybe_set and (not variable.known or variable.text.strip()):
            return []
        if not empty:
            empty, place = name, variable.position
    texts = script_text(container)
    if any(word in texts for word in _LOGINS):
        return []
    # A script may hand a token on in a way that is not followed; one that it sets to nothing it does not.
    by_script = plan.start is not None and any(name in _TOKENS for name, _ in plan.start.environment)
    if not by_script and any(word in texts for word in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")):
        return []
    # A Secret that is mounted may be the token's file, wherever HF_HOME or the script points.
    if any(mount.kind in ("secret", "projected", "csi") for mount in container.mounts):
        return []
    if "env-file" in texts or _filled_before(container, pod):
        return []
    if place is not None:
        positions["container.gated_downloads[0]"] = place
    elif plan.engine.model is not None and plan.engine.model.position:
        positions["container.gated_downloads[0]"] = plan.engine.model.position
    return [{"model": plan.model.id, "empty": empty}]


def _filled_before(container: Container, pod: Pod) -> bool:
    """Whether something in the pod may have put the model into the cache before: an init container that has a token, shares
    a volume with the engine, or fetches."""
    volumes = {mount.volume for mount in container.mounts}
    for other in pod.containers:
        if other is container:
            continue
        if any(name in other.env for name in _TOKENS) or (other.init and volumes & {m.volume for m in other.mounts}):
            return True
        if other.init and any(word in script_text(other) for word in _FETCHES):
            return True
    return False


def _remote_code(plan: Plan, reference: str, positions: dict[str, Position]) -> list[dict[str, Any]]:
    engine = plan.engine
    if engine.get("trust-remote-code") is not True:
        return []
    revision = engine.flags.get("code-revision") or engine.flags.get("revision")
    pinned = "@" in reference
    if revision is not None:
        if not revision.known or not isinstance(revision.value, str):
            return []
        pinned = pinned or bool(re.fullmatch(_COMMIT, revision.value.strip()))
    if pinned:
        return []
    flag = engine.flags["trust-remote-code"]
    place = flag.position or flag.value_position
    if place is not None:
        positions["container.remote_code[0]"] = place
    said = f"only the revision {revision.value[:60]}, which can move," if revision is not None else "no fixed revision"
    return [{"model": reference, "revision": said}]
