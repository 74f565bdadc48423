"""What a manifest runs, in one vocabulary for every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.provenance import Fact, Position, Unknown
from planner.record import NamedTuple, dataclass, field

if TYPE_CHECKING:
    from planner.documents.document import Document
    from planner.documents.node import Node
    from planner.workloads.objects import PersistentVolumeClaim


#: The text of an argument that stands for arguments which are not known (``Arg.unknown`` says why).
HIDDEN = "(further arguments)"


class Arg(NamedTuple):
    """One element of ``command`` or ``args`` as the file writes it; ``node`` finds the position of an offset in it.

    ``unknown`` says why it is not known what stands here (an operator's preset that is not among the inputs); such an
    element can stand for several or for none."""

    text: str
    node: Node
    unknown: str = ""


class EnvVar(NamedTuple):
    """One environment variable. ``value`` is None where it cannot be known; ``reason`` then says why (a Secret's key, a
    ConfigMap that is not among the inputs, a field of the running pod). ``node`` is where the value stands."""

    name: str
    value: str | None
    node: Node
    reason: str = ""
    secret: bool = False


class Probe(NamedTuple):
    """A startup, liveness or readiness probe with the kubelet's defaults filled in (seconds).

    ``unknown`` names the fields that hold a placeholder; their numbers here are the defaults and mean nothing."""

    kind: str
    node: Node
    initial_delay: int
    period: int
    timeout: int
    failure_threshold: int
    handler: str  # http, tcp, exec, grpc or none
    port: str = ""
    path: str = ""
    unknown: tuple[str, ...] = ()

    @property
    def window(self) -> int:
        """Seconds from the container's start until this probe can fail for good."""
        return self.initial_delay + self.period * self.failure_threshold


class Mount(NamedTuple):
    """A volume mount. ``files`` are those that the input itself can show (a ConfigMap's keys, under ``path``).

    ``source`` is what stands behind the volume: the name of the ConfigMap, Secret or claim, or the path on the host;
    ``reason`` says why ``files`` or ``size_bytes`` are not known where an object of that name would tell them."""

    path: str
    volume: str
    node: Node
    kind: str  # emptyDir, configMap, secret, persistentVolumeClaim, hostPath, … ("" if the volume is not declared)
    medium: str = ""  # Memory for a RAM-backed emptyDir
    size_bytes: int | None = None
    files: tuple[tuple[str, Node], ...] = ()  # (absolute path in the container, node of the text)
    source: str = ""
    sub_path: str = ""
    read_only: bool = False
    volume_node: Node | None = None  # the declaration in ``volumes`` (or ``volumeClaimTemplates``)
    reason: str = ""
    claim: PersistentVolumeClaim | None = None  # what a claim among the inputs, or one of the pod's own, asks for


class ClaimRequest(NamedTuple):
    """One device request of a resource claim (dynamic resource allocation). ``devices`` is None where the object that
    defines the claim is not among the inputs or asks for all devices; ``device_class`` is then empty or known."""

    claim: str  # the name in the pod's ``resourceClaims``
    request: str
    device_class: str
    devices: int | None
    node: Node


# Compared by identity (``eq=False``): equal text in two places is not the same container, and import takes less time.
@dataclass(frozen=True, eq=False)
class Container:
    """One container. ``command`` is None where the image's entrypoint runs; ``args`` likewise.

    ``resources``: name → quantity in units (GPUs) or bytes (memory), from ``limits`` and ``requests`` apart; what is
    written there as a placeholder is in ``unknown_resources`` (fact ``limits.nvidia.com/gpu``), not in either.

    What only typed fields of a custom resource can tell: ``engine`` (its name where neither image nor command tell it),
    ``engine_version``, ``platform`` (as in ``EngineConfig.platform``), ``model`` (what it serves where its arguments name
    none, or name one of ``model_paths``, the folders that an operator puts the model into), ``copies`` (engine copies that
    a scheduler such as Ray places in one pod).
    """

    name: str
    node: Node
    image: Fact[str] | None
    command: tuple[Arg, ...] | None
    args: tuple[Arg, ...] | None
    env: dict[str, EnvVar]
    limits: dict[str, Fact[float]]
    requests: dict[str, Fact[float]]
    claims: tuple[str, ...]
    mounts: tuple[Mount, ...]
    probes: dict[str, Probe]
    ports: tuple[tuple[str, int], ...] = ()
    init: bool = False
    sidecar: bool = False
    working_dir: str = ""
    env_unknown: tuple[str, ...] = ()  # sources of further variables that are not among the inputs
    unknown_resources: tuple[Unknown, ...] = ()
    engine: str = ""
    engine_version: Fact[str] | None = None
    platform: str = ""
    model: Fact[str] | None = None
    model_paths: tuple[str, ...] = ()
    copies: int = 1

    @property
    def words(self) -> tuple[Arg, ...]:
        """The command and the arguments as they are written."""
        return (*(self.command or ()), *(self.args or ()))


@dataclass(frozen=True, eq=False)
class Pod:
    """A pod template. ``role``: ``pod``, ``leader`` or ``worker``; ``count``: pods of this role in one replica.

    ``node`` is the template (its ``metadata`` and ``spec``), ``spec`` the pod spec. ``containers`` holds the regular
    containers first, then the init containers. ``annotations`` are the object's with the template's over them.
    ``tolerations`` are keys; ``*`` tolerates every taint. ``accelerator`` is a name of the device that a typed field
    gives, where no label does.
    """

    role: str
    node: Node
    containers: tuple[Container, ...]
    labels: dict[str, str]
    annotations: dict[str, Fact[str]]
    node_selector: dict[str, Fact[str]]
    #: required node affinity: (key, operator, values), one tuple per term (terms are alternatives)
    affinity: tuple[tuple[tuple[str, str, tuple[str, ...], Position], ...], ...] = ()
    host_ipc: bool = False
    runtime_class: str = ""
    tolerations: tuple[str, ...] = ()
    resource_claims: tuple[tuple[str, str], ...] = ()  # (name, device class or template name)
    count: int = 1
    spec: Node | None = None
    claim_requests: tuple[ClaimRequest, ...] = ()
    accelerator: Fact[str] | None = None


@dataclass(frozen=True, eq=False)
class Workload:
    """One object that runs pods.

    ``replicas``: copies of the whole group (None where an autoscaler or another file decides). ``pods`` is one pod
    template, or the leader and the workers of a group; a group's pods belong to one engine where ``group_size`` > 1.
    ``group_size_known`` is False where the size is a placeholder; ``group_size`` is then the number of pod templates.
    ``min_replicas`` and ``max_replicas`` are those of the autoscaler among the inputs that targets the object. An object
    that runs several engines apart from each other (prefill and decode) is several workloads; ``part`` names each.
    ``connected``: the operator of the kind connects the pods of a group, so that no argument needs to.
    """

    kind: str
    api_version: str
    name: str
    namespace: str
    document: Document
    node: Node
    annotations: dict[str, Fact[str]]
    pods: tuple[Pod, ...]
    replicas: int | None = 1
    group_size: int = 1
    spec: Node | None = None
    labels: dict[str, str] = field(default_factory=dict)
    min_replicas: int | None = None
    max_replicas: int | None = None
    group_size_known: bool = True
    part: str = ""
    connected: bool = False
