"""``planner suggest FILE``: the smallest change that keeps the reserve, linted again before it is shown."""

from __future__ import annotations

import pytest

from planner.lint.run import select_rules
from planner.settings import Settings
from planner.suggest.changes import GOALS
from planner.suggest.existing import linted
from tests.suggest.editing import advised, changed_lines, manifests, pod

MODEL = "--model=meta-llama/Llama-3.1-8B-Instruct"
MANY = pod(f"args:\n  - {MODEL}\n  - --max-model-len=8192\n  - --max-num-seqs=128  # as many as come\n")
LONG = pod(f"args:\n  - {MODEL}\n  - --max-model-len=131072\n")


def goals(text: str, settings: Settings | None = None) -> set[tuple[str, str]]:
    found = manifests(text, settings=settings)
    return {(f.rule, f.severity) for f in linted(found, select_rules(found.settings)).findings if f.rule in GOALS}


def value_of(text: str, flag: str) -> int:
    return int(text.partition(f"--{flag}=")[2].split()[0])


def test_fewer_requests_keep_the_reserve_and_one_more_would_not() -> None:
    found, (advice,) = advised(MANY)
    after = found.texts["a.yaml"]
    assert [change.flag for change in advice.changes] == ["max-num-seqs"]
    assert advice.mended == ("progress-reserve-missing",)
    assert goals(MANY) == {("progress-reserve-missing", "warning")}
    assert goals(after) == set()
    most = value_of(after, "max-num-seqs")
    assert 1 < most < 128
    assert goals(MANY.replace("seqs=128", f"seqs={most + 1}")) != set()
    assert changed_lines(MANY, after) == (
        ["            - --max-num-seqs=128  # as many as come"],
        [f"            - --max-num-seqs={most}  # as many as come"],
    )


def test_a_second_run_changes_nothing() -> None:
    for text in (MANY, LONG):
        found, _ = advised(text)
        again, _ = advised(found.texts["a.yaml"])
        assert not again.changed


def test_what_is_to_be_kept_is_kept() -> None:
    found, (advice,) = advised(MANY, keep=("max-num-seqs",))
    assert [change.flag for change in advice.changes] == ["watermark"]
    assert goals(found.texts["a.yaml"]) == set()
    assert "--max-num-seqs=128" in found.texts["a.yaml"]
    found, (advice,) = advised(MANY, keep=("--max_num_seqs", "watermark", "gpu-memory-utilization", "kv-cache-dtype"))
    assert [change.flag for change in advice.changes] == ["max-model-len"]
    everything = (
        "max-num-seqs",
        "watermark",
        "gpu-memory-utilization",
        "kv-cache-dtype",
        "max-model-len",
        "max-num-batched-tokens",
    )
    found, (advice,) = advised(MANY, keep=everything)
    assert not found.changed
    assert [finding.rule for finding in advice.left] == ["progress-reserve-missing"]
    assert "kept as they are" in advice.reasons[-1]


def test_a_length_that_does_not_fit_is_lowered_with_room_for_several_requests() -> None:
    found, (advice,) = advised(LONG)
    assert {change.flag for change in advice.changes} == {"max-num-seqs", "max-model-len"}
    after = found.texts["a.yaml"]
    assert goals(after) == set()
    assert value_of(after, "max-num-seqs") >= 4
    assert value_of(after, "max-model-len") >= 8192


def test_a_declared_demand_that_is_too_much_is_said_in_replicas() -> None:
    demand = '{"concurrency": 200, "prompt_tokens": "p50=800,p95=3000,max=6000", "output_tokens": "p50=200,p95=800,max=2000"}'
    text = MANY.replace("  name: llm  # the name", f"  name: llm\n  annotations:\n    planner/workload: '{demand}'")
    _, (advice,) = advised(text)
    assert "workload-exceeds-capacity" in {finding.rule for finding in advice.left}
    assert any("200 requests at a time need" in reason and "replicas" in reason for reason in advice.reasons)
    assert not any(change.flag == "max-model-len" and int(change.after) < 8000 for change in advice.changes)


def test_weights_that_do_not_fit_are_said_in_gpus_and_bytes() -> None:
    text = MANY.replace("Llama-3.1-8B-Instruct", "Llama-3.1-70B-Instruct")
    found, (advice,) = advised(text)
    assert not found.changed
    assert [finding.rule for finding in advice.left] == ["weights-do-not-fit"]
    said = " ".join(advice.reasons)
    assert "needs 8 GPUs of L4" in said
    assert "smallest device memory" in said
    assert "GiB" in said


@pytest.mark.parametrize(
    ("flags", "gpus", "said"),
    [
        ("--pipeline-parallel-size=2", 2, "needs 8 GPUs of L4 in the pod (--tensor-parallel-size 4), it has 2"),
        ("--data-parallel-size=2", 2, "needs 16 GPUs of L4 in the pod (--tensor-parallel-size 8), it has 2"),
        ("--pipeline-parallel-size=3", 3, "needs 12 GPUs of L4 in the pod (--tensor-parallel-size 4), it has 3"),
        ("--data-parallel-size=4", 4, "not even 16 GPUs of L4 in one pod are enough for it with these flags"),
    ],
)
def test_stages_and_copies_take_their_share_of_the_gpus(flags: str, gpus: int, said: str) -> None:
    """Tensor × pipeline × data ranks are the GPUs of the pod."""
    text = pod(f"args:\n  - {MODEL.replace('8B', '70B')}\n  - --max-model-len=8192\n  - {flags}\n")
    _, (advice, *_) = advised(text.replace("gpu: 1", f"gpu: {gpus}"))
    assert said in advice.reasons


@pytest.mark.parametrize("select", [(), ("memory",)])
def test_no_size_is_named_that_the_heads_do_not_divide_by(select: tuple[str, ...]) -> None:
    """26 GiB of Phi-3-medium (40 heads, 10 KV heads) do not fit two T4, and cannot be cut into four or eight parts."""
    text = pod("args:\n  - --model=microsoft/Phi-3-medium-4k-instruct\n  - --dtype=half\n  - --max-model-len=4096\n")
    _, (advice, *_) = advised(text.replace("NVIDIA-L4", "Tesla-T4"), settings=Settings(select=select))
    assert "not even 2 GPUs of T4 in one pod are enough for it with these flags" in advice.reasons


def test_gpus_that_the_engine_leaves_idle_are_used_before_the_length_is_cut() -> None:
    text = MANY.replace("128  # as many as come", "8").replace("gpu: 1", "gpu: 4").replace("8192", "65536")
    text = text.replace("    spec:\n      node", "    spec:\n      hostIPC: true\n      node")
    found, (advice,) = advised(text)
    assert [change.flag for change in advice.changes][-1] in (
        "tensor-parallel-size",
        "gpu-memory-utilization",
        "max-num-seqs",
    )
    assert "--max-model-len=65536" in found.texts["a.yaml"]
    assert goals(found.texts["a.yaml"]) == set()


def test_what_somebody_has_suppressed_is_no_aim() -> None:
    text = MANY.replace("# as many as come", "# planner: ignore[progress-reserve-missing] batch jobs")
    found, advice = advised(text)
    assert not found.changed
    assert advice == ()


def test_an_engine_whose_device_is_not_known_is_left_alone() -> None:
    text = MANY.replace("nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}", "hostIPC: false")
    found, _ = advised(text)
    assert not found.changed
    found, (advice,) = advised(text, settings=Settings(assume_accelerator="L4"))
    assert [change.flag for change in advice.changes] == ["max-num-seqs"]


def test_settings_by_path_hold_for_suggestions_too() -> None:
    found, _ = advised(MANY, settings=Settings(ignore=("progress-reserve-missing",)))
    assert not found.changed


def test_both_containers_of_a_file_are_changed() -> None:
    text = MANY + "---\n" + LONG.replace("name: llm ", "name: other ")
    found, advice = advised(text)
    assert len(advice) == 2
    assert goals(found.texts["a.yaml"]) == set()


def test_sglang_is_changed_by_its_own_flags() -> None:
    text = pod(
        "command: [python3, -m, sglang.launch_server]\n"
        f"args: [--model-path, {MODEL[8:]}, --host, 0.0.0.0, --context-length, '131072', --mem-fraction-static, '0.6']"
    ).replace("vllm/vllm-openai:v0.24.0", "lmsysorg/sglang:v0.5.5")
    before = goals(text)
    found, advice = advised(text)
    if before:
        (one,) = advice
        assert {change.flag for change in one.changes} <= {
            "mem-fraction-static", "context-length", "max-running-requests", "chunked-prefill-size", "kv-cache-dtype",
        }  # fmt: skip
        assert len(goals(found.texts["a.yaml"])) < len(before) or one.left
    else:
        assert advice == ()


@pytest.mark.parametrize(
    "text", ["", "a: 1\n", "kind: Deployment\napiVersion: apps/v1\n", "\ufeff", "- - -\n", "{{ x }}"]
)
def test_what_runs_no_engine_is_no_problem(text: str) -> None:
    found, advice = advised(text)
    assert advice == ()
    assert not found.changed
