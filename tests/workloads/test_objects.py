from __future__ import annotations

from textwrap import dedent

from planner.documents.read import read_bytes
from planner.workloads.extract import extract
from planner.workloads.objects import Objects
from tests.workloads.reading import extraction


def config_map(value: str, namespace: str = "") -> str:
    place = f", namespace: {namespace}" if namespace else ""
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{place}}}\ndata: {{v: {value}}}\n"


def objects(**files: str) -> Objects:
    """One file per keyword; ``a__b`` is the file ``a/b``."""
    documents = []
    for name, text in files.items():
        documents.extend(read_bytes(dedent(text).encode(), name.replace("__", "/")).documents)
    return extract(documents).objects


def value(found: Objects, namespace: str, file: str) -> str | None:
    item = found.config_map("c", namespace, file).found
    return item.data["v"].text if item else None


def test_namespaces_match_exactly_or_where_one_is_missing():
    found = objects(f=config_map("one", "prod"), g=config_map("two", "dev"))
    assert value(found, "prod", "x") == "one"
    assert value(found, "dev", "x") == "two"
    assert value(found, "test", "x") is None
    assert value(found, "", "x") is None  # either could be meant
    assert value(found, "", "f") == "one"  # the same file
    assert "several" in found.config_map("c", "", "x").reason
    assert value(objects(f=config_map("any")), "prod", "x") == "any"
    assert value(objects(f=config_map("any", "prod")), "", "x") == "any"


def test_the_nearest_of_several_is_taken():
    found = objects(base__c=config_map("base"), over__c=config_map("over"))
    assert value(found, "", "base/deployment") == "base"
    assert value(found, "", "over/deployment") == "over"
    assert value(found, "", "elsewhere/deployment") is None
    twice = objects(f=config_map("first") + "---\n" + config_map("second"))
    assert value(twice, "", "f") == "second"


def test_secrets_keep_names_only():
    found = objects(
        f="""
        apiVersion: v1
        kind: Secret
        metadata: {name: hub}
        data: {A: c2VjcmV0}
        stringData: {B: secret, A: x}
        """
    )
    secret = found.secret("hub", "", "f").found
    assert secret is not None
    assert secret.keys == ("A", "B")
    assert "secret" not in repr(secret).replace("Secret", "")


def test_services_and_claims():
    found = objects(
        f="""
        apiVersion: v1
        kind: Service
        metadata: {name: vllm, namespace: a}
        spec:
          type: LoadBalancer
          selector: {app: vllm}
          ports: [{name: http, port: 80, targetPort: http}, {port: 8000}]
        ---
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {name: cache}
        spec:
          accessModes: [ReadWriteOnce]
          storageClassName: fast
          resources: {requests: {storage: 100Gi}}
        ---
        apiVersion: inference.llmaz.io/v1alpha1
        kind: Service
        metadata: {name: other}
        """
    )
    (service,) = found.services
    assert (service.name, service.namespace, service.type, service.selector) == (
        "vllm",
        "a",
        "LoadBalancer",
        {"app": "vllm"},
    )
    assert [(port.name, port.port, port.target) for port in service.ports] == [("http", 80, "http"), ("", 8000, "8000")]
    claim = found.persistent_volume_claim("cache", "a", "f").found
    assert claim is not None
    assert claim.size_bytes is not None
    assert claim.size_bytes.value == 100 * 2**30
    assert (claim.access_modes, claim.storage_class) == (("ReadWriteOnce",), "fast")


def test_junk_objects_raise_nothing():
    found = extraction(
        """
        apiVersion: v1
        kind: Service
        spec: {ports: [1, {port: x}, null], selector: [a]}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: c}
        data: [1]
        ---
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {name: p}
        spec: {resources: {requests: {storage: lots}}, accessModes: x}
        ---
        apiVersion: autoscaling/v2
        kind: HorizontalPodAutoscaler
        spec: {scaleTargetRef: x}
        ---
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaimTemplate
        metadata: {name: t}
        spec: {spec: {devices: {requests: [1, {exactly: 4}, {count: x}]}}}
        """
    ).objects
    assert len(found.services) == 1
    config = found.config_map("c", "", "").found
    assert config is not None
    assert config.data == {}
    claim = found.persistent_volume_claim("p", "", "").found
    assert claim is not None
    assert claim.size_bytes is None
    assert found.autoscaler("Deployment", "x", "", "").found is None
    devices = found.device_claim("ResourceClaimTemplate", "t", "", "").found
    assert devices is not None
    assert len(devices.requests) == 3
