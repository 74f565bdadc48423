"""A pod template → ``Pod`` and its containers: the part that every kind of workload shares."""

from __future__ import annotations

from collections.abc import Sequence

from planner.documents.node import Node
from planner.provenance import Fact
from planner.workloads import fields as f
from planner.workloads.fields import Reading
from planner.workloads.probes import read_probes
from planner.workloads.references import Injected, PodFacts, environment
from planner.workloads.resources import Resources, read_claims, read_resources
from planner.workloads.scheduling import read_affinity, read_tolerations
from planner.workloads.volumes import Volume, read_mounts, read_volumes
from planner.workloads.workload import Arg, Container, Pod


def has_containers(template: Node | None) -> bool:
    """Whether a pod template lists containers. One that does not is a patch of something else, not a workload."""
    spec = template.get("spec") if template is not None else None
    return spec is not None and any(spec.key_node(key) is not None for key in ("containers", "initContainers"))


def read_pod(
    template: Node,
    namespace: str,
    file: str,
    reading: Reading,
    *,
    role: str = "pod",
    count: int = 1,
    annotations: dict[str, Fact[str]] | None = None,
    claim_templates: Sequence[Node] = (),
    injected: Sequence[Injected] = (),
) -> Pod:
    """The pod of a template (a mapping with ``metadata`` and ``spec``).

    ``annotations`` are the object's; the template's own win. ``claim_templates`` are a StatefulSet's, ``injected`` the
    variables that the controller adds. Wrong types become problems of ``reading``; nothing is raised.
    """
    fields = f.entries(template)
    metadata = f.mapping(fields, "metadata", reading)
    spec = f.mapping(fields, "spec", reading)
    labels = {name: label.value for name, label in f.string_map(metadata, "labels", reading).items()}
    own_annotations = f.string_map(metadata, "annotations", reading)
    pod_annotations = {**(annotations or {}), **own_annotations}

    listed = _containers(spec, reading)
    resources = [read_resources(container, reading) for _, container, _ in listed]
    quantities: dict[tuple[str, str, str], float] = {}
    for (_, container, _), amounts in zip(listed, resources, strict=True):
        if "resources" in container:
            name = f.string(container, "name", reading)
            for side, facts in (("limits", amounts.limits), ("requests", amounts.requests)):
                for resource, amount in facts.items():
                    quantities[name, side, resource] = amount.value
    facts_of_pod = PodFacts(
        namespace, file, labels, {name: item.value for name, item in own_annotations.items()}, quantities
    )
    volumes = read_volumes(spec, list(claim_templates), facts_of_pod, reading)
    containers = tuple(
        _container(node, container, init, amounts, volumes, facts_of_pod, reading, injected)
        for (node, container, init), amounts in zip(listed, resources, strict=True)
    )
    claims, claim_requests = read_claims(spec, facts_of_pod, reading)
    return Pod(
        role=role,
        node=template,
        containers=containers,
        labels=labels,
        annotations=pod_annotations,
        node_selector=f.string_map(spec, "nodeSelector", reading),
        affinity=read_affinity(spec, reading),
        host_ipc=f.boolean(spec, "hostIPC", reading),
        runtime_class=f.string(spec, "runtimeClassName", reading),
        tolerations=read_tolerations(spec, reading),
        resource_claims=claims,
        count=count,
        spec=fields.get("spec"),
        claim_requests=claim_requests,
    )


def _containers(spec: dict[str, Node], reading: Reading) -> list[tuple[Node, dict[str, Node], bool]]:
    """The containers as (node, fields, whether an init container): regular ones first, in file order."""
    result: list[tuple[Node, dict[str, Node], bool]] = []
    names: set[str] = set()
    for key, init in (("containers", False), ("initContainers", True)):
        node = spec.get(key)
        if node is None:
            continue
        if not init and (node.kind == "null" or (node.kind == "sequence" and node.get(0) is None and not list(node))):
            reading.problem(
                node, f"{node.path} is empty: a pod needs at least one container (`- name: …` and `image: …`)"
            )
            continue
        for item in f.sequence(spec, key, reading, "write `- name: …` for each container"):
            if not reading.spend(item):
                return result
            if item.kind != "mapping":
                if item.kind == "null" or not f.is_placeholder(item.text):
                    reading.problem(
                        item,
                        f"{item.path} must be a mapping with `name` and `image`, and is {f.describe(item)}",
                    )
                continue
            container = dict(item.items())
            if "$patch" in container:  # a kustomize patch that removes or replaces the container
                continue
            name = f.string(container, "name", reading)
            if not name:
                reading.problem(item, f"{item.path} has no `name`: every container needs one")
            elif name in names:
                at = container["name"]
                reading.problem(
                    at,
                    f"two containers of this pod are called {name[:63]}: Kubernetes wants a name of its own for each",
                )
            names.add(name)
            result.append((item, container, init))
    return result


def _container(
    node: Node,
    fields: dict[str, Node],
    init: bool,
    resources: Resources,
    volumes: dict[str, Volume],
    pod: PodFacts,
    reading: Reading,
    injected: Sequence[Injected],
) -> Container:
    name = f.string(fields, "name", reading)
    variables, unknown_sources = environment(fields, name, node, pod, reading, injected)
    return Container(
        name=name,
        node=node,
        image=f.fact(fields, "image", reading),
        command=_arguments(fields, "command", reading),
        args=_arguments(fields, "args", reading),
        env=variables,
        limits=resources.limits,
        requests=resources.requests,
        claims=resources.claims,
        mounts=read_mounts(fields, volumes, variables, reading),
        probes=read_probes(fields, reading),
        ports=_ports(fields, reading),
        init=init,
        sidecar=init and f.string(fields, "restartPolicy", reading) == "Always",
        working_dir=f.string(fields, "workingDir", reading),
        env_unknown=unknown_sources,
        unknown_resources=resources.unknown,
    )


def _arguments(fields: dict[str, Node], key: str, reading: Reading) -> tuple[Arg, ...] | None:
    """``command`` or ``args``; None where the image's own applies (absent, null and empty lists, as the kubelet has
    it). One string in place of the list is a problem, and kept as the one argument it is."""
    node = fields.get(key)
    if node is None or node.kind == "null":
        return None
    if node.kind == "scalar":
        if not f.is_template(node) or node.quoted or " " in node.text.strip():
            reading.problem(
                node,
                f"{node.path} must be a list of strings, and is {f.describe(node)}: write each argument as an "
                'element of its own (`- "…"`)',
            )
        return (Arg(node.text, node),)
    result = []
    for element in f.sequence(fields, key, reading, "write each argument as a `- ` element"):
        if not reading.spend(element):
            break
        text = f.text_of(element, reading)
        if text is not None or element.kind in ("scalar", "null"):
            result.append(Arg(text or "", element))
    return tuple(result) or None


def _ports(fields: dict[str, Node], reading: Reading) -> tuple[tuple[str, int], ...]:
    ports = []
    for node in f.sequence(fields, "ports", reading):
        port = f.entries(node)
        number = f.integer(port, "containerPort", reading, 0) if port and reading.spend(node) else None
        if number:
            ports.append((f.string(port, "name", reading), number))
    return tuple(ports)
