from __future__ import annotations

from tests.workloads.reading import extraction, messages


def group(template: str, spec: str = "replicas: 2") -> str:
    return f"""
        apiVersion: leaderworkerset.x-k8s.io/v1
        kind: LeaderWorkerSet
        metadata: {{name: x, annotations: {{a: object}}}}
        spec: {{{spec}, leaderWorkerTemplate: {{{template}}}}}
        """


def pod(name: str, extra: str = "") -> str:
    return f"{{metadata: {{annotations: {{a: {name}}}}}, spec: {{containers: [{{name: {name}{extra}}}]}}}}"


def test_leader_and_workers():
    found = extraction(group(f"size: 4, leaderTemplate: {pod('lead')}, workerTemplate: {pod('work')}"))
    assert not found.problems
    (workload,) = found.workloads
    assert (workload.replicas, workload.group_size, workload.group_size_known) == (2, 4, True)
    assert [
        (item.role, item.count, item.containers[0].name, item.annotations["a"].value) for item in workload.pods
    ] == [
        ("leader", 1, "lead", "lead"),
        ("worker", 3, "work", "work"),
    ]
    assert workload.annotations["a"].value == "lead"
    leader, worker = (item.containers[0].env for item in workload.pods)
    assert (leader["LWS_GROUP_SIZE"].value, leader["LWS_WORKER_INDEX"].value) == ("4", "0")
    assert worker["LWS_GROUP_SIZE"].value == "4"
    assert worker["LWS_WORKER_INDEX"].value is None
    assert leader["LWS_LEADER_ADDRESS"].value is None
    assert leader["LWS_LEADER_ADDRESS"].reason


def test_worker_template_serves_as_leader():
    found = extraction(group(f"size: 2, workerTemplate: {pod('work')}", "startupPolicy: LeaderCreated"))
    (workload,) = found.workloads
    assert workload.replicas == 1
    assert [(item.role, item.count, item.containers[0].name) for item in workload.pods] == [
        ("leader", 1, "work"),
        ("worker", 1, "work"),
    ]
    assert [item.containers[0].env["LWS_WORKER_INDEX"].value for item in workload.pods] == ["0", "1"]


def test_one_pod_groups_and_no_size():
    for size in ("size: 1, ", ""):
        (workload,) = extraction(group(f"{size}workerTemplate: {pod('work')}")).workloads
        assert workload.group_size == 1
        assert [item.role for item in workload.pods] == ["leader"]


def test_unknown_size():
    found = extraction(group(f'size: "${{SIZE}}", workerTemplate: {pod("work")}'))
    assert not found.problems
    (workload,) = found.workloads
    assert (workload.group_size, workload.group_size_known) == (2, False)
    size = workload.pods[0].containers[0].env["LWS_GROUP_SIZE"]
    assert size.value is None
    assert "placeholder" in size.reason


def test_injected_variables_win_and_can_be_referred_to():
    extra = ', env: [{name: LWS_GROUP_SIZE, value: "9"}, {name: N, value: "$(LWS_GROUP_SIZE)"}, '
    extra += '{name: ADDRESS, value: "$(LWS_LEADER_ADDRESS):5000"}]'
    (workload,) = extraction(group(f"size: 2, workerTemplate: {pod('work', extra)}")).workloads
    env = workload.pods[1].containers[0].env
    assert (env["LWS_GROUP_SIZE"].value, env["N"].value, env["ADDRESS"].value) == ("2", "2", None)
    assert "host name" in env["ADDRESS"].reason


def test_problems_of_a_shared_template_are_named_once():
    found = extraction(group(f"size: 2, workerTemplate: {pod('work', ', args: [8]')}"))
    assert len(messages(found)) == 1


def test_other_types():
    assert messages(extraction(group("workerTemplate: text"))) == [
        '5: spec.leaderWorkerTemplate.workerTemplate must be a mapping (`name: value` lines), and is the string "text"'
    ]
    assert not extraction(group("size: 2")).workloads
