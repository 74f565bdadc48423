"""Hub tokens and API keys that stand in a manifest in plain text. Their values never leave this module."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from planner.provenance import Position

if TYPE_CHECKING:
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
    """Secrets in plain text in the pod of an engine: where they stand (``where``) and what they are (``what``)."""
    found: list[dict[str, Any]] = []

    def add(what: str, where: str, position: Position | None) -> None:
        if position is not None:
            positions[f"container.literal_secrets[{len(found)}]"] = position
        found.append({"what": what, "where": where})

    containers: tuple[Container, ...] = (plan.container,) if plan.container else ()
    for container in containers:
        for variable in container.env.values():
            value = variable.value
            if value is None or variable.secret:
                continue
            named = variable.name in _NAMES and _real(value) and not _cut_short(value)
            if named or _token(value):
                add(
                    "a token" if "TOKEN" in variable.name else "a key",
                    f"variable {variable.name}",
                    variable.node.position,
                )
    key = plan.engine.flags.get("api-key")
    if key is not None and key.known and isinstance(key.raw, str) and _real(key.raw) and "$" not in key.raw:
        source = next(
            (word.source for word in plan.engine.command_line.words if word.text.endswith(key.raw)), "args"
        ) if plan.engine.command_line else "args"  # fmt: skip
        if not source.startswith("env:"):
            add("an API key", "--api-key", key.value_position or key.position)
    return found


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
