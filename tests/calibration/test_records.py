"""Start-up logs as records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.calibration.records import arguments, read, record_of

CASE = {
    "id": "a-log",
    "engine": "vllm",
    "engine_version": "0.17.1",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "gpu": "RTX-3090",
    "gpu_memory_gib": 23.54,
    "gpu_memory_utilization": 0.9,
    "max_model_len": 8192,
    "weights_gib": 14.99,
    "kv_available_gib": 5.61,
    "outcome": "ok",
}


def test_fields_become_facts() -> None:
    record = record_of(CASE)
    assert record is not None
    assert record.config.version[:3] == (0, 17, 1)
    assert record.config.max_model_len.value == 8192
    assert (record.device, record.device_known, record.version_assumed) == (23.54, True, False)
    assert record.overhead == pytest.approx(0.9 * 23.54 - 14.99 - 5.61)


def test_device_memory_that_cannot_be_is_the_catalogs() -> None:
    """Decimal gigabytes, or nvidia-smi's figure: the driver's own is another."""
    record = record_of({**CASE, "gpu_memory_gib": 25.77})
    assert record is not None
    assert not record.device_known
    assert record.device == pytest.approx(23.56, abs=0.2)


def test_no_release_no_device() -> None:
    record = record_of({**CASE, "engine_version": None, "gpu": None, "gpu_memory_gib": None})
    assert record is not None
    assert record.version_assumed
    assert record.accelerator is None
    assert record.budget() is None
    assert record.overhead is None


@pytest.mark.parametrize(
    "change", [{"model": "nobody/unknown"}, {"model": None}, {"gpu": "a toaster"}, {"engine": "sglang"}]
)
def test_what_is_not_known_is_left_out(change: dict[str, object]) -> None:
    assert record_of({**CASE, **change}) is None


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            "non-default args: {'model': 'x', 'cpu_offload_gb': 12.0, 'enable_lora': True}",
            "--cpu-offload-gb 12.0 --enable-lora",
        ),
        (
            "vllm serve x --block-size=128 --port 80 --enable-lora --max_loras 4",
            "--block-size 128 --enable-lora --max_loras 4",
        ),
        ("single A100, eager mode", ""),
        ("an unclosed 'quote --block-size 3", ""),
        ("non-default args: {'a': [}", ""),
        (None, ""),
    ],
)
def test_command_text(flags: str | None, words: str) -> None:
    assert " ".join(arguments({"flags": flags})) == words


def test_values_with_remarks() -> None:
    words = arguments({"kv_cache_dtype": "auto (bf16)", "tp": 1, "pp": 2, "enforce_eager": True, "ep": True})
    expected = [
        "--pipeline-parallel-size",
        "2",
        "--kv-cache-dtype",
        "auto",
        "--enforce-eager",
        "--enable-expert-parallel",
    ]
    assert words == expected


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "logs.jsonl"
    path.write_text(json.dumps(CASE) + "\n\n" + json.dumps({"model": None}) + "\n")
    assert [record.id for record in read(path)] == ["a-log"]
    path.write_text("{}\nnot json\n")
    with pytest.raises(ValueError, match=r"logs\.jsonl:2"):
        list(read(path))
    path.write_text("[1]\n")
    with pytest.raises(ValueError, match="object"):
        list(read(path))


def test_speculation_and_variables_are_read_from_their_texts() -> None:
    text = "-tp 2 --decode-context-parallel-size 2 ; VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0, VLLM_USE_V1=1"
    case = {**CASE, "engine_version": "0.20.0", "speculative": "mtp num_spec_tokens=3", "flags": text}
    assert arguments(case)[-4:] == [
        "--speculative-config",
        '{"method": "mtp", "num_speculative_tokens": 3}',
        "--decode-context-parallel-size",
        "2",
    ]
    record = record_of(case)
    assert record is not None
    assert record.config.graphs_estimated is False
    assert (record.config.speculative_method, record.config.speculative_tokens) == ("mtp", 3)


def test_a_sum_beyond_the_share_is_no_overhead() -> None:
    record = record_of({**CASE, "kv_available_gib": 9.0})
    assert record is not None
    assert record.overhead is None


def test_a_build_from_source_has_no_release() -> None:
    record = record_of({**CASE, "engine_version": "0.1.dev20051+g487ecf187"})
    assert record is not None
    assert record.version_assumed


def test_forks_say_nothing_of_a_release() -> None:
    case = {"id": "a", "engine": "vllm", "model": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "RTX-3090"}
    upstream = record_of({**case, "engine_version": "0.20.2"})
    fork = record_of({**case, "engine_version": "0.20.2rc1.dev249+kernels (somebody's fork)"})
    unstated = record_of(case)
    assert upstream is not None
    assert fork is not None
    assert unstated is not None
    assert (upstream.of_release, fork.of_release, unstated.of_release) == (True, False, False)
