"""The other Kubernetes objects of a run that workloads refer to: ConfigMaps, Secrets, Services, claims, autoscalers.

References are looked up by name and namespace. A file without a namespace can be meant for any, so a missing one on
either side matches. Where several objects fit (a base and its overlays in one folder), the one in the same file wins,
then the only one in the same folder, then the only one of the run; otherwise nothing is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from planner.documents.document import Document
from planner.documents.node import Node
from planner.provenance import Fact, from_file
from planner.record import NamedTuple
from planner.units import parse_quantity

if TYPE_CHECKING:
    from planner.workloads.services import Reach
    from planner.workloads.workload import Workload

T = TypeVar("T")


class ConfigMap(NamedTuple):
    """A ConfigMap; ``data``: key → node of the text."""

    name: str
    namespace: str
    file: str
    node: Node
    data: dict[str, Node]


class Secret(NamedTuple):
    """A Secret: its name and the names of its keys. Values stay in ``node``, where only the search for tokens that are
    committed in plain text looks at them; nothing prints them."""

    name: str
    namespace: str
    file: str
    node: Node
    keys: tuple[str, ...]


class ServicePort(NamedTuple):
    """A port of a Service; ``target`` is a number or the name of a container port, as written."""

    name: str
    port: int | None
    target: str
    node: Node


class Service(NamedTuple):
    """A Service; ``selector`` names the labels of the pods behind it, ``headless`` says that it has no address of its own."""

    name: str
    namespace: str
    file: str
    node: Node
    type: str
    selector: dict[str, str]
    ports: tuple[ServicePort, ...]
    headless: bool = False


class PersistentVolumeClaim(NamedTuple):
    """A claim for storage; ``size_bytes`` is what it asks for."""

    name: str
    namespace: str
    file: str
    node: Node
    access_modes: tuple[str, ...]
    size_bytes: Fact[int] | None
    storage_class: str


class DeviceRequest(NamedTuple):
    """A request of a ResourceClaim or its template; ``devices`` is None for all and for placeholders."""

    name: str
    device_class: str
    devices: int | None
    node: Node


class DeviceClaim(NamedTuple):
    """A ResourceClaim or ResourceClaimTemplate (dynamic resource allocation)."""

    name: str
    namespace: str
    file: str
    node: Node
    requests: tuple[DeviceRequest, ...]


class Autoscaler(NamedTuple):
    """What sets the replicas of another object: a HorizontalPodAutoscaler or a KEDA ScaledObject."""

    kind: str
    name: str
    namespace: str
    file: str
    node: Node
    min_replicas: int | None
    max_replicas: int | None


class Lookup(Generic[T]):
    """What a reference leads to; ``found`` is None where ``reason`` says why nothing can be told. ``several``: objects fit,
    and none is nearer than the others."""

    __slots__ = ("found", "reason", "several")

    def __init__(self, found: T | None, reason: str = "", *, several: bool = False) -> None:
        self.found = found
        self.reason = reason
        self.several = several


class _Index(Generic[T]):
    """Objects of one kind by name, with the places they can be found from. Every look-up is a few dictionary accesses,
    however many objects share a name."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._scopes: dict[tuple[str, str, str], dict[str, list[T]]] = {}

    def add(self, name: str, namespace: str, file: str, item: T) -> None:
        for scope in scopes(file):
            self._scopes.setdefault((*scope, name), {}).setdefault(namespace, []).append(item)

    def find(self, name: str, namespace: str, file: str) -> Lookup[T]:
        for scope in scopes(file):
            by_namespace = self._scopes.get((*scope, name))
            if by_namespace is None:
                continue
            fitting = by_namespace.get(namespace)
            if fitting is None and namespace:
                fitting = by_namespace.get("")
            elif fitting is None:
                if len(by_namespace) > 1:
                    return self._several(name)
                fitting = next(iter(by_namespace.values()))
            if fitting is None:
                continue
            # Within one file the last of two objects of the same name is what remains after `kubectl apply -f`.
            return Lookup(fitting[-1]) if len(fitting) == 1 or scope[0] == "file" else self._several(name)
        return Lookup(None, f"the {self._kind} {name[:80]} is not among the files that were read")

    def _several(self, name: str) -> Lookup[T]:
        reason = f"several files that were read define a {self._kind} {name[:80]}, and none is nearer"
        return Lookup(None, reason, several=True)


def scopes(file: str) -> tuple[tuple[str, str], ...]:
    """Where an object of a file looks for others, nearest first: the file, its folder, everything."""
    return ("file", file), ("folder", file.rpartition("/")[0]), ("run", "")


_CORE_KINDS = frozenset({"ConfigMap", "Secret", "Service", "PersistentVolumeClaim"})
#: Kinds of operators that others of them refer to by name, with the API group.
_REFERRED = {
    "ServingRuntime": ("serving.kserve.io", "ome.io"),
    "ClusterServingRuntime": ("serving.kserve.io", "ome.io"),
    "InferenceService": ("serving.kserve.io", "ome.io"),
    "LLMInferenceServiceConfig": ("serving.kserve.io",),
    "BaseModel": ("ome.io",),
    "ClusterBaseModel": ("ome.io",),
    "NIMCache": ("apps.nvidia.com",),
    "Model": ("inference.llmkube.dev", "llmaz.io"),
    "OpenModel": ("llmaz.io",),
    "BackendRuntime": ("inference.llmaz.io",),
    "Playground": ("inference.llmaz.io",),
    "Deployment": ("apps",),
}
_OTHER_KINDS = {
    "ResourceClaim": ("resource.k8s.io",),
    "ResourceClaimTemplate": ("resource.k8s.io",),
    "ComputeDomain": ("resource.nvidia.com",),
    "HorizontalPodAutoscaler": ("autoscaling",),
    "ScaledObject": ("keda.sh",),
    "Kustomization": ("kustomize.config.k8s.io",),
}
#: Kinds that carry requests from outside of the cluster to Services.
ROUTES = {
    "Ingress": ("networking.k8s.io", "extensions"),
    "HTTPRoute": ("gateway.networking.k8s.io",),
    "Route": ("route.openshift.io", ""),
    "VirtualService": ("networking.istio.io",),
    "IngressRoute": ("traefik.io", "traefik.containo.us"),
}


class Objects:
    """The objects of a run that are no workloads. Nothing is read before something asks for its kind."""

    def __init__(self) -> None:
        self._documents: dict[str, list[Document]] = {}
        self._config_maps: _Index[ConfigMap] | None = None
        self._secrets: _Index[Secret] | None = None
        self._claims: _Index[PersistentVolumeClaim] | None = None
        self._device_claims: dict[str, _Index[DeviceClaim]] | None = None
        self._autoscalers: _Index[Autoscaler] | None = None
        self._services: tuple[Service, ...] | None = None
        self._services_by_name: _Index[Service] | None = None
        self._reach: Reach | None = None
        #: the workloads of the run, once they are read
        self.workloads: Sequence[Workload] = ()
        self._jobs: dict[str, list[Workload]] | None = None
        self._custom: dict[tuple[str, str], list[Document]] = {}
        self._custom_indices: dict[tuple[str, str], _Index[Document]] = {}
        self._used: dict[tuple[str, str], frozenset[int]] = {}
        self._by_format: dict[str, dict[tuple[str, str], list[Document]]] = {}

    def refer(self, group: str, kind: str, document: Document) -> bool:
        """Keeps a document that others may refer to by name; says whether it is of such a kind."""
        if group not in _REFERRED.get(kind, ()):
            return False
        self._custom.setdefault((group, kind), []).append(document)
        return True

    def custom(self, group: str, kind: str, name: str, namespace: str, file: str) -> Lookup[Document]:
        """The object of an operator's kind that an object in ``namespace`` and ``file`` means."""
        index = self._custom_indices.get((group, kind))
        if index is None:
            index = self._custom_indices[group, kind] = _Index(kind)
            for document in self._custom.get((group, kind), ()):
                index.add(document.name, document.namespace, document.file, document)
        return index.find(name, namespace, file)

    def used(self, group: str, kind: str, find: Callable[[Document], Document | None]) -> frozenset[int]:
        """The documents (by ``id``) that objects of an operator's kind refer to; ``find`` resolves the reference of one. A
        document of the same name that none of them means is not among them."""
        found = self._used.get((group, kind))
        if found is None:
            meant = (find(document) for document in self._custom.get((group, kind), ()))
            found = self._used[group, kind] = frozenset(id(document) for document in meant if document is not None)
        return found

    def supporting(self, group: str, model_format: str, file: str) -> Document | None:
        """The only serving runtime of a file that supports a model format (lower case)."""
        index = self._by_format.get(group)
        if index is None:
            index = self._by_format[group] = {}
            for kind in ("ServingRuntime", "ClusterServingRuntime"):
                for document in self._custom.get((group, kind), ()):
                    for name in formats_of(document):
                        index.setdefault((document.file, name), []).append(document)
        found = index.get((file, model_format), [])
        return found[0] if len(found) == 1 else None

    def add(self, group: str, kind: str, document: Document) -> bool:
        """Takes a document if it is one of the kinds kept here; says whether it is."""
        if kind in _CORE_KINDS:
            if group:  # a kind of the same name that means something else (llmaz' Service)
                return False
        elif group not in _OTHER_KINDS.get(kind, ()) and group not in ROUTES.get(kind, ()):
            return False
        self._documents.setdefault(kind, []).append(document)
        return True

    def renamed(self, file: str) -> bool:
        """Whether an object of this file stands in a kustomization while another one gives names a prefix or suffix: its own
        name need not be the one that is applied."""
        places = [document.file.rpartition("/")[0] for document in self._documents.get("Kustomization", ())]
        return file.rpartition("/")[0] in places and any(
            document.root.get(key) is not None
            for document in self._documents.get("Kustomization", ())
            for key in ("namePrefix", "nameSuffix")
        )

    def config_map(self, name: str, namespace: str, file: str) -> Lookup[ConfigMap]:
        """The ConfigMap that an object in ``namespace`` and ``file`` means."""
        if self._config_maps is None:
            self._config_maps = _Index("ConfigMap")
            for document in self._documents.get("ConfigMap", ()):
                item = ConfigMap(*_identity(document), document.root, _entries(document.root.get("data")))
                self._config_maps.add(item.name, item.namespace, item.file, item)
        return self._config_maps.find(name, namespace, file)

    def secret(self, name: str, namespace: str, file: str) -> Lookup[Secret]:
        """The Secret that an object in ``namespace`` and ``file`` means: the names of its keys."""
        if self._secrets is None:
            self._secrets = _Index("Secret")
            for document in self._documents.get("Secret", ()):
                keys = dict.fromkeys(
                    key for field in ("data", "stringData") for key in _entries(document.root.get(field))
                )
                item = Secret(*_identity(document), document.root, tuple(keys))
                self._secrets.add(item.name, item.namespace, item.file, item)
        return self._secrets.find(name, namespace, file)

    def jobs_in(self, file: str) -> Sequence[Workload]:
        """The Jobs of a file, by schedule or not: they fetch models, convert and test them."""
        if self._jobs is None:
            self._jobs = {}
            for workload in self.workloads:
                if workload.kind in ("Job", "CronJob"):
                    self._jobs.setdefault(workload.document.file, []).append(workload)
        return self._jobs.get(file, ())

    def persistent_volume_claim(self, name: str, namespace: str, file: str) -> Lookup[PersistentVolumeClaim]:
        """The claim that an object in ``namespace`` and ``file`` means."""
        if self._claims is None:
            self._claims = _Index("PersistentVolumeClaim")
            for document in self._documents.get("PersistentVolumeClaim", ()):
                item = claim_of(document.root, *_identity(document))
                self._claims.add(item.name, item.namespace, item.file, item)
        return self._claims.find(name, namespace, file)

    def device_claim(self, kind: str, name: str, namespace: str, file: str) -> Lookup[DeviceClaim]:
        """The ``ResourceClaim`` or ``ResourceClaimTemplate`` (``kind``) of that name."""
        if self._device_claims is None:
            self._device_claims = {
                "ResourceClaim": _Index("ResourceClaim"),
                "ResourceClaimTemplate": _Index("ResourceClaimTemplate"),
            }
            for claim_kind, path in (("ResourceClaim", ("spec",)), ("ResourceClaimTemplate", ("spec", "spec"))):
                for document in self._documents.get(claim_kind, ()):
                    item = DeviceClaim(*_identity(document), document.root, _device_requests(document.root.get(*path)))
                    self._device_claims[claim_kind].add(item.name, item.namespace, item.file, item)
            # NVIDIA's DRA driver makes the claim template of a ComputeDomain: a channel of the NVLink fabric, no GPU.
            for document in self._documents.get("ComputeDomain", ()):
                template = document.root.string("spec", "channel", "resourceClaimTemplate", "name")
                if template:
                    _, namespace_of, file_of = _identity(document)
                    request = DeviceRequest("channel", "compute-domain-default-channel.nvidia.com", 1, document.root)
                    item = DeviceClaim(template, namespace_of, file_of, document.root, (request,))
                    self._device_claims["ResourceClaimTemplate"].add(template, namespace_of, file_of, item)
        return self._device_claims[kind].find(name, namespace, file)

    def autoscaler(self, kind: str, name: str, namespace: str, file: str) -> Lookup[Autoscaler]:
        """The autoscaler that sets the replicas of the object of that kind and name."""
        if self._autoscalers is None:
            self._autoscalers = _Index("autoscaler for")
            for scaler_kind, low, high, default in (
                ("HorizontalPodAutoscaler", "minReplicas", "maxReplicas", 1),
                ("ScaledObject", "minReplicaCount", "maxReplicaCount", 0),
            ):
                for document in self._documents.get(scaler_kind, ()):
                    target = document.root.get("spec", "scaleTargetRef")
                    target_name = target.string("name") if target else None
                    if target is None or not target_name:
                        continue
                    target_kind = target.string("kind") or "Deployment"
                    own_name, own_namespace, own_file = _identity(document)
                    stated = document.root.get("spec", low)
                    item = Autoscaler(
                        scaler_kind,
                        own_name,
                        own_namespace,
                        own_file,
                        document.root,
                        default if stated is None else document.root.integer("spec", low),
                        document.root.integer("spec", high),
                    )
                    self._autoscalers.add(f"{target_kind}/{target_name}", own_namespace, own_file, item)
        return self._autoscalers.find(f"{kind}/{name}", namespace, file)

    @property
    def services(self) -> tuple[Service, ...]:
        """All Services of the run, in order."""
        if self._services is None:
            self._services = tuple(_service(document) for document in self._documents.get("Service", ()))
        return self._services

    def service(self, name: str, namespace: str, file: str) -> Lookup[Service]:
        """The Service that an object in ``namespace`` and ``file`` means."""
        if self._services_by_name is None:
            self._services_by_name = _Index("Service")
            for item in self.services:
                self._services_by_name.add(item.name, item.namespace, item.file, item)
        return self._services_by_name.find(name, namespace, file)

    def routes(self) -> Iterable[tuple[str, Document]]:
        """(kind, document) of all objects that carry requests to Services from outside."""
        return ((kind, document) for kind in ROUTES for document in self._documents.get(kind, ()))

    @property
    def reach(self) -> Reach:
        """Which Services select which pods, and what stands before them."""
        if self._reach is None:
            from planner.workloads.services import Reach

            self._reach = Reach(self)
        return self._reach

    @property
    def config_maps(self) -> tuple[Document, ...]:
        """The documents of all ConfigMaps, in order."""
        return tuple(self._documents.get("ConfigMap", ()))


def formats_of(runtime: Document) -> frozenset[str]:
    """The model formats (lower case) that a serving runtime supports."""
    formats = runtime.root.get("spec", "supportedModelFormats") or ()
    return frozenset((item.string("name") or "").lower() for item in formats)


def claim_of(node: Node, name: str, namespace: str, file: str) -> PersistentVolumeClaim:
    """A claim from its object, or from a claim template (both have ``metadata`` and ``spec``)."""
    size = size_of(node.get("spec", "resources", "requests", "storage"))
    modes = tuple(mode.text for mode in node.get("spec", "accessModes") or () if mode.kind == "scalar")
    return PersistentVolumeClaim(
        name, namespace, file, node, modes, size, node.string("spec", "storageClassName") or ""
    )


def size_of(node: Node | None) -> Fact[int] | None:
    """Bytes of a quantity; None where it is none."""
    if node is None or node.kind != "scalar":
        return None
    try:
        return from_file(int(parse_quantity(node.text)), node.position)
    except (ValueError, OverflowError):
        return None


def _identity(document: Document) -> tuple[str, str, str]:
    return document.name, document.namespace, document.file


def _entries(node: Node | None) -> dict[str, Node]:
    return dict(node.items()) if node is not None else {}


def _service(document: Document) -> Service:
    root = document.root
    ports = []
    for port in root.get("spec", "ports") or ():
        number = port.integer("port")
        target = port.string("targetPort")
        ports.append(ServicePort(port.string("name") or "", number, target or str(number or ""), port))
    selector = {key: value.text for key, value in _entries(root.get("spec", "selector")).items()}
    address = root.get("spec", "clusterIP")
    headless = address is not None and address.kind == "scalar" and address.text == "None"
    kind = root.string("spec", "type") or "ClusterIP"
    return Service(*_identity(document), root, kind, selector, tuple(ports), headless)


def _device_requests(spec: Node | None) -> tuple[DeviceRequest, ...]:
    """The requests of a claim in each form that resource.k8s.io had: ``exactly`` (v1, v1beta2), flat (v1beta1), and
    ``resourceClassName`` (v1alpha2). Of alternatives (``firstAvailable``) the first is taken."""
    if spec is None:
        return ()
    if spec.string("resourceClassName"):
        return (DeviceRequest("", spec.string("resourceClassName") or "", 1, spec),)
    return tuple(_device_request(request) for request in _requests(spec))


def _requests(spec: Node) -> Iterable[Node]:
    return spec.get("devices", "requests") or ()


def _device_request(request: Node) -> DeviceRequest:
    detail = request.get("exactly") or request.get("firstAvailable", 0) or request
    devices: int | None = 1 if detail.get("count") is None else detail.integer("count")
    if detail.string("allocationMode") == "All":
        devices = None
    return DeviceRequest(request.string("name") or "", detail.string("deviceClassName") or "", devices, request)
