"""RoleBasedGroup (workloads.x-k8s.io): roles of single pods, of groups with a leader, or of a workload kind."""

from __future__ import annotations

from planner.documents.derived import merged
from planner.documents.document import Document
from planner.documents.node import Node
from planner.provenance import Fact
from planner.workloads import fields as f
from planner.workloads.fields import Reading
from planner.workloads.pod_template import has_containers, read_pod
from planner.workloads.references import Injected
from planner.workloads.typed import changed, count_of, object_annotations, typed_workload
from planner.workloads.workload import Pod, Workload


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """One workload for each role with a pod template; a RoleBasedGroupSet holds the group's spec in ``template``."""
    spec = document.root.get("spec")
    if kind == "RoleBasedGroupSet" and spec is not None:
        inner = spec.get("groupTemplate", "spec") or spec.get("template", "spec") or spec.get("template")
        spec = inner or spec
    bases = {item.string("name"): item.get("template") for item in (spec.get("roleTemplates") if spec else None) or ()}
    annotations = object_annotations(document, reading)
    found = []
    for role in f.sequence(f.entries(spec), "roles", reading):
        workload = _role(role, bases, document, kind, annotations, reading)
        if workload is not None:
            found.append(workload)
    return found


def _role(
    role: Node,
    bases: dict[str | None, Node | None],
    document: Document,
    kind: str,
    annotations: dict[str, Fact[str]],
    reading: Reading,
) -> Workload | None:
    group = role.get("leaderWorkerPattern") or role.get("leaderWorkerSet")
    pattern = role.get("standalonePattern") or role.get("leaderWorkerPattern") or role
    template = pattern.get("template") or role.get("template")
    reference = pattern.get("templateRef") or role.get("templateRef")
    if reference is not None:
        base = bases.get(reference.string("name"))
        patch = reference.get("patch")
        if base is not None:
            template = merged(base, patch) if patch is not None else base
        else:
            template = patch or template
    if template is None or not has_containers(template):
        return None
    size = count_of(group, "size") if group is not None else 1
    pods: list[Pod] = []
    roles = (("leader", 1), ("worker", (size or 2) - 1)) if group is not None and size != 1 else (("pod", 1),)
    for name, count in roles:
        patched = template
        if group is not None:
            for key in (f"{name}TemplatePatch", f"patch{name.capitalize()}Template"):
                patch = group.get(key)
                patched = merged(template, patch) if patch is not None else patched
        if name == "worker" and patched is template and pods and pods[0].node is template:
            continue  # the same pod as the leader, which stands for both
        pod = read_pod(
            patched,
            document.namespace,
            document.file,
            reading,
            role=name,
            count=count,
            annotations=annotations,
            injected=_injected(name, size) if group is not None else (),
        )
        for index, container in enumerate(pod.containers):
            pod = changed(pod, index, env_unknown=(*container.env_unknown, "The controller of the RoleBasedGroup"))
        pods.append(pod)
    return typed_workload(
        document,
        kind,
        pods,
        reading,
        replicas=count_of(role, "replicas"),
        group_size=size or 1,
        group_size_known=size is not None,
        part=role.string("name") or "",
    )


def _injected(role: str, size: int | None) -> tuple[Injected, ...]:
    """What the controller adds to each container of a group, under its own names and under those of LeaderWorkerSet."""
    index = "0" if role == "leader" else None
    reason = "another number on each worker of the group"
    found = []
    for prefix in ("RBG_LWP", "LWS"):
        found += [
            Injected(f"{prefix}_LEADER_ADDRESS", None, "the host name of the group's leader"),
            Injected(f"{prefix}_GROUP_SIZE", str(size) if size is not None else None, "the size of the group"),
            Injected(f"{prefix}_WORKER_INDEX", index, "" if index else reason),
        ]
    return tuple(found)
