from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.documents.read import read_bytes
from planner.workloads.extract import READERS, extract
from tests.workloads.reading import extraction, messages

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
MANIFESTS = SHARED / "corpus" / "manifests"

POD = "{containers: [{name: a, image: b}]}"


def test_unknown_kinds_are_counted_where_they_hold_containers():
    found = extraction(
        f"""
        apiVersion: serving.kserve.io/v1alpha1
        kind: ServingRuntime
        metadata: {{name: x}}
        spec: {POD}
        ---
        apiVersion: example.com/v1
        kind: Deep
        spec: {{roles: [{{template: {{spec: {POD}}}}}]}}
        ---
        apiVersion: example.com/v1
        kind: Deep
        spec: {{roles: [{{template: {{spec: {POD}}}}}]}}
        ---
        apiVersion: example.com/v1
        kind: Shallow
        spec: {{containers: [a, b]}}
        ---
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        spec: {POD}
        ---
        apiVersion: inference.llmaz.io/v1alpha1
        kind: Deployment
        spec: {{template: {{spec: {POD}}}}}
        """
    )
    assert [(workload.kind, workload.part) for workload in found.workloads] == [
        ("ServingRuntime", ""),
        ("Deep", "spec.roles[0].template"),
        ("Deep", "spec.roles[0].template"),
        ("Deployment", "spec.template"),
    ]
    assert not found.problems
    assert found.unknown_kinds == {"Deep": 2, "Deployment": 1}


def test_other_yaml_says_nothing():
    found = extraction("a: 1\n---\n- b\n---\ntext\n---\nkind: Pod\n---\nkind: Pod\nspec: 3\n---\n~\n")
    assert not found.workloads
    assert [message.partition(" must")[0] for message in messages(found)] in ([], ["9: spec"])


def test_without_api_version():
    found = extraction(f"kind: Deployment\nmetadata: {{name: x}}\nspec: {{template: {{spec: {POD}}}}}\n")
    assert len(found.workloads) == 1
    assert messages(found) == ["1: this Deployment has no `apiVersion`"]


def test_every_kind_of_the_table_can_be_read():
    for (group, kind), _ in READERS.items():
        version = f"{group}/v1" if group else "v1"
        assert extract(read_bytes(f"apiVersion: {version}\nkind: {kind}\n".encode(), "x").documents).workloads == ()


def test_many_containers_times_many_keys_are_cut_off():
    keys = "".join(f"  K{i}: v\n" for i in range(3000))
    containers = "".join(f"      - {{name: c{i}, envFrom: [{{configMapRef: {{name: c}}}}]}}\n" for i in range(1000))
    started = time.process_time()
    found = extraction(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata:\n{keys}",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec:\n  template:\n    spec:\n      containers:\n"
        + containers,
    )
    assert time.process_time() - started < 2
    assert len(found.problems) == 1
    assert "too many containers" in found.problems[0].message
    assert len(found.workloads) == 1


def test_the_limit_of_a_run_is_named_once():
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n" + "".join(
        f"  K{i}: v\n" for i in range(9000)
    )
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: a, envFrom: [{configMapRef: {name: c}}]}]}\n"
    found = extraction("---\n".join([config] + [pod] * 40))
    assert len(found.workloads) == 40
    assert len(found.workloads[0].pods[0].containers[0].env) == 9000
    assert [problem.message.partition(" too many")[0] for problem in found.problems] == [
        "the objects up to this one mean"
    ]


# Field names as they are in manifests, so that junk gets past the first checks.
_FIELDS = """
    metadata spec template containers initContainers name image command args env envFrom value valueFrom
    configMapKeyRef secretKeyRef fieldRef resourceFieldRef key fieldPath resource divisor prefix configMapRef
    resources limits requests claims nvidia.com/gpu memory volumeMounts mountPath subPath subPathExpr volumes
    emptyDir sizeLimit medium configMap items path projected sources persistentVolumeClaim claimName ephemeral
    volumeClaimTemplate livenessProbe httpGet port periodSeconds ports containerPort affinity nodeAffinity
    requiredDuringSchedulingIgnoredDuringExecution nodeSelectorTerms matchExpressions operator values tolerations
    nodeSelector annotations labels replicas resourceClaims resourceClaimTemplateName source leaderWorkerTemplate
    workerTemplate leaderTemplate size jobTemplate parallelism volumeClaimTemplates hostIPC restartPolicy $patch
"""
_KEYS = st.sampled_from(_FIELDS.split())
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(["", "x", "$(A)", "$(", "${X}", "8", "1Gi", "1e999", "limits.memory", "c", "metadata.labels['a']"]),
    st.text(max_size=8),
)
_JUNK = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=4)),
    max_leaves=25,
)


def _under(path: tuple[str | int, ...], junk: object) -> object:
    for step in reversed(path):
        junk = [junk] if step == 0 else {step: junk}
    return junk


@settings(max_examples=300, deadline=None)
@given(
    junk=_JUNK,
    other=st.dictionaries(_KEYS, _JUNK, max_size=6),
    kind=st.sampled_from(
        sorted(READERS) + [("", "ConfigMap"), ("resource.k8s.io", "ResourceClaimTemplate"), ("x", "X")]
    ),
    path=st.sampled_from(
        [
            (),
            ("spec",),
            ("spec", "template", "spec"),
            ("spec", "template", "spec", "containers"),
            ("spec", "template", "spec", "containers", 0),
            ("spec", "containers", 0, "env", 0),
            ("spec", "leaderWorkerTemplate", "workerTemplate", "spec", "containers", 0),
            ("metadata",),
        ]
    ),
)
def test_junk_never_raises(junk, other, kind, path):
    group, name = kind
    body = _under(path, {**junk, **other} if isinstance(junk, dict) else junk)
    document = {
        "apiVersion": f"{group}/v1" if group else "v1",
        "kind": name,
        **(body if isinstance(body, dict) else {}),
    }
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": other}
    text = yaml.safe_dump_all([document, config_map], allow_unicode=True)
    found = extract(read_bytes(text.encode("utf-8", "replace"), "junk.yaml").documents)
    for problem in found.problems:
        assert problem.position.line >= 1
        assert problem.message
    for workload in found.workloads:
        for pod in workload.pods:
            for container in pod.containers:
                for variable in container.env.values():
                    assert (variable.value is None) == bool(variable.reason)


@pytest.mark.skipif(not MANIFESTS.exists(), reason="the shared corpus is not here")
def test_development_manifests():
    rows = [json.loads(line) for line in (MANIFESTS / "index.jsonl").read_text().splitlines()]
    kinds = {kind for (_, kind), module in READERS.items() if module in ("core", "leaderworkerset")}
    whole, broken, counts = 0, 0, Counter()
    problems = []
    for row in rows:
        if row["split"] != "dev":
            continue
        path = MANIFESTS / "dev" / f"{row['slug']}.yaml"
        content = read_bytes(path.read_bytes(), path.name)
        result = extract(content.documents)
        problems.extend(result.problems)
        expected = {kind for kind in row["kinds"] if kind in kinds}
        found = {workload.kind for workload in result.workloads} & kinds
        if content.problems:  # what stands behind a syntax error may be missing
            broken += 1
            assert found <= expected
        else:
            whole += 1
            assert found == expected, path.name
        counts.update(found)
        for workload in result.workloads:
            assert workload.name
            assert all(pod.containers for pod in workload.pods)
            for pod in workload.pods:
                assert all(container.name for container in pod.containers)
    assert whole >= 190
    assert broken <= 5
    assert counts["Deployment"] == 77
    assert counts["LeaderWorkerSet"] == 3
    assert counts["CronJob"] == 1
    assert counts["StatefulSet"] >= 2
    # The unquoted `on` and `off` of one file are refused by kubectl; nothing else is wrong with these files.
    assert [(problem.position.file.partition("--")[0], problem.position.line) for problem in problems] == [
        ("mitchross", 59),
        ("mitchross", 72),
    ]
