"""Facts of operating an engine, where the rules' examples and the public reports do not reach."""

from __future__ import annotations

import json
from textwrap import dedent, indent
from typing import Any

import pytest

from planner.documents.read import read_bytes
from planner.facts import rule_facts
from planner.facts.serving import serving_gaps
from planner.plan import plan_files
from planner.settings import Settings
from tests.facts.plans import plan_of
from tests.rules.deployments import deployment, probe, service

MODEL = "--model=Qwen/Qwen3-8B"


def container(text: str) -> dict[str, Any]:
    """The facts of the one engine of a manifest."""
    plan = plan_files([read_bytes(text.encode(), "m.yaml")], Settings()).plans[0]
    return rule_facts(plan)[0]["container"]  # type: ignore[no-any-return]


def wrong(text: str) -> list[str]:
    return [item["what"] for item in container(text)["wrong_ports"]]


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("a name that stands for the engine's port", deployment(
            container="ports: [{name: http, containerPort: 8000}]\n" + probe("liveness", 3, "http"))),
        ("SGLang's own default", deployment(
            image="lmsysorg/sglang:v0.5.3",
            container="command: [python3, -m, sglang.launch_server, --model-path, Qwen/Qwen3-8B]\n"
            + probe("liveness", 3, 30000))),
        ("a port that another variable names", deployment(
            env="- {name: METRICS_PORT, value: '9100'}", container=probe("liveness", 3, 9100))),
        ("a server that the script starts beside it", deployment(
            '"nginx & exec vllm serve Qwen/Qwen3-8B"', container="command: [sh, -c]\n" + probe("liveness", 3, 80))),
        ("a flag with which no server listens at one port", deployment(
            MODEL, "--uds=/tmp/vllm.sock", container=probe("liveness", 3, 80))),
        ("a Service of something that is not the API", deployment(more=service("5557"))),
        ("a Service whose port is filled in elsewhere", deployment(more=service("'${PORT}'"))),
    ],
)  # fmt: skip
def test_nothing_is_wrong_with(what: str, text: str) -> None:
    assert wrong(text) == [], what


def test_a_sidecar_may_answer_for_the_engine() -> None:
    text = deployment(container=probe("liveness", 3, 9000))
    beside = "        - {name: proxy, image: envoyproxy/envoy:v1.31, ports: [{containerPort: 9000}]}\n"
    assert wrong(text) == ["the livenessProbe asks port 9000"]
    assert wrong(text + beside) == []


def test_a_probe_of_a_name_that_the_container_does_not_declare() -> None:
    assert wrong(deployment(container=probe("startup", 60, "http"))) == ['the startupProbe asks the port "http"']


def test_a_headless_service_lists_pods_and_sends_nothing() -> None:
    text = deployment(MODEL, "--port=9000", more=service("8000"))
    assert wrong(text) == ["the Service llm sends to port 8000"]
    assert wrong(text.replace("spec: {selector", "spec: {clusterIP: None, selector")) == []


def test_a_port_that_is_not_known_is_no_guess() -> None:
    own = container(
        deployment(
            "--model=Qwen/Qwen3-8B", image="registry.example.com/team/my-vllm:1", container=probe("liveness", 3, 80)
        )
    )
    assert "wrong_ports" not in own, "an image of somebody's own"
    facts = container(deployment(MODEL, "--port=$(PORT)", env="- {name: PORT, valueFrom: {fieldRef: {fieldPath: x}}}",
                                 container=probe("liveness", 3)))  # fmt: skip
    assert "wrong_ports" not in facts


@pytest.mark.parametrize(
    ("path", "version", "never"),
    [
        ("/health", "v0.5.3", True),
        ("/health", "v0.4.9", False),
        ("/health_generate", "v0.4.9", True),
        ("/v1/models", "v0.5.3", False),
    ],
)
def test_sglang_answers_after_a_second_where_it_generates(path: str, version: str, never: bool) -> None:
    text = deployment(
        image=f"lmsysorg/sglang:{version}",
        container="command: [python3, -m, sglang.launch_server, --model-path, Qwen/Qwen3-8B, --host, 0.0.0.0]\n"
        f"readinessProbe: {{httpGet: {{path: {path}, port: 30000}}}}\n",
    )
    (item,) = container(text)["probe_timeouts"]
    assert (item["timeout"], item["enough"], item["never"]) == (1, 10 if never else 5, never)


@pytest.mark.parametrize(
    ("hook", "seconds"),
    [
        ("sleep: {seconds: 20}", 20),
        ('exec: {command: [sleep, "15"]}', 15),
        ('exec: {command: [sh, -c, "sleep 45"]}', 45),
        ('exec: {command: [sh, -c, "while curl -s localhost:8000/load; do sleep 5; done"]}', 0),
        ('exec: {command: [sh, -c, "sleep 1m"]}', 0),
        ("httpGet: {path: /drain, port: 8000}", 0),
    ],
)
def test_how_long_a_hook_sleeps(hook: str, seconds: int) -> None:
    text = deployment(pod="terminationGracePeriodSeconds: 120", container=f"lifecycle: {{preStop: {{{hook}}}}}\n")
    (item,) = container(text)["terminations"]
    assert (item["pre_stop"], item["grace"], item["hook"]) == (seconds, 120, True)


def rollout(spec: str, **options: Any) -> list[tuple[int, int, int]]:
    plan = plan_files([read_bytes(deployment(spec=spec, **options).encode(), "m.yaml")], Settings()).plans[0]
    return [(r["surge"], r["unavailable"], r["gpus"]) for r in rule_facts(plan)[0]["workload"]["rollouts"]]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("replicas: 1", [(1, 0, 2)]),
        ("replicas: 4", [(1, 1, 2)]),
        ("replicas: 8\nstrategy: {rollingUpdate: {maxSurge: 50%, maxUnavailable: 0}}", [(4, 0, 8)]),
        ("strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 25%}}", [(0, 1, 0)]),
        ("strategy: {rollingUpdate: {maxSurge: '${SURGE}'}}", []),
        ("replicas: 0", []),
        ("strategy: {type: Recreate}", []),
    ],
)
def test_what_a_rolling_update_needs(spec: str, expected: list[tuple[int, int, int]]) -> None:
    """Surge is rounded up and unavailable down, as the Deployment controller has it."""
    assert rollout(spec, gpus=2) == expected


def start(env: str = "", volume: str = "", args: tuple[str, ...] = (MODEL,)) -> dict[str, Any]:
    lines = probe("startup", 60) + ("volumeMounts: [{name: v, mountPath: /cache}]\n" if volume else "")
    pod = f"volumes: [{{name: v, {volume}}}]" if volume else ""
    return container(deployment(*args, env=env, pod=pod, container=lines))["startup"]["load_seconds"]  # type: ignore[no-any-return]


HOME = "- {name: HF_HOME, value: /cache}"
#: Bytes of the files of Qwen3-8B, and what the engine itself takes: 15, 60 and 120 s, and 10, 90 and 240 s of compiling.
QWEN, ENGINE = 16.38e9, (25, 150, 360)


@pytest.mark.parametrize(
    ("env", "volume", "reading"),
    [
        ("", "", (QWEN / 7e9 + QWEN / 2.5e9, QWEN / 2e9 + QWEN / 0.25e9, QWEN / 0.5e9 + QWEN / 0.025e9)),
        (HOME, "emptyDir: {}", (QWEN / 7e9, QWEN / 2e9 + QWEN / 0.25e9, QWEN / 0.5e9 + QWEN / 0.025e9)),
        (HOME, "hostPath: {path: /srv}", (QWEN / 7e9, QWEN / 2e9, QWEN / 0.5e9 + QWEN / 0.025e9)),
        (HOME, "persistentVolumeClaim: {claimName: c}", (QWEN / 5e9, QWEN / 0.5e9, QWEN / 0.37e9 + QWEN / 0.025e9)),
        (HOME + '\n- {name: HF_HUB_OFFLINE, value: "1"}', "persistentVolumeClaim: {claimName: c}",
         (QWEN / 5e9, QWEN / 0.5e9, QWEN / 0.37e9)),
        (HOME, "nfs: {server: s, path: /}", (QWEN / 3e9, QWEN / 0.37e9, QWEN / 0.1e9 + QWEN / 0.025e9)),
    ],
)  # fmt: skip
def test_the_time_of_a_start_follows_where_the_weights_lie(env: str, volume: str, reading: tuple[float, ...]) -> None:
    found = start(env, volume)
    wanted = [read + engine for read, engine in zip(reading, ENGINE, strict=True)]
    assert [found["fast"], found["usual"], found["slow"]] == pytest.approx(wanted, rel=0.01, abs=2)
    assert "GB/s" in found["basis"]


def test_eager_mode_compiles_nothing_and_dummy_weights_are_not_read() -> None:
    found = start(args=(MODEL, "--enforce-eager", "--load-format=dummy"))
    assert (found["fast"], found["usual"], found["slow"]) == (15, 60, 120)
    assert "compiling" not in found["basis"]


GATED = "--model=meta-llama/Llama-3.1-8B-Instruct"


def started(line: str, env: str = "", **options: Any) -> str:
    """An engine of a gated model whose start script begins with ``line``."""
    script = json.dumps(f"{line}\nexec vllm serve meta-llama/Llama-3.1-8B-Instruct")
    return deployment(script, env=env, container="command: [bash, -c]", **options)


@pytest.mark.parametrize(
    ("what", "text", "found"),
    [
        ("nothing gives a token", deployment(GATED, env=""), True),
        ("a variable of a Secret", deployment(GATED), False),
        ("a variable that is empty", deployment(GATED, env="- {name: HF_TOKEN, value: ' '}"), True),
        ("a Secret that is mounted", deployment(
            GATED, env="", pod="volumes: [{name: t, secret: {secretName: hf}}]",
            container="volumeMounts: [{name: t, mountPath: /root/.cache/huggingface/token, subPath: token}]"), False),
        ("variables of an object that is not here", deployment(
            GATED, env="", container="envFrom: [{secretRef: {name: hf}}]"), False),
        ("an init container that fills the volume", deployment(
            GATED, env="- {name: HF_HOME, value: /c}",
            pod="volumes: [{name: c, emptyDir: {}}]\ninitContainers: [{name: get, image: python, volumeMounts: [{name: c, "
            "mountPath: /c}]}]", container="volumeMounts: [{name: c, mountPath: /c}]"), False),
        ("a hub of one's own", deployment(GATED, env="- {name: HF_ENDPOINT, value: 'https://hub.example.com'}"), False),
        ("another hub", deployment(GATED, env="- {name: VLLM_USE_MODELSCOPE, value: 'True'}"), False),
        ("a script that takes the token from a file", started("export HF_TOKEN=$(cat /vault/hf)"), False),
        ("a script that takes a token under another name", started("export HF_API_TOKEN=$(cat /vault/hf)"), False),
        ("a script that sets the token to nothing", started("export HF_TOKEN=$NOTHING"), True),
        ("a script that logs in with the library", started("python -c 'from huggingface_hub import login; login(1)'"), False),
        ("a script that reads variables from a file", started("set -a; . /vault/secrets/env"), False),
        ("a script that activates an environment", started("source /opt/venv/bin/activate"), True),
        ("a script that goes offline", started("export HF_HUB_OFFLINE=1"), False),
        ("a script that names another hub", started("export HF_ENDPOINT=http://hub.llm.svc"), False),
        ("a mounted script that logs in", deployment(
            env="", container="command: [bash, /s/start.sh]\nvolumeMounts: [{name: s, mountPath: /s}]",
            pod="volumes: [{name: s, configMap: {name: s}}]",
            more="---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: s, namespace: llm}\ndata:\n  start.sh: |\n"
            "    huggingface-cli login --token $(cat /vault/hf)\n"
            "    exec vllm serve meta-llama/Llama-3.1-8B-Instruct\n"), False),
    ],
)  # fmt: skip
def test_whether_a_gated_model_comes_with_a_token(what: str, text: str, found: bool) -> None:
    assert bool(container(text)["gated_downloads"]) is found, what


def test_the_code_of_a_repository_is_pinned_by_a_commit() -> None:
    def unpinned(*args: str, **options: Any) -> bool:
        return bool(container(deployment(MODEL, "--trust-remote-code", *args, **options))["remote_code"])

    assert unpinned()
    assert unpinned("--revision=main")
    assert not unpinned("--revision=b968826d9c46dd6066d109eabc6255188de91218")
    assert not unpinned("--code-revision=b968826d9c46dd6066d109eabc6255188de91218")
    assert not unpinned(env="- {name: HF_HUB_OFFLINE, value: '1'}")


@pytest.mark.parametrize(
    ("pod", "name", "namespace", "collides"),
    [
        ("", "vllm", "llm", True),
        ("enableServiceLinks: false", "vllm", "llm", False),
        ("", "vllm", "other", False),
        ("", "vllm-router", "llm", False),
    ],
)
def test_a_service_sets_variables_in_its_own_namespace(pod: str, name: str, namespace: str, collides: bool) -> None:
    text = deployment(pod=pod, more=service("8000", name).replace("namespace: llm", f"namespace: {namespace}"))
    assert bool(container(text)["colliding_variables"]) is collides


def test_a_variable_of_the_container_wins_over_a_services() -> None:
    text = deployment(env="- {name: VLLM_PORT, value: '29500'}", more=service("8000", "vllm"))
    assert container(text)["colliding_variables"] == []


@pytest.mark.parametrize(
    ("version", "gpus", "collides"), [("v0.5.3", 2, True), ("v0.5.3", 1, False), ("v0.5.15", 2, False)]
)
def test_sglang_stops_at_an_address_where_ranks_share_a_queue(version: str, gpus: int, collides: bool) -> None:
    text = deployment(
        image=f"lmsysorg/sglang:{version}",
        gpus=gpus,
        container=f"command: [python3, -m, sglang.launch_server, --model-path, Qwen/Qwen3-8B, --tp-size, '{gpus}']",
        more=service("30000", "sglang"),
    )
    assert bool(container(text)["colliding_variables"]) is collides


def test_a_key_or_a_proxy_in_front_of_the_engine() -> None:
    public = service("8000").replace("spec: {", "spec: {type: LoadBalancer, ")

    def open_to_all(**options: Any) -> Any:
        return container(deployment(more=public, **options)).get("openings")

    assert open_to_all()[0]["through"] == "LoadBalancer Service llm"
    assert open_to_all(env="- {name: VLLM_API_KEY, valueFrom: {secretKeyRef: {name: k, key: k}}}") == []
    assert container(deployment(MODEL, "--api-key=$(KEY)", more=public))["openings"] == []
    assert open_to_all(container="envFrom: [{secretRef: {name: maybe}}]") is None
    proxied = deployment(more=public.replace("targetPort: 8000", "targetPort: 4180"))
    assert container(proxied)["openings"] == []


def test_a_key_that_the_start_script_sets() -> None:
    public = service("8000").replace("spec: {", "spec: {type: LoadBalancer, ")

    def open_to_all(line: str, env: str = "") -> Any:
        return container(started(line, env, more=public)).get("openings")

    assert open_to_all("export VLLM_API_KEY=$(cat /run/secrets/key)") == []
    assert open_to_all("VLLM_API_KEY=$(cat /run/secrets/key)")  # not exported
    assert open_to_all("export VLLM_API_KEY=")
    assert open_to_all(":", env="- {name: VLLM_API_KEY, value: ''}")
    assert open_to_all("source /run/secrets/env") is None
    plan = plan_of(started("source /run/secrets/env", more=public))
    (gap,) = (gap for gap in serving_gaps(plan, rule_facts(plan)[0]) if gap.fact == "container.api_key")
    assert gap.reason == (
        "the start script reads /run/secrets/env, which is not among the files that were read and may define a key"
    )


def test_a_start_script_that_takes_a_services_variable_away() -> None:
    more = service("8000", "vllm")
    assert container(started(":", more=more))["colliding_variables"]
    assert container(started("unset VLLM_PORT", more=more))["colliding_variables"] == []
    assert container(started("export VLLM_PORT=29500", more=more))["colliding_variables"] == []


@pytest.mark.parametrize("port", ["'¹'", "'" + "9" * 5000 + "'", "9" * 5000, "'٣'"])
def test_digits_that_are_no_port_break_nothing(port: str) -> None:
    text = deployment(MODEL, container=probe("liveness", 3, port), more=service(port))
    assert isinstance(wrong(text), list)


def findings(text: str) -> set[str]:
    from planner.lint.run import lint, select_rules

    result = lint([read_bytes(text.encode(), "m.yaml")], select_rules(Settings()), Settings())
    return {finding.rule for finding in result.findings if finding.severity == "error"}


def test_a_patch_has_what_the_manifest_under_it_has() -> None:
    """A container without an image is laid over another one: its variables, volumes and GPUs stand there."""
    patch = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: tgi}
spec:
  template:
    spec:
      containers:
        - name: server
          args: [--model-id=$(MODEL_ID), --num-shard=2, --quantize=bitsandbytes]
"""
    assert findings(patch) == set()


RUNNER = """
      runner:
        name: ome-container
        image: docker.io/lmsysorg/sglang:v0.5.5.post3
        command: [python3, -m, sglang.launch_server, --model-path, moonshotai/Kimi-K2-Instruct, --host, 0.0.0.0,
          --tp-size, $(PARALLELISM_SIZE), --dp-size, $(PARALLELISM_SIZE), --enable-dp-attention,
          --nnodes, $(LWS_GROUP_SIZE), --node-rank, $(LWS_WORKER_INDEX), --dist-init-addr, $(LWS_LEADER_ADDRESS):5757]
        resources: {limits: {nvidia.com/gpu: 8}}
"""
OME = f"""
apiVersion: ome.io/v1beta1
kind: ClusterServingRuntime
metadata: {{name: srt}}
spec:
  engineConfig:
    leader:{RUNNER}    worker:
      size: 11{RUNNER}"""


def test_sglang_over_pods_under_ome() -> None:
    """OME counts the group's GPUs into PARALLELISM_SIZE; 64 heads need not divide by 96 ranks of 96 attention copies; and
    --nnodes of SGLang 0.5 is no flag of a vLLM of that number."""
    assert findings(OME) == set()
    plans = plan_files([read_bytes(OME.encode(), "m.yaml")], Settings()).plans
    assert {plan.engine.get("tensor-parallel-size") for plan in plans} == {96}


@pytest.mark.parametrize(
    ("value", "found"), [("nvapi-NVKEY", False), ("nvapi-" + "a1B2" * 16, True), ("hf_mytoken1", False)]
)
def test_an_example_of_a_token_is_none(value: str, found: bool) -> None:
    text = deployment(MODEL, env=f"- {{name: NGC_API_KEY, value: {value}}}")
    assert bool(container(text)["literal_secrets"]) is found


def test_a_base_whose_overlays_rename_it() -> None:
    """The Service vllm of a base is vllm-h100 where it is applied (GoogleCloudPlatform/accelerated-platforms)."""
    base = deployment(MODEL, more=service("8000").replace("name: llm", "name: vllm", 1))
    files = {
        "app/base/all.yaml": base,
        "app/base/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [all.yaml]\n",
        "app/h100/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
        "nameSuffix: -h100\nresources: [../base]\n",
    }

    def colliding(names: list[str]) -> int:
        plans = plan_files([read_bytes(files[name].encode(), name) for name in names], Settings()).plans
        return len(rule_facts(plans[0])[0]["container"]["colliding_variables"])

    assert colliding(["app/base/all.yaml"]) == 1
    assert colliding(list(files)) == 0


def test_flags_of_a_server_that_may_be_for_diffusion() -> None:
    def started(model: str) -> str:
        flags = (f"--model-path={model}", "--num-gpus=2", "--backend=sglang")
        return deployment(*flags, image="lmsysorg/sglang:v0.5.12", container="command: [sglang, serve]")

    wrong = {"unknown-flag", "foreign-engine-flag"}
    assert findings(started("/models/flux")) & wrong == set()
    assert findings(started("Qwen/Qwen3-8B")) & wrong == wrong


def surges(kind: str, api: str, strategy: str, replicas: str = "1") -> bool:
    """Whether the one claim of a workload is mounted by a second pod during its rollout."""
    pod = dedent("""\
        metadata: {labels: {app: llm}}
        spec:
          volumes: [{name: models, persistentVolumeClaim: {claimName: models}}]
          containers:
            - name: main
              image: vllm/vllm-openai:v0.11.0
              args: [vllm, serve, Qwen/Qwen3-8B]
              resources: {limits: {nvidia.com/gpu: 1}}
              volumeMounts: [{name: models, mountPath: /root/.cache/huggingface}]
        """)
    if kind == "LeaderWorkerSet":
        template = "leaderWorkerTemplate:\n  size: 1\n  workerTemplate:\n" + indent(pod, "    ")
    elif kind == "LLMInferenceService":
        template = "model: {uri: hf://Qwen/Qwen3-8B, name: q}\ntemplate:\n" + indent(pod.partition("spec:\n")[2], "")
    else:
        template = "template:\n" + indent(pod, "  ")
    spec = f"replicas: {replicas}\n{strategy}\n{template}"
    text = (
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: models}\n"
        "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 100Gi}}}\n---\n"
        f"apiVersion: {api}\nkind: {kind}\nmetadata: {{name: llm}}\nspec:\n" + indent(spec, "  ")
    )
    (claim,) = container(text)["shared_claims"]
    rollouts = rule_facts(plan_files([read_bytes(text.encode(), "m.yaml")], Settings()).plans[0])[0]["workload"][
        "rollouts"
    ]
    if rollouts:
        assert claim["surge"] == (rollouts[0]["surge"] > 0), "both facts have one source"
        assert claim["remedy"] == rollouts[0]["remedy"]
    return bool(claim["surge"])


@pytest.mark.parametrize(
    ("kind", "api", "strategy", "expected"),
    [
        ("Deployment", "apps/v1", "", True),
        ("Deployment", "apps/v1", "strategy: {rollingUpdate: {maxSurge: 0}}", False),
        ("Deployment", "apps/v1", "strategy: {rollingUpdate: {maxSurge: 0%}}", False),
        ("Deployment", "apps/v1", "strategy: {type: Recreate}", False),
        ("Deployment", "apps/v1", "strategy: {rollingUpdate: {maxSurge: '${SURGE}'}}", False),
        ("DeploymentConfig", "apps.openshift.io/v1", "", True),
        ("DeploymentConfig", "apps.openshift.io/v1", "strategy: {type: Recreate}", False),
        ("DeploymentConfig", "apps.openshift.io/v1", "strategy: {rollingParams: {maxSurge: 0}}", False),
        ("LLMInferenceService", "serving.kserve.io/v1alpha1", "", True),
        ("LLMInferenceService", "serving.kserve.io/v1alpha1", "rolloutStrategy: {maxSurge: 0}", False),
        ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", "", False),
        (
            "LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1",
            "rolloutStrategy: {rollingUpdateConfiguration: {maxSurge: 1}}", True,
        ),
        ("StatefulSet", "apps/v1", "", False),
    ],
)  # fmt: skip
def test_the_kinds_that_start_a_new_pod_first_are_those_of_the_rollout(
    kind: str, api: str, strategy: str, expected: bool
) -> None:
    assert surges(kind, api, strategy) is expected


def test_any_share_of_replicas_that_are_not_known_starts_one_pod_more() -> None:
    assert surges("Deployment", "apps/v1", "", "'${REPLICAS}'")
