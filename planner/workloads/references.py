"""A container's environment as the kubelet builds it: literal values, references to other objects, ``$(NAME)``.

Order and precedence follow ``makeEnvironmentVariables`` in kubernetes/pkg/kubelet/kubelet_pods.go: the sources of
``envFrom`` in order, then ``env`` in order over them; a ``$(NAME)`` sees what stands before it. The expansion follows
kubernetes/third_party/forked/golang/expansion/expand.go: ``$$`` is a dollar sign, a name that nothing defines stays as
it is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.documents.node import Node
from planner.record import NamedTuple
from planner.workloads import fields as f
from planner.workloads.fields import Reading
from planner.workloads.workload import EnvVar

#: Linux passes no single string longer than this to a program (MAX_ARG_STRLEN, 32 pages of 4 KiB).
_LONGEST_VALUE = 128 * 1024


class Injected(NamedTuple):
    """A variable that a controller adds to every container of a pod, before the container's own."""

    name: str
    value: str | None
    reason: str = ""


class PodFacts(NamedTuple):
    """What the downward API can be asked for and the pod template tells."""

    namespace: str
    file: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    #: (container, ``limits`` or ``requests``, resource) → quantity
    resources: Mapping[tuple[str, str, str], float]


class Environment(NamedTuple):
    """The variables of a container by name, and the sources of further ones that are not among the inputs."""

    variables: dict[str, EnvVar]
    unknown_sources: tuple[str, ...]


def environment(
    container: dict[str, Node],
    name: str,
    node: Node,
    pod: PodFacts,
    reading: Reading,
    injected: Sequence[Injected] = (),
) -> Environment:
    """The environment of the container with the fields ``container``, as far as the inputs tell.

    ``node`` is the container's, for what has no place of its own. ``injected`` variables come first among ``env`` and
    win over entries of the same name (as the LeaderWorkerSet webhook has it).
    """
    variables: dict[str, EnvVar] = {}
    unknown: list[str] = []
    for source in f.sequence(container, "envFrom", reading):
        _add_source(source, variables, unknown, pod, reading)
    taken = set()
    for extra in injected:
        taken.add(extra.name)
        variables[extra.name] = EnvVar(extra.name, extra.value, node, extra.reason)
    missing = f"{', '.join(unknown[:3])} is not among the files that were read and may define it" if unknown else ""
    for entry in f.sequence(container, "env", reading, 'write `- name: NAME` and `value: "…"` for each variable'):
        if not reading.spend(entry):
            break
        variable = _entry(entry, name, variables, missing, pod, reading)
        if variable is not None and variable.name not in taken:
            variables[variable.name] = variable
    return Environment(variables, tuple(unknown))


def expand(text: str, variables: Mapping[str, EnvVar], missing: str = "") -> tuple[str | None, str, bool]:
    """``text`` with each ``$(NAME)`` replaced: (value, why it is not known, whether a secret goes into it).

    The value is None where a variable is not known, or where nothing defines it and ``missing`` (a reason, empty if
    all sources are known) says that something unread might. Names that nothing defines stay as written.
    """
    if "$" not in text:
        return text, "", False
    parts: list[str] = []
    length = 0
    at = 0
    last_close = text.rfind(")")
    reason, secret = "", False
    while True:
        dollar = text.find("$", at)
        if dollar < 0 or dollar + 1 >= len(text):
            parts.append(text[at:])
            break
        parts.append(text[at:dollar])
        following = text[dollar + 1]
        if following == "(" and dollar < last_close:
            end = text.index(")", dollar)
            name = text[dollar + 2 : end]
            variable = variables.get(name)
            if variable is None:
                unsure = missing or _from_service(name)
                if unsure:
                    reason = reason or f"$({name[:80]}) is defined nowhere here; {unsure}"
                value = text[dollar : end + 1]
            elif variable.value is None:
                reason = reason or _reason_of(variable)
                secret = secret or variable.secret
                value = ""
            else:
                value = variable.value
            parts.append(value)
            length += len(value)
            at = end + 1
        elif following == "$":
            parts.append("$")
            at = dollar + 2
        else:
            parts.append("$" + following)
            at = dollar + 2
        if length > _LONGEST_VALUE:
            return None, "text of more than 128 KiB, the longest that Linux passes to a program", secret
    return (None, reason, secret) if reason else ("".join(parts), "", secret)


def _reason_of(variable: EnvVar) -> str:
    """Why something that refers to an unknown variable is unknown; names the one at the root of a chain."""
    return variable.reason if variable.reason.startswith("$(") else f"$({variable.name[:80]}) is {variable.reason}"


_SERVICE_ENDINGS = ("_SERVICE_HOST", "_SERVICE_PORT", "_PORT", "_ADDR", "_PROTO")


def _from_service(name: str) -> str:
    """Kubernetes defines variables such as ``NAME_SERVICE_HOST`` for each Service of the namespace."""
    if name.isupper() and (name.endswith(_SERVICE_ENDINGS) or "_SERVICE_PORT_" in name):
        return "Kubernetes would, if there is a Service of that name"
    return ""


def _add_source(
    source: Node, variables: dict[str, EnvVar], unknown: list[str], pod: PodFacts, reading: Reading
) -> None:
    fields = f.entries(source)
    prefix = f.string(fields, "prefix", reading)
    config_map = f.mapping(fields, "configMapRef", reading)
    if config_map:
        name = f.string(config_map, "name", reading)
        lookup = reading.objects.config_map(name, pod.namespace, pod.file)
        if lookup.found is None:
            unknown.append(f"ConfigMap {name[:80]}")
            return
        for key, node in lookup.found.data.items():
            if not reading.spend(source):
                return
            text = f.text_of(node, reading)
            variables[prefix + key] = EnvVar(prefix + key, text or "", node)
        return
    secret = f.mapping(fields, "secretRef", reading)
    if secret:
        name = f.string(secret, "name", reading)
        known = reading.objects.secret(name, pod.namespace, pod.file)
        if known.found is None:
            unknown.append(f"Secret {name[:80]}")
            return
        for key in known.found.keys:
            if not reading.spend(source):
                return
            reason = f"a value of the Secret {name[:80]}"
            variables[prefix + key] = EnvVar(prefix + key, None, source, reason, secret=True)


def _entry(
    entry: Node, container: str, variables: Mapping[str, EnvVar], missing: str, pod: PodFacts, reading: Reading
) -> EnvVar | None:
    """One element of ``env``; None where it sets no variable."""
    if entry.kind != "mapping":
        if entry.kind != "null" and not f.is_placeholder(entry.text):
            reading.problem(
                entry,
                f"{entry.path} must be a mapping with `name` and `value`, and is {f.describe(entry)}: "
                'write `- name: NAME` and below it `value: "…"`',
            )
        return None
    fields = dict(entry.items())
    if "$patch" in fields:  # a kustomize patch that removes the variable
        return None
    name = f.string(fields, "name", reading)
    if not name:
        reading.problem(entry, f"{entry.path} has no `name`: every environment variable needs one")
        return None
    value_node = fields.get("value")
    if value_node is not None:
        text = f.text_of(value_node, reading)
        if text:
            value, reason, secret = expand(text, variables, missing)
            if value is not None and value is not text and not reading.spend_characters(len(value)):
                value, reason = None, "part of more expanded text than is kept in one run"
            return EnvVar(name, value, value_node, reason, secret)
        if value_node.kind not in ("scalar", "null"):
            return EnvVar(name, None, value_node, "written as something other than a string")
    source_node = fields.get("valueFrom")
    source = f.mapping(fields, "valueFrom", reading)
    if not source or source_node is None:
        return EnvVar(name, "", value_node or entry)
    for kind, reader in (("configMapKeyRef", _config_map_key), ("secretKeyRef", _secret_key)):
        if kind in source:
            return reader(name, source_node, f.mapping(source, kind, reading), pod, reading)
    if "fieldRef" in source:
        return _field(name, source_node, f.mapping(source, "fieldRef", reading), pod, reading)
    if "resourceFieldRef" in source:
        return _resource(name, container, source_node, f.mapping(source, "resourceFieldRef", reading), pod, reading)
    return EnvVar(name, None, source_node, f"taken from {next(iter(source))[:80]}, which only the cluster knows")


def _config_map_key(
    name: str, node: Node, reference: dict[str, Node], pod: PodFacts, reading: Reading
) -> EnvVar | None:
    map_name, key = f.string(reference, "name", reading), f.string(reference, "key", reading)
    lookup = reading.objects.config_map(map_name, pod.namespace, pod.file)
    if lookup.found is None:
        return EnvVar(name, None, node, f"the key {key[:80]} of a ConfigMap, and {lookup.reason}")
    text_node = lookup.found.data.get(key)
    if text_node is None:
        if f.boolean(reference, "optional", reading):
            return None
        return EnvVar(name, None, node, f"the key {key[:80]} of the ConfigMap {map_name[:80]}, which has no such key")
    return EnvVar(name, f.text_of(text_node, reading) or "", text_node)


def _secret_key(name: str, node: Node, reference: dict[str, Node], pod: PodFacts, reading: Reading) -> EnvVar:
    secret, key = f.string(reference, "name", reading), f.string(reference, "key", reading)
    return EnvVar(name, None, node, f"the key {key[:80]} of the Secret {secret[:80]}", secret=True)


def _field(name: str, node: Node, reference: dict[str, Node], pod: PodFacts, reading: Reading) -> EnvVar:
    path = f.string(reference, "fieldPath", reading).strip()
    value: str | None = None
    if path == "metadata.namespace":
        value = pod.namespace or None
    elif path.endswith("']"):
        for prefix, known in (("metadata.labels['", pod.labels), ("metadata.annotations['", pod.annotations)):
            if path.startswith(prefix):
                value = known.get(path[len(prefix) : -2])
    if value is not None:
        return EnvVar(name, value, node)
    return EnvVar(name, None, node, f"the field {path[:80]} of the running pod")


def _resource(
    name: str, container: str, node: Node, reference: dict[str, Node], pod: PodFacts, reading: Reading
) -> EnvVar:
    """A limit or request in units of the divisor, rounded up (ExtractContainerResourceValue in
    kubernetes/pkg/api/v1/resource/helpers.go). Without a limit it is what the node can give."""
    from math import ceil

    from planner.units import parse_quantity

    which, _, resource = f.string(reference, "resource", reading).partition(".")
    of = f.string(reference, "containerName", reading) or container
    quantity = pod.resources.get((of, which, resource))
    if quantity is None and which == "requests":
        quantity = pod.resources.get((of, "limits", resource))
    divisor_node = reference.get("divisor")
    try:
        divisor = parse_quantity(divisor_node.text) if divisor_node and divisor_node.kind == "scalar" else 0.0
    except ValueError:
        return EnvVar(name, None, node, f"{which}.{resource[:80]} in units of something that is no quantity")
    if 0 < divisor < 1e-9:
        return EnvVar(name, None, node, f"{which}.{resource[:80]} in units that Kubernetes does not allow")
    if quantity is None:
        return EnvVar(name, None, node, f"{which[:80]}.{resource[:80]}, which the container does not set")
    return EnvVar(name, str(ceil(round(quantity / (divisor or 1.0), 6))), node)
