"""Which user the engine's process is, its home, and whether the image knows it by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.facts.environment import Variable, variable
from planner.facts.places import key_position
from planner.record import NamedTuple

if TYPE_CHECKING:
    from planner.documents.node import Node
    from planner.engines.image_users import ImageUser
    from planner.plan import Plan
    from planner.provenance import Position

#: Releases of vLLM that import ``torch._inductor``'s cache folder at start, which asks for the user's name, with a torch
#: (2.11) that fails where there is none; torch 2.13 falls back. Source: vLLM issue 44548, pull request 46734, ``torch==`` in
#: the metadata of the wheels 0.21.0 (2.11.0, not imported yet) to 0.27.0 (2.13.0).
_NAME_NEEDED, _NAME_NOT_NEEDED = (0, 22, 0), (0, 27, 0)
#: What ``getpass.getuser`` asks before the passwd file.
_NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")


class User(NamedTuple):
    """The user of the engine's container.

    ``uid`` is None where it is not known, and where the platform assigns one (``assigned``: the pod names no user in an image
    whose user is root, and must not run as root or runs under OpenShift's restricted policy). ``home`` None where it is not
    known, for ``reason``. ``read_only``: the root file system is mounted read-only. ``image``: what is known of the engine's
    own image.
    """

    uid: int | None
    gid: int | None
    assigned: bool
    read_only: bool
    home: str | None
    home_by: str
    image: ImageUser | None
    place: Position | None = None
    reason: str = ""

    @property
    def is_root(self) -> bool:
        """Whether it is surely root."""
        return self.uid == 0

    @property
    def is_other(self) -> bool:
        """Whether it is surely not root."""
        return self.assigned or bool(self.uid)

    @property
    def text(self) -> str:
        """The user for people."""
        if self.assigned:
            return "a uid that the platform assigns"
        return "an unknown user" if self.uid is None else f"uid {self.uid}"


def user_of(plan: Plan) -> User | None:
    """The user of an engine's container; None for a plan without one."""
    from planner.engines.image_users import image_user

    container, pod = plan.container, plan.pod
    if container is None or pod is None:
        return None
    contexts = [container.node.get("securityContext")]
    contexts.append(pod.spec.get("securityContext") if pod.spec is not None else None)
    image = image_user(container.image.value) if container.image is not None else None
    uid, place = _integer(contexts, "runAsUser")
    gid, _ = _integer(contexts, "runAsGroup")
    assigned = False
    if uid is None and place is None:
        must_not = next((node.boolean("runAsNonRoot") for node in contexts if node and node.get("runAsNonRoot")), None)
        if image is not None:
            assigned = image.uid == 0 and (must_not is True or _restricted(plan))
            uid = None if assigned else image.uid
        if assigned:
            place = next((p for node in contexts if node and (p := key_position(node, "runAsNonRoot"))), None)
    if gid is None:
        gid = 0 if image is not None else None  # the image's group, which is root's for uids without an entry too
    read_only = bool(contexts[0] is not None and contexts[0].boolean("readOnlyRootFilesystem"))
    home, by, reason = _home(variable(plan, "HOME", image), uid, assigned, image)
    return User(uid, gid, assigned, read_only, home, by, image, place, reason)


def user_facts(plan: Plan, user: User | None, positions: dict[str, Position]) -> dict[str, Any]:
    """``uid_text``; ``has_name``: whether the image's passwd file or a variable gives it a name (absent where that is not
    known); ``needs_name``: whether this release of the engine fails without one."""
    if user is None or plan.container is None:
        return {}
    node = plan.container.node
    place = user.place or key_position(node, "securityContext")
    if place is not None:
        positions["container.user"] = place
    facts: dict[str, Any] = {"uid_text": user.text, "home": user.home or "unknown"}
    engine = plan.engine
    if engine.engine != "vllm" or engine.platform != "cuda":
        facts["needs_name"] = False
    elif not engine.version_assumed:
        facts["needs_name"] = _NAME_NEEDED <= engine.version_key < _NAME_NOT_NEEDED
    image = user.image
    if not user.is_other:
        facts["has_name"] = True  # root, or the image's own user
    elif image is not None and image.engine == "vllm":
        named = [variable(plan, name) for name in _NAMES]
        wrapped = image.wrapped and plan.container.command is None
        entry = user.uid is not None and image.home(user.uid) != "/"
        if any(item.text for item in named) or wrapped or entry:
            facts["has_name"] = True
        elif all(item.known for item in named):
            facts["has_name"] = False
    return facts


def _restricted(plan: Plan) -> bool:
    """Whether OpenShift's restricted policy holds for the pod, which then runs as a uid of its namespace: an annotation asks
    for it, or the kind is OpenShift's own and no service account stands for another policy."""
    workload, pod = plan.workload, plan.pod
    if workload is None or pod is None:
        return False
    policy = pod.annotations.get("openshift.io/required-scc") or pod.annotations.get("openshift.io/scc")
    if policy is not None:
        return policy.value.startswith("restricted")
    return workload.kind == "DeploymentConfig" and (pod.spec is None or not pod.spec.string("serviceAccountName"))


def _integer(contexts: list[Node | None], key: str) -> tuple[int | None, Position | None]:
    """The value of the first security context that has the key, and its place."""
    for node in contexts:
        if node is not None and node.get(key) is not None:
            return node.integer(key), key_position(node, key)
    return None, None


def _home(stated: Variable, uid: int | None, assigned: bool, image: ImageUser | None) -> tuple[str | None, str, str]:
    """(home, what sets it, why it is not known)."""
    if stated.text:
        return stated.text, "HOME", ""
    if not stated.known:
        return None, "", stated.reason
    if assigned:
        return "/", "the uid has no passwd entry", ""
    if uid is None or image is None:
        return None, "", "the home of the image's user is not known"
    home = image.home(uid)
    if home is None:
        return None, "", f"whether uid {uid} has a home in this image is not known"
    return home, "the uid has no passwd entry" if home == "/" else f"the image's home of uid {uid}", ""
