"""Manifests of one engine as text, for tests of what stands around it."""

from __future__ import annotations

from textwrap import dedent, indent

TOKEN = "- {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf, key: token}}}"


def deployment(
    *args: str,
    image: str = "vllm/vllm-openai:v0.11.0",
    gpus: int = 1,
    spec: str = "strategy: {type: Recreate}",
    pod: str = "",
    container: str = "",
    env: str = TOKEN,
    more: str = "",
) -> str:
    """A Deployment of one engine; the texts are lines of the object's spec, the pod's, the container's and of ``env``, and
    further documents."""

    def block(text: str, depth: int) -> str:
        return indent(dedent(text).strip("\n"), " " * depth) + "\n" if text else ""

    return (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: llm, namespace: llm}\nspec:\n"
        "  selector: {matchLabels: {app: llm}}\n" + block(spec, 2) + "  template:\n"
        "    metadata: {labels: {app: llm}}\n    spec:\n" + block(pod, 6) + "      containers:\n"
        f"        - name: engine\n          image: {image}\n          args:\n"
        + "".join(f"            - {arg}\n" for arg in args or ("--model=Qwen/Qwen3-8B", "--max-model-len=8192"))
        + ("          env:\n" + block(env, 12) if env else "")
        + block(container, 10)
        + f"          resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}\n"
        + dedent(more)
    )


def probe(kind: str, failures: int, port: object = 8000, delay: int = 0) -> str:
    """A probe of the health endpoint."""
    return (
        f"{kind}Probe:\n  httpGet: {{path: /health, port: {port}}}\n  initialDelaySeconds: {delay}\n"
        f"  periodSeconds: 10\n  timeoutSeconds: 10\n  failureThreshold: {failures}\n"
    )


def service(port: str, name: str = "llm") -> str:
    """A Service of the deployment's pods, as a further document."""
    return (
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: llm}}\n"
        f"spec: {{selector: {{app: llm}}, ports: [{{port: 80, targetPort: {port}}}]}}\n"
    )
