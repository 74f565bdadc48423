"""Who the engine runs as, where its weights come to lie, and what must have room: as the sources of hub, images and
kubelet have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from planner.facts import rule_facts
from planner.report.result import LintResult
from tests.facts.plans import plan_of

QWEN = "--model=Qwen/Qwen2.5-7B-Instruct"
HOSTED = {"name": "v", "hostPath": {"path": "/srv"}}


def pod(
    *args: str,
    image: str = "vllm/vllm-openai:v0.11.0",
    env: dict[str, str] | None = None,
    mounts: dict[str, str] | None = None,
    volumes: list[dict[str, Any]] | None = None,
    context: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
    kind: str = "Deployment",
    replicas: int = 1,
    **container: Any,
) -> str:
    """A manifest of one engine; ``mounts``: path → volume (default: one hostPath named v)."""
    engine = {
        "name": "engine",
        "image": image,
        "args": list(args or (QWEN, "--max-model-len=4096")),
        "env": [{"name": name, "value": value} for name, value in (env or {}).items()],
        "volumeMounts": [{"mountPath": path, "name": name} for path, name in (mounts or {}).items()],
        "resources": {"limits": {"nvidia.com/gpu": 1, **(limits or {})}},
        "securityContext": context or {},
        **container,
    }
    spec = {
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        "containers": [engine],
        "volumes": [HOSTED] if volumes is None else volumes,
    }
    return yaml.safe_dump(
        {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": "llm"},
            "spec": {"replicas": replicas, "template": {"metadata": {}, "spec": spec}},
        }
    )


def facts(text: str) -> dict[str, Any]:
    """The facts of the container."""
    found: dict[str, Any] = rule_facts(plan_of(text))[0]["container"]
    return found


@pytest.mark.parametrize(
    ("env", "path"),
    [
        ({}, "/root/.cache/huggingface/hub"),
        ({"HF_HOME": "/a"}, "/a/hub"),
        ({"HF_HOME": "/a", "HF_HUB_CACHE": "/b"}, "/b"),
        ({"HUGGINGFACE_HUB_CACHE": "/c", "HF_HOME": "/a"}, "/c"),
        ({"HUGGINGFACE_HUB_CACHE": "/c", "HF_HUB_CACHE": "/b"}, "/b"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
        ({"HOME": "/home/me"}, "/home/me/.cache/huggingface/hub"),
        ({"HF_HOME": "~/models"}, "/root/models/hub"),
        ({"TRANSFORMERS_CACHE": "/t"}, "/root/.cache/huggingface/hub"),
        ({"VLLM_USE_MODELSCOPE": "true"}, "/root/.cache/modelscope"),
        ({"VLLM_USE_MODELSCOPE": "True", "MODELSCOPE_CACHE": "/ms"}, "/ms"),
    ],
)
def test_the_hub_cache_is_where_the_hub_library_puts_it(env: dict[str, str], path: str) -> None:
    assert facts(pod(env=env))["cache"]["path"] == path


def test_download_dir_decides_before_any_variable() -> None:
    cache = facts(pod(QWEN, "--download-dir=/w", env={"HF_HOME": "/a"}, mounts={"/w": "v"}))["cache"]
    assert (cache["path"], cache["by"], cache["kind"]) == ("/w", "--download-dir", "hostPath")


def test_a_start_script_sets_variables_over_those_of_the_container() -> None:
    script = "export HF_HOME=/models && vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 4096"
    text = pod(env={"HF_HOME": "/a"}, mounts={"/models": "v"}, command=["sh", "-c", script]).replace("args:", "x-args:")
    assert facts(text)["cache"]["kind"] == "hostPath"


@pytest.mark.parametrize(
    ("args", "env"),
    [
        (("--model=/models/qwen",), {}),
        (("--model=./qwen",), {}),
        (("--model=models/qwen",), {}),
        (("--model=s3://bucket/qwen",), {}),
        (("--model=gs://bucket/qwen",), {}),
        (("--model=$(MODEL)",), {}),
        ((QWEN,), {"HF_HUB_OFFLINE": "1"}),
        ((QWEN,), {"TRANSFORMERS_OFFLINE": "true"}),
        ((QWEN, "--load-format=dummy"), {}),
    ],
)
def test_what_is_no_download_is_none(args: tuple[str, ...], env: dict[str, str]) -> None:
    assert facts(pod(*args, "--max-model-len=4096", env=env))["cache"] == {"downloads": False}


def test_an_operators_pods_may_have_volumes_that_the_manifest_does_not_show(
    lint_text: Callable[..., LintResult],
) -> None:
    model = (
        "apiVersion: kubeai.org/v1\nkind: Model\nmetadata: {name: q}\nspec:\n  engine: VLLM\n"
        "  url: hf://Qwen/Qwen2.5-7B-Instruct\n  resourceProfile: nvidia-gpu-l4:1\n"
    )
    result = lint_text(model)
    assert result.engines == 1
    assert "cache-not-on-volume" not in {finding.rule for finding in result.findings}


@pytest.mark.parametrize("kind", ["persistentVolumeClaim", "hostPath", "nfs", "csi", "ephemeral", "emptyDir", "image"])
def test_any_volume_at_the_cache_will_do(kind: str, lint_text: Callable[..., LintResult]) -> None:
    text = pod(mounts={"/root/.cache/": "v"}, volumes=[{"name": "v", kind: {}}])
    assert "cache-not-on-volume" not in {finding.rule for finding in lint_text(text).findings}


def test_where_the_image_keeps_its_cache_is_not_guessed(lint_text: Callable[..., LintResult]) -> None:
    """An image of somebody's own with a volume somewhere: it may well be the cache."""
    result = lint_text(pod(image="registry.example/own/vllm:v1", mounts={"/models": "v"}, command=["vllm", "serve"]))
    assert "cache-not-on-volume" not in {finding.rule for finding in result.findings}
    (gap,) = [gap for gap in result.not_evaluated if gap.rule == "cache-not-on-volume"]
    assert "home" in gap.reason
    assert "HF_HOME" in gap.remedy
    # Without any volume it is certain, unless the model is a part of the image.
    bare = lint_text(pod(image="rocm/vllm:v1", volumes=[], command=["vllm", "serve"]))
    assert "cache-not-on-volume" in {finding.rule for finding in bare.findings}
    own = lint_text(pod(image="registry.example/own/vllm:v1", volumes=[], command=["vllm", "serve"]))
    assert "cache-not-on-volume" not in {finding.rule for finding in own.findings}
    (gap,) = [gap for gap in own.not_evaluated if gap.rule == "cache-not-on-volume"]
    assert "a part of the image" in gap.reason


@pytest.mark.parametrize(
    ("image", "context", "home"),
    [
        ("vllm/vllm-openai:v0.11.0", {}, "/root"),
        ("vllm/vllm-openai:v0.11.0", {"runAsUser": 0}, "/root"),
        ("vllm/vllm-openai:v0.11.0", {"runAsUser": 1000}, "/"),
        ("vllm/vllm-openai:v0.11.0", {"runAsUser": 2000}, "/"),
        ("vllm/vllm-openai:v0.22.0", {"runAsUser": 2000}, "/home/vllm"),
        ("vllm/vllm-openai:v0.33.0", {"runAsUser": 1000}, "unknown"),  # ubuntu 24.04 has a user of that uid
        ("vllm/vllm-openai:v0.33.0", {"runAsUser": 1000650000}, "/"),
        ("vllm/vllm-openai:latest", {"runAsUser": 2000}, "unknown"),
        ("vllm/vllm-openai:v0.11.0", {"runAsNonRoot": True}, "/"),
        ("vllm/vllm-openai:v0.11.0", {"runAsUser": 65534}, "/nonexistent"),
        ("registry.example/own/vllm:v1", {"runAsUser": 1000}, "unknown"),
    ],
)
def test_the_home_is_the_one_of_the_images_passwd_file(image: str, context: dict[str, Any], home: str) -> None:
    assert facts(pod(image=image, context=context, command=["vllm", "serve"]))["user"]["home"] == home


@pytest.mark.parametrize(
    ("image", "context", "env", "found"),
    [
        ("vllm/vllm-openai:v0.22.0", {"runAsUser": 1000}, {}, True),
        ("vllm/vllm-openai:v0.26.0", {"runAsUser": 1000}, {}, True),
        ("vllm/vllm-openai:v0.21.0", {"runAsUser": 1000}, {}, False),
        ("vllm/vllm-openai:v0.27.0", {"runAsUser": 1000}, {}, False),
        ("vllm/vllm-openai:v0.23.0", {"runAsUser": 2000}, {}, False),
        ("vllm/vllm-openai:v0.23.0", {}, {}, False),
        ("vllm/vllm-openai:v0.23.0", {"runAsUser": 65534}, {}, False),
        ("vllm/vllm-openai:v0.23.0", {"runAsUser": 1000}, {"USER": "me"}, False),
        ("vllm/vllm-openai:v0.23.0", {"runAsUser": 1000}, {"LOGNAME": "me"}, False),
        ("vllm/vllm-openai:v0.23.0", {"runAsUser": 1000}, {"TORCHINDUCTOR_CACHE_DIR": "/tmp/i"}, True),
        ("registry.example/own/vllm:v0.23.0", {"runAsUser": 1000}, {}, False),
        ("vllm/vllm-openai-nonroot:v0.23.0", {"runAsUser": 1000}, {}, False),
    ],
)
def test_a_user_without_a_name_fails_in_the_releases_that_ask_for_it(
    image: str, context: dict[str, Any], env: dict[str, str], found: bool, lint_text: Callable[..., LintResult]
) -> None:
    result = lint_text(pod("--model=/models/q", "--max-model-len=4096", image=image, context=context, env=env))
    assert ("user-without-passwd-entry" in {finding.rule for finding in result.findings}) is found


@pytest.mark.parametrize(
    ("annotations", "account", "kind", "found"),
    [
        ({"openshift.io/required-scc": "restricted-v2"}, "", "Deployment", True),
        ({"openshift.io/required-scc": "anyuid"}, "", "Deployment", False),
        ({}, "", "DeploymentConfig", True),
        ({}, "with-anyuid", "DeploymentConfig", False),
        ({}, "", "Deployment", False),
    ],
)
def test_openshift_gives_pods_a_uid_of_their_namespace(
    annotations: dict[str, str], account: str, kind: str, found: bool, lint_text: Callable[..., LintResult]
) -> None:
    document = yaml.safe_load(
        pod("--model=/models/q", "--max-model-len=4096", image="vllm/vllm-openai:v0.23.0", kind=kind)
    )
    document["spec"]["template"]["metadata"]["annotations"] = annotations
    if account:
        document["spec"]["template"]["spec"]["serviceAccountName"] = account
    if kind == "DeploymentConfig":
        document["apiVersion"] = "apps.openshift.io/v1"
    result = lint_text(yaml.safe_dump(document))
    assert ("user-without-passwd-entry" in {finding.rule for finding in result.findings}) is found


def test_without_a_release_whether_a_name_is_needed_is_not_known(lint_text: Callable[..., LintResult]) -> None:
    result = lint_text(pod(image="vllm/vllm-openai:latest", context={"runAsUser": 5000}))
    assert "user-without-passwd-entry" in {gap.rule for gap in result.not_evaluated}


@pytest.mark.parametrize(
    ("context", "env", "mounts", "severity"),
    [
        ({"runAsUser": 1001}, {}, {}, "error"),
        ({"runAsUser": 1001}, {"HOME": "/tmp"}, {}, ""),
        ({"runAsUser": 1001}, {"HOME": "/root"}, {}, "error"),
        ({"runAsUser": 1001}, {"HF_HOME": "/tmp/hf"}, {}, "warning"),
        ({"runAsUser": 1001}, {"HF_HOME": "/models", "HOME": "/tmp"}, {"/models": "v"}, ""),
        ({"runAsUser": 1001}, {}, {"/.cache": "v", "/.triton": "v"}, ""),
        ({"runAsUser": 0}, {}, {}, ""),
        ({}, {}, {}, ""),
        ({"readOnlyRootFilesystem": True}, {}, {}, "error"),
        ({"readOnlyRootFilesystem": True}, {"HOME": "/tmp"}, {}, "error"),
        ({"readOnlyRootFilesystem": True}, {"HOME": "/tmp"}, {"/tmp": "v"}, ""),
        ({"readOnlyRootFilesystem": True, "runAsUser": 1001}, {}, {"/root": "v"}, "error"),
    ],
)
def test_where_the_user_may_write(
    context: dict[str, Any],
    env: dict[str, str],
    mounts: dict[str, str],
    severity: str,
    lint_text: Callable[..., LintResult],
) -> None:
    result = lint_text(pod(context=context, env=env, mounts=mounts))
    assert "".join(f.severity for f in result.findings if f.rule == "home-not-writable") == severity


def test_a_mount_that_is_read_only_is_no_place_to_download_to(lint_text: Callable[..., LintResult]) -> None:
    text = pod(context={"runAsUser": 1001}, env={"HF_HOME": "/models", "HOME": "/tmp"}, mounts={"/models": "v"})
    text = text.replace("mountPath: /models", "mountPath: /models\n          readOnly: true")
    assert "home-not-writable" in {finding.rule for finding in lint_text(text).findings}


def claim(modes: str, size: str = "100Gi", storage: str = "") -> str:
    return (
        f"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: c}}\nspec:\n  accessModes: [{modes}]\n"
        f"  resources: {{requests: {{storage: {size}}}}}\n{'  storageClassName: ' + storage if storage else ''}\n---\n"
    )


CLAIMED: dict[str, Any] = {
    "mounts": {"/root/.cache": "v"},
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
}


@pytest.mark.parametrize(
    ("modes", "size", "storage", "severity"),
    [
        ("ReadWriteOnce", "10Gi", "", "error"),
        ("ReadWriteOnce", "14Gi", "", "error"),
        ("ReadWriteOnce", "15Gi", "", ""),
        ("ReadWriteMany", "10Gi", "", "warning"),
        ("ReadWriteOnce", "10Gi", "local-path", ""),
        ("ReadWriteMany", "1Mi", "efs-sc", ""),
    ],
)
def test_a_claim_below_the_weights(
    modes: str, size: str, storage: str, severity: str, lint_text: Callable[..., LintResult]
) -> None:
    """The weights of Qwen2.5-7B-Instruct take 14.19 GiB."""
    result = lint_text(claim(modes, size, storage) + pod(**CLAIMED))
    assert "".join(f.severity for f in result.findings if f.rule == "volume-too-small") == severity


def test_claims_are_found_in_other_files_of_the_run(lint_text: Callable[..., LintResult]) -> None:
    result = lint_text(pod(**CLAIMED), claim("ReadWriteOnce", "1Gi"))
    (finding,) = [finding for finding in result.findings if finding.rule == "volume-too-small"]
    assert (finding.position.file, finding.position.line) == ("manifest-2.yaml", 6)


@pytest.mark.parametrize(
    ("modes", "replicas", "strategy", "gpus", "severity"),
    [
        ("ReadWriteOnce", 1, "Recreate", 1, ""),
        ("ReadWriteOnce", 1, "", 1, "warning"),
        ("ReadWriteOnce", 2, "Recreate", 1, "warning"),
        ("ReadWriteOnce", 2, "Recreate", 4, "warning"),
        ("ReadWriteOnce", 2, "Recreate", 8, "error"),
        ("ReadWriteOnce", 3, "Recreate", 8, "error"),
        ("ReadWriteOncePod", 2, "Recreate", 1, "error"),
        ("ReadWriteOncePod", 1, "", 1, "error"),
        ("ReadWriteMany", 4, "", 1, ""),
        ("ReadWriteOnce, ReadOnlyMany", 4, "", 1, ""),
    ],
)
def test_who_may_share_a_claim(
    modes: str, replicas: int, strategy: str, gpus: int, severity: str, lint_text: Callable[..., LintResult]
) -> None:
    text = pod(**CLAIMED, replicas=replicas).replace("nvidia.com/gpu: 1", f"nvidia.com/gpu: {gpus}")
    if strategy:
        text = text.replace("  template:", f"  strategy: {{type: {strategy}}}\n  template:", 1)
    result = lint_text(claim(modes) + text)
    assert "".join(f.severity for f in result.findings if f.rule == "single-writer-volume-shared") == severity


def test_claims_of_a_statefulset_belong_to_one_pod_each(lint_text: Callable[..., LintResult]) -> None:
    text = pod(mounts={"/root/.cache": "v"}, volumes=[], kind="StatefulSet", replicas=3)
    text += (
        "  volumeClaimTemplates:\n  - metadata: {name: v}\n    spec:\n      accessModes: [ReadWriteOnce]\n"
        "      resources: {requests: {storage: 100Gi}}\n"
    )
    assert "single-writer-volume-shared" not in {finding.rule for finding in lint_text(text).findings}
    small = lint_text(text.replace("100Gi", "5Gi"))
    assert "volume-too-small" in {finding.rule for finding in small.findings}


def test_anti_affinity_keeps_pods_apart(lint_text: Callable[..., LintResult]) -> None:
    text = pod(**CLAIMED, replicas=2).replace("metadata: {}", "metadata: {labels: {app: llm}}")
    text = text.replace(
        "    spec:\n",
        "    spec:\n      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: "
        "kubernetes.io/hostname, labelSelector: {matchLabels: {app: llm}}}]}}\n",
    )
    result = lint_text(claim("ReadWriteOnce") + text)
    assert "error" in {f.severity for f in result.findings if f.rule == "single-writer-volume-shared"}
