"""Which pods the Services of a run select, and what carries requests to them from outside of the cluster.

A Service selects pods by label. Labels repeat from example to example (``app: vllm``), so that a Service is taken to mean
pods of its own file, then of its folder, then of the run. A namespace that is missing on either side can be any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from planner.record import NamedTuple
from planner.workloads.objects import scopes

if TYPE_CHECKING:
    from planner.documents.document import Document
    from planner.documents.node import Node
    from planner.workloads.objects import Objects, Service
    from planner.workloads.workload import Pod, Workload

#: Annotations of load balancers that only the provider's own network reaches: key → values (empty: any but "false").
_INTERNAL = {
    "service.beta.kubernetes.io/aws-load-balancer-internal": (),
    "service.beta.kubernetes.io/azure-load-balancer-internal": (),
    "service.beta.kubernetes.io/aws-load-balancer-scheme": ("internal",),
    "networking.gke.io/load-balancer-type": ("Internal",),
    "cloud.google.com/load-balancer-type": ("Internal",),
}
#: Beginnings of annotations by which an ingress controller asks who a caller is.
_GUARDS = (
    "nginx.ingress.kubernetes.io/auth-",
    "alb.ingress.kubernetes.io/auth-",
    "haproxy.org/auth-",
    "haproxy-ingress.github.io/auth-",
    "ingress.kubernetes.io/auth-",
    "traefik.ingress.kubernetes.io/router.middlewares",
    "konghq.com/plugins",
)
#: Services of one pod that are looked at; real pods have a handful.
_MOST_OF_A_POD = 50


class Opening(NamedTuple):
    """A way from outside of the cluster to a Service: the Service's own type, or a route to it. ``node`` is the object's."""

    kind: str
    name: str
    node: Node


class _Group:
    """Pods that the same Services select, and how many of these were counted for them."""

    __slots__ = ("pods", "services")

    def __init__(self) -> None:
        self.pods: list[Pod] = []
        self.services = 0


class Reach:
    """The Services and routes of a run by the pods that they lead to."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._services: dict[int, list[Service]] | None = None
        self._openings: dict[int, list[Opening]] | None = None
        self._setters: dict[str, list[Service]] | None = None
        self._pods: dict[tuple[str, str], list[tuple[Workload, Pod]]] | None = None
        self._groups: dict[tuple[tuple[str, str], ...], dict[tuple[tuple[str, str], str | None], _Group]] = {}

    def services_of(self, pod: Pod) -> list[Service]:
        """The Services that select a pod of this run, in order, the first of very many."""
        if self._services is None:
            self._services = {}
            for service in self._objects.services:
                for group in self._selected(service):
                    if group.services < _MOST_OF_A_POD:  # else every pod of it has as many
                        group.services += 1
                        for selected in group.pods:
                            found = self._services.setdefault(id(selected), [])
                            if len(found) < _MOST_OF_A_POD:
                                found.append(service)
        return self._services.get(id(pod), [])

    def setting(self, variable: str) -> list[Service]:
        """The Services for which Kubernetes sets ``NAME_PORT`` in the pods of their namespace: those with an address."""
        if self._setters is None:
            self._setters = {}
            for service in self._objects.services:
                if service.ports and not service.headless and service.type != "ExternalName":
                    name = service.name.upper().replace("-", "_") + "_PORT"
                    self._setters.setdefault(name, []).append(service)
        return self._setters.get(variable, [])

    def openings_of(self, service: Service) -> list[Opening]:
        """The ways from outside to a Service. Load balancers of an internal network and routes that ask who the caller
        is are none."""
        if self._openings is None:
            self._openings = {}
            for kind, document in self._objects.routes():
                if _guarded(document):
                    continue
                for name in dict.fromkeys(_backends(kind, document)):
                    found = self._objects.service(name, document.namespace, document.file).found
                    if found is not None:
                        opening = Opening(kind, document.name, document.root)
                        self._openings.setdefault(id(found), []).append(opening)
        own = []
        if service.type == "NodePort" or (service.type == "LoadBalancer" and not _internal(service)):
            own.append(Opening(f"{service.type} Service", service.name, service.node))
        return own + self._openings.get(id(service), [])

    def _selected(self, service: Service) -> list[_Group]:
        """The pods that a Service selects: those of its file, else of its folder, else of the run."""
        if not service.selector or any("$" in value or "{" in value for value in service.selector.values()):
            return []
        selector = tuple(service.selector.items())
        groups = self._groups.get(selector)
        if groups is None:
            groups = self._groups[selector] = self._grouped(service.selector)
        namespaces = (service.namespace, "") if service.namespace else (None,)
        for scope in scopes(service.file):
            found = [groups[scope, name] for name in namespaces if (scope, name) in groups]
            if found:
                return found
        return []

    def _grouped(self, selector: Mapping[str, str]) -> dict[tuple[tuple[str, str], str | None], _Group]:
        """The pods with these labels by the scope that they are found from, and by namespace in it (None for all)."""
        pairs = self._pods_by_label()
        groups: dict[tuple[tuple[str, str], str | None], _Group] = {}
        for workload, pod in min((pairs.get(pair, []) for pair in selector.items()), key=len):
            if all(pod.labels.get(key) == value for key, value in selector.items()):
                for scope in scopes(workload.document.file):
                    for namespace in (workload.namespace, None):
                        groups.setdefault((scope, namespace), _Group()).pods.append(pod)
        return groups

    def _pods_by_label(self) -> dict[tuple[str, str], list[tuple[Workload, Pod]]]:
        if self._pods is None:
            self._pods = {}
            for workload in self._objects.workloads:
                for pod in workload.pods:
                    for pair in pod.labels.items():
                        self._pods.setdefault(pair, []).append((workload, pod))
        return self._pods


def _internal(service: Service) -> bool:
    for key, values in _INTERNAL.items():
        stated = service.node.get("metadata", "annotations", key)
        if stated is not None and (stated.text in values if values else stated.text.lower() != "false"):
            return True
    return False


def _guarded(document: Document) -> bool:
    annotations = document.root.get("metadata", "annotations")
    return annotations is not None and any(key.startswith(_GUARDS) for key, _ in annotations.items())


def _backends(kind: str, document: Document) -> Iterator[str]:
    """The names of the Services behind a route, as far as they are of its own namespace."""
    spec = document.root.get("spec")
    if spec is None:
        return
    references: list[Node | None] = []
    if kind == "Ingress":
        references += [spec.get("defaultBackend", "service"), spec.get("backend", "service")]
        for rule in spec.get("rules") or ():
            for path in rule.get("http", "paths") or ():
                references.append(path.get("backend", "service"))
                old = path.string("backend", "serviceName")
                if old:
                    yield old
    elif kind == "HTTPRoute":
        for rule in spec.get("rules") or ():
            references += list(rule.get("backendRefs") or ())
    elif kind == "Route":
        references += [spec.get("to"), *(spec.get("alternateBackends") or ())]
    elif kind == "VirtualService":
        for section in spec.get("http") or ():
            for route in section.get("route") or ():
                host = (route.string("destination", "host") or "").split(".")
                if host[0] and (len(host) < 2 or not document.namespace or host[1] in ("svc", document.namespace)):
                    yield host[0]
    else:
        for route in spec.get("routes") or ():
            if not route.get("middlewares"):
                references += list(route.get("services") or ())
    for reference in references:
        if reference is not None and (reference.string("kind") or "Service") == "Service":
            name = reference.string("name")
            if name and not reference.string("namespace"):
                yield name
