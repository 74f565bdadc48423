from __future__ import annotations

from tests.workloads.reading import container, extraction

SCRIPTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: scripts}
data:
  start.sh: |
    vllm serve x
  config.yaml: "model: y"
"""


def test_kinds_of_volumes():
    mounts = container(
        """
        volumeMounts:
        - {name: shm, mountPath: /dev/shm}
        - {name: scratch, mountPath: /tmp}
        - {name: cache, mountPath: /cache, readOnly: true}
        - {name: elsewhere, mountPath: /e}
        - {name: host, mountPath: /h}
        - {name: token, mountPath: /t}
        - {name: generic, mountPath: /g}
        - {name: bucket, mountPath: /b}
        - {name: bare, mountPath: /bare}
        - {name: undeclared, mountPath: /u}
        """,
        """
        volumes:
        - {name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}
        - name: scratch
          emptyDir:
        - {name: cache, persistentVolumeClaim: {claimName: models}}
        - {name: elsewhere, persistentVolumeClaim: {claimName: gone}}
        - {name: host, hostPath: {path: /data}}
        - {name: token, secret: {secretName: hub}}
        - name: generic
          ephemeral: {volumeClaimTemplate: {spec: {resources: {requests: {storage: 5Gi}}}}}
        - {name: bucket, csi: {driver: gcsfuse.csi.storage.gke.io}}
        - {name: bare}
        - {name: unused, emptyDir: {}}
        """,
        """
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {name: models}
        spec: {resources: {requests: {storage: 200Gi}}}
        """,
    ).mounts
    gib = 2**30
    assert [(mount.path, mount.kind, mount.medium, mount.size_bytes, mount.source) for mount in mounts] == [
        ("/dev/shm", "emptyDir", "Memory", 8 * gib, ""),
        ("/tmp", "emptyDir", "", None, ""),
        ("/cache", "persistentVolumeClaim", "", 200 * gib, "models"),
        ("/e", "persistentVolumeClaim", "", None, "gone"),
        ("/h", "hostPath", "", None, "/data"),
        ("/t", "secret", "", None, "hub"),
        ("/g", "ephemeral", "", 5 * gib, ""),
        ("/b", "csi", "", None, "gcsfuse.csi.storage.gke.io"),
        ("/bare", "emptyDir", "", None, ""),
        ("/u", "", "", None, ""),
    ]
    assert mounts[2].read_only
    assert "gone is not among the files" in mounts[3].reason


def test_files_of_config_maps():
    mounts = container(
        """
        env: [{name: DIR, value: config.yaml}]
        volumeMounts:
        - {name: all, mountPath: /scripts/}
        - {name: some, mountPath: /opt}
        - {name: all, mountPath: /etc/vllm.yaml, subPath: config.yaml}
        - {name: some, mountPath: /deep, subPath: bin}
        - {name: all, mountPath: /by-expression, subPathExpr: $(DIR)}
        - {name: joined, mountPath: /j}
        - {name: missing, mountPath: /m}
        """,
        """
        volumes:
        - {name: all, configMap: {name: scripts}}
        - {name: some, configMap: {name: scripts, items: [{key: start.sh, path: bin/run.sh}, {key: absent, path: x}]}}
        - name: joined
          projected: {sources: [{configMap: {name: scripts}}, {secret: {name: s}}, {configMap: {name: gone}}]}
        - {name: missing, configMap: {name: gone}}
        """,
        SCRIPTS,
    ).mounts
    assert [[(path, node.text) for path, node in mount.files] for mount in mounts] == [
        [("/scripts/start.sh", "vllm serve x\n"), ("/scripts/config.yaml", "model: y")],
        [("/opt/bin/run.sh", "vllm serve x\n")],
        [("/etc/vllm.yaml", "model: y")],
        [("/deep/run.sh", "vllm serve x\n")],
        [("/by-expression", "model: y")],
        [("/j/start.sh", "vllm serve x\n"), ("/j/config.yaml", "model: y")],
        [],
    ]
    assert mounts[0].files[0][1].position.line > 20
    assert "gone is not among the files" in mounts[5].reason
    assert "gone is not among the files" in mounts[6].reason


def test_claim_templates_of_a_stateful_set():
    found = extraction(
        """
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {name: x}
        spec:
          replicas: 3
          volumeClaimTemplates:
          - metadata: {name: data}
            spec: {resources: {requests: {storage: 50Gi}}}
          template:
            spec:
              containers:
              - name: vllm
                volumeMounts: [{name: data, mountPath: /data}]
        """
    )
    assert not found.problems
    (mount,) = found.workloads[0].pods[0].containers[0].mounts
    assert (mount.kind, mount.size_bytes, mount.source) == ("persistentVolumeClaim", 50 * 2**30, "data")


def test_device_claims():
    pod = (
        extraction(
            """
        apiVersion: v1
        kind: Pod
        metadata: {name: x}
        spec:
          containers:
          - {name: vllm, resources: {claims: [{name: gpus}]}}
          resourceClaims:
          - {name: gpus, resourceClaimTemplateName: two-gpus}
          - {name: old, source: {resourceClaimTemplateName: flat}}
          - {name: fabric, resourceClaimTemplateName: channel}
          - {name: gone, resourceClaimName: elsewhere}
        ---
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaimTemplate
        metadata: {name: two-gpus}
        spec: {spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu.nvidia.com, count: 2}}]}}}
        ---
        apiVersion: resource.k8s.io/v1beta1
        kind: ResourceClaimTemplate
        metadata: {name: flat}
        spec: {spec: {devices: {requests: [{name: a, deviceClassName: mig.nvidia.com},
                                           {name: b, deviceClassName: gpu.amd.com, allocationMode: All}]}}}
        ---
        apiVersion: resource.nvidia.com/v1beta1
        kind: ComputeDomain
        metadata: {name: d}
        spec: {numNodes: 2, channel: {resourceClaimTemplate: {name: channel}}}
        """
        )
        .workloads[0]
        .pods[0]
    )
    assert pod.containers[0].claims == ("gpus",)
    assert pod.resource_claims == (
        ("gpus", "gpu.nvidia.com"),
        ("old", "mig.nvidia.com"),
        ("old", "gpu.amd.com"),
        ("fabric", "compute-domain-default-channel.nvidia.com"),
        ("gone", "elsewhere"),
    )
    assert [(request.claim, request.device_class, request.devices) for request in pod.claim_requests] == [
        ("gpus", "gpu.nvidia.com", 2),
        ("old", "mig.nvidia.com", 1),
        ("old", "gpu.amd.com", None),
        ("fabric", "compute-domain-default-channel.nvidia.com", 1),
        ("gone", "", None),
    ]
