"""The manifest of a suggestion: claim, Deployment or LeaderWorkerSet, and Service, as YAML with the reason at each value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from planner.record import NamedTuple
from planner.units import GIB, ceil_div

#: The port that vLLM serves on, and what health checks ask.
_PORT = 8000
#: Bytes a second of a first download from the hub into the volume; what the startup window allows for.
_DOWNLOAD = 0.2e9
#: Space in the volume beside the weights: tokenizer, configuration, files that a download has not finished.
_VOLUME_SHARE, _VOLUME_MORE = 1.15, 2 * GIB
#: Seconds of the shortest startup window, and between two probes.
_LEAST_WINDOW, _PERIOD = 600, 10
#: Seconds for one output token of a slow batch, and the bounds of the termination grace.
_TOKEN_SECONDS, _LEAST_GRACE, _MOST_GRACE = 0.05, 60, 600
#: What Python, CUDA's libraries and an engine process hold in host memory (GiB): of the container, and of each rank.
_HOST_BASE, _HOST_RANK = 4, 5

#: Scalars that YAML reads as text without quotes, which words that mean something else are not.
_PLAIN = re.compile(r"(?![-?:]?$)(?:--)?[A-Za-z0-9_./$][A-Za-z0-9_./+=%@$()-]*(?::[A-Za-z0-9_./+=%@-]+)*")
_MEANS_OTHER = re.compile(
    r"(?i:null|true|false|yes|no|on|off|y|n|~)|[-+]?[0-9][0-9_,.:eExXoOa-fA-F+-]*|[-+]?\.(?i:inf|nan|[0-9].*)"
)


class Service(NamedTuple):
    """What a manifest states beside the configuration.

    ``words``: (flag as written, comment) in order. ``weight_bytes``: of the whole checkpoint. ``usual_load``: seconds of a
    start from a volume as most are. ``longest_output``: tokens. ``label``: the node's label, None where it is not known.
    ``workload``: the demand as plain data. ``comments``: lines for the head of the file. ``stands_for``: the hub id of what a
    path or a fine-tune is, empty where the model says so itself.
    """

    name: str
    namespace: str
    image: str
    model: str
    words: tuple[tuple[str, str], ...]
    replicas: int
    pods: int
    gpus_per_pod: int
    resource: str
    accelerator: str
    label: tuple[str, str] | None
    gated: bool
    weight_bytes: int
    usual_load: int
    longest_output: int
    workload: dict[str, Any]
    comments: tuple[str, ...] = ()
    stands_for: str = ""

    @property
    def mount_path(self) -> str:
        """Where the claim is mounted: the hub cache, or the path that the model is loaded from."""
        return self.model if self.model.startswith("/") else "/root/.cache/huggingface"


def name_of(model: str) -> str:
    """A name for the objects of a model: lower case, letters, digits and hyphens, at most 40 characters, a letter first.

    It is a Service's name too (RFC 1035), and none of which the kubelet would make variables that engines read.
    """
    base = re.sub(r"[^a-z0-9]+", "-", model.rpartition("/")[2].lower()).strip("-")[:40].strip("-")
    if not base or not base[0].isalpha():
        base = f"llm-{base}".strip("-")
    return f"{base}-llm" if base in ("vllm", "ray", "nccl", "hf", "cuda", "nvidia", "python") else base


def render(service: Service) -> str:
    """The YAML documents, ready for ``kubectl apply``."""
    shared = service.pods > 1 or service.replicas > 1
    parts = [_claim(service, shared), _group(service) if service.pods > 1 else _deployment(service), _service(service)]
    head = "".join(f"# {line}\n" if line else "#\n" for line in service.comments)
    return head + "---\n".join(parts)


def volume_bytes(weight_bytes: int) -> int:
    """The size to ask for, a whole number of 5 GiB."""
    return ceil_div(int(weight_bytes * _VOLUME_SHARE) + _VOLUME_MORE, 5 * GIB) * 5 * GIB


def startup_window(service: Service) -> int:
    """Seconds until a start is given up: a usual start half as slow again, and the first download; a whole minute."""
    seconds = 1.5 * service.usual_load + service.weight_bytes / _DOWNLOAD
    return max(_LEAST_WINDOW, ceil_div(math.ceil(seconds), 60) * 60)


def scalar(text: str) -> str:
    """Text as a YAML scalar, quoted where it would mean something else without."""
    if text.isascii() and _PLAIN.fullmatch(text) and not _MEANS_OTHER.fullmatch(text):
        return text
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    """A character of a double-quoted scalar (YAML 1.2, 5.7)."""
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def _metadata(service: Service, name: str, indent: str = "  ") -> list[str]:
    lines = [f"{indent}name: {name}"]
    if service.namespace:
        lines.append(f"{indent}namespace: {service.namespace}")
    lines.append(f"{indent}labels: {{app.kubernetes.io/name: {scalar(service.name)}}}")
    return lines


def _claim(service: Service, shared: bool) -> str:
    size = volume_bytes(service.weight_bytes) // GIB
    mode = "ReadWriteMany" if shared else "ReadWriteOnce"
    why = "several pods read it: the storage class must offer this" if shared else "one pod at a time"
    lines = [
        "apiVersion: v1",
        "kind: PersistentVolumeClaim",
        "metadata:",
        *_metadata(service, f"{service.name}-weights"),
        "spec:",
        f"  accessModes: [{mode}]  # {why}",
        "  resources:",
        "    requests:",
        f"      storage: {size}Gi  # weights of {service.weight_bytes / GIB:,.1f} GiB",
    ]
    return "\n".join(lines) + "\n"


def _annotations(service: Service) -> list[str]:
    lines = []
    if service.workload:
        demand = json.dumps(service.workload, separators=(", ", ": ")).replace("'", "''")
        lines.append(f"    planner/workload: '{demand}'")
    if service.stands_for:
        lines.append(f"    planner/model: {scalar(service.stands_for)}")
    if service.label is None:
        lines.append(f"    planner/accelerator: {scalar(service.accelerator)}")
    return ["  annotations:", *lines] if lines else []


def _deployment(service: Service) -> str:
    window = startup_window(service)
    strategy = (
        ["  strategy: {type: Recreate}  # a rolling update would need a spare GPU"]
        if service.replicas == 1
        else [
            "  strategy:",
            "    type: RollingUpdate",
            "    rollingUpdate: {maxSurge: 0, maxUnavailable: 1}  # needs no spare GPU",
        ]
    )
    lines = [
        "apiVersion: apps/v1",
        "kind: Deployment",
        "metadata:",
        *_metadata(service, service.name),
        *_annotations(service),
        "spec:",
        f"  replicas: {service.replicas}",
        f"  progressDeadlineSeconds: {window + 600}  # the startup window, and pulling the image",
        *strategy,
        f"  selector: {{matchLabels: {{app.kubernetes.io/name: {scalar(service.name)}}}}}",
        "  template:",
        "    metadata:",
        f"      labels: {{app.kubernetes.io/name: {scalar(service.name)}}}",
        "    spec:",
        *_pod(service, "vllm", service.words, 6, serves=True),
    ]
    return "\n".join(lines) + "\n"


def _group(service: Service) -> str:
    nodes = [(f"--nnodes={service.pods}", ""), ("--master-addr=$(LWS_LEADER_ADDRESS)", "")]
    leader = (*service.words, *nodes, ("--node-rank=0", ""))
    worker = (*service.words, *nodes, ("--node-rank=$(LWS_WORKER_INDEX)", ""), ("--headless", ""))
    lines = [
        "apiVersion: leaderworkerset.x-k8s.io/v1",
        "kind: LeaderWorkerSet",
        "metadata:",
        *_metadata(service, service.name),
        *_annotations(service),
        "spec:",
        f"  replicas: {service.replicas}",
        "  rolloutStrategy:",
        "    type: RollingUpdate",
        "    rollingUpdateConfiguration: {maxSurge: 0, maxUnavailable: 1}  # needs no spare GPU",
        "  leaderWorkerTemplate:",
        f"    size: {service.pods}",
        "    restartPolicy: RecreateGroupOnPodRestart",
        "    leaderTemplate:",
        "      metadata:",
        f"        labels: {{app.kubernetes.io/name: {scalar(service.name)}, role: leader}}",
        "      spec:",
        *_pod(service, "vllm-leader", leader, 8, serves=True),
        "    workerTemplate:",
        "      metadata:",
        f"        labels: {{app.kubernetes.io/name: {scalar(service.name)}, role: worker}}",
        "      spec:",
        *_pod(service, "vllm-worker", worker, 8, serves=False),
    ]
    return "\n".join(lines) + "\n"


def _pod(service: Service, container: str, words: Sequence[tuple[str, str]], indent: int, *, serves: bool) -> list[str]:
    grace = min(_MOST_GRACE, max(_LEAST_GRACE, ceil_div(math.ceil(service.longest_output * _TOKEN_SECONDS), 10) * 10))
    lines = [
        f"terminationGracePeriodSeconds: {grace}  # running generations may end",
        "automountServiceAccountToken: false",
        "enableServiceLinks: false  # no variables such as VLLM_PORT from Services",
    ]
    if service.label is not None:
        whose = "AMD's node labeller" if service.label[0].startswith("amd") else "GPU Feature Discovery"
        lines.append(f"nodeSelector: {{{service.label[0]}: {scalar(service.label[1])}}}  # as {whose} labels nodes")
    taint = f"{service.resource.partition('/')[0]}/gpu"
    lines.append(f"tolerations: [{{key: {taint}, operator: Exists, effect: NoSchedule}}]")
    lines += [
        "containers:",
        f"  - name: {container}",
        f"    image: {service.image}",
        "    command: [vllm, serve]",
        "    args:",
        f"      - {scalar(service.model)}",
    ]
    lines += [f"      - {scalar(word)}" + (f"  # {comment}" if comment else "") for word, comment in words]
    if service.gated:
        lines += [
            "    env:",
            "      - name: HF_TOKEN  # kubectl create secret generic hf-token --from-literal=token=…",
            "        valueFrom: {secretKeyRef: {name: hf-token, key: token}}",
        ]
    if serves:
        lines += ["    ports:", f"      - {{name: http, containerPort: {_PORT}}}"]
    lines += _resources(service)
    if serves:
        lines += _probes(startup_window(service))
    lines += ["    volumeMounts:", f"      - {{name: weights, mountPath: {scalar(service.mount_path)}}}"]
    if service.gpus_per_pod > 1:
        lines.append("      - {name: shm, mountPath: /dev/shm}")
    lines += ["volumes:", "  - name: weights", f"    persistentVolumeClaim: {{claimName: {service.name}-weights}}"]
    if service.gpus_per_pod > 1:
        lines += [
            "  - name: shm  # the ranks talk through shared memory",
            f"    emptyDir: {{medium: Memory, sizeLimit: {_shared_memory(service)}Gi}}",
        ]
    return [" " * indent + line for line in lines]


def _shared_memory(service: Service) -> int:
    return max(4, 2 * service.gpus_per_pod)


def _resources(service: Service) -> list[str]:
    memory = _HOST_BASE + _HOST_RANK * service.gpus_per_pod
    if service.gpus_per_pod > 1:
        memory += _shared_memory(service)
    return [
        "    resources:",
        f"      requests: {{cpu: {2 + 2 * service.gpus_per_pod}, memory: {memory}Gi, {service.resource}: "
        f"{service.gpus_per_pod}}}",
        f"      limits: {{{service.resource}: {service.gpus_per_pod}}}",
    ]


def _probes(window: int) -> list[str]:
    return [
        f"    startupProbe:  # {window} s: the first download, loading, compiling and capturing",
        "      httpGet: {path: /health, port: http}",
        f"      periodSeconds: {_PERIOD}",
        "      timeoutSeconds: 5",
        f"      failureThreshold: {ceil_div(window, _PERIOD)}",
        "    readinessProbe:",
        "      httpGet: {path: /health, port: http}",
        "      periodSeconds: 5",
        "      timeoutSeconds: 5",
        "    livenessProbe:  # patient: a busy engine answers late",
        "      httpGet: {path: /health, port: http}",
        f"      periodSeconds: {_PERIOD}",
        "      timeoutSeconds: 10",
        "      failureThreshold: 6",
    ]


def _service(service: Service) -> str:
    selector = f"app.kubernetes.io/name: {scalar(service.name)}"
    if service.pods > 1:
        selector += ", role: leader"
    lines = [
        "apiVersion: v1",
        "kind: Service",
        "metadata:",
        *_metadata(service, service.name),
        "spec:",
        f"  selector: {{{selector}}}",
        "  ports:",
        "    - {name: http, port: 80, targetPort: http}",
    ]
    return "\n".join(lines) + "\n"
