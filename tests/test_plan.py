"""What a plan works out from the settings: names of draft models, and the smallest device under the plan's own terms."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.engines.dispatch import engine_modules
from planner.facts import rule_facts
from planner.memory.budget import MemoryBudget
from planner.plan import Plan, budget_options
from planner.report.result import LintResult
from planner.settings import Settings
from planner.units import GIB
from tests.facts.plans import LLAMA, plan_of
from tests.rules.manifests import manifest

DRAFT = "meta-llama/Llama-3.2-1B-Instruct"
SGLANG = ["--model-path=meta-llama/Llama-3.1-8B-Instruct", "--mem-fraction-static=0.8"]


def vllm(draft: str, gpu: str = "NVIDIA-L40S", **options: object) -> str:
    """Llama 3.1 8B with a draft model at this reference."""
    speculative = {"model": draft, "method": "draft_model", "num_speculative_tokens": 3, **options}
    flags = [LLAMA, "--max-model-len=8192", f"--speculative-config={json.dumps(speculative)}"]
    return manifest(flags, "0.24.0", gpu=gpu)


def sglang(draft: str) -> str:
    flags = [*SGLANG, "--speculative-algorithm=STANDALONE", f"--speculative-draft-model-path={draft}"]
    return manifest(flags, "0.5.18", engine="sglang", gpu="NVIDIA-L40S")


def budget(plan: Plan) -> MemoryBudget:
    assert plan.budget is not None
    return plan.budget


def drafts_unknown(plan: Plan) -> list[str]:
    return [gap.remedy for gap in plan.unknown if gap.fact == "engine.memory.draft"]


# -- draft models ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [vllm, sglang])
def test_a_draft_is_resolved_as_the_settings_say(written: Callable[[str], str], tmp_path: Path) -> None:
    """A path that the settings map to a hub id or to a local folder costs what the model itself does."""
    named = plan_of(written(DRAFT))
    assert not drafts_unknown(named)
    (tmp_path / "draft").mkdir()
    (tmp_path / "draft" / "config.json").write_text(
        json.dumps(
            {
                "architectures": ["LlamaForCausalLM"],
                "model_type": "llama",
                "hidden_size": 2048,
                "num_hidden_layers": 16,
                "num_attention_heads": 32,
                "num_key_value_heads": 8,
                "head_dim": 64,
                "intermediate_size": 8192,
                "vocab_size": 128256,
                "tie_word_embeddings": True,
                "max_position_embeddings": 131072,
                "torch_dtype": "bfloat16",
            }
        )
    )
    folders = Settings(model_folders={"/models": "."}, source=str(tmp_path / "planner.yaml"))
    mapped = (
        Settings(models={"/models/draft": DRAFT}),
        Settings(models={"/models/draft": str(tmp_path / "draft")}),
        folders,
    )
    for settings in mapped:
        plan = plan_of(written("/models/draft"), settings)
        assert not drafts_unknown(plan)
        assert plan.draft is not None
        assert plan.draft.num_layers == 16
        one, other = budget(plan).ranks[0], budget(named).ranks[0]
        assert {name: term.bytes for name, term in one.terms.items()} == {
            name: term.bytes for name, term in other.terms.items()
        }
        assert one.num_blocks == other.num_blocks


def test_the_draft_that_nobody_knows_is_told_with_what_would_make_it_known() -> None:
    plan = plan_of(vllm("/models/draft"))
    assert plan.draft is None
    assert drafts_unknown(plan) == ["map /models/draft to a hub id under `models:` in planner.yaml"]


def test_what_the_annotation_says_of_the_model_says_nothing_of_its_draft() -> None:
    text = vllm("/models/draft").replace(
        '"template": {\n   "metadata": {',
        '"template": {\n   "metadata": {"annotations": {"planner/model": "Qwen/Qwen3-8B"}, ',
    )
    plan = plan_of(text)
    assert plan.model is not None
    assert plan.model.id == "Qwen/Qwen3-8B"
    assert plan.draft is None


@pytest.mark.parametrize("name", ["deepseek-ai/DeepSeek-R1", "/models/r1"])
def test_a_target_that_is_named_as_its_own_draft_drafts_with_its_own_layers(name: str) -> None:
    """The engines read only the MTP layers of a checkpoint that is the target's own, whichever way it is written."""
    settings = Settings(models={"/models/r1": "deepseek-ai/DeepSeek-R1"})
    gpus = {"nvidia.com/gpu": 8}
    plain = '{"method":"mtp","num_speculative_tokens":1}'
    twice = json.dumps({"method": "mtp", "model": name, "num_speculative_tokens": 1})
    first, second = (
        budget(
            plan_of(
                manifest(
                    ["--model=deepseek-ai/DeepSeek-R1", "--tensor-parallel-size=8", f"--speculative-config={config}"],
                    "0.24.0",
                    gpu="NVIDIA-H200",
                    resources=gpus,
                ),
                settings,
            )
        ).ranks[0]
        for config in (plain, twice)
    )
    assert first.num_blocks == second.num_blocks
    flags = ["--model-path=deepseek-ai/DeepSeek-R1", "--tp=8", "--speculative-algorithm=NEXTN"]
    first, second = (
        budget(
            plan_of(manifest([*flags, *more], "0.5.18", engine="sglang", gpu="NVIDIA-H200", resources=gpus), settings)
        ).ranks[0]
        for more in ([], [f"--speculative-draft-model-path={name}"])
    )
    assert {name: term.bytes for name, term in first.terms.items()} == {
        name: term.bytes for name, term in second.terms.items()
    }
    assert first.terms["draft"].bytes.expected < 2 * GIB


# -- the smallest device -----------------------------------------------------------------------------------------------


def smallest(text: str, settings: Settings | None = None) -> int:
    """GiB of the smallest device that starts it."""
    plan = plan_of(text, settings)
    assert plan.requirement is not None
    return round(plan.requirement.expected / GIB)


def test_the_smallest_device_holds_the_draft_model_too() -> None:
    """15 GiB of weights fit 20 GiB; 61 GiB of a Qwen3 32B beside them need a device of 94."""
    assert smallest(vllm(DRAFT, gpu="")) == 22
    assert smallest(vllm("Qwen/Qwen3-32B", gpu="")) == 93


def given(**gib: float) -> Settings:
    return Settings(memory={name: {"value": value, "unit": "GiB", "reason": "measured"} for name, value in gib.items()})


def test_the_smallest_device_is_worked_out_with_the_terms_that_were_measured() -> None:
    text = manifest([LLAMA, "--max-model-len=8192"], "0.24.0", gpu="")
    assert smallest(text) == 20
    assert smallest(text, given(activations=20)) == 39
    # What a device reports, or what one leaves, says nothing about another device.
    assert smallest(text, given(device=24, requested=20, outside=2, kv_available=1)) == 20


@pytest.mark.parametrize(
    ("image", "assumed"),
    [("nvcr.io/nvidia/ai-dynamo/vllm-runtime:latest", True), ("nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.9.1", False)],
)
def test_what_is_only_assumed_of_a_start_with_another_launcher(image: str, assumed: bool) -> None:
    """Dynamo starts vLLM: its budget, the plan's and the one of a suggestion, covers the older releases as vLLM's does."""
    plan = plan_of(manifest([LLAMA], image=image, command=["python3", "-m", "dynamo.vllm"]))
    modules = engine_modules("dynamo-vllm")
    assert plan.start is not None
    assert plan.start.engine == "dynamo-vllm"
    assert modules is not None
    assert budget_options(plan, modules)["version_assumed"] is assumed


def test_the_weights_of_the_cpu_backend_are_those_of_the_model_that_the_settings_name() -> None:
    """15.3 GiB of Qwen3 8B do not fit 8 GiB of host memory, whatever the path to it is called."""
    text = manifest(
        ["--model=/models/x", "--max-model-len=8192"],
        "0.24.0",
        image="vllm/vllm-openai-cpu:v0.24.0",
        gpu="",
        resources={"memory": "8Gi"},
    )
    assert not rule_facts(plan_of(text))[0]["container"]["host_memory"]
    (found,) = rule_facts(plan_of(text, Settings(models={"/models/x": "Qwen/Qwen3-8B"})))[0]["container"]["host_memory"]
    assert round(found["low"] / GIB) == 16


def test_an_unknown_draft_leaves_the_models_own_limits_judged(lint_text: Callable[..., LintResult]) -> None:
    """Only rules about memory wait for the draft's size."""
    result = lint_text(vllm("/models/nobody-knows").replace("--max-model-len=8192", "--max-model-len=9999999"))
    waiting = {gap.rule for gap in result.not_evaluated if gap.fact == "engine.memory.draft"}
    assert "weights-do-not-fit" in waiting
    assert "max-model-len-exceeds-model" not in waiting
    assert "max-model-len-exceeds-model" in {finding.rule for finding in result.findings}


def test_why_no_reserve_can_be_kept(lint_text: Callable[..., LintResult]) -> None:
    text = manifest(["--model=meta-llama/Llama-3.1-70B-Instruct", "--max-model-len=4096"], "0.11.0", gpu="NVIDIA-L40S")
    gaps = {gap.rule: gap.reason for gap in lint_text(text).not_evaluated}
    assert gaps["progress-reserve-missing"] == "no block is left for the KV cache"
