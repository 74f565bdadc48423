"""Variables that a release ignores; who can be reached; tolerations."""

from __future__ import annotations

import json
from typing import Any

from planner.facts import rule_facts
from tests.facts.plans import LLAMA, facts_of, gaps_of, plan_of
from tests.rules.manifests import manifest


def ignored(env: dict[str, str], version: str = "0.11.0", args: tuple[str, ...] = (), **options: Any) -> dict[str, str]:
    facts, _ = facts_of(list(args), version, env=env, **options)
    return {item["name"]: f"{item['reason']}; {item['advice']}" for item in facts["ignored_variables"]}


def test_variables_by_release() -> None:
    assert not ignored({"VLLM_USE_V1": "1", "VLLM_LOGGING_LEVEL": "INFO", "VLLM_ATTENTION_BACKEND": "X"}, "0.10.2")
    assert ignored({"VLLM_USE_V1": "1"}, "0.11.1") == {
        "VLLM_USE_V1": "vLLM 0.11.1 no longer reads it: releases before 0.11.1 did; Remove it"
    }
    assert ignored({"VLLM_USE_V2_MODEL_RUNNER": "1"}, "0.11.0")["VLLM_USE_V2_MODEL_RUNNER"].startswith(
        "vLLM 0.11.0 does not read it yet: it came with"
    )


def test_slips_and_flags_in_disguise() -> None:
    assert "perhaps VLLM_LOGGING_LEVEL is meant" in ignored({"VLLM_LOGING_LEVEL": "DEBUG"})["VLLM_LOGING_LEVEL"]
    assert "Use --max-model-len" in ignored({"VLLM_MAX_MODEL_LEN": "1"})["VLLM_MAX_MODEL_LEN"]
    # somebody's own variable, one that the command uses, and those of plug-ins and platforms
    own = {"VLLM_TEAM": "x", "VLLM_DTYPE": "half", "VLLM_ASCEND_X": "1", "VLLM_SPYRE_USE_CB": "1", "LENGTH": "1"}
    assert not ignored(own, args=("--dtype=$(VLLM_DTYPE)",))


def test_variables_that_the_start_script_sets() -> None:
    def exported(script: str, version: str = "0.26.0") -> dict[str, str]:
        plan = plan_of(manifest(["-c", f"{script}\nvllm serve Qwen/Qwen3-8B"], version, command=["bash"]))
        return {item["name"]: item["reason"] for item in rule_facts(plan)[0]["engine"]["ignored_variables"]}

    gone = "vLLM 0.26.0 no longer reads it: releases before 0.15.0 did"
    assert exported("export VLLM_ATTENTION_BACKEND=TRITON_ATTN") == {"VLLM_ATTENTION_BACKEND": gone}
    assert not exported("VLLM_ATTENTION_BACKEND=TRITON_ATTN")  # the script's own
    assert not exported("export VLLM_ATTENTION_BACKEND=TRITON_ATTN", "0.14.1")
    assert not exported("export VLLM_LOGING_LEVEL=DEBUG\necho $VLLM_LOGING_LEVEL")


def test_the_start_script_decides_about_the_budgets_variables() -> None:
    def read(line: str) -> tuple[dict[str, str], list[str]]:
        script = f"{line}\nvllm serve Qwen/Qwen3-8B"
        plan = plan_of(manifest(["-c", script], "0.10.2", command=["bash"], env={"VLLM_USE_V1": "0"}))
        engine = plan.engine
        return {name: fact.value for name, fact in engine.env.items()}, [gap.fact for gap in engine.unknown]

    assert read(":") == ({"VLLM_USE_V1": "0"}, [])
    assert read("export VLLM_USE_V1=1") == ({"VLLM_USE_V1": "1"}, [])
    assert read("export VLLM_USE_V1=") == ({"VLLM_USE_V1": ""}, [])
    assert read("unset VLLM_USE_V1") == ({}, [])
    assert read("export VLLM_USE_V1=$(cat /v1)") == ({}, ["engine.env.VLLM_USE_V1"])


def test_variables_of_other_servers() -> None:
    assert "only SGLang reads it" in ignored({"SGLANG_ENABLE_TORCH_COMPILE": "1"})["SGLANG_ENABLE_TORCH_COMPILE"]
    assert "only TGI reads it" in ignored({"MAX_TOTAL_TOKENS": "4096"})["MAX_TOTAL_TOKENS"]
    assert not ignored({"MAX_TOTAL_TOKENS": "4096"}, args=("--max-model-len=$(MAX_TOTAL_TOKENS)",))
    assert not ignored({"NUM_SHARD": "1"}, command=["sh", "-c", "vllm serve x --tensor-parallel-size $NUM_SHARD"])


def test_an_assumed_release_leaves_them_open() -> None:
    text = manifest([LLAMA], image="vllm/vllm-openai:latest", env={"VLLM_USE_V1": "1"})
    (gap,) = gaps_of(text)
    assert gap.fact == "engine.ignored_variables"
    assert not gaps_of(manifest([LLAMA], image="vllm/vllm-openai:latest", env={"VLLM_TYPO_OF_NOTHING": "1"}))


def loopback(text: str) -> Any:
    return rule_facts(plan_of(text))[0]["engine"].get("loopback_only")


def test_who_listens_where() -> None:
    model = "--model-path=Qwen/Qwen3-8B"
    assert loopback(manifest([model], "0.5.5", engine="sglang")) is True
    assert loopback(manifest([model, "--host", "0.0.0.0"], "0.5.5", engine="sglang")) is False
    assert loopback(manifest([model, "--host=$(HOST)"], "0.5.5", engine="sglang")) is None
    assert loopback(manifest([model, "--node-rank=1"], "0.5.5", engine="sglang")) is False
    assert loopback(manifest([LLAMA])) is False
    assert loopback(manifest(["Qwen/Qwen3-8B"], "1.0.0", engine="trtllm")) is True
    # a proxy in the pod may be the one that is reached, unless the kubelet itself asks
    pod = json.loads(manifest([model], "0.5.5", engine="sglang"))
    spec = pod["spec"]["template"]["spec"]
    spec["containers"].append({"name": "proxy", "image": "nginx:1.27"})
    assert loopback(json.dumps(pod)) is False
    spec["containers"][0]["readinessProbe"] = {"httpGet": {"path": "/health", "port": 30000}}
    assert loopback(json.dumps(pod)) is True


def missing_toleration(selector: dict[str, str], tolerations: list[dict[str, str]] | None = None) -> Any:
    pod = json.loads(manifest([LLAMA], gpu=""))
    pod["spec"]["template"]["spec"] |= {"nodeSelector": selector, "tolerations": tolerations or []}
    return rule_facts(plan_of(json.dumps(pod)))[0]["pod"]["missing_toleration"]


def test_tolerations() -> None:
    product = {"nvidia.com/gpu.product": "NVIDIA-L4"}
    assert missing_toleration(product) == "nvidia.com/gpu"
    assert missing_toleration({"gpu-type": "l4"}) == "nvidia.com/gpu"
    assert not missing_toleration(product, [{"key": "nvidia.com/gpu", "operator": "Exists"}])
    assert not missing_toleration(product, [{"key": "dedicated", "value": "ml"}])
    assert not missing_toleration({"cloud.google.com/gke-accelerator": "nvidia-l4"})
    assert not missing_toleration({"kubernetes.io/arch": "amd64"})
    assert not missing_toleration({})
