"""Hub tokens and API keys that stand in a manifest in plain text. Their values never leave this module."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from planner.provenance import Position

if TYPE_CHECKING:
    from planner.documents.node import Node
    from planner.plan import Plan
    from planner.workloads.workload import Container

#: Variables that hold a secret, whatever it looks like.
_NAMES = frozenset(
    [
        "HF_TOKEN",
        "HUGGINGFACE_TOKEN",
        "HUGGING_FACE_TOKEN",
        "HUGGINGFACE_HUB_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "HF_API_TOKEN",
        "HF_HUB_TOKEN",
        "VLLM_API_KEY",
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "NGC_API_KEY",
        "NVIDIA_API_KEY",
        "WANDB_API_KEY",
        "SGLANG_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "GH_TOKEN",
    ]
)
#: Those that clients of any server take: beside an engine they mostly hold what a local server ignores.
_OF_ANY_SERVER = frozenset(["OPENAI_API_KEY", "ANTHROPIC_API_KEY"])
#: Characters of a script that are looked at.
_MOST_TEXT = 200_000
#: Tokens that give themselves away wherever they stand: Hugging Face, NGC, OpenAI, AWS, GitHub. Compiled when a value
#: holds one of their beginnings.
_BEGINNINGS = ("hf_", "nvapi-", "sk-", "AKIA", "gh")
_SHAPES = r"\b(hf_[A-Za-z0-9]{20,}|nvapi-[\w-]{30,}|sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{30,})"
#: What people write in place of a value, and local services that take any key.
_PLACEHOLDER = (
    r"(?i)[<>{}$]|\*{2,}|x{4,}|^\.*$|your|change[-_ ]?me|replace|redacted|example|placeholder|dummy|fake|insert|todo|"
    r"token[-_ ]?here|^(none|null|empty|na|n/a|test|token|secret|key|local|no[-_]?key|not[-_]?needed|sk-no-key.*|abc123?|"
    r"hf_token|hf_|hf_x+)$"
)


def literal_secrets(plan: Plan, positions: dict[str, Position]) -> list[dict[str, Any]]:
    """Secrets in plain text around an engine: where they stand (``where``), what they are (``what``), and whether that is a
    Secret's stringData (``in_secret``).

    Looked at: all containers of the engine's pod and of the Jobs of the same file, their commands and mounted scripts, what the
    start script sets, and the Secrets that the pod refers to. A variable's name tells a secret; elsewhere its shape must."""
    found: list[dict[str, Any]] = []
    seen: set[Position | None] = set()

    def add(what: str, where: str, position: Position | None, in_secret: bool = False) -> None:
        if position is not None and position in seen:
            return
        seen.add(position)
        if position is not None:
            positions[f"container.literal_secrets[{len(found)}]"] = position
        found.append({"what": what, "where": where, "in_secret": in_secret})

    containers = list(_containers(plan))
    for container in containers:
        names = _NAMES if container is plan.container else _NAMES - _OF_ANY_SERVER
        for variable in container.env.values():
            value = variable.value
            if value is not None and not variable.secret and _secret(variable.name, value, names):
                add(_kind(variable.name), f"variable {variable.name}", variable.node.position)
    for name, word in plan.start.environment if plan.start is not None else ():
        if word.known and not word.source.startswith("env:") and _secret(name, word.text, _NAMES):
            add(_kind(name), f"variable {name}", word.position)
    key = plan.engine.flags.get("api-key")
    given = ""
    if key is not None and key.known and isinstance(key.raw, str) and _real(key.raw) and "$" not in key.raw:
        given = key.raw
        source = next(
            (word.source for word in plan.engine.command_line.words if word.text.endswith(key.raw)), "args"
        ) if plan.engine.command_line else "args"  # fmt: skip
        if not source.startswith("env:"):
            add("an API key", "--api-key", key.value_position or key.position)
    for container in containers:
        for where, node in _scripts(container):
            for offset, token in _tokens_in(node.text):
                if not (given and given in token):
                    add("a token", where, node.position_at(offset))
    for name, node in _referred(plan):
        for entry, text in node.items():
            if any(_tokens_in(text.text)):
                add("a token", f"the key {entry} of the Secret {name}", text.position, in_secret=True)
    return found


def _containers(plan: Plan) -> Iterator[Container]:
    """The engine's container, the others of its pod, and those of the Jobs of the same file."""
    if plan.container is not None:
        yield plan.container
    if plan.pod is not None:
        yield from (container for container in plan.pod.containers if container is not plan.container)
    if plan.objects is not None and plan.workload is not None:
        for job in plan.objects.jobs_in(plan.workload.document.file):
            if job is not plan.workload:
                yield from (container for pod in job.pods for container in pod.containers)


def _scripts(container: Container) -> Iterator[tuple[str, Node]]:
    """Texts that a container runs: (what it is, in words; its node)."""
    for arg in container.words:
        yield "the command", arg.node
    for mount in container.mounts:
        for path, node in mount.files:
            yield f"the file {path.rpartition('/')[2][:80]} of the ConfigMap {mount.source[:80]}", node


def _referred(plan: Plan) -> Iterator[tuple[str, Node]]:
    """The stringData of the Secrets that the engine's pod takes variables or files from."""
    objects, workload = plan.objects, plan.workload
    if objects is None or workload is None or plan.pod is None:
        return
    names: dict[str, None] = {}
    for container in plan.pod.containers:
        for key, path in (("env", ("valueFrom", "secretKeyRef")), ("envFrom", ("secretRef",))):
            for entry in container.node.get(key) or ():
                names[entry.string(*path, "name") or ""] = None
        names.update((mount.source, None) for mount in container.mounts if mount.kind == "secret")
    for name in filter(None, names):
        secret = objects.secret(name, workload.namespace, workload.document.file).found
        plain = secret.node.get("stringData") if secret is not None else None
        if plain is not None and plain.kind == "mapping":
            yield name, plain


def _kind(name: str) -> str:
    return "a token" if "TOKEN" in name else "a key"


def _secret(name: str, value: str, names: frozenset[str]) -> bool:
    """Whether a variable holds a secret: by its name, or by the shape of its value."""
    return (name in names and _real(value) and not _cut_short(value)) or _token(value)


def _tokens_in(text: str) -> Iterator[tuple[int, str]]:
    """The tokens of a text that is more than one value, with their offsets. What is written in one case only, or without a
    digit where providers have some, may be a name."""
    text = text[:_MOST_TEXT]
    if not any(beginning in text for beginning in _BEGINNINGS):
        return
    for match in re.finditer(_SHAPES, text):
        token = match.group(1)
        body = token.partition("-" if token.startswith(("sk-", "nvapi-")) else "_")[2] or token
        mixed = body != body.lower() and (body != body.upper() or token.startswith("AKIA"))
        if mixed and (token.startswith("hf_") or any(map(str.isdigit, body))) and _real(token):
            yield match.start(1), token


def _real(value: str) -> bool:
    """Whether a value may be a real secret: long enough and no placeholder."""
    return len(value) >= 8 and not re.search(_PLACEHOLDER, value[:200]) and not value.isspace()


def _cut_short(value: str) -> bool:
    """Whether a value begins like a provider's token and is none: an example of one, such as nvapi-KEY."""
    return value.startswith(("hf_", "nvapi-", "AKIA", "ghp_")) and not re.match(_SHAPES, value)


def _token(value: str) -> bool:
    if not any(beginning in value for beginning in _BEGINNINGS):
        return False
    match = re.search(_SHAPES, value[:4000])
    return bool(match) and _real(match.group(1)) if match else False
