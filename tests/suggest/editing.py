"""Manifests for the tests of edits, and one way to edit a text."""

from __future__ import annotations

from planner.documents.read import read_bytes
from planner.lint.run import select_rules
from planner.settings import Settings
from planner.suggest import flag_edits
from planner.suggest.existing import Advice, improve, label, proposals
from planner.suggest.manifests import Input, Key, Manifests, Meant

#: Pod with an L4 on which 128 requests of 8,192 tokens do not keep the reserve; ``{container}`` is indented by 10.
POD = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: llm  # the name
spec:
  replicas: 1
  selector: {{matchLabels: {{app: llm}}}}
  template:
    metadata: {{labels: {{app: llm}}}}
    spec:
      nodeSelector: {{nvidia.com/gpu.product: NVIDIA-L4}}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.24.0
{container}
          resources: {{limits: {{nvidia.com/gpu: 1}}}}
"""


def pod(container: str) -> str:
    """A Deployment whose container has these further lines."""
    return POD.format(
        container="\n".join(" " * 10 + line if line else "" for line in container.strip("\n").split("\n"))
    )


def manifests(*texts: str | bytes, settings: Settings | None = None) -> Manifests:
    """Inputs ``a.yaml``, ``b.yaml`` … with these texts."""
    inputs, contents = [], []
    for number, text in enumerate(texts):
        data = text.encode() if isinstance(text, str) else text
        name = f"{chr(97 + number)}.yaml"
        inputs.append(Input(name, None, data))
        contents.append(read_bytes(data, name))
    return Manifests(inputs, contents, settings or Settings())


def advised(
    *texts: str | bytes, keep: tuple[str, ...] = (), settings: Settings | None = None
) -> tuple[Manifests, tuple[Advice, ...]]:
    """What ``planner suggest`` makes of these texts."""
    found = manifests(*texts, settings=settings)
    advice = improve(found, select_rules(found.settings), keep).advice
    return found, advice


def only_key(found: Manifests, container: str = "") -> Key:
    """The container that starts an engine."""
    return next(key for key, plans in found.plans().items() if container in ("", label(plans[0])[1]))


def set_flag(found: Manifests, name: str, value: str, key: Key | None = None) -> str:
    """Sets a flag where it stands, or anew; empty where it went well, else why not."""
    key = key or only_key(found)
    plan = found.plans()[key][0]
    meant = Meant(
        key, frozenset((name,)), lambda after: (f := after.engine.flags.get(name)) is not None and f.raw == value
    )
    return found.attempt(proposals(found, plan, name, value), meant)


def remove_flag(found: Manifests, name: str) -> str:
    """Takes a flag out; empty where it went well, else why not."""
    key = only_key(found)
    flag = found.plans()[key][0].engine.flags[name]
    meant = Meant(key, frozenset((name,)), lambda after: name not in after.engine.flags)
    return found.attempt(flag_edits.remove(found.files(), flag), meant)


def changed_lines(before: str, after: str) -> tuple[list[str], list[str]]:
    """(lines that are gone, lines that are new)."""
    import difflib

    old, new = before.split("\n"), after.split("\n")
    gone, added = [], []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            gone += old[a:b]
            added += new[c:d]
    return gone, added
