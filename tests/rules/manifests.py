"""Small manifests of engines, written out so that tests show only what matters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

IMAGES = {
    "vllm": "vllm/vllm-openai:v{version}",
    "sglang": "lmsysorg/sglang:v{version}",
    "tgi": "ghcr.io/huggingface/text-generation-inference:{version}",
    "trtllm": "nvcr.io/nvidia/tensorrt-llm/release:{version}",
}
COMMANDS = {"sglang": ["python3", "-m", "sglang.launch_server"], "trtllm": ["trtllm-serve"]}


def manifest(
    args: Sequence[str],
    version: str = "0.11.0",
    *,
    engine: str = "vllm",
    image: str = "",
    gpu: str = "NVIDIA-H100-80GB-HBM3",
    resources: Mapping[str, object] | None = None,
    env: Mapping[str, str] | None = None,
    command: Sequence[str] | None = None,
    shared_memory: bool = True,
) -> str:
    """A Deployment of one engine container; ``gpu`` is the value of nvidia.com/gpu.product, empty for none.

    Beside what the arguments say nothing is wrong with it: it has a volume for its models, a token, RAM behind /dev/shm
    (unless ``shared_memory`` is False), and stops its old pod before it starts a new one."""
    token = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
    home = {"tgi": "/data"}.get(engine, "/root/.cache/huggingface")
    mounts = [{"name": "models", "mountPath": home}]
    volumes: list[dict[str, object]] = [{"name": "models", "hostPath": {"path": "/var/lib/models"}}]
    if shared_memory:
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}})
    container: dict[str, object] = {
        "name": "engine",
        "image": image or IMAGES[engine].format(version=version),
        "args": list(args),
        "resources": {"limits": dict(resources or {"nvidia.com/gpu": 1})},
        "env": [*({"name": name, "value": value} for name, value in (env or {}).items() if name != "HF_TOKEN"), token],
        "volumeMounts": mounts,
    }
    if "HF_TOKEN" in (env or {}):
        container["env"] = [{"name": name, "value": value} for name, value in (env or {}).items()]
    start = command if command is not None else COMMANDS.get(engine)
    if start:
        container["command"] = list(start)
    spec: dict[str, object] = {"containers": [container], "volumes": volumes}
    if gpu:
        spec["nodeSelector"] = {"nvidia.com/gpu.product": gpu}
        spec["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "llm"},
            "spec": {
                "selector": {"matchLabels": {"app": "llm"}},
                "strategy": {"type": "Recreate"},
                "template": {"metadata": {"labels": {"app": "llm"}}, "spec": spec},
            },
        },
        indent=1,
    )
