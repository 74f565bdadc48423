"""Which weights stay on the GPU, read from flags and variables of each release."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.engines.architectures import stages_since, supported_since, supported_until
from planner.engines.config import EffectiveConfig, EngineConfig
from planner.engines.vllm import parse_argv
from planner.engines.vllm_defaults import effective
from planner.engines.vllm_placement import layer_partition
from planner.models.resolve import resolve
from planner.provenance import Fact, Provenance, assumed

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
GEMMA = "google/gemma-3-27b-it"
VISION = "Qwen/Qwen2.5-VL-7B-Instruct"
OPTION = Provenance("option", "test")


def engine(version: str, flags: str, env: dict[str, str] | None = None) -> EngineConfig:
    variables = {name: Fact(value, OPTION) for name, value in (env or {}).items()}
    return parse_argv(flags.split(), version=Fact(version, OPTION), model=Fact("m", OPTION), env=variables)


def config(model: str, version: str, flags: str = "", env: dict[str, str] | None = None) -> EffectiveConfig:
    return effective(engine(version, flags, env), resolve(model).architecture, None, None)


@pytest.mark.parametrize(
    ("model", "version", "flags", "loaded"),
    [
        (GEMMA, "0.20.0", "", True),
        (GEMMA, "0.20.0", "--language-model-only", False),
        (GEMMA, "0.20.0", '--limit-mm-per-prompt {"image":0}', False),
        (GEMMA, "0.12.0", '--limit-mm-per-prompt {"image":0}', True),  # only some families could leave it out
        (VISION, "0.12.0", '--limit-mm-per-prompt {"image":0,"video":0}', False),
        (VISION, "0.20.0", '--limit-mm-per-prompt {"image":0}', True),  # videos still need it
        (VISION, "0.20.0", '--limit-mm-per-prompt {"image":0,"video":1}', True),
        (LLAMA, "0.20.0", "--language-model-only", True),  # nothing to leave out
    ],
)
def test_encoders_are_left_out(model: str, version: str, flags: str, loaded: bool) -> None:
    assert config(model, version, flags).towers_loaded is loaded


def test_whole_encoders() -> None:
    assert config(VISION, "0.20.0", "--mm-encoder-tp-mode data").towers_whole
    assert config(VISION, "0.9.2", "--enable-multimodal-encoder-data-parallel").towers_whole
    assert not config(VISION, "0.20.0").towers_whole


def test_offloading_schemes() -> None:
    assert config(LLAMA, "0.17.1", "--cpu-offload-gb 4.5").cpu_offload_gib == 4.5
    both = config(LLAMA, "0.19.0", "--cpu-offload-gb 4 --offload-group-size 8")
    assert (both.cpu_offload_gib, both.offload_groups) == (0.0, (8, 1, 1))
    chosen = config(LLAMA, "0.19.0", "--cpu-offload-gb 4 --offload-group-size 8 --offload-backend uva")
    assert (chosen.cpu_offload_gib, chosen.offload_groups) == (4.0, None)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [("10,22", (10, 22)), (" 1, 2 ,3", (1, 2, 3)), ("", None), ("a,b", None), ("1,,2", None), ("1;2", None)],
)
def test_layer_partition(text: str, sizes: tuple[int, ...] | None) -> None:
    assert layer_partition(engine("0.20.0", "", {"VLLM_PP_LAYER_PARTITION": text})) == sizes


def test_attention_kernel() -> None:
    assert config(LLAMA, "0.20.0", "--attention-backend triton_attn").attention_backend == "TRITON_ATTN"
    assert config(LLAMA, "0.20.0", '--attention-config {"backend":"FLASHINFER"}').attention_backend == "FLASHINFER"
    variable = {"VLLM_ATTENTION_BACKEND": "FLASHINFER"}
    assert config(LLAMA, "0.12.0", "", variable).attention_backend == "FLASHINFER"
    assert config(LLAMA, "0.20.0", "", variable).attention_backend == ""  # no longer read


def test_estimate_of_graphs() -> None:
    variable = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"
    assert config(LLAMA, "0.20.0", "", {variable: "0"}).graphs_estimated is False
    assert config(LLAMA, "0.20.0").graphs_estimated is None


def test_frontend_memory() -> None:
    assert config(VISION, "0.26.0", "--mm-ipc-gpu-memory-gb 2").frontend_reserved == 2 << 30
    assert config(VISION, "0.24.0").frontend_reserved == 0


def test_draft_of_its_own() -> None:
    flags = '--speculative-config {"method":"eagle3","model":"x/y","num_speculative_tokens":3,"draft_tensor_parallel_size":1}'
    found = config(LLAMA, "0.20.0", flags)
    assert (found.speculative_method, found.speculative_model, found.draft_tensor) == ("eagle3", "x/y", 1)


def test_architectures_by_release() -> None:
    assert supported_since("vllm", "LlamaForCausalLM") == (0, 6, 0)
    assert supported_since("vllm", "Qwen3ForCausalLM") == (0, 8, 4)
    assert supported_since("vllm", "GptOssForCausalLM") == (0, 10, 1)
    assert supported_since("vllm", "NobodysForCausalLM") is None
    assert supported_until("vllm", "LlamaForCausalLM") is None
    assert supported_until("vllm", "BartForConditionalGeneration") == (0, 10, 2)
    assert supported_since("sglang", "DeepseekV4ForCausalLM") == (0, 5, 12)
    assert supported_since("sglang", "Qwen3MoeForCausalLM") == (0, 4, 5, 2)


def test_an_assumed_release_knows_the_oldest_that_has_the_model() -> None:
    guess = parse_argv([], version=assumed("0.33.0", "nothing states it"), model=Fact(LLAMA, OPTION))
    assert effective(guess, resolve(LLAMA).architecture, None, None).oldest_release == (0, 6, 0)
    assert config(LLAMA, "0.33.0").oldest_release == ()


@pytest.mark.parametrize("version", ["0.0.0", "0.1.dev20051+g487ecf187", "0.1"])
def test_a_build_from_source_states_no_release(version: str) -> None:
    found = engine(version, "--max-model-len 4096")
    assert found.version.value == "0.33.0"
    assert found.version.provenance.source == "assumption"
    assert version in found.version.provenance.text


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["image", "video", "audio", "x"]), st.integers(-3, 3) | st.none() | st.text()))
def test_limits_of_any_kind(limits: dict[str, object]) -> None:
    import json

    words = ["--limit-mm-per-prompt", json.dumps(limits)]
    found = parse_argv(words, version=Fact("0.20.0", OPTION), model=Fact(VISION, OPTION))
    assert effective(found, resolve(VISION).architecture, None, None).towers_loaded in (True, False)


def test_releases_that_split_an_architecture_over_stages() -> None:
    assert stages_since("vllm", "WhisperForConditionalGeneration", (0, 24, 0)) == ""
    assert stages_since("vllm", "GptOssForCausalLM", (0, 10, 1)) == "0.10.2"
    assert stages_since("vllm", "GptOssForCausalLM", (0, 10, 2)) is None
    assert stages_since("vllm", "BartForConditionalGeneration", (0, 10, 2)) == ""  # its last release
    assert stages_since("vllm", "DiffusionGemmaForBlockDiffusion", (0, 26, 0)) is None
    assert stages_since("vllm", "DiffusionGemmaForBlockDiffusion", (0, 27, 0)) == ""
    assert stages_since("vllm", "DeepSeekMTPModel", (0, 13, 0)) is None
    assert stages_since("vllm", "DeepSeekMTPModel", (0, 14, 0)) == "0.30.0"
    assert stages_since("vllm", "LlamaForCausalLM", (0, 6, 0)) is None
    assert stages_since("vllm", "NobodysForCausalLM", (0, 24, 0)) is None
    assert stages_since("vllm", "WhisperForConditionalGeneration", (0, 99)) is None  # newer than the table
    assert stages_since("sglang", "MiniMaxM2ForCausalLM", (0, 5, 9)) == "0.5.10"
    assert stages_since("sglang", "MiniMaxM2ForCausalLM", (0, 5, 5)) is None  # did not ask
    assert stages_since("sglang", "SolarForCausalLM", (0, 5, 21)) == "0.5.22"
